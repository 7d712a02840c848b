/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A list of the public API, gpud_<x>_list: entries of one size, each of which begins with the
 * public record, whose first field is its size. One thread fills it; afterwards it is only read. */
#ifndef GPUD_BASE_LIST_H
#define GPUD_BASE_LIST_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct gpud_list {
    const char *what; /* one of them, for sentences: "capture card" */
    size_t entry_size, record_size;
    char *entries; /* NULL: none */
    uint32_t count;
};

/* Appends an entry that is zero but for its record's size; valid until the next is added. NULL: out
 * of memory, which *error says. */
void *gpud_list_add(struct gpud_list *list, struct gpud_error *error);

void *gpud_list_entry(const struct gpud_list *list, uint32_t index);

/* Copies a record into the caller's, which may be of an older release. GPUD_INVALID: the index is
 * count or more, or the caller's size is not set. */
enum gpud_status gpud_list_get_info(const struct gpud_list *list, uint32_t index, void *info,
                                    struct gpud_error *error);

/* An array of pointers to each entry of another array, for the public records in which a record
 * leads to others. To be freed with free(); NULL: out of memory. */
void *gpud_list_point(void *entries, size_t count, size_t entry_size);

/* Frees the entries, not what they point to. */
void gpud_list_clear(struct gpud_list *list);

#endif
