/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* No images on the bus. */

#ifndef DGMA_LAYER_IMAGE_H
#define DGMA_LAYER_IMAGE_H

#include <CL/cl_icd.h>

void dgma_image_install(cl_icd_dispatch *table);

#endif
