/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Maps a slot for the CPU, from any thread.
 *
 * A frame allows one call at a time, and some calls wait: a map for the device, a submit for a
 * receiver. So that a reader and the sink never wait for each other, a reader of a device's slot
 * maps a second frame over the same bytes (slot->reader), and the slot's own frame stays free. The
 * lock is not held during calls that wait: `busy` replaces it. */
#include "memory/map.h"

#include "base/context.h"

#include <string.h>

static enum gpud_status map_frame(struct gpud_frame *frame, unsigned access, void **data,
                                  struct gpud_error *error)
{
    enum gpud_status status = gpud_frame_map(frame, access, SLOT_MAP_TIMEOUT, data, error);

    /* The writer died in mid-frame: the frame is now flagged as corrupted, and can still be shown.
     */
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

/* --- elements that write into maps for reading --------------------------------------------- */

/* Some elements write into a buffer that they mapped for reading only (rgb2bayer of GStreamer 1.22
 * does). That works in memory of the CPU. With a device they write into a copy that is discarded,
 * and the picture stays black. Checksums before and after the first maps of each slot detect them;
 * from then on, all of this pool's read maps are copied back. A map of a slot without content is
 * always copied back, since it cannot be for reading. */
#define CHECKS 2

static guint64 checksum(const void *data, gsize size)
{
    guint64 sum = size, word = 0;

    for (gsize i = 0; i + sizeof(word) <= size; i += sizeof(word)) {
        memcpy(&word, (const guint8 *)data + i, sizeof(word));
        sum = (sum ^ word) * G_GUINT64_CONSTANT(0x9e3779b97f4a7c15);
        sum ^= sum >> 29;
    }
    memcpy(&word, (const guint8 *)data + size / sizeof(word) * sizeof(word), size % sizeof(word));
    return sum ^ word;
}

/* Under the lock: whether a map for reading may be used for writing. A submitted slot is no longer
 * written. */
static gboolean may_be_misused(const struct slot_memory *self, unsigned access)
{
    return access == GPUD_READ && self->on_device && self->store->sender &&
           !GST_MINI_OBJECT_FLAG_IS_SET(self->memory, GST_MEMORY_FLAG_READONLY);
}

static void begin_check(struct slot_memory *self, const void *data)
{
    self->checking = self->checks < CHECKS && !g_atomic_int_get(&self->store->misused);
    if (!self->checking)
        return;
    self->checks++;
    self->checksum = checksum(data, self->size);
}

/* TRUE: the slot was written to. */
static gboolean end_check(struct slot_memory *self)
{
    gboolean written = self->checking && checksum(self->data, self->size) != self->checksum;

    self->checking = FALSE;
    if (!written)
        return FALSE;
    g_atomic_int_set(&self->store->misused, TRUE);
    counter_add(&self->store->counters->misuses);
    return TRUE;
}

/* Copies into the slot, which is unused otherwise: its user has not passed it on yet. */
static void write_back(struct slot_memory *self, const void *bytes)
{
    struct gpud_error error;
    void *data;

    if (map_frame(self->frame, GPUD_WRITE, &data, &error) != GPUD_OK) {
        GST_CAT_ERROR(gpud_gst_debug, "slot %u cannot be written: %s", self->slot, error.reason);
        return;
    }
    memcpy(data, bytes, self->size);
    gpud_frame_unmap(self->frame);
}

/* --- mapping ------------------------------------------------------------------------------ */

/* The access to request from the core. GStreamer has no flag for overwriting everything, so a map
 * for writing must also read, to keep what is not written. Before the first write there is nothing
 * to keep, which saves that copy. */
static unsigned widen(struct slot_memory *self, unsigned access)
{
    if (access == GPUD_WRITE && self->filled)
        return GPUD_READ | GPUD_WRITE;
    if (may_be_misused(self, access) && (!self->filled || g_atomic_int_get(&self->store->misused)))
        return GPUD_READ | GPUD_WRITE;
    return access;
}

/* Under the lock, which is dropped meanwhile. */
static enum gpud_status map_first(struct slot_memory *self, unsigned access, void **data,
                                  struct gpud_error *error)
{
    gboolean looks = may_be_misused(self, access);

    access = widen(self, access);
    gboolean reads = access == GPUD_READ && self->on_device;
    if (reads && !need_reader(self, error))
        return error->status;
    self->mapped = reads ? self->reader : self->frame;
    self->busy = TRUE;
    g_mutex_unlock(&self->lock);
    enum gpud_status status = map_frame(self->mapped, access, data, error);
    if (status == GPUD_OK && looks)
        begin_check(self, *data);
    g_mutex_lock(&self->lock);
    self->busy = FALSE;
    g_cond_broadcast(&self->idle);
    if (status == GPUD_OK) {
        self->data = *data;
        self->copies_back = (access & GPUD_WRITE) != 0;
        self->filled |= self->copies_back;
    }
    return status;
}

/* Maps nest, with the access of the first. */
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
    if (self->maps == 0)
        status = map_first(self, access, &data, &error);
    else
        status = map_frame(self->mapped, access, &data, &error);
    if (status == GPUD_OK)
        self->maps++;
    g_mutex_unlock(&self->lock);
    if (status != GPUD_OK)
        GST_CAT_ERROR(gpud_gst_debug, "slot %u cannot be mapped: %s", self->slot, error.reason);
    return data;
}

/* Under the lock, which is dropped meanwhile. TRUE: what was written is being uploaded. */
static gboolean unmap_last(struct slot_memory *self)
{
    gboolean late = GST_MINI_OBJECT_FLAG_IS_SET(self->memory, GST_MEMORY_FLAG_READONLY);
    gboolean goes_up = self->copies_back;
    void *bytes = NULL;

    self->busy = TRUE;
    g_mutex_unlock(&self->lock);
    if (end_check(self) && !goes_up && !late)
        bytes = g_memdup2(self->data, self->size);
    gpud_frame_unmap(self->mapped);
    if (bytes)
        write_back(self, bytes);
    g_mutex_lock(&self->lock);
    self->busy = FALSE;
    g_cond_broadcast(&self->idle);
    g_free(bytes);
    return goes_up || bytes;
}

gboolean slot_memory_unmap(struct slot_memory *self)
{
    gboolean goes_up = FALSE;

    g_mutex_lock(&self->lock);
    if (self->maps == 1)
        goes_up = unmap_last(self);
    else
        gpud_frame_unmap(self->mapped);
    self->maps--;
    g_mutex_unlock(&self->lock);
    return goes_up;
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
