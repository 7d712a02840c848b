/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/**
 * SECTION:element-gpudirectsink
 * @title: gpudirectsink
 * @short_description: Sends raw video, sound or data straight into another process's, or another
 * device's, memory
 * @see_also: gpudirectsrc
 *
 * gpudirectsink listens on an address; any number of gpudirectsrc elements (or applications that
 * use the gpudirect library) connect to it, in either start order, and may reconnect. Each gets the
 * frames by the best route that both ends support: the property #gpudirectsink:active-path names
 * it, and #gpudirectsink:fallback-reason says why it is no better one.
 *
 * A live pipeline never stalls: if upstream is live (by its answer to a LATENCY query), frames are
 * dropped while no receiver is connected, and a receiver that is slow or stopped loses the oldest
 * frames that it has not taken. With other upstreams the sink waits for the first receiver, and for
 * slow ones. #gpudirectsink:wait-for-connection and #gpudirectsink:slow-receiver override this, and
 * #gpudirectsink:stats says what is in effect.
 *
 * The buffer pool that the sink proposes lends the slots of its ring: pictures that upstream writes
 * into them are sent without a copy. Any other buffer costs one copy. The property
 * #gpudirectsink:stats counts both.
 *
 * CUDA memory is sent in place: GStreamer's CUDA elements (cudaupload, nvh264dec…) write into the
 * slots themselves, in the GPU's primary context, which the sink shares with them. Elements with
 * their own context, or memory of another GPU, cost one copy by the GPU. With device=auto the ring
 * follows the memory of the caps.
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
 * |[
 * gst-launch-1.0 audiotestsrc is-live=true ! gpudirectsink address=radio
 * ]|
 * Sends sound alone. The sound of a channel of pictures is a stream of its own: cam1/audio.
 * |[
 * gst-launch-1.0 videotestsrc is-live=true ! gpudirectsink address=cam1 standby=true
 * ]|
 * Waits while another sender has the address cam1, and takes it over when that one ends.
 *
 * Since: 0.1
 */
#include "sink/device.h"
#include "sink/events.h"
#include "sink/open.h"
#include "sink/policy.h"
#include "sink/render.h"
#include "sink/report.h"
#include "sink/stats.h"
#include "base/uri.h"

#define GST_CAT_DEFAULT gst_gpudirect_sink_debug

G_DEFINE_TYPE_WITH_CODE(GstGpudirectSink, gst_gpudirect_sink, GST_TYPE_BASE_SINK,
                        GST_DEBUG_CATEGORY_INIT(gst_gpudirect_sink_debug, "gpudirectsink", 0,
                                                "gpudirect sink");
                        G_IMPLEMENT_INTERFACE(GST_TYPE_URI_HANDLER, uri_handler_init_sink))
GST_ELEMENT_REGISTER_DEFINE(gpudirectsink, "gpudirectsink", GST_RANK_NONE, GST_TYPE_GPUDIRECT_SINK)

enum {
    PROP_WAIT_FOR_CONNECTION = SETTING_COUNT,
    PROP_NUM_CLIENTS,
    PROP_STANDBY,
};

/* --- properties --------------------------------------------------------------------------- */

static gboolean get_report(GstElement *element, guint id, GValue *value)
{
    if (id != PROP_NUM_CLIENTS)
        return FALSE;
    g_value_set_uint(value, sink_clients_count(&GST_GPUDIRECT_SINK(element)->clients));
    return TRUE;
}

static gboolean get_property(GstElement *element, guint id, GValue *value)
{
    const GstGpudirectSink *self = GST_GPUDIRECT_SINK(element);

    switch (id) {
    case PROP_WAIT_FOR_CONNECTION:
        g_value_set_enum(value, (gint)self->wait_for_connection);
        return TRUE;
    case PROP_STANDBY:
        g_value_set_boolean(value, self->standby.wanted);
        return TRUE;
    default:
        return FALSE;
    }
}

static gboolean set_property(GstElement *element, guint id, const GValue *value)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(element);

    switch (id) {
    case PROP_WAIT_FOR_CONNECTION:
        self->wait_for_connection = (enum wait_for_connection)g_value_get_enum(value);
        return TRUE;
    case PROP_STANDBY:
        self->standby.wanted = g_value_get_boolean(value);
        return TRUE;
    default:
        return FALSE;
    }
}

static void property_changed(GstElement *element, guint id)
{
    if (id == SETTING_SLOW_RECEIVER)
        gst_gpudirect_sink_apply_policy(GST_GPUDIRECT_SINK(element));
}

