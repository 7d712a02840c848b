/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the elements ask of CUDA: its pool, its context, its frames. */
#include "memory/cuda/cuda.h"

#include "memory/memory.h"

/* === pool ==================================================================================== */
/* The pool of slots as a GstCudaBufferPool: cudaupload, cudaconvertscale and the others refuse any
 * other pool, and pools of another GstCudaContext. Only the parent's type and its field `context`
 * are used. */

typedef struct {
    GstCudaBufferPool parent;
    struct slot_pool slots;
} GstGpudirectCudaPool;

typedef GstCudaBufferPoolClass GstGpudirectCudaPoolClass;

GType gst_gpudirect_cuda_pool_get_type(void);

G_DEFINE_TYPE(GstGpudirectCudaPool, gst_gpudirect_cuda_pool, GST_TYPE_CUDA_BUFFER_POOL)

static struct slot_pool *cuda_slots_of(GstBufferPool *pool)
{
    return &((GstGpudirectCudaPool *)pool)->slots;
}

static GstFlowReturn cuda_acquire_buffer(GstBufferPool *pool, GstBuffer **buffer,
                                         GstBufferPoolAcquireParams *params)
{
    return slot_pool_acquire(cuda_slots_of(pool), buffer, params);
}

static void cuda_release_buffer(GstBufferPool *pool, GstBuffer *buffer)
{
    slot_pool_release(cuda_slots_of(pool), buffer);
}

static gboolean cuda_start(GstBufferPool *pool)
{
    slot_pool_start(cuda_slots_of(pool));
    return TRUE;
}

static gboolean cuda_stop(GstBufferPool *pool)
{
    slot_pool_stop(cuda_slots_of(pool));
    return TRUE;
}

/* Writes the slots' size into the configuration, where users read it. The parent's method would
 * allocate memory to find its own size, so the grandparent's is called. */
static gboolean cuda_set_config(GstBufferPool *pool, GstStructure *config)
{
    struct slot_pool *slots = cuda_slots_of(pool);
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

static void cuda_finalize(GObject *object)
{
    slot_pool_clear(cuda_slots_of(GST_BUFFER_POOL(object)));
    G_OBJECT_CLASS(gst_gpudirect_cuda_pool_parent_class)->finalize(object);
}

static void gst_gpudirect_cuda_pool_class_init(GstGpudirectCudaPoolClass *klass)
{
    GstBufferPoolClass *pool_class = GST_BUFFER_POOL_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = cuda_finalize;
    pool_class->get_options = slot_pool_get_options;
    pool_class->set_config = cuda_set_config;
    pool_class->acquire_buffer = cuda_acquire_buffer;
    pool_class->release_buffer = cuda_release_buffer;
    pool_class->start = cuda_start;
    pool_class->stop = cuda_stop;
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

/* === vendor ================================================================================== */
/* The entry in the list of vendors for NVIDIA's GPUs, as GStreamer's CUDA elements use them. */

/* A stride that is a valid texture pitch on every GPU, for drivers that do not report one. */
#define STRIDE_ALIGN 32

/* Checked once: a missing library does not appear while the process runs. */
static gboolean cuda_is_available(void)
{
    static gsize answer;

    if (g_once_init_enter(&answer)) {
        gboolean loaded = gst_cuda_load_library();
        if (loaded)
            gst_cuda_memory_init_once();
        g_once_init_leave(&answer, loaded ? 1 : 2);
    }
    return answer == 1;
}

/* Never freed: that would disable the peer access that the core may be using in the same primary
 * contexts. */
static GstObject *cuda_wrap_context(const struct gpu *gpu, struct gpud_error *error)
{
    GstCudaContext *context = NULL;
    CUdevice device;

    if (CuDeviceGet(&device, gpu->ordinal) == CUDA_SUCCESS)
        context = gst_cuda_context_new_wrapped(gpud_device_get_native(gpu->device), device);
    if (context)
        return GST_OBJECT(context);
    *error = (struct gpud_error){.status = GPUD_NO_DEVICE};
    g_snprintf(error->reason, sizeof(error->reason),
               "GStreamer's CUDA library cannot use GPU %d: look at GST_DEBUG=cuda*:5",
               gpu->ordinal);
    return NULL;
}

static GstObject *cuda_read_context(GstElement *element, GstContext *context)
{
    GstCudaContext *found = NULL;

    gst_cuda_handle_set_context(element, context, -1, &found);
    return (GstObject *)found;
}

static gboolean cuda_answer_query(GstElement *element, GstQuery *query, GstObject *context)
{
    return gst_cuda_handle_context_query(element, query, (GstCudaContext *)context);
}

static gint cuda_get_stride_align(const struct gpu *gpu)
{
    gint said = gst_cuda_context_get_texture_alignment((GstCudaContext *)gpu->context);

    return MAX(said, STRIDE_ALIGN);
}

const struct gpu_vendor gpu_vendor_cuda = {
    .feature = "memory:CUDAMemory",
    .prefix = "cuda:",
    .context_type = GST_CUDA_CONTEXT_TYPE,
    .memory = "CUDA memory",
    .maker = "NVIDIA",
    .driver = "NVIDIA's driver (libcuda.so.1)",
    .upload = "cudaupload",
    .download = "cudadownload",
    .slot_kind = &cuda_slot_kind,
    .is_available = cuda_is_available,
    .wrap_context = cuda_wrap_context,
    .read_context = cuda_read_context,
    .get_ordinal = cuda_get_ordinal,
    .answer_query = cuda_answer_query,
    .get_stride_align = cuda_get_stride_align,
    .new_pool = cuda_new_pool,
    .map_flag = (GstMapFlags)GST_MAP_CUDA,
    .orders_early = CUDA_SERIES_ORDERS_EARLY,
    .look_into = cuda_look_into,
    .get_stream = cuda_series_get_stream,
    .set_pending = cuda_series_set_pending,
    .await_writes = cuda_series_await_writes,
    .enter = cuda_enter,
    .leave = cuda_leave,
    .finish = cuda_finish,
    .copy_rows = cuda_copy_rows,
};
