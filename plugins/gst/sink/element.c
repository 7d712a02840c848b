/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/**
 * SECTION:element-gpudirectsink
 * @title: gpudirectsink
 * @short_description: Sends raw video straight into another process's, or another device's, memory
 * @see_also: gpudirectsrc
 *
 * gpudirectsink listens on an address; any number of gpudirectsrc elements (or applications that
 * use the gpudirect library) connect to it, in either start order, and connect again after they
 * went away. Each gets the frames by the best route that both ends can take: the property
 * #gpudirectsink:active-path names it, and #gpudirectsink:fallback-reason says why it is no better
 * one.
 *
 * What is live is never held up: where upstream says so in its answer to a LATENCY query, frames go
 * by while nobody is connected, and a receiver that does not keep up, or is stopped, loses the
 * oldest ones that it has not taken. Files and tests wait for the first receiver, and for the slow
 * one. #gpudirectsink:wait-for-connection and #gpudirectsink:slow-receiver overrule either, and
 * #gpudirectsink:stats says what is in effect.
 *
 * The buffer pool that the sink proposes lends the slots of its ring: what upstream writes into
 * them is sent without a copy. A buffer from elsewhere costs one copy. The property
 * #gpudirectsink:stats counts both.
 *
 * Pictures in CUDA memory are sent from where they lie: GStreamer's CUDA elements (cudaupload,
 * nvh264dec…) write into the slots themselves, in the GPU's primary context, which the sink shares
 * with them. Elements with a context of their own, or memory of another GPU, cost one copy by the
 * GPU. With device=auto the ring follows the memory that comes.
 *
 * ## Example launch lines
 * |[
 * gst-launch-1.0 videotestsrc is-live=true ! video/x-raw,width=1920,height=1080 ! gpudirectsink
 * address=cam1
 * ]|
 * Sends a test picture on the address cam1.
 * |[
 * gst-launch-1.0 gpudirectsrc address=cam1 ! videoconvert ! autovideosink
 * ]|
 * Shows it.
 * |[
 * gst-launch-1.0 filesrc location=a.mp4 ! qtdemux ! h264parse ! nvh264dec ! gpudirectsink
 * address=cam1
 * ]|
 * Decodes into the memory that receivers on the same GPU read.
 *
 * Since: 0.1
 */
#include "context.h"
#include "endstats.h"
#include "errors.h"
#include "sink/sink.h"
#include "uri.h"

#define GST_CAT_DEFAULT gst_gpudirect_sink_debug

GST_DEBUG_CATEGORY(gst_gpudirect_sink_debug);

G_DEFINE_TYPE_WITH_CODE(GstGpudirectSink, gst_gpudirect_sink, GST_TYPE_BASE_SINK,
                        GST_DEBUG_CATEGORY_INIT(gst_gpudirect_sink_debug, "gpudirectsink", 0,
                                                "gpudirect sink");
                        G_IMPLEMENT_INTERFACE(GST_TYPE_URI_HANDLER, uri_handler_init_sink))
GST_ELEMENT_REGISTER_DEFINE(gpudirectsink, "gpudirectsink", GST_RANK_NONE, GST_TYPE_GPUDIRECT_SINK)

enum {
    PROP_WAIT_FOR_CONNECTION = SETTING_COUNT,
    PROP_NUM_CLIENTS,
    PROP_ACTIVE_PATH,
    PROP_FALLBACK_REASON,
    PROP_STATS,
};

/* --- properties --------------------------------------------------------------------------- */

struct shared_sender *gst_gpudirect_sink_ref_sender(GstGpudirectSink *self)
{
    GST_OBJECT_LOCK(self);
    struct shared_sender *sender = self->sender ? shared_sender_ref(self->sender) : NULL;
    GST_OBJECT_UNLOCK(self);
    return sender;
}

static void get_property(GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(object);
    struct gpud_sender_info info = GPUD_INFO_INIT(info);

    if (id == PROP_ACTIVE_PATH || id == PROP_FALLBACK_REASON)
        gst_gpudirect_sink_get_info(self, &info);
    switch (id) {
    case PROP_NUM_CLIENTS:
        g_value_set_uint(value, (guint)MAX(0, g_atomic_int_get(&self->num_clients)));
        return;
    case PROP_ACTIVE_PATH:
        g_value_set_string(value, info.path);
        return;
    case PROP_FALLBACK_REASON:
        g_value_set_string(value, info.fallback_reason);
        return;
    case PROP_STATS:
        g_value_take_boxed(value, gst_gpudirect_sink_make_stats(self));
        return;
    }
    GST_OBJECT_LOCK(self);
    if (id == PROP_WAIT_FOR_CONNECTION)
        g_value_set_enum(value, (gint)self->wait_for_connection);
    else if (!settings_get(&self->settings, id, value))
        G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
    GST_OBJECT_UNLOCK(self);
}

