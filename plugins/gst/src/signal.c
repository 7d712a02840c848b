/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whether pictures come, and what downstream gets while none do.
 *
 * The signal is there from a picture on until the sender is lost, ends its stream, or sends nothing
 * for SIGNAL_TIMEOUT (or three frames, if that is longer). With on-disconnect=freeze or black the
 * stream then goes on at its last rate, in real time, with the last picture or a black one.
 *
 * Nobody knows which picture is the last, so for `freeze` each is kept until the next one comes:
 * one slot of the ring. Once the signal is gone the picture is copied, and the slot given back. */
#include "src/src.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

#define SIGNAL_TIMEOUT (500 * GST_MSECOND)

/* How often a card that gives no pictures is asked whether it has a signal. */
#define CARD_LOOK (200 * GST_MSECOND)

/* Between pictures where the caps do not say, and within these bounds where they do. */
#define INTERVAL_DEFAULT (40 * GST_MSECOND)
#define INTERVAL_MIN (1 * GST_MSECOND)
#define INTERVAL_MAX (10 * GST_SECOND)

#define NEVER G_MAXUINT64

static enum on_disconnect get_mode(GstGpudirectSrc *self)
{
    return (enum on_disconnect)g_atomic_int_get(&self->options.on_disconnect);
}

static GstClockTime get_interval(GstGpudirectSrc *self)
{
    GstClockTime interval = self->frame_duration;

    return GST_CLOCK_TIME_IS_VALID(interval) ? CLAMP(interval, INTERVAL_MIN, INTERVAL_MAX)
                                             : INTERVAL_DEFAULT;
}

/* Whether pictures of ours stand in for the sender's. */
static gboolean stands_in(GstGpudirectSrc *self)
{
    enum on_disconnect mode = get_mode(self);

    return !g_atomic_int_get(&self->signal.present) &&
           (mode == ON_DISCONNECT_FREEZE || mode == ON_DISCONNECT_BLACK);
}

/* --- there or not ------------------------------------------------------------------------- */

static void tell(GstGpudirectSrc *self, gboolean present, const gchar *reason)
{
    GstStructure *structure = gst_structure_new("gpudirect-signal", "signal", G_TYPE_BOOLEAN,
                                                present, "reason", G_TYPE_STRING, reason, NULL);

    GST_INFO_OBJECT(self, "the signal is %s: %s", present ? "there" : "lost", reason);
    g_atomic_int_set(&self->signal.present, present);
    g_object_notify(G_OBJECT(self), "signal");
    gst_element_post_message(GST_ELEMENT(self),
                             gst_message_new_element(GST_OBJECT(self), structure));
}

void gst_gpudirect_src_signal_here(GstGpudirectSrc *self, GstBuffer *buffer)
{
    struct src_signal *signal = &self->signal;

    signal->seen = self->taken;
    signal->due = NEVER;
    self->silent_since = 0;
    self->silence_told = FALSE;
    gst_clear_buffer(&signal->stand_in);
    gst_buffer_replace(&signal->last, get_mode(self) == ON_DISCONNECT_FREEZE ? buffer : NULL);
    if (GST_BUFFER_PTS_IS_VALID(buffer)) {
        signal->pts = GST_BUFFER_PTS(buffer);
        /* How late pictures arrive: a stand-in is pushed as late as they were. */
        signal->lag =
            GST_CLOCK_TIME_IS_VALID(self->came) ? GST_CLOCK_DIFF(signal->pts, self->came) : 0;
    }
    if (!g_atomic_int_get(&signal->present))
        tell(self, TRUE, "pictures come");
}

void gst_gpudirect_src_signal_gone(GstGpudirectSrc *self, const gchar *reason)
{
    if (!g_atomic_int_get(&self->signal.present))
        return;
    self->signal.due = monotonic_now();
    tell(self, FALSE, reason);
}

static GstClockTime get_timeout(GstGpudirectSrc *self)
{
    return MAX(SIGNAL_TIMEOUT, 3 * get_interval(self));
}

void gst_gpudirect_src_watch_signal(GstGpudirectSrc *self)
{
    GstClockTime timeout = get_timeout(self);

    if (!g_atomic_int_get(&self->signal.present) || monotonic_now() - self->signal.seen < timeout)
        return;
    gchar *reason = g_strdup_printf("no picture for %" G_GUINT64_FORMAT " ms: %s is there, and "
                                    "sends nothing",
                                    timeout / GST_MSECOND, self->input->ops->what);
    gst_gpudirect_src_signal_gone(self, reason);
    g_free(reason);
}

void gst_gpudirect_src_signal_resume(GstGpudirectSrc *self)
{
    self->signal.seen = monotonic_now();
    self->silent_since = 0;
}

void gst_gpudirect_src_forget_signal(GstGpudirectSrc *self)
{
    struct src_signal *signal = &self->signal;

    g_atomic_int_set(&signal->present, FALSE);
    gst_clear_buffer(&signal->last);
    gst_clear_buffer(&signal->stand_in);
    signal->due = NEVER;
    signal->pts = 0;
    signal->lag = 0;
}

/* --- a picture to stand in ---------------------------------------------------------------- */

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

