/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ways of getting at a driver's buffers. */
#include "capture/internal.h"

#include "base/base.h"

#include <linux/videodev2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* === method_dmabuf =========================================================================== */
/* DMABUF: the driver's DMA engine writes memory that the device exports. Each area of a picture is
 * a dma-buf of its own, and begins at its start, because V4L2 has no field for another offset:
 * data_offset is set by the driver on capture. */

/* NVIDIA's exporter takes every attaching device for a PCI device, which may crash the kernel, so
 * the bus is checked before a driver gets such a dma-buf. */
enum gpud_status gpud_capture_check_bus(const struct gpud_device *device, const char *bus,
                                        struct gpud_error *error)
{
    if (!device->dmabuf_pci_only || strcmp(bus, "pci") == 0)
        return GPUD_OK;
    return gpud_fail(error, GPUD_UNSUPPORTED,
                     "dma-bufs of %s are for cards on the PCI bus alone, and this one is on %s",
                     device->info.name, bus[0] ? bus : "a bus that the system does not name");
}

static enum gpud_status export_area(const struct gpud_capture_ring *ring,
                                    struct gpud_capture_buffer *buffer, uint32_t area,
                                    struct gpud_error *error)
{
    const struct gpud_placement *placement = &ring->placement;
    uint64_t offset = 0, size = placement->area[area].size;
    enum gpud_status status = gpud_memory_export_dmabuf(
        buffer->memory, placement->area[area].start, size, &buffer->dmabuf[area], &offset, error);
    if (status != GPUD_OK)
        return status;
    if (offset != 0)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "%s gives a dma-buf in which the picture begins at byte %llu, and V4L2 "
                         "cannot say so",
                         ring->device->info.name, (unsigned long long)offset);
    off_t length = lseek(buffer->dmabuf[area], 0, SEEK_END);
    if (length < 0 || (uint64_t)length < size)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "%s gives a dma-buf of %lld bytes where the picture has %llu",
                         ring->device->info.name, (long long)length, (unsigned long long)size);
    buffer->raw.plane[area].length = placement->area[area].size;
    buffer->raw.plane[area].m.fd = buffer->dmabuf[area];
    return GPUD_OK;
}

static enum gpud_status method_dmabuf_setup(struct gpud_capture_ring *ring,
                                            struct gpud_error *error)
{
    enum gpud_status status = gpud_capture_check_bus(ring->device, ring->node->bus, error);
    for (uint32_t i = 0; i < ring->buffer_count && status == GPUD_OK; i++) {
        struct gpud_capture_buffer *buffer = &ring->buffers[i];
        status = gpud_memory_alloc_for(ring->device, ring->placement.layout.size, GPUD_USAGE_DMABUF,
                                       &buffer->memory, error);
        /* A device that cannot do it says so here, not when frames come. */
        if (status == GPUD_OK)
            status = gpud_memory_flush_remote(buffer->memory, error);
        for (uint32_t area = 0; area < ring->placement.areas && status == GPUD_OK; area++)
            status = export_area(ring, buffer, area, error);
    }
    return status;
}

const struct gpud_capture_method gpud_capture_dmabuf = {
    .name = "dmabuf",
    .memory = V4L2_MEMORY_DMABUF,
    .capability = V4L2_BUF_CAP_SUPPORTS_DMABUF,
    .refusal = "the driver does not take dma-bufs",
    .on_device = true,
    .by_name = true,
    .canary = true,
    .setup = method_dmabuf_setup,
};

/* === method_mmap ============================================================================= */
/* MMAP: the driver allocates, and this side maps its buffers. Every driver supports it. */

struct mapping {
    void *data;
    uint64_t size;
};

static void method_mmap_unmap(void *user)
{
    struct mapping *mapping = user;
    gpud_memory_unmap_pages(mapping->data, mapping->size);
    free(mapping);
}

/* Checks the driver's description of its buffer against the format; returns the size of all areas
 * together. */
static enum gpud_status method_mmap_measure(const struct gpud_placement *placement,
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
static enum gpud_status method_mmap_map(struct gpud_capture_ring *ring,
                                        const struct gpud_v4l2_buffer *raw, struct mapping *mapping,
                                        struct gpud_error *error)
{
    const struct gpud_placement *placement = &ring->placement;
    void *range = mmap(NULL, mapping->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (range == MAP_FAILED)
        return gpud_fail_errno(error, "no room for a mapping of %llu bytes",
                               (unsigned long long)mapping->size);
    mapping->data = range;
    for (uint32_t i = 0; i < placement->areas; i++) {
        void *at = (char *)range + placement->area[i].start;
        void *mapped = ring->node->system->mmap(at, raw->plane[i].length, PROT_READ | PROT_WRITE,
                                                MAP_SHARED | MAP_FIXED, ring->node->fd,
                                                raw->plane[i].m.mem_offset);
        if (mapped == MAP_FAILED)
            return gpud_fail_errno(error, "cannot map buffer %u of the driver", raw->index);
    }
    return GPUD_OK;
}

static enum gpud_status method_mmap_setup(struct gpud_capture_ring *ring, struct gpud_error *error)
{
    for (uint32_t i = 0; i < ring->buffer_count; i++) {
        struct gpud_capture_buffer *buffer = &ring->buffers[i];
        struct gpud_v4l2_buffer raw = buffer->raw;
        if (gpud_v4l2_query(ring->node, &raw) < 0)
            return gpud_fail_errno(error, "the driver does not describe its buffer %u", i);
        uint64_t size = 0;
        enum gpud_status status = method_mmap_measure(&ring->placement, &raw, &size, error);
        if (status != GPUD_OK)
            return status;

        struct mapping *mapping = calloc(1, sizeof(*mapping));
        if (!mapping)
            return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a mapping");
        mapping->size = size;
        status = method_mmap_map(ring, &raw, mapping, error);
        if (status == GPUD_OK)
            status =
                gpud_memory_wrap_host(ring->host, mapping->data, ring->placement.layout.size, false,
                                      method_mmap_unmap, mapping, &buffer->memory, error);
        if (status != GPUD_OK) {
            method_mmap_unmap(mapping);
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
    .setup = method_mmap_setup,
};

const struct gpud_capture_method gpud_capture_mmap_by_cpu = {
    .name = "mmap",
    .memory = V4L2_MEMORY_MMAP,
    .capability = V4L2_BUF_CAP_SUPPORTS_MMAP,
    .refusal = "the driver does not let its buffers be mapped",
    .by_cpu = true,
    .setup = method_mmap_setup,
};

/* === method_userptr ========================================================================== */
/* USERPTR: the driver pins this process's pages. The same pages can be pinned for a GPU, whose copy
 * engine then reads what the card wrote without another copy. */

static enum gpud_status method_userptr_setup(struct gpud_capture_ring *ring,
                                             struct gpud_error *error)
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
            buffer->raw.plane[area].m.userptr = (unsigned long)start;
        }
    }
    return GPUD_OK;
}

const struct gpud_capture_method gpud_capture_userptr = {
    .name = "userptr",
    .memory = V4L2_MEMORY_USERPTR,
    .capability = V4L2_BUF_CAP_SUPPORTS_USERPTR,
    .refusal = "the driver does not take user pointers",
    .setup = method_userptr_setup,
};
