/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GPUDIRECT_DGMA_AS=firepro or firepro:N: what programs that were written for FirePro cards look
 * for before they use DirectGMA. disguise.c says which devices there are, firepro.c what they
 * answer. */

#ifndef DGMA_LAYER_DISGUISE_H
#define DGMA_LAYER_DISGUISE_H

#include <CL/cl_icd.h>
#include <stdbool.h>

/* Reads the variable. Without it, or with nonsense, nothing is installed and no platform is
 * disguised. */
void dgma_disguise_install(cl_icd_dispatch *table);
bool dgma_platform_is_disguised(cl_platform_id platform);
/* Functions that exist only under a name, for loaders of extensions; NULL: none of the layer's. */
void *dgma_disguise_function(const char *name);

#endif
