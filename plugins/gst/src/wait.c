/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Waiting for frames and senders, and what is pushed while there is no signal. */
#include "src/src.h"

#include "base/plugin.h"
#include "wire/codec.h"

/* === signal ================================================================================== */
/* Whether pictures arrive, and what downstream gets while none do.
 *
 * The signal is present from a picture until the sender is lost, ends its stream, or sends nothing
 * for half a second (or three frames, if that is longer). With on-disconnect=freeze or black the
 * stream then continues at its last rate, in real time, with the last picture or a black one.
 *
 * For `freeze` each picture is kept until the next one arrives, which occupies one slot of the
 * ring. When the signal is lost the picture is copied, and the slot released. */

#define GST_CAT_DEFAULT gst_gpudirect_src_debug
#define SIGNAL_TIMEOUT (500 * GST_MSECOND)

/* How often a card without pictures is asked whether it has a signal. */
#define SIGNAL_CHECK_INTERVAL (200 * GST_MSECOND)

/* The interval between pictures if the caps have none, and its bounds if they do. */
#define INTERVAL_DEFAULT (40 * GST_MSECOND)
#define INTERVAL_MIN (1 * GST_MSECOND)
#define INTERVAL_MAX (10 * GST_SECOND)

/* How long a card may give no frames before that is reported. */
#define SILENCE_REPORTED_AFTER (2 * GST_SECOND)
#define NEVER G_MAXUINT64

void src_signal_init(struct src_signal *signal, GstElement *element,
                     const struct src_options *options, struct pictures *pictures,
                     struct times *times, const struct latency *latency)
{
    signal->element = element;
    signal->options = options;
    signal->pictures = pictures;
    signal->times = times;
    signal->latency = latency;
}

static GstClockTime get_interval(const struct src_signal *signal)
{
    GstClockTime interval = signal->latency->interval;

    return GST_CLOCK_TIME_IS_VALID(interval) ? CLAMP(interval, INTERVAL_MIN, INTERVAL_MAX)
                                             : INTERVAL_DEFAULT;
}

/* Whether stand-ins replace the sender's pictures. */
static gboolean stands_in(const struct src_signal *signal)
{
    enum on_disconnect mode = src_options_on_disconnect(signal->options);

    return !g_atomic_int_get(&signal->present) && signal->pictures->pool &&
           (mode == ON_DISCONNECT_FREEZE || mode == ON_DISCONNECT_BLACK);
}

/* --- there or not ------------------------------------------------------------------------- */

static void signal_report(struct src_signal *signal, gboolean present, const gchar *reason)
{
    GstStructure *structure = gst_structure_new("gpudirect-signal", "signal", G_TYPE_BOOLEAN,
                                                present, "reason", G_TYPE_STRING, reason, NULL);

    GST_INFO_OBJECT(signal->element, "the signal is %s: %s", present ? "there" : "lost", reason);
    g_atomic_int_set(&signal->present, present);
    g_object_notify(G_OBJECT(signal->element), "signal");
    gst_element_post_message(signal->element,
                             gst_message_new_element(GST_OBJECT(signal->element), structure));
}

static void src_signal_end_silence(struct src_signal *signal);

void src_signal_here(struct src_signal *signal, GstBuffer *buffer)
{
    signal->seen = signal->times->acquired_at;
    signal->due = NEVER;
    src_signal_end_silence(signal);
    gst_clear_buffer(&signal->stand_in);
    gst_buffer_replace(&signal->last,
                       src_options_on_disconnect(signal->options) == ON_DISCONNECT_FREEZE ? buffer
                                                                                          : NULL);
    if (GST_BUFFER_PTS_IS_VALID(buffer)) {
        signal->pts = GST_BUFFER_PTS(buffer);
        /* How late pictures arrive: a stand-in is pushed as late as they were. */
        signal->lag = GST_CLOCK_TIME_IS_VALID(signal->times->stamped_at)
                          ? GST_CLOCK_DIFF(signal->pts, signal->times->stamped_at)
                          : 0;
    }
    if (!g_atomic_int_get(&signal->present))
        signal_report(signal, TRUE, "pictures come");
}

