/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The device provider: channels and cards, as they come and go. */
#include "provider.h"

#include "base/plugin.h"
#include "src/src.h"
#include "wire/codec.h"

#include <gst/gst.h>
#include <string.h>

/* === device ================================================================================== */

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

/* Takes caps and properties. */
static GstDevice *device_new(const gchar *address, const gchar *name, GstCaps *caps,
                             GstStructure *properties)
{
    const gchar *klass = "Video/Source"; /* what monitors filter by */

    if (blocks_are_caps(caps) && !blocks_are_coded_pictures(caps))
        klass = g_str_has_prefix(gst_structure_get_name(gst_caps_get_structure(caps, 0)), "audio/")
                    ? "Audio/Source"
                    : "Data/Source";
    gst_structure_set(properties, "address", G_TYPE_STRING, address, NULL);
    GstGpudirectDevice *self =
        g_object_new(GST_TYPE_GPUDIRECT_DEVICE, "display-name", name, "device-class", klass, "caps",
                     caps, "properties", properties, NULL);
    self->address = g_strdup(address);
    gst_structure_free(properties);
    gst_caps_unref(caps);
    return GST_DEVICE(self);
}

/* Whether the two look the same to applications. */
static gboolean gst_gpudirect_device_is_same(GstDevice *a, GstDevice *b)
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

/* "cuda:0: yes (v4l2-dmabuf)", "opencl:0: no, by v4l2-userptr: …", a text for each device. */
static void set_paths(GstStructure *properties, const struct gpud_capture_card_info *info)
{
    GValue list = G_VALUE_INIT;

    g_value_init(&list, GST_TYPE_ARRAY);
    for (uint32_t i = 0; i < info->paths; i++) {
        GValue text = G_VALUE_INIT;
        g_value_init(&text, G_TYPE_STRING);
        const struct gpud_capture_card_path *path = info->path[i];
        g_value_take_string(&text, path->direct
                                       ? g_strdup_printf("%s: yes (%s)", path->device, path->path)
                                       : g_strdup_printf("%s: no, by %s: %s", path->device,
                                                         path->path, path->reason));
        gst_value_array_append_and_take_value(&list, &text);
    }
    gst_structure_take_value(properties, "direct-path", &list);
}

