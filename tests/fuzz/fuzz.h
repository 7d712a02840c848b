/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A fuzz target is one function, as libFuzzer requires. Linked with replay.c instead, it is an
 * ordinary test that runs over its corpus and over mutated copies of it. */
#ifndef GPUD_TESTS_FUZZ_H
#define GPUD_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Takes bytes from the input as long as there are some, then zeros. */
struct fuzz_input {
    const uint8_t *data;
    size_t size;
};

static inline uint32_t fuzz_number(struct fuzz_input *input, unsigned bytes)
{
    uint32_t value = 0;
    while (bytes--) {
        value <<= 8;
        if (input->size) {
            value |= *input->data++;
            input->size--;
        }
    }
    return value;
}

#endif
