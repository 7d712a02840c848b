/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A frame's way into a buffer. */
#include "src/src.h"

#include "base/plugin.h"
#include "element/endpoint.h"
#include "memory/memory.h"
#include "wire/codec.h"

#include <string.h>

/* === pictures ================================================================================ */
/* The format of the pictures, and the buffers that hold them.
 *
 * Normally a buffer is the slot itself. Three things force a copy: downstream cannot read strides,
 * needs memory of its own allocator, or holds so many buffers that the ring is nearly empty: it
 * then gets copies until it holds fewer, because the stream would lose pictures, or stop.
 *
 * Where the caps are of dma-bufs, buffers are the ring's, if its memory has some: that of a card or
 * a third-party writer has, and that which a sender writes to. Memory that a sender lends for
 * reading has none, because a dma-buf could be written to; its pictures are copied into others. */

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

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

static gboolean make_pools(struct pictures *pictures, GstCaps *caps)
{
    if (!caps_are_dmabufs(caps)) {
        pictures->pool = make_pool(pictures, caps, FALSE);
        return pictures->pool != NULL;
    }
    GstCaps *plain = caps_out_of_dmabufs(caps);
    pictures->pool = make_pool(pictures, plain, FALSE);
    pictures->dmabufs = make_pool(pictures, caps, TRUE);
    gst_caps_unref(plain);
    return pictures->pool && pictures->dmabufs;
}

/* A new ring of the same format, as that of a backup sender, has the same count: what downstream
 * still holds may be this ring's, if it was in use before. */
static void start_count(struct pictures *pictures, GstCaps *caps, const struct gpud_layout *layout)
{
    if (pictures->outstanding && pictures_have_format(pictures, caps) &&
        layout_is_equal(layout, &pictures->layout))
        return;
    outstanding_unref(pictures->outstanding);
    pictures->outstanding = outstanding_new();
    pictures->is_hoarded = FALSE;
}

gboolean pictures_set_format(struct pictures *pictures, GstCaps *caps,
                             const struct gpud_layout *layout)
{
    struct video_planes planes;

    if (!video_info_from_caps(&pictures->info, caps))
        return FALSE;
    start_count(pictures, caps, layout);
    layout_to_planes(layout, &pictures->info, &planes);
    pictures->is_default = planes_are_default(&planes, &pictures->info);
    drop_pools(pictures);
    if (!make_pools(pictures, caps)) {
        drop_pools(pictures);
        return FALSE;
    }
    pictures->epoch = 0;
    pictures->layout = *layout;
    gst_caps_replace(&pictures->caps, caps);
    pictures->caps_gpu = pictures->gpu;
    return TRUE;
}

gboolean pictures_have_format(const struct pictures *pictures, const GstCaps *caps)
{
    return pictures->pool && pictures->caps_gpu == pictures->gpu &&
           gst_caps_is_equal(pictures->caps, caps);
}

void pictures_reset(struct pictures *pictures)
{
    drop_pools(pictures);
    g_clear_pointer(&pictures->outstanding, outstanding_unref);
    gst_clear_caps(&pictures->caps);
    g_atomic_int_set(&pictures->fills_files, FALSE);
    pictures->gpu = NULL;
}

GstFlowReturn pictures_alloc(struct pictures *pictures, GstBuffer **buffer)
{
    if (!pictures->gpu && !pictures->dmabufs)
        return GST_BASE_SRC_GET_CLASS(pictures->src)
            ->alloc(pictures->src, 0, (guint)pictures->info.size, buffer);
    *buffer = gst_gpudirect_pool_stand_in(pictures->dmabufs ? pictures->dmabufs : pictures->pool);
    return *buffer ? GST_FLOW_OK : GST_FLOW_ERROR;
}

GstFlowReturn pictures_copy(struct pictures *pictures, GstBuffer *slot, GstBuffer **buffer)
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

/* Whether downstream holds so many slots that it must get copies. Where frames wait for a slot, it
 * has a moment to release one, until it has shown that it does not; where they are lost, none. */
static gboolean is_hoarded(struct pictures *pictures, gboolean sender_waits)
{
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
    return is_hoarded(pictures, sender_waits);
}

/* --- dma-bufs ----------------------------------------------------------------------------- */

