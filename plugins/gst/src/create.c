/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc's loop: a frame's way into a buffer, and what is done while none comes. */
#include "src/src.h"

#include <string.h>

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

/* === blocks ================================================================================== */

/* Makes each tensor a memory of its own, without a copy, as NNStreamer's elements have them; all
 * bytes together stay the same. Tensors that do not follow each other stay in one. */
static void split_tensors(const struct gpud_tensors *tensors, GstBuffer *buffer)
{
    gsize size = gst_buffer_get_size(buffer);
    gboolean in_order = tensors->count > 1 && tensors->tensor[0].offset == 0 &&
                        tensors->tensor[tensors->count - 1].offset < size;

    for (guint i = 1; i < tensors->count; i++)
        in_order &= tensors->tensor[i].offset > tensors->tensor[i - 1].offset;
    GstMemory *all = in_order ? gst_buffer_get_all_memory(buffer) : NULL;
    if (all && !GST_MEMORY_IS_NO_SHARE(all)) {
        gst_buffer_remove_all_memory(buffer);
        for (guint i = 0; i < tensors->count; i++) {
            gsize from = (gsize)tensors->tensor[i].offset;
            gsize to = i + 1 < tensors->count ? (gsize)tensors->tensor[i + 1].offset : size;
            gst_buffer_append_memory(buffer,
                                     gst_memory_share(all, (gssize)from, (gssize)(to - from)));
        }
    }
    g_clear_pointer(&all, gst_memory_unref);
}

/* Copies a frame, which stays the caller's, into a new buffer, without the first `skip` samples.
 * allocator: NULL for the default one. GPUD_PEER: its bytes never came. */
static enum gpud_status blocks_copy(const struct blocks *blocks, struct gpud_frame *frame,
                                    guint skip, GstAllocator *allocator, struct counters *counters,
                                    GstBuffer **buffer, struct gpud_error *error)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    gboolean apart = blocks->are_sound && blocks->info.layout == GST_AUDIO_LAYOUT_NON_INTERLEAVED;
    void *data;

    gpud_frame_get_info(frame, &info);
    enum gpud_status status = gpud_frame_map(frame, GPUD_READ, GPUD_SEC, &data, error);
    if (status != GPUD_OK)
        return status;
    gsize bytes = (gsize)info.bytes;
    gsize skipped = blocks->are_sound ? skip * (gsize)blocks->info.bpf : 0;
    gsize size = bytes > skipped ? bytes - skipped : 0;
    *buffer = gst_buffer_new_allocate(allocator, size, NULL);
    if (!*buffer) /* of a file, say, where descriptors run out */
        *buffer = gst_buffer_new_allocate(NULL, size, NULL);
    /* Each channel's samples, where they lie apart, or all. */
    gsize planes = apart ? (gsize)blocks->info.channels : 1;
    gsize plane = bytes / planes, left = size / planes;
    for (gsize i = 0; i < planes; i++)
        gst_buffer_fill(*buffer, i * left, (guint8 *)data + i * plane + (plane - left), left);
    gpud_frame_unmap(frame);
    counter_add(&counters->copies_cpu);
    split_tensors(&blocks->tensors, *buffer);
    if (apart)
        gst_buffer_add_audio_meta(*buffer, &blocks->info, size / (gsize)blocks->info.bpf, NULL);
    return GPUD_OK;
}

static guint64 moved_by(guint64 time, gint64 by)
{
    return GST_CLOCK_TIME_IS_VALID(wire_time(time)) ? time + (guint64)by : time;
}

/* The times of what is left of a block. */
static void blocks_skip(const struct blocks *blocks, guint skip, struct gpud_frame_info *info)
{
    if (!blocks->are_sound || skip == 0)
        return;
    gint64 time = (gint64)gst_util_uint64_scale(skip, GST_SECOND, (guint64)blocks->info.rate);
    info->pts_ns = moved_by(info->pts_ns, time);
    info->dts_ns = moved_by(info->dts_ns, time);
    info->duration_ns = moved_by(info->duration_ns, -MIN(time, (gint64)info->duration_ns));
    if (info->offset != GST_BUFFER_OFFSET_NONE)
        info->offset += skip;
}

/* === pictures ================================================================================ */

/* How long downstream has, once, to release a slot before it gets copies instead. */
#define HOARD_TIMEOUT (20 * G_TIME_SPAN_MILLISECOND)

/* The slots that downstream cannot hold: one for the frame that arrives during a copy, and one more
 * where a frame that finds no slot is lost. */
#define SPARE_SLOTS 1
#define SPARE_SLOTS_LIVE 2

static void drop_pool(GstBufferPool **pool)
{
    if (*pool)
        gst_buffer_pool_set_active(*pool, FALSE);
    gst_clear_object(pool);
}

static void drop_pools(struct pictures *pictures)
{
    drop_pool(&pictures->pool);
    drop_pool(&pictures->dmabufs);
    g_atomic_int_set(&pictures->dmabuf_use, DMABUFS_UNUSED);
}

static GstBufferPool *make_pool(struct pictures *pictures, GstCaps *caps, gboolean dmabufs)
{
    const struct slot_pool_params params = {
        .info = &pictures->info,
        .gpu = pictures->gpu,
        .dmabufs = dmabufs,
        .outstanding = pictures->outstanding,
        .counters = pictures->counters,
    };
    GstBufferPool *pool = gst_gpudirect_pool_new(&params, caps);

    if (pool && !gst_buffer_pool_set_active(pool, TRUE))
        gst_clear_object(&pool);
    return pool;
}

gboolean pictures_have_format(const struct pictures *pictures, const GstCaps *caps)
{
    return pictures->pool && pictures->caps_gpu == pictures->gpu &&
           gst_caps_is_equal(pictures->caps, caps);
}

gboolean pictures_set_format(struct pictures *pictures, GstCaps *caps,
                             const struct gpud_layout *layout)
{
    gboolean same = pictures_have_format(pictures, caps);
    struct video_planes planes;

    if (!video_info_from_caps(&pictures->info, caps))
        return FALSE;
    /* A new ring of the same format, as that of a backup sender, has the same count: what
     * downstream still holds may be this ring's, if it was in use before. */
    if (!pictures->outstanding || !same || !layout_is_equal(layout, &pictures->layout)) {
        outstanding_unref(pictures->outstanding);
        pictures->outstanding = outstanding_new();
        pictures->is_hoarded = FALSE;
    }
    layout_to_planes(layout, &pictures->info, &planes);
    pictures->is_default = planes_are_default(&planes, &pictures->info);
    drop_pools(pictures);
    gboolean in_dmabufs = caps_are_dmabufs(caps);
    GstCaps *plain = in_dmabufs ? caps_out_of_dmabufs(caps) : gst_caps_ref(caps);
    pictures->pool = make_pool(pictures, plain, FALSE);
    if (in_dmabufs)
        pictures->dmabufs = make_pool(pictures, caps, TRUE);
    gst_caps_unref(plain);
    if (!pictures->pool || (in_dmabufs && !pictures->dmabufs)) {
        drop_pools(pictures);
        return FALSE;
    }
    pictures->epoch = 0;
    pictures->layout = *layout;
    gst_caps_replace(&pictures->caps, caps);
    pictures->caps_gpu = pictures->gpu;
    return TRUE;
}

void pictures_reset(struct pictures *pictures)
{
    drop_pools(pictures);
    g_clear_pointer(&pictures->outstanding, outstanding_unref);
    gst_clear_caps(&pictures->caps);
    g_atomic_int_set(&pictures->fills_files, FALSE);
    pictures->gpu = NULL;
}

