/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Buffers that are slots. See the header for the two uses. */
#include "pool.h"
#include "context.h"

struct _GstGpudirectPool {
    GstBufferPool parent;
    GstVideoInfo info;
    struct lender *lender; /* NULL: wrapping */
    guint generation;
    struct ledger *ledger;
    GstGpudirectAllocator *allocator;

    GMutex lock;
    GPtrArray *shells; /* GstBuffer by slot: idle, with a parked memory inside, or NULL */
    GQueue plain;      /* idle buffers of plain memory */
};

G_DEFINE_TYPE(GstGpudirectPool, gst_gpudirect_pool, GST_TYPE_BUFFER_POOL)

/* What gst_gpudirect_pool_wrap() hands to the acquire_buffer method. */
#define ACQUIRE_FLAG_FRAME GST_BUFFER_POOL_ACQUIRE_FLAG_LAST

struct wrap_params {
    GstBufferPoolAcquireParams parent; /* first */
    struct gpud_frame *frame;
};

/* --- shells ------------------------------------------------------------------------------- */

static GstBuffer *take_shell(GstGpudirectPool *self, uint32_t slot)
{
    GstBuffer *shell = NULL;

    g_mutex_lock(&self->lock);
    if (slot < self->shells->len) {
        shell = g_ptr_array_index(self->shells, slot);
        g_ptr_array_index(self->shells, slot) = NULL;
    }
    g_mutex_unlock(&self->lock);
    return shell;
}

static gboolean put_shell(GstGpudirectPool *self, uint32_t slot, GstBuffer *buffer)
{
    gboolean kept = FALSE;

    if (slot == UINT32_MAX)
        return FALSE;
    g_mutex_lock(&self->lock);
    if (slot >= self->shells->len)
        g_ptr_array_set_size(self->shells, (gint)slot + 1);
    if (!g_ptr_array_index(self->shells, slot)) {
        g_ptr_array_index(self->shells, slot) = buffer;
        kept = TRUE;
    }
    g_mutex_unlock(&self->lock);
    return kept;
}

/* Elements may change the meta of a buffer that they hold alone, so it is written anew for each
 * frame. */
static void set_video_meta(GstGpudirectPool *self, GstBuffer *buffer, struct video_planes *planes)
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

static GstBuffer *wrap_frame(GstGpudirectPool *self, struct gpud_frame *frame)
{
    GstBuffer *buffer = take_shell(self, gpud_frame_get_slot(frame));

    if (buffer) {
        slot_memory_attach(gst_buffer_peek_memory(buffer, 0), frame);
    } else {
        buffer = gst_buffer_new();
        gst_buffer_append_memory(buffer, gst_gpudirect_allocator_wrap(self->allocator, frame));
    }
    GST_BUFFER_FLAG_UNSET(buffer, GST_BUFFER_FLAG_TAG_MEMORY);
    set_video_meta(self, buffer,
                   &((struct slot_memory *)gst_buffer_peek_memory(buffer, 0))->planes);
    return buffer;
}

static GstBuffer *take_plain(GstGpudirectPool *self)
{
    g_mutex_lock(&self->lock);
    GstBuffer *buffer = g_queue_pop_head(&self->plain);
    g_mutex_unlock(&self->lock);

    if (!buffer) {
        buffer = gst_buffer_new_allocate(NULL, self->info.size, NULL);
        GST_CAT_DEBUG_OBJECT(gpud_gst_debug, self, "no slot is free: plain memory stands in");
    }
    if (!buffer)
        return NULL;
    struct video_planes planes = {.count = GST_VIDEO_INFO_N_PLANES(&self->info)};
    for (guint i = 0; i < planes.count; i++) {
        planes.offset[i] = self->info.offset[i];
        planes.stride[i] = self->info.stride[i];
    }
    GST_BUFFER_FLAG_UNSET(buffer, GST_BUFFER_FLAG_TAG_MEMORY);
    set_video_meta(self, buffer, &planes);
    return buffer;
}

/* --- GstBufferPool ------------------------------------------------------------------------ */

static GstFlowReturn acquire_buffer(GstBufferPool *pool, GstBuffer **buffer,
                                    GstBufferPoolAcquireParams *params)
{
    GstGpudirectPool *self = GST_GPUDIRECT_POOL(pool);
    struct gpud_frame *frame = NULL;

    if (params && (params->flags & ACQUIRE_FLAG_FRAME)) {
        *buffer = wrap_frame(self, g_steal_pointer(&((struct wrap_params *)params)->frame));
        return GST_FLOW_OK;
    }
    if (!self->lender)
        return GST_FLOW_NOT_SUPPORTED;

    gboolean may_wait = !params || !(params->flags & GST_BUFFER_POOL_ACQUIRE_FLAG_DONTWAIT);
    enum gpud_status status = lender_lend(self->lender, self->generation, may_wait, &frame);
    if (GST_BUFFER_POOL_IS_FLUSHING(pool)) {
        if (status == GPUD_OK)
            gpud_frame_release(&frame);
        return GST_FLOW_FLUSHING;
    }
    *buffer = status == GPUD_OK ? wrap_frame(self, frame) : take_plain(self);
    return *buffer ? GST_FLOW_OK : GST_FLOW_ERROR;
}

/* TRUE: the buffer is in our hands alone and as we made it, and can serve again. */
static gboolean is_intact(GstGpudirectPool *self, GstBuffer *buffer, GstMemory **memory)
{
    if (gst_buffer_n_memory(buffer) != 1)
        return FALSE;
    *memory = gst_buffer_peek_memory(buffer, 0);
    return GST_MINI_OBJECT_REFCOUNT_VALUE(*memory) == 1;
}

