/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* USERPTR: the driver pins this process's pages. The same pages can be pinned for a GPU, whose copy
 * engine then reads what the card wrote without another copy. */
#include "capture/method.h"

#include <linux/videodev2.h>

static enum gpud_status setup(struct gpud_capture_ring *ring, struct gpud_error *error)
{
    const struct gpud_placement *placement = &ring->placement;
    for (uint32_t i = 0; i < ring->buffer_count; i++) {
        struct gpud_capture_buffer *buffer = &ring->buffers[i];
        enum gpud_status status = gpud_memory_alloc_for(ring->host, placement->layout.size,
                                                        GPUD_USAGE_LOCAL, &buffer->memory, error);
        if (status != GPUD_OK)
            return status;
        for (uint32_t area = 0; area < placement->areas; area++) {
            char *start = (char *)buffer->memory->host + placement->area[area].start;
            buffer->raw.plane[area].length = placement->area[area].size;
            buffer->raw.plane[area].address = (unsigned long)start;
        }
    }
    return GPUD_OK;
}

const struct gpud_capture_method gpud_capture_userptr = {
    .name = "userptr",
    .memory = V4L2_MEMORY_USERPTR,
    .capability = V4L2_BUF_CAP_SUPPORTS_USERPTR,
    .refusal = "the driver does not take user pointers",
    .setup = setup,
};
