/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Slots as GstMemory: their life, how the CPU sees them, the sender that lends them, and pools of
 * them. */
#include "memory/memory.h"

#include "base/plugin.h"
#include "wire/codec.h"

#include <string.h>
#include <unistd.h>

/* === slot ==================================================================================== */

static GQuark slot_quark(void)
{
    static GQuark quark;

    if (!quark)
        quark = g_quark_from_static_string("GpudirectSlot");
    return quark;
}

/* Memory of the plain kind has its slot beside it: GStreamer's way takes a lock, and each frame
 * asks several times. */
struct plain_memory {
    GstMemory memory; /* first */
    struct slot_memory *slot;
};

static const char plain_type[] = "GpudirectSlot";

static gboolean slot_is_plain(const GstMemory *memory)
{
    return memory->allocator && memory->allocator->mem_type == plain_type;
}

struct slot_memory *slot_memory_of(GstMemory *memory)
{
    if (memory->parent)
        memory = memory->parent;
    if (slot_is_plain(memory))
        return ((struct plain_memory *)memory)->slot;
    return gst_mini_object_get_qdata(GST_MINI_OBJECT_CAST(memory), slot_quark());
}

struct slot_memory *slot_memory_of_buffer(GstBuffer *buffer)
{
    if (gst_buffer_n_memory(buffer) != 1)
        return NULL;
    GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
    struct slot_memory *slot = memory->parent ? NULL : slot_memory_of(memory);
    if (!slot || memory->offset != 0 || memory->size != slot->size)
        return NULL;
    return slot->extra ? NULL : slot;
}

static gboolean slot_memory_is_unused(struct slot_memory *slot)
{
    return !slot->store->kind->is_unused || slot->store->kind->is_unused(slot);
}

/* === map ===================================================================================== */
/* Maps a slot for the CPU, from any thread.
 *
 * A frame allows one call at a time, and some calls wait: a map for the device, a submit for a
 * receiver. So that a reader and the sink never wait for each other, a reader of a device's slot
 * maps a second frame over the same bytes (slot->reader), and the slot's own frame stays free. The
 * lock is not held during calls that wait: `busy` replaces it. */

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

/* Under the lock. GLib asks the kernel at each broadcast, whether or not a thread waits. */
static void end_busy(struct slot_memory *self)
{
    self->busy = FALSE;
    if (self->waits_for_idle)
        g_cond_broadcast(&self->idle);
}

/* Under the lock, which is dropped meanwhile. */
static enum gpud_status map_first(struct slot_memory *self, unsigned access, void **data,
                                  struct gpud_error *error)
{
    /* Whether a map for reading may be used for writing. A submitted slot is no longer written. */
    gboolean looks = access == GPUD_READ && self->on_device && self->store->sender &&
                     !GST_MINI_OBJECT_FLAG_IS_SET(self->memory, GST_MEMORY_FLAG_READONLY);

    /* GStreamer has no flag for overwriting everything, so a map for writing must also read, to
     * keep what is not written. Before the first write there is nothing to keep: no copy then. */
    if ((access == GPUD_WRITE && self->filled) ||
        (looks && (!self->filled || g_atomic_int_get(&self->store->misused))))
        access = GPUD_READ | GPUD_WRITE;
    gboolean reads = access == GPUD_READ && self->on_device;
    if (reads && !need_reader(self, error))
        return error->status;
    self->mapped = reads ? self->reader : self->frame;
    self->busy = TRUE;
    g_mutex_unlock(&self->lock);
    enum gpud_status status = map_frame(self->mapped, access, data, error);
    if (status == GPUD_OK && looks) {
        self->checking = self->checks < CHECKS && !g_atomic_int_get(&self->store->misused);
        if (self->checking) {
            self->checks++;
            self->checksum = checksum(*data, self->size);
        }
    }
    g_mutex_lock(&self->lock);
    end_busy(self);
    if (status == GPUD_OK) {
        self->data = *data;
        self->copies_back = (access & GPUD_WRITE) != 0;
        self->filled |= self->copies_back;
    }
    return status;
}

/* Maps nest, with the access of the first. On the host they find the bytes, and copy nothing. */
void *slot_memory_map(struct slot_memory *self, GstMapFlags flags)
{
    unsigned access =
        ((flags & GST_MAP_READ) ? GPUD_READ : 0u) | ((flags & GST_MAP_WRITE) ? GPUD_WRITE : 0u);
    enum gpud_status status;
    struct gpud_error error;
    void *data = NULL;

    g_mutex_lock(&self->lock);
    while (self->busy) {
        self->waits_for_idle++;
        g_cond_wait(&self->idle, &self->lock);
        self->waits_for_idle--;
    }
    if (!self->on_device)
        self->mapped = self->frame;
    status = self->maps == 0 && self->on_device ? map_first(self, access, &data, &error)
                                                : map_frame(self->mapped, access, &data, &error);
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
    if (self->checking && checksum(self->data, self->size) != self->checksum) {
        g_atomic_int_set(&self->store->misused, TRUE);
        counter_add(&self->store->counters->misuses);
        if (!goes_up && !late)
            bytes = g_memdup2(self->data, self->size);
    }
    self->checking = FALSE;
    gpud_frame_unmap(self->mapped);
    if (bytes)
        write_back(self, bytes);
    g_mutex_lock(&self->lock);
    end_busy(self);
    g_free(bytes);
    return goes_up || bytes;
}

