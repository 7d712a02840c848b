/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* AMD's GPUs as GStreamer's HIP elements use them, from 1.28 on.
 *
 * A GstHipMemory belongs to a GstHipDevice, and elements use it on that device's stream. An element
 * on the same stream need not wait; another waits, on the CPU, for the memory's event. So a frame
 * is ordered on its memory's stream as soon as it is attached, and an event behind that is stored
 * in the memory. HIP has one context per GPU, so several GstHipDevices of a GPU differ only in
 * their streams.
 *
 * The library cannot wrap pointers. It allocates the smallest memory possible for a slot, and our
 * allocator's map methods return the slot's own bytes. Only gst_hip_memory_get_texture() bypasses
 * these: it makes textures of the allocated memory, unless the memory's device has none, and then
 * callers use the mapped pointer. So slots belong to such a GstHipDevice: see hip_memory_device().
 */
#include "memory/memory.h"

#include <gst/hip/gsthip.h>

/* === device ================================================================================== */
/* The GstHipDevice of slots: one that has no textures.
 *
 * It shares the private part of the GPU's ordinary GstHipDevice, so that all queries (number,
 * vendor, stream, equality) give the same answer; only the property differs. The private part that
 * the parent class made is kept, unused. */

typedef struct {
    GstHipDevice parent;
    GstHipDevicePrivate *unused;
} GstGpudirectHipDevice;

typedef GstHipDeviceClass GstGpudirectHipDeviceClass;

GType gst_gpudirect_hip_device_get_type(void);

G_DEFINE_TYPE(GstGpudirectHipDevice, gst_gpudirect_hip_device, GST_TYPE_HIP_DEVICE)

enum { PROP_TEXTURES = 1 };

static void get_property(GObject *object, guint id, GValue *value, GParamSpec *spec)
{
    g_value_set_boolean(value, FALSE);
}

static void gst_gpudirect_hip_device_class_init(GstGpudirectHipDeviceClass *klass)
{
    GObjectClass *object_class = G_OBJECT_CLASS(klass);

    object_class->get_property = get_property;
    g_object_class_override_property(object_class, PROP_TEXTURES, "texture2d-support");
}

static void gst_gpudirect_hip_device_init(GstGpudirectHipDevice *self)
{
}

/* The device of a GPU's slots: the GPU and stream of `device`, without textures. It lives as long
 * as `device`, which is never freed. */
static GstHipDevice *hip_memory_device(GstHipDevice *device)
{
    static GMutex lock;
    GQuark quark = g_quark_from_static_string("gpudirect-hip-memory-device");

    g_mutex_lock(&lock);
    GstGpudirectHipDevice *found = g_object_get_qdata(G_OBJECT(device), quark);
    if (!found) {
        found = g_object_new(gst_gpudirect_hip_device_get_type(), NULL);
        gst_object_ref_sink(found);
        GST_OBJECT_FLAG_SET(found, GST_OBJECT_FLAG_MAY_BE_LEAKED);
        found->unused = found->parent.priv;
        found->parent.priv = device->priv;
        g_object_set_qdata(G_OBJECT(device), quark, found);
    }
    g_mutex_unlock(&lock);
    return &found->parent;
}

/* === memory ================================================================================== */
/* A slot as a GstHipMemory; gpu.c has the code that all vendors share. */

static gpointer hip_get_stream(GstMemory *memory)
{
    return gst_hip_stream_get_handle(gst_hip_memory_get_stream(GST_HIP_MEMORY_CAST(memory)));
}

/* For elements that work on another stream than the memory's. */
static void hip_set_pending(GstMemory *memory)
{
    GstHipStream *stream = gst_hip_memory_get_stream(GST_HIP_MEMORY_CAST(memory));
    GstHipEvent *event = NULL;

    if (gst_hip_stream_record_event(stream, &event))
        gst_hip_memory_set_event(GST_HIP_MEMORY_CAST(memory), event);
    else /* the log says why: without an event those elements would not wait */
        HipStreamSynchronize(GST_HIP_VENDOR_AMD, gst_hip_stream_get_handle(stream));
    gst_clear_hip_event(&event);
}

static gboolean hip_enter(const struct gpu *gpu)
{
    return gst_hip_device_set_current((GstHipDevice *)gpu->context);
}

/* Nothing to restore: all users of HIP select their device before each use. */
static void hip_leave(const struct gpu *gpu)
{
}

static void hip_finish(const struct gpu *gpu, gpointer stream)
{
    HipStreamSynchronize(GST_HIP_VENDOR_AMD, stream);
}

static gboolean hip_copy_rows(const struct gpu *gpu, gpointer stream, const struct gpu_rows *rows)
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