static void release_buffer(GstBufferPool *pool, GstBuffer *buffer)
{
    GstGpudirectPool *self = GST_GPUDIRECT_POOL(pool);
    GstMemory *memory;

    if (!is_intact(self, buffer, &memory)) {
        gst_buffer_unref(buffer); /* the frame goes back with the memory's last reference */
        return;
    }
    if (memory->allocator == GST_ALLOCATOR(self->allocator)) {
        struct gpud_frame *frame = slot_memory_detach(memory);
        if (!put_shell(self, ((struct slot_memory *)memory)->slot, buffer))
            gst_buffer_unref(buffer);
        if (frame)
            slot_memory_give_back(self->allocator, frame);
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

static gboolean start(GstBufferPool *pool)
{
    gst_gpudirect_allocator_open(GST_GPUDIRECT_POOL(pool)->allocator);
    return TRUE;
}

static gboolean stop(GstBufferPool *pool)
{
    GstGpudirectPool *self = GST_GPUDIRECT_POOL(pool);

    gst_gpudirect_allocator_close(self->allocator);
    g_mutex_lock(&self->lock);
    for (guint i = 0; i < self->shells->len; i++)
        if (g_ptr_array_index(self->shells, i))
            gst_buffer_unref(g_ptr_array_index(self->shells, i));
    g_ptr_array_set_size(self->shells, 0);
    g_queue_clear_full(&self->plain, (GDestroyNotify)gst_buffer_unref);
    g_mutex_unlock(&self->lock);
    return TRUE;
}

static const gchar **get_options(GstBufferPool *pool)
{
    static const gchar *options[] = {GST_BUFFER_POOL_OPTION_VIDEO_META, NULL};
    return options;
}

/* A pool of one format: whoever wants another, or more room around the picture, uses a pool of its
 * own, and the sink copies. */
static gboolean set_config(GstBufferPool *pool, GstStructure *config)
{
    GstGpudirectPool *self = GST_GPUDIRECT_POOL(pool);
    GstCaps *caps;
    GstVideoInfo info;
    guint size, min, max;

    if (!gst_buffer_pool_config_get_params(config, &caps, &size, &min, &max) || !caps ||
        !gst_video_info_from_caps(&info, caps))
        return FALSE;
    if (GST_VIDEO_INFO_FORMAT(&info) != GST_VIDEO_INFO_FORMAT(&self->info) ||
        info.width != self->info.width || info.height != self->info.height ||
        size > self->info.size) {
        GST_CAT_DEBUG_OBJECT(gpud_gst_debug, self, "cannot lend %u bytes for %" GST_PTR_FORMAT,
                             size, caps);
        return FALSE;
    }
    return GST_BUFFER_POOL_CLASS(gst_gpudirect_pool_parent_class)->set_config(pool, config);
}

GstFlowReturn gst_gpudirect_pool_wrap(GstBufferPool *pool, struct gpud_frame *frame,
                                      GstBuffer **buffer)
{
    struct wrap_params params = {.parent = {.flags = ACQUIRE_FLAG_FRAME}, .frame = frame};
    GstFlowReturn flow = gst_buffer_pool_acquire_buffer(pool, buffer, &params.parent);

    if (params.frame) /* the pool is inactive: it did not come so far */
        gpud_frame_release(&params.frame);
    return flow;
}

struct ledger *gst_gpudirect_pool_ledger(GstBufferPool *pool)
{
    return GST_GPUDIRECT_POOL(pool)->ledger;
}

/* --- life --------------------------------------------------------------------------------- */

static GstBufferPool *pool_new(struct lender *lender, const GstVideoInfo *info)
{
    GstGpudirectPool *self = g_object_new(GST_TYPE_GPUDIRECT_POOL, NULL);

    gst_object_ref_sink(self);
    self->info = *info;
    self->lender = lender ? lender_ref(lender) : NULL;
    self->generation = lender ? lender_generation(lender) : 0;
    self->ledger = lender ? ledger_ref(lender_ledger(lender)) : ledger_new();
    self->allocator = gst_gpudirect_allocator_new(info, lender, self->generation,
                                                  lender && lender_is_host(lender), self->ledger);
    return GST_BUFFER_POOL(self);
}

GstBufferPool *gst_gpudirect_pool_new_lending(struct lender *lender, const GstVideoInfo *info)
{
    return pool_new(lender, info);
}

GstBufferPool *gst_gpudirect_pool_new_wrapping(const GstVideoInfo *info)
{
    return pool_new(NULL, info);
}

static void finalize(GObject *object)
{
    GstGpudirectPool *self = GST_GPUDIRECT_POOL(object);

    stop(GST_BUFFER_POOL(self)); /* whoever drops an active pool has not done it */
    g_ptr_array_unref(self->shells);
    g_mutex_clear(&self->lock);
    gst_object_unref(self->allocator);
    ledger_unref(self->ledger);
    lender_unref(self->lender);
    G_OBJECT_CLASS(gst_gpudirect_pool_parent_class)->finalize(object);
}

static void gst_gpudirect_pool_class_init(GstGpudirectPoolClass *klass)
{
    GstBufferPoolClass *pool_class = GST_BUFFER_POOL_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = finalize;
    pool_class->get_options = get_options;
    pool_class->set_config = set_config;
    pool_class->acquire_buffer = acquire_buffer;
    pool_class->release_buffer = release_buffer;
    pool_class->start = start;
    pool_class->stop = stop;
}

static void gst_gpudirect_pool_init(GstGpudirectPool *self)
{
    g_mutex_init(&self->lock);
    self->shells = g_ptr_array_new();
    g_queue_init(&self->plain);
}
