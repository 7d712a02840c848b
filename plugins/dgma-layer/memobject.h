/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The memory objects of the extension: created, shared and released. */

#ifndef DGMA_LAYER_MEMOBJECT_H
#define DGMA_LAYER_MEMOBJECT_H

#include <CL/cl_icd.h>

void dgma_memobject_install(cl_icd_dispatch *table);

#endif
