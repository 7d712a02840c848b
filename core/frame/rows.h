/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A part of a picture: some of its rows, and as large a part of each plane, rounded down. */
#ifndef GPUD_FRAME_ROWS_H
#define GPUD_FRAME_ROWS_H

#include "device/device.h"
#include <gpudirect/layout.h>

/* A picture that is copied while it is written is copied in at most so many steps, the last of
 * which is its end: each is a command for a device, and a wake-up. */
#define GPUD_LINES_STEPS 8

static inline uint32_t gpud_lines_step(uint32_t height)
{
    return (height + GPUD_LINES_STEPS - 1) / GPUD_LINES_STEPS;
}

struct gpud_rows {
    uint32_t from, to; /* of the picture: from the first one, to before the second one */
};

/* The bytes of a plane that these rows have, from the start of the frame; the last row ends with
 * its picture. *size 0: none. */
void gpud_rows_of_plane(const struct gpud_layout *layout, uint32_t plane, struct gpud_rows rows,
                        uint64_t *offset, uint64_t *size);

/* Enqueues their copy, plane by plane, between two frames of one picture, whose layouts may differ.
 * frames: the two memories, and the offsets of the frames in them; its other fields do not count.
 */
enum gpud_status gpud_rows_copy(struct gpud_queue *queue, const struct gpud_copy *frames,
                                const struct gpud_layout *to, const struct gpud_layout *from,
                                struct gpud_rows rows, struct gpud_error *error);

#endif
