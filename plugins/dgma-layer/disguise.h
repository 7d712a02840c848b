/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GPUDIRECT_DGMA_AS=firepro or firepro:N: shows what programs for FirePro cards check before they
 * use DirectGMA. disguise.c makes the devices, firepro.c answers queries about them. */

#ifndef DGMA_LAYER_DISGUISE_H
#define DGMA_LAYER_DISGUISE_H

#include <CL/cl_icd.h>
#include <stdbool.h>

/* Reads the variable. If it is unset or invalid, nothing is installed, and no platform disguised.
 */
void dgma_disguise_install(cl_icd_dispatch *table);
bool dgma_platform_is_disguised(cl_platform_id platform);
/* Functions that are found only by name, as extensions are; NULL: not one of the layer's. */
void *dgma_disguise_function(const char *name);

#endif