/* The signal is lost. reason: a text for the user. */
static void src_signal_gone(struct src_signal *signal, const gchar *reason)
{
    if (!g_atomic_int_get(&signal->present))
        return;
    signal->due = monotonic_now();
    signal_report(signal, FALSE, reason);
}

static GstClockTime get_timeout(const struct src_signal *signal)
{
    return MAX(SIGNAL_TIMEOUT, 3 * get_interval(signal));
}

/* Whether it counts as lost if nothing comes. */
static gboolean is_watched(const struct src_signal *signal)
{
    return g_atomic_int_get(&signal->present) && !signal->may_be_silent;
}

/* An acquire returned no picture; what: the other side, for messages. */
static void src_signal_watch(struct src_signal *signal, const gchar *what)
{
    GstClockTime timeout = get_timeout(signal);

    if (!is_watched(signal) || monotonic_now() - signal->seen < timeout)
        return;
    gchar *reason = g_strdup_printf("no picture for %" G_GUINT64_FORMAT " ms: %s is there, but "
                                    "sends nothing",
                                    timeout / GST_MSECOND, what);
    src_signal_gone(signal, reason);
    g_free(reason);
}

/* Ends a pause, in which no picture was requested. */
static void src_signal_resume(struct src_signal *signal)
{
    signal->seen = monotonic_now();
    signal->silent_since = 0;
}

void src_signal_forget_pictures(struct src_signal *signal)
{
    gst_clear_buffer(&signal->last);
    gst_clear_buffer(&signal->stand_in);
}

void src_signal_forget(struct src_signal *signal)
{
    g_atomic_int_set(&signal->present, FALSE);
    src_signal_forget_pictures(signal);
    signal->due = NEVER;
    signal->pts = 0;
    signal->lag = 0;
}

/* A card gives no frames. TRUE, once in each silence: report it. */
static gboolean src_signal_note_silence(struct src_signal *signal)
{
    GstClockTime now = monotonic_now();

    if (!signal->silent_since)
        signal->silent_since = now;
    if (signal->silence_reported || now - signal->silent_since < SILENCE_REPORTED_AFTER)
        return FALSE;
    signal->silence_reported = TRUE;
    return TRUE;
}

static void src_signal_end_silence(struct src_signal *signal)
{
    signal->silent_since = 0;
    signal->silence_reported = FALSE;
}

/* --- stand-ins ---------------------------------------------------------------------------- */

/* A field is painted as a picture of half the height: the converter cannot handle single fields. */
static GstVideoFrame as_picture(const GstVideoFrame *frame)
{
    GstVideoFrame picture = *frame;
    GstVideoInfo *info = &picture.info;

    if (GST_VIDEO_INFO_INTERLACE_MODE(info) == GST_VIDEO_INTERLACE_MODE_ALTERNATE) {
        info->height = GST_VIDEO_INFO_FIELD_HEIGHT(info);
        info->interlace_mode = GST_VIDEO_INTERLACE_MODE_PROGRESSIVE;
    }
    return picture;
}

/* The converter knows black in each format, range and colour matrix. */
static gboolean paint_black(GstVideoFrame *to)
{
    GstVideoFrame picture = as_picture(to);
    const GstVideoInfo *info = &picture.info;
    GstVideoInfo black;
    GstVideoFrame from;

    gst_video_info_set_interlaced_format(&black, GST_VIDEO_FORMAT_BGRx,
                                         GST_VIDEO_INFO_INTERLACE_MODE(info), 16, 16);
    black.fps_n = info->fps_n;
    black.fps_d = info->fps_d;
    GstBuffer *buffer = gst_buffer_new_allocate(NULL, black.size, NULL);
    gst_buffer_memset(buffer, 0, 0, black.size);
    /* Better methods overshoot: black would have stripes of a little colour. */
    GstVideoConverter *converter = gst_video_converter_new(
        &black, info,
        gst_structure_new("GstVideoConverterConfig", GST_VIDEO_CONVERTER_OPT_RESAMPLER_METHOD,
                          GST_TYPE_VIDEO_RESAMPLER_METHOD, GST_VIDEO_RESAMPLER_METHOD_NEAREST,
                          GST_VIDEO_CONVERTER_OPT_CHROMA_RESAMPLER_METHOD,
                          GST_TYPE_VIDEO_RESAMPLER_METHOD, GST_VIDEO_RESAMPLER_METHOD_NEAREST,
                          NULL));
    gboolean painted = converter && gst_video_frame_map(&from, &black, buffer, GST_MAP_READ);
    if (painted) {
        gst_video_converter_frame(converter, &from, &picture);
        gst_video_frame_unmap(&from);
    }
    g_clear_pointer(&converter, gst_video_converter_free);
    gst_buffer_unref(buffer);
    return painted;
}

