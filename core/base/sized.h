/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Structs of the public API whose first field is `size`: a program built with another release has
 * another size, and works as <gpudirect/version.h> promises. New fields go to the end, never into
 * the padding after the last one, which an older program's size covers. */
#ifndef GPUD_BASE_SIZED_H
#define GPUD_BASE_SIZED_H

#include "base/error.h"

#include <stddef.h>

/* Reads the caller's params, of any release, into this release's struct `to` of `known` bytes.
 * Fields that an older program lacks become 0; those beyond `known` must be 0, because they would
 * be ignored. `required`: the end of the first mandatory field. `name`: the struct's, for reasons.
 * On failure `to` is not written. */
#define GPUD_END_OF(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))
enum gpud_status gpud_sized_read(void *to, size_t known, const void *from, size_t required,
                                 const char *name, struct gpud_error *error);

/* Fills the caller's struct of `size` bytes, keeping its size field; bytes beyond our struct become
 * zero. Does nothing if size was never set. */
void gpud_sized_copy(void *to, size_t size, const void *from, size_t from_size);

/* The same for one entry of the caller's array of `max`, which all have the first one's size; does
 * nothing beyond max. */
void gpud_sized_entry(void *list, size_t max, size_t at, const void *from, size_t from_size);

#endif