/* Allocates memory outside the ring for one picture. */
static GstFlowReturn pictures_alloc(struct pictures *pictures, GstBuffer **buffer)
{
    if (!pictures->gpu && !pictures->dmabufs)
        return GST_BASE_SRC_GET_CLASS(pictures->src)
            ->alloc(pictures->src, 0, (guint)pictures->info.size, buffer);
    *buffer = gst_gpudirect_pool_stand_in(pictures->dmabufs ? pictures->dmabufs : pictures->pool);
    return *buffer ? GST_FLOW_OK : GST_FLOW_ERROR;
}

/* Copies a slot's picture into such memory; posts nothing. */
static GstFlowReturn pictures_copy(struct pictures *pictures, GstBuffer *slot, GstBuffer **buffer)
{
    GstFlowReturn flow = pictures_alloc(pictures, buffer);

    if (flow != GST_FLOW_OK)
        return flow;
    if (pictures->gpu
            ? gpu_copy_picture(&pictures->info, slot, *buffer)
            : picture_copy(&pictures->info, slot, *buffer, pictures->counters) == PICTURE_COPIED)
        return GST_FLOW_OK;
    gst_clear_buffer(buffer);
    return GST_FLOW_ERROR;
}

/* Whether a slot must be copied before it is pushed. any_memory: downstream accepts any memory, and
 * did not ask for a GPU's. sender_waits: for slots, where others lose frames. */
static gboolean pictures_need_copy(struct pictures *pictures, gboolean any_memory,
                                   gboolean sender_waits)
{
    if (g_atomic_int_get(&pictures->fills_files) && !pictures->gpu && !pictures->dmabufs)
        return TRUE;
    /* Elements that asked for a GPU's memory or for dma-bufs read their strides; those that accept
     * any memory may not. */
    if ((!pictures->gpu || any_memory) && !pictures->dmabufs && !pictures->is_default &&
        !pictures->reads_strides)
        return TRUE;
    /* Downstream may hold so many slots that it must get copies. Where frames wait for a slot, it
     * has a moment to release one, until it has shown that it does not; where they are lost, none.
     */
    gint spare =
        sender_waits || pictures->slots <= SPARE_SLOTS_LIVE ? SPARE_SLOTS : SPARE_SLOTS_LIVE;
    gint limit = MAX(1, (gint)pictures->slots - spare);
    gint held = outstanding_count(pictures->outstanding);
    if (held < limit) {
        if (held <= limit / 2)
            pictures->is_hoarded = FALSE;
        return FALSE;
    }
    if (sender_waits && !pictures->is_hoarded &&
        outstanding_wait_below(pictures->outstanding, limit, HOARD_TIMEOUT))
        return FALSE;
    pictures->is_hoarded = TRUE;
    return TRUE;
}

/* Wraps a frame, or copies it where copy, or the kind of memory, requires that (*copied). Takes the
 * frame. GST_FLOW_CUSTOM_SUCCESS: its writer did not finish it, and there is no buffer. */
static GstFlowReturn pictures_wrap(struct pictures *pictures, struct gpud_frame *frame,
                                   gboolean copy, gboolean *copied, GstBuffer **buffer)
{
    GstBufferPool *pool = pictures->pool;
    struct gpud_error error;
    void *data;

    /* Whether the ring's memory serves is found out with the first frame of a format. */
    if (pictures->dmabufs && g_atomic_int_get(&pictures->dmabuf_use) == DMABUFS_UNUSED) {
        gboolean slots = dmabuf_is_in_frame(frame, &error);
        if (!slots)
            GST_INFO_OBJECT(pictures->src, "pictures are copied into dma-bufs: %s", error.reason);
        g_atomic_int_set(&pictures->dmabuf_use, slots ? DMABUFS_SLOTS : DMABUFS_COPIES);
    }
    if (pictures->dmabufs && !copy && g_atomic_int_get(&pictures->dmabuf_use) == DMABUFS_SLOTS) {
        pool = pictures->dmabufs;
        /* Drivers downstream know nothing of the ring's words, so they get whole pictures. */
        if (gpud_frame_map(frame, GPUD_READ, SLOT_MAP_TIMEOUT, &data, &error) != GPUD_OK) {
            gpud_frame_release(&frame);
            return GST_FLOW_CUSTOM_SUCCESS;
        }
        gpud_frame_unmap(frame);
    } else if (pictures->dmabufs) {
        copy = TRUE;
    }
    *copied = copy;
    GstFlowReturn flow = gst_gpudirect_pool_wrap(pool, frame, buffer);
    if (flow != GST_FLOW_OK || !copy)
        return flow;
    GstBuffer *slot = g_steal_pointer(buffer);
    flow = pictures_copy(pictures, slot, buffer);
    gst_buffer_unref(slot);
    return flow;
}

/* === signal ================================================================================== */
/* Whether pictures arrive, and what downstream gets while none do; see src.h. */

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

static GstClockTime get_interval(const GstGpudirectSrc *self)
{
    GstClockTime interval = self->latency.interval;

    return GST_CLOCK_TIME_IS_VALID(interval) ? CLAMP(interval, INTERVAL_MIN, INTERVAL_MAX)
                                             : INTERVAL_DEFAULT;
}

/* Whether stand-ins replace the sender's pictures. */
static gboolean stands_in(const GstGpudirectSrc *self)
{
    enum on_disconnect mode = src_options_on_disconnect(&self->options);

    return !g_atomic_int_get(&self->signal.present) && self->pictures.pool &&
           (mode == ON_DISCONNECT_FREEZE || mode == ON_DISCONNECT_BLACK);
}

/* --- there or not ------------------------------------------------------------------------- */

static void report_signal(GstGpudirectSrc *self, gboolean present, const gchar *reason)
{
    GstStructure *structure = gst_structure_new("gpudirect-signal", "signal", G_TYPE_BOOLEAN,
                                                present, "reason", G_TYPE_STRING, reason, NULL);

    GST_INFO_OBJECT(self, "the signal is %s: %s", present ? "there" : "lost", reason);
    g_atomic_int_set(&self->signal.present, present);
    g_object_notify(G_OBJECT(self), "signal");
    gst_element_post_message(GST_ELEMENT(self),
                             gst_message_new_element(GST_OBJECT(self), structure));
}

static void end_silence(GstGpudirectSrc *self)
{
    self->signal.silent_since = 0;
    self->signal.silence_reported = FALSE;
}

/* The buffer has the picture that was acquired last. */
static void signal_here(GstGpudirectSrc *self, GstBuffer *buffer)
{
    struct src_signal *signal = &self->signal;
    gboolean freezes = src_options_on_disconnect(&self->options) == ON_DISCONNECT_FREEZE;

    signal->seen = self->times.acquired_at;
    signal->due = NEVER;
    end_silence(self);
    gst_clear_buffer(&signal->stand_in);
    gst_buffer_replace(&signal->last, freezes ? buffer : NULL);
    if (GST_BUFFER_PTS_IS_VALID(buffer)) {
        signal->pts = GST_BUFFER_PTS(buffer);
        /* How late pictures arrive: a stand-in is pushed as late as they were. */
        signal->lag = GST_CLOCK_TIME_IS_VALID(self->times.stamped_at)
                          ? GST_CLOCK_DIFF(signal->pts, self->times.stamped_at)
                          : 0;
    }
    if (!g_atomic_int_get(&signal->present))
        report_signal(self, TRUE, "pictures come");
}

/* The signal is lost. reason: a text for the user. */
static void signal_gone(GstGpudirectSrc *self, const gchar *reason)
{
    if (!g_atomic_int_get(&self->signal.present))
        return;
    self->signal.due = monotonic_now();
    report_signal(self, FALSE, reason);
}

static GstClockTime get_timeout(const GstGpudirectSrc *self)
{
    return MAX(SIGNAL_TIMEOUT, 3 * get_interval(self));
}