static GstBuffer *make_black(struct src_signal *signal)
{
    GstBuffer *buffer = NULL;
    GstVideoFrame frame;
    gboolean painted = FALSE;

    if (pictures_alloc(signal->pictures, &buffer) == GST_FLOW_OK &&
        gst_video_frame_map(&frame, &signal->pictures->info, buffer, GST_MAP_WRITE)) {
        painted = paint_black(&frame);
        gst_video_frame_unmap(&frame);
    }
    if (!painted)
        gst_clear_buffer(&buffer);
    return buffer;
}

static void copy_crop(GstBuffer *from, GstBuffer *to)
{
    const GstVideoCropMeta *meta = gst_buffer_get_video_crop_meta(from);

    if (!meta)
        return;
    GstVideoCropMeta *copy = gst_buffer_add_video_crop_meta(to);
    copy->x = meta->x;
    copy->y = meta->y;
    copy->width = meta->width;
    copy->height = meta->height;
}

static GstBuffer *make_frozen(struct src_signal *signal)
{
    const GstBufferFlags unwanted =
        GST_BUFFER_FLAG_DISCONT | GST_BUFFER_FLAG_CORRUPTED | GST_BUFFER_FLAG_TAG_MEMORY;
    GstBuffer *last = g_steal_pointer(&signal->last), *copy = NULL;

    if (pictures_copy(signal->pictures, last, &copy) == GST_FLOW_OK) {
        gst_buffer_copy_into(copy, last, GST_BUFFER_COPY_FLAGS, 0, (gsize)-1);
        copy_crop(last, copy);
        GST_BUFFER_FLAG_UNSET(copy, unwanted);
    }
    gst_buffer_unref(last);
    return copy;
}

/* Another buffer with the same memory, which gets its own times. */
static GstBuffer *share(GstBuffer *stand_in)
{
    GstBuffer *buffer = gst_buffer_new();
    GstVideoMeta *meta = gst_buffer_get_video_meta(stand_in);

    gst_buffer_copy_into(buffer, stand_in, GST_BUFFER_COPY_FLAGS | GST_BUFFER_COPY_MEMORY, 0,
                         (gsize)-1);
    if (meta)
        gst_buffer_add_video_meta_full(buffer, meta->flags, meta->format, meta->width, meta->height,
                                       meta->n_planes, meta->offset, meta->stride);
    copy_crop(stand_in, buffer);
    return buffer;
}

static gboolean make_stand_in(struct src_signal *signal)
{
    if (!signal->stand_in && signal->last &&
        src_options_on_disconnect(signal->options) == ON_DISCONNECT_FREEZE)
        signal->stand_in = make_frozen(signal);
    if (!signal->stand_in)
        signal->stand_in = make_black(signal);
    if (signal->stand_in)
        return TRUE;
    signal->due = NEVER;
    GST_ELEMENT_WARNING(signal->element, STREAM, FORMAT,
                        ("No picture of this format can be made to replace a missing signal: "
                         "the stream stops until the sender is back."),
                        (NULL));
    return FALSE;
}

/* Continues the times of the previous pictures, or follows the clock after a gap such as a pause.
 */
static GstClockTime next_pts(struct src_signal *signal, GstClockTime interval)
{
    GstClockTime next = signal->pts + interval;
    GstClockTime running = gst_element_get_current_running_time(signal->element);

    if (!GST_CLOCK_TIME_IS_VALID(running))
        return next;
    gint64 now = (gint64)running - signal->lag;
    return now > (gint64)(next + interval) ? (GstClockTime)now : next;
}

