/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The keys of registered memory. */
#ifndef GPUD_RDMA_KEYS_H
#define GPUD_RDMA_KEYS_H

#include <gpudirect/transfer.h>

static inline struct gpud_region_key key_of(const struct gpud_region *region)
{
    struct gpud_region_info info = GPUD_INFO_INIT(info);
    gpud_region_get_info(region, &info);
    return info.key;
}

#endif
