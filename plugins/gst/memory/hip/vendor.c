/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the elements ask of HIP: its pool, its context, its frames. */
#include "memory/hip/hip.h"

#include "memory/memory.h"

/* === vendor ================================================================================== */
/* The entry in the list of vendors for AMD's GPUs, as GStreamer's HIP elements use them. */

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

/* === device ================================================================================== */
/* The GstHipDevice of slots: one that has no textures, see hip.h.
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

static GstHipDevice *new_device(GstHipDevice *device)
{
    GstGpudirectHipDevice *self = g_object_new(gst_gpudirect_hip_device_get_type(), NULL);

    gst_object_ref_sink(self);
    GST_OBJECT_FLAG_SET(self, GST_OBJECT_FLAG_MAY_BE_LEAKED);
    self->unused = self->parent.priv;
    self->parent.priv = device->priv;
    return &self->parent;
}

GstHipDevice *hip_memory_device(GstHipDevice *device)
{
    static GMutex lock;
    GQuark quark = g_quark_from_static_string("gpudirect-hip-memory-device");

    g_mutex_lock(&lock);
    GstHipDevice *found = g_object_get_qdata(G_OBJECT(device), quark);
    if (!found) {
        found = new_device(device);
        g_object_set_qdata(G_OBJECT(device), quark, found);
    }
    g_mutex_unlock(&lock);
    return found;
}