/* Where buffers are fields, one picture serves as both of them. */
static void set_field(GstBuffer *buffer, const GstVideoInfo *info, gboolean top)
{
    if (GST_VIDEO_INFO_INTERLACE_MODE(info) != GST_VIDEO_INTERLACE_MODE_ALTERNATE)
        return;
    GST_BUFFER_FLAG_UNSET(buffer, GST_VIDEO_BUFFER_FLAG_TOP_FIELD);
    GST_BUFFER_FLAG_SET(buffer,
                        top ? GST_VIDEO_BUFFER_FLAG_TOP_FIELD : GST_VIDEO_BUFFER_FLAG_BOTTOM_FIELD);
}

gboolean src_signal_stand_in(struct src_signal *signal, GstBuffer **buffer)
{
    if (!stands_in(signal))
        return FALSE;
    GstClockTime now = monotonic_now(), interval = get_interval(signal);
    if (now < signal->due || !make_stand_in(signal))
        return FALSE;
    signal->due = MAX(signal->due + interval, now);
    struct timeline_frame placed = {.mapped = (gint64)next_pts(signal, interval),
                                    .arrived = TIMELINE_UNKNOWN,
                                    .duration = interval,
                                    .live = TRUE};
    signal->pts = timeline_stamp(&signal->times->line, &placed);
    *buffer = share(signal->stand_in);
    GST_BUFFER_PTS(*buffer) = signal->pts;
    GST_BUFFER_DURATION(*buffer) = interval;
    guint64 count = __atomic_fetch_add(&signal->count, 1, __ATOMIC_RELAXED);
    set_field(*buffer, &signal->pictures->info, count % 2 == 0);
    GST_LOG_OBJECT(signal->element, "it stands in: %" GST_PTR_FORMAT, *buffer);
    return TRUE;
}

/* When the next stand-in is due; G_MAXUINT64: none. */
static GstClockTime src_signal_next_stand_in(const struct src_signal *signal)
{
    return stands_in(signal) ? signal->due : NEVER;
}

/* When the next stand-in, or the next check for pictures, is due. card: the input has a signal of
 * its own. */
static GstClockTime src_signal_next(const struct src_signal *signal, GstClockTime now,
                                    gboolean card)
{
    GstClockTime due = src_signal_next_stand_in(signal);

    if (!stands_in(signal) && is_watched(signal))
        due = signal->seen + get_timeout(signal);
    /* The card's signal is checked until the silence has been reported. */
    if (card && !signal->silence_reported)
        due = MIN(due, now + SIGNAL_CHECK_INTERVAL);
    return due;
}

/* === wait ==================================================================================== */
/* What gpudirectsrc does without a frame: it waits for a sender and reports that, ends the stream,
 * or fails. */

/* The longest wait, after which changed properties are noticed. Everything else wakes the wait. */
#define MAX_WAIT (1 * GST_SECOND)

/* How long to wait for answers of other channels, which the message lists in any case. */
#define CHANNELS_TIMEOUT (GPUD_SEC / 4)

/* How long there must be no sender before a message says so. */
#define WAIT_REPORTED_AFTER (1 * G_TIME_SPAN_SECOND)

/* The time between attempts to connect; the longer one after this side has cut the link, as the
 * next link would probably end in the same way. */
#define HOLD_OFF (100 * G_TIME_SPAN_MILLISECOND)
#define HOLD_OFF_CUT (500 * G_TIME_SPAN_MILLISECOND)
#define REFUSAL_REPORTED_EVERY (10 * G_TIME_SPAN_SECOND)

/* The base class asked create() to return, and will not ask again. */
static gboolean must_leave(GstGpudirectSrc *self)
{
    return g_atomic_int_get(&self->ending) || GST_PAD_IS_FLUSHING(GST_BASE_SRC_PAD(self));
}

/* The pipeline goes to PAUSED, where a live source waits without a frame. GST_FLOW_FLUSHING, as for
 * other reasons, would end the task, perhaps after PLAYING has restarted it (GStreamer 1.26
 * interrupts here too, 1.22 does not). */