/* Whether the ring's memory serves, which is found out with the first frame of a format. */
static gboolean use_slots(struct pictures *pictures, struct gpud_frame *frame)
{
    struct gpud_error error;

    if (g_atomic_int_get(&pictures->dmabuf_use) != DMABUFS_UNUSED)
        return g_atomic_int_get(&pictures->dmabuf_use) == DMABUFS_SLOTS;
    gboolean slots = dmabuf_is_in_frame(frame, &error);
    if (!slots)
        GST_INFO_OBJECT(pictures->src, "pictures are copied into dma-bufs: %s", error.reason);
    g_atomic_int_set(&pictures->dmabuf_use, slots ? DMABUFS_SLOTS : DMABUFS_COPIES);
    return slots;
}

/* Drivers downstream know nothing of the ring's words, so they get whole pictures. */
static gboolean await_whole(struct gpud_frame *frame)
{
    struct gpud_error error;
    void *data;
    gboolean whole = gpud_frame_map(frame, GPUD_READ, SLOT_MAP_TIMEOUT, &data, &error) == GPUD_OK;

    if (whole)
        gpud_frame_unmap(frame);
    return whole;
}

/* Wraps a frame, or copies it where copy, or the kind of memory, requires that (*copied). Takes the
 * frame. GST_FLOW_CUSTOM_SUCCESS: its writer did not finish it, and there is no buffer. */