/* All return a floating reference. NULL: gpudirectsrc does not support the node. */
static GstDevice *gst_gpudirect_device_new_card(const struct gpud_capture_card_list *cards,
                                                uint32_t index)
{
    struct gpud_capture_card_info info = GPUD_INFO_INIT(info);

    gpud_capture_card_list_get_info(cards, index, &info, NULL);
    if (!info.usable) {
        GST_CAT_DEBUG(gpud_gst_debug, "%s: %s", info.address, info.reason);
        return NULL;
    }
    struct gpud_capture_mode *modes = g_new(struct gpud_capture_mode, info.modes + 1);
    for (uint32_t i = 0; i < info.modes; i++)
        modes[i] = *info.mode[i];
    GstCaps *caps = capture_caps_of_modes(modes, info.modes);
    g_free(modes);
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

static GstDevice *gst_gpudirect_device_new_channel(const struct channel *channel)
{
    g_autofree gchar *shown = g_strdup_printf("gpudirect channel %s", channel->address);
    GstStructure *properties = gst_structure_new_empty("gpudirect-channel");

    if (channel->host)
        gst_structure_set(properties, "host", G_TYPE_STRING, channel->host, NULL);
    set_process(properties, channel->pid, channel->program);
    return device_new(channel->address, shown,
                      channel->caps ? gst_caps_ref(channel->caps)
                                    : gst_caps_from_string(SLOT_VIDEO_CAPS),
                      properties);
}

static GstDevice *gst_gpudirect_device_new_target(const struct gpud_target_entry *target)
{
    static const gchar *const kinds[] = {
        [GPUD_TARGET_HOST] = "host",
        [GPUD_TARGET_BUS_ADDRESS] = "bus-address",
        [GPUD_TARGET_DMABUF] = "dma-buf",
    };
    g_autofree gchar *address = g_strconcat(SCHEME_TARGET, target->name, NULL);
    g_autofree gchar *shown = g_strdup_printf("gpudirect target %s", target->name);
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
    return device_new(address, shown, caps, properties);
}

/* === deviceprovider ========================================================================== */
/* Lists gpudirectsrc's possible sources: capture cards with their modes, the channels of running
 * senders here and of other hosts, and targets. While an application monitors them, changes are
 * events; only a sender that does not answer, or whose process is not visible here, is polled once
 * a second. What other hosts announce is known to this process all the while, and is looked at as
 * often, in a thread of its own: the first answer takes a second. */

#define GST_TYPE_GPUDIRECT_DEVICE_PROVIDER (gst_gpudirect_device_provider_get_type())

/* A sender that has not answered by then is listed without its caps. */
#define ANSWER_TIMEOUT GPUD_SEC
#define PERIOD 1000 /* ms */

struct _GstGpudirectDeviceProvider {
    GstDeviceProvider parent;
    /* While the provider is monitored. */
    struct device_watch *watch; /* NULL: nothing can be followed */
    GThread *thread;
    gint stopping;                          /* atomic */
    GHashTable *cards, *channels, *targets; /* by address, the GstDevice of each; the thread's */
    gboolean polls;                         /* the thread's: not every change is an event */
    GThread *network_thread;
    GHashTable *network; /* likewise; that thread's */
    GMutex lock;         /* it sleeps by these */
    GCond wake;
};

G_DEFINE_TYPE(GstGpudirectDeviceProvider, gst_gpudirect_device_provider, GST_TYPE_DEVICE_PROVIDER)

/* Device monitors leave out providers of rank NONE. */
GST_DEVICE_PROVIDER_REGISTER_DEFINE(gpudirectdeviceprovider, "gpudirectdeviceprovider",
                                    GST_RANK_MARGINAL, GST_TYPE_GPUDIRECT_DEVICE_PROVIDER)

/* --- the current devices ------------------------------------------------------------------ */

/* Of GstDevice. */
static GPtrArray *devices_new(void)
{
    return g_ptr_array_new_with_free_func(gst_object_unref);
}

/* Takes a floating reference, or NULL. */
static void deviceprovider_add(GPtrArray *devices, GstDevice *device)
{
    if (device)
        g_ptr_array_add(devices, gst_object_ref_sink(device));
}

static GPtrArray *find_cards(void)
{
    GPtrArray *devices = devices_new();
    struct gpud_capture_card_list *cards;
    uint32_t count;
    struct gpud_error error;
    struct gpud_context *context = gpud_gst_context_get(&error);

    if (!context || gpud_capture_card_list_create(context, &cards, &count, &error) != GPUD_OK) {
        GST_CAT_WARNING(gpud_gst_debug, "no capture cards: %s", error.reason);
        return devices;
    }
    for (uint32_t i = 0; i < count; i++)
        deviceprovider_add(devices, gst_gpudirect_device_new_card(cards, i));
    gpud_capture_card_list_destroy(&cards);
    return devices;
}

static GPtrArray *find_targets(void)
{
    GPtrArray *devices = devices_new();
    struct gpud_target_list *targets;
    uint32_t count;
    struct gpud_error error;

    if (gpud_target_list_create(&targets, &count, &error) != GPUD_OK) {
        GST_CAT_DEBUG(gpud_gst_debug, "no targets: %s", error.reason);
        return devices;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_target_entry entry = GPUD_INFO_INIT(entry);
        gpud_target_list_get_info(targets, i, &entry, NULL);
        deviceprovider_add(devices, gst_gpudirect_device_new_target(&entry));
    }
    gpud_target_list_destroy(&targets);
    return devices;
}

/* A channel that does not answer keeps its last state. */
static GPtrArray *devices_of_channels(const GPtrArray *channels, GHashTable *known)
{
    GPtrArray *devices = devices_new();

    for (guint i = 0; i < channels->len; i++) {
        const struct channel *channel = channels->pdata[i];
        GstDevice *before = known ? g_hash_table_lookup(known, channel->address) : NULL;
        if (before && !channel->answered)
            g_ptr_array_add(devices, gst_object_ref(before));
        else
            deviceprovider_add(devices, gst_gpudirect_device_new_channel(channel));
    }
    return devices;
}

static GList *list_all(GList *list, GPtrArray *devices)
{
    for (guint i = 0; i < devices->len; i++) /* a list takes floating references */
        list = g_list_append(list, gst_object_ref(devices->pdata[i]));
    g_ptr_array_unref(devices);
    return list;
}

static GList *deviceprovider_probe(GstDeviceProvider *provider)
{
    g_autoptr(GPtrArray) channels = channels_ask(NULL, ANSWER_TIMEOUT, NULL);
    g_autoptr(GPtrArray) network = channels_ask(GPUD_CHANNELS_NETWORK, ANSWER_TIMEOUT, NULL);

    GList *list = list_all(NULL, find_cards());
    list = list_all(list, devices_of_channels(channels, NULL));
    list = list_all(list, devices_of_channels(network, NULL));
    list = list_all(list, find_targets());
    return list;
}

/* --- monitoring --------------------------------------------------------------------------- */

static gboolean is_among(const GPtrArray *devices, const gchar *address)
{
    for (guint i = 0; i < devices->len; i++)
        if (g_str_equal(GST_GPUDIRECT_DEVICE(devices->pdata[i])->address, address))
            return TRUE;
    return FALSE;
}

/* Takes devices. */
static void deviceprovider_follow(GstGpudirectDeviceProvider *self, GHashTable *known,
                                  GPtrArray *devices)
{
    GstDeviceProvider *provider = GST_DEVICE_PROVIDER(self);
    GHashTableIter iter;
    gpointer address, before;

    g_hash_table_iter_init(&iter, known);
    while (g_hash_table_iter_next(&iter, &address, &before)) {
        if (is_among(devices, address))
            continue;
        gst_device_provider_device_remove(provider, before);
        g_hash_table_iter_remove(&iter);
    }
    for (guint i = 0; i < devices->len; i++) {
        GstDevice *device = devices->pdata[i];
        before = g_hash_table_lookup(known, GST_GPUDIRECT_DEVICE(device)->address);
        if (before && gst_gpudirect_device_is_same(before, device))
            continue;
        if (before)
            gst_device_provider_device_changed(provider, device, before);
        else
            gst_device_provider_device_add(provider, device);
        g_hash_table_replace(known, g_strdup(GST_GPUDIRECT_DEVICE(device)->address),
                             gst_object_ref(device));
    }
    g_ptr_array_unref(devices);
}

/* gone: removed nodes. A card that was removed and is back is a new device, even if it is equal. */
static void follow_cards(GstGpudirectDeviceProvider *self, const GPtrArray *gone)
{
    for (guint i = 0; i < gone->len; i++) {
        g_autofree gchar *address = g_strconcat("v4l2:///dev/", gone->pdata[i], NULL);
        GstDevice *before = g_hash_table_lookup(self->cards, address);
        if (before)
            gst_device_provider_device_remove(GST_DEVICE_PROVIDER(self), before);
        g_hash_table_remove(self->cards, address);
    }
    deviceprovider_follow(self, self->cards, find_cards());
}

static void follow_channels(GstGpudirectDeviceProvider *self)
{
    g_autoptr(GPtrArray) channels = channels_ask(NULL, ANSWER_TIMEOUT, NULL);

    self->polls = self->watch && !device_watch_senders(self->watch, channels);
    deviceprovider_follow(self, self->channels, devices_of_channels(channels, self->channels));
    deviceprovider_follow(self, self->targets, find_targets());
}

static gpointer deviceprovider_run(gpointer data)
{
    GstGpudirectDeviceProvider *self = data;
    g_autoptr(GPtrArray) gone = g_ptr_array_new_with_free_func(g_free);

    while (!g_atomic_int_get(&self->stopping)) {
        guint changes = device_watch_wait(self->watch, self->polls ? PERIOD : -1, gone);
        if (changes & DEVICE_CHANGE_CARDS)
            follow_cards(self, gone);
        if (changes & DEVICE_CHANGE_CHANNELS || (self->polls && !changes))
            follow_channels(self);
        g_ptr_array_set_size(gone, 0);
    }
    return NULL;
}

static gpointer network_run(gpointer data)
{
    GstGpudirectDeviceProvider *self = data;

    while (!g_atomic_int_get(&self->stopping)) {
        GPtrArray *channels = channels_ask(GPUD_CHANNELS_NETWORK, ANSWER_TIMEOUT, NULL);
        deviceprovider_follow(self, self->network, devices_of_channels(channels, NULL));
        g_ptr_array_unref(channels);
        g_mutex_lock(&self->lock);
        gint64 next = g_get_monotonic_time() + PERIOD * G_TIME_SPAN_MILLISECOND;
        while (!g_atomic_int_get(&self->stopping) &&
               g_cond_wait_until(&self->wake, &self->lock, next))
            ;
        g_mutex_unlock(&self->lock);
    }
    return NULL;
}

static GHashTable *known_new(void)
{
    return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, gst_object_unref);
}

