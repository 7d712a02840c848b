/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pools: the slots that a sender lends. */
#include "memory/memory.h"

#include "base/plugin.h"
#include "wire/codec.h"

#include <unistd.h>

/* === sender ================================================================================== */
/* The core's sender, shared by gpudirectsink and the buffer pools that it proposed. */

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

static gboolean shared_sender_is_host(struct shared_sender *sender)
{
    return sender->host;
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

static struct outstanding *shared_sender_outstanding(struct shared_sender *sender)
{
    return sender->outstanding;
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

static guint64 longest_latency(struct gpud_sender *core)
{
    struct gpud_link_info link[GPUD_RECEIVERS_MAX] = {GPUD_INFO_INIT(link[0])};
    size_t count = gpud_sender_list_links(core, link, GPUD_RECEIVERS_MAX);
    guint64 longest = 0;

    for (size_t i = 0; i < count; i++)
        longest = MAX(longest, link[i].latency_ns);
    return longest;
}

guint64 shared_sender_latency(struct shared_sender *sender)
{
    guint64 longest = 0;

    g_rw_lock_reader_lock(&sender->life);
    if (sender->core)
        longest = longest_latency(sender->core);
    g_rw_lock_reader_unlock(&sender->life);
    return longest;
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

/* Whether there are no slots at all, rather than no free one, or one of another format. */
static gboolean is_lack(enum gpud_status status)
{
    return status == GPUD_NO_MEMORY || status == GPUD_IO || status == GPUD_UNSUPPORTED ||
           status == GPUD_NO_ACCESS || status == GPUD_NO_DEVICE;
}

static void note_lack(struct shared_sender *sender, const struct gpud_error *error)
{
    g_mutex_lock(&sender->lack_lock);
    sender->lack = *error;
    g_atomic_int_compare_and_exchange(&sender->lacks, LACK_NONE, LACK_FOUND);
    g_mutex_unlock(&sender->lack_lock);
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
        if (is_lack(status))
            note_lack(sender, &error);
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
    guint epoch;
    struct counters *counters;
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

static gboolean put_idle(struct slot_pool *self, uint32_t slot, GstBuffer *buffer)
{
    GstBuffer *none = NULL;

    return slot < IDLE_MAX && __atomic_compare_exchange_n(&self->idle[slot], &none, buffer, FALSE,
                                                          __ATOMIC_RELEASE, __ATOMIC_RELAXED);
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

static GstBuffer *new_stand_in(struct slot_pool *self)
{
    if (!self->gpu && !self->dmabufs)
        return gst_buffer_new_allocate(NULL, self->info.size, NULL);
    GstMemory *memory = slot_store_get_extra(self->store);
    if (!memory)
        return NULL;
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(buffer, memory);
    return buffer;
}

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
        buffer = new_stand_in(self);
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

/* A slot that cannot be wrapped as this pool's kind is released, and no other is tried. */
static GstBuffer *lend(struct slot_pool *self, struct gpud_frame *frame)
{
    GstBuffer *buffer = wrap_frame(self, frame);

    if (!buffer)
        g_atomic_int_set(&self->no_slots, TRUE);
    return buffer;
}

/* --- the implementation ------------------------------------------------------------------- */

static GstFlowReturn slot_pool_acquire(struct slot_pool *self, GstBuffer **buffer,
                                       GstBufferPoolAcquireParams *params)
{
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
            : shared_sender_acquire(self->sender, self->epoch, may_wait, &frame);
    if (GST_BUFFER_POOL_IS_FLUSHING(self->pool)) {
        if (status == GPUD_OK)
            gpud_frame_release(&frame);
        return GST_FLOW_FLUSHING;
    }
    *buffer = status == GPUD_OK ? lend(self, frame) : NULL;
    if (!*buffer)
        *buffer = take_stand_in(self);
    return *buffer ? GST_FLOW_OK : GST_FLOW_ERROR;
}

/* Whether the buffer can be reused: its memory has no other owner, and is as the pool made it. */
static gboolean is_intact(GstBuffer *buffer, GstMemory **memory)
{
    if (gst_buffer_n_memory(buffer) != 1)
        return FALSE;
    *memory = gst_buffer_peek_memory(buffer, 0);
    return GST_MINI_OBJECT_REFCOUNT_VALUE(*memory) == 1;
}

static void slot_pool_release(struct slot_pool *self, GstBuffer *buffer)
{
    GstMemory *memory;

    if (!is_intact(buffer, &memory)) {
        gst_buffer_unref(buffer); /* the memory's last reference releases the frame */
        return;
    }
    struct slot_memory *slot = slot_memory_of(memory);
    if (slot && !memory->parent && slot->store == self->store && !slot->extra) {
        struct gpud_frame *frame = slot_memory_detach(slot);
        if (!put_idle(self, slot->slot, buffer))
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

static void slot_pool_start(struct slot_pool *self)
{
    slot_store_open(self->store);
}

static void slot_pool_stop(struct slot_pool *self)
{
    slot_store_close(self->store);
    for (uint32_t i = 0; i < IDLE_MAX; i++) {
        GstBuffer *buffer = take_idle(self, i);
        gst_clear_buffer(&buffer);
    }
    g_mutex_lock(&self->lock);
    g_queue_clear_full(&self->plain, (GDestroyNotify)gst_buffer_unref);
    g_mutex_unlock(&self->lock);
}

static const gchar **slot_pool_get_options(GstBufferPool *pool)
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

/* A driver that writes pictures itself states their size: larger ones have other strides, unless
 * they are rounded to whole pages, as dma-bufs are. */
static gboolean is_size(const struct slot_pool *self, guint size)
{
    gsize page = (gsize)getpagesize();
    gsize pages = (self->info.size + page - 1) / page * page;

    return size <= self->info.size || (self->dmabufs && size == pages);
}

/* The pool has one format: an element that needs another, or padding around the picture, uses its
 * own pool, and the sink copies. */
static gboolean slot_pool_accepts(struct slot_pool *self, GstStructure *config)
{
    GstCaps *caps;
    GstVideoInfo info;
    guint size, min, max;

    if (!gst_buffer_pool_config_get_params(config, &caps, &size, &min, &max) || !caps ||
        !video_info_from_caps(&info, caps))
        return FALSE;
    if (GST_VIDEO_INFO_FORMAT(&info) != GST_VIDEO_INFO_FORMAT(&self->info) ||
        info.width != self->info.width || info.height != self->info.height ||
        !is_size(self, size) || !is_memory_of(self, caps)) {
        GST_CAT_DEBUG_OBJECT(gpud_gst_debug, self->pool,
                             "has no slots of %u bytes for %" GST_PTR_FORMAT, size, caps);
        return FALSE;
    }
    return TRUE;
}

static void slot_pool_init(struct slot_pool *self, GstBufferPool *pool,
                           const struct slot_pool_params *params)
{
    struct shared_sender *sender = params->sender;
    struct slot_store_params store = {
        .kind = params->gpu       ? params->gpu->vendor->slot_kind
                : params->dmabufs ? &dmabuf_slot_kind
                                  : &plain_slot_kind,
        .info = params->info,
        .gpu = params->gpu,
        .sender = sender,
        .epoch = sender ? shared_sender_epoch(sender) : 0,
        .host = sender && shared_sender_is_host(sender),
        .outstanding = sender ? shared_sender_outstanding(sender) : params->outstanding,
        .counters = params->counters,
    };

    self->pool = pool;
    self->info = *params->info;
    self->gpu = params->gpu;
    self->dmabufs = params->dmabufs;
    self->sender = sender ? shared_sender_ref(sender) : NULL;
    self->epoch = store.epoch;
    self->counters = counters_ref(params->counters);
    self->store = slot_store_new(&store);
    g_mutex_init(&self->lock);
    g_queue_init(&self->plain);
}

static void slot_pool_clear(struct slot_pool *self)
{
    slot_pool_stop(self); /* an active pool that is dropped was not stopped */
    g_mutex_clear(&self->lock);
    slot_store_unref(self->store);
    counters_unref(self->counters);
    shared_sender_unref(self->sender);
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
    return slot_pool_acquire(slots_of(pool), buffer, params);
}

static void pool_release_buffer(GstBufferPool *pool, GstBuffer *buffer)
{
    slot_pool_release(slots_of(pool), buffer);
}

static gboolean pool_start(GstBufferPool *pool)
{
    slot_pool_start(slots_of(pool));
    return TRUE;
}

static gboolean pool_stop(GstBufferPool *pool)
{
    slot_pool_stop(slots_of(pool));
    return TRUE;
}

/* A vendor's method would allocate memory to find its own size, so GstBufferPool's is called. The
 * slots' size goes into the configuration, where the vendor's elements read it. */
static gboolean pool_set_config(GstBufferPool *pool, GstStructure *config)
{
    struct slot_pool *slots = slots_of(pool);
    GstBufferPoolClass *base = g_type_class_peek(GST_TYPE_BUFFER_POOL);
    guint min, max;
    GstCaps *caps;

    if (!slot_pool_accepts(slots, config))
        return FALSE;
    if (slots->gpu) {
        gst_buffer_pool_config_get_params(config, &caps, NULL, &min, &max);
        gst_buffer_pool_config_set_params(config, caps, (guint)slots->info.size, min, max);
        slots->gpu->vendor->configure_pool(slots->store, config);
    }
    return base->set_config(pool, config);
}

static void pool_finalize(GObject *object)
{
    GObjectClass *parent = g_type_class_peek_parent(G_OBJECT_GET_CLASS(object));

    slot_pool_clear(slots_of(GST_BUFFER_POOL(object)));
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
    pool_class->get_options = slot_pool_get_options;
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

/* --- every pool --------------------------------------------------------------------------- */

static GstBufferPool *pool_new(const struct slot_pool_params *params)
{
    const struct gpu_vendor *vendor = params->gpu ? params->gpu->vendor : NULL;
    GType type = vendor ? pool_type(vendor->get_pool_type(), vendor->pool_name)
                        : pool_type(GST_TYPE_BUFFER_POOL, "GstGpudirectPool");
    GstBufferPool *pool = gst_object_ref_sink(g_object_new(type, NULL));

    if (vendor)
        vendor->init_pool(pool, params->gpu);
    slot_pool_init(slots_of(pool), pool, params);
    return pool;
}

GstBufferPool *gst_gpudirect_pool_new(const struct slot_pool_params *params, GstCaps *caps)
{
    GstBufferPool *pool = pool_new(params);
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
