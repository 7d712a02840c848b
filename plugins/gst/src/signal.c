/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "src/signal.h"

#include "src/debug.h"
#include "wire/timing.h"

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

static void report(struct src_signal *signal, gboolean present, const gchar *reason)
{
    GstStructure *structure = gst_structure_new("gpudirect-signal", "signal", G_TYPE_BOOLEAN,
                                                present, "reason", G_TYPE_STRING, reason, NULL);

    GST_INFO_OBJECT(signal->element, "the signal is %s: %s", present ? "there" : "lost", reason);
    g_atomic_int_set(&signal->present, present);
    g_object_notify(G_OBJECT(signal->element), "signal");
    gst_element_post_message(signal->element,
                             gst_message_new_element(GST_OBJECT(signal->element), structure));
}

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
        report(signal, TRUE, "pictures come");
}

void src_signal_gone(struct src_signal *signal, const gchar *reason)
{
    if (!g_atomic_int_get(&signal->present))
        return;
    signal->due = monotonic_now();
    report(signal, FALSE, reason);
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

void src_signal_watch(struct src_signal *signal, const gchar *what)
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

void src_signal_resume(struct src_signal *signal)
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

gboolean src_signal_note_silence(struct src_signal *signal)
{
    GstClockTime now = monotonic_now();

    if (!signal->silent_since)
        signal->silent_since = now;
    if (signal->silence_reported || now - signal->silent_since < SILENCE_REPORTED_AFTER)
        return FALSE;
    signal->silence_reported = TRUE;
    return TRUE;
}

void src_signal_end_silence(struct src_signal *signal)
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

GstClockTime src_signal_next_stand_in(const struct src_signal *signal)
{
    return stands_in(signal) ? signal->due : NEVER;
}

GstClockTime src_signal_next(const struct src_signal *signal, GstClockTime now, gboolean card)
{
    GstClockTime due = src_signal_next_stand_in(signal);

    if (!stands_in(signal) && is_watched(signal))
        due = signal->seen + get_timeout(signal);
    /* The card's signal is checked until the silence has been reported. */
    if (card && !signal->silence_reported)
        due = MIN(due, now + SIGNAL_CHECK_INTERVAL);
    return due;
}