static void set_property(GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(object);

    GST_OBJECT_LOCK(self);
    gboolean may = settings_may_set(pspec, self->started);
    if (may && id == PROP_WAIT_FOR_CONNECTION)
        self->wait_for_connection = (enum wait_for_connection)g_value_get_enum(value);
    else if (may && !settings_set(&self->settings, id, value))
        G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
    GST_OBJECT_UNLOCK(self);
    if (!may)
        settings_refuse(GST_ELEMENT(self), pspec);
    else if (id == SETTING_SLOW_RECEIVER)
        gst_gpudirect_sink_apply_policy(self);
}

/* --- states ------------------------------------------------------------------------------- */

static gboolean device_is_host(const gchar *device)
{
    return g_str_equal(device, "host");
}

static enum gpud_status create_sender(GstGpudirectSink *self, const gchar *device,
                                      struct gpud_sender **core, struct gpud_error *error)
{
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    struct gpud_context *context = gpud_gst_context_get(error);

    params.address = self->running.address;
    params.device = device;
    params.slots = self->running.slots;
    params.slow_receiver = gst_gpudirect_sink_policy(self);
    params.require_direct = self->running.require_direct;
    params.access = self->running.access;
    params.psk_file = self->running.psk_file;
    params.allow_unauthenticated = self->running.allow_unauthenticated;
    params.on_connect = gst_gpudirect_sink_on_connect;
    params.on_disconnect = gst_gpudirect_sink_on_disconnect;
    params.user = self;
    enum gpud_status status =
        context ? gpud_device_open(context, "host", &self->host, error) : error->status;
    if (status == GPUD_OK)
        status = gpud_device_open(context, device, &self->ring_device, error);
    return status == GPUD_OK ? gpud_sender_create(context, &params, core, error) : status;
}

gboolean gst_gpudirect_sink_open_sender(GstGpudirectSink *self, const gchar *device)
{
    struct gpud_sender *core;
    struct gpud_error error;

    if (create_sender(self, device, &core, &error) != GPUD_OK) {
        gchar *what = g_strdup_printf("Cannot send on the address \"%s\"", self->running.address);
        gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_OPEN_SINK, &error, what);
        g_free(what);
        gpud_device_close(&self->ring_device);
        gpud_device_close(&self->host);
        return FALSE;
    }
    struct shared_sender *sender =
        shared_sender_new(core, self->running.slots, device_is_host(device));
    shared_sender_set_slow_receiver(sender, gst_gpudirect_sink_policy(self));
    g_atomic_int_set(&self->opened_on, gpu_of_name(device));
    self->reads_buffers = g_str_has_prefix(device, "opencl:");
    g_ptr_array_set_size(self->sticky_names, 0);
    self->broken_off = FALSE;
    self->refusals_seen = 0;
    GST_OBJECT_LOCK(self);
    self->sender = sender;
    GST_OBJECT_UNLOCK(self);
    /* unlock() may have met no sender, or the one before. */
    if (g_atomic_int_get(&self->unlocked))
        shared_sender_interrupt(sender, TRUE);
    return TRUE;
}

void gst_gpudirect_sink_close_sender(GstGpudirectSink *self)
{
    GST_OBJECT_LOCK(self);
    struct shared_sender *sender = g_steal_pointer(&self->sender);
    GST_OBJECT_UNLOCK(self);
    if (sender)
        shared_sender_close(sender);
    shared_sender_unref(sender);
    g_atomic_int_set(&self->opened_on, -1);
    gpud_device_close(&self->ring_device);
    gpud_device_close(&self->host);
}

/* FALSE: an error was posted. */
static gboolean check_address(GstGpudirectSink *self)
{
    const gchar *address = self->running.address ? self->running.address : "";
    gboolean is_card = g_str_has_prefix(address, "v4l2:");
    gboolean is_target = g_str_has_prefix(address, "target:");
    gboolean good = address[0] && !is_card && !is_target;

    if (is_target)
        GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND,
                          ("\"%s\" is a ring that somebody outside writes: that is an address for "
                           "gpudirectsrc. Set this one to a name such as cam1.",
                           address),
                          (NULL));
    else if (is_card)
        GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND,
                          ("\"%s\" is a capture card, which frames come from: that is an address "
                           "for gpudirectsrc. Set this one to a name such as cam1.",
                           address),
                          (NULL));
    else if (!good)
        GST_ELEMENT_ERROR(
            self, RESOURCE, NOT_FOUND,
            ("No address to send on: set the property address, to a name such as cam1."), (NULL));
    return good;
}

