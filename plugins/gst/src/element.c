/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/**
 * SECTION:element-gpudirectsrc
 * @title: gpudirectsrc
 * @short_description: Receives raw video straight in this process's, or a device's, memory
 * @see_also: gpudirectsink
 *
 * gpudirectsrc connects to the address on which a gpudirectsink sends. It waits for a sender, and
 * reconnects when a sender was lost. Buffers are the slots of the ring: no frame is copied or
 * allocated. If both pipelines follow one clock, on one host or on two, pictures keep their times.
 *
 * On a CUDA device buffers are CUDA memory, if downstream accepts it, which GStreamer's CUDA
 * elements use in place; the GPU itself waits for the picture, without a waiting thread.
 *
 * With an address that begins with v4l2:// the frames come from a capture card instead. Players
 * take both as URIs: gpudirect://cam1?slots=8 and gpudirect+v4l2:///dev/video0. With target:cam1
 * the element makes a ring for the caps downstream, which a third-party writer fills, such as an
 * SDI card.
 *
 * ## Example launch lines
 * |[
 * gst-launch-1.0 gpudirectsrc address=cam1 ! videoconvert ! autovideosink
 * ]|
 * Shows what is sent on the address cam1.
 * |[
 * gst-launch-1.0 gpudirectsrc address=v4l2:///dev/video0 ! videoconvert ! autovideosink
 * ]|
 * Shows what a capture card delivers.
 * |[
 * gst-launch-1.0 -m gpudirectsrc address=cam1 on-disconnect=eos ! fakesink
 * ]|
 * Ends when the sender vanishes.
 * |[
 * gst-launch-1.0 gpudirectsrc address=cam1 on-disconnect=freeze on-eos=wait ! x264enc ! …
 * ]|
 * Never stops: if the sender vanishes or stalls, its last picture is repeated. The property
 * `signal` and messages named gpudirect-signal report that.
 * |[
 * gst-launch-1.0 gpudirectsrc address=cam1 on-eos=wait ! videoconvert ! autovideosink
 * ]|
 * Continues with the next sender after each EOS.
 * |[
 * gst-launch-1.0 gpudirectsrc address=cam1 ! nvh264enc ! h264parse ! matroskamux ! filesink
 * location=a.mkv
 * ]|
 * Encodes what a process on the same GPU sends, without a copy.
 * |[
 * gst-launch-1.0 gpudirectsrc address=cam1 backup-address=cam1b ! videoconvert ! autovideosink
 * ]|
 * Receives a main and a backup sender, and shows each picture once: the end of either costs none.
 * |[
 * gst-launch-1.0 compositor name=mix ! videoconvert ! autovideosink gpudirectsrc address=left
 * group=stereo ! queue ! mix. gpudirectsrc address=right group=stereo ! queue ! mix.
 * ]|
 * Shows two cameras, always at the same instant.
 *
 * Since: 0.1
 */
#include "src/create.h"
#include "src/format.h"
#include "src/open.h"
#include "src/src.h"
#include "src/stats.h"
#include "base/uri.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

G_DEFINE_TYPE_WITH_CODE(GstGpudirectSrc, gst_gpudirect_src, GST_TYPE_PUSH_SRC,
                        GST_DEBUG_CATEGORY_INIT(gst_gpudirect_src_debug, "gpudirectsrc", 0,
                                                "gpudirect source");
                        G_IMPLEMENT_INTERFACE(GST_TYPE_URI_HANDLER, uri_handler_init_source))
GST_ELEMENT_REGISTER_DEFINE(gpudirectsrc, "gpudirectsrc", GST_RANK_NONE, GST_TYPE_GPUDIRECT_SRC)

enum {
    PROP_INPUT = OPTION_COUNT,
    PROP_EXTRA_CONTROLS,
    PROP_SIGNAL = ENDPOINT_REPORT,
};

/* --- signals ------------------------------------------------------------------------------ */

/**
 * GstGpudirectSrc::switch:
 *
 * An action: the other one of the two senders is preferred from now on. */
