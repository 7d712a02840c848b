/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "gstcuda.h"

#include "ceilings/cuda.h"
#include "control.h"

#include <dlfcn.h>
#include <gst/video/video.h>

#define MAP_CUDA ((GstMapFlags)(GST_MAP_FLAG_LAST << 1))
#define FLAG_NEED_SYNC (GST_MEMORY_FLAG_LAST << 2) /* 1.24 and later */

/* The beginning of GstCudaMemory, the same in all series. */
struct cuda_memory {
    GstMemory memory;
    GstObject *context;
};

static struct library {
    gboolean (*load)(void);
    gboolean (*is_memory)(GstMemory *memory);
    GstObject *(*context_new)(guint ordinal);
    gpointer (*context_handle)(GstObject *context);
    GstBufferPool *(*pool_new)(GstObject *context);
    /* Since 1.24; before that, all elements use the legacy default stream. */
    gpointer (*memory_stream)(GstMemory *memory);
    raw_stream (*stream_handle)(gpointer stream);
} lib;
static bool opened;
static void *latest; /* context */

void bench_gst_cuda_open(int control)
{
    char reason[GPUD_REASON_MAX];
    if (opened)
        return;
    bool driver = raw_open(&raw_cuda, reason, sizeof(reason));
    void *library = dlopen("libgstcuda-1.0.so.0", RTLD_NOW | RTLD_GLOBAL);
    if (!driver || !library)
        bench_child_fail(control, GPUD_UNSUPPORTED, "no CUDA memory in GStreamer: %s",
                         driver ? dlerror() : reason);
    *(void **)&lib.load = dlsym(library, "gst_cuda_load_library");
    *(void **)&lib.is_memory = dlsym(library, "gst_is_cuda_memory");
    *(void **)&lib.context_new = dlsym(library, "gst_cuda_context_new");
    *(void **)&lib.context_handle = dlsym(library, "gst_cuda_context_get_handle");
    *(void **)&lib.pool_new = dlsym(library, "gst_cuda_buffer_pool_new");
    *(void **)&lib.memory_stream = dlsym(library, "gst_cuda_memory_get_stream");
    *(void **)&lib.stream_handle = dlsym(library, "gst_cuda_stream_get_handle");
    if (!lib.load || !lib.is_memory || !lib.context_new || !lib.context_handle || !lib.pool_new)
        bench_child_fail(control, GPUD_UNSUPPORTED,
                         "this GStreamer's libgstcuda lacks what is needed: 1.22 or later is");
    if (!lib.load())
        bench_child_fail(control, GPUD_UNSUPPORTED,
                         "GStreamer's libgstcuda does not find what it needs in the CUDA driver");
    opened = true;
}

GstBufferPool *bench_gst_cuda_pool(int control, unsigned ordinal)
{
    GstObject *context = lib.context_new(ordinal);
    GstBufferPool *pool = context ? lib.pool_new(context) : NULL;
    if (!pool)
        bench_child_fail(control, GPUD_NO_DEVICE, "GStreamer has no CUDA memory on cuda:%u",
                         ordinal);
    gst_object_unref(context);
    return pool;
}

bool bench_gst_cuda_is(GstBuffer *buffer)
{
    return opened && gst_buffer_n_memory(buffer) > 0 &&
           lib.is_memory(gst_buffer_peek_memory(buffer, 0));
}

/* Uses the buffer's own strides: pools of CUDA memory align them as the driver demands. */
static void find_layout(const struct bench_job *job, GstBuffer *buffer, struct gpud_layout *layout)
{
    const GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);
    gpud_layout_init(layout, job->format, job->width, job->height, 0, NULL);
    for (guint i = 0; meta && i < meta->n_planes && i < layout->planes; i++) {
        struct gpud_plane *plane = &layout->plane[i];
        plane->offset = meta->offset[i];
        plane->stride = (uint32_t)meta->stride[i];
        layout->size =
            MAX(layout->size,
                plane->offset + (uint64_t)plane->stride * (plane->rows - 1) + plane->row_bytes);
    }
}

bool bench_gst_cuda_map(const struct bench_job *job, GstBuffer *buffer, GstMapFlags flags,
                        struct bench_gpu_map *map)
{
    GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
    void *context = lib.context_handle(((struct cuda_memory *)(void *)memory)->context);
    if (raw_cuda_push(context) != 0)
        return false;
    if (!gst_buffer_map(buffer, &map->info, flags | MAP_CUDA)) {
        raw_leave(&raw_cuda);
        return false;
    }
    latest = context;
    map->address = (raw_address)(uintptr_t)map->info.data;
    gpointer stream = lib.memory_stream ? lib.memory_stream(memory) : NULL;
    map->stream = stream ? lib.stream_handle(stream) : NULL;
    map->ordered = stream || !lib.memory_stream;
    if (stream && (flags & GST_MAP_WRITE))
        GST_MINI_OBJECT_FLAG_SET(memory, FLAG_NEED_SYNC);
    find_layout(job, buffer, &map->layout);
    return map->layout.size <= map->info.size;
}

void bench_gst_cuda_unmap(GstBuffer *buffer, struct bench_gpu_map *map)
{
    gst_buffer_unmap(buffer, &map->info);
    raw_leave(&raw_cuda);
}

bool bench_gst_cuda_enter(void)
{
    return latest && raw_cuda_push(latest) == 0;
}

void bench_gst_cuda_leave(void)
{
    raw_leave(&raw_cuda);
}
