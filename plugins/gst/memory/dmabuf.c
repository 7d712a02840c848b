/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Slots as GstMemory with a dma-buf, for drivers that import them: upstream of gpudirectsink one
 * that writes (v4l2src io-mode=dmabuf-import), downstream of gpudirectsrc ones that read. The CPU
 * maps them like any slot.
 *
 * Drivers note their unfinished work on a dma-buf in the dma-buf itself, as fences. A picture is
 * passed on when its writer's fences have passed, and a slot is given back when those of its
 * readers have, so no picture is read or written in the middle. */
#include "memory/memory.h"

#include "base/plugin.h"

#include <errno.h>
#include <gst/allocators/gstdmabuf.h>
#include <linux/dma-buf.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static enum gpud_status export_frame(struct gpud_frame *frame, gint *fd, struct gpud_error *error)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    uint64_t offset;

    gpud_frame_get_info(frame, &info);
    enum gpud_status status = gpud_memory_export_dmabuf(info.memory, info.memory_offset,
                                                        info.layout.size, fd, &offset, error);
    if (status != GPUD_OK || offset == 0)
        return status;
    close(*fd); /* drivers begin at the start of the dma-buf */
    *error = (struct gpud_error){.status = GPUD_UNSUPPORTED};
    g_strlcpy(error->reason, "a slot does not begin where its dma-buf does", sizeof(error->reason));
    return GPUD_UNSUPPORTED;
}

gboolean dmabuf_is_in_frame(struct gpud_frame *frame, struct gpud_error *error)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    struct gpud_device_info device = GPUD_INFO_INIT(device);
    gint fd;

    gpud_frame_get_info(frame, &info);
    gpud_device_get_info(info.device, &device);
    if (g_str_has_prefix(device.name, "cuda:") || strstr(device.description, "NVIDIA")) {
        /* NVIDIA's driver takes every importer for a PCI card, and fails with others. */
        *error = (struct gpud_error){.status = GPUD_UNSUPPORTED};
        g_snprintf(error->reason, sizeof(error->reason), "dma-bufs of %s are for PCI cards alone",
                   device.name);
        return FALSE;
    }
    if (export_frame(frame, &fd, error) != GPUD_OK)
        return FALSE;
    close(fd);
    return TRUE;
}

gboolean dmabuf_can_be_made(struct gpud_error *error)
{
    struct gpud_context *context = gpud_gst_context_get(error);
    struct gpud_memory *memory = NULL;
    struct gpud_device *host;

    if (!context || gpud_device_open(context, "host", &host, error) != GPUD_OK)
        return FALSE;
    gboolean made = gpud_memory_alloc(host, 1, GPUD_MEMORY_DMABUF, &memory, error) == GPUD_OK;
    gpud_memory_unref(&memory);
    gpud_device_close(&host);
    return made;
}

static GstMemory *new_memory(struct slot_store *store, struct gpud_frame *frame,
                             const struct gpud_layout *layout, const struct video_planes *planes)
{
    struct gpud_error error;
    gint fd;

    if (export_frame(frame, &fd, &error) != GPUD_OK) {
        GST_CAT_WARNING(gpud_gst_debug, "a slot has no dma-buf: %s", error.reason);
        return NULL;
    }
    /* The memory is all of the dma-buf, because some drivers require whole pages. */
    gsize size = (gsize)layout->size;
    off_t end = lseek(fd, 0, SEEK_END);
    GstMemory *memory =
        gst_dmabuf_allocator_alloc(store->allocator, fd, MAX(size, (gsize)MAX(end, 0)));
    gst_memory_resize(memory, 0, size);
    return memory;
}

/* --- fences and caches -------------------------------------------------------------------- */

/* Waits for the work of other drivers on a dma-buf: for their writes, so that it can be read, or
 * (reads_too) for all of it, so that it can be written. FALSE: it took longer. */