static const struct endpoint_ops endpoint_ops = {
    .get_report = get_report,
    .get_property = get_property,
    .set_property = set_property,
    .changed = property_changed,
    .get_route = gst_gpudirect_sink_get_route,
    .make_stats = gst_gpudirect_sink_make_stats,
};

/* --- states ------------------------------------------------------------------------------- */

/* FALSE: an error was posted. */
static gboolean check_address(GstGpudirectSink *self)
{
    const gchar *address = self->endpoint.running.address ? self->endpoint.running.address : "";
    gboolean is_card = g_str_has_prefix(address, "v4l2:");
    gboolean is_target = g_str_has_prefix(address, "target:");
    gboolean good = address[0] && !is_card && !is_target;

    if (is_target)
        GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND,
                          ("\"%s\" is a ring for a third-party writer: that is an address for "
                           "gpudirectsrc. Set this one to a name such as cam1.",
                           address),
                          (NULL));
    else if (is_card)
        GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND,
                          ("\"%s\" is a capture card, a source of frames: that is an address for "
                           "gpudirectsrc. Set this one to a name such as cam1.",
                           address),
                          (NULL));
    else if (!good)
        GST_ELEMENT_ERROR(
            self, RESOURCE, NOT_FOUND,
            ("No address to send on: set the property address, to a name such as cam1."), (NULL));
    return good;
}

static gboolean open_by_settings(GstGpudirectSink *self)
{
    if (!settings_check(GST_ELEMENT(self), &self->endpoint.running) || !check_address(self))
        return FALSE;
    g_atomic_int_set(&self->unlocked, FALSE);
    g_atomic_int_set(&self->live, -1);
    g_atomic_int_set(&self->ending, FALSE);
    self->end = (struct sink_end){0};
    sink_clients_let_post(&self->clients, TRUE);
    __atomic_store_n(&self->standby.dropped, 0, __ATOMIC_RELAXED);
    gint number;
    gchar *device = device_choice_choose(&self->endpoint.device, &number, NULL);
    gboolean opened = gst_gpudirect_sink_open_sender(self, device);
    g_free(device);
    return opened;
}

static gboolean sink_start(GstBaseSink *base)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);

    endpoint_start(&self->endpoint);
    gboolean opened = open_by_settings(self);
    if (opened)
        endpoint_note_stats(&self->endpoint);
    else
        endpoint_stop(&self->endpoint);
    return opened;
}

static gboolean sink_stop(GstBaseSink *base)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);

    gst_gpudirect_sink_report_rest(self);
    endpoint_post_stats(&self->endpoint);
    gst_gpudirect_sink_drop_unsent(self);
    gst_gpudirect_sink_reset_stream(self);
    gst_gpudirect_sink_close_sender(self);
    sink_clients_clear(&self->clients);
    sink_clients_let_post(&self->clients, FALSE);
    endpoint_stop(&self->endpoint);
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
    /* Every element upstream knows now whether it is live. */
    if (transition == GST_STATE_CHANGE_PAUSED_TO_PLAYING)
        gst_gpudirect_sink_query_live(GST_GPUDIRECT_SINK(element));
    return GST_ELEMENT_CLASS(gst_gpudirect_sink_parent_class)->change_state(element, transition);
}

/* An application's EOS is sent to elements flagged as sources. This sink has the flag to learn of
 * it early: the EOS event itself arrives behind the buffer that may be waiting here. */
static gboolean sink_send_event(GstElement *element, GstEvent *event)
{
    if (GST_EVENT_TYPE(event) == GST_EVENT_EOS)
        gst_gpudirect_sink_set_ending(GST_GPUDIRECT_SINK(element), TRUE);
    return GST_ELEMENT_CLASS(gst_gpudirect_sink_parent_class)->send_event(element, event);
}

/* --- class -------------------------------------------------------------------------------- */

