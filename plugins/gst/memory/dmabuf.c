/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Slots as GstMemory with a dma-buf, for a driver that imports them (v4l2src
 * io-mode=dmabuf-import). The CPU maps them like any slot. */
#include "memory/dmabuf.h"

#include "context.h"
#include "memory/map.h"

#include <errno.h>
#include <gst/allocators/gstdmabuf.h>
#include <linux/dma-buf.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define GST_TYPE_GPUDIRECT_DMABUF_ALLOCATOR (gst_gpudirect_dmabuf_allocator_get_type())
G_DECLARE_FINAL_TYPE(GstGpudirectDmabufAllocator, gst_gpudirect_dmabuf_allocator, GST,
                     GPUDIRECT_DMABUF_ALLOCATOR, GstDmaBufAllocator)

struct _GstGpudirectDmabufAllocator {
    GstDmaBufAllocator parent;
};

G_DEFINE_TYPE(GstGpudirectDmabufAllocator, gst_gpudirect_dmabuf_allocator,
              GST_TYPE_DMABUF_ALLOCATOR)

static void gst_gpudirect_dmabuf_allocator_class_init(GstGpudirectDmabufAllocatorClass *klass)
{
}

static void gst_gpudirect_dmabuf_allocator_init(GstGpudirectDmabufAllocator *self)
{
    GstAllocator *allocator = GST_ALLOCATOR(self);

    allocator->mem_map_full = slot_memory_map_full;
    allocator->mem_unmap_full = slot_memory_unmap_full;
}

static GstAllocator *new_allocator(void)
{
    return g_object_new(GST_TYPE_GPUDIRECT_DMABUF_ALLOCATOR, NULL);
}

/* The size of the whole dma-buf, because some drivers require whole pages. */
static gsize measure(gint fd, gsize needed)
{
    off_t end = lseek(fd, 0, SEEK_END);

    return end > 0 && (gsize)end > needed ? (gsize)end : needed;
}

static GstMemory *new_memory(struct slot_store *store, struct gpud_frame *frame,
                             const struct gpud_layout *layout, const struct video_planes *planes)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    struct gpud_error error;
    uint64_t offset;
    gint fd;

    gpud_frame_get_info(frame, &info);
    if (gpud_memory_export_dmabuf(info.memory, info.memory_offset, info.layout.size, &fd, &offset,
                                  &error) != GPUD_OK) {
        GST_CAT_WARNING(gpud_gst_debug, "a slot has no dma-buf: %s", error.reason);
        return NULL;
    }
    if (offset != 0) { /* drivers write from the start of the dma-buf */
        GST_CAT_WARNING(gpud_gst_debug, "a slot does not begin where its dma-buf does");
        close(fd);
        return NULL;
    }
    gsize size = (gsize)layout->size;
    GstMemory *memory = gst_dmabuf_allocator_alloc(store->allocator, fd, measure(fd, size));
    gst_memory_resize(memory, 0, size);
    return memory;
}

static void arrived(struct slot_memory *slot)
{
}

static void sync_caches(gint fd, guint64 flags)
{
    struct dma_buf_sync sync = {.flags = flags};

    while (ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync) < 0 && (errno == EINTR || errno == EAGAIN))
        ;
}

/* Makes a card's writes visible to CPUs that read the ring as plain memory. */
static void leaving(struct slot_memory *slot)
{
    gint fd = gst_dmabuf_memory_get_fd(slot->memory);

    if (slot->extra)
        return;
    sync_caches(fd, DMA_BUF_SYNC_READ | DMA_BUF_SYNC_START);
    sync_caches(fd, DMA_BUF_SYNC_READ | DMA_BUF_SYNC_END);
}

const struct slot_kind dmabuf_slot_kind = {
    .new_allocator = new_allocator,
    .new_memory = new_memory,
    .arrived = arrived,
    .leaving = leaving,
};