static void switch_preferred(GstGpudirectSrc *self)
{
    g_atomic_int_xor((guint *)&self->options.preferred, PREFERRED_MAIN ^ PREFERRED_BACKUP);
    g_object_notify(G_OBJECT(self), "preferred");
}

static void install_signals(GObjectClass *klass)
{
    g_signal_new_class_handler("switch", G_OBJECT_CLASS_TYPE(klass),
                               G_SIGNAL_RUN_LAST | G_SIGNAL_ACTION, G_CALLBACK(switch_preferred),
                               NULL, NULL, NULL, G_TYPE_NONE, 0);
}

/* --- properties --------------------------------------------------------------------------- */

/* Returns the card's own name for its input, if it has one. */
static void get_input(GstGpudirectSrc *self, GValue *value)
{
    struct input_info info;

    feed_get_info(&self->feed, &info);
    GST_OBJECT_LOCK(self);
    g_value_set_string(value, info.card_input[0] ? info.card_input : self->card.input);
    GST_OBJECT_UNLOCK(self);
}

static gboolean get_report(GstElement *element, guint id, GValue *value)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(element);

    if (id == PROP_INPUT)
        get_input(self, value);
    else if (id == PROP_SIGNAL)
        g_value_set_boolean(value, g_atomic_int_get(&self->signal.present));
    else
        return FALSE;
    return TRUE;
}

static gboolean get_property(GstElement *element, guint id, GValue *value)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(element);

    if (id != PROP_EXTRA_CONTROLS)
        return src_options_get(&self->options, id, value);
    g_value_set_boxed(value, self->card.controls);
    return TRUE;
}

static gboolean set_property(GstElement *element, guint id, const GValue *value)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(element);

    if (id == PROP_INPUT)
        card_take_input(&self->card, value);
    else if (id == PROP_EXTRA_CONTROLS)
        card_take_controls(&self->card, value);
    else
        return src_options_set(&self->options, id, value);
    return TRUE;
}

static void property_changed(GstElement *element, guint id)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(element);

    if (id == OPTION_PROCESSING_DEADLINE || id == OPTION_LATENCY || id == OPTION_GROUP_LATENCY)
        gst_element_post_message(element, gst_message_new_latency(GST_OBJECT(self)));
    else if (id == PROP_EXTRA_CONTROLS)
        card_apply_controls(&self->card, &self->feed, element);
}

static const struct endpoint_ops endpoint_ops = {
    .get_report = get_report,
    .get_property = get_property,
    .set_property = set_property,
    .changed = property_changed,
    .get_route = gst_gpudirect_src_get_route,
    .make_stats = gst_gpudirect_src_make_stats,
};

/* --- states ------------------------------------------------------------------------------- */

static gboolean src_start(GstBaseSrc *base)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(base);
    gboolean opened = FALSE;

    GST_OBJECT_LOCK(self);
    gboolean kept = gst_gpudirect_src_keeps_card(self);
    GST_OBJECT_UNLOCK(self);
    g_atomic_int_set(&self->ending, FALSE);
    endpoint_start(&self->endpoint);
    if (!kept)
        gst_gpudirect_src_close(self);
    if (!self->endpoint.running.address || !self->endpoint.running.address[0])
        GST_ELEMENT_ERROR(
            self, RESOURCE, NOT_FOUND,
            ("No address to receive from: set the property address, to the sink's or to "
             "v4l2:///dev/video0."),
            (NULL));
    else
        opened = settings_check(GST_ELEMENT(self), &self->endpoint.running) &&
                 gst_gpudirect_src_start_input(self, kept);
    if (!opened) {
        endpoint_stop(&self->endpoint);
        return FALSE;
    }
    const gchar *group = src_options_read(&self->options, self).group;
    feed_set_group(&self->feed, group && group[0] ? group : NULL, GST_ELEMENT(self));
    endpoint_note_stats(&self->endpoint);
    return TRUE;
}

static gboolean src_stop(GstBaseSrc *base)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(base);

    endpoint_post_stats(&self->endpoint);
    feed_set_group(&self->feed, NULL, NULL);
    /* Buffers held downstream keep the pool alive, and the pool their frames. */
    gst_gpudirect_src_stop_input(self);
    endpoint_stop(&self->endpoint);
    return TRUE;
}

