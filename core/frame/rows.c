/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "frame/rows.h"

/* The rows of a plane above a row of the picture. */
static uint32_t rows_above(const struct gpud_layout *layout, const struct gpud_plane *plane,
                           uint32_t row)
{
    return row < layout->height ? (uint32_t)((uint64_t)plane->rows * row / layout->height)
                                : plane->rows;
}

void gpud_rows_of_plane(const struct gpud_layout *layout, uint32_t plane, struct gpud_rows rows,
                        uint64_t *offset, uint64_t *size)
{
    const struct gpud_plane *its = &layout->plane[plane];
    uint64_t from = rows_above(layout, its, rows.from), to = rows_above(layout, its, rows.to);
    *offset = its->offset + from * its->stride;
    *size = to > from ? (to - from - 1) * its->stride + its->row_bytes : 0;
}

enum gpud_status gpud_rows_copy(struct gpud_queue *queue, const struct gpud_copy *frames,
                                const struct gpud_layout *to, const struct gpud_layout *from,
                                struct gpud_rows rows, struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < to->planes && status == GPUD_OK; i++) {
        const struct gpud_plane *to_plane = &to->plane[i], *from_plane = &from->plane[i];
        uint32_t first = rows_above(to, to_plane, rows.from);
        struct gpud_copy copy = {
            .to = frames->to,
            .from = frames->from,
            .to_offset = frames->to_offset + to_plane->offset + (uint64_t)first * to_plane->stride,
            .from_offset =
                frames->from_offset + from_plane->offset + (uint64_t)first * from_plane->stride,
            .to_stride = to_plane->stride,
            .from_stride = from_plane->stride,
            .row_bytes = to_plane->row_bytes,
            .rows = rows_above(to, to_plane, rows.to) - first,
        };
        status = gpud_queue_copy(queue, &copy, error);
    }
    return status;
}
