/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How the CPU sees a slot, from any thread.
 *
 * Calls on one frame come from one thread at a time, and some of them wait: a map for the device, a
 * submit for a receiver. So that a reader and the sink never wait for each other, a reader of a
 * device's slot maps a second frame over the same bytes (slot->reader), and the slot's own frame
 * stays free. The lock is held over no call that waits: `busy` stands for it meanwhile. */
#include "context.h"
#include "memory/memory.h"

static enum gpud_status map_frame(struct gpud_frame *frame, unsigned access, void **data,
                                  struct gpud_error *error)
{
    enum gpud_status status = gpud_frame_map(frame, access, SLOT_MAP_TIMEOUT, data, error);

    /* The writer died in mid-frame: the frame is flagged as corrupted now, and can be shown all the
     * same. */
    if (status == GPUD_PEER)
        status = gpud_frame_map(frame, access, SLOT_MAP_TIMEOUT, data, error);
    return status;
}

/* Under the lock. */
static gboolean need_reader(struct slot_memory *self, struct gpud_error *error)
{
    return self->reader ||
           gpud_frame_wrap_frame(self->frame, NULL, NULL, NULL, &self->reader, error) == GPUD_OK;
}

/* Under the lock, which is dropped meanwhile. */
static enum gpud_status map_first(struct slot_memory *self, unsigned access, void **data,
                                  struct gpud_error *error)
{
    gboolean reads = access == GPUD_READ && self->on_device;

    if (reads && !need_reader(self, error))
        return error->status;
    self->mapped = reads ? self->reader : self->frame;
    self->busy = TRUE;
    g_mutex_unlock(&self->lock);
    enum gpud_status status = map_frame(self->mapped, access, data, error);
    g_mutex_lock(&self->lock);
    self->busy = FALSE;
    g_cond_broadcast(&self->idle);
    return status;
}

void *slot_memory_map(struct slot_memory *self, GstMapFlags flags)
{
    unsigned access =
        ((flags & GST_MAP_READ) ? GPUD_READ : 0u) | ((flags & GST_MAP_WRITE) ? GPUD_WRITE : 0u);
    enum gpud_status status;
    struct gpud_error error;
    void *data = NULL;

    g_mutex_lock(&self->lock);
    while (self->busy)
        g_cond_wait(&self->idle, &self->lock);
    /* GStreamer cannot say "all of it will be written": an element that maps for writing and writes
     * a part keeps the rest, so the rest has to be read. Only before the first write is there
     * nothing to keep, which saves the copy down. Maps nest, with the access of the first. */
    if (access == GPUD_WRITE && self->filled && self->maps == 0)
        access |= GPUD_READ;
    if (self->maps == 0)
        status = map_first(self, access, &data, &error);
    else
        status = map_frame(self->mapped, access, &data, &error);
    if (status == GPUD_OK) {
        self->maps++;
        self->filled |= (flags & GST_MAP_WRITE) != 0;
    }
    g_mutex_unlock(&self->lock);
    if (status != GPUD_OK)
        GST_CAT_ERROR(gpud_gst_debug, "slot %u cannot be mapped: %s", self->slot, error.reason);
    return data;
}

/* The last unmap puts work on the device's queue. */
static void unmap_last(struct slot_memory *self)
{
    self->busy = TRUE;
    g_mutex_unlock(&self->lock);
    gpud_frame_unmap(self->mapped);
    g_mutex_lock(&self->lock);
    self->busy = FALSE;
    g_cond_broadcast(&self->idle);
}

void slot_memory_unmap(struct slot_memory *self)
{
    g_mutex_lock(&self->lock);
    if (self->maps == 1)
        unmap_last(self);
    else
        gpud_frame_unmap(self->mapped);
    self->maps--;
    g_mutex_unlock(&self->lock);
}

/* A part of a memory is mapped as the whole; GStreamer adds the offset. */
gpointer slot_memory_map_full(GstMemory *memory, GstMapInfo *info, gsize maxsize)
{
    struct slot_memory *self = slot_memory_of(memory);

    return self->host ? self->host : slot_memory_map(self, info->flags);
}

void slot_memory_unmap_full(GstMemory *memory, GstMapInfo *info)
{
    struct slot_memory *self = slot_memory_of(memory);

    if (!self->host)
        slot_memory_unmap(self);
}

/* --- beside the sink ---------------------------------------------------------------------- */

enum slot_use slot_memory_begin_submit(struct slot_memory *self, gboolean shared,
                                       const struct gpud_frame_info *info)
{
    enum slot_use use = SLOT_FREE;
    struct gpud_error error;

    g_mutex_lock(&self->lock);
    if (self->busy || self->maps > 0)
        use = self->mapped == self->frame ? SLOT_WRITTEN : SLOT_READ;
    else if (shared && self->on_device && !need_reader(self, &error))
        use = SLOT_WRITTEN;
    if (use == SLOT_FREE) {
        GST_MINI_OBJECT_FLAG_SET(self->memory, GST_MEMORY_FLAG_READONLY);
        gpud_frame_set_info(self->frame, info, NULL);
    }
    g_mutex_unlock(&self->lock);
    return use;
}

struct gpud_frame *slot_memory_wrap(struct slot_memory *self, const struct gpud_layout *layout,
                                    void (*released)(void *user), void *user,
                                    struct gpud_error *error)
{
    struct gpud_frame *frame = NULL;

    g_mutex_lock(&self->lock);
    gpud_frame_wrap_frame(self->frame, layout, released, user, &frame, error);
    g_mutex_unlock(&self->lock);
    return frame;
}