static gboolean src_unlock(GstBaseSrc *base)
{
    feed_set_flushing(&GST_GPUDIRECT_SRC(base)->feed, TRUE);
    return TRUE;
}

static gboolean src_unlock_stop(GstBaseSrc *base)
{
    feed_set_flushing(&GST_GPUDIRECT_SRC(base)->feed, FALSE);
    return TRUE;
}

static GstStateChangeReturn src_change_state(GstElement *element, GstStateChange transition)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(element);

    if (transition == GST_STATE_CHANGE_PAUSED_TO_PLAYING) {
        self->beginning.resumed_at = monotonic_now(); /* read once `resumed` is set */
        g_atomic_int_set(&self->beginning.resumed, TRUE);
    }
    if (transition == GST_STATE_CHANGE_NULL_TO_READY && !gst_gpudirect_src_open_card(self))
        return GST_STATE_CHANGE_FAILURE;
    GstStateChangeReturn result =
        GST_ELEMENT_CLASS(gst_gpudirect_src_parent_class)->change_state(element, transition);
    if (transition == GST_STATE_CHANGE_READY_TO_NULL)
        gst_gpudirect_src_close(self);

    /* create() may be waiting for a frame, which a live source must not do in PAUSED. */
    if (transition == GST_STATE_CHANGE_PLAYING_TO_PAUSED)
        feed_interrupt(&self->feed, TRUE);
    return result;
}

/* The base class sends EOS after the next return from create(), which must therefore return. */
static gboolean src_send_event(GstElement *element, GstEvent *event)
{
    if (GST_EVENT_TYPE(event) == GST_EVENT_EOS)
        g_atomic_int_set(&GST_GPUDIRECT_SRC(element)->ending, TRUE);
    else if (GST_EVENT_TYPE(event) == GST_EVENT_FLUSH_STOP)
        g_atomic_int_set(&GST_GPUDIRECT_SRC(element)->ending, FALSE); /* it goes on after that */
    return GST_ELEMENT_CLASS(gst_gpudirect_src_parent_class)->send_event(element, event);
}

static gboolean src_event(GstBaseSrc *base, GstEvent *event)
{
    GstClockTime latency;

    if (GST_EVENT_TYPE(event) == GST_EVENT_LATENCY) {
        gst_event_parse_latency(event, &latency);
        gst_gpudirect_src_note_latency(GST_GPUDIRECT_SRC(base), latency);
    }
    return GST_BASE_SRC_CLASS(gst_gpudirect_src_parent_class)->event(base, event);
}

static gboolean src_query(GstBaseSrc *base, GstQuery *query)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(base);

    if (device_choice_answer_query(&self->endpoint.device, query))
        return TRUE;
    if (query_is_sender_live(query)) {
        gint live = g_atomic_int_get(&self->sender_live);
        if (live >= 0)
            query_set_sender_live(query, live);
        return live >= 0;
    }
    if (GST_QUERY_TYPE(query) != GST_QUERY_LATENCY)
        return GST_BASE_SRC_CLASS(gst_gpudirect_src_parent_class)->query(base, query);
    GstClockTime min, max;
    latency_get(&self->latency, &min, &max);
    gst_query_set_latency(query, TRUE, min, max);
    return TRUE;
}

static gboolean src_is_seekable(GstBaseSrc *base)
{
    return FALSE;
}

/* --- class -------------------------------------------------------------------------------- */

