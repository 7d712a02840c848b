/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* NVIDIA's GPUs, as GStreamer's CUDA elements use them.
 *
 * 1.22 has no streams per memory. Each element works on its own stream, made with
 * CU_STREAM_DEFAULT, and waits for it (cuStreamSynchronize) before it passes on or releases a
 * buffer. Such streams synchronise with the context's legacy default stream in both directions, so
 * ordering a frame on the default stream (NULL) of the primary context orders it for all elements
 * in that context, without a wait on the CPU.
 *
 * 1.24 gave memories a GstCudaStream. An element works on that one, or waits for it where the
 * memory is flagged NEED_SYNC. So a frame is ordered on its memory's stream. */
#include "base/library.h"
#include "memory/memory.h"

#include <gst/cuda/gstcudabufferpool.h>
#include <gst/cuda/gstcudacontext.h>
#include <gst/cuda/gstcudaloader.h>
#include <gst/cuda/gstcudamemory.h>
#include <gst/cuda/gstcudautils.h>

/* === series ================================================================================== */
/* What differs between the series of GStreamer's CUDA library. */

#if GPU_CUDA_STREAMS

/* 1.24 and later wrap pointers, and give memories a stream. */

#define ORDERS_EARLY TRUE
#define series_allocator_get_type gst_cuda_allocator_get_type

/* The slot owns the pointer, so nothing is freed with the memory. */
static void cuda_keep(gpointer nothing)
{
}

static GstMemory *series_new_memory(struct slot_store *store, const GstVideoInfo *info,
                                    CUdeviceptr pointer)
{
    return gst_cuda_allocator_alloc_wrapped(
        (GstCudaAllocator *)store->allocator, (GstCudaContext *)store->gpu->context,
        (GstCudaStream *)store->stream, info, pointer, NULL, cuda_keep);
}

static CUstream handle_of(GstCudaMemory *memory)
{
    GstCudaStream *stream = gst_cuda_memory_get_stream(memory);
    return stream ? gst_cuda_stream_get_handle(stream) : NULL;
}

static gpointer series_get_stream(GstMemory *memory)
{
    return handle_of(GST_CUDA_MEMORY_CAST(memory));
}

static void series_set_pending(GstMemory *memory)
{
    if (gst_cuda_memory_get_stream(GST_CUDA_MEMORY_CAST(memory)))
        GST_MINI_OBJECT_FLAG_SET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
}

/* The GPU waits for a stream of the primary context, the CPU for one of another context. */
static gboolean series_await_writes(GstMemory *any, const struct gpu *gpu, gpointer *stream)
{
    GstCudaMemory *memory = GST_CUDA_MEMORY_CAST(any);

    *stream = NULL;
    if (gst_cuda_context_get_handle(memory->context) ==
        gst_cuda_context_get_handle((GstCudaContext *)gpu->context)) {
        *stream = handle_of(memory);
        return FALSE;
    }
    if (gst_cuda_memory_get_stream(memory)) {
        gst_cuda_memory_sync(memory);
    } else if (gst_cuda_context_push(memory->context)) {
        CuStreamSynchronize(NULL);
        gst_cuda_context_pop(NULL);
    }
    return TRUE;
}

static void series_choose_stream(struct slot_store *store, GstStructure *config)
{
    GstCudaContext *context = (GstCudaContext *)store->gpu->context;
    GstCudaStream *stream = gst_buffer_pool_config_get_cuda_stream(config);

    if (stream && stream->context != context)
        gst_clear_cuda_stream(&stream);
    if (!stream && !store->stream)
        stream = gst_cuda_stream_new(context);
    if (!stream)
        return;
    if (store->stream)
        gst_cuda_stream_unref(store->stream);
    store->stream = stream;
    store->stream_free = (GDestroyNotify)gst_cuda_stream_unref;
}

#else

/* 1.22 cannot wrap a pointer: the structure is public, and is filled here. Its private part stays
 * NULL: only the methods of GstCudaAllocator look at that, and all of them are replaced below. */

