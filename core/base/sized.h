/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Info structs whose first field is `size`: a program that was built with another release has
 * another size, and gets the fields that it knows. */
#ifndef GPUD_BASE_SIZED_H
#define GPUD_BASE_SIZED_H

#include <stddef.h>
#include <string.h>

/* Fills the caller's struct of `size` bytes, which keeps its size; what it has beyond ours is
 * zero. */
static inline void gpud_sized_copy(void *to, size_t size, const void *from, size_t from_size)
{
    size_t both = size < from_size ? size : from_size;
    if (both < sizeof(size))
        return;
    memset(to, 0, size);
    memcpy(to, from, both);
    memcpy(to, &size, sizeof(size));
}

#endif
