/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A GstMemory that is a slot. See the header for who owns what. */
#include "memory.h"
#include "context.h"

/* No GstMemory waits longer than this for a picture that is still on its way. */
#define MAP_TIMEOUT (2 * GPUD_SEC)

struct _GstGpudirectAllocator {
    GstAllocator parent;
    GstVideoInfo info;
    struct lender *lender; /* identity only */
    guint generation;
    gboolean host;
    struct ledger *ledger;

    GMutex lock;
    gboolean closed;
    GPtrArray *parked; /* struct slot_memory by slot, or NULL */
};

G_DEFINE_TYPE(GstGpudirectAllocator, gst_gpudirect_allocator, GST_TYPE_ALLOCATOR)

/* --- mapping ------------------------------------------------------------------------------ */

static enum gpud_status map_frame(struct slot_memory *self, unsigned access, void **data,
                                  struct gpud_error *error)
{
    enum gpud_status status = gpud_frame_map(self->frame, access, MAP_TIMEOUT, data, error);

    /* The writer died in mid-frame. The frame says so now, and can be looked at all the same. */
    if (status == GPUD_PEER)
        status = gpud_frame_map(self->frame, access, MAP_TIMEOUT, data, error);
    return status;
}

/* A part of a memory is mapped as the whole; GStreamer adds the offset. */
static struct slot_memory *whole(GstMemory *memory)
{
    return (struct slot_memory *)(memory->parent ? memory->parent : memory);
}

static gpointer slot_map(GstMemory *memory, GstMapInfo *info, gsize maxsize)
{
    struct slot_memory *self = whole(memory);
    struct gpud_error error;
    void *data = NULL;

    if (self->host)
        return self->host;
    unsigned access = ((info->flags & GST_MAP_READ) ? GPUD_READ : 0u) |
                      ((info->flags & GST_MAP_WRITE) ? GPUD_WRITE : 0u);
    g_mutex_lock(&self->lock);
    enum gpud_status status = map_frame(self, access, &data, &error);
    if (status == GPUD_OK)
        self->maps++;
    g_mutex_unlock(&self->lock);
    if (status != GPUD_OK)
        GST_CAT_ERROR(gpud_gst_debug, "slot %u cannot be mapped: %s", self->slot, error.reason);
    return status == GPUD_OK ? data : NULL;
}

static void slot_unmap(GstMemory *memory, GstMapInfo *info)
{
    struct slot_memory *self = whole(memory);

    if (self->host)
        return;
    g_mutex_lock(&self->lock);
    self->maps--;
    gpud_frame_unmap(self->frame);
    g_mutex_unlock(&self->lock);
}

/* --- one memory's life -------------------------------------------------------------------- */

void slot_memory_attach(GstMemory *memory, struct gpud_frame *frame)
{
    struct slot_memory *self = (struct slot_memory *)memory;
    GstGpudirectAllocator *allocator = GST_GPUDIRECT_ALLOCATOR(memory->allocator);

    self->frame = frame;
    if (allocator->lender)
        GST_MINI_OBJECT_FLAG_UNSET(memory, GST_MEMORY_FLAG_READONLY);
    /* Somebody may have narrowed it: gst_buffer_resize() works on the memory. */
    memory->offset = 0;
    memory->size = memory->maxsize;
    ledger_take(allocator->ledger);
}

struct gpud_frame *slot_memory_detach(GstMemory *memory)
{
    struct slot_memory *self = (struct slot_memory *)memory;
    return g_steal_pointer(&self->frame);
}

void slot_memory_give_back(GstGpudirectAllocator *allocator, struct gpud_frame *frame)
{
    gpud_frame_release(&frame);
    ledger_give(allocator->ledger);
}

/* The last reference is gone. The memory is parked before its frame goes back, so that it is found
 * when the same slot comes again, which may be at once and in another thread. */
static gboolean slot_dispose(GstMiniObject *object)
{
    GstMemory *memory = (GstMemory *)object;
    struct slot_memory *self = (struct slot_memory *)memory;
    GstGpudirectAllocator *allocator = gst_object_ref(GST_GPUDIRECT_ALLOCATOR(memory->allocator));
    gboolean had_frame = self->frame != NULL;
    struct gpud_frame *frame = slot_memory_detach(memory);
    gboolean parked = FALSE;

    g_mutex_lock(&allocator->lock);
    if (!allocator->closed && self->slot < allocator->parked->len &&
        !g_ptr_array_index(allocator->parked, self->slot)) {
        gst_memory_ref(memory);
        g_ptr_array_index(allocator->parked, self->slot) = self;
        parked = TRUE;
    }
    g_mutex_unlock(&allocator->lock);
    if (had_frame)
        slot_memory_give_back(allocator, frame);
    gst_object_unref(allocator);
    return !parked;
}

static GstMemory *slot_memory_new(GstGpudirectAllocator *allocator, struct gpud_frame *frame)
{
    struct slot_memory *self = g_new0(struct slot_memory, 1);
    struct gpud_frame_info info;
    GstMemoryFlags flags = allocator->lender ? (GstMemoryFlags)0 : GST_MEMORY_FLAG_READONLY;

    gpud_frame_get_info(frame, &info);
    gst_memory_init(&self->memory, flags, GST_ALLOCATOR(allocator), NULL, (gsize)info.layout.size,
                    0, 0, (gsize)info.layout.size);
    GST_MINI_OBJECT_CAST(self)->dispose = slot_dispose;
    g_mutex_init(&self->lock);
    self->slot = gpud_frame_get_slot(frame);
    self->lender = allocator->lender;
    self->generation = allocator->generation;
    layout_to_planes(&info.layout, &allocator->info, &self->planes);
    if (allocator->host) {
        uint64_t offset;
        struct gpud_memory *native = gpud_frame_get_memory(frame, &offset);
        self->host = (uint8_t *)gpud_memory_get_native(native) + offset;
    }
    return &self->memory;
}