static GstFlowReturn pictures_wrap(struct pictures *pictures, struct gpud_frame *frame,
                                   gboolean copy, gboolean *copied, GstBuffer **buffer)
{
    GstBufferPool *pool = pictures->pool;

    if (pictures->dmabufs && use_slots(pictures, frame) && !copy) {
        pool = pictures->dmabufs;
        if (!await_whole(frame)) {
            gpud_frame_release(&frame);
            return GST_FLOW_CUSTOM_SUCCESS;
        }
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

/* === feed ==================================================================================== */
/* The current input: opened, replaced, counted and interrupted. */

void feed_init(struct feed *feed, feed_open_input open_input, void *user)
{
    feed->open_input = open_input;
    feed->user = user;
    g_mutex_init(&feed->lock);
    g_cond_init(&feed->flushed);
}

void feed_finish(struct feed *feed)
{
    g_mutex_clear(&feed->lock);
    g_cond_clear(&feed->flushed);
    g_free(feed->device);
}

/* --- counting ----------------------------------------------------------------------------- */

static void add_counters(struct input_info *info, const struct input_info *more)
{
    info->frames += more->frames;
    info->dropped += more->dropped;
    info->corrupted += more->corrupted;
    info->connects += more->connects;
    info->disconnects += more->disconnects;
    info->copies_cpu += more->copies_cpu;
    info->copies_gpu += more->copies_gpu;
    info->waits_cpu += more->waits_cpu;
    info->waits_device += more->waits_device;
    info->kicks += more->kicks;
}

void feed_get_info(struct feed *feed, struct input_info *info)
{
    memset(info, 0, sizeof(*info));
    g_strlcpy(info->path, "none", sizeof(info->path));
    g_mutex_lock(&feed->lock);
    if (feed->input)
        feed->input->ops->get_info(feed->input, info);
    g_strlcpy(info->device, feed->device ? feed->device : "none", sizeof(info->device));
    add_counters(info, &feed->past);
    g_mutex_unlock(&feed->lock);
}

void feed_count_anew(struct feed *feed)
{
    struct input_info info;

    g_mutex_lock(&feed->lock);
    feed->input->ops->get_info(feed->input, &info);
    memset(&feed->past, 0, sizeof(feed->past));
    feed->past.frames = -info.frames;
    feed->past.dropped = -info.dropped;
    feed->past.corrupted = -info.corrupted;
    feed->past.connects = 1 - info.connects;
    feed->past.disconnects = -info.disconnects;
    feed->past.copies_cpu = -info.copies_cpu;
    feed->past.copies_gpu = -info.copies_gpu;
    feed->interrupted = FALSE;
    feed->input->ops->interrupt(feed->input, FALSE);
    g_mutex_unlock(&feed->lock);
    feed->dropped_seen = info.dropped;
    __atomic_store_n(&feed->skipped, 0, __ATOMIC_RELAXED);
}

/* How many frames were lost since the last one, from this frame's count of dropped ones. */
static guint64 feed_count_lost(struct feed *feed, guint64 dropped)
{
    guint64 lost = dropped > feed->dropped_seen ? dropped - feed->dropped_seen : 0;

    feed->dropped_seen = dropped;
    return lost;
}

static void ask_for_slots(struct feed *feed)
{
    if (feed->input && feed->slots_wanted && input_is_of_sender(feed->input->ops))
        feed->input->ops->want_slots(feed->input, feed->slots_wanted);
}

/* --- opening and closing ------------------------------------------------------------------ */

gboolean feed_open(struct feed *feed, const gchar *device, struct gpud_error *error)
{
    struct input *input;

    if (feed->open_input(feed->user, device, &input, error) != GPUD_OK)
        return FALSE;
    g_mutex_lock(&feed->lock);
    feed->input = input;
    feed->device = g_strdup(device);
    feed->interrupted = FALSE;
    __atomic_store_n(&feed->skipped, 0, __ATOMIC_RELAXED);
    memset(&feed->past, 0, sizeof(feed->past));
    g_mutex_unlock(&feed->lock);
    return TRUE;
}

void feed_close(struct feed *feed)
{
    g_mutex_lock(&feed->lock);
    struct input *input = g_steal_pointer(&feed->input);
    g_clear_pointer(&feed->device, g_free);
    feed->slots_wanted = 0;
    memset(&feed->past, 0, sizeof(feed->past));
    g_mutex_unlock(&feed->lock);
    feed->dropped_seen = 0;
    if (input)
        input->ops->close(input);
}

gboolean feed_replace(struct feed *feed, const gchar *device, struct gpud_error *error)
{
    gchar *chosen = g_strdup(device ? device : feed->device);
    struct input_info counted;
    struct input *input;
    enum gpud_status status = feed->open_input(feed->user, chosen, &input, error);

    if (status != GPUD_OK) {
        g_free(chosen);
        return FALSE;
    }
    g_mutex_lock(&feed->lock);
    struct input *old = feed->input;
    old->ops->get_info(old, &counted);
    counted.disconnects += counted.connected;
    add_counters(&feed->past, &counted);
    feed->input = input;
    ask_for_slots(feed);
    g_free(feed->device);
    feed->device = chosen;
    input->ops->interrupt(input, feed->interrupted);
    g_mutex_unlock(&feed->lock);
    old->ops->close(old);
    feed->dropped_seen = 0; /* the new one counts from 0 */
    return TRUE;
}

/* --- interrupting ------------------------------------------------------------------------- */

void feed_set_group(struct feed *feed, const gchar *name, GstElement *element)
{
    struct group_member *joined = name ? group_join(name, element) : NULL;

    g_mutex_lock(&feed->lock);
    struct group_member *left = feed->group;
    feed->group = joined;
    g_mutex_unlock(&feed->lock);
    if (left)
        group_leave(left);
}

gboolean feed_get_group_counts(struct feed *feed, guint64 *dropped, guint64 *missed)
{
    g_mutex_lock(&feed->lock);
    gboolean joined = feed->group != NULL;
    if (joined)
        group_get_counts(feed->group, dropped, missed);
    g_mutex_unlock(&feed->lock);
    return joined;
}

void feed_add_stats(struct feed *feed, GstStructure *stats)
{
    g_mutex_lock(&feed->lock);
    if (feed->input && feed->input->ops->kind == INPUT_PAIR)
        feed->input->ops->add_stats(feed->input, stats);
    g_mutex_unlock(&feed->lock);
}

void feed_interrupt(struct feed *feed, gboolean interrupted)
{
    g_mutex_lock(&feed->lock);
    feed->interrupted = interrupted;
    if (feed->input)
        feed->input->ops->interrupt(feed->input, interrupted);
    if (feed->group)
        group_interrupt(feed->group, interrupted);
    g_mutex_unlock(&feed->lock);
}

void feed_want_slots(struct feed *feed, guint slots)
{
    g_mutex_lock(&feed->lock);
    gboolean changed = feed->slots_wanted != slots;
    feed->slots_wanted = slots;
    if (changed)
        ask_for_slots(feed);
    g_mutex_unlock(&feed->lock);
}

void feed_resume(struct feed *feed)
{
    g_mutex_lock(&feed->lock);
    feed->input->ops->interrupt(feed->input, feed->interrupted);
    g_mutex_unlock(&feed->lock);
}

void feed_set_flushing(struct feed *feed, gboolean flushing)
{
    g_mutex_lock(&feed->lock);
    g_atomic_int_set(&feed->flushing, flushing);
    g_cond_broadcast(&feed->flushed);
    g_mutex_unlock(&feed->lock);
    feed_interrupt(feed, flushing);
}

gboolean feed_sleep_until(struct feed *feed, gint64 time)
{
    g_mutex_lock(&feed->lock);
    while (!feed_is_flushing(feed) && g_cond_wait_until(&feed->flushed, &feed->lock, time))
        ;
    gboolean flushing = feed_is_flushing(feed);
    g_mutex_unlock(&feed->lock);
    return flushing;
}

/* === create ================================================================================== */
/* gpudirectsrc's loop: a frame becomes a buffer. */

/* Between two looks at the number of slots. */
#define SLOTS_INTERVAL (100 * GST_MSECOND)

/* An acquire that took this long has slept: one that finds a frame is much faster. */
#define SLEPT (200 * GST_USECOND)

/* --- describing the picture --------------------------------------------------------------- */

/* Once: further losses are in QoS messages and stats. A receiver with a policy of its own loses
 * pictures by intention. */
static void report_loss(GstGpudirectSrc *self, guint64 lost)
{
    GstClockTime interval = self->latency.interval;

    if (self->loss_reported || !GST_CLOCK_TIME_IS_VALID(interval) ||
        self->blocked_longest <= interval ||
        self->endpoint.running.slow_receiver != GPUD_SLOW_DEFAULT)
        return;
    self->loss_reported = TRUE;
    GST_ELEMENT_WARNING(
        self, RESOURCE, READ,
        ("Pictures are lost, %" G_GUINT64_FORMAT " so far: the elements downstream took %u ms for "
         "one, while one comes every %u ms and the ring has %u slots. If they only wait, put this "
         "behind gpudirectsrc: queue max-size-buffers=0 max-size-bytes=0 max-size-time=3000000000. "
         "If they are too slow, let them do less.",
         lost, (guint)(self->blocked_longest / GST_MSECOND), (guint)(interval / GST_MSECOND),
         self->pictures.slots),
        (NULL));
}

static void note_drops(GstGpudirectSrc *self, guint64 dropped, GstBuffer *buffer)
{
    guint64 lost = feed_count_lost(&self->feed, dropped) + self->skipped_unreported;

    self->skipped_unreported = 0;
    if (lost > 0)
        report_loss(self, lost);
    self->blocked_longest = 0;
    if (lost == 0)
        return;
    self->dropped += lost;
    if (self->blocks.expected) /* samples are missing, which cannot be shown once more */
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DISCONT);
    GstClockTime pts = GST_BUFFER_PTS(buffer);
    GstMessage *message =
        gst_message_new_qos(GST_OBJECT(self), TRUE, pts, pts, pts, GST_BUFFER_DURATION(buffer));
    gst_message_set_qos_stats(message, GST_FORMAT_BUFFERS, self->frames, self->dropped);
    gst_element_post_message(GST_ELEMENT(self), message);
}

static gboolean adds_submit_time(GstGpudirectSrc *self)
{
    return g_atomic_int_get(&self->options.adds_submit_time);
}

static void create_measure(GstGpudirectSrc *self, gint64 late, gboolean sender_waits)
{
    latency_measure(&self->latency, late, timeline_late_max(&self->times.line),
                    self->times.acquired_at, sender_waits);
}

/* To a sink behind this element a sender that is not live is like a file: it waits for receivers. A
 * sender without metadata does not say. */
static void note_sender_live(GstGpudirectSrc *self, gboolean live)
{
    gboolean changed = (g_atomic_int_get(&self->sender_live) != FALSE) != live;

    g_atomic_int_set(&self->sender_live, live);
    if (changed)
        gst_pad_push_event(GST_BASE_SRC_PAD(self), event_new_sender_live());
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
    note_sender_live(self, !read || head.live);
    if (self->feed.input->ops->kind == INPUT_PAIR)
        self->feed.input->ops->place(self->feed.input, info, &head);
    times_stamp_linked(&self->times, self->feed.input, info, &head, buffer, &timing);
    gst_gpudirect_src_push_events(self, TRUE);
    if (GST_CLOCK_TIME_IS_VALID(timing.frame.submitted) && adds_submit_time(self))
        meta_add_submit_time(buffer, timing.frame.submitted);
    create_measure(self, times_learn(&self->times, self->feed.input, &head, &timing, buffer),
                   !head.drops);
}

static void describe_captured(GstGpudirectSrc *self, const struct gpud_frame_info *info,
                              GstBuffer *buffer)
{
    GstClockTime captured = wire_time(info->pts_ns);
    gint64 late;

    if (GST_CLOCK_TIME_IS_VALID(captured) && adds_submit_time(self))
        meta_add_capture_time(buffer, captured);
    if (times_stamp_captured(&self->times, info, buffer, &late))
        create_measure(self, late, FALSE);
}

static void set_fields(uint32_t flags, GstBuffer *buffer)
{
    if (flags & GPUD_FRAME_INTERLACED)
        GST_BUFFER_FLAG_SET(buffer, GST_VIDEO_BUFFER_FLAG_INTERLACED);
    if (flags & GPUD_FRAME_TOP_FIELD)
        GST_BUFFER_FLAG_SET(buffer, GST_VIDEO_BUFFER_FLAG_TOP_FIELD);
    else if (flags & GPUD_FRAME_BOTTOM_FIELD)
        GST_BUFFER_FLAG_SET(buffer, GST_VIDEO_BUFFER_FLAG_BOTTOM_FIELD);
    else if (flags & GPUD_FRAME_TOP_FIRST)
        GST_BUFFER_FLAG_SET(buffer, GST_VIDEO_BUFFER_FLAG_TFF);
}

static void create_describe(GstGpudirectSrc *self, struct gpud_frame_info *info, GstBuffer *buffer)
{
    frame_flags_to_buffer(info->flags, buffer);
    GST_BUFFER_DURATION(buffer) = wire_time(info->duration_ns);
    GST_BUFFER_OFFSET(buffer) = info->offset;
    GST_BUFFER_OFFSET_END(buffer) = GST_BUFFER_OFFSET_NONE;
    if (self->feed.input->ops->kind == INPUT_CARD)
        set_fields(info->flags, buffer);
    if (input_is_of_sender(self->feed.input->ops))
        describe_linked(self, info, buffer);
    else
        describe_captured(self, info, buffer);
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
    gchar *name = layout_format_name(layout);

    GST_ELEMENT_ERROR(
        self, STREAM, FORMAT,
        ("A frame of %ux%u %s arrived, but %ux%u %s was announced: the sender breaks the "
         "protocol, use a gpudirectsink of the same release.",
         layout->width, layout->height, name, wanted->width, wanted->height, wanted->format),
        ("%" G_GUINT64_FORMAT " bytes in %u planes instead of %" G_GUINT64_FORMAT " in %u",
         layout->size, layout->planes, wanted->size, wanted->planes));
    g_free(name);
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

static void note_skipped(GstGpudirectSrc *self)
{
    times_note_skipped(&self->times);
    self->discont = TRUE;
    self->skipped_unreported++;
    __atomic_fetch_add(&self->feed.skipped, 1, __ATOMIC_RELAXED);
}

static void skip(GstGpudirectSrc *self, struct gpud_frame **frame)
{
    gpud_frame_release(frame);
    note_skipped(self);
}

/* *buffer stays NULL where the sender died within the block. */
static GstFlowReturn deliver_block(GstGpudirectSrc *self, struct gpud_frame *frame,
                                   GstBuffer **buffer)
{
    struct gpud_frame_info info;
    struct gpud_error error;
    GstAllocator *allocator = NULL;
    guint passed = self->feed.input->skip;

    if (g_atomic_int_get(&self->pictures.fills_files))
        gst_base_src_get_allocator(GST_BASE_SRC(self), &allocator, NULL);
    enum gpud_status status = blocks_copy(&self->blocks, frame, passed, allocator,
                                          self->endpoint.counters, buffer, &error);
    gst_clear_object(&allocator);
    info.size = sizeof(info);
    gpud_frame_get_info(frame, &info);
    if (status != GPUD_OK) {
        GST_WARNING_OBJECT(self, "a block is left out: %s", error.reason);
        skip(self, &frame);
        return GST_FLOW_OK;
    }
    blocks_skip(&self->blocks, passed, &info);
    create_describe(self, &info, *buffer);
    gpud_frame_release(&frame); /* it has the large meta */
    blocks_describe(&self->blocks, *buffer);
    GST_LOG_OBJECT(self, "a block: %" GST_PTR_FORMAT, *buffer);
    src_signal_here(&self->signal, *buffer);
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
        note_skipped(self);
        return GST_FLOW_OK;
    }
    if (flow == GST_FLOW_ERROR)
        GST_ELEMENT_ERROR(self, RESOURCE, READ,
                          ("A frame cannot be passed on: look at the log of gpudirectcore."),
                          (NULL));
    if (flow != GST_FLOW_OK)
        return flow;
    GST_LOG_OBJECT(self, "%s %" GST_PTR_FORMAT, copy ? "a copy:" : "a slot:", *buffer);
    src_signal_here(&self->signal, *buffer);
    return GST_FLOW_OK;
}

/* --- the group ---------------------------------------------------------------------------- */

static void drop_for_group(GstGpudirectSrc *self, GstBuffer **buffer)
{
    gst_clear_buffer(buffer);
    self->discont = TRUE;
    self->skipped_unreported++;
    __atomic_fetch_add(&self->feed.skipped, 1, __ATOMIC_RELAXED);
}

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
    GST_OBJECT_LOCK(self);
    frame.latency = self->options.group_latency;
    GST_OBJECT_UNLOCK(self);
    switch (group_offer(self->feed.group, &frame)) {
    case GROUP_SEND:
        return GST_FLOW_OK;
    case GROUP_DROP:
        drop_for_group(self, buffer);
        return GST_FLOW_OK;
    default:
        drop_for_group(self, buffer);
        return gst_gpudirect_src_no_frame(self, GPUD_AGAIN, &error);
    }
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
    /* A newer block does not replace the one before it. */
    gboolean counts = !self->blocks.expected || info->submitted_ns == 0;
    guint rings = is_pair ? 2 : 1;

    if (self->blocks.expected && !self->blocks.are_sound)
        return in_pause || times_is_past(&self->times, info, head);
    /* At most what the rings hold is skipped, so that a sender that is always ahead is still shown.
     */
    if (((counts && ops->count_frames(self->feed.input) > 0) ||
         (in_pause && (is_pair || self->blocks.expected)) ||
         times_is_arrival_unknown(&self->times, info, head)) &&
        self->beginning.skipped_in_row++ < rings * self->pictures.slots)
        return TRUE;
    return times_is_past(&self->times, info, head);
}

