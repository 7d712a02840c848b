/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A slot as a GstMemory: its life, and how the CPU sees it. */
#include "memory/memory.h"

#include "base/plugin.h"

#include <string.h>

/* === slot ==================================================================================== */
/* A GstMemory that is a slot: it owns a gpud_frame, maps it for users, and releases it with the
 * last reference to the memory (not to a buffer: think of tee).
 *
 * Each slot's GstMemory is kept and reused for the next frame in that slot, so that anything
 * downstream caches about a memory stays valid, and nothing is allocated while frames flow.
 *
 * There are several kinds: memory that the CPU maps (memory.c), and one for each vendor of
 * GPUs (in its folder). */

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

/* For the store only: makes a memory a slot. */
static void slot_memory_bind(GstMemory *memory, struct slot_memory *slot, GDestroyNotify destroy)
{
    if (slot_is_plain(memory))
        ((struct plain_memory *)memory)->slot = slot;
    gst_mini_object_set_qdata(GST_MINI_OBJECT_CAST(memory), slot_quark(), slot, destroy);
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
    if (end_check(self) && !goes_up && !late)
        bytes = g_memdup2(self->data, self->size);
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

static struct outstanding *outstanding_ref(struct outstanding *outstanding)
{
    g_atomic_ref_count_inc(&outstanding->references);
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

static void outstanding_add(struct outstanding *outstanding)
{
    g_atomic_int_inc(&outstanding->count);
}

static void outstanding_remove(struct outstanding *outstanding)
{
    g_atomic_int_add(&outstanding->count, -1);
    if (g_atomic_int_get(&outstanding->waiting)) {
        g_mutex_lock(&outstanding->lock);
        g_cond_broadcast(&outstanding->changed);
        g_mutex_unlock(&outstanding->lock);
    }
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

static struct slot_store *slot_store_ref(struct slot_store *store);

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

static struct slot_store *slot_store_ref(struct slot_store *store)
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
