/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The functions below the layer, and its log. */

#ifndef DGMA_LAYER_NEXT_H
#define DGMA_LAYER_NEXT_H

#include <CL/cl_icd.h>
#include <stddef.h>

#include "amd.h"

#define DGMA_PAGE ((size_t)4096)

/* The functions of the driver, or of the next layer. Constant once the loader has called
 * clInitLayer. */
extern cl_icd_dispatch dgma_next;

/* With GPUDIRECT_DGMA_LOG=1 explains refusals on stderr, as OpenCL has only numbers for them. */
void dgma_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
