/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A FirePro card's answers to queries. */

#ifndef DGMA_LAYER_FIREPRO_H
#define DGMA_LAYER_FIREPRO_H

#include <stdbool.h>
#include <stdint.h>

#include "card.h"

/* One query of clGetDeviceInfo or clGetPlatformInfo. */
struct dgma_answer {
    size_t size;
    union {
        char text[128];
        cl_uint number;
        cl_ulong wide;
        size_t sizes[2];
        cl_device_id none;
        cl_device_partition_property partition;
        uint8_t bytes[24];
    };
};

/* false: the query is left to the driver. */
bool dgma_firepro_device(const struct dgma_card *card, cl_device_info name,
                         struct dgma_answer *answer);
bool dgma_firepro_platform(cl_platform_id platform, cl_platform_info name,
                           struct dgma_answer *answer);

#endif
