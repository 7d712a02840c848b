/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The devices that gpudirectsrc can show: capture cards with their modes, and the channels of
 * running senders. While an application monitors, the channels are asked once a second: nothing
 * else reports a change of format. */
#include "deviceprovider.h"
#include "channels.h"
#include "context.h"
#include "src/capturecaps.h"
#include "wire/caps.h"

#include <string.h>

/* A sender that has not answered by then is listed without its caps. */
#define ANSWER_TIMEOUT GPUD_SEC
#define PERIOD G_TIME_SPAN_SECOND

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
    GThread *watch; /* while somebody monitors */
    GMutex lock;    /* of stopping */
    GCond stop;
    gboolean stopping;
    GHashTable *channels; /* by address, the GstDevice of each; the watch's */
};

G_DEFINE_TYPE(GstGpudirectDeviceProvider, gst_gpudirect_device_provider, GST_TYPE_DEVICE_PROVIDER)
/* Device monitors leave out providers of rank NONE. */
GST_DEVICE_PROVIDER_REGISTER_DEFINE(gpudirectdeviceprovider, "gpudirectdeviceprovider",
                                    GST_RANK_MARGINAL, GST_TYPE_GPUDIRECT_DEVICE_PROVIDER)

static GstDevice *probe_card(struct gpud_context *context, const gchar *node)
{
    struct gpud_capture_params params = GPUD_PARAMS_INIT(params);
    struct gpud_capture *capture;
    struct gpud_capture_info info = GPUD_INFO_INIT(info);
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

static GstDevice *channel_device(const struct channel *channel)
{
    gchar *shown = g_strdup_printf("gpudirect channel %s", channel->address);
    GstStructure *properties = gst_structure_new_empty("gpudirect-channel");

    if (channel->pid > 0)
        gst_structure_set(properties, "pid", G_TYPE_INT64, channel->pid, NULL);
    if (channel->program)
        gst_structure_set(properties, "program", G_TYPE_STRING, channel->program, NULL);
    GstDevice *device = device_new(channel->address, shown,
                                   channel->caps ? gst_caps_ref(channel->caps)
                                                 : gst_caps_from_string(SLOT_VIDEO_CAPS),
                                   properties);
    g_free(shown);
    return device;
}

static GList *probe(GstDeviceProvider *provider)
{
    GList *list = probe_cards(NULL);
    GPtrArray *channels = channels_ask(ANSWER_TIMEOUT);

    for (guint i = 0; i < channels->len; i++)
        list = g_list_append(list, channel_device(channels->pdata[i]));
    g_ptr_array_unref(channels);
    return list;
}

/* --- monitoring --------------------------------------------------------------------------- */

static gboolean devices_are_equal(GstDevice *a, GstDevice *b)
{
    GstCaps *caps[] = {gst_device_get_caps(a), gst_device_get_caps(b)};
    GstStructure *properties[] = {gst_device_get_properties(a), gst_device_get_properties(b)};
    gboolean equal =
        gst_caps_is_equal(caps[0], caps[1]) && gst_structure_is_equal(properties[0], properties[1]);

    for (guint i = 0; i < 2; i++) {
        gst_caps_unref(caps[i]);
        gst_structure_free(properties[i]);
    }
    return equal;
}

/* One that does not answer stays as it was. */
static void follow_channel(GstGpudirectDeviceProvider *self, const struct channel *channel)
{
    GstDeviceProvider *provider = GST_DEVICE_PROVIDER(self);
    GstDevice *known = g_hash_table_lookup(self->channels, channel->address);

    if (known && !channel->answered)
        return;
    GstDevice *device = gst_object_ref_sink(channel_device(channel));
    if (!known)
        gst_device_provider_device_add(provider, device);
    else if (!devices_are_equal(known, device))
        gst_device_provider_device_changed(provider, device, known);
    else
        gst_clear_object(&device);
    if (device)
        g_hash_table_replace(self->channels, g_strdup(channel->address), device);
}

static gboolean is_listed(const GPtrArray *channels, const gchar *address)
{
    for (guint i = 0; i < channels->len; i++)
        if (g_str_equal(((struct channel *)channels->pdata[i])->address, address))
            return TRUE;
    return FALSE;
}

static void follow_channels(GstGpudirectDeviceProvider *self)
{
    GPtrArray *channels = channels_ask(ANSWER_TIMEOUT);
    GHashTableIter known;
    gpointer address, device;

    g_hash_table_iter_init(&known, self->channels);
    while (g_hash_table_iter_next(&known, &address, &device)) {
        if (is_listed(channels, address))
            continue;
        gst_device_provider_device_remove(GST_DEVICE_PROVIDER(self), device);
        g_hash_table_iter_remove(&known);
    }
    for (guint i = 0; i < channels->len; i++)
        follow_channel(self, channels->pdata[i]);
    g_ptr_array_unref(channels);
}

static gboolean wait_for_turn(GstGpudirectDeviceProvider *self)
{
    gint64 until = g_get_monotonic_time() + PERIOD;

    g_mutex_lock(&self->lock);
    while (!self->stopping && g_cond_wait_until(&self->stop, &self->lock, until))
        ;
    gboolean goes_on = !self->stopping;
    g_mutex_unlock(&self->lock);
    return goes_on;
}

static gpointer watch(gpointer data)
{
    GstGpudirectDeviceProvider *self = data;

    while (wait_for_turn(self))
        follow_channels(self);
    return NULL;
}

static gboolean start(GstDeviceProvider *provider)
{
    GstGpudirectDeviceProvider *self = GST_GPUDIRECT_DEVICE_PROVIDER(provider);
    GList *cards = probe_cards(NULL);

    for (GList *at = cards; at; at = at->next)
        gst_device_provider_device_add(provider, at->data); /* takes it */
    g_list_free(cards);
    self->channels = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, gst_object_unref);
    follow_channels(self);
    self->stopping = FALSE;
    self->watch = g_thread_new("gpudirect-devices", watch, self);
    return TRUE;
}

static void stop(GstDeviceProvider *provider)
{
    GstGpudirectDeviceProvider *self = GST_GPUDIRECT_DEVICE_PROVIDER(provider);

    g_mutex_lock(&self->lock);
    self->stopping = TRUE;
    g_cond_signal(&self->stop);
    g_mutex_unlock(&self->lock);
    g_thread_join(g_steal_pointer(&self->watch));
    g_clear_pointer(&self->channels, g_hash_table_unref);
}

static void provider_finalize(GObject *object)
{
    GstGpudirectDeviceProvider *self = GST_GPUDIRECT_DEVICE_PROVIDER(object);

    g_mutex_clear(&self->lock);
    g_cond_clear(&self->stop);
    G_OBJECT_CLASS(gst_gpudirect_device_provider_parent_class)->finalize(object);
}

static void gst_gpudirect_device_provider_class_init(GstGpudirectDeviceProviderClass *klass)
{
    GstDeviceProviderClass *provider_class = GST_DEVICE_PROVIDER_CLASS(klass);

    G_OBJECT_CLASS(klass)->finalize = provider_finalize;
    provider_class->probe = probe;
    provider_class->start = start;
    provider_class->stop = stop;
    gst_device_provider_class_set_static_metadata(
        provider_class, "GPU-direct device provider", "Source/Video",
        "Lists capture cards and the channels of running senders", "gpudirect authors");
}

static void gst_gpudirect_device_provider_init(GstGpudirectDeviceProvider *self)
{
    g_mutex_init(&self->lock);
    g_cond_init(&self->stop);
}
