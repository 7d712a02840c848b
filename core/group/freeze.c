/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "group/freeze.h"

#include "frame/frame.h"

/* What is compared of a picture: pieces of so many bytes, which are spread over it. */
#define PIECES 4096
#define PIECE 64

#if GPUD_WITH_XXHASH

#define XXH_INLINE_ALL
#include <xxhash.h>

enum gpud_status gpud_freeze_check_device(const struct gpud_device *device,
                                          struct gpud_error *error)
{
    if (device->caps & GPUD_CAP_HOST)
        return GPUD_OK;
    return gpud_fail(error, GPUD_UNSUPPORTED,
                     "a frozen picture on %s is not noticed, because the CPU would have to copy "
                     "each picture to the host: receive on the host, or set no freeze timeout",
                     device->info.name);
}

/* Pieces of every row, as far as there are enough: in each row at other columns, so that what is
 * small is met, too. Memory that a sender made large is not read as a whole. */
static uint64_t hash_of(const char *data, const struct gpud_layout *layout)
{
    uint64_t hash = 0, pieces = PIECES / layout->planes;
    for (uint32_t p = 0; p < layout->planes; p++) {
        const struct gpud_plane *plane = &layout->plane[p];
        uint64_t step = (plane->rows - 1) / pieces + 1;
        step |= step > 1; /* odd: of both fields */
        uint64_t in_row = pieces / ((plane->rows - 1) / step + 1);
        uint64_t every = (plane->row_bytes / in_row / PIECE + 1) * PIECE, shift = 0;
        for (uint64_t row = 0; row < plane->rows; row += step, shift += PIECE) {
            const char *start = data + plane->offset + row * plane->stride;
            for (uint64_t at = shift % every; at < plane->row_bytes; at += every) {
                uint64_t left = plane->row_bytes - at;
                hash = XXH3_64bits_withSeed(start + at, left < PIECE ? left : PIECE, hash);
            }
        }
    }
    return hash;
}

bool gpud_freeze_note(struct gpud_freeze *freeze, struct gpud_frame *frame, uint64_t time,
                      int64_t timeout)
{
    const struct gpud_layout *layout = &frame->info.layout;
    void *data;
    if (frame->queue || layout->planes == 0 || (frame->info.flags & GPUD_FRAME_CORRUPTED) ||
        gpud_frame_map(frame, GPUD_READ, 0, &data, NULL) != GPUD_OK)
        return false;
    uint64_t hash = hash_of(data, layout);
    gpud_frame_unmap(frame);
    if (!freeze->begun || hash != freeze->hash || time < freeze->since)
        *freeze = (struct gpud_freeze){.begun = true, .hash = hash, .since = time};
    return time - freeze->since >= (uint64_t)timeout;
}

#else

enum gpud_status gpud_freeze_check_device(const struct gpud_device *device,
                                          struct gpud_error *error)
{
    return gpud_fail(error, GPUD_UNSUPPORTED,
                     "a frozen picture is not noticed, because the library was built without "
                     "xxhash: install it (Debian: apt install libxxhash-dev), and build it again");
}

bool gpud_freeze_note(struct gpud_freeze *freeze, struct gpud_frame *frame, uint64_t time,
                      int64_t timeout)
{
    return false;
}

#endif
