/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* DMABUF: the driver's DMA engine writes memory that the device exports. Each area of a picture is
 * a dma-buf of its own, and begins at its start, because V4L2 has no field for another offset:
 * data_offset is set by the driver on capture. */
#include "capture/method.h"

#include <linux/videodev2.h>
#include <string.h>
#include <unistd.h>

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
    buffer->raw.plane[area].fd = buffer->dmabuf[area];
    return GPUD_OK;
}

static enum gpud_status setup(struct gpud_capture_ring *ring, struct gpud_error *error)
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
    .setup = setup,
};