/* Whether a frame was captured before PLAYING, while the pipeline's time did not run. A driver
 * without a clock has at most as many of these as it has buffers. */
static gboolean is_stale_capture(GstGpudirectSrc *self, struct gpud_frame *frame)
{
    struct gpud_frame_info info;

    if (!self->beginning.pending)
        return FALSE;
    info.size = sizeof(info);
    gpud_frame_get_info(frame, &info);
    if (info.pts_ns != GPUD_TIME_NONE)
        self->beginning.pending = info.pts_ns < self->beginning.resumed_at;
    else
        self->beginning.pending = !self->times.waited && self->beginning.skipped_in_row++ <
                                                             self->endpoint.running.slots + 2;
    if (!self->beginning.pending)
        self->beginning.skipped_in_row = 0;
    return self->beginning.pending;
}

/* Whether to skip a frame after connecting and after a pause. Frames of a sender that waits for
 * slow receivers are never skipped, as its receivers want every frame. */
static gboolean is_stale(GstGpudirectSrc *self, struct gpud_frame *frame)
{
    struct gpud_frame_info info;
    struct wire_head head;

    info.size = sizeof(info);
    if (g_atomic_int_compare_and_exchange(&self->beginning.resumed, TRUE, FALSE)) {
        self->beginning.pending = TRUE;
        gst_gpudirect_src_break_stream(self);
    }
    if (self->feed.input->ops->kind == INPUT_CARD)
        return is_stale_capture(self, frame);
    if (!self->beginning.pending)
        return FALSE;
    gpud_frame_get_info(frame, &info);
    struct unpack unpack = {.data = info.meta, .left = info.meta_size};
    self->beginning.pending = src_options_read(&self->options, self).start == START_NEWEST &&
                              input_is_of_sender(self->feed.input->ops) &&
                              wire_head_unpack(&unpack, &head) && head.drops &&
                              is_no_beginning(self, &info, &head);
    if (!self->beginning.pending)
        self->beginning.skipped_in_row = 0;
    return self->beginning.pending;
}

