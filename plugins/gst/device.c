/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "device.h"
#include "base/context.h"
#include "src/capturecaps.h"
#include "wire/blocks.h"
#include "wire/caps.h"

#include <string.h>

#define SCHEME_CARD "v4l2://"
#define SCHEME_TARGET "target:"

struct _GstGpudirectDevice {
    GstDevice parent;
    gchar *address;
};

G_DEFINE_TYPE(GstGpudirectDevice, gst_gpudirect_device, GST_TYPE_DEVICE)

/* --- the element -------------------------------------------------------------------------- */

static GstElement *create_element(GstDevice *device, const gchar *name)
{
    GstElement *element = gst_element_factory_make("gpudirectsrc", name);

    if (element)
        g_object_set(element, "address", GST_GPUDIRECT_DEVICE(device)->address, NULL);
    return element;
}

/* An element that runs keeps its address. */
static gboolean reconfigure_element(GstDevice *device, GstElement *element)
{
    GstElementFactory *factory = gst_element_get_factory(element);
    gchar *address = NULL;

    if (!factory || g_strcmp0(GST_OBJECT_NAME(factory), "gpudirectsrc") != 0)
        return FALSE;
    g_object_set(element, "address", GST_GPUDIRECT_DEVICE(device)->address, NULL);
    g_object_get(element, "address", &address, NULL);
    gboolean taken = g_strcmp0(address, GST_GPUDIRECT_DEVICE(device)->address) == 0;
    g_free(address);
    return taken;
}

static void device_finalize(GObject *object)
{
    g_free(GST_GPUDIRECT_DEVICE(object)->address);
    G_OBJECT_CLASS(gst_gpudirect_device_parent_class)->finalize(object);
}

static void gst_gpudirect_device_class_init(GstGpudirectDeviceClass *klass)
{
    GST_DEVICE_CLASS(klass)->create_element = create_element;
    GST_DEVICE_CLASS(klass)->reconfigure_element = reconfigure_element;
    G_OBJECT_CLASS(klass)->finalize = device_finalize;
}

static void gst_gpudirect_device_init(GstGpudirectDevice *self)
{
}

/* What monitors filter by. */
static const gchar *class_of(const GstCaps *caps)
{
    if (!blocks_are_caps(caps))
        return "Video/Source";
    const GstStructure *first = gst_caps_get_structure(caps, 0);
    return g_str_has_prefix(gst_structure_get_name(first), "audio/") ? "Audio/Source"
                                                                     : "Data/Source";
}

/* Takes caps and properties. */
static GstDevice *device_new(const gchar *address, const gchar *name, GstCaps *caps,
                             GstStructure *properties)
{
    gst_structure_set(properties, "address", G_TYPE_STRING, address, NULL);
    GstGpudirectDevice *self =
        g_object_new(GST_TYPE_GPUDIRECT_DEVICE, "display-name", name, "device-class",
                     class_of(caps), "caps", caps, "properties", properties, NULL);
    self->address = g_strdup(address);
    gst_structure_free(properties);
    gst_caps_unref(caps);
    return GST_DEVICE(self);
}

const gchar *gst_gpudirect_device_address(GstDevice *device)
{
    return GST_GPUDIRECT_DEVICE(device)->address;
}

gboolean gst_gpudirect_device_is_same(GstDevice *a, GstDevice *b)
{
    GstCaps *caps[] = {gst_device_get_caps(a), gst_device_get_caps(b)};
    GstStructure *properties[] = {gst_device_get_properties(a), gst_device_get_properties(b)};
    gboolean same =
        gst_caps_is_equal(caps[0], caps[1]) && gst_structure_is_equal(properties[0], properties[1]);

    for (guint i = 0; i < 2; i++) {
        gst_caps_unref(caps[i]);
        gst_structure_free(properties[i]);
    }
    return same;
}

/* --- capture cards ------------------------------------------------------------------------ */

static GstCaps *card_caps(const struct gpud_capture_card_info *info)
{
    struct gpud_capture_mode *modes = g_new(struct gpud_capture_mode, info->modes + 1);

    for (uint32_t i = 0; i < info->modes; i++)
        modes[i] = *info->mode[i];
    GstCaps *caps = capture_caps_of_modes(modes, info->modes);
    g_free(modes);
    return caps;
}

static gchar *path_text(const struct gpud_capture_card_path *path)
{
    if (path->direct)
        return g_strdup_printf("%s: yes (%s)", path->device, path->path);
    return g_strdup_printf("%s: no, by %s: %s", path->device, path->path, path->reason);
}

