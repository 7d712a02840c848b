/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* NVIDIA's GPUs, as GStreamer's CUDA elements use them. */
#include "memory/cuda/cuda.h"

#include "memory/memory.h"

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

/* Elements compare the context. */
static void cuda_init_pool(GstBufferPool *pool, const struct gpu *gpu)
{
    ((GstCudaBufferPool *)pool)->context = (GstCudaContext *)gst_object_ref(gpu->context);
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
    .get_pool_type = gst_cuda_buffer_pool_get_type,
    .pool_name = "GstGpudirectCudaPool",
    .init_pool = cuda_init_pool,
    .configure_pool = cuda_series_choose_stream,
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
