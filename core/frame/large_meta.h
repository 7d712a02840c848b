/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The bytes of a large meta, shared by a frame and what is left of it where it waits. Each pointer
 * to them is a reference; NULL: none. */
#ifndef GPUD_FRAME_LARGE_META_H
#define GPUD_FRAME_LARGE_META_H

#include "base/error.h"
#include <gpudirect/frame.h>

/* The room for one in a link's memory, so that each begins at a line of its own. */
static inline size_t gpud_large_meta_room(uint32_t max)
{
    return ((size_t)max + 63) & ~(size_t)63;
}

/* With one reference; bytes are uninitialised. NULL: out of memory. */
void *gpud_large_meta_create(size_t size);
void gpud_large_meta_ref(const void *bytes);
void gpud_large_meta_unref(const void *bytes);

/* Drops the frame's. */
static inline void gpud_large_meta_clear(struct gpud_frame_info *info)
{
    if (!info->large_meta)
        return;
    gpud_large_meta_unref(info->large_meta);
    info->large_meta = NULL;
    info->large_meta_size = 0;
}

#endif