/* A part, for who splits a picture: it holds the whole, and is freed like any memory. */
static GstMemory *slot_share(GstMemory *memory, gssize offset, gssize size)
{
    GstMemory *parent = &whole(memory)->memory;
    struct slot_memory *part = g_new0(struct slot_memory, 1);
    gsize length = size < 0 ? memory->size - (gsize)offset : (gsize)size;

    gst_memory_init(&part->memory, GST_MEMORY_FLAG_READONLY, parent->allocator, parent,
                    parent->maxsize, 0, memory->offset + (gsize)offset, length);
    g_mutex_init(&part->lock);
    return &part->memory;
}

static void slot_free(GstAllocator *allocator, GstMemory *memory)
{
    struct slot_memory *self = (struct slot_memory *)memory;

    g_mutex_clear(&self->lock);
    g_free(self);
}

GstMemory *gst_gpudirect_allocator_wrap(GstGpudirectAllocator *self, struct gpud_frame *frame)
{
    uint32_t slot = gpud_frame_get_slot(frame);
    GstMemory *memory = NULL;

    if (slot != UINT32_MAX) {
        g_mutex_lock(&self->lock);
        if (slot >= self->parked->len)
            g_ptr_array_set_size(self->parked, (gint)slot + 1);
        memory = g_ptr_array_index(self->parked, slot);
        g_ptr_array_index(self->parked, slot) = NULL;
        g_mutex_unlock(&self->lock);
    }
    if (!memory)
        memory = slot_memory_new(self, frame);
    slot_memory_attach(memory, frame);
    return memory;
}

struct slot_memory *slot_memory_of_buffer(GstBuffer *buffer)
{
    if (gst_buffer_n_memory(buffer) != 1)
        return NULL;
    GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
    if (!memory->allocator || G_OBJECT_TYPE(memory->allocator) != GST_TYPE_GPUDIRECT_ALLOCATOR ||
        memory->parent || memory->offset != 0 || memory->size != memory->maxsize)
        return NULL;
    return (struct slot_memory *)memory;
}

/* --- the allocator ------------------------------------------------------------------------ */

GstGpudirectAllocator *gst_gpudirect_allocator_new(const GstVideoInfo *info, struct lender *lender,
                                                   guint generation, gboolean host,
                                                   struct ledger *ledger)
{
    GstGpudirectAllocator *self = g_object_new(GST_TYPE_GPUDIRECT_ALLOCATOR, NULL);

    gst_object_ref_sink(self);
    self->info = *info;
    self->lender = lender;
    self->generation = generation;
    self->host = host;
    self->ledger = ledger_ref(ledger);
    return self;
}

void gst_gpudirect_allocator_open(GstGpudirectAllocator *self)
{
    g_mutex_lock(&self->lock);
    self->closed = FALSE;
    g_mutex_unlock(&self->lock);
}

void gst_gpudirect_allocator_close(GstGpudirectAllocator *self)
{
    g_mutex_lock(&self->lock);
    self->closed = TRUE;
    GPtrArray *parked = self->parked;
    self->parked = g_ptr_array_new();
    g_mutex_unlock(&self->lock);

    for (guint i = 0; i < parked->len; i++)
        if (g_ptr_array_index(parked, i))
            gst_memory_unref(g_ptr_array_index(parked, i));
    g_ptr_array_unref(parked);
}

static GstMemory *refuse_alloc(GstAllocator *allocator, gsize size, GstAllocationParams *params)
{
    GST_CAT_ERROR(gpud_gst_debug,
                  "slots come with a link, from the pool that gpudirectsink proposes");
    return NULL;
}

static void gst_gpudirect_allocator_finalize(GObject *object)
{
    GstGpudirectAllocator *self = GST_GPUDIRECT_ALLOCATOR(object);

    g_ptr_array_unref(self->parked);
    g_mutex_clear(&self->lock);
    ledger_unref(self->ledger);
    G_OBJECT_CLASS(gst_gpudirect_allocator_parent_class)->finalize(object);
}

static void gst_gpudirect_allocator_class_init(GstGpudirectAllocatorClass *klass)
{
    GstAllocatorClass *allocator_class = GST_ALLOCATOR_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = gst_gpudirect_allocator_finalize;
    allocator_class->alloc = refuse_alloc;
    allocator_class->free = slot_free;
}

static void gst_gpudirect_allocator_init(GstGpudirectAllocator *self)
{
    GstAllocator *allocator = GST_ALLOCATOR(self);

    allocator->mem_type = "GpudirectSlot";
    allocator->mem_map_full = slot_map;
    allocator->mem_unmap_full = slot_unmap;
    allocator->mem_share = slot_share;
    GST_OBJECT_FLAG_SET(self, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC);
    g_mutex_init(&self->lock);
    self->parked = g_ptr_array_new();
}