/* Whether it counts as lost if nothing comes. */
static gboolean is_watched(const GstGpudirectSrc *self)
{
    return g_atomic_int_get(&self->signal.present) && !self->signal.may_be_silent;
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

/* --- stand-ins ---------------------------------------------------------------------------- */

/* The converter knows black in each format, range and colour matrix. */
static gboolean paint_black(const GstVideoFrame *to)
{
    GstVideoFrame picture = *to;
    GstVideoInfo *info = &picture.info;
    GstVideoInfo black;
    GstVideoFrame from;

    /* A field is painted as a picture of half the height: the converter cannot handle fields. */
    if (GST_VIDEO_INFO_INTERLACE_MODE(info) == GST_VIDEO_INTERLACE_MODE_ALTERNATE) {
        info->height = GST_VIDEO_INFO_FIELD_HEIGHT(info);
        info->interlace_mode = GST_VIDEO_INTERLACE_MODE_PROGRESSIVE;
    }
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

/* A copy of the last picture, which it takes. */
static GstBuffer *make_frozen(struct pictures *pictures, GstBuffer *last)
{
    const GstBufferFlags unwanted =
        GST_BUFFER_FLAG_DISCONT | GST_BUFFER_FLAG_CORRUPTED | GST_BUFFER_FLAG_TAG_MEMORY;
    GstBuffer *copy = NULL;

    if (pictures_copy(pictures, last, &copy) == GST_FLOW_OK) {
        gst_buffer_copy_into(copy, last, GST_BUFFER_COPY_FLAGS, 0, (gsize)-1);
        copy_crop(last, copy);
        GST_BUFFER_FLAG_UNSET(copy, unwanted);
    }
    gst_buffer_unref(last);
    return copy;
}

static gboolean make_stand_in(GstGpudirectSrc *self)
{
    struct src_signal *signal = &self->signal;
    struct pictures *pictures = &self->pictures;
    gboolean painted = FALSE;
    GstVideoFrame frame;

    if (!signal->stand_in && signal->last &&
        src_options_on_disconnect(&self->options) == ON_DISCONNECT_FREEZE)
        signal->stand_in = make_frozen(pictures, g_steal_pointer(&signal->last));
    if (signal->stand_in)
        return TRUE;
    if (pictures_alloc(pictures, &signal->stand_in) == GST_FLOW_OK &&
        gst_video_frame_map(&frame, &pictures->info, signal->stand_in, GST_MAP_WRITE)) {
        painted = paint_black(&frame);
        gst_video_frame_unmap(&frame);
    }
    if (painted)
        return TRUE;
    gst_clear_buffer(&signal->stand_in);
    signal->due = NEVER;
    GST_ELEMENT_WARNING(self, STREAM, FORMAT,
                        ("No picture of this format can be made to replace a missing signal: "
                         "the stream stops until the sender is back."),
                        (NULL));
    return FALSE;
}

/* Makes a picture in place of a missing one, if one is due. */
static gboolean push_stand_in(GstGpudirectSrc *self, GstBuffer **buffer)
{
    struct src_signal *signal = &self->signal;
    const GstVideoInfo *info = &self->pictures.info;

    if (!stands_in(self))
        return FALSE;
    GstClockTime now = monotonic_now(), interval = get_interval(self);
    if (now < signal->due || !make_stand_in(self))
        return FALSE;
    signal->due = MAX(signal->due + interval, now);
    /* Its time continues those of the previous pictures, or follows the clock after a gap such as a
     * pause. */
    gint64 next = (gint64)(signal->pts + interval);
    GstClockTime running = gst_element_get_current_running_time(GST_ELEMENT(self));
    if (GST_CLOCK_TIME_IS_VALID(running) && (gint64)running - signal->lag > next + (gint64)interval)
        next = (gint64)running - signal->lag;
    struct timeline_frame placed = {
        .mapped = next, .arrived = TIMELINE_UNKNOWN, .duration = interval, .live = TRUE};
    signal->pts = timeline_stamp(&self->times.line, &placed);
    /* Another buffer with the same memory, which gets its own times. */
    GstVideoMeta *meta = gst_buffer_get_video_meta(signal->stand_in);
    *buffer = gst_buffer_new();
    gst_buffer_copy_into(*buffer, signal->stand_in, GST_BUFFER_COPY_FLAGS | GST_BUFFER_COPY_MEMORY,
                         0, (gsize)-1);
    if (meta)
        gst_buffer_add_video_meta_full(*buffer, meta->flags, meta->format, meta->width,
                                       meta->height, meta->n_planes, meta->offset, meta->stride);
    copy_crop(signal->stand_in, *buffer);
    GST_BUFFER_PTS(*buffer) = signal->pts;
    GST_BUFFER_DURATION(*buffer) = interval;
    guint64 count = __atomic_fetch_add(&signal->count, 1, __ATOMIC_RELAXED);
    /* Where buffers are fields, one picture serves as both of them. */
    if (GST_VIDEO_INFO_INTERLACE_MODE(info) == GST_VIDEO_INTERLACE_MODE_ALTERNATE) {
        GST_BUFFER_FLAG_UNSET(*buffer, GST_VIDEO_BUFFER_FLAG_TOP_FIELD);
        GST_BUFFER_FLAG_SET(*buffer, count % 2 == 0 ? GST_VIDEO_BUFFER_FLAG_TOP_FIELD
                                                    : GST_VIDEO_BUFFER_FLAG_BOTTOM_FIELD);
    }
    GST_LOG_OBJECT(self, "it stands in: %" GST_PTR_FORMAT, *buffer);
    return TRUE;
}

/* === wait ==================================================================================== */
/* What gpudirectsrc does without a frame: it waits for a sender and reports that, ends the stream,
 * or fails. */

/* The longest wait, after which changed properties are seen. Everything else wakes the wait. */
#define MAX_WAIT (1 * GST_SECOND)

/* How often a source whose new sender has not come looks whether the others have changed. */
#define GATE_LOOK (20 * GST_MSECOND)

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

/* Posted once per wait, to explain the black window to the user. */
static void report_waiting(GstGpudirectSrc *self, const struct gpud_error *error)
{
    const gchar *address = self->endpoint.running.address;
    g_autoptr(GString) names = g_string_new(NULL);
    g_autoptr(GString) text = g_string_new("Waiting for a sender");

    if (strstr(address, "://")) {
        /* This host's channels would mislead, and the reason names the place. */
        g_string_append_printf(text, ": %s%s", error->reason,
                               g_str_has_suffix(error->reason, "?") ? "" : ".");
    } else {
        GPtrArray *channels = channels_ask(NULL, CHANNELS_TIMEOUT, NULL);
        for (guint i = 0; i < channels->len; i++) {
            const struct channel *channel = channels->pdata[i];
            g_string_append_printf(names, "%s%s", names->len ? ", " : "", channel->address);
        }
        g_ptr_array_unref(channels);
        g_string_append_printf(text, " on \"%s\": %s; sending now: %s.", address, error->reason,
                               names->len ? names->str : "none");
    }
    self->link.wait_reported = TRUE;
    /* The text is given twice, because gst-launch-1.0 prints only the second. */
    GST_ELEMENT_INFO_WITH_DETAILS(self, RESOURCE, OPEN_READ, ("%s", text->str), ("%s", text->str),
                                  ("address", G_TYPE_STRING, address, "reason", G_TYPE_STRING,
                                   error->reason, "sending", G_TYPE_STRING, names->str, NULL));
}

/* How long create() may wait for a frame before something else is due, ns. now: monotonic. */
static gint64 get_max_wait(GstGpudirectSrc *self, GstClockTime now)
{
    gboolean card = self->feed.input->ops->kind == INPUT_CARD;
    GstClockTime due = NEVER;

    if (stands_in(self))
        due = self->signal.due;
    else if (is_watched(self))
        due = self->signal.seen + get_timeout(self);
    /* The card's signal is checked until the silence has been reported. */
    if (card && !self->signal.silence_reported)
        due = MIN(due, now + SIGNAL_CHECK_INTERVAL);
    due = MIN(due, now + (g_atomic_pointer_get(&self->gate) ? GATE_LOOK : MAX_WAIT));
    if (!self->link.linked && input_is_of_sender(self->feed.input->ops)) {
        /* When check_timeout() is due. The time without a sender begins with the first wait for
         * one. In µs. */
        guint timeout = src_options_read(&self->options, self).connection_timeout;
        gint64 sender = G_MAXINT64;
        if (!self->link.waiting_since)
            self->link.waiting_since = g_get_monotonic_time();
        if (!self->link.wait_reported)
            sender = self->link.waiting_since + WAIT_REPORTED_AFTER;
        if (timeout)
            sender = MIN(sender, self->link.waiting_since + (gint64)timeout * G_TIME_SPAN_SECOND);
        if (sender < (gint64)(due / GPUD_USEC))
            due = (GstClockTime)sender * GPUD_USEC;
    }
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

/* A peer that refuses every attempt at once would make a busy loop. TRUE: it was too early to
 * reconnect, and this has waited until then, or until something else is due. */
static gboolean is_held_off(GstGpudirectSrc *self)
{
    if (self->link.held_off_until == 0)
        return FALSE;
    /* Only a stand-in can be due before: all else is handled by the next attempt to connect. */
    GstClockTime due = stands_in(self) ? self->signal.due : NEVER;
    gint64 until = (gint64)MIN((GstClockTime)self->link.held_off_until, due / GPUD_USEC);
    if (feed_sleep_until(&self->feed, until) || until == self->link.held_off_until)
        self->link.held_off_until = 0;
    return TRUE;
}

static guint cause_of(const struct gpud_error *error)
{
    return g_str_hash(error->reason) | 1;
}

/* A sender listens, but refuses the connection. */
static GstFlowReturn not_connected(GstGpudirectSrc *self, const struct gpud_error *error)
{
    struct link_state *link = &self->link;
    guint cause = cause_of(error);
    gint64 now = g_get_monotonic_time();

    /* Each cause is reported once, and another only after a while, as a peer may vary its reasons
     * with each attempt. */
    if (link->refusal_cause != cause &&
        (!link->refusal_cause || now - link->refusal_at >= REFUSAL_REPORTED_EVERY)) {
        link->refusal_cause = cause;
        link->refusal_at = now;
        gpud_gst_error_warn(GST_ELEMENT(self), GPUD_GST_OPEN_SOURCE, error,
                            "No connection to the sender, trying again");
    }
    link->held_off_until = g_get_monotonic_time() + HOLD_OFF;
    return check_timeout(self, error);
}

/* Nothing came in time. The signal may be lost, and each silence of a card is reported once. */
static GstFlowReturn nothing_came(GstGpudirectSrc *self, const struct gpud_error *error)
{
    const struct input_ops *ops = self->feed.input->ops;
    struct src_signal *signal = &self->signal;
    GstClockTime now = monotonic_now(), timeout = get_timeout(self);
    struct input_info info;

    if (is_watched(self) && now - signal->seen >= timeout) {
        g_autofree gchar *reason =
            g_strdup_printf("no picture for %" G_GUINT64_FORMAT " ms: %s is there, but "
                            "sends nothing",
                            timeout / GST_MSECOND, ops->what);
        signal_gone(self, reason);
    }
    if (ops->kind == INPUT_CARD && !self->link.card_lost) {
        feed_get_info(&self->feed, &info);
        if (info.no_signal)
            signal_gone(self, info.signal_reason);
        now = monotonic_now();
        if (!signal->silent_since)
            signal->silent_since = now;
        if (!signal->silence_reported && now - signal->silent_since >= SILENCE_REPORTED_AFTER) {
            signal->silence_reported = TRUE;
            gpud_gst_error_warn(GST_ELEMENT(self), GPUD_GST_READ, error,
                                "The capture card gives no frames");
        }
    }
    return check_timeout(self, error);
}

/* The sender ended its stream; it may start another one. */
static GstFlowReturn stream_ended(GstGpudirectSrc *self)
{
    self->discont = TRUE;
    endpoint_post_stats(&self->endpoint);
    signal_gone(self, "the sender ended its stream");
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

/* What the property on-disconnect says of a sender or a card that is lost. GST_FLOW_OK: it is
 * waited for. */
static GstFlowReturn check_on_disconnect(GstGpudirectSrc *self, const struct gpud_error *error,
                                         const gchar *what)
{
    enum on_disconnect mode = src_options_read(&self->options, self).on_disconnect;

    if (mode == ON_DISCONNECT_EOS)
        return GST_FLOW_EOS;
    if (mode != ON_DISCONNECT_ERROR)
        return GST_FLOW_OK;
    gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_READ, error, "%s", what);
    return GST_FLOW_ERROR;
}

/* Tells the application that the sender or the card is lost, or back. */
static void report_change(GstGpudirectSrc *self, const gchar *name, const gchar *reason)
{
    GstStructure *structure = gst_structure_new(name, "reason", G_TYPE_STRING, reason, NULL);

    gst_element_post_message(GST_ELEMENT(self),
                             gst_message_new_element(GST_OBJECT(self), structure));
    g_object_notify(G_OBJECT(self), "active-path");
}

/* The sender vanished, which does not end its stream. */
static GstFlowReturn sender_lost(GstGpudirectSrc *self, const struct gpud_error *error)
{
    link_state_renew(&self->link);
    self->link.wait_reported = FALSE;
    signal_gone(self, error->reason);
    if (self->link.ended) { /* it had ended its stream, so nothing is lost */
        g_object_notify(G_OBJECT(self), "active-path");
        return GST_FLOW_OK;
    }
    GstFlowReturn flow = check_on_disconnect(self, error, "The sender is lost");
    if (flow != GST_FLOW_OK)
        return flow;
    self->link.refusal_cause = cause_of(error); /* by the warning below */
    self->link.refusal_at = 0;                  /* report another cause at once */
    gpud_gst_error_warn(GST_ELEMENT(self), GPUD_GST_READ, error,
                        "The sender is lost, waiting for it to come back");
    report_change(self, "gpudirect-sender-lost", error->reason);
    return GST_FLOW_OK;
}

/* Whether a sender that refuses this receiver, or is unusable, is treated as lost: another one may
 * follow, or the same one with another format. A receiver that requires a direct route, and never
 * had one here, gets an error; so does one whose key or certificate never was of use. Once it was,
 * the file is being replaced. */
static gboolean may_follow_refusal(GstGpudirectSrc *self, enum gpud_status status)
{
    gboolean by_file = (status == GPUD_INVALID || status == GPUD_IO) && self->frames > 0;

    if (self->feed.input->ops != &link_input_ops ||
        (status != GPUD_UNSUPPORTED && status != GPUD_NO_ACCESS && !by_file))
        return FALSE;
    if (status == GPUD_UNSUPPORTED && self->endpoint.running.require_direct && self->frames == 0)
        return FALSE;
    return self->link.linked || src_options_wait_for_senders(&self->options);
}

/* The card was unplugged. */
static GstFlowReturn card_lost(GstGpudirectSrc *self, const struct gpud_error *error)
{
    signal_gone(self, error->reason);
    GstFlowReturn flow = check_on_disconnect(self, error, "The capture card is lost");
    if (flow != GST_FLOW_OK)
        return flow;
    self->link.card_lost = TRUE;
    gpud_gst_error_warn(GST_ELEMENT(self), GPUD_GST_READ, error,
                        "The capture card is lost, waiting for it to come back");
    report_change(self, "gpudirect-card-lost", error->reason);
    return GST_FLOW_OK;
}

/* Handles an acquire without a frame. GST_FLOW_OK: call it again. */
static GstFlowReturn no_frame(GstGpudirectSrc *self, enum gpud_status status,
                              const struct gpud_error *error)
{
    const struct input_ops *ops = self->feed.input->ops;
    GstFlowReturn flow;

    /* The end of a stream is reported only once, so it must be handled. */
    if (status != GPUD_CLOSED && must_leave(self))
        return GST_FLOW_FLUSHING;
    if (status == GPUD_UNSUPPORTED && gst_gpudirect_src_fall_back(self))
        return GST_FLOW_OK;
    if (may_follow_refusal(self, status))
        status = GPUD_PEER;
    switch (status) {
    case GPUD_AGAIN:
        /* The pipeline goes to PAUSED, where a live source waits without a frame.
         * GST_FLOW_FLUSHING, as for other reasons, would end the task, perhaps after PLAYING has
         * restarted it (GStreamer 1.26 interrupts here too, 1.22 does not). */
        feed_set_flushing(&self->feed, FALSE);
        if (must_leave(self)) /* asked for meanwhile */
            return GST_FLOW_FLUSHING;
        flow = gst_base_src_wait_playing(GST_BASE_SRC(self));
        /* No picture was requested in the pause. */
        self->signal.seen = monotonic_now();
        self->signal.silent_since = 0;
        return flow;
    case GPUD_TIMEOUT:
        return nothing_came(self, error);
    case GPUD_CLOSED:
        return stream_ended(self);
    case GPUD_PEER:
        return self->link.linked ? sender_lost(self, error) : not_connected(self, error);
    case GPUD_NO_DEVICE:
        if (ops->kind == INPUT_CARD)
            return card_lost(self, error);
        /* fall through */
    default:
        gpud_gst_error_post(GST_ELEMENT(self), self->frames ? GPUD_GST_READ : GPUD_GST_OPEN_SOURCE,
                            error, "Cannot receive from %s at \"%s\"", ops->what,
                            self->endpoint.running.address);
        return GST_FLOW_ERROR;
    }
}

/* Cuts the link to a sender that sends too much, and continues as if the sender had vanished. The
 * core has no call to cut a link, so the receiver is replaced. */
static GstFlowReturn cut_link(GstGpudirectSrc *self)
{
    struct gpud_error why, error;

    updates_take_reason(&self->updates, &why);
    if (!feed_replace(&self->feed, NULL, &error)) {
        gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_OPEN_SOURCE, &error,
                            "The sender breaks the protocol, and no new link can be made");
        return GST_FLOW_ERROR;
    }
    updates_clear(&self->updates);
    gst_gpudirect_src_follow_address(self, TRUE);
    GstFlowReturn flow = self->link.linked ? sender_lost(self, &why) : not_connected(self, &why);
    if (flow == GST_FLOW_OK)
        self->link.held_off_until = g_get_monotonic_time() + HOLD_OFF_CUT;
    return flow;
}

/* The other streams have gone over to another channel, and this one's sender there has not come:
 * what it has is of no use beside them. */
static GstFlowReturn leave_channel(GstGpudirectSrc *self, const gchar *address)
{
    struct gpud_error error;

    gst_gpudirect_src_take_address(self, address);
    if (!feed_replace(&self->feed, NULL, &error)) {
        gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_OPEN_SOURCE, &error,
                            "Cannot receive from the sender at \"%s\"", address);
        return GST_FLOW_ERROR;
    }
    updates_clear(&self->updates);
    link_state_renew(&self->link);
    self->link.wait_reported = FALSE;
    signal_gone(self, "the channel was changed, and the new one does not send this stream yet");
    return GST_FLOW_OK;
}

/* A source that waits for a sender looks how those are that change with it. */
static GstFlowReturn look_at_gate(GstGpudirectSrc *self)
{
    struct gpud_error error;

    if (!g_atomic_pointer_get(&self->gate))
        return GST_FLOW_OK;
    struct gate *gate = gst_gpudirect_src_get_gate(self);
    enum gate_state state = gate ? gate_get_state(gate) : GATE_WAITS;
    gboolean has_arrived = gate == self->arrived;
    gate_unref(gate);
    if (state == GATE_WAITS || has_arrived)
        return GST_FLOW_OK;
    GST_OBJECT_LOCK(self);
    g_autofree gchar *address = g_strdup(self->endpoint.settings.address);
    GST_OBJECT_UNLOCK(self);
    if (state == GATE_OPEN)
        return leave_channel(self, address);
    gpud_gst_error_fill(&error, GPUD_PEER, "the channel's own stream was not changed");
    gst_gpudirect_src_keep_sender(self, address, &error);
    gst_gpudirect_src_follow_address(self, FALSE); /* which ends it */
    return GST_FLOW_OK;
}

/* === create ================================================================================== */
/* gpudirectsrc's loop: a frame becomes a buffer. */

/* Between two looks at the number of slots. */
#define SLOTS_INTERVAL (100 * GST_MSECOND)

/* An acquire that took this long has slept: one that finds a frame is much faster. */
#define SLEPT (200 * GST_USECOND)

/* --- describing the picture --------------------------------------------------------------- */

/* After so many seconds in a row in each of which half as many pictures are lost as come, or more,
 * a network is too slow: a pause of one of the ends is one such second. */
#define WAY_SLOW_SECONDS 5

/* Whether that is so now. */
static gboolean is_way_slow(GstGpudirectSrc *self, guint64 lost, gboolean is_blocked)
{
    struct way *way = &self->way;
    GstClockTime now;
    struct input_info info;

    way->taken++;
    way->lost += lost;
    way->is_blocked |= is_blocked;
    if (lost == 0 || (now = monotonic_now()) - way->since < GST_SECOND)
        return FALSE;
    gboolean is_slow = 2 * way->lost >= way->taken && !way->is_blocked;
    guint seconds = is_slow ? way->seconds + 1 : 0;
    *way = (struct way){.since = now, .seconds = seconds};
    if (seconds < WAY_SLOW_SECONDS)
        return FALSE;
    feed_get_info(&self->feed, &info);
    return info.encrypted[0] != '\0'; /* it crosses a network */
}

static void note_drops(GstGpudirectSrc *self, guint64 dropped, GstBuffer *buffer)
{
    GstClockTime interval = self->latency.interval, blocked = self->blocked_longest;
    guint64 lost = self->skipped_unreported;

    if (dropped > self->feed.dropped_seen)
        lost += dropped - self->feed.dropped_seen;
    self->feed.dropped_seen = dropped;
    self->skipped_unreported = 0;
    self->blocked_longest = 0;
    gboolean is_blocked = GST_CLOCK_TIME_IS_VALID(interval) && blocked > interval;
    /* Each once: further losses are in QoS messages and stats. A receiver with a policy of its own
     * loses pictures by intention. */
    gboolean is_reported =
        self->loss_reported || self->endpoint.running.slow_receiver != GPUD_SLOW_DEFAULT;
    if (!is_reported && is_way_slow(self, lost, is_blocked)) {
        self->loss_reported = is_reported = TRUE;
        GST_ELEMENT_WARNING(
            self, RESOURCE, READ,
            ("Pictures are lost, %" G_GUINT64_FORMAT " so far: over the network fewer come than "
             "are sent. Send smaller ones or fewer of them, or use a faster network (iperf3 "
             "measures it), and see whether one of the two hosts is too busy.",
             self->dropped + lost),
            (NULL));
    }
    if (lost == 0)
        return;
    if (!is_reported && is_blocked) {
        self->loss_reported = TRUE;
        GST_ELEMENT_WARNING(
            self, RESOURCE, READ,
            ("Pictures are lost, %" G_GUINT64_FORMAT " so far: the elements downstream took %u ms "
             "for one, while one comes every %u ms and the ring has %u slots. If they only wait, "
             "put this behind gpudirectsrc: queue max-size-buffers=0 max-size-bytes=0 "
             "max-size-time=3000000000. If they are too slow, let them do less.",
             lost, (guint)(blocked / GST_MSECOND), (guint)(interval / GST_MSECOND),
             self->pictures.slots),
            (NULL));
    }
    self->dropped += lost;
    if (self->blocks.expected) /* samples are missing, which cannot be shown once more */
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DISCONT);
    GstClockTime pts = GST_BUFFER_PTS(buffer);
    GstMessage *message =
        gst_message_new_qos(GST_OBJECT(self), TRUE, pts, pts, pts, GST_BUFFER_DURATION(buffer));
    gst_message_set_qos_stats(message, GST_FORMAT_BUFFERS, self->frames, self->dropped);
    gst_element_post_message(GST_ELEMENT(self), message);
}

