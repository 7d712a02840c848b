/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* MMAP: the driver allocates, and this side maps its buffers. Every driver supports it. */
#include "capture/method.h"

#include "base/fd.h"

#include <linux/videodev2.h>
#include <stdlib.h>
#include <sys/mman.h>

struct mapping {
    void *data;
    uint64_t size;
};

static void unmap(void *user)
{
    struct mapping *mapping = user;
    gpud_memory_unmap_pages(mapping->data, mapping->size);
    free(mapping);
}

/* Checks the driver's description of its buffer against the format; returns the size of all areas
 * together. */
static enum gpud_status measure(const struct gpud_placement *placement,
                                const struct gpud_v4l2_buffer *raw, uint64_t *size,
                                struct gpud_error *error)
{
    if (raw->planes != placement->areas)
        return gpud_fail(error, GPUD_IO,
                         "the driver's buffer has %u areas of memory, its format %u", raw->planes,
                         placement->areas);
    for (uint32_t i = 0; i < placement->areas; i++) {
        uint64_t end = placement->area[i].start + raw->plane[i].length;
        bool last = i + 1 == placement->areas;
        if (raw->plane[i].length < placement->area[i].size ||
            (!last && end > placement->area[i + 1].start))
            return gpud_fail(error, GPUD_IO,
                             "the driver's buffer has %u bytes where its format has %u",
                             raw->plane[i].length, placement->area[i].size);
        *size = end;
    }
    return GPUD_OK;
}

/* A buffer's areas are separate mappings. Side by side in one reserved range they form one
 * memory. */
static enum gpud_status map(struct gpud_capture_ring *ring, const struct gpud_v4l2_buffer *raw,
                            struct mapping *mapping, struct gpud_error *error)
{
    const struct gpud_placement *placement = &ring->placement;
    void *range = mmap(NULL, mapping->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (range == MAP_FAILED)
        return gpud_fail_errno(error, "no room for a mapping of %llu bytes",
                               (unsigned long long)mapping->size);
    mapping->data = range;
    for (uint32_t i = 0; i < placement->areas; i++) {
        void *at = (char *)range + placement->area[i].start;
        void *mapped =
            ring->node->system->mmap(at, raw->plane[i].length, PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_FIXED, ring->node->fd, raw->plane[i].offset);
        if (mapped == MAP_FAILED)
            return gpud_fail_errno(error, "cannot map buffer %u of the driver", raw->index);
    }
    return GPUD_OK;
}

static enum gpud_status setup(struct gpud_capture_ring *ring, struct gpud_error *error)
{
    for (uint32_t i = 0; i < ring->buffer_count; i++) {
        struct gpud_capture_buffer *buffer = &ring->buffers[i];
        struct gpud_v4l2_buffer raw = buffer->raw;
        if (gpud_v4l2_query(ring->node, &raw) < 0)
            return gpud_fail_errno(error, "the driver does not describe its buffer %u", i);
        uint64_t size = 0;
        enum gpud_status status = measure(&ring->placement, &raw, &size, error);
        if (status != GPUD_OK)
            return status;

        struct mapping *mapping = calloc(1, sizeof(*mapping));
        if (!mapping)
            return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a mapping");
        mapping->size = size;
        status = map(ring, &raw, mapping, error);
        if (status == GPUD_OK)
            status = gpud_memory_wrap_host(ring->host, mapping->data, ring->placement.layout.size,
                                           false, unmap, mapping, &buffer->memory, error);
        if (status != GPUD_OK) {
            unmap(mapping);
            return status;
        }
        for (uint32_t area = 0; area < ring->placement.areas; area++)
            buffer->raw.plane[area].length = raw.plane[area].length;
    }
    return GPUD_OK;
}

const struct gpud_capture_method gpud_capture_mmap = {
    .name = "mmap",
    .memory = V4L2_MEMORY_MMAP,
    .capability = V4L2_BUF_CAP_SUPPORTS_MMAP,
    .refusal = "the driver does not let its buffers be mapped",
    .setup = setup,
};

const struct gpud_capture_method gpud_capture_mmap_by_cpu = {
    .name = "mmap",
    .memory = V4L2_MEMORY_MMAP,
    .capability = V4L2_BUF_CAP_SUPPORTS_MMAP,
    .refusal = "the driver does not let its buffers be mapped",
    .by_cpu = true,
    .setup = setup,
};