static GstFlowReturn interrupted(GstGpudirectSrc *self)
{
    feed_set_flushing(&self->feed, FALSE);
    if (must_leave(self)) /* asked for meanwhile */
        return GST_FLOW_FLUSHING;
    GstFlowReturn flow = gst_base_src_wait_playing(GST_BASE_SRC(self));
    src_signal_resume(&self->signal);
    return flow;
}

/* The addresses on which senders listen now. */
static gchar *join_channels(void)
{
    GPtrArray *channels = channels_ask(NULL, CHANNELS_TIMEOUT, NULL);
    GString *names = g_string_new(NULL);

    for (guint i = 0; i < channels->len; i++) {
        const struct channel *channel = channels->pdata[i];
        g_string_append_printf(names, "%s%s", names->len ? ", " : "", channel->address);
    }
    g_ptr_array_unref(channels);
    return g_string_free(names, FALSE);
}

/* Posted once per wait, to explain the black window to the user. */
static void report_waiting(GstGpudirectSrc *self, const struct gpud_error *error)
{
    gchar *names = join_channels();
    gchar *text =
        g_strdup_printf("Waiting for a sender on \"%s\": %s; sending now: %s.",
                        self->endpoint.running.address, error->reason, names[0] ? names : "none");

    self->link.wait_reported = TRUE;
    /* The text is given twice, because gst-launch-1.0 prints only the second. */
    GST_ELEMENT_INFO_WITH_DETAILS(self, RESOURCE, OPEN_READ, ("%s", text), ("%s", text),
                                  ("address", G_TYPE_STRING, self->endpoint.running.address,
                                   "reason", G_TYPE_STRING, error->reason, "sending", G_TYPE_STRING,
                                   names, NULL));
    g_free(text);
    g_free(names);
}

/* When check_timeout() is due, in monotonic µs. The time without a sender begins with the first
 * wait for one. */
static gint64 sender_due(GstGpudirectSrc *self)
{
    gint64 due = G_MAXINT64;

    if (self->link.linked || !input_is_of_sender(self->feed.input->ops))
        return due;
    guint timeout = src_options_read(&self->options, self).connection_timeout;
    if (!self->link.waiting_since)
        self->link.waiting_since = g_get_monotonic_time();
    if (!self->link.wait_reported)
        due = self->link.waiting_since + WAIT_REPORTED_AFTER;
    return timeout ? MIN(due, self->link.waiting_since + (gint64)timeout * G_TIME_SPAN_SECOND)
                   : due;
}

gint64 gst_gpudirect_src_max_wait(GstGpudirectSrc *self, GstClockTime now)
{
    GstClockTime due =
        MIN(src_signal_next(&self->signal, now, self->feed.input->ops->kind == INPUT_CARD),
            now + MAX_WAIT);
    gint64 sender = sender_due(self);

    if (sender < (gint64)(due / GPUD_USEC))
        due = (GstClockTime)sender * GPUD_USEC;
    return due > now ? (gint64)(due - now) : 0;
}

static GstFlowReturn check_timeout(GstGpudirectSrc *self, const struct gpud_error *error)
{
    gint64 now = g_get_monotonic_time();
    guint timeout = src_options_read(&self->options, self).connection_timeout;

    if (self->link.linked || !input_is_of_sender(self->feed.input->ops))
        return GST_FLOW_OK;
    if (!self->link.waiting_since)
        self->link.waiting_since = now;
    if (!self->link.wait_reported && now - self->link.waiting_since >= WAIT_REPORTED_AFTER)
        report_waiting(self, error);
    if (timeout == 0 || now - self->link.waiting_since < (gint64)timeout * G_TIME_SPAN_SECOND)
        return GST_FLOW_OK;
    GST_ELEMENT_ERROR(
        self, RESOURCE, OPEN_READ,
        ("No sender on \"%s\" within %u s: start gpudirectsink with this address, or raise "
         "connection-timeout.",
         self->endpoint.running.address, timeout),
        ("%s", error->reason));
    return GST_FLOW_ERROR;
}

/* Avoids a busy loop when a peer refuses every attempt at once. */
static void hold_off(GstGpudirectSrc *self, gint64 time)
{
    self->link.held_off_until = g_get_monotonic_time() + time;
}