static void measure_latency(GstGpudirectSrc *self, gint64 late, gboolean sender_waits)
{
    latency_measure(&self->latency, late, timeline_late_max(&self->times.line),
                    self->times.acquired_at, sender_waits);
}

static void describe_linked(GstGpudirectSrc *self, struct gpud_frame_info *info, GstBuffer *buffer)
{
    struct wire_head head = {0};
    struct times_frame timing;
    struct meta_loss loss = {self->endpoint.lost_metas, GST_ELEMENT(self), self->names};

    gboolean read = meta_decode(info->meta, info->meta_size, &head, buffer, &loss);
    head.drops |= !read; /* a sender without metadata may drop */
    if ((!read && info->meta_size > 0) ||
        (read && !meta_decode_large(info->large_meta, info->large_meta_size, buffer, &loss)))
        lost_metas_note(self->endpoint.lost_metas, GST_ELEMENT(self), "unreadable",
                        "the sender's metadata is of an unknown release");
    /* To a sink behind this element a sender that is not live is like a file: it waits for
     * receivers. A sender without metadata does not say. */
    gboolean live = !read || head.live;
    gboolean changed = (g_atomic_int_get(&self->sender_live) != FALSE) != live;
    g_atomic_int_set(&self->sender_live, live);
    if (changed)
        gst_pad_push_event(GST_BASE_SRC_PAD(self), event_new_sender_live());
    if (self->feed.input->ops->kind == INPUT_PAIR)
        self->feed.input->ops->place(self->feed.input, info, &head);
    times_stamp_linked(&self->times, self->feed.input, info, &head, buffer, &timing);
    gst_gpudirect_src_push_events(self, TRUE);
    if (GST_CLOCK_TIME_IS_VALID(timing.frame.submitted) &&
        g_atomic_int_get(&self->options.adds_submit_time))
        meta_add_submit_time(buffer, timing.frame.submitted);
    measure_latency(self, times_learn(&self->times, self->feed.input, &head, &timing, buffer),
                    !head.drops);
}

