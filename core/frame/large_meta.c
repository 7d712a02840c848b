/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "frame/large_meta.h"

#include <stdatomic.h>
#include <stdlib.h>

struct large_meta {
    atomic_uint references;
    _Alignas(64) uint8_t bytes[];
};

static struct large_meta *find(const void *bytes)
{
    return (struct large_meta *)((uintptr_t)bytes - offsetof(struct large_meta, bytes));
}

void *gpud_large_meta_create(size_t size)
{
    struct large_meta *made = aligned_alloc(_Alignof(struct large_meta),
                                            gpud_large_meta_room((uint32_t)size) + sizeof(*made));
    if (!made)
        return NULL;
    atomic_init(&made->references, 1);
    return made->bytes;
}

void gpud_large_meta_ref(const void *bytes)
{
    if (bytes)
        atomic_fetch_add_explicit(&find(bytes)->references, 1, memory_order_relaxed);
}

void gpud_large_meta_unref(const void *bytes)
{
    if (bytes && atomic_fetch_sub_explicit(&find(bytes)->references, 1, memory_order_acq_rel) == 1)
        free(find(bytes));
}