#define ORDERS_EARLY FALSE
#define series_allocator_get_type gst_gpudirect_cuda_allocator_get_type

static GstMemory *series_new_memory(struct slot_store *store, const GstVideoInfo *info,
                                    CUdeviceptr pointer)
{
    GstCudaMemory *memory = g_new0(GstCudaMemory, 1);

    gst_memory_init(&memory->mem, (GstMemoryFlags)0, store->allocator, NULL, info->size, 0, 0,
                    info->size);
    memory->context = (GstCudaContext *)gst_object_ref(store->gpu->context);
    memory->info = *info;
    return &memory->mem;
}

static void series_free_memory(GstAllocator *allocator, GstMemory *memory)
{
    gst_object_unref(GST_CUDA_MEMORY_CAST(memory)->context);
    g_free(memory);
}

typedef struct {
    GstCudaAllocator parent;
} GstGpudirectCudaAllocator;

typedef GstCudaAllocatorClass GstGpudirectCudaAllocatorClass;

GType gst_gpudirect_cuda_allocator_get_type(void);

G_DEFINE_TYPE(GstGpudirectCudaAllocator, gst_gpudirect_cuda_allocator, GST_TYPE_CUDA_ALLOCATOR)

static void gst_gpudirect_cuda_allocator_class_init(GstGpudirectCudaAllocatorClass *klass)
{
    GST_ALLOCATOR_CLASS(klass)->free = series_free_memory;
}

static void gst_gpudirect_cuda_allocator_init(GstGpudirectCudaAllocator *self)
{
}

static gpointer series_get_stream(GstMemory *memory)
{
    return NULL;
}

static void series_set_pending(GstMemory *memory)
{
}

/* Elements wait before they pass a buffer on. Work that they did not wait for is on the default
 * stream of the memory's context: in the primary context the GPU orders it, in another the CPU must
 * wait. */
static gboolean series_await_writes(GstMemory *memory, const struct gpu *gpu, gpointer *stream)
{
    GstCudaContext *context = GST_CUDA_MEMORY_CAST(memory)->context;

    *stream = NULL;
    if (gst_cuda_context_get_handle(context) ==
        gst_cuda_context_get_handle((GstCudaContext *)gpu->context))
        return FALSE;
    if (gst_cuda_context_push(context)) {
        CuStreamSynchronize(NULL);
        gst_cuda_context_pop(NULL);
    }
    return TRUE;
}

static void series_choose_stream(struct slot_store *store, GstStructure *config)
{
}

#endif

/* === memory ================================================================================== */
/* A slot as a GstCudaMemory; gpu.c has the code that all vendors share. */

static gboolean cuda_enter(const struct gpu *gpu)
{
    return gst_cuda_context_push((GstCudaContext *)gpu->context);
}

static void cuda_leave(const struct gpu *gpu)
{
    gst_cuda_context_pop(NULL);
}

static void cuda_finish(const struct gpu *gpu, gpointer stream)
{
    CuStreamSynchronize(stream);
}

static gboolean cuda_copy_rows(const struct gpu *gpu, gpointer stream, const struct gpu_rows *rows)
{
    const CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcDevice = (CUdeviceptr)(guintptr)rows->from,
        .srcPitch = rows->from_stride,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = (CUdeviceptr)(guintptr)rows->to,
        .dstPitch = rows->to_stride,
        .WidthInBytes = rows->bytes,
        .Height = rows->rows,
    };
    return CuMemcpy2DAsync(&copy, stream) == CUDA_SUCCESS;
}

static GstMemory *cuda_new_memory(struct slot_store *store, struct gpud_frame *frame,
                                  const struct gpud_layout *layout,
                                  const struct video_planes *planes)
{
    GstVideoInfo info = gpu_slot_info(store, layout, planes);
    GstMemory *memory =
        series_new_memory(store, &info, (CUdeviceptr)(guintptr)gpu_slot_pointer(frame));

    /* GstCudaAllocator cannot share a part of a memory; GStreamer copies it then. */
    GST_MINI_OBJECT_FLAG_SET(memory, GST_MEMORY_FLAG_NO_SHARE);
    return memory;
}