static void create_describe(GstGpudirectSrc *self, struct gpud_frame_info *info, GstBuffer *buffer)
{
    const struct input_ops *ops = self->feed.input->ops;

    frame_flags_to_buffer(info->flags, buffer);
    GST_BUFFER_DURATION(buffer) = wire_time(info->duration_ns);
    GST_BUFFER_OFFSET(buffer) = info->offset;
    GST_BUFFER_OFFSET_END(buffer) = GST_BUFFER_OFFSET_NONE;
    if (ops->kind == INPUT_CARD) {
        if (info->flags & GPUD_FRAME_INTERLACED)
            GST_BUFFER_FLAG_SET(buffer, GST_VIDEO_BUFFER_FLAG_INTERLACED);
        if (info->flags & GPUD_FRAME_TOP_FIELD)
            GST_BUFFER_FLAG_SET(buffer, GST_VIDEO_BUFFER_FLAG_TOP_FIELD);
        else if (info->flags & GPUD_FRAME_BOTTOM_FIELD)
            GST_BUFFER_FLAG_SET(buffer, GST_VIDEO_BUFFER_FLAG_BOTTOM_FIELD);
        else if (info->flags & GPUD_FRAME_TOP_FIRST)
            GST_BUFFER_FLAG_SET(buffer, GST_VIDEO_BUFFER_FLAG_TFF);
    }
    if (input_is_of_sender(ops)) {
        describe_linked(self, info, buffer);
    } else {
        GstClockTime captured = wire_time(info->pts_ns);
        gint64 late;
        if (GST_CLOCK_TIME_IS_VALID(captured) && g_atomic_int_get(&self->options.adds_submit_time))
            meta_add_capture_time(buffer, captured);
        if (times_stamp_captured(&self->times, info, buffer, &late))
            measure_latency(self, late, FALSE);
    }
    if (self->discont) {
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DISCONT);
        self->discont = FALSE;
    }
    self->frames++;
    endpoint_note_stats(&self->endpoint);
    self->link.ended = FALSE;
    self->follow.moves = 0;
    note_drops(self, info->dropped, buffer);
}

