/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What gpudirectsrc could show: capture cards with what they offer, and the channels on which
 * somebody sends. */
#include "deviceprovider.h"
#include "capturecaps.h"
#include "channels.h"
#include "context.h"
#include "layoutcaps.h"

#include <string.h>

/* --- one device --------------------------------------------------------------------------- */

struct _GstGpudirectDevice {
    GstDevice parent;
    gchar *address;
};

G_DEFINE_TYPE(GstGpudirectDevice, gst_gpudirect_device, GST_TYPE_DEVICE)

static GstElement *create_element(GstDevice *device, const gchar *name)
{
    GstElement *element = gst_element_factory_make("gpudirectsrc", name);

    if (element)
        g_object_set(element, "address", GST_GPUDIRECT_DEVICE(device)->address, NULL);
    return element;
}

static void device_finalize(GObject *object)
{
    g_free(GST_GPUDIRECT_DEVICE(object)->address);
    G_OBJECT_CLASS(gst_gpudirect_device_parent_class)->finalize(object);
}

static void gst_gpudirect_device_class_init(GstGpudirectDeviceClass *klass)
{
    GST_DEVICE_CLASS(klass)->create_element = create_element;
    G_OBJECT_CLASS(klass)->finalize = device_finalize;
}

static void gst_gpudirect_device_init(GstGpudirectDevice *self)
{
}

/* Takes caps and properties. */
static GstDevice *device_new(const gchar *address, const gchar *name, GstCaps *caps,
                             GstStructure *properties)
{
    gst_structure_set(properties, "address", G_TYPE_STRING, address, NULL);
    GstGpudirectDevice *self =
        g_object_new(GST_TYPE_GPUDIRECT_DEVICE, "display-name", name, "device-class",
                     "Video/Source", "caps", caps, "properties", properties, NULL);
    self->address = g_strdup(address);
    gst_structure_free(properties);
    gst_caps_unref(caps);
    return GST_DEVICE(self);
}

/* --- the provider ------------------------------------------------------------------------- */

struct _GstGpudirectDeviceProvider {
    GstDeviceProvider parent;
};

G_DEFINE_TYPE(GstGpudirectDeviceProvider, gst_gpudirect_device_provider, GST_TYPE_DEVICE_PROVIDER)
/* Device monitors leave out providers of rank NONE. */
GST_DEVICE_PROVIDER_REGISTER_DEFINE(gpudirectdeviceprovider, "gpudirectdeviceprovider",
                                    GST_RANK_MARGINAL, GST_TYPE_GPUDIRECT_DEVICE_PROVIDER)

static GstDevice *probe_card(struct gpud_context *context, const gchar *node)
{
    struct gpud_capture_params params = GPUD_PARAMS_INIT(params);
    struct gpud_capture *capture;
    struct gpud_capture_info info;
    struct gpud_error error;
    GstDevice *device = NULL;
    gchar *address = g_strdup_printf("v4l2:///dev/%s", node);

    params.address = address;
    if (gpud_capture_create(context, &params, &capture, &error) == GPUD_OK) {
        GstCaps *caps = capture_caps(capture);
        gpud_capture_get_info(capture, &info);
        if (gst_caps_is_empty(caps)) /* compressed pictures only, or no pictures */
            gst_caps_unref(caps);
        else
            device = device_new(
                address, info.card, caps,
                gst_structure_new("gpudirect-capture", "driver", G_TYPE_STRING, info.driver, NULL));
        gpud_capture_destroy(&capture);
    } else {
        GST_CAT_DEBUG(gpud_gst_debug, "%s: %s", address, error.reason);
    }
    g_free(address);
    return device;
}

static gboolean is_video_node(const gchar *name)
{
    return g_str_has_prefix(name, "video") && name[5] &&
           strspn(name + 5, "0123456789") == strlen(name + 5);
}

static GList *probe_cards(GList *list)
{
    struct gpud_context *context = gpud_gst_context_get(NULL);
    GDir *nodes = context ? g_dir_open("/dev", 0, NULL) : NULL;
    const gchar *name;

    while (nodes && (name = g_dir_read_name(nodes))) {
        GstDevice *device = is_video_node(name) ? probe_card(context, name) : NULL;
        if (device)
            list = g_list_append(list, device);
    }
    if (nodes)
        g_dir_close(nodes);
    return list;
}

/* What a channel carries is told to who connects. */
static GList *probe_channels(GList *list)
{
    GList *names = channels_list();

    for (GList *at = names; at; at = at->next) {
        gchar *shown = g_strdup_printf("gpudirect channel %s", (gchar *)at->data);
        list =
            g_list_append(list, device_new(at->data, shown, gst_caps_from_string(SLOT_VIDEO_CAPS),
                                           gst_structure_new_empty("gpudirect-channel")));
        g_free(shown);
    }
    g_list_free_full(names, g_free);
    return list;
}

static GList *probe(GstDeviceProvider *provider)
{
    return probe_channels(probe_cards(NULL));
}

static void gst_gpudirect_device_provider_class_init(GstGpudirectDeviceProviderClass *klass)
{
    GstDeviceProviderClass *provider_class = GST_DEVICE_PROVIDER_CLASS(klass);

    provider_class->probe = probe;
    gst_device_provider_class_set_static_metadata(
        provider_class, "GPU-direct device provider", "Source/Video",
        "Lists capture cards and the channels of running senders", "gpudirect authors");
}

static void gst_gpudirect_device_provider_init(GstGpudirectDeviceProvider *self)
{
}
