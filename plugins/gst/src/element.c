/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/**
 * SECTION:element-gpudirectsrc
 * @title: gpudirectsrc
 * @short_description: Receives raw video straight in this process's, or a device's, memory
 * @see_also: gpudirectsink
 *
 * gpudirectsrc connects to the address on which a gpudirectsink sends, waits for it if it is not
 * there yet, and connects again when it went away. Buffers are the slots of the ring: nothing is
 * copied and nothing is allocated for a frame. Where both pipelines run on one clock, on one host
 * or on two, pictures keep their place in time.
 *
 * On a CUDA device buffers are CUDA memory, if downstream takes that, which GStreamer's CUDA
 * elements use as it lies there; the GPU waits for a picture where it must, no thread does.
 *
 * With an address that begins with v4l2:// the frames come from a capture card instead. Players
 * take both as URIs: gpudirect://cam1?slots=8 and gpudirect+v4l2:///dev/video0. With target:cam1 a
 * ring is made for the caps downstream, which somebody outside writes by himself, an SDI card say.
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
 * Never stops: where the sender vanishes or stands still, its last picture goes on. The property
 * `signal` and messages named gpudirect-signal tell.
 * |[
 * gst-launch-1.0 gpudirectsrc address=cam1 on-eos=wait ! videoconvert ! autovideosink
 * ]|
 * Outlives its senders: shows the next one, too.
 * |[
 * gst-launch-1.0 gpudirectsrc address=cam1 ! nvh264enc ! h264parse ! matroskamux ! filesink
 * location=a.mkv
 * ]|
 * Encodes what a process on the same GPU sends, without a copy.
 *
 * Since: 0.1
 */
#include "endstats.h"
#include "src/card.h"
#include "src/enums.h"
#include "src/src.h"
#include "uri.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

GST_DEBUG_CATEGORY(gst_gpudirect_src_debug);

G_DEFINE_TYPE_WITH_CODE(GstGpudirectSrc, gst_gpudirect_src, GST_TYPE_PUSH_SRC,
                        GST_DEBUG_CATEGORY_INIT(gst_gpudirect_src_debug, "gpudirectsrc", 0,
                                                "gpudirect source");
                        G_IMPLEMENT_INTERFACE(GST_TYPE_URI_HANDLER, uri_handler_init_source))
GST_ELEMENT_REGISTER_DEFINE(gpudirectsrc, "gpudirectsrc", GST_RANK_NONE, GST_TYPE_GPUDIRECT_SRC)

/* Sinks reckon with 20 ms of their own; no other time is needed than a picture's on its way, and
 * that is measured. */
#define DEFAULT_PROCESSING_DEADLINE 0
#define DEFAULT_BUSY_POLL 250

enum {
    PROP_ON_DISCONNECT = SETTING_COUNT,
    PROP_ON_EOS,
    PROP_START,
    PROP_CONNECTION_TIMEOUT,
    PROP_PROCESSING_DEADLINE,
    PROP_LATENCY,
    PROP_BUSY_POLL,
    PROP_ADD_REFERENCE_TIMESTAMP_META,
    PROP_IO_MODE,
    PROP_INPUT,
    PROP_EXTRA_CONTROLS,
    PROP_ACTIVE_PATH,
    PROP_FALLBACK_REASON,
    PROP_SIGNAL,
    PROP_STATS,
};

/* --- properties --------------------------------------------------------------------------- */