static void install_properties(GstElementClass *element_class)
{
    static const struct setting_texts texts = {
        .pad = "src",
        .direction = GST_PAD_SRC,
        .address = "What to connect to: the sink's address (rdma://host:port on another host), or "
                   "v4l2:///dev/videoN for a capture card, or target:NAME for a ring that a "
                   "third-party writer fills (an SDI card)",
        .device =
            "Where frames arrive: auto (the GPU if downstream prefers CUDA memory, or accepts it "
            "and the sender's frames are on that GPU; otherwise the host), host, opencl:N, cuda:N, "
            "hip:N or vulkan:N",
        .slots = "Frames that may be in flight or held at once (unless set, sound and data have up "
                 "to 60)",
        .slow_receiver = "What happens when this element does not keep up; block works only with a "
                         "sender that blocks itself",
        .slow_receiver_when = (GParamFlags)GST_PARAM_MUTABLE_READY,
        .require_direct = "Fail rather than receive by a copy through host memory, a card's, too",
        .access = "Senders whose pictures are accepted, besides root's: user (this user's only), "
                  "group:NAME (and those of that group's members) or all",
        .psk_file = "Between hosts: a file with the sender's key, readable by its owner only",
        .active_path = "The current route, or none",
        .stats = "Frames, drops, copies, waits, the sender's clock and latency (ns)",
    };
    GObjectClass *klass = G_OBJECT_CLASS(element_class);

    endpoint_class_init(element_class, &texts);
    src_options_install(klass);
    io_mode_install(klass, OPTION_IO_MODE);
    card_install(klass, PROP_INPUT, PROP_EXTRA_CONTROLS);
    g_object_class_install_property(
        klass, PROP_SIGNAL,
        g_param_spec_boolean("signal", "Signal",
                             "Whether pictures arrive: false before the first one, and while the "
                             "sender is gone or sends nothing for half a second (or three frames)",
                             FALSE, G_PARAM_READABLE | G_PARAM_STATIC_STRINGS));
}

static void finalize(GObject *object)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(object);

    feed_finish(&self->feed);
    times_finish(&self->times);
    kept_card_clear(&self->kept);
    card_clear(&self->card);
    endpoint_clear(&self->endpoint);
    g_ptr_array_unref(self->sticky_names);
    G_OBJECT_CLASS(gst_gpudirect_src_parent_class)->finalize(object);
}

static void gst_gpudirect_src_class_init(GstGpudirectSrcClass *klass)
{
    GObjectClass *object_class = G_OBJECT_CLASS(klass);
    GstElementClass *element_class = GST_ELEMENT_CLASS(klass);
    GstBaseSrcClass *base_class = GST_BASE_SRC_CLASS(klass);

    object_class->finalize = finalize;
    install_properties(element_class);
    install_signals(object_class);

    element_class->send_event = src_send_event;
    element_class->change_state = src_change_state;
    gst_element_class_set_static_metadata(
        element_class, "GPU-direct source", "Source/Video/Hardware",
        "Receives raw video, sound or data straight in this process's or a device's memory",
        "gpudirect authors");

    base_class->start = src_start;
    base_class->stop = src_stop;
    base_class->unlock = src_unlock;
    base_class->unlock_stop = src_unlock_stop;
    base_class->event = src_event;
    base_class->query = src_query;
    base_class->is_seekable = src_is_seekable;
    gst_gpudirect_src_class_init_format(base_class);
    GST_PUSH_SRC_CLASS(klass)->create = gst_gpudirect_src_create;
}

static void gst_gpudirect_src_init(GstGpudirectSrc *self)
{
    GstBaseSrc *base = GST_BASE_SRC(self);

    endpoint_init(&self->endpoint, GST_ELEMENT(self), GST_BASE_SRC_PAD(self),
                  gst_gpudirect_src_debug, &endpoint_ops);
    endpoint_post_stats_at_eos(&self->endpoint);
    src_options_init(&self->options);
    feed_init(&self->feed, gst_gpudirect_src_open_input, self);
    updates_init(&self->updates);
    times_init(&self->times, &self->endpoint);
    latency_init(&self->latency, GST_ELEMENT(self), &self->options);
    self->pictures.src = base;
    self->pictures.counters = self->endpoint.counters;
    src_signal_init(&self->signal, GST_ELEMENT(self), &self->options, &self->pictures, &self->times,
                    &self->latency);
    self->sticky_names = g_ptr_array_new();
    gst_base_src_set_live(base, TRUE);
    gst_base_src_set_format(base, GST_FORMAT_TIME);
    gst_base_src_set_do_timestamp(base, FALSE);
}