static const struct slot_kind hip_slot_kind = {
    .get_allocator_type = gst_hip_allocator_get_type,
    .init_allocator = gpu_slot_init_allocator,
    .new_memory = hip_new_memory,
    .arrived = gpu_slot_arrived,
    .leaving = gpu_slot_leaving,
};

/* === frame =================================================================================== */
/* Any element's GstHipMemory. */

/* HIP can use NVIDIA's GPUs through CUDA, but the core has no HIP devices for those. */
static gboolean hip_look_into(GstMemory *memory, gint *ordinal, const GstVideoInfo **info)
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
static gboolean hip_await_writes(GstMemory *memory, const struct gpu *gpu, gpointer *stream)
{
    *stream = hip_get_stream(memory);
    return FALSE;
}

/* === vendor ================================================================================== */
/* A stride that is a valid texture pitch on every GPU, for drivers that do not report one. */
#define STRIDE_ALIGN 256

/* Checked once: a missing library or GPU does not appear while the process runs. AMD's runtime may
 * be installed on machines without such a GPU, where its memory is useless. */
static gboolean hip_is_available(void)
{
    static gsize answer;

    if (g_once_init_enter(&answer)) {
        int count = 0;
        gboolean found = gst_hip_load_library(GST_HIP_VENDOR_AMD) &&
                         HipGetDeviceCount(GST_HIP_VENDOR_AMD, &count) == hipSuccess && count > 0;
        g_once_init_leave(&answer, found ? 1 : 2);
    }
    return answer == 1;
}

static GstObject *hip_wrap_context(const struct gpu *gpu, struct gpud_error *error)
{
    GstHipDevice *device = gst_hip_device_new(GST_HIP_VENDOR_AMD, (guint)gpu->ordinal);

    if (device)
        return GST_OBJECT(device);
    *error = (struct gpud_error){.status = GPUD_NO_DEVICE};
    g_snprintf(error->reason, sizeof(error->reason),
               "GStreamer's HIP library cannot use GPU %d: look at GST_DEBUG=hip*:5", gpu->ordinal);
    return NULL;
}

static GstObject *hip_read_context(GstElement *element, GstContext *context)
{
    GstHipDevice *found = NULL;

    gst_hip_handle_set_context(element, context, GST_HIP_VENDOR_AMD, -1, &found);
    return (GstObject *)found;
}

static gint hip_get_ordinal(GstObject *context)
{
    return (gint)gst_hip_device_get_device_id((GstHipDevice *)context);
}

static gboolean hip_answer_query(GstElement *element, GstQuery *query, GstObject *context)
{
    return gst_hip_handle_context_query(element, query, (GstHipDevice *)context);
}

static gint hip_get_stride_align(const struct gpu *gpu)
{
    gint said = 0;

    if (gst_hip_device_get_attribute((GstHipDevice *)gpu->context,
                                     hipDeviceAttributeTextureAlignment, &said) != hipSuccess)
        said = 0;
    return MAX(said, STRIDE_ALIGN);
}

/* Elements compare the GPU. */
static void hip_init_pool(GstBufferPool *pool, const struct gpu *gpu)
{
    ((GstHipBufferPool *)pool)->device = (GstHipDevice *)gst_object_ref(gpu->context);
}

/* A pool's memories have the stream of its device. */
static void hip_configure_pool(struct slot_store *store, GstStructure *config)
{
}

const struct gpu_vendor gpu_vendor_hip = {
    .feature = GST_CAPS_FEATURE_MEMORY_HIP_MEMORY,
    .prefix = "hip:",
    .context_type = GST_HIP_DEVICE_CONTEXT_TYPE,
    .memory = "HIP memory",
    .maker = "AMD",
    .driver = "AMD's HIP runtime (libamdhip64.so.6 or .7)",
    .upload = "hipupload",
    .download = "hipdownload",
    .slot_kind = &hip_slot_kind,
    .is_available = hip_is_available,
    .wrap_context = hip_wrap_context,
    .read_context = hip_read_context,
    .get_ordinal = hip_get_ordinal,
    .answer_query = hip_answer_query,
    .get_stride_align = hip_get_stride_align,
    .get_pool_type = gst_hip_buffer_pool_get_type,
    .pool_name = "GstGpudirectHipPool",
    .init_pool = hip_init_pool,
    .configure_pool = hip_configure_pool,
    .map_flag = GST_MAP_HIP,
    .orders_early = TRUE,
    .look_into = hip_look_into,
    .get_stream = hip_get_stream,
    .set_pending = hip_set_pending,
    .await_writes = hip_await_writes,
    .enter = hip_enter,
    .leave = hip_leave,
    .finish = hip_finish,
    .copy_rows = hip_copy_rows,
};