/* --- a frame becomes a buffer ------------------------------------------------------------- */

/* A buffer's size follows from caps and pool, so a frame of any other layout must be refused,
 * whatever the sender announced. */
static GstFlowReturn refuse_layout(GstGpudirectSrc *self, const struct gpud_layout *layout)
{
    const struct gpud_layout *wanted = &self->pictures.layout;
    g_autofree gchar *name = layout_format_name(layout);

    GST_ELEMENT_ERROR(
        self, STREAM, FORMAT,
        ("A frame of %ux%u %s arrived, but %ux%u %s was announced: the sender breaks the "
         "protocol, use a gpudirectsink of the same release.",
         layout->width, layout->height, name, wanted->width, wanted->height, wanted->format),
        ("%" G_GUINT64_FORMAT " bytes in %u planes instead of %" G_GUINT64_FORMAT " in %u",
         layout->size, layout->planes, wanted->size, wanted->planes));
    return GST_FLOW_ERROR;
}

/* A driver may move a picture within its buffer (V4L2's data_offset), and a frame of another epoch
 * belongs to another signal or to other buffers, because the core may have switched methods. The
 * pool, which knows each slot's memory, is then recreated. */
static GstFlowReturn follow_card(GstGpudirectSrc *self, const struct gpud_frame_info *info)
{
    const struct gpud_layout *layout = &info->layout;
    const struct input_ops *ops = self->feed.input->ops;
    gboolean of_sender = input_is_of_sender(ops), card = ops->kind == INPUT_CARD;
    gboolean first = !of_sender && !self->pictures.epoch;
    gboolean other = !of_sender && !first && self->pictures.epoch != info->epoch;

    /* The signal may have changed since the caps were negotiated. */
    bool overtaken = first && !layout_is_equal(layout, &self->pictures.layout) &&
                     !layout_is_moved(layout, &self->pictures.layout);
    if ((other || overtaken) && card && !gst_gpudirect_src_follow_signal(self))
        return feed_is_flushing(&self->feed) ? GST_FLOW_FLUSHING : GST_FLOW_NOT_NEGOTIATED;
    gboolean moved = !layout_is_equal(layout, &self->pictures.layout);
    if (moved && (of_sender || !layout_is_moved(layout, &self->pictures.layout) ||
                  gpud_layout_check(layout, NULL) != GPUD_OK))
        return refuse_layout(self, layout);
    if (moved || (other && !card)) {
        GstCaps *caps = gst_pad_get_current_caps(GST_BASE_SRC_PAD(self));
        gboolean followed = caps && gst_gpudirect_src_set_format(self, caps, layout);
        gst_clear_caps(&caps);
        if (!followed)
            return refuse_layout(self, layout);
    }
    if (!of_sender && self->pictures.epoch != info->epoch) {
        self->pictures.epoch = info->epoch;
        g_object_notify(G_OBJECT(self), "active-path"); /* the first frame verifies it */
        g_object_notify(G_OBJECT(self), "fallback-reason");
    }
    return GST_FLOW_OK;
}

