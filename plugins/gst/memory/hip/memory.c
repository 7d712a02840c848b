/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* HIP memory of GStreamer's own kind, around a slot. */
#include "memory/hip/hip.h"

/* === memory ================================================================================== */
/* A slot as a GstHipMemory, as hip.h describes; gpuslot.h has the code that all vendors share. */

typedef struct {
    GstHipAllocator parent;
} GstGpudirectHipAllocator;

typedef GstHipAllocatorClass GstGpudirectHipAllocatorClass;

GType gst_gpudirect_hip_allocator_get_type(void);

G_DEFINE_TYPE(GstGpudirectHipAllocator, gst_gpudirect_hip_allocator, GST_TYPE_HIP_ALLOCATOR)

gpointer hip_get_stream(GstMemory *memory)
{
    return gst_hip_stream_get_handle(gst_hip_memory_get_stream(GST_HIP_MEMORY_CAST(memory)));
}

/* For elements that work on another stream than the memory's. */
void hip_set_pending(GstMemory *memory)
{
    GstHipStream *stream = gst_hip_memory_get_stream(GST_HIP_MEMORY_CAST(memory));
    GstHipEvent *event = NULL;

    if (gst_hip_stream_record_event(stream, &event))
        gst_hip_memory_set_event(GST_HIP_MEMORY_CAST(memory), event);
    else /* the log says why: without an event those elements would not wait */
        HipStreamSynchronize(GST_HIP_VENDOR_AMD, gst_hip_stream_get_handle(stream));
    gst_clear_hip_event(&event);
}

gboolean hip_enter(const struct gpu *gpu)
{
    return gst_hip_device_set_current((GstHipDevice *)gpu->context);
}

/* Nothing to restore: all users of HIP select their device before each use. */
void hip_leave(const struct gpu *gpu)
{
}

void hip_finish(const struct gpu *gpu, gpointer stream)
{
    HipStreamSynchronize(GST_HIP_VENDOR_AMD, stream);
}

gboolean hip_copy_rows(const struct gpu *gpu, gpointer stream, const struct gpu_rows *rows)
{
    const hip_Memcpy2D copy = {
        .srcMemoryType = hipMemoryTypeDevice,
        .srcDevice = rows->from,
        .srcPitch = rows->from_stride,
        .dstMemoryType = hipMemoryTypeDevice,
        .dstDevice = rows->to,
        .dstPitch = rows->to_stride,
        .WidthInBytes = rows->bytes,
        .Height = rows->rows,
    };
    return HipMemcpyParam2DAsync(GST_HIP_VENDOR_AMD, &copy, stream) == hipSuccess;
}

static GstMemory *hip_new_memory(struct slot_store *store, struct gpud_frame *frame,
                                 const struct gpud_layout *layout,
                                 const struct video_planes *planes)
{
    GstVideoInfo info = gpu_slot_info(store, layout, planes), least;

    gst_video_info_init(&least);
    gst_video_info_set_format(&least, GST_VIDEO_FORMAT_RGBA, 1, 1);
    GstMemory *memory =
        gst_hip_allocator_alloc((GstHipAllocator *)store->allocator,
                                hip_memory_device((GstHipDevice *)store->gpu->context), &least);
    if (!memory)
        return NULL;
    GST_HIP_MEMORY_CAST(memory)->info = info;
    memory->size = memory->maxsize = info.size;
    /* GstHipAllocator cannot share a part of a memory; GStreamer copies it then. */
    GST_MINI_OBJECT_FLAG_SET(memory, GST_MEMORY_FLAG_NO_SHARE);
    return memory;
}

static GstAllocator *hip_new_allocator(void)
{
    return g_object_new(gst_gpudirect_hip_allocator_get_type(), NULL);
}

const struct slot_kind hip_slot_kind = {
    .new_allocator = hip_new_allocator,
    .new_memory = hip_new_memory,
    .arrived = gpu_slot_arrived,
    .leaving = gpu_slot_leaving,
};

static void gst_gpudirect_hip_allocator_class_init(GstGpudirectHipAllocatorClass *klass)
{
}

static void gst_gpudirect_hip_allocator_init(GstGpudirectHipAllocator *self)
{
    gpu_slot_init_allocator(GST_ALLOCATOR(self));
}

/* === frame =================================================================================== */
/* Any element's GstHipMemory. */

/* HIP can use NVIDIA's GPUs through CUDA, but the core has no HIP devices for those. */
gboolean hip_look_into(GstMemory *memory, gint *ordinal, const GstVideoInfo **info)
{
    if (!gst_is_hip_memory(memory))
        return FALSE;
    GstHipDevice *device = GST_HIP_MEMORY_CAST(memory)->device;
    if (gst_hip_device_get_vendor(device) != GST_HIP_VENDOR_AMD)
        return FALSE;
    *ordinal = (gint)gst_hip_device_get_device_id(device);
    *info = &GST_HIP_MEMORY_CAST(memory)->info;
    return TRUE;
}

/* The writer used the memory's stream, or has waited until it was done. */
gboolean hip_await_writes(GstMemory *memory, const struct gpu *gpu, gpointer *stream)
{
    *stream = hip_get_stream(memory);
    return FALSE;
}
