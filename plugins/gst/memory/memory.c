/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A GstMemory that is a slot. See the header for ownership. */
#include "memory/memory.h"

#include "base/context.h"
#include "memory/gpuvendor.h"
#include "memory/map.h"

#include <string.h>

#define GST_TYPE_GPUDIRECT_ALLOCATOR (gst_gpudirect_allocator_get_type())
G_DECLARE_FINAL_TYPE(GstGpudirectAllocator, gst_gpudirect_allocator, GST, GPUDIRECT_ALLOCATOR,
                     GstAllocator)

struct _GstGpudirectAllocator {
    GstAllocator parent;
};

G_DEFINE_TYPE(GstGpudirectAllocator, gst_gpudirect_allocator, GST_TYPE_ALLOCATOR)

/* --- one memory's life -------------------------------------------------------------------- */

static void put_frame(struct slot_memory *self, struct gpud_frame *frame)
{
    GstMemory *memory = self->memory;

    self->frame = frame;
    self->filled = !self->store->sender && !self->extra;
    if (self->store->sender)
        GST_MINI_OBJECT_FLAG_UNSET(memory, GST_MEMORY_FLAG_READONLY);
    /* An element may have narrowed it: gst_buffer_resize() works on the memory. */
    memory->offset = 0;
    memory->size = self->size;
    self->store->kind->arrived(self);
}

void slot_memory_attach(struct slot_memory *self, struct gpud_frame *frame)
{
    outstanding_add(self->store->outstanding);
    put_frame(self, frame);
}

struct gpud_frame *slot_memory_detach(struct slot_memory *self)
{
    if (self->frame)
        self->store->kind->leaving(self);
    gpud_frame_release(&self->reader); /* it wraps the other frame's bytes */
    return g_steal_pointer(&self->frame);
}

void slot_store_give_back(struct slot_store *store, struct gpud_frame *frame)
{
    gpud_frame_release(&frame);
    outstanding_remove(store->outstanding);
}

/* The most idle extra memories to keep: more than a healthy pipeline ever uses. */
#define EXTRAS_MAX 16

/* Keeps the memory with its frame, on which a GPU may still be working. FALSE: free it. */
static gboolean keep_extra(struct slot_store *store, struct slot_memory *self)
{
    g_mutex_lock(&store->lock);
    gboolean kept = !store->closed && store->extras.length < EXTRAS_MAX;
    if (kept)
        g_queue_push_head(&store->extras, gst_memory_ref(self->memory));
    g_mutex_unlock(&store->lock);
    return kept;
}

/* The last reference is gone. The memory becomes idle before its frame is released, because the
 * same slot may be wrapped again at once, by another thread. */
static gboolean slot_dispose(GstMiniObject *object)
{
    GstMemory *memory = (GstMemory *)object;
    struct slot_memory *self = slot_memory_of(memory);
    gboolean kept = FALSE;

    if (self->extra && keep_extra(self->store, self))
        return FALSE;
    struct slot_store *store = slot_store_ref(self->store);
    gboolean extra = self->extra;
    struct gpud_frame *frame = slot_memory_detach(self);

    g_mutex_lock(&store->lock);
    if (!store->closed && self->slot < store->idle->len &&
        !g_ptr_array_index(store->idle, self->slot)) {
        gst_memory_ref(memory);
        g_ptr_array_index(store->idle, self->slot) = memory;
        kept = TRUE;
    }
    g_mutex_unlock(&store->lock);
    if (frame && extra)
        gpud_frame_release(&frame);
    else if (frame)
        slot_store_give_back(store, frame);
    slot_store_unref(store);
    return !kept;
}

static void slot_free(gpointer slot)
{
    struct slot_memory *self = slot;

    g_mutex_clear(&self->lock);
    g_cond_clear(&self->idle);
    slot_store_unref(self->store);
    g_free(self);
}

static gboolean is_on_device(const struct gpud_frame_info *frame)
{
    struct gpud_device_info info = GPUD_INFO_INIT(info);

    gpud_device_get_info(frame->device, &info);
    return strcmp(info.name, "host") != 0;
}

static struct slot_memory *slot_new(struct slot_store *store, struct gpud_frame *frame)
{
    struct slot_memory *self = g_new0(struct slot_memory, 1);
    struct gpud_frame_info info;