/* A frame is not shown. */
static void count_skipped(GstGpudirectSrc *self)
{
    self->discont = TRUE;
    self->skipped_unreported++;
    __atomic_fetch_add(&self->feed.skipped, 1, __ATOMIC_RELAXED);
}

/* A frame that depends on one that was skipped is skipped, too; its sender is asked, once, for one
 * that does not. */
static gboolean lacks_reference(GstGpudirectSrc *self, struct gpud_frame *frame)
{
    const struct gpud_key_request request = {
        .size = sizeof(request), .at_once = TRUE, .all_headers = TRUE, .time_ns = GPUD_TIME_NONE};
    struct gpud_frame_info info = GPUD_INFO_INIT(info);

    if (self->awaits_key == KEY_THERE)
        return FALSE;
    gpud_frame_get_info(frame, &info);
    if (!(info.flags & GPUD_FRAME_DELTA)) {
        self->awaits_key = KEY_THERE;
        return FALSE;
    }
    if (self->awaits_key == KEY_MISSING)
        feed_request_key(&self->feed, &request);
    self->awaits_key = KEY_ASKED;
    return TRUE;
}

static void skip(GstGpudirectSrc *self, struct gpud_frame **frame)
{
    gpud_frame_release(frame);
    arrivals_clear(&self->times.arrivals);
    count_skipped(self);
    if (self->awaits_key == KEY_THERE)
        self->awaits_key = KEY_MISSING;
}

/* *buffer stays NULL where the sender died within the block. */
static GstFlowReturn deliver_block(GstGpudirectSrc *self, struct gpud_frame *frame,
                                   GstBuffer **buffer)
{
    const struct blocks *blocks = &self->blocks;
    struct gpud_frame_info info;
    struct gpud_error error;
    GstAllocator *allocator = NULL;
    guint passed = self->feed.input->skip;

    if (g_atomic_int_get(&self->pictures.fills_files))
        gst_base_src_get_allocator(GST_BASE_SRC(self), &allocator, NULL);
    enum gpud_status status =
        blocks_copy(blocks, frame, passed, allocator, self->endpoint.counters, buffer, &error);
    gst_clear_object(&allocator);
    info.size = sizeof(info);
    gpud_frame_get_info(frame, &info);
    if (status != GPUD_OK) {
        GST_WARNING_OBJECT(self, "a block is left out: %s", error.reason);
        skip(self, &frame);
        return GST_FLOW_OK;
    }
    blocks_skip(blocks, passed, &info);
    create_describe(self, &info, *buffer);
    gpud_frame_release(&frame); /* it has the large meta */
    if (blocks->are_sound && GST_BUFFER_OFFSET_IS_VALID(*buffer))
        /* Of a part, if the sender split the buffer. */
        GST_BUFFER_OFFSET_END(*buffer) =
            GST_BUFFER_OFFSET(*buffer) + gst_buffer_get_size(*buffer) / (gsize)blocks->info.bpf;
    GST_LOG_OBJECT(self, "a block: %" GST_PTR_FORMAT, *buffer);
    signal_here(self, *buffer);
    return GST_FLOW_OK;
}

/* The core does not say when the sender gave more slots; that is looked up while downstream holds
 * many, at times. */
static void note_more_slots(GstGpudirectSrc *self)
{
    struct input_info info;

    if (!self->pictures.is_hoarded || !input_is_of_sender(self->feed.input->ops) ||
        self->pictures.slots >= self->latency.figures.slots_max ||
        self->times.acquired_at - self->slots_seen < SLOTS_INTERVAL)
        return;
    self->slots_seen = self->times.acquired_at;
    feed_get_info(&self->feed, &info);
    gst_gpudirect_src_note_slots(self, &info);
}

static GstFlowReturn deliver(GstGpudirectSrc *self, struct gpud_frame *frame, GstBuffer **buffer)
{
    struct gpud_frame_info info;

    if (self->blocks.expected)
        return deliver_block(self, frame, buffer);
    info.size = sizeof(info);
    if (!self->pictures.pool) {
        gpud_frame_release(&frame);
        GST_ELEMENT_ERROR(self, STREAM, FORMAT,
                          ("A frame arrived before its format: restart the sender."), (NULL));
        return GST_FLOW_ERROR;
    }
    gpud_frame_get_info(frame, &info);
    GstFlowReturn flow = follow_card(self, &info);
    if (flow != GST_FLOW_OK) {
        gpud_frame_release(&frame);
        return flow;
    }
    note_more_slots(self);
    gboolean copy = pictures_need_copy(&self->pictures, self->follow.enabled,
                                       self->latency.figures.sender_waits);
    /* The buffer of a copy does not keep the frame, which has the large meta. */
    gboolean may_copy = copy || self->pictures.dmabufs;
    struct gpud_frame *described =
        may_copy && info.large_meta_size > 0 ? gpud_frame_ref(frame) : NULL;
    flow = pictures_wrap(&self->pictures, frame, copy, &copy, buffer);
    if (flow == GST_FLOW_OK)
        create_describe(self, &info, *buffer);
    gpud_frame_release(&described);
    if (flow == GST_FLOW_CUSTOM_SUCCESS) {
        GST_WARNING_OBJECT(self, "a picture that its writer did not finish is left out");
        arrivals_clear(&self->times.arrivals);
        count_skipped(self);
        return GST_FLOW_OK;
    }
    if (flow == GST_FLOW_ERROR)
        GST_ELEMENT_ERROR(self, RESOURCE, READ,
                          ("A frame cannot be passed on: look at the log of gpudirectcore."),
                          (NULL));
    if (flow != GST_FLOW_OK)
        return flow;
    GST_LOG_OBJECT(self, "%s %" GST_PTR_FORMAT, copy ? "a copy:" : "a slot:", *buffer);
    signal_here(self, *buffer);
    return GST_FLOW_OK;
}

/* --- the group ---------------------------------------------------------------------------- */

/* Holds a picture until those of the group's other sources are there. *buffer becomes NULL if it is
 * dropped. */
static GstFlowReturn wait_for_group(GstGpudirectSrc *self, GstBuffer **buffer)
{
    struct gpud_error error = {.status = GPUD_AGAIN};
    struct group_frame frame = {
        .running = GST_BUFFER_PTS(*buffer),
        .now = self->times.stamped_at,
        .interval = self->latency.interval,
        .acquired = self->times.acquired_at,
        .waited = self->times.waited,
    };

    if (self->blocks.expected || !GST_CLOCK_TIME_IS_VALID(frame.running) ||
        !GST_CLOCK_TIME_IS_VALID(frame.now))
        return GST_FLOW_OK;
    frame.latency = src_options_read(&self->options, self).group_latency;
    enum group_answer answer = group_offer(self->feed.group, &frame);
    if (answer == GROUP_SEND)
        return GST_FLOW_OK;
    gst_clear_buffer(buffer);
    count_skipped(self);
    return answer == GROUP_DROP ? GST_FLOW_OK : no_frame(self, GPUD_AGAIN, &error);
}

/* --- the loop ----------------------------------------------------------------------------- */

/* Whether to skip a sender's frame at the beginning: newer ones wait behind it, or its time cannot
 * be determined. */
