/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The external buffers that kernels have as arguments. */

#ifndef DGMA_LAYER_KERNELS_H
#define DGMA_LAYER_KERNELS_H

#include <CL/cl_icd.h>

/* Calls `give` for each of them. */
void dgma_kernel_externals(cl_kernel kernel, void (*give)(void *user_data, cl_mem mem),
                           void *user_data);
void dgma_kernels_install(cl_icd_dispatch *table);

#endif
