/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef DGMA_LAYER_ALIAS_H
#define DGMA_LAYER_ALIAS_H

#include <CL/cl_icd.h>

void dgma_alias_install(cl_icd_dispatch *table);

/* Functions that are found only by name, as extensions are; NULL: not one of the layer's. */
void *dgma_alias_function(const char *name);

#endif