/* From here on only those properties change that may do so while the element runs. */
static void set_started(GstGpudirectSink *self, gboolean started)
{
    GST_OBJECT_LOCK(self);
    self->started = started;
    if (started)
        settings_copy(&self->running, &self->settings);
    GST_OBJECT_UNLOCK(self);
}

static gboolean open_by_settings(GstGpudirectSink *self)
{
    if (!settings_check(GST_ELEMENT(self), &self->running) || !check_address(self))
        return FALSE;
    g_atomic_int_set(&self->unlocked, FALSE);
    g_atomic_int_set(&self->live, -1);
    g_atomic_int_set(&self->ending, FALSE);
    gst_gpudirect_sink_let_post(self, TRUE);
    gchar *device = gst_gpudirect_sink_choose_device(self);
    gboolean opened = gst_gpudirect_sink_open_sender(self, device);
    g_free(device);
    return opened;
}

static gboolean sink_start(GstBaseSink *base)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);

    set_started(self, TRUE);
    gboolean opened = open_by_settings(self);
    if (opened)
        end_stats_note(&self->stats_due);
    else
        set_started(self, FALSE);
    return opened;
}

static gboolean sink_stop(GstBaseSink *base)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);

    gst_gpudirect_sink_post_stats(GST_ELEMENT(self));
    gst_gpudirect_sink_reset_stream(self);
    gst_gpudirect_sink_close_sender(self);
    gst_gpudirect_sink_clear_clients(self);
    gst_gpudirect_sink_let_post(self, FALSE);
    set_started(self, FALSE);
    return TRUE;
}

static gboolean sink_unlock(GstBaseSink *base)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);

    g_atomic_int_set(&self->unlocked, TRUE);
    struct shared_sender *sender = gst_gpudirect_sink_ref_sender(self);
    if (sender)
        shared_sender_interrupt(sender, TRUE);
    shared_sender_unref(sender);
    return TRUE;
}

static gboolean sink_unlock_stop(GstBaseSink *base)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);

    g_atomic_int_set(&self->unlocked, FALSE);
    struct shared_sender *sender = gst_gpudirect_sink_ref_sender(self);
    if (sender)
        shared_sender_interrupt(sender, FALSE);
    shared_sender_unref(sender);
    return TRUE;
}

static GstStateChangeReturn sink_change_state(GstElement *element, GstStateChange transition)
{
    /* By now every element upstream knows whether it is live. */
    if (transition == GST_STATE_CHANGE_PAUSED_TO_PLAYING)
        gst_gpudirect_sink_query_live(GST_GPUDIRECT_SINK(element));
    return GST_ELEMENT_CLASS(gst_gpudirect_sink_parent_class)->change_state(element, transition);
}

/* An application's EOS goes to the elements that are flagged as sources, so this one is flagged,
 * too: the EOS event itself comes behind the buffer that may be waiting here. */
static gboolean sink_send_event(GstElement *element, GstEvent *event)
{
    if (GST_EVENT_TYPE(event) == GST_EVENT_EOS)
        gst_gpudirect_sink_set_ending(GST_GPUDIRECT_SINK(element), TRUE);
    return GST_ELEMENT_CLASS(gst_gpudirect_sink_parent_class)->send_event(element, event);
}

/* --- class -------------------------------------------------------------------------------- */

static void install_properties(GObjectClass *klass)
{
    static const struct setting_texts texts = {
        .address =
            "Where receivers connect: a name (cam1: a socket in the user's runtime directory), "
            "unix:/absolute/path, or, from other hosts, rdma://address:port",
        .device = "Where the ring and the copies live: auto (the host, or the GPU whose CUDA "
                  "memory comes), host, opencl:N, cuda:N or hip:N",
        .slots = "Frames in flight per receiver",
        .slow_receiver = "What happens to a frame for a receiver whose ring is full (auto: a live "
                         "upstream drops the oldest, so that nothing stalls; another one blocks, "
                         "so that nothing is lost)",
        .slow_receiver_when = (GParamFlags)GST_PARAM_MUTABLE_PLAYING,
        .require_direct = "Refuse a receiver that only a copy through host memory can reach",
        .access = "Who may receive, besides root: user (this user alone), group:NAME (and those in "
                  "that group) or all; the latter two with address=unix:/path in a folder that "
                  "the others can enter",
        .psk_file = "Between hosts: a file with the key that both ends have, which nobody else can "
                    "read (16 to 1024 bytes)",
        .allow_unauthenticated = "Between hosts: whoever reaches the address may receive, without "
                                 "a psk-file",
    };
    const GParamFlags report = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

    settings_install(klass, &texts);
    g_object_class_install_property(
        klass, PROP_WAIT_FOR_CONNECTION,
        g_param_spec_enum("wait-for-connection", "Wait for connection",
                          "Block the stream while no receiver is connected (auto: unless upstream "
                          "is live)",
                          GST_TYPE_GPUDIRECT_WAIT_FOR_CONNECTION, WAIT_AUTO,
                          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING));
    g_object_class_install_property(klass, PROP_NUM_CLIENTS,
                                    g_param_spec_uint("num-clients", "Number of clients",
                                                      "Receivers that are connected", 0, G_MAXUINT,
                                                      0, report));
    g_object_class_install_property(
        klass, PROP_ACTIVE_PATH,
        g_param_spec_string("active-path", "Active path",
                            "The route to the receiver that connected last, or none", "none",
                            report));
    g_object_class_install_property(
        klass, PROP_FALLBACK_REASON,
        g_param_spec_string("fallback-reason", "Fallback reason",
                            "Why the active path is no better one; empty where there is none", "",
                            report));
    g_object_class_install_property(
        klass, PROP_STATS,
        g_param_spec_boxed(
            "stats", "Statistics",
            "Frames, drops by reason, copies, waits, the clock's name, and what every sink counts",
            GST_TYPE_STRUCTURE, report));
}