gboolean slot_memory_unmap(struct slot_memory *self)
{
    gboolean goes_up = FALSE;

    g_mutex_lock(&self->lock);
    if (self->maps == 1 && self->on_device)
        goes_up = unmap_last(self);
    else
        gpud_frame_unmap(self->mapped);
    self->maps--;
    g_mutex_unlock(&self->lock);
    return goes_up;
}

/* A part of a memory is mapped as the whole; GStreamer adds the offset. */
static gpointer slot_memory_map_full(GstMemory *memory, GstMapInfo *info, gsize maxsize)
{
    struct slot_memory *self = slot_memory_of(memory);

    return self->host ? self->host : slot_memory_map(self, info->flags);
}

static void slot_memory_unmap_full(GstMemory *memory, GstMapInfo *info)
{
    struct slot_memory *self = slot_memory_of(memory);

    if (!self->host)
        slot_memory_unmap(self);
}

void slot_init_allocator(GstAllocator *allocator)
{
    allocator->mem_map_full = slot_memory_map_full;
    allocator->mem_unmap_full = slot_memory_unmap_full;
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

/* === outstanding ============================================================================= */
/* Counts the slots of one ring that buffers hold. Counting is one atomic operation; the lock is
 * only for waiting. */

struct outstanding {
    gatomicrefcount references;
    gint count;   /* atomic */
    gint waiting; /* atomic: threads that sleep on `changed` */
    GMutex lock;
    GCond changed;
};

struct outstanding *outstanding_new(void)
{
    struct outstanding *outstanding = g_new0(struct outstanding, 1);
    g_atomic_ref_count_init(&outstanding->references);
    g_mutex_init(&outstanding->lock);
    g_cond_init(&outstanding->changed);
    return outstanding;
}

void outstanding_unref(struct outstanding *outstanding)
{
    if (!outstanding || !g_atomic_ref_count_dec(&outstanding->references))
        return;
    g_cond_clear(&outstanding->changed);
    g_mutex_clear(&outstanding->lock);
    g_free(outstanding);
}

gint outstanding_count(struct outstanding *outstanding)
{
    return g_atomic_int_get(&outstanding->count);
}

gboolean outstanding_wait_below(struct outstanding *outstanding, gint limit, gint64 microseconds)
{
    gint64 deadline = g_get_monotonic_time() + microseconds;
    gboolean in_time = TRUE;

    g_mutex_lock(&outstanding->lock);
    g_atomic_int_inc(&outstanding->waiting);
    while (in_time && outstanding_count(outstanding) >= limit)
        in_time = g_cond_wait_until(&outstanding->changed, &outstanding->lock, deadline);
    g_atomic_int_add(&outstanding->waiting, -1);
    g_mutex_unlock(&outstanding->lock);
    return outstanding_count(outstanding) < limit;
}

/* === memory ================================================================================== */
/* A GstMemory that is a slot. See the header for ownership. */

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

/* Puts another frame of the same slot into a memory that has no other owner. Takes the frame. */
static void slot_memory_attach(struct slot_memory *self, struct gpud_frame *frame)
{
    g_atomic_int_inc(&self->store->outstanding->count);
    put_frame(self, frame);
}

/* Takes the frame out of a memory that has no other owner. */
static struct gpud_frame *slot_memory_detach(struct slot_memory *self)
{
    if (self->frame)
        self->store->kind->leaving(self);
    gpud_frame_release(&self->reader); /* it wraps the other frame's bytes */
    return g_steal_pointer(&self->frame);
}

/* Releases a frame and counts it as returned. */
static void slot_store_give_back(struct slot_store *store, struct gpud_frame *frame)
{
    struct outstanding *outstanding = store->outstanding;

    gpud_frame_release(&frame);
    g_atomic_int_add(&outstanding->count, -1);
    if (g_atomic_int_get(&outstanding->waiting)) {
        g_mutex_lock(&outstanding->lock);
        g_cond_broadcast(&outstanding->changed);
        g_mutex_unlock(&outstanding->lock);
    }
}

/* The most idle extra memories to keep: more than a healthy pipeline ever uses. */
#define EXTRAS_MAX 16

/* The last reference is gone. The memory becomes idle before its frame is released, because the
 * same slot may be wrapped again at once, by another thread. */
static gboolean slot_dispose(GstMiniObject *object)
{
    GstMemory *memory = (GstMemory *)object;
    struct slot_memory *self = slot_memory_of(memory);
    struct slot_store *store = self->store;
    gboolean extra = self->extra, kept = FALSE;

    if (extra) { /* keeps its frame, on which a GPU may still be working */
        g_mutex_lock(&store->lock);
        kept = !store->closed && store->extras.length < EXTRAS_MAX;
        if (kept)
            g_queue_push_head(&store->extras, gst_memory_ref(memory));
        g_mutex_unlock(&store->lock);
        if (kept)
            return FALSE;
    }
    g_atomic_ref_count_inc(&store->references);
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

static struct slot_memory *slot_new(struct slot_store *store, struct gpud_frame *frame)
{
    struct slot_memory *self = g_new0(struct slot_memory, 1);
    struct gpud_device_info device = GPUD_INFO_INIT(device);
    struct gpud_frame_info info;

    info.size = sizeof(info);
    gpud_frame_get_info(frame, &info);
    gpud_device_get_info(info.device, &device);
    g_mutex_init(&self->lock);
    g_cond_init(&self->idle);
    g_atomic_ref_count_inc(&store->references);
    self->on_device = strcmp(device.name, "host") != 0;
    self->store = store;
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
    if (slot_is_plain(self->memory))
        ((struct plain_memory *)self->memory)->slot = self;
    gst_mini_object_set_qdata(GST_MINI_OBJECT_CAST(self->memory), slot_quark(), self, slot_free);
    return self;
}

/* --- the plain kind ----------------------------------------------------------------------- */

static GstMemory *plain_new_memory(struct slot_store *store, struct gpud_frame *frame,
                                   const struct gpud_layout *layout,
                                   const struct video_planes *planes)
{
    struct plain_memory *plain = g_new0(struct plain_memory, 1);

    gst_memory_init(&plain->memory, (GstMemoryFlags)0, store->allocator, NULL, (gsize)layout->size,
                    0, 0, (gsize)layout->size);
    return &plain->memory;
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

    allocator->mem_type = plain_type;
    allocator->mem_share = plain_share;
    GST_OBJECT_FLAG_SET(self, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC);
}

/* Nothing to do: the core orders the CPU's accesses by its maps. */
static void plain_arrived(struct slot_memory *slot)
{
}

static void plain_leaving(struct slot_memory *slot)
{
}

const struct slot_kind plain_slot_kind = {
    .get_allocator_type = gst_gpudirect_allocator_get_type,
    .init_allocator = slot_init_allocator,
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
    store->allocator = gst_object_ref_sink(g_object_new(store->kind->get_allocator_type(), NULL));
    store->kind->init_allocator(store->allocator);
    store->info = *params->info;
    store->gpu = params->gpu;
    store->sender = params->sender;
    store->epoch = params->epoch;
    store->host = params->host;
    store->outstanding = params->outstanding;
    g_atomic_ref_count_inc(&store->outstanding->references);
    store->counters = counters_ref(params->counters);
    g_mutex_init(&store->lock);
    store->idle = g_ptr_array_new();
    g_queue_init(&store->extras);
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

/* The slot gets a new user, which need not preserve its content. */
static void slot_memory_forget(struct slot_memory *self)
{
    g_mutex_lock(&self->lock);
    self->filled = FALSE;
    /* A GPU may still be working on it for its last user: the CPU has to wait for that. */
    self->written |= self->used;
    g_mutex_unlock(&self->lock);
}

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

GstMemory *slot_store_get_extra(struct slot_store *store)
{
    GstMemory *memory = take_extra(store);
    struct gpud_memory *bytes = NULL;
    struct gpud_frame *frame = NULL;
    struct gpud_layout layout;
    struct gpud_error error;

    if (memory || !layout_from_info(&layout, &store->info))
        return memory;
    if (alloc_memory(store, layout.size, &bytes, &error) != GPUD_OK ||
        gpud_frame_wrap(bytes, 0, &layout, &frame, &error) != GPUD_OK)
        GST_CAT_ERROR(gpud_gst_debug, "no memory to replace a slot: %s", error.reason);
    gpud_memory_unref(&bytes);
    struct slot_memory *self = frame ? slot_new(store, frame) : NULL;
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

/* === sender ================================================================================== */

/* How long upstream waits for a free slot before it gets a stand-in, which costs a copy. Longer
 * than a frame at any rate in use, shorter than a perceptible hang. */
#define ACQUIRE_TIMEOUT (100 * GPUD_MSEC)

struct shared_sender {
    gatomicrefcount references;
    guint slots;
    gboolean host;
    gint may_block;   /* atomic: acquiring a slot may */
    gint interrupted; /* atomic: the sink's request */

    /* Readers take slots; the writer closes the sender or starts an epoch. */
    GRWLock lock;
    struct gpud_sender *core;
    /* Guards only the life of the core's sender. Readers query it, or interrupt a call that holds
     * the lock above; the writer closes it. So a query never blocks the stream. */
    GRWLock life;
    guint epoch;
    struct outstanding *outstanding;

    /* Why the pools found no slots at all; reported once per epoch. */
    GMutex lack_lock;
    struct gpud_error lack;
    gint lacks; /* atomic: enum lack_state */
};

enum lack_state { LACK_NONE, LACK_FOUND, LACK_TOLD };

struct shared_sender *shared_sender_new(struct gpud_sender *core, guint slots, gboolean host)
{
    struct shared_sender *sender = g_new0(struct shared_sender, 1);

    g_atomic_ref_count_init(&sender->references);
    g_rw_lock_init(&sender->lock);
    g_rw_lock_init(&sender->life);
    g_mutex_init(&sender->lack_lock);
    sender->core = core;
    sender->slots = slots;
    sender->host = host;
    sender->may_block = TRUE;
    sender->outstanding = outstanding_new();
    return sender;
}

struct shared_sender *shared_sender_ref(struct shared_sender *sender)
{
    g_atomic_ref_count_inc(&sender->references);
    return sender;
}

void shared_sender_unref(struct shared_sender *sender)
{
    if (!sender || !g_atomic_ref_count_dec(&sender->references))
        return;
    gpud_sender_destroy(&sender->core);
    outstanding_unref(sender->outstanding);
    g_rw_lock_clear(&sender->lock);
    g_rw_lock_clear(&sender->life);
    g_mutex_clear(&sender->lack_lock);
    g_free(sender);
}

struct gpud_sender *shared_sender_take(struct shared_sender *sender)
{
    shared_sender_interrupt(sender, TRUE);
    g_rw_lock_writer_lock(&sender->lock);
    g_rw_lock_writer_lock(&sender->life);
    struct gpud_sender *core = g_steal_pointer(&sender->core);
    g_rw_lock_writer_unlock(&sender->life);
    g_rw_lock_writer_unlock(&sender->lock);
    return core;
}

struct gpud_sender *shared_sender_core(struct shared_sender *sender)
{
    return sender->core;
}

void shared_sender_set_slow_receiver(struct shared_sender *sender, enum gpud_slow_receiver policy)
{
    g_atomic_int_set(&sender->may_block, policy == GPUD_SLOW_BLOCK);
    g_rw_lock_reader_lock(&sender->life);
    if (sender->core)
        gpud_sender_set_slow_receiver(sender->core, policy, NULL);
    g_rw_lock_reader_unlock(&sender->life);
}

void shared_sender_get_info(struct shared_sender *sender, struct gpud_sender_info *info)
{
    g_rw_lock_reader_lock(&sender->life);
    if (sender->core)
        gpud_sender_get_info(sender->core, info);
    g_rw_lock_reader_unlock(&sender->life);
}

guint shared_sender_epoch(struct shared_sender *sender)
{
    return sender->epoch;
}

/* The sink's request may change while it is being applied. */
static void apply_interrupted(struct shared_sender *sender)
{
    gint wanted;

    do {
        wanted = g_atomic_int_get(&sender->interrupted);
        gpud_sender_interrupt(sender->core, wanted);
    } while (wanted != g_atomic_int_get(&sender->interrupted));
}

gboolean shared_sender_is_interrupted(struct shared_sender *sender)
{
    return g_atomic_int_get(&sender->interrupted);
}

gsize shared_sender_list_links(struct shared_sender *sender,
                               struct gpud_link_info link[GPUD_RECEIVERS_MAX])
{
    gsize count = 0;

    link[0].size = sizeof(link[0]);
    g_rw_lock_reader_lock(&sender->life);
    if (sender->core)
        count = gpud_sender_list_links(sender->core, link, GPUD_RECEIVERS_MAX);
    g_rw_lock_reader_unlock(&sender->life);
    return count;
}

enum gpud_status shared_sender_configure(struct shared_sender *sender,
                                         const struct gpud_media *media, gboolean dmabufs,
                                         struct gpud_error *error)
{
    /* An element upstream may be waiting for a slot of the old epoch. */
    gpud_sender_interrupt(sender->core, true);
    g_rw_lock_writer_lock(&sender->lock);
    apply_interrupted(sender);
    gpud_sender_set_dmabufs(sender->core, dmabufs);
    enum gpud_status status = gpud_sender_configure(sender->core, media, error);
    if (status == GPUD_OK) {
        sender->epoch++;
        g_atomic_int_set(&sender->lacks, LACK_NONE);
        outstanding_unref(sender->outstanding);
        sender->outstanding = outstanding_new();
    }
    g_rw_lock_writer_unlock(&sender->lock);
    return status;
}

void shared_sender_interrupt(struct shared_sender *sender, gboolean interrupted)
{
    g_atomic_int_set(&sender->interrupted, interrupted);
    g_rw_lock_reader_lock(&sender->life);
    if (sender->core)
        apply_interrupted(sender);
    g_rw_lock_reader_unlock(&sender->life);
}

gboolean shared_sender_take_lack(struct shared_sender *sender, struct gpud_error *error)
{
    if (g_atomic_int_get(&sender->lacks) != LACK_FOUND)
        return FALSE;
    g_mutex_lock(&sender->lack_lock);
    gboolean taken = g_atomic_int_compare_and_exchange(&sender->lacks, LACK_FOUND, LACK_TOLD);
    if (taken)
        *error = sender->lack;
    g_mutex_unlock(&sender->lack_lock);
    return taken;
}

enum gpud_status shared_sender_acquire(struct shared_sender *sender, guint epoch, gboolean may_wait,
                                       struct gpud_frame **frame)
{
    enum gpud_status status = GPUD_CLOSED;
    struct gpud_error error;

    g_rw_lock_reader_lock(&sender->lock);
    if (sender->core && sender->epoch == epoch) {
        gboolean exhausted = outstanding_count(sender->outstanding) + 1 >= (gint)sender->slots;
        gint64 timeout = may_wait && g_atomic_int_get(&sender->may_block) ? ACQUIRE_TIMEOUT : 0;
        status =
            exhausted ? GPUD_TIMEOUT : gpud_sender_acquire(sender->core, timeout, frame, &error);
        /* There are no slots at all, rather than no free one, or one of another format. */
        if (status == GPUD_NO_MEMORY || status == GPUD_IO || status == GPUD_UNSUPPORTED ||
            status == GPUD_NO_ACCESS || status == GPUD_NO_DEVICE) {
            g_mutex_lock(&sender->lack_lock);
            sender->lack = error;
            g_atomic_int_compare_and_exchange(&sender->lacks, LACK_NONE, LACK_FOUND);
            g_mutex_unlock(&sender->lack_lock);
        }
    }
    g_rw_lock_reader_unlock(&sender->lock);
    return status;
}

/* === pool ==================================================================================== */
/* Buffers that are slots. See the header for the two uses. */

/* A buffer of a slot beyond is made anew for each frame. */
#define IDLE_MAX 512

struct slot_pool {
    GstBufferPool *pool;          /* the pool that has this behind it */
    GstVideoInfo info;            /* with the slots' strides */
    struct gpu *gpu;              /* NULL: memory that the CPU maps */
    gboolean dmabufs;             /* all buffers have one */
    gint no_slots;                /* atomic: slots have no dma-bufs, all buffers are stand-ins */
    struct shared_sender *sender; /* NULL: a receiving pool */
    struct slot_store *store;

    /* Atomic, by slot: a buffer with the slot's idle memory inside, or NULL. */
    GstBuffer *idle[IDLE_MAX];

    GMutex lock;
    GQueue plain; /* idle buffers that stand in for slots */
};

/* The parameters that gst_gpudirect_pool_wrap() passes to the acquire_buffer method. */
#define ACQUIRE_FLAG_FRAME GST_BUFFER_POOL_ACQUIRE_FLAG_LAST

struct wrap_params {
    GstBufferPoolAcquireParams parent; /* first */
    struct gpud_frame *frame;
};

/* --- idle buffers ------------------------------------------------------------------------- */

/* Without a lock, as each frame comes by twice. */
static GstBuffer *take_idle(struct slot_pool *self, uint32_t slot)
{
    return slot < IDLE_MAX ? __atomic_exchange_n(&self->idle[slot], NULL, __ATOMIC_ACQUIRE) : NULL;
}

/* Elements may change the meta of a writable buffer, so it is rewritten for each frame. */
static void set_video_meta(struct slot_pool *self, GstBuffer *buffer, struct video_planes *planes)
{
    GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);

    if (!meta) {
        meta = gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE,
                                              GST_VIDEO_INFO_FORMAT(&self->info),
                                              (guint)self->info.width, (guint)self->info.height,
                                              planes->count, planes->offset, planes->stride);
        GST_META_FLAG_SET(&meta->meta, GST_META_FLAG_POOLED);
        return;
    }
    meta->width = (guint)self->info.width;
    meta->height = (guint)self->info.height;
    for (guint i = 0; i < planes->count; i++) {
        meta->offset[i] = planes->offset[i];
        meta->stride[i] = planes->stride[i];
    }
}

static GstBuffer *wrap_frame(struct slot_pool *self, struct gpud_frame *frame)
{
    struct gpud_frame_info info;
    struct slot_memory *slot;

    info.size = sizeof(info);
    gpud_frame_get_info(frame, &info);
    GstBuffer *buffer = take_idle(self, info.slot);
    if (buffer) {
        slot = slot_memory_of(gst_buffer_peek_memory(buffer, 0));
        slot_memory_attach(slot, frame);
    } else {
        GstMemory *memory = slot_store_wrap(self->store, frame);
        if (!memory)
            return NULL;
        slot = slot_memory_of(memory);
        buffer = gst_buffer_new();
        gst_buffer_append_memory(buffer, memory);
    }
    GST_BUFFER_FLAG_UNSET(buffer, GST_BUFFER_FLAG_TAG_MEMORY);
    set_video_meta(self, buffer, &slot->planes);
    return buffer;
}

/* --- stand-ins for slots ------------------------------------------------------------------ */

static GstBuffer *take_stand_in(struct slot_pool *self)
{
    g_mutex_lock(&self->lock);
    /* Of dma-bufs, the one that has been idle for the longest time. */
    GstBuffer *buffer =
        self->dmabufs ? g_queue_pop_tail(&self->plain) : g_queue_pop_head(&self->plain);
    if (buffer && self->dmabufs &&
        !slot_memory_is_unused(slot_memory_of(gst_buffer_peek_memory(buffer, 0)))) {
        g_queue_push_tail(&self->plain, buffer);
        buffer = NULL;
    }
    g_mutex_unlock(&self->lock);

    if (!buffer) {
        GstMemory *memory = NULL;
        if (!self->gpu && !self->dmabufs)
            buffer = gst_buffer_new_allocate(NULL, self->info.size, NULL);
        else
            memory = slot_store_get_extra(self->store);
        if (memory) {
            buffer = gst_buffer_new();
            gst_buffer_append_memory(buffer, memory);
        }
        GST_CAT_DEBUG_OBJECT(gpud_gst_debug, self->pool, "no slot is free: using plain memory");
    }
    if (!buffer)
        return NULL;
    if (self->gpu || self->dmabufs)
        slot_memory_forget(slot_memory_of(gst_buffer_peek_memory(buffer, 0)));
    struct video_planes planes = {.count = GST_VIDEO_INFO_N_PLANES(&self->info)};
    for (guint i = 0; i < planes.count; i++) {
        planes.offset[i] = self->info.offset[i];
        planes.stride[i] = self->info.stride[i];
    }
    GST_BUFFER_FLAG_UNSET(buffer, GST_BUFFER_FLAG_TAG_MEMORY);
    set_video_meta(self, buffer, &planes);
    return buffer;
}

/* --- the classes -------------------------------------------------------------------------- */

/* Elements of a vendor refuse any pool but one of its library's class, and of their own context. So
 * for each such class, and for GstBufferPool, there is a class derived from it, with the slots
 * behind the parent's struct. */
static struct pool_class {
    gpointer class;
    gsize slots_at; /* in an instance */
} pool_classes[4];  /* more than there are vendors */

static struct slot_pool *slots_of(GstBufferPool *pool)
{
    struct pool_class *known = pool_classes;

    while (known->class != G_OBJECT_GET_CLASS(pool))
        known++;
    return (struct slot_pool *)((gchar *)pool + known->slots_at);
}

static GstFlowReturn pool_acquire_buffer(GstBufferPool *pool, GstBuffer **buffer,
                                         GstBufferPoolAcquireParams *params)
{
    struct slot_pool *self = slots_of(pool);
    struct gpud_frame *frame = NULL;

    if (params && (params->flags & ACQUIRE_FLAG_FRAME)) {
        *buffer = wrap_frame(self, g_steal_pointer(&((struct wrap_params *)params)->frame));
        return *buffer ? GST_FLOW_OK : GST_FLOW_ERROR;
    }
    if (!self->sender)
        return GST_FLOW_NOT_SUPPORTED;

    gboolean may_wait = !params || !(params->flags & GST_BUFFER_POOL_ACQUIRE_FLAG_DONTWAIT);
    enum gpud_status status =
        g_atomic_int_get(&self->no_slots)
            ? GPUD_TIMEOUT
            : shared_sender_acquire(self->sender, self->store->epoch, may_wait, &frame);
    if (GST_BUFFER_POOL_IS_FLUSHING(pool)) {
        if (status == GPUD_OK)
            gpud_frame_release(&frame);
        return GST_FLOW_FLUSHING;
    }
    *buffer = status == GPUD_OK ? wrap_frame(self, frame) : NULL;
    /* A slot that cannot be wrapped as this pool's kind is released, and no other is tried. */
    if (status == GPUD_OK && !*buffer)
        g_atomic_int_set(&self->no_slots, TRUE);
    if (!*buffer)
        *buffer = take_stand_in(self);
    return *buffer ? GST_FLOW_OK : GST_FLOW_ERROR;
}

static void pool_release_buffer(GstBufferPool *pool, GstBuffer *buffer)
{
    struct slot_pool *self = slots_of(pool);
    GstMemory *memory = gst_buffer_n_memory(buffer) == 1 ? gst_buffer_peek_memory(buffer, 0) : NULL;

    /* It can be reused if its memory has no other owner, and is as the pool made it. */
    if (!memory || GST_MINI_OBJECT_REFCOUNT_VALUE(memory) != 1) {
        gst_buffer_unref(buffer); /* the memory's last reference releases the frame */
        return;
    }
    struct slot_memory *slot = slot_memory_of(memory);
    if (slot && !memory->parent && slot->store == self->store && !slot->extra) {
        struct gpud_frame *frame = slot_memory_detach(slot);
        GstBuffer *none = NULL;
        if (slot->slot >= IDLE_MAX ||
            !__atomic_compare_exchange_n(&self->idle[slot->slot], &none, buffer, FALSE,
                                         __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            gst_buffer_unref(buffer);
        if (frame)
            slot_store_give_back(self->store, frame);
        return;
    }
    if (GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_TAG_MEMORY)) {
        gst_buffer_unref(buffer);
        return;
    }
    g_mutex_lock(&self->lock);
    g_queue_push_head(&self->plain, buffer);
    g_mutex_unlock(&self->lock);
}

static gboolean pool_start(GstBufferPool *pool)
{
    struct slot_store *store = slots_of(pool)->store;

    g_mutex_lock(&store->lock);
    store->closed = FALSE;
    g_mutex_unlock(&store->lock);
    return TRUE;
}

static gboolean pool_stop(GstBufferPool *pool)
{
    struct slot_pool *self = slots_of(pool);

    slot_store_close(self->store);
    for (uint32_t i = 0; i < IDLE_MAX; i++) {
        GstBuffer *buffer = take_idle(self, i);
        gst_clear_buffer(&buffer);
    }
    g_mutex_lock(&self->lock);
    g_queue_clear_full(&self->plain, (GDestroyNotify)gst_buffer_unref);
    g_mutex_unlock(&self->lock);
    return TRUE;
}

static const gchar **pool_get_options(GstBufferPool *pool)
{
    static const gchar *options[] = {GST_BUFFER_POOL_OPTION_VIDEO_META, NULL};
    return options;
}

/* Whether pictures of these caps lie in the pool's kind of memory. */
static gboolean is_memory_of(const struct slot_pool *self, const GstCaps *caps)
{
    const GstCapsFeatures *features = gst_caps_get_features(caps, 0);

    if (self->gpu)
        return !gst_caps_features_is_any(features) &&
               gst_caps_features_contains(features, self->gpu->vendor->feature);
    if (caps_are_dmabufs(caps))
        return self->dmabufs;
    for (guint i = 0; i < gst_caps_features_get_size(features); i++) {
        const gchar *feature = gst_caps_features_get_nth(features, i);
        if (g_str_has_prefix(feature, "memory:") &&
            !g_str_equal(feature, GST_CAPS_FEATURE_MEMORY_SYSTEM_MEMORY))
            return FALSE;
    }
    return TRUE;
}

/* The pool has one format: an element that needs another, or padding around the picture, uses its
 * own pool, and the sink copies.
 *
 * A vendor's method would allocate memory to find its own size, so GstBufferPool's is called. The
 * slots' size goes into the configuration, where the vendor's elements read it. */
static gboolean pool_set_config(GstBufferPool *pool, GstStructure *config)
{
    struct slot_pool *self = slots_of(pool);
    GstBufferPoolClass *base = g_type_class_peek(GST_TYPE_BUFFER_POOL);
    gsize page = (gsize)getpagesize();
    gsize pages = (self->info.size + page - 1) / page * page;
    guint size, min, max;
    GstVideoInfo info;
    GstCaps *caps;

    if (!gst_buffer_pool_config_get_params(config, &caps, &size, &min, &max) || !caps ||
        !video_info_from_caps(&info, caps))
        return FALSE;
    /* A driver that writes pictures itself states their size: larger ones have other strides,
     * unless they are rounded to whole pages, as dma-bufs are. */
    if (GST_VIDEO_INFO_FORMAT(&info) != GST_VIDEO_INFO_FORMAT(&self->info) ||
        info.width != self->info.width || info.height != self->info.height ||
        (size > self->info.size && !(self->dmabufs && size == pages)) ||
        !is_memory_of(self, caps)) {
        GST_CAT_DEBUG_OBJECT(gpud_gst_debug, pool, "has no slots of %u bytes for %" GST_PTR_FORMAT,
                             size, caps);
        return FALSE;
    }
    if (self->gpu) {
        gst_buffer_pool_config_set_params(config, caps, (guint)self->info.size, min, max);
        self->gpu->vendor->configure_pool(self->store, config);
    }
    return base->set_config(pool, config);
}

static void pool_finalize(GObject *object)
{
    GObjectClass *parent = g_type_class_peek_parent(G_OBJECT_GET_CLASS(object));
    struct slot_pool *self = slots_of(GST_BUFFER_POOL(object));

    pool_stop(self->pool); /* an active pool that is dropped was not stopped */
    g_mutex_clear(&self->lock);
    slot_store_unref(self->store);
    shared_sender_unref(self->sender);
    parent->finalize(object);
}

/* Under GObject's lock of types. */
static void pool_class_init(gpointer class, gpointer data)
{
    GstBufferPoolClass *pool_class = class;
    struct pool_class *known = pool_classes;

    while (known->class)
        known++;
    *known = (struct pool_class){class, GPOINTER_TO_SIZE(data)};
    G_OBJECT_CLASS(class)->finalize = pool_finalize;
    pool_class->get_options = pool_get_options;
    pool_class->set_config = pool_set_config;
    pool_class->acquire_buffer = pool_acquire_buffer;
    pool_class->release_buffer = pool_release_buffer;
    pool_class->start = pool_start;
    pool_class->stop = pool_stop;
}

static GType pool_type(GType parent, const gchar *name)
{
    static GMutex lock;
    GTypeQuery query;

    g_mutex_lock(&lock);
    GType type = g_type_from_name(name);
    if (!type) {
        g_type_query(parent, &query);
        gsize slots_at = (query.instance_size + 15) / 16 * 16;
        const GTypeInfo info = {
            .class_size = (guint16)query.class_size,
            .class_init = pool_class_init,
            .class_data = GSIZE_TO_POINTER(slots_at),
            .instance_size = (guint16)(slots_at + sizeof(struct slot_pool)),
        };
        type = g_type_register_static(parent, name, &info, (GTypeFlags)0);
    }
    g_mutex_unlock(&lock);
    return type;
}

GstBufferPool *gst_gpudirect_pool_new(const struct slot_pool_params *params, GstCaps *caps)
{
    const struct gpu_vendor *vendor = params->gpu ? params->gpu->vendor : NULL;
    GType type = vendor ? pool_type(vendor->get_pool_type(), vendor->pool_name)
                        : pool_type(GST_TYPE_BUFFER_POOL, "GstGpudirectPool");
    GstBufferPool *pool = gst_object_ref_sink(g_object_new(type, NULL));
    struct slot_pool *self = slots_of(pool);
    struct shared_sender *sender = params->sender;
    struct slot_store_params store = {
        .kind = vendor            ? vendor->slot_kind
                : params->dmabufs ? &dmabuf_slot_kind
                                  : &plain_slot_kind,
        .info = params->info,
        .gpu = params->gpu,
        .sender = sender,
        .epoch = sender ? sender->epoch : 0,
        .host = sender && sender->host,
        .outstanding = sender ? sender->outstanding : params->outstanding,
        .counters = params->counters,
    };

    if (vendor)
        vendor->init_pool(pool, params->gpu);
    self->pool = pool;
    self->info = *params->info;
    self->gpu = params->gpu;
    self->dmabufs = params->dmabufs;
    self->sender = sender ? shared_sender_ref(sender) : NULL;
    self->store = slot_store_new(&store);
    g_mutex_init(&self->lock);
    g_queue_init(&self->plain);

    GstStructure *config = gst_buffer_pool_get_config(pool);
    gst_buffer_pool_config_set_params(config, caps, (guint)params->info->size, 0, 0);
    gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
    if (!gst_buffer_pool_set_config(pool, config))
        gst_clear_object(&pool);
    return pool;
}

GstFlowReturn gst_gpudirect_pool_wrap(GstBufferPool *pool, struct gpud_frame *frame,
                                      GstBuffer **buffer)
{
    struct wrap_params params = {.parent = {.flags = ACQUIRE_FLAG_FRAME}, .frame = frame};
    GstFlowReturn flow = gst_buffer_pool_acquire_buffer(pool, buffer, &params.parent);

    if (params.frame) /* the pool is inactive, and did not take it */
        gpud_frame_release(&params.frame);
    return flow;
}

GstBuffer *gst_gpudirect_pool_stand_in(GstBufferPool *pool)
{
    return take_stand_in(slots_of(pool));
}