static void get_property(GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(object);
    struct input_info info;

    if (id == PROP_ACTIVE_PATH || id == PROP_FALLBACK_REASON || id == PROP_INPUT)
        gst_gpudirect_src_get_info(self, &info);
    switch (id) {
    case PROP_ACTIVE_PATH:
        g_value_set_string(value, info.path);
        return;
    case PROP_FALLBACK_REASON:
        g_value_set_string(value, info.fallback_reason);
        return;
    case PROP_SIGNAL:
        g_value_set_boolean(value, g_atomic_int_get(&self->signal.present));
        return;
    case PROP_STATS:
        g_value_take_boxed(value, gst_gpudirect_src_make_stats(self));
        return;
    }
    GST_OBJECT_LOCK(self);
    switch (id) {
    case PROP_ON_DISCONNECT:
        g_value_set_enum(value, self->options.on_disconnect);
        break;
    case PROP_ON_EOS:
        g_value_set_enum(value, self->options.on_eos);
        break;
    case PROP_START:
        g_value_set_enum(value, self->options.start);
        break;
    case PROP_CONNECTION_TIMEOUT:
        g_value_set_uint(value, self->options.connection_timeout);
        break;
    case PROP_PROCESSING_DEADLINE:
        g_value_set_uint64(value, self->options.processing_deadline);
        break;
    case PROP_LATENCY:
        g_value_set_int(value, self->options.latency);
        break;
    case PROP_BUSY_POLL:
        g_value_set_uint(value, self->options.busy_poll);
        break;
    case PROP_ADD_REFERENCE_TIMESTAMP_META:
        g_value_set_boolean(value, self->options.tells_submit_time);
        break;
    case PROP_IO_MODE:
        g_value_set_enum(value, self->options.io_mode);
        break;
    case PROP_INPUT: /* the card's word, where there is one */
        g_value_set_string(value, info.card_input[0] ? info.card_input : self->card.input);
        break;
    case PROP_EXTRA_CONTROLS:
        g_value_set_boxed(value, self->card.controls);
        break;
    default:
        if (!settings_get(&self->settings, id, value))
            G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
    }
    GST_OBJECT_UNLOCK(self);
}

/* Under the object lock. */
static void set_unlocked(GstGpudirectSrc *self, guint id, const GValue *value, GParamSpec *pspec)
{
    switch (id) {
    case PROP_ON_DISCONNECT:
        g_atomic_int_set(&self->options.on_disconnect, g_value_get_enum(value));
        break;
    case PROP_ON_EOS:
        self->options.on_eos = (enum on_eos)g_value_get_enum(value);
        break;
    case PROP_START:
        self->options.start = (enum start)g_value_get_enum(value);
        break;
    case PROP_CONNECTION_TIMEOUT:
        self->options.connection_timeout = g_value_get_uint(value);
        break;
    case PROP_PROCESSING_DEADLINE:
        self->options.processing_deadline = g_value_get_uint64(value);
        break;
    case PROP_LATENCY:
        g_atomic_int_set(&self->options.latency, g_value_get_int(value));
        break;
    case PROP_BUSY_POLL:
        self->options.busy_poll = g_value_get_uint(value);
        break;
    case PROP_ADD_REFERENCE_TIMESTAMP_META:
        g_atomic_int_set(&self->options.tells_submit_time, g_value_get_boolean(value));
        break;
    case PROP_IO_MODE:
        self->options.io_mode = (enum io_mode)g_value_get_enum(value);
        break;
    case PROP_INPUT:
        card_take_input(&self->card, value);
        break;
    case PROP_EXTRA_CONTROLS:
        card_take_controls(&self->card, value);
        break;
    default:
        if (!settings_set(&self->settings, id, value))
            G_OBJECT_WARN_INVALID_PROPERTY_ID(self, id, pspec);
    }
}

static void set_property(GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(object);

    GST_OBJECT_LOCK(self);
    gboolean may = settings_may_set(pspec, self->started);
    if (may)
        set_unlocked(self, id, value, pspec);
    GST_OBJECT_UNLOCK(self);
    if (!may)
        settings_refuse(GST_ELEMENT(self), pspec);
    else if (id == PROP_PROCESSING_DEADLINE || id == PROP_LATENCY)
        gst_element_post_message(GST_ELEMENT(self), gst_message_new_latency(GST_OBJECT(self)));
    else if (id == PROP_EXTRA_CONTROLS)
        gst_gpudirect_src_set_controls(self);
}

/* --- states ------------------------------------------------------------------------------- */

/* From here on only those properties change that may do so while the element runs. */
static void set_started(GstGpudirectSrc *self, gboolean started)
{
    GST_OBJECT_LOCK(self);
    self->started = started;
    if (started)
        settings_copy(&self->running, &self->settings);
    GST_OBJECT_UNLOCK(self);
}