static gboolean deviceprovider_start(GstDeviceProvider *provider)
{
    GstGpudirectDeviceProvider *self = GST_GPUDIRECT_DEVICE_PROVIDER(provider);
    gchar *directory;

    self->cards = known_new();
    self->channels = known_new();
    self->targets = known_new();
    self->network = known_new();
    g_ptr_array_unref(channels_ask(NULL, 0, &directory));
    /* The watch comes first, so that changes during the listing are events. */
    self->watch = device_watch_new(directory, TRUE);
    g_free(directory);
    deviceprovider_follow(self, self->cards, find_cards());
    follow_channels(self);
    g_atomic_int_set(&self->stopping, FALSE);
    self->network_thread = g_thread_new("gpudirect-network", network_run, self);
    if (self->watch)
        self->thread = g_thread_new("gpudirect-devices", deviceprovider_run, self);
    return TRUE;
}

static void deviceprovider_stop(GstDeviceProvider *provider)
{
    GstGpudirectDeviceProvider *self = GST_GPUDIRECT_DEVICE_PROVIDER(provider);

    g_mutex_lock(&self->lock);
    g_atomic_int_set(&self->stopping, TRUE);
    g_cond_signal(&self->wake);
    g_mutex_unlock(&self->lock);
    g_thread_join(g_steal_pointer(&self->network_thread));
    if (self->watch) {
        device_watch_wake(self->watch);
        g_thread_join(g_steal_pointer(&self->thread));
        device_watch_free(g_steal_pointer(&self->watch));
    }
    g_clear_pointer(&self->cards, g_hash_table_unref);
    g_clear_pointer(&self->channels, g_hash_table_unref);
    g_clear_pointer(&self->targets, g_hash_table_unref);
    g_clear_pointer(&self->network, g_hash_table_unref);
}