/* Takes the next frame, and notes whether it had to be waited for. before: the present time. */
static enum gpud_status create_take(GstGpudirectSrc *self, GstClockTime before,
                                    struct gpud_frame **frame, struct gpud_error *error)
{
    const struct input_ops *ops = self->feed.input->ops;
    gint64 max_wait = gst_gpudirect_src_max_wait(self, before);

    if (self->link.card_lost) {
        enum gpud_status back = ops->wait(self->feed.input, max_wait, error);
        if (back != GPUD_OK)
            return back;
        gst_gpudirect_src_card_back(self);
    }
    card_select_input(&self->card, &self->feed, GST_ELEMENT(self));
    if (input_is_of_sender(ops))
        self->times.waited = ops->count_frames(self->feed.input) == 0;
    enum gpud_status status = ops->acquire(self->feed.input, max_wait, frame, error);
    GstClockTime now = monotonic_now();
    /* Trying without waiting first would cost a system call per frame. */
    if (!input_is_of_sender(ops))
        self->times.waited = now - before >= SLEPT;
    if (status == GPUD_OK)
        times_note_acquired(&self->times, now, src_options_late_max(&self->options));
    return status;
}

static GstFlowReturn create_next(GstGpudirectSrc *self, GstClockTime now, GstBuffer **buffer)
{
    for (;; now = monotonic_now()) {
        struct gpud_frame *frame = NULL;
        struct gpud_error error;
        if (src_signal_stand_in(&self->signal, buffer))
            return GST_FLOW_OK;
        if (gst_gpudirect_src_is_held_off(self))
            continue;
        enum gpud_status status = create_take(self, now, &frame, &error);
        gboolean yielded = gst_gpudirect_src_end_yield(self) && status == GPUD_AGAIN, moved;
        GstFlowReturn flow = gst_gpudirect_src_take_updates(self, &moved);

        if (status == GPUD_OK && flow == GST_FLOW_OK && !moved &&
            !updates_end_link(&self->updates)) {
            if (is_stale(self, frame)) {
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
            flow = gst_gpudirect_src_cut_link(self);
        else if (flow == GST_FLOW_OK && !yielded && !moved)
            flow = gst_gpudirect_src_no_frame(self, status, &error);
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

/* === kept ==================================================================================== */
/* A capture card is opened in READY, where its formats are queried, and stays open until NULL. The
 * properties that it was opened with are kept, to reopen it when they have changed. */

gboolean kept_card_is_card(const struct settings *settings)
{
    return settings->address && settings->address[0] &&
           input_ops_for(settings->address)->kind == INPUT_CARD;
}

void kept_card_note(struct kept_card *kept, const struct settings *settings, enum io_mode io_mode)
{
    settings_copy(&kept->settings, settings);
    kept->io_mode = io_mode;
}

void kept_card_clear(struct kept_card *kept)
{
    settings_clear(&kept->settings);
}

gboolean kept_card_serves(const struct kept_card *kept, const struct settings *settings,
                          enum io_mode io_mode)
{
    const struct settings *then = &kept->settings;

    return kept_card_is_card(settings) && g_strcmp0(settings->address, then->address) == 0 &&
           g_strcmp0(settings->device, then->device) == 0 && settings->slots == then->slots &&
           settings->require_direct == then->require_direct && io_mode == kept->io_mode;
}