static gboolean is_no_beginning(GstGpudirectSrc *self, const struct gpud_frame_info *info,
                                const struct wire_head *head)
{
    const struct input_ops *ops = self->feed.input->ops;
    gboolean is_pair = ops->kind == INPUT_PAIR;
    /* A pair holds frames of one sender while the other's are still in its ring, so that their
     * number does not say which is the newest. */
    gboolean in_pause = info->submitted_ns > 0 && info->submitted_ns < self->beginning.resumed_at;
    /* A newer block does not replace the one before it; nor does a newer frame the one that is next
     * to the last one of the sender before. */
    gboolean counts =
        (!self->blocks.expected || info->submitted_ns == 0) && !self->beginning.switched;
    guint rings = is_pair ? 2 : 1;

    /* A codec's pictures before the start are needed for those after it. */
    if (self->blocks.expected && !self->blocks.are_sound)
        return in_pause || (!self->blocks.are_coded && times_is_past(&self->times, info, head));
    /* At most what the rings hold is skipped, so that a sender that is always ahead is still shown.
     */
    if (((counts && ops->count_frames(self->feed.input) > 0) ||
         (in_pause && (is_pair || self->blocks.expected)) ||
         times_is_arrival_unknown(&self->times, info, head)) &&
        self->beginning.skipped_in_row++ < rings * self->pictures.slots)
        return TRUE;
    return times_is_past(&self->times, info, head);
}

/* Whether to skip a frame after connecting and after a pause. Frames of a sender that waits for
 * slow receivers are never skipped, as its receivers want every frame. */
static gboolean is_stale(GstGpudirectSrc *self, struct gpud_frame *frame)
{
    struct src_beginning *beginning = &self->beginning;
    const struct input_ops *ops = self->feed.input->ops;
    struct gpud_frame_info info;
    struct wire_head head;

    if (g_atomic_int_compare_and_exchange(&beginning->resumed, TRUE, FALSE)) {
        beginning->pending = TRUE;
        gst_gpudirect_src_break_stream(self);
    }
    if (!beginning->pending)
        return FALSE;
    info.size = sizeof(info);
    gpud_frame_get_info(frame, &info);
    struct unpack unpack = {.data = info.meta, .left = info.meta_size};
    if (ops->kind != INPUT_CARD)
        beginning->pending = src_options_read(&self->options, self).start == START_NEWEST &&
                             input_is_of_sender(ops) && wire_head_unpack(&unpack, &head) &&
                             head.drops && is_no_beginning(self, &info, &head);
    else if (info.pts_ns != GPUD_TIME_NONE)
        /* Captured before PLAYING, while the pipeline's time did not run? */
        beginning->pending = info.pts_ns < beginning->resumed_at;
    else
        /* A driver without a clock has at most as many of these as it has buffers. */
        beginning->pending =
            !self->times.waited && beginning->skipped_in_row++ < self->endpoint.running.slots + 2;
    if (!beginning->pending) {
        beginning->skipped_in_row = 0;
        beginning->switched = FALSE;
    }
    return beginning->pending;
}

/* Selects an input of the card that was requested since the last call, or posts a warning: in this
 * thread, because the buffers are lost with the old input. */
static void select_input(GstGpudirectSrc *self)
{
    struct input *card = self->feed.input;
    struct gpud_error error;

    if (!g_atomic_int_compare_and_exchange(&self->card.input_changed, TRUE, FALSE) ||
        card->ops->kind != INPUT_CARD)
        return;
    GST_OBJECT_LOCK(self);
    g_autofree gchar *input = g_strdup(self->card.input);
    GST_OBJECT_UNLOCK(self);
    if (card->ops->set_input(card, input, &error) != GPUD_OK)
        gpud_gst_error_warn(GST_ELEMENT(self), GPUD_GST_READ, &error,
                            "The card's input was not changed");
    g_object_notify(G_OBJECT(self), "input");
}

/* Takes the next frame, and notes whether it had to be waited for. before: the present time. */
static enum gpud_status create_take(GstGpudirectSrc *self, GstClockTime before,
                                    struct gpud_frame **frame, struct gpud_error *error)
{
    const struct input_ops *ops = self->feed.input->ops;
    struct times *times = &self->times;
    gint64 max_wait = get_max_wait(self, before);

    if (self->link.card_lost) {
        enum gpud_status back = ops->wait(self->feed.input, max_wait, error);
        if (back != GPUD_OK)
            return back;
        self->link.card_lost = FALSE;
        end_silence(self);
        GST_INFO_OBJECT(self, "the capture card is back");
        report_change(self, "gpudirect-card-back", "");
    }
    select_input(self);
    if (input_is_of_sender(ops))
        times->waited = ops->count_frames(self->feed.input) == 0;
    enum gpud_status status = ops->acquire(self->feed.input, max_wait, frame, error);
    GstClockTime now = monotonic_now();
    /* Trying without waiting first would cost a system call per frame. */
    if (!input_is_of_sender(ops))
        times->waited = now - before >= SLEPT;
    if (status == GPUD_OK) {
        times->acquired_at = now;
        times->line.late_max = src_options_late_max(&self->options);
        if (times->waited)
            arrivals_clear(&times->arrivals);
    }
    return status;
}

static GstFlowReturn create_next(GstGpudirectSrc *self, GstClockTime now, GstBuffer **buffer)
{
    for (;; now = monotonic_now()) {
        struct gpud_frame *frame = NULL;
        struct gpud_error error;
        if (push_stand_in(self, buffer))
            return GST_FLOW_OK;
        if (is_held_off(self))
            continue;
        GstFlowReturn left = look_at_gate(self);
        if (left != GST_FLOW_OK)
            return left;
        enum gpud_status status = create_take(self, now, &frame, &error);
        gboolean yielded, moved;
        GstFlowReturn flow = gst_gpudirect_src_take_updates(self, frame != NULL, &yielded, &moved);

        if (status == GPUD_OK && flow == GST_FLOW_OK && !moved &&
            !updates_end_link(&self->updates)) {
            /* A pair's frames may be another sender's, whose caps are not whole. */
            if (self->updates.format || is_stale(self, frame) || lacks_reference(self, frame)) {
                skip(self, &frame);
                continue;
            }
            *buffer = NULL;
            flow = deliver(self, frame, buffer);
            if (flow == GST_FLOW_OK && *buffer && self->feed.group)
                flow = wait_for_group(self, buffer);
            if (flow != GST_FLOW_OK || *buffer)
                return flow;
            continue;
        }
        gpud_frame_release(&frame);
        if (flow == GST_FLOW_OK && self->frames > 0)
            gst_gpudirect_src_push_events(self, FALSE);
        if (flow == GST_FLOW_OK && updates_end_link(&self->updates))
            flow = cut_link(self);
        else if (flow == GST_FLOW_OK && !(yielded && status == GPUD_AGAIN) && !moved)
            flow = no_frame(self, status, &error);
        if (flow != GST_FLOW_OK)
            return flow;
    }
}

/* The base class sends EOS after an error; receivers behind a link of ours must not take it for the
 * end of the stream. */
GstFlowReturn gst_gpudirect_src_create(GstPushSrc *push, GstBuffer **buffer)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(push);
    GstClockTime now = monotonic_now();

    /* A pause is not downstream's. */
    if (self->returned_at && !g_atomic_int_get(&self->beginning.resumed))
        self->blocked_longest = MAX(self->blocked_longest, now - self->returned_at);
    GstFlowReturn flow = create_next(self, now, buffer);
    self->returned_at = monotonic_now();
    if (flow < GST_FLOW_EOS)
        gst_pad_push_event(GST_BASE_SRC_PAD(self), event_new_broken_off());
    return flow;
}