static void deviceprovider_finalize(GObject *object)
{
    GstGpudirectDeviceProvider *self = GST_GPUDIRECT_DEVICE_PROVIDER(object);

    g_mutex_clear(&self->lock);
    g_cond_clear(&self->wake);
    G_OBJECT_CLASS(gst_gpudirect_device_provider_parent_class)->finalize(object);
}

static void gst_gpudirect_device_provider_class_init(GstGpudirectDeviceProviderClass *klass)
{
    GstDeviceProviderClass *provider_class = GST_DEVICE_PROVIDER_CLASS(klass);

    provider_class->probe = deviceprovider_probe;
    provider_class->start = deviceprovider_start;
    provider_class->stop = deviceprovider_stop;
    G_OBJECT_CLASS(klass)->finalize = deviceprovider_finalize;
    gst_device_provider_class_set_static_metadata(
        provider_class, "GPU-direct device provider", "Source/Audio/Video/Data",
        "Lists capture cards, the channels of running senders, and targets", "gpudirect authors");
}

static guint deviceprovider_rank_of(const gchar *name)
{
    g_autoptr(GstPluginFeature) feature = gst_registry_lookup_feature(gst_registry_get(), name);
    return feature ? gst_plugin_feature_get_rank(feature) : GST_RANK_NONE;
}

/* If the user ranks this provider above that of v4l2src, each card is listed once. */
static void gst_gpudirect_device_provider_init(GstGpudirectDeviceProvider *self)
{
    g_mutex_init(&self->lock);
    g_cond_init(&self->wake);
    if (deviceprovider_rank_of("gpudirectdeviceprovider") >
        deviceprovider_rank_of("v4l2deviceprovider"))
        gst_device_provider_hide_provider(GST_DEVICE_PROVIDER(self), "v4l2deviceprovider");
}
