/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* NVIDIA's part of lines.h. */
#include "lines.h"

#include <gmodule.h>
#include <gst/cuda/gstcudacontext.h>
#include <gst/cuda/gstcudaloader.h>
#include <gst/cuda/gstcudamemory.h>
#include <gst/cuda/gstcudautils.h>

guint lines_vendor_count(void)
{
    g_autoptr(GstElementFactory) factory = gst_element_factory_find("cudaupload");
    int count = 0;

    if (!factory) {
        g_print("skipped: GStreamer has no cudaupload here (no NVIDIA driver, no nvcodec)\n");
        return 0;
    }
    if (!gst_cuda_load_library() || CuInit(0) != CUDA_SUCCESS ||
        CuDeviceGetCount(&count) != CUDA_SUCCESS || count == 0)
        g_print("skipped: NVIDIA's driver finds no GPU\n");
    return (guint)MIN(count, 64);
}

GstObject *lines_vendor_context(void)
{
    fail_unless(gst_cuda_load_library());
    GstCudaContext *context = gst_cuda_context_new(0);
    fail_unless(context != NULL);
    return GST_OBJECT(context);
}

GstContext *lines_vendor_share(GstObject *context)
{
    return gst_context_new_cuda_context((GstCudaContext *)context);
}

guint64 lines_vendor_free_memory(GstObject *context)
{
    typedef int (*get_info_fn)(size_t *, size_t *);
    GModule *driver = g_module_open("libcuda.so.1", G_MODULE_BIND_LAZY);
    gpointer get_info = NULL;
    size_t available = 0, total;

    fail_unless(driver && g_module_symbol(driver, "cuMemGetInfo_v2", &get_info));
    gst_cuda_context_push((GstCudaContext *)context);
    fail_unless_equals_int(((get_info_fn)get_info)(&available, &total), 0);
    gst_cuda_context_pop(NULL);
    g_module_close(driver);
    return available;
}

const GstVideoInfo *lines_vendor_check(GstMemory *memory)
{
    fail_unless(gst_is_cuda_memory(memory));
    fail_unless(gst_cuda_context_get_handle(GST_CUDA_MEMORY_CAST(memory)->context) != NULL);
    return &GST_CUDA_MEMORY_CAST(memory)->info;
}

gpointer lines_vendor_stream(GstMemory *memory)
{
#if GST_CHECK_VERSION(1, 24, 0)
    GstCudaStream *stream = gst_cuda_memory_get_stream(GST_CUDA_MEMORY_CAST(memory));
    return stream ? gst_cuda_stream_get_handle(stream) : NULL;
#else
    return NULL;
#endif
}

/* From 1.24 on the memory says what to wait for; before, elements' streams keep step with the
 * default one from when they map. */
void lines_vendor_sync(GstMemory *memory)
{
#if GST_CHECK_VERSION(1, 24, 0)
    gst_cuda_memory_sync(GST_CUDA_MEMORY_CAST(memory));
#else
    GstMapInfo map;

    fail_unless(gst_memory_map(memory, &map, GST_MAP_READ | (GstMapFlags)GST_MAP_CUDA));
    gst_cuda_context_push(GST_CUDA_MEMORY_CAST(memory)->context);
    CuStreamSynchronize(NULL);
    gst_cuda_context_pop(NULL);
    gst_memory_unmap(memory, &map);
#endif
}

void lines_vendor_copy(GstMemory *from, GstMemory *to)
{
    GstMapInfo source, target;

    fail_unless(gst_memory_map(from, &source, GST_MAP_READ | (GstMapFlags)GST_MAP_CUDA));
    fail_unless(gst_memory_map(to, &target, GST_MAP_WRITE | (GstMapFlags)GST_MAP_CUDA));
    const CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcDevice = (CUdeviceptr)(guintptr)source.data,
        .srcPitch = source.size,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = (CUdeviceptr)(guintptr)target.data,
        .dstPitch = source.size,
        .WidthInBytes = MIN(source.size, target.size),
        .Height = 1,
    };
    gst_cuda_context_push(GST_CUDA_MEMORY_CAST(to)->context);
    fail_unless_equals_int(CuMemcpy2DAsync(&copy, lines_vendor_stream(to)), CUDA_SUCCESS);
    gst_cuda_context_pop(NULL);
    gst_memory_unmap(to, &target);
    gst_memory_unmap(from, &source);
}
