/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The GstHipDevice of slots: one that has no textures, see hip.h.
 *
 * It shares the private part of the GPU's ordinary GstHipDevice, so that all queries (number,
 * vendor, stream, equality) give the same answer; only the property differs. The private part that
 * the parent class made is kept, unused. */
#include "memory/hip/hip.h"

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