    info.size = sizeof(info);
    gpud_frame_get_info(frame, &info);
    g_mutex_init(&self->lock);
    g_cond_init(&self->idle);
    self->on_device = is_on_device(&info);
    self->store = slot_store_ref(store);
    self->slot = info.slot;
    self->sender = store->sender;
    self->epoch = store->epoch;
    layout_to_planes(&info.layout, &store->info, &self->planes);
    if (store->host)
        self->host = (uint8_t *)info.native + info.memory_offset;
    self->memory = store->kind->new_memory(store, frame, &info.layout, &self->planes);
    if (!self->memory) {
        GST_CAT_WARNING(gpud_gst_debug,
                        "slot %u cannot be wrapped as this kind of memory: none left, or "
                        "look at GST_DEBUG=*allocator:2",
                        self->slot);
        slot_free(self);
        return NULL;
    }
    self->size = self->memory->size;
    if (!store->sender)
        GST_MINI_OBJECT_FLAG_SET(self->memory, GST_MEMORY_FLAG_READONLY);
    GST_MINI_OBJECT_CAST(self->memory)->dispose = slot_dispose;
    slot_memory_bind(self->memory, self, slot_free);
    return self;
}

/* --- the plain kind ----------------------------------------------------------------------- */

static GstMemory *plain_new_memory(struct slot_store *store, struct gpud_frame *frame,
                                   const struct gpud_layout *layout,
                                   const struct video_planes *planes)
{
    GstMemory *memory = g_new0(GstMemory, 1);

    gst_memory_init(memory, (GstMemoryFlags)0, store->allocator, NULL, (gsize)layout->size, 0, 0,
                    (gsize)layout->size);
    return memory;
}

/* Shares a part of a memory, for elements that split a picture; the part holds the whole. */
static GstMemory *plain_share(GstMemory *memory, gssize offset, gssize size)
{
    GstMemory *parent = memory->parent ? memory->parent : memory;
    GstMemory *part = g_new0(GstMemory, 1);
    gsize length = size < 0 ? memory->size - (gsize)offset : (gsize)size;

    gst_memory_init(part, GST_MEMORY_FLAG_READONLY, parent->allocator, parent, parent->maxsize, 0,
                    memory->offset + (gsize)offset, length);
    return part;
}

static void plain_free(GstAllocator *allocator, GstMemory *memory)
{
    g_free(memory);
}

static GstMemory *refuse_alloc(GstAllocator *allocator, gsize size, GstAllocationParams *params)
{
    GST_CAT_ERROR(gpud_gst_debug,
                  "slots come with a link, from the pool that gpudirectsink proposes");
    return NULL;
}

static void gst_gpudirect_allocator_class_init(GstGpudirectAllocatorClass *klass)
{
    GST_ALLOCATOR_CLASS(klass)->alloc = refuse_alloc;
    GST_ALLOCATOR_CLASS(klass)->free = plain_free;
}

static void gst_gpudirect_allocator_init(GstGpudirectAllocator *self)
{
    GstAllocator *allocator = GST_ALLOCATOR(self);

    allocator->mem_type = "GpudirectSlot";
    allocator->mem_map_full = slot_memory_map_full;
    allocator->mem_unmap_full = slot_memory_unmap_full;
    allocator->mem_share = plain_share;
    GST_OBJECT_FLAG_SET(self, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC);
}

static GstAllocator *plain_new_allocator(void)
{
    return g_object_new(GST_TYPE_GPUDIRECT_ALLOCATOR, NULL);
}

/* Nothing to do: the core orders the CPU's accesses by its maps. */
static void plain_arrived(struct slot_memory *slot)
{
}

static void plain_leaving(struct slot_memory *slot)
{
}

const struct slot_kind plain_slot_kind = {
    .new_allocator = plain_new_allocator,
    .new_memory = plain_new_memory,
    .arrived = plain_arrived,
    .leaving = plain_leaving,
};

/* --- the store ---------------------------------------------------------------------------- */

struct slot_store *slot_store_new(const struct slot_store_params *params)
{
    struct slot_store *store = g_new0(struct slot_store, 1);

    g_atomic_ref_count_init(&store->references);
    store->kind = params->kind;
    store->allocator = gst_object_ref_sink(params->kind->new_allocator());
    store->info = *params->info;
    store->gpu = params->gpu;
    store->sender = params->sender;
    store->epoch = params->epoch;
    store->host = params->host;
    store->outstanding = outstanding_ref(params->outstanding);
    store->counters = counters_ref(params->counters);
    g_mutex_init(&store->lock);
    store->idle = g_ptr_array_new();
    g_queue_init(&store->extras);
    return store;
}

struct slot_store *slot_store_ref(struct slot_store *store)
{
    g_atomic_ref_count_inc(&store->references);
    return store;
}

void slot_store_unref(struct slot_store *store)
{
    if (!store || !g_atomic_ref_count_dec(&store->references))
        return;
    g_ptr_array_unref(store->idle); /* emptied by slot_store_close(), as extras are */
    g_mutex_clear(&store->lock);
    outstanding_unref(store->outstanding);
    counters_unref(store->counters);
    gst_object_unref(store->allocator);
    if (store->stream)
        store->stream_free(store->stream);
    g_free(store);
}