gboolean gst_gpudirect_src_is_held_off(GstGpudirectSrc *self)
{
    if (self->link.held_off_until == 0)
        return FALSE;
    /* Only a stand-in can be due before: all else is handled by the next attempt to connect. */
    GstClockTime due = src_signal_next_stand_in(&self->signal);
    gint64 until = (gint64)MIN((GstClockTime)self->link.held_off_until, due / GPUD_USEC);
    if (feed_sleep_until(&self->feed, until) || until == self->link.held_off_until)
        self->link.held_off_until = 0;
    return TRUE;
}

static guint cause_of(const struct gpud_error *error)
{
    return g_str_hash(error->reason) | 1;
}

/* Reports each cause once, and another only after a while, as a peer may vary its reasons with each
 * attempt. */
static void report_refusal(GstGpudirectSrc *self, const struct gpud_error *error)
{
    guint cause = cause_of(error);
    gint64 now = g_get_monotonic_time();

    if (self->link.refusal_cause == cause ||
        (self->link.refusal_cause && now - self->link.refusal_at < REFUSAL_REPORTED_EVERY))
        return;
    self->link.refusal_cause = cause;
    self->link.refusal_at = now;
    gpud_gst_error_warn(GST_ELEMENT(self), GPUD_GST_OPEN_SOURCE, error,
                        "No connection to the sender, trying again");
}

/* A sender listens, but refuses the connection. */
static GstFlowReturn not_connected(GstGpudirectSrc *self, const struct gpud_error *error)
{
    report_refusal(self, error);
    hold_off(self, HOLD_OFF);
    return check_timeout(self, error);
}

/* Reports each silence of a card once. */
static void report_silence(GstGpudirectSrc *self, const struct gpud_error *error)
{
    struct input_info info;

    feed_get_info(&self->feed, &info);
    if (info.no_signal)
        src_signal_gone(&self->signal, info.signal_reason);
    if (src_signal_note_silence(&self->signal))
        gpud_gst_error_warn(GST_ELEMENT(self), GPUD_GST_READ, error,
                            "The capture card gives no frames");
}

/* The sender ended its stream; it may start another one. */
static GstFlowReturn stream_ended(GstGpudirectSrc *self)
{
    src_signal_gone(&self->signal, "the sender ended its stream");
    if (src_options_read(&self->options, self).on_eos == ON_EOS_EOS)
        return GST_FLOW_EOS;
    self->link.ended = TRUE;
    gst_gpudirect_src_break_stream(self); /* the next stream has times of its own */
    GST_INFO_OBJECT(self, "the sender ended its stream, waiting for the next one");
    gst_element_post_message(
        GST_ELEMENT(self),
        gst_message_new_element(GST_OBJECT(self),
                                gst_structure_new_empty("gpudirect-stream-ended")));
    return GST_FLOW_OK;
}

/* The sender vanished, which does not end its stream. */
static GstFlowReturn sender_lost(GstGpudirectSrc *self, const struct gpud_error *error)
{
    link_state_renew(&self->link);
    self->link.wait_reported = FALSE;
    src_signal_gone(&self->signal, error->reason);
    if (self->link.ended) { /* it had ended its stream, so nothing is lost */
        g_object_notify(G_OBJECT(self), "active-path");
        return GST_FLOW_OK;
    }
    enum on_disconnect mode = src_options_read(&self->options, self).on_disconnect;
    if (mode == ON_DISCONNECT_EOS)
        return GST_FLOW_EOS;
    if (mode == ON_DISCONNECT_ERROR) {
        gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_READ, error, "The sender is lost");
        return GST_FLOW_ERROR;
    }
    self->link.refusal_cause = cause_of(error); /* by the warning below */
    self->link.refusal_at = 0;                  /* report another cause at once */
    GstStructure *structure =
        gst_structure_new("gpudirect-sender-lost", "reason", G_TYPE_STRING, error->reason, NULL);
    gpud_gst_error_warn(GST_ELEMENT(self), GPUD_GST_READ, error,
                        "The sender is lost, waiting for it to come back");
    gst_element_post_message(GST_ELEMENT(self),
                             gst_message_new_element(GST_OBJECT(self), structure));
    g_object_notify(G_OBJECT(self), "active-path");
    return GST_FLOW_OK;
}

