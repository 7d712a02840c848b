/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reading memory that another process may write at the same time. A plain load or memcpy() allows
 * the compiler to read twice, so that the value that is used is not the value that was checked.
 * These read each word exactly once. Words that are _Atomic need none of this. */
#ifndef GPUD_BASE_SHARED_H
#define GPUD_BASE_SHARED_H

#include <stddef.h>
#include <stdint.h>

/* Whatever type the memory has. */
typedef uint64_t __attribute__((may_alias)) gpud_shared_word;

/* Copies a range that begins on a word. It may be torn between words, never within one. */
static inline void gpud_shared_read(void *to, const void *from, size_t size)
{
    gpud_shared_word *into = to;
    const gpud_shared_word *word = from;
    size_t words = size / sizeof(*word);
    for (size_t i = 0; i < words; i++)
        into[i] = __atomic_load_n(&word[i], __ATOMIC_RELAXED);
    for (size_t at = words * sizeof(*word); at < size; at++)
        ((uint8_t *)to)[at] = __atomic_load_n((const uint8_t *)from + at, __ATOMIC_RELAXED);
}

#endif