/* The library knows what is black in each format, range and colour matrix. */
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
    GstVideoConverter *converter = gst_video_converter_new(&black, info, NULL);
    gboolean painted = converter && gst_video_frame_map(&from, &black, buffer, GST_MAP_READ);
    if (painted) {
        gst_video_converter_frame(converter, &from, &picture);
        gst_video_frame_unmap(&from);
    }
    g_clear_pointer(&converter, gst_video_converter_free);
    gst_buffer_unref(buffer);
    return painted;
}

static GstBuffer *make_black(GstGpudirectSrc *self)
{
    GstBuffer *buffer = NULL;
    GstVideoFrame frame;
    gboolean painted = FALSE;

    if (gst_gpudirect_src_new_picture(self, &buffer) == GST_FLOW_OK &&
        gst_video_frame_map(&frame, &self->info, buffer, GST_MAP_WRITE)) {
        painted = paint_black(&frame);
        gst_video_frame_unmap(&frame);
    }
    if (!painted)
        gst_clear_buffer(&buffer);
    return buffer;
}

static GstBuffer *make_frozen(GstGpudirectSrc *self)
{
    const GstBufferFlags unwanted =
        GST_BUFFER_FLAG_DISCONT | GST_BUFFER_FLAG_CORRUPTED | GST_BUFFER_FLAG_TAG_MEMORY;
    GstBuffer *last = g_steal_pointer(&self->signal.last), *copy = NULL;

    if (gst_gpudirect_src_copy_picture(self, last, &copy) == GST_FLOW_OK) {
        gst_buffer_copy_into(copy, last, GST_BUFFER_COPY_FLAGS, 0, (gsize)-1);
        GST_BUFFER_FLAG_UNSET(copy, unwanted);
    }
    gst_buffer_unref(last);
    return copy;
}

/* A buffer of its own around the same memory: it gets times of its own. */
static GstBuffer *share(GstBuffer *stand_in)
{
    GstBuffer *buffer = gst_buffer_new();
    GstVideoMeta *meta = gst_buffer_get_video_meta(stand_in);

    gst_buffer_copy_into(buffer, stand_in, GST_BUFFER_COPY_FLAGS | GST_BUFFER_COPY_MEMORY, 0,
                         (gsize)-1);
    if (meta)
        gst_buffer_add_video_meta_full(buffer, meta->flags, meta->format, meta->width, meta->height,
                                       meta->n_planes, meta->offset, meta->stride);
    return buffer;
}

static gboolean make_stand_in(GstGpudirectSrc *self)
{
    struct src_signal *signal = &self->signal;

    if (!signal->stand_in && self->pool)
        signal->stand_in = signal->last && get_mode(self) == ON_DISCONNECT_FREEZE
                               ? make_frozen(self)
                               : make_black(self);
    if (signal->stand_in)
        return TRUE;
    signal->due = NEVER;
    GST_ELEMENT_WARNING(self, STREAM, FORMAT,
                        ("No picture of this format can be made to show while there is no signal: "
                         "the stream stands still until the sender is back."),
                        (NULL));
    return FALSE;
}

/* In step with the pictures before it; by the clock again where some were left out, as in a pause.
 */
static GstClockTime next_pts(GstGpudirectSrc *self, GstClockTime interval)
{
    GstClockTime next = self->signal.pts + interval;
    GstClockTime running = gst_element_get_current_running_time(GST_ELEMENT(self));

    if (!GST_CLOCK_TIME_IS_VALID(running))
        return next;
    gint64 now = (gint64)running - self->signal.lag;
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

gboolean gst_gpudirect_src_stand_in(GstGpudirectSrc *self, GstBuffer **buffer)
{
    struct src_signal *signal = &self->signal;

    if (!stands_in(self))
        return FALSE;
    GstClockTime now = monotonic_now(), interval = get_interval(self);
    if (now < signal->due || !make_stand_in(self))
        return FALSE;
    signal->due = MAX(signal->due + interval, now);
    struct timeline_frame placed = {.mapped = (gint64)next_pts(self, interval),
                                    .here = TIMELINE_UNKNOWN,
                                    .duration = interval,
                                    .live = TRUE};
    signal->pts = timeline_stamp(&self->line, &placed);
    *buffer = share(signal->stand_in);
    GST_BUFFER_PTS(*buffer) = signal->pts;
    GST_BUFFER_DURATION(*buffer) = interval;
    guint64 count = __atomic_fetch_add(&signal->count, 1, __ATOMIC_RELAXED);
    set_field(*buffer, &self->info, count % 2 == 0);
    GST_LOG_OBJECT(self, "it stands in: %" GST_PTR_FORMAT, *buffer);
    return TRUE;
}

GstClockTime gst_gpudirect_src_signal_due(GstGpudirectSrc *self, GstClockTime now)
{
    const struct src_signal *signal = &self->signal;
    GstClockTime due = NEVER;

    if (stands_in(self))
        due = signal->due;
    else if (g_atomic_int_get(&signal->present))
        due = signal->seen + get_timeout(self);
    /* It is asked whether there is a signal, until it is known why no picture comes. */
    if (self->input->ops->has_signal && !self->silence_told)
        due = MIN(due, now + CARD_LOOK);
    return due;
}
