/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef DGMA_LAYER_ALIAS_INFO_H
#define DGMA_LAYER_ALIAS_INFO_H

#include <CL/cl_icd.h>

void dgma_alias_info_install(cl_icd_dispatch *table);

#endif