static gboolean src_start(GstBaseSrc *base)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(base);
    gboolean kept = gst_gpudirect_src_is_kept(self), opened = FALSE;

    g_atomic_int_set(&self->ending, FALSE);
    set_started(self, TRUE);
    if (!kept)
        gst_gpudirect_src_close(self);
    if (!self->running.address || !self->running.address[0])
        GST_ELEMENT_ERROR(
            self, RESOURCE, NOT_FOUND,
            ("No address to receive from: set the property address, to the sink's or to "
             "v4l2:///dev/video0."),
            (NULL));
    else
        opened = settings_check(GST_ELEMENT(self), &self->running) &&
                 (kept ? gst_gpudirect_src_restart(self) : gst_gpudirect_src_open(self));
    if (opened)
        end_stats_note(&self->stats_due);
    else
        set_started(self, FALSE);
    return opened;
}

static gboolean src_stop(GstBaseSrc *base)
{
    gst_gpudirect_src_post_stats(GST_ELEMENT(base));
    /* Buffers that are held downstream keep the pool, and the pool their frames. */
    gst_gpudirect_src_stop_input(GST_GPUDIRECT_SRC(base));
    set_started(GST_GPUDIRECT_SRC(base), FALSE);
    return TRUE;
}

static gboolean src_unlock(GstBaseSrc *base)
{
    gst_gpudirect_src_set_flushing(GST_GPUDIRECT_SRC(base), TRUE);
    return TRUE;
}

static gboolean src_unlock_stop(GstBaseSrc *base)
{
    gst_gpudirect_src_set_flushing(GST_GPUDIRECT_SRC(base), FALSE);
    return TRUE;
}

static GstStateChangeReturn src_change_state(GstElement *element, GstStateChange transition)
{
    if (transition == GST_STATE_CHANGE_PAUSED_TO_PLAYING) {
        GST_GPUDIRECT_SRC(element)->resumed_at = monotonic_now(); /* before anybody reads it */
        g_atomic_int_set(&GST_GPUDIRECT_SRC(element)->resumed, TRUE);
    }
    if (transition == GST_STATE_CHANGE_NULL_TO_READY &&
        !gst_gpudirect_src_open_card(GST_GPUDIRECT_SRC(element)))
        return GST_STATE_CHANGE_FAILURE;
    GstStateChangeReturn result =
        GST_ELEMENT_CLASS(gst_gpudirect_src_parent_class)->change_state(element, transition);
    if (transition == GST_STATE_CHANGE_READY_TO_NULL)
        gst_gpudirect_src_close(GST_GPUDIRECT_SRC(element));

    /* create() may be waiting for a frame; in PAUSED a live source shall not. */
    if (transition == GST_STATE_CHANGE_PLAYING_TO_PAUSED)
        gst_gpudirect_src_interrupt(GST_GPUDIRECT_SRC(element), TRUE);
    return result;
}

/* The base class puts an end behind what create() returns next, for which that must return. */
static gboolean src_send_event(GstElement *element, GstEvent *event)
{
    if (GST_EVENT_TYPE(event) == GST_EVENT_EOS)
        g_atomic_int_set(&GST_GPUDIRECT_SRC(element)->ending, TRUE);
    else if (GST_EVENT_TYPE(event) == GST_EVENT_FLUSH_STOP)
        g_atomic_int_set(&GST_GPUDIRECT_SRC(element)->ending, FALSE); /* it goes on after that */
    return GST_ELEMENT_CLASS(gst_gpudirect_src_parent_class)->send_event(element, event);
}

static gboolean src_query(GstBaseSrc *base, GstQuery *query)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(base);

    if (GST_QUERY_TYPE(query) == GST_QUERY_CONTEXT && gst_gpudirect_src_share_context(self, query))
        return TRUE;
    if (GST_QUERY_TYPE(query) != GST_QUERY_LATENCY)
        return GST_BASE_SRC_CLASS(gst_gpudirect_src_parent_class)->query(base, query);
    GstClockTime min, max;
    gst_gpudirect_src_get_latency(self, &min, &max);
    gst_query_set_latency(query, TRUE, min, max);
    return TRUE;
}

static gboolean src_is_seekable(GstBaseSrc *base)
{
    return FALSE;
}

/* --- class -------------------------------------------------------------------------------- */