static const struct slot_kind cuda_slot_kind = {
    .get_allocator_type = series_allocator_get_type,
    .init_allocator = gpu_slot_init_allocator,
    .new_memory = cuda_new_memory,
    .arrived = gpu_slot_arrived,
    .leaving = gpu_slot_leaving,
};

/* === frame =================================================================================== */
/* Any element's GstCudaMemory and GstCudaContext. */

static gint cuda_get_ordinal(GstObject *context)
{
    guint ordinal = 0;

    g_object_get(context, "cuda-device-id", &ordinal, NULL);
    return (gint)ordinal;
}

static gboolean cuda_look_into(GstMemory *memory, gint *ordinal, const GstVideoInfo **info)
{
    if (!gst_is_cuda_memory(memory))
        return FALSE;
    *ordinal = cuda_get_ordinal(GST_OBJECT(GST_CUDA_MEMORY_CAST(memory)->context));
    *info = &GST_CUDA_MEMORY_CAST(memory)->info;
    return TRUE;
}

/* === vendor ================================================================================== */

/* A stride that is a valid texture pitch on every GPU, for drivers that do not report one. */
#define STRIDE_ALIGN 32

extern struct gpud_library gpud_library_gstcuda __attribute__((weak)); /* stubs.c */

/* Checked once: a missing library does not appear while the process runs. */
static gboolean cuda_is_available(void)
{
    static gsize answer;

    if (g_once_init_enter(&answer)) {
        gchar why[256];
        gboolean opened = gpud_library_open(&gpud_library_gstcuda, why, sizeof(why));
        gboolean loaded = opened && gst_cuda_load_library();
        if (!opened)
            GST_CAT_WARNING(gpud_gst_debug, "%s", why);
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

/* Elements compare the context. */
static void cuda_init_pool(GstBufferPool *pool, const struct gpu *gpu)
{
    ((GstCudaBufferPool *)pool)->context = (GstCudaContext *)gst_object_ref(gpu->context);
}

/* On a PC, on Tegra, and in WSL. */
static const gchar *const cuda_nodes[] = {"/dev/nvidiactl", "/dev/nvmap", "/dev/dxg", NULL};

const struct gpu_vendor gpu_vendor_cuda = {
    .feature = "memory:CUDAMemory",
    .prefix = "cuda:",
    .context_type = GST_CUDA_CONTEXT_TYPE,
    .memory = "CUDA memory",
    .maker = "NVIDIA",
    .driver = "NVIDIA's driver (libcuda.so.1)",
    .upload = "cudaupload",
    .download = "cudadownload",
    .library = &gpud_library_gstcuda,
    .nodes = cuda_nodes,
    .slot_kind = &cuda_slot_kind,
    .is_available = cuda_is_available,
    .wrap_context = cuda_wrap_context,
    .read_context = cuda_read_context,
    .get_ordinal = cuda_get_ordinal,
    .answer_query = cuda_answer_query,
    .get_stride_align = cuda_get_stride_align,
    .get_pool_type = gst_cuda_buffer_pool_get_type,
    .pool_name = "GstGpudirectCudaPool",
    .init_pool = cuda_init_pool,
    .configure_pool = series_choose_stream,
    .map_flag = (GstMapFlags)GST_MAP_CUDA,
    .orders_early = ORDERS_EARLY,
    .look_into = cuda_look_into,
    .get_stream = series_get_stream,
    .set_pending = series_set_pending,
    .await_writes = series_await_writes,
    .enter = cuda_enter,
    .leave = cuda_leave,
    .finish = cuda_finish,
    .copy_rows = cuda_copy_rows,
};
