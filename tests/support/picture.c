/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "support/picture.h"

#include <pthread.h>
#include <string.h>

#define PERIOD 65521 /* prime: no stride is a multiple of it */
#define ROW_MAX (1 << 19)

/* Noise; a row is a piece of it that begins where its number, plane and row say. */
static uint8_t noise[PERIOD + ROW_MAX];

static void make_noise(void)
{
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < PERIOD; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        noise[i] = (uint8_t)(x >> 32);
    }
    for (size_t i = PERIOD; i < sizeof(noise); i++)
        noise[i] = noise[i - PERIOD];
}

static const uint8_t *row_of(uint64_t number, uint32_t plane, uint32_t row)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_noise);
    return noise + (number * 7919 + plane * UINT64_C(104729) + row * UINT64_C(613)) % PERIOD;
}

void picture_write(const struct gpud_layout *layout, void *data, uint64_t number)
{
    for (uint32_t p = 0; p < layout->planes; p++) {
        const struct gpud_plane *plane = &layout->plane[p];
        for (uint32_t row = 0; row < plane->rows; row++)
            memcpy((char *)data + plane->offset + (uint64_t)row * plane->stride,
                   row_of(number, p, row), plane->row_bytes);
    }
}

bool picture_check(const struct gpud_layout *layout, const void *data, uint64_t number,
                   uint32_t *plane_at, uint32_t *row_at, uint32_t *byte_at)
{
    for (uint32_t p = 0; p < layout->planes; p++) {
        const struct gpud_plane *plane = &layout->plane[p];
        for (uint32_t row = 0; row < plane->rows; row++) {
            const uint8_t *got =
                (const uint8_t *)data + plane->offset + (uint64_t)row * plane->stride;
            const uint8_t *wanted = row_of(number, p, row);
            if (memcmp(got, wanted, plane->row_bytes) == 0)
                continue;
            *plane_at = p;
            *row_at = row;
            for (*byte_at = 0; got[*byte_at] == wanted[*byte_at];)
                ++*byte_at;
            return false;
        }
    }
    return true;
}

uint64_t picture_find(const struct gpud_layout *layout, const void *data, uint64_t number)
{
    uint32_t plane, row, byte;
    for (uint64_t near = number > 100 ? number - 100 : 1; near < number + 100; near++)
        if (picture_check(layout, data, near, &plane, &row, &byte))
            return near;
    return 0;
}

void picture_stretch(struct gpud_layout *layout)
{
    uint64_t offset = 160;
    for (uint32_t p = 0; p < layout->planes; p++) {
        layout->plane[p].offset = offset;
        layout->plane[p].stride += 96 + 32 * p;
        offset += (uint64_t)layout->plane[p].stride * layout->plane[p].rows + 64;
    }
    layout->size = offset;
}