void slot_store_open(struct slot_store *store)
{
    g_mutex_lock(&store->lock);
    store->closed = FALSE;
    g_mutex_unlock(&store->lock);
}

void slot_store_close(struct slot_store *store)
{
    g_mutex_lock(&store->lock);
    store->closed = TRUE;
    GPtrArray *idle = store->idle;
    store->idle = g_ptr_array_new();
    GQueue extras = store->extras;
    g_queue_init(&store->extras);
    g_mutex_unlock(&store->lock);

    for (guint i = 0; i < idle->len; i++)
        if (g_ptr_array_index(idle, i))
            gst_memory_unref(g_ptr_array_index(idle, i));
    g_ptr_array_unref(idle);
    g_queue_clear_full(&extras, (GDestroyNotify)gst_memory_unref);
}

GstMemory *slot_store_wrap(struct slot_store *store, struct gpud_frame *frame)
{
    struct gpud_frame_info info;
    GstMemory *memory = NULL;

    info.size = sizeof(info);
    gpud_frame_get_info(frame, &info);
    if (info.slot != UINT32_MAX) {
        g_mutex_lock(&store->lock);
        if (info.slot >= store->idle->len)
            g_ptr_array_set_size(store->idle, (gint)info.slot + 1);
        memory = g_ptr_array_index(store->idle, info.slot);
        g_ptr_array_index(store->idle, info.slot) = NULL;
        g_mutex_unlock(&store->lock);
    }
    struct slot_memory *self = memory ? slot_memory_of(memory) : slot_new(store, frame);
    if (!self) {
        gpud_frame_release(&frame);
        return NULL;
    }
    slot_memory_attach(self, frame);
    return self->memory;
}

/* --- beyond the ring ---------------------------------------------------------------------- */

static GstMemory *take_extra(struct slot_store *store)
{
    g_mutex_lock(&store->lock);
    GstMemory *memory = g_queue_pop_tail(&store->extras); /* has been idle for the longest time */
    if (memory && !slot_memory_is_unused(slot_memory_of(memory))) {
        g_queue_push_tail(&store->extras, memory);
        memory = NULL;
    }
    g_mutex_unlock(&store->lock);
    if (!memory)
        return NULL;
    slot_memory_forget(slot_memory_of(memory));
    memory->offset = 0;
    memory->size = slot_memory_of(memory)->size;
    return memory;
}

static enum gpud_status alloc_memory(struct slot_store *store, uint64_t size,
                                     struct gpud_memory **memory, struct gpud_error *error)
{
    struct gpud_context *context;
    struct gpud_device *host;

    if (store->gpu)
        return gpud_memory_alloc(store->gpu->device, size, GPUD_MEMORY_PLAIN, memory, error);
    if (!(context = gpud_gst_context_get(error)))
        return GPUD_IO;
    enum gpud_status status = gpud_device_open(context, "host", &host, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_memory_alloc(host, size, GPUD_MEMORY_DMABUF, memory, error);
    gpud_device_close(&host);
    return status;
}

static struct gpud_frame *alloc_extra(struct slot_store *store)
{
    struct gpud_memory *memory = NULL;
    struct gpud_frame *frame = NULL;
    struct gpud_layout layout;
    struct gpud_error error;

    if (!layout_from_info(&layout, &store->info))
        return NULL;
    if (alloc_memory(store, layout.size, &memory, &error) != GPUD_OK ||
        gpud_frame_wrap(memory, 0, &layout, &frame, &error) != GPUD_OK)
        GST_CAT_ERROR(gpud_gst_debug, "no memory to replace a slot: %s", error.reason);
    gpud_memory_unref(&memory);
    return frame;
}

GstMemory *slot_store_get_extra(struct slot_store *store)
{
    GstMemory *memory = take_extra(store);
    struct gpud_frame *frame = memory ? NULL : alloc_extra(store);

    if (!frame)
        return memory;
    struct slot_memory *self = slot_new(store, frame);
    if (!self) {
        gpud_frame_release(&frame);
        return NULL;
    }
    self->extra = TRUE;
    self->host = NULL; /* its caches may be another driver's */
    GST_MINI_OBJECT_FLAG_UNSET(self->memory, GST_MEMORY_FLAG_READONLY);
    put_frame(self, frame);
    return self->memory;
}

void slot_memory_forget(struct slot_memory *self)
{
    g_mutex_lock(&self->lock);
    self->filled = FALSE;
    /* A GPU may still be working on it for its last user: the CPU has to wait for that. */
    self->written |= self->used;
    g_mutex_unlock(&self->lock);
}
