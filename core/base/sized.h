/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Structs of the public API whose first field is `size`: a program that was built with another
 * release has another size, and gets along as <gpudirect/version.h> promises. Whoever adds a field
 * adds it at the end, and never into the padding of the last one: an older program's size covers
 * that padding. */
#ifndef GPUD_BASE_SIZED_H
#define GPUD_BASE_SIZED_H

#include "base/error.h"

#include <stddef.h>

/* The caller's params, of whichever release, as a struct of this one: `to`, of `known` bytes. What
 * an older program has not got is 0; what a newer one has beyond `known` must be 0, for it would be
 * ignored. `required`: where the first field ends without which nothing works. `name`: the
 * struct's, for the sentence. On failure `to` is not written. */
#define GPUD_END_OF(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))
enum gpud_status gpud_sized_read(void *to, size_t known, const void *from, size_t required,
                                 const char *name, struct gpud_error *error);

/* Fills the caller's struct of `size` bytes, which keeps its size; what it has beyond ours is
 * zero. A size that was never set gets nothing. */
void gpud_sized_copy(void *to, size_t size, const void *from, size_t from_size);

/* The same for one entry of the caller's list of `max`, all of which have the first one's size;
 * nothing beyond max. */
void gpud_sized_entry(void *list, size_t max, size_t at, const void *from, size_t from_size);

#endif