/* Whether a sender that refuses this receiver, or is unusable, is treated as lost: another one may
 * follow, or the same one with another format. A receiver that requires a direct route, and never
 * had one here, gets an error. */
static gboolean may_follow_refusal(GstGpudirectSrc *self, enum gpud_status status)
{
    if (self->feed.input->ops != &link_input_ops ||
        (status != GPUD_UNSUPPORTED && status != GPUD_NO_ACCESS))
        return FALSE;
    if (status == GPUD_UNSUPPORTED && self->endpoint.running.require_direct && self->frames == 0)
        return FALSE;
    return self->link.linked || src_options_wait_for_senders(&self->options);
}

static void report_card(GstGpudirectSrc *self, const gchar *name, const gchar *reason)
{
    GstStructure *structure = gst_structure_new(name, "reason", G_TYPE_STRING, reason, NULL);

    gst_element_post_message(GST_ELEMENT(self),
                             gst_message_new_element(GST_OBJECT(self), structure));
    g_object_notify(G_OBJECT(self), "active-path");
}

/* The card was unplugged. */
static GstFlowReturn card_lost(GstGpudirectSrc *self, const struct gpud_error *error)
{
    src_signal_gone(&self->signal, error->reason);
    enum on_disconnect mode = src_options_read(&self->options, self).on_disconnect;
    if (mode == ON_DISCONNECT_EOS)
        return GST_FLOW_EOS;
    if (mode == ON_DISCONNECT_ERROR) {
        gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_READ, error, "The capture card is lost");
        return GST_FLOW_ERROR;
    }
    self->link.card_lost = TRUE;
    gpud_gst_error_warn(GST_ELEMENT(self), GPUD_GST_READ, error,
                        "The capture card is lost, waiting for it to come back");
    report_card(self, "gpudirect-card-lost", error->reason);
    return GST_FLOW_OK;
}

void gst_gpudirect_src_card_back(GstGpudirectSrc *self)
{
    self->link.card_lost = FALSE;
    src_signal_end_silence(&self->signal);
    GST_INFO_OBJECT(self, "the capture card is back");
    report_card(self, "gpudirect-card-back", "");
}

GstFlowReturn gst_gpudirect_src_no_frame(GstGpudirectSrc *self, enum gpud_status status,
                                         const struct gpud_error *error)
{
    gchar *what;

    /* The end of a stream is reported only once, so it must be handled. */
    if (status != GPUD_CLOSED && must_leave(self))
        return GST_FLOW_FLUSHING;
    if (status == GPUD_AGAIN)
        return interrupted(self);
    if (status == GPUD_UNSUPPORTED && gst_gpudirect_src_fall_back(self))
        return GST_FLOW_OK;
    if (may_follow_refusal(self, status))
        status = GPUD_PEER;
    switch (status) {
    case GPUD_TIMEOUT:
        src_signal_watch(&self->signal, self->feed.input->ops->what);
        if (self->feed.input->ops->kind == INPUT_CARD && !self->link.card_lost)
            report_silence(self, error);
        return check_timeout(self, error);
    case GPUD_CLOSED:
        self->discont = TRUE;
        endpoint_post_stats(&self->endpoint);
        return stream_ended(self);
    case GPUD_PEER:
        return self->link.linked ? sender_lost(self, error) : not_connected(self, error);
    case GPUD_NO_DEVICE:
        if (self->feed.input->ops->kind == INPUT_CARD)
            return card_lost(self, error);
        /* fall through */
    default:
        what = g_strdup_printf("Cannot receive from %s at \"%s\"", self->feed.input->ops->what,
                               self->endpoint.running.address);
        gpud_gst_error_post(GST_ELEMENT(self), self->frames ? GPUD_GST_READ : GPUD_GST_OPEN_SOURCE,
                            error, what);
        g_free(what);
        return GST_FLOW_ERROR;
    }
}

