/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What lies below the layer, and what it says to the user. */

#ifndef DGMA_LAYER_NEXT_H
#define DGMA_LAYER_NEXT_H

#include <CL/cl_icd.h>
#include <stddef.h>

#include "amd.h"

#define DGMA_PAGE ((size_t)4096)

/* The functions of the driver, or of the next layer. Constant once the loader has called
 * clInitLayer. */
extern cl_icd_dispatch dgma_next;

/* OpenCL gives a refusal a number only; with GPUDIRECT_DGMA_LOG=1 its sentence goes to stderr. */
void dgma_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
