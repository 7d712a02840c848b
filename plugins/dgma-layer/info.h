/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Extension strings, flags and sizes. */

#ifndef DGMA_LAYER_INFO_H
#define DGMA_LAYER_INFO_H

#include <CL/cl_icd.h>

void dgma_info_install(cl_icd_dispatch *table);

#endif