/* The core has no call to cut a link, so the receiver is replaced. */
GstFlowReturn gst_gpudirect_src_cut_link(GstGpudirectSrc *self)
{
    struct gpud_error why, error;

    updates_take_reason(&self->updates, &why);
    gboolean renewed = feed_replace(&self->feed, NULL, &error);
    if (!renewed) {
        gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_OPEN_SOURCE, &error,
                            "The sender breaks the protocol, and no new link can be made");
        return GST_FLOW_ERROR;
    }
    updates_clear(&self->updates);
    GstFlowReturn flow = self->link.linked ? sender_lost(self, &why) : not_connected(self, &why);
    if (flow == GST_FLOW_OK)
        hold_off(self, HOLD_OFF_CUT);
    return flow;
}

/* === events ================================================================================== */
/* Pushes the sender's events downstream. */

/* The pad keeps the last one of each name until the element stops. */
#define STICKY_NAMES_MAX 64

static gboolean may_stick(GstGpudirectSrc *self, const GstStructure *structure)
{
    gpointer name = (gpointer)g_intern_string(gst_structure_get_name(structure));

    if (g_ptr_array_find(self->sticky_names, name, NULL))
        return TRUE;
    if (self->sticky_names->len >= STICKY_NAMES_MAX) {
        GST_WARNING_OBJECT(self, "more than %d names of sticky events: left out %" GST_PTR_FORMAT,
                           STICKY_NAMES_MAX, structure);
        return FALSE;
    }
    g_ptr_array_add(self->sticky_names, name);
    return TRUE;
}

static void push_gap(GstGpudirectSrc *self, const struct wire_event *event, gboolean with_frame)
{
    GstPad *pad = GST_BASE_SRC_PAD(self);
    GstEvent *segment = gst_pad_get_sticky_event(pad, GST_EVENT_SEGMENT, 0);
    struct time_now now;

    if (!segment) /* no gap precedes the first frame */
        return;
    gst_event_unref(segment);
    times_now(&self->times, &now);
    if (!with_frame) /* a frame's own time is more precise */
        times_learn_event(&self->times, &event->head, &now);
    gint64 mapped = gst_base_src_get_do_timestamp(GST_BASE_SRC(self))
                        ? time_now_at(&now, GST_CLOCK_TIME_NONE)
                        : time_map_apply(&self->times.map, event->time);
    gst_pad_push_event(pad,
                       gst_event_new_gap(timeline_stamp_gap(&self->times.line, mapped, with_frame),
                                         event->duration));
}

/* With do-timestamp the sender's times mean nothing here. */
static void push_segment(GstGpudirectSrc *self, const struct wire_event *event)
{
    GstSegment segment;

    if (gst_base_src_get_do_timestamp(GST_BASE_SRC(self)))
        return;
    timeline_segment(&self->times.line, time_map_apply(&self->times.map, event->time),
                     event->stream_time, event->rate, &segment);
    gst_base_src_new_segment(GST_BASE_SRC(self), &segment);
}

static void push_event(GstGpudirectSrc *self, struct wire_event *event, gboolean with_frame)
{
    GstPad *pad = GST_BASE_SRC_PAD(self);

    switch (event->kind) {
    case EVENT_SEGMENT:
        push_segment(self, event);
        break;
    case EVENT_TAGS:
        gst_pad_push_event(pad, gst_event_new_tag(g_steal_pointer(&event->tags)));
        break;
    case EVENT_GAP:
        push_gap(self, event, with_frame);
        break;
    case EVENT_FLUSH:
        self->discont = TRUE;
        gst_gpudirect_src_break_stream(self);
        break;
    case EVENT_CUSTOM:
        gst_pad_push_event(pad, gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM,
                                                     g_steal_pointer(&event->structure)));
        break;
    case EVENT_CUSTOM_STICKY:
        if (may_stick(self, event->structure))
            gst_pad_push_event(pad, gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM_STICKY,
                                                         g_steal_pointer(&event->structure)));
        break;
    }
}

/* A segment waits for its first frame, which determines its start here. Other events need not wait
 * for it: all times are running times. */
void gst_gpudirect_src_push_events(GstGpudirectSrc *self, gboolean with_frame)
{
    struct update_event *waiting;

    while ((waiting = updates_take_event(&self->updates, with_frame))) {
        push_event(self, &waiting->event, with_frame);
        update_event_free(waiting);
    }
}