static void install_properties(GstElementClass *element_class)
{
    static const struct setting_texts texts = {
        .pad = "sink",
        .direction = GST_PAD_SINK,
        .address =
            "Where receivers connect: a name (cam1: a socket in the user's runtime directory), "
            "unix:/absolute/path, or, from other hosts, rdma://address:port",
        .device = "Where the ring and the copies live: auto (the host, or the GPU of the incoming "
                  "CUDA memory), host, opencl:N, cuda:N, hip:N or vulkan:N",
        .slots = "Frames in flight per receiver (unless set, sound and data have up to 60)",
        .slow_receiver = "What happens to a frame for a receiver whose ring is full (auto: a live "
                         "upstream drops the oldest, so that nothing stalls; others block, so "
                         "that nothing is lost)",
        .slow_receiver_when = (GParamFlags)GST_PARAM_MUTABLE_PLAYING,
        .require_direct = "Refuse a receiver that only a copy through host memory can reach",
        .access = "Users that may receive, besides root: user (this user only), group:NAME (and "
                  "that group's members) or all; the latter two with address=unix:/path in a "
                  "folder that the others can enter",
        .psk_file = "Between hosts: a file with the key that both ends have, readable by its owner "
                    "only (16 to 1024 bytes)",
        .allow_unauthenticated = "Between hosts: any host that reaches the address may receive, "
                                 "without a psk-file",
        .active_path = "The route to the receiver that connected last, or none",
        .stats = "Frames, drops by reason, copies, waits, the clock's name, and what every sink "
                 "counts",
    };

    GObjectClass *klass = G_OBJECT_CLASS(element_class);

    endpoint_class_init(element_class, &texts);
    g_object_class_install_property(
        klass, PROP_WAIT_FOR_CONNECTION,
        g_param_spec_enum("wait-for-connection", "Wait for connection",
                          "Block the stream while no receiver is connected (auto: unless upstream "
                          "is live)",
                          GST_TYPE_GPUDIRECT_WAIT_FOR_CONNECTION, WAIT_AUTO,
                          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING));
    g_object_class_install_property(
        klass, PROP_STANDBY,
        g_param_spec_boolean("standby", "Standby",
                             "While another sender has the address, drop frames instead of "
                             "failing, and take the address over when that sender ends",
                             FALSE,
                             G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY));
    g_object_class_install_property(
        klass, PROP_NUM_CLIENTS,
        g_param_spec_uint("num-clients", "Number of clients", "Receivers that are connected", 0,
                          G_MAXUINT, 0, G_PARAM_READABLE | G_PARAM_STATIC_STRINGS));
}

static void finalize(GObject *object)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(object);

    sink_clients_finish(&self->clients);
    endpoint_clear(&self->endpoint);
    g_ptr_array_unref(self->sticky_names);
    g_free(self->large_metas.data);
    G_OBJECT_CLASS(gst_gpudirect_sink_parent_class)->finalize(object);
}

static void gst_gpudirect_sink_class_init(GstGpudirectSinkClass *klass)
{
    GObjectClass *object_class = G_OBJECT_CLASS(klass);
    GstElementClass *element_class = GST_ELEMENT_CLASS(klass);
    GstBaseSinkClass *base_class = GST_BASE_SINK_CLASS(klass);

    object_class->finalize = finalize;
    install_properties(element_class);
    sink_clients_install_signals(object_class);

    element_class->change_state = sink_change_state;
    element_class->send_event = sink_send_event;
    gst_element_class_set_static_metadata(
        element_class, "GPU-direct sink", "Sink/Video/Hardware",
        "Sends raw video, sound or data straight into other processes' or devices' memory",
        "gpudirect authors");

    base_class->start = sink_start;
    base_class->stop = sink_stop;
    base_class->unlock = sink_unlock;
    base_class->unlock_stop = sink_unlock_stop;
    gst_gpudirect_sink_class_init_device(base_class);
    gst_gpudirect_sink_class_init_render(base_class);
    gst_gpudirect_sink_class_init_events(base_class);

    gst_type_mark_as_plugin_api(GST_TYPE_GPUDIRECT_WAIT_FOR_CONNECTION, 0);
}

static void gst_gpudirect_sink_init(GstGpudirectSink *self)
{
    endpoint_init(&self->endpoint, GST_ELEMENT(self), GST_BASE_SINK_PAD(self),
                  gst_gpudirect_sink_debug, &endpoint_ops);
    gst_gpudirect_sink_init_device(self);
    sink_clients_init(&self->clients, GST_ELEMENT(self));
    self->wait_for_connection = WAIT_AUTO;
    GST_OBJECT_FLAG_SET(self, GST_ELEMENT_FLAG_SOURCE); /* see sink_send_event() */
    self->live = -1;
    g_queue_init(&self->unsent);
    self->sticky_names = g_ptr_array_new_with_free_func(g_free);
    /* The last sample would hold a slot permanently. */
    gst_base_sink_set_last_sample_enabled(GST_BASE_SINK(self), FALSE);
}