static gboolean dmabuf_wait(gint fd, gboolean reads_too, gint64 timeout_ns)
{
    gint64 until = g_get_monotonic_time() + timeout_ns / 1000, left;
    gint fence = -1, got;

    /* A descriptor that becomes readable when the present work is done. The kernel has none before
     * Linux 6.0, where the dma-buf itself serves. */
#ifdef DMA_BUF_IOCTL_EXPORT_SYNC_FILE
    struct dma_buf_export_sync_file now = {
        .flags = reads_too ? DMA_BUF_SYNC_WRITE : DMA_BUF_SYNC_READ, .fd = -1};
    if (ioctl(fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &now) == 0)
        fence = now.fd;
#endif
    struct pollfd wait = {
        .fd = fence >= 0 ? fence : fd,
        .events = fence < 0 && reads_too ? POLLOUT : POLLIN,
    };

    do {
        left = MAX(0, until - g_get_monotonic_time());
        got = poll(&wait, 1, (gint)((left + 999) / 1000));
    } while (got < 0 && errno == EINTR);
    if (fence >= 0)
        close(fence);
    return got != 0; /* what cannot be polled has no fences */
}

gboolean dmabuf_is_in_buffer(GstBuffer *buffer)
{
    for (guint i = 0; i < gst_buffer_n_memory(buffer); i++)
        if (gst_is_dmabuf_memory(gst_buffer_peek_memory(buffer, i)))
            return TRUE;
    return FALSE;
}

gboolean dmabuf_wait_for_buffer(GstBuffer *buffer, gint64 timeout_ns)
{
    for (guint i = 0; i < gst_buffer_n_memory(buffer); i++) {
        GstMemory *memory = gst_buffer_peek_memory(buffer, i);
        if (gst_is_dmabuf_memory(memory) &&
            !dmabuf_wait(gst_dmabuf_memory_get_fd(memory), FALSE, timeout_ns))
            return FALSE;
    }
    return TRUE;
}

static void sync_caches(gint fd, guint64 flags)
{
    struct dma_buf_sync sync = {.flags = flags};

    while (ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync) < 0 && (errno == EINTR || errno == EAGAIN))
        ;
}

/* Makes what CPUs wrote to the ring as plain memory visible to drivers. */
static void arrived(struct slot_memory *slot)
{
    gint fd = gst_dmabuf_memory_get_fd(slot->memory);

    if (slot->extra || slot->store->sender)
        return;
    sync_caches(fd, DMA_BUF_SYNC_WRITE | DMA_BUF_SYNC_START);
    sync_caches(fd, DMA_BUF_SYNC_WRITE | DMA_BUF_SYNC_END);
}

/* At a sender it makes a card's writes visible to CPUs that read the ring as plain memory. */
static void leaving(struct slot_memory *slot)
{
    gint fd = gst_dmabuf_memory_get_fd(slot->memory);

    if (slot->extra)
        return;
    if (!slot->store->sender) {
        /* The slot is about to be given back to its writer, which does not look at fences. */
        if (!dmabuf_wait(fd, TRUE, SLOT_MAP_TIMEOUT))
            GST_CAT_ERROR(gpud_gst_debug,
                          "slot %u is still read by a driver downstream, and is given back all the "
                          "same: has its device stopped?",
                          slot->slot);
        return;
    }
    sync_caches(fd, DMA_BUF_SYNC_READ | DMA_BUF_SYNC_START);
    sync_caches(fd, DMA_BUF_SYNC_READ | DMA_BUF_SYNC_END);
}

static gboolean is_unused(struct slot_memory *slot)
{
    return dmabuf_wait(gst_dmabuf_memory_get_fd(slot->memory), TRUE, 0);
}

const struct slot_kind dmabuf_slot_kind = {
    .get_allocator_type = gst_dmabuf_allocator_get_type,
    .init_allocator = slot_init_allocator,
    .new_memory = new_memory,
    .arrived = arrived,
    .leaving = leaving,
    .is_unused = is_unused,
};