static void install_properties(GObjectClass *klass)
{
    static const struct setting_texts texts = {
        .address = "What to connect to: the sink's address (rdma://host:port on another host), or "
                   "v4l2:///dev/videoN for a capture card, or target:NAME for a ring that somebody "
                   "outside writes (an SDI card)",
        .device =
            "Where the frames shall arrive: auto (the GPU if downstream would rather have CUDA "
            "memory, or takes it and the sender has its frames there; else the host), host, "
            "opencl:N, cuda:N or hip:N",
        .slots = "Frames that may be in flight or held at once",
        .slow_receiver = "What shall happen when this element does not keep up; a wish to block is "
                         "heard only by a sender that blocks by itself",
        .slow_receiver_when = (GParamFlags)GST_PARAM_MUTABLE_READY,
        .require_direct = "Fail rather than receive by a copy through host memory, a card's, too",
        .access = "Whose pictures are taken, besides root's: user (of senders of this user alone), "
                  "group:NAME (and of those in that group) or all",
        .psk_file = "Between hosts: a file with the sender's key, which nobody else can read",
    };
    const GParamFlags playing =
        G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING;
    const GParamFlags report = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

    settings_install(klass, &texts);
    g_object_class_install_property(
        klass, PROP_ON_DISCONNECT,
        g_param_spec_enum("on-disconnect", "On disconnect",
                          "What to do when the sender vanishes, or the card is unplugged; freeze "
                          "and black also where it sends nothing for half a second, or three "
                          "frames if that is longer (freeze keeps one slot)",
                          GST_TYPE_GPUDIRECT_ON_DISCONNECT, ON_DISCONNECT_WAIT, playing));
    g_object_class_install_property(
        klass, PROP_ON_EOS,
        g_param_spec_enum("on-eos", "On EOS",
                          "What to do when the sender ends its stream (wait: go on with the next "
                          "one, of this sender or of the next)",
                          GST_TYPE_GPUDIRECT_ON_EOS, ON_EOS_EOS, playing));
    g_object_class_install_property(
        klass, PROP_START,
        g_param_spec_enum("start", "Start",
                          "Where to begin in what waits after connecting and after a pause; what "
                          "is older counts as dropped",
                          GST_TYPE_GPUDIRECT_START, START_NEWEST, playing));
    g_object_class_install_property(
        klass, PROP_CONNECTION_TIMEOUT,
        g_param_spec_uint("connection-timeout", "Connection timeout",
                          "Seconds without a sender until an error is posted (0 = wait for ever)",
                          0, G_MAXINT, 0, playing));
    g_object_class_install_property(
        klass, PROP_PROCESSING_DEADLINE,
        g_param_spec_uint64(
            "processing-deadline", "Processing deadline",
            "Time, in nanoseconds, that downstream has for a buffer beside what its "
            "sink asks for",
            0, G_MAXUINT64, DEFAULT_PROCESSING_DEADLINE, playing));
    g_object_class_install_property(
        klass, PROP_BUSY_POLL,
        g_param_spec_uint("busy-poll", "Busy poll",
                          "Microseconds, at most, that a wait for a picture that is due is awake, "
                          "so that the picture need not wake it (0 = it always sleeps)",
                          0, G_USEC_PER_SEC, DEFAULT_BUSY_POLL,
                          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY));
    g_object_class_install_property(
        klass, PROP_ADD_REFERENCE_TIMESTAMP_META,
        g_param_spec_boolean("add-reference-timestamp-meta", "Add reference timestamp meta",
                             "Adds to each buffer, behind the reference timestamps that it has, "
                             "when it was submitted on this host or captured by a card, both by "
                             "CLOCK_MONOTONIC: timestamp/x-gpudirect-submit, -capture",
                             FALSE, playing));
    latency_install(klass, PROP_LATENCY);
    io_mode_install(klass, PROP_IO_MODE);
    card_install(klass, PROP_INPUT, PROP_EXTRA_CONTROLS);
    g_object_class_install_property(klass, PROP_ACTIVE_PATH,
                                    g_param_spec_string("active-path", "Active path",
                                                        "The route that frames take now, or none",
                                                        "none", report));
    g_object_class_install_property(
        klass, PROP_FALLBACK_REASON,
        g_param_spec_string("fallback-reason", "Fallback reason",
                            "Why the active path is no better one; empty where there is none", "",
                            report));
    g_object_class_install_property(
        klass, PROP_SIGNAL,
        g_param_spec_boolean("signal", "Signal",
                             "Whether pictures come: not before the first one, and not while the "
                             "sender is gone or sends nothing for half a second (or three frames)",
                             FALSE, report));
    g_object_class_install_property(
        klass, PROP_STATS,
        g_param_spec_boxed("stats", "Statistics",
                           "Frames, drops, copies, waits, the sender's clock and latency (ns)",
                           GST_TYPE_STRUCTURE, report));
}

