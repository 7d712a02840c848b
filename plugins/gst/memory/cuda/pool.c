/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The pool of slots as a GstCudaBufferPool: cudaupload, cudaconvertscale and the others refuse any
 * other pool, and pools of another GstCudaContext. Only the parent's type and its field `context`
 * are used. */
#include "memory/cuda/cuda.h"
#include "memory/pool.h"

typedef struct {
    GstCudaBufferPool parent;
    struct slot_pool slots;
} GstGpudirectCudaPool;
typedef GstCudaBufferPoolClass GstGpudirectCudaPoolClass;

GType gst_gpudirect_cuda_pool_get_type(void);
G_DEFINE_TYPE(GstGpudirectCudaPool, gst_gpudirect_cuda_pool, GST_TYPE_CUDA_BUFFER_POOL)

static struct slot_pool *slots_of(GstBufferPool *pool)
{
    return &((GstGpudirectCudaPool *)pool)->slots;
}

static GstFlowReturn acquire_buffer(GstBufferPool *pool, GstBuffer **buffer,
                                    GstBufferPoolAcquireParams *params)
{
    return slot_pool_acquire(slots_of(pool), buffer, params);
}

static void release_buffer(GstBufferPool *pool, GstBuffer *buffer)
{
    slot_pool_release(slots_of(pool), buffer);
}

static gboolean start(GstBufferPool *pool)
{
    slot_pool_start(slots_of(pool));
    return TRUE;
}

static gboolean stop(GstBufferPool *pool)
{
    slot_pool_stop(slots_of(pool));
    return TRUE;
}

/* Writes the slots' size into the configuration, where users read it. The parent's method would
 * allocate memory to find its own size, so the grandparent's is called. */
static gboolean set_config(GstBufferPool *pool, GstStructure *config)
{
    struct slot_pool *slots = slots_of(pool);
    GstBufferPoolClass *base = g_type_class_peek(GST_TYPE_BUFFER_POOL);
    guint min, max;
    GstCaps *caps;

    if (!slot_pool_accepts(slots, config))
        return FALSE;
    gst_buffer_pool_config_get_params(config, &caps, NULL, &min, &max);
    gst_buffer_pool_config_set_params(config, caps, (guint)slots->info.size, min, max);
    cuda_series_choose_stream(slots->store, config);
    return base->set_config(pool, config);
}

static void finalize(GObject *object)
{
    slot_pool_clear(slots_of(GST_BUFFER_POOL(object)));
    G_OBJECT_CLASS(gst_gpudirect_cuda_pool_parent_class)->finalize(object);
}

static void gst_gpudirect_cuda_pool_class_init(GstGpudirectCudaPoolClass *klass)
{
    GstBufferPoolClass *pool_class = GST_BUFFER_POOL_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = finalize;
    pool_class->get_options = slot_pool_get_options;
    pool_class->set_config = set_config;
    pool_class->acquire_buffer = acquire_buffer;
    pool_class->release_buffer = release_buffer;
    pool_class->start = start;
    pool_class->stop = stop;
}

static void gst_gpudirect_cuda_pool_init(GstGpudirectCudaPool *self)
{
}

GstBufferPool *cuda_new_pool(const struct slot_pool_params *params)
{
    GstGpudirectCudaPool *self = g_object_new(gst_gpudirect_cuda_pool_get_type(), NULL);

    gst_object_ref_sink(self);
    self->parent.context = (GstCudaContext *)gst_object_ref(params->gpu->context);
    slot_pool_init(&self->slots, GST_BUFFER_POOL(self), params);
    return GST_BUFFER_POOL(self);
}