/* "cuda:0: yes (v4l2-dmabuf)", "opencl:0: no, by v4l2-userptr: …", a text for each device. */
static void set_paths(GstStructure *properties, const struct gpud_capture_card_info *info)
{
    GValue list = G_VALUE_INIT;

    g_value_init(&list, GST_TYPE_ARRAY);
    for (uint32_t i = 0; i < info->paths; i++) {
        GValue text = G_VALUE_INIT;
        g_value_init(&text, G_TYPE_STRING);
        g_value_take_string(&text, path_text(info->path[i]));
        gst_value_array_append_and_take_value(&list, &text);
    }
    gst_structure_take_value(properties, "direct-path", &list);
}

GstDevice *gst_gpudirect_device_new_card(const struct gpud_capture_card_list *cards, uint32_t index)
{
    struct gpud_capture_card_info info = GPUD_INFO_INIT(info);

    gpud_capture_card_list_get_info(cards, index, &info, NULL);
    if (!info.usable) {
        GST_CAT_DEBUG(gpud_gst_debug, "%s: %s", info.address, info.reason);
        return NULL;
    }
    GstCaps *caps = card_caps(&info);
    if (gst_caps_is_empty(caps)) { /* compressed pictures only, or no pictures */
        gst_caps_unref(caps);
        return NULL;
    }
    GstStructure *properties =
        gst_structure_new("gpudirect-capture", "driver", G_TYPE_STRING, info.driver, "device.path",
                          G_TYPE_STRING, info.address + strlen(SCHEME_CARD), "device.bus",
                          G_TYPE_STRING, info.bus, "signal", G_TYPE_BOOLEAN, info.signal, NULL);
    if (info.pci[0])
        gst_structure_set(properties, "device.pci", G_TYPE_STRING, info.pci, NULL);
    if (!info.signal)
        gst_structure_set(properties, "signal-reason", G_TYPE_STRING, info.signal_reason, NULL);
    set_paths(properties, &info);
    return device_new(info.address, info.card, caps, properties);
}

/* --- channels and targets ----------------------------------------------------------------- */

static void set_process(GstStructure *properties, gint64 pid, const gchar *program)
{
    if (pid > 0)
        gst_structure_set(properties, "pid", G_TYPE_INT64, pid, NULL);
    if (program && program[0])
        gst_structure_set(properties, "program", G_TYPE_STRING, program, NULL);
}

GstDevice *gst_gpudirect_device_new_channel(const struct channel *channel)
{
    gchar *shown = g_strdup_printf("gpudirect channel %s", channel->address);
    GstStructure *properties = gst_structure_new_empty("gpudirect-channel");

    set_process(properties, channel->pid, channel->program);
    GstDevice *device = device_new(channel->address, shown,
                                   channel->caps ? gst_caps_ref(channel->caps)
                                                 : gst_caps_from_string(SLOT_VIDEO_CAPS),
                                   properties);
    g_free(shown);
    return device;
}

GstDevice *gst_gpudirect_device_new_target(const struct gpud_target_entry *target)
{
    static const gchar *const kinds[] = {
        [GPUD_TARGET_HOST] = "host",
        [GPUD_TARGET_BUS_ADDRESS] = "bus-address",
        [GPUD_TARGET_DMABUF] = "dma-buf",
    };
    gchar *address = g_strconcat(SCHEME_TARGET, target->name, NULL);
    gchar *shown = g_strdup_printf("gpudirect target %s", target->name);
    const gchar *type = video_media_type(target->format);
    GstCaps *caps = gst_caps_new_simple(type ? type : VIDEO_RAW, "format", G_TYPE_STRING,
                                        target->format, "width", G_TYPE_INT, (gint)target->width,
                                        "height", G_TYPE_INT, (gint)target->height, NULL);
    GstStructure *properties =
        gst_structure_new("gpudirect-target", "kind", G_TYPE_STRING, kinds[target->kind], "slots",
                          G_TYPE_UINT, target->slots, NULL);

    if (target->fps_den)
        gst_caps_set_simple(caps, "framerate", GST_TYPE_FRACTION, (gint)target->fps_num,
                            (gint)target->fps_den, NULL);
    set_process(properties, target->pid, target->program);
    GstDevice *device = device_new(address, shown, caps, properties);
    g_free(shown);
    g_free(address);
    return device;
}