static void finalize(GObject *object)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(object);

    g_mutex_clear(&self->input_lock);
    g_mutex_clear(&self->pause_lock);
    g_cond_clear(&self->pause_cond);
    gpu_contexts_clear(&self->contexts);
    counters_unref(self->counters);
    lost_metas_free(self->lost_metas);
    latencies_free(self->latencies);
    g_ptr_array_unref(self->sticky_names);
    settings_clear(&self->settings);
    settings_clear(&self->running);
    settings_clear(&self->kept);
    g_free(self->opened);
    g_free(self->device_reason);
    card_clear(&self->card);
    G_OBJECT_CLASS(gst_gpudirect_src_parent_class)->finalize(object);
}

static void gst_gpudirect_src_class_init(GstGpudirectSrcClass *klass)
{
    GObjectClass *object_class = G_OBJECT_CLASS(klass);
    GstElementClass *element_class = GST_ELEMENT_CLASS(klass);
    GstBaseSrcClass *base_class = GST_BASE_SRC_CLASS(klass);

    object_class->set_property = set_property;
    object_class->get_property = get_property;
    object_class->finalize = finalize;
    install_properties(object_class);

    element_class->send_event = src_send_event;
    element_class->change_state = src_change_state;
    gst_element_class_set_static_metadata(
        element_class, "GPU-direct source", "Source/Video/Hardware",
        "Receives raw video straight in this process's or a device's memory", "gpudirect authors");
    gst_gpudirect_src_class_init_device(element_class);
    gst_gpudirect_src_class_init_times(element_class);
    gst_gpudirect_src_class_init_stats(element_class);

    base_class->start = src_start;
    base_class->stop = src_stop;
    base_class->unlock = src_unlock;
    base_class->unlock_stop = src_unlock_stop;
    base_class->query = src_query;
    base_class->is_seekable = src_is_seekable;
    gst_gpudirect_src_class_init_format(base_class);
    GST_PUSH_SRC_CLASS(klass)->create = gst_gpudirect_src_create;

    gst_type_mark_as_plugin_api(GST_TYPE_GPUDIRECT_ON_DISCONNECT, 0);
    gst_type_mark_as_plugin_api(GST_TYPE_GPUDIRECT_ON_EOS, 0);
    gst_type_mark_as_plugin_api(GST_TYPE_GPUDIRECT_START, 0);
}

static void gst_gpudirect_src_init(GstGpudirectSrc *self)
{
    settings_init(&self->settings);
    latency_init(self);
    self->options.on_disconnect = ON_DISCONNECT_WAIT;
    self->options.processing_deadline = DEFAULT_PROCESSING_DEADLINE;
    self->options.busy_poll = DEFAULT_BUSY_POLL;
    self->frame_duration = GST_CLOCK_TIME_NONE;
    self->opened_on = -1;
    self->counters = counters_new();
    self->lost_metas = lost_metas_new(gst_gpudirect_src_debug);
    self->latencies = latencies_new();
    g_mutex_init(&self->input_lock);
    g_mutex_init(&self->pause_lock);
    g_cond_init(&self->pause_cond);
    g_queue_init(&self->waiting);
    self->sticky_names = g_ptr_array_new();
    end_stats_watch(GST_BASE_SRC_PAD(self), gst_gpudirect_src_post_stats);
    gst_base_src_set_live(GST_BASE_SRC(self), TRUE);
    gst_base_src_set_format(GST_BASE_SRC(self), GST_FORMAT_TIME);
    gst_base_src_set_do_timestamp(GST_BASE_SRC(self), FALSE);
}