/**
 * GstGpudirectSink::client-connected:
 * @id: counts the connections from 1
 * @peer: id, pid, host, name, path and fallback-reason
 *
 * A receiver is connected and streams. Emitted from a thread that may call anything. */
static void install_signals(GObjectClass *klass)
{
    static const gchar *const names[SIGNAL_COUNT] = {
        [SIGNAL_CLIENT_CONNECTED] = "client-connected",
        [SIGNAL_CLIENT_DISCONNECTED] = "client-disconnected",
    };

    for (guint i = 0; i < SIGNAL_COUNT; i++)
        gst_gpudirect_sink_signals[i] = g_signal_new(
            names[i], G_OBJECT_CLASS_TYPE(klass), G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
            G_TYPE_NONE, 2, G_TYPE_UINT64, GST_TYPE_STRUCTURE | G_SIGNAL_TYPE_STATIC_SCOPE);
}

static void finalize(GObject *object)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(object);

    gst_gpudirect_sink_clear_clients(self);
    g_mutex_clear(&self->clients_lock);
    g_mutex_clear(&self->post_lock);
    gpu_contexts_clear(&self->contexts);
    counters_unref(self->counters);
    lost_metas_free(self->lost_metas);
    g_ptr_array_unref(self->sticky_names);
    settings_clear(&self->settings);
    settings_clear(&self->running);
    g_free(self->device_reason);
    G_OBJECT_CLASS(gst_gpudirect_sink_parent_class)->finalize(object);
}

static void gst_gpudirect_sink_class_init(GstGpudirectSinkClass *klass)
{
    GObjectClass *object_class = G_OBJECT_CLASS(klass);
    GstElementClass *element_class = GST_ELEMENT_CLASS(klass);
    GstBaseSinkClass *base_class = GST_BASE_SINK_CLASS(klass);

    object_class->set_property = set_property;
    object_class->get_property = get_property;
    object_class->finalize = finalize;
    install_properties(object_class);
    install_signals(object_class);

    element_class->change_state = sink_change_state;
    element_class->send_event = sink_send_event;
    gst_element_class_set_static_metadata(
        element_class, "GPU-direct sink", "Sink/Video/Hardware",
        "Sends raw video straight into other processes' or devices' memory", "gpudirect authors");

    base_class->start = sink_start;
    base_class->stop = sink_stop;
    base_class->unlock = sink_unlock;
    base_class->unlock_stop = sink_unlock_stop;
    gst_gpudirect_sink_class_init_device(base_class);
    gst_gpudirect_sink_class_init_render(base_class);
    gst_gpudirect_sink_class_init_events(base_class);
    gst_gpudirect_sink_class_init_stats(element_class);

    gst_type_mark_as_plugin_api(GST_TYPE_GPUDIRECT_WAIT_FOR_CONNECTION, 0);
}

static void gst_gpudirect_sink_init(GstGpudirectSink *self)
{
    settings_init(&self->settings);
    self->wait_for_connection = WAIT_AUTO;
    GST_OBJECT_FLAG_SET(self, GST_ELEMENT_FLAG_SOURCE); /* see sink_send_event() */
    self->opened_on = self->live = -1;
    self->counters = counters_new();
    self->lost_metas = lost_metas_new(gst_gpudirect_sink_debug);
    self->sticky_names = g_ptr_array_new_with_free_func(g_free);
    g_mutex_init(&self->clients_lock);
    g_mutex_init(&self->post_lock);
    g_queue_init(&self->client_events);
    /* The last sample would keep a slot for good. */
    gst_base_sink_set_last_sample_enabled(GST_BASE_SINK(self), FALSE);
}
