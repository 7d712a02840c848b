/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lists gpudirectsrc's possible sources: capture cards with their modes, the channels of running
 * senders, and targets. While an application monitors them, changes are events; only a sender that
 * does not answer, or whose process is not visible here, is polled once a second. */
#include "deviceprovider.h"
#include "base/context.h"
#include "device.h"
#include "base/devicewatch.h"

#include <string.h>

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
static void add(GPtrArray *devices, GstDevice *device)
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
        add(devices, gst_gpudirect_device_new_card(cards, i));
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
        add(devices, gst_gpudirect_device_new_target(&entry));
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
            add(devices, gst_gpudirect_device_new_channel(channel));
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

static GList *probe(GstDeviceProvider *provider)
{
    GPtrArray *channels = channels_ask(NULL, ANSWER_TIMEOUT, NULL);

    GList *list = list_all(NULL, find_cards());
    list = list_all(list, devices_of_channels(channels, NULL));
    list = list_all(list, find_targets());
    g_ptr_array_unref(channels);
    return list;
}

/* --- monitoring --------------------------------------------------------------------------- */

static gboolean is_among(const GPtrArray *devices, const gchar *address)
{
    for (guint i = 0; i < devices->len; i++)
        if (g_str_equal(gst_gpudirect_device_address(devices->pdata[i]), address))
            return TRUE;
    return FALSE;
}

/* Takes devices. */
static void follow(GstGpudirectDeviceProvider *self, GHashTable *known, GPtrArray *devices)
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
        before = g_hash_table_lookup(known, gst_gpudirect_device_address(device));
        if (before && gst_gpudirect_device_is_same(before, device))
            continue;
        if (before)
            gst_device_provider_device_changed(provider, device, before);
        else
            gst_device_provider_device_add(provider, device);
        g_hash_table_replace(known, g_strdup(gst_gpudirect_device_address(device)),
                             gst_object_ref(device));
    }
    g_ptr_array_unref(devices);
}

/* gone: removed nodes. A card that was removed and is back is a new device, even if it is equal. */
static void follow_cards(GstGpudirectDeviceProvider *self, const GPtrArray *gone)
{
    for (guint i = 0; i < gone->len; i++) {
        gchar *address = g_strconcat("v4l2:///dev/", gone->pdata[i], NULL);
        GstDevice *before = g_hash_table_lookup(self->cards, address);
        if (before)
            gst_device_provider_device_remove(GST_DEVICE_PROVIDER(self), before);
        g_hash_table_remove(self->cards, address);
        g_free(address);
    }
    follow(self, self->cards, find_cards());
}

static void watch_senders(GstGpudirectDeviceProvider *self, const GPtrArray *channels)
{
    GArray *pids = g_array_new(FALSE, FALSE, sizeof(pid_t));

    self->polls = FALSE;
    for (guint i = 0; i < channels->len; i++) {
        const struct channel *channel = channels->pdata[i];
        pid_t pid = (pid_t)channel->pid;
        if (pid > 0)
            g_array_append_val(pids, pid);
        self->polls |= pid <= 0 || !channel->answered;
    }
    if (self->watch && !device_watch_processes(self->watch, pids))
        self->polls = TRUE;
    g_array_unref(pids);
}

static void follow_channels(GstGpudirectDeviceProvider *self)
{
    GPtrArray *channels = channels_ask(NULL, ANSWER_TIMEOUT, NULL);

    watch_senders(self, channels);
    follow(self, self->channels, devices_of_channels(channels, self->channels));
    follow(self, self->targets, find_targets());
    g_ptr_array_unref(channels);
}

static gpointer run(gpointer data)
{
    GstGpudirectDeviceProvider *self = data;
    GPtrArray *gone = g_ptr_array_new_with_free_func(g_free);

    while (!g_atomic_int_get(&self->stopping)) {
        guint changes = device_watch_wait(self->watch, self->polls ? PERIOD : -1, gone);
        if (changes & DEVICE_CHANGE_CARDS)
            follow_cards(self, gone);
        if (changes & DEVICE_CHANGE_CHANNELS || (self->polls && !changes))
            follow_channels(self);
        g_ptr_array_set_size(gone, 0);
    }
    g_ptr_array_unref(gone);
    return NULL;
}

static GHashTable *known_new(void)
{
    return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, gst_object_unref);
}

static gboolean start(GstDeviceProvider *provider)
{
    GstGpudirectDeviceProvider *self = GST_GPUDIRECT_DEVICE_PROVIDER(provider);
    gchar *directory;

    self->cards = known_new();
    self->channels = known_new();
    self->targets = known_new();
    g_ptr_array_unref(channels_ask(NULL, 0, &directory));
    /* The watch comes first, so that changes during the listing are events. */
    self->watch = device_watch_new(directory, TRUE);
    g_free(directory);
    follow(self, self->cards, find_cards());
    follow_channels(self);
    g_atomic_int_set(&self->stopping, FALSE);
    if (self->watch)
        self->thread = g_thread_new("gpudirect-devices", run, self);
    return TRUE;
}

static void stop(GstDeviceProvider *provider)
{
    GstGpudirectDeviceProvider *self = GST_GPUDIRECT_DEVICE_PROVIDER(provider);

    if (self->watch) {
        g_atomic_int_set(&self->stopping, TRUE);
        device_watch_wake(self->watch);
        g_thread_join(g_steal_pointer(&self->thread));
        device_watch_free(g_steal_pointer(&self->watch));
    }
    g_clear_pointer(&self->cards, g_hash_table_unref);
    g_clear_pointer(&self->channels, g_hash_table_unref);
    g_clear_pointer(&self->targets, g_hash_table_unref);
}

static void gst_gpudirect_device_provider_class_init(GstGpudirectDeviceProviderClass *klass)
{
    GstDeviceProviderClass *provider_class = GST_DEVICE_PROVIDER_CLASS(klass);

    provider_class->probe = probe;
    provider_class->start = start;
    provider_class->stop = stop;
    gst_device_provider_class_set_static_metadata(
        provider_class, "GPU-direct device provider", "Source/Audio/Video/Data",
        "Lists capture cards, the channels of running senders, and targets", "gpudirect authors");
}

static guint rank_of(const gchar *name)
{
    GstPluginFeature *feature = gst_registry_lookup_feature(gst_registry_get(), name);
    guint rank = feature ? gst_plugin_feature_get_rank(feature) : GST_RANK_NONE;

    gst_clear_object(&feature);
    return rank;
}

/* If the user ranks this provider above that of v4l2src, each card is listed once. */
static void gst_gpudirect_device_provider_init(GstGpudirectDeviceProvider *self)
{
    if (rank_of("gpudirectdeviceprovider") > rank_of("v4l2deviceprovider"))
        gst_device_provider_hide_provider(GST_DEVICE_PROVIDER(self), "v4l2deviceprovider");
}
