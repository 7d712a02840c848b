/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads memory that another process may be writing. With a plain load or memcpy() the compiler may
 * read twice, and use another value than it checked. These functions read each word exactly once.
 * _Atomic words do not need them. */
#ifndef GPUD_BASE_SHARED_H
#define GPUD_BASE_SHARED_H

#include <stddef.h>
#include <stdint.h>

/* May alias any type. */
typedef uint64_t __attribute__((may_alias)) gpud_shared_word;

/* Copies a word-aligned range. It may be torn between words, never within one. */
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
