/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "stream/shared/pattern.h"

#define HEAD UINT64_C(65536)
#define TAIL UINT64_C(4096)

/* splitmix64: makes each position's byte independent of its neighbours. */
static uint8_t pattern_byte(uint64_t nonce, uint64_t position)
{
    uint64_t x = nonce + (position + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint8_t)(x ^ x >> 31);
}

/* The next covered position. */
static uint64_t next(uint64_t position, uint64_t size)
{
    position++;
    return position == HEAD && size > HEAD + TAIL ? size - TAIL : position;
}

void gpud_pattern_write(void *frame, uint64_t size, uint64_t nonce)
{
    uint8_t *bytes = frame;
    for (uint64_t i = 0; i < size; i = next(i, size))
        bytes[i] = pattern_byte(nonce, i);
}

bool gpud_pattern_check(const void *frame, uint64_t size, uint64_t nonce)
{
    const uint8_t *bytes = frame;
    for (uint64_t i = 0; i < size; i = next(i, size))
        if (bytes[i] != pattern_byte(nonce, i))
            return false;
    return true;
}
