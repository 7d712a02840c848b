/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Caps, and blocks of sound and data. */
#include "src/src.h"

#include "base/plugin.h"
#include "memory/memory.h"
#include "wire/codec.h"

#include <gst/base/gstbasesink.h>

/* === blocks ================================================================================== */
/* Blocks of sound and data, and the buffers that hold them. Each is copied, so that downstream may
 * keep as many as it likes without a slot of the ring. */

/* Sets the format of the frames that follow. FALSE: it is that of pictures. */
static gboolean blocks_set_format(struct blocks *blocks, const struct gpud_media *media,
                                  GstCaps *caps)
{
    blocks->expected = media->kind != GPUD_MEDIA_PICTURE;
    blocks->are_sound = blocks_are_sound(media);
    if (blocks->are_sound && !gst_audio_info_from_caps(&blocks->info, caps))
        return FALSE;
    return blocks->expected;
}

static gsize samples_of(const struct blocks *blocks, gsize bytes)
{
    return bytes / (gsize)blocks->info.bpf;
}

/* Each channel's samples, where they lie apart, or all. */
static void blocks_fill(const struct blocks *blocks, GstBuffer *buffer, const guint8 *data,
                        gsize bytes, gsize skipped)
{
    gboolean apart = blocks->are_sound && blocks->info.layout == GST_AUDIO_LAYOUT_NON_INTERLEAVED;
    gsize planes = apart ? (gsize)blocks->info.channels : 1;
    gsize plane = bytes / planes, left = (bytes - skipped) / planes;

    for (gsize i = 0; i < planes; i++)
        gst_buffer_fill(buffer, i * left, data + i * plane + (plane - left), left);
}

enum gpud_status blocks_copy(const struct blocks *blocks, struct gpud_frame *frame, guint skip,
                             GstAllocator *allocator, struct counters *counters, GstBuffer **buffer,
                             struct gpud_error *error)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    void *data;

    gpud_frame_get_info(frame, &info);
    enum gpud_status status = gpud_frame_map(frame, GPUD_READ, GPUD_SEC, &data, error);
    if (status != GPUD_OK)
        return status;
    gsize skipped = blocks->are_sound ? skip * (gsize)blocks->info.bpf : 0;
    gsize size = info.bytes > skipped ? (gsize)info.bytes - skipped : 0;
    *buffer = gst_buffer_new_allocate(allocator, size, NULL);
    if (!*buffer) /* of a file, say, where descriptors run out */
        *buffer = gst_buffer_new_allocate(NULL, size, NULL);
    blocks_fill(blocks, *buffer, data, (gsize)info.bytes, (gsize)info.bytes - size);
    gpud_frame_unmap(frame);
    counter_add(&counters->copies_cpu);
    if (blocks->are_sound && blocks->info.layout == GST_AUDIO_LAYOUT_NON_INTERLEAVED)
        gst_buffer_add_audio_meta(*buffer, &blocks->info, samples_of(blocks, size), NULL);
    return GPUD_OK;
}

static guint64 moved_by(guint64 time, gint64 by)
{
    return GST_CLOCK_TIME_IS_VALID(wire_time(time)) ? time + (guint64)by : time;
}

void blocks_skip(const struct blocks *blocks, guint skip, struct gpud_frame_info *info)
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

void blocks_describe(const struct blocks *blocks, GstBuffer *buffer)
{
    /* Of a part, if the sender split the buffer. */
    if (blocks->are_sound)
        GST_BUFFER_OFFSET_END(buffer) =
            GST_BUFFER_OFFSET_IS_VALID(buffer)
                ? GST_BUFFER_OFFSET(buffer) + samples_of(blocks, gst_buffer_get_size(buffer))
                : GST_BUFFER_OFFSET_NONE;
}

/* === format ================================================================================== */
/* gpudirectsrc's caps, pool and allocation. */

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

static GstBaseSrcClass *parent_class;

/* Cuts the link if the element is set to wait for another sender; else posts an error. */
static GstFlowReturn refuse_format(GstGpudirectSrc *self, gchar *reason)
{
    if (src_options_wait_for_senders(&self->options)) {
        g_free(self->updates.unusable);
        self->updates.unusable = reason;
        return GST_FLOW_OK;
    }
    GST_ELEMENT_ERROR(self, STREAM, FORMAT, ("The sender's format cannot be used: %s.", reason),
                      (NULL));
    g_free(reason);
    return GST_FLOW_ERROR;
}

static gboolean set_format(GstGpudirectSrc *self, GstCaps *caps, const struct gpud_media *media)
{
    gboolean are_blocks = blocks_set_format(&self->blocks, media, caps);
    self->signal.may_be_silent = are_blocks && !self->blocks.are_sound;
    if (!are_blocks)
        return media->kind == GPUD_MEDIA_PICTURE &&
               gst_gpudirect_src_set_format(self, caps, &media->picture.layout);
    pictures_reset(&self->pictures);
    src_signal_forget(&self->signal);
    latency_note_interval(&self->latency, GST_CLOCK_TIME_NONE);
    return TRUE;
}

/* Applies the format that the sender announced. */
static GstFlowReturn gst_gpudirect_src_take_format(GstGpudirectSrc *self,
                                                   const struct gpud_format_event *format)
{
    GstVideoInfo info;
    gchar *reason = NULL;
    GstCaps *caps = media_to_caps(&format->media, self->names, &info, &reason);

    if (!caps)
        return refuse_format(self, reason);
    /* Queries downstream now, because a refused CAPS event would show only with the next buffer. */
    GstCaps *agreed = gst_gpudirect_src_agree(self, gst_caps_ref(caps), &self->pictures.gpu);
    if (agreed)
        gst_caps_replace(&caps, agreed);
    GST_DEBUG_OBJECT(self, "the sender's format: %" GST_PTR_FORMAT, caps);
    gboolean taken = agreed && set_format(self, caps, &format->media) &&
                     gst_base_src_set_caps(GST_BASE_SRC(self), caps) &&
                     gst_base_src_negotiate(GST_BASE_SRC(self));
    if (!taken && !feed_is_flushing(&self->feed)) {
        gchar *advice = gst_gpudirect_src_advice(self, caps);
        GST_ELEMENT_ERROR(
            self, CORE, NEGOTIATION,
            ("The elements downstream do not accept the sender's format: %s.", advice),
            ("%" GST_PTR_FORMAT, caps));
        g_free(advice);
    }
    gst_clear_caps(&agreed);
    gst_caps_unref(caps);
    return taken                           ? GST_FLOW_OK
           : feed_is_flushing(&self->feed) ? GST_FLOW_FLUSHING
                                           : GST_FLOW_NOT_NEGOTIATED;
}

/* --- slots -------------------------------------------------------------------------------- */

/* Elements between the source and a sink, at most; it also ends where pads form a circle. */
#define DEPTH_MAX 64

static GstClockTime offset_behind(GstPad *pad, guint depth);

/* Of the sink that has the pad, or of those behind its element. */
static GstClockTime offset_at(GstPad *sink_pad, guint depth)
{
    GstObject *parent = gst_pad_get_parent(sink_pad);
    GstClockTime offset = 0;

    if (GST_IS_BASE_SINK(parent)) {
        GstBaseSink *sink = GST_BASE_SINK(parent);
        gint64 later = gst_base_sink_get_sync(sink) ? gst_base_sink_get_ts_offset(sink) : 0;
        offset = later > 0 ? (GstClockTime)later : 0;
    } else {
        GstIterator *links = gst_pad_iterate_internal_links(sink_pad);
        GValue link = G_VALUE_INIT;
        while (links && gst_iterator_next(links, &link) == GST_ITERATOR_OK) {
            offset = MAX(offset, offset_behind(g_value_get_object(&link), depth));
            g_value_reset(&link);
        }
        g_value_unset(&link);
        g_clear_pointer(&links, gst_iterator_free);
    }
    gst_clear_object(&parent);
    return offset;
}

/* How much later than by the pipeline's latency the sinks behind a pad show pictures: their
 * ts-offset, which no query tells. */
static GstClockTime offset_behind(GstPad *pad, guint depth)
{
    GstPad *peer = depth < DEPTH_MAX ? gst_pad_get_peer(pad) : NULL;
    GstClockTime offset = peer ? offset_at(peer, depth + 1) : 0;

    gst_clear_object(&peer);
    return offset;
}

/* Asks the sender for the slots that pictures at this interval need until they are shown. From any
 * thread. */
static void gst_gpudirect_src_want_slots(GstGpudirectSrc *self, GstClockTime interval)
{
    guint slots = latency_slots(&self->latency, interval, offset_behind(GST_BASE_SRC_PAD(self), 0));

    /* A number that the user has raised is asked of the sender, too. */
    if (self->endpoint.running.slots > SLOTS_DEFAULT)
        slots = MAX(slots, self->endpoint.running.slots);
    GST_DEBUG_OBJECT(self, "the ring needs %u slots", slots);
    if (slots)
        feed_want_slots(&self->feed, slots);
}

void gst_gpudirect_src_note_latency(GstGpudirectSrc *self, GstClockTime latency)
{
    latency_note_pipeline(&self->latency, latency);
    GST_OBJECT_LOCK(self);
    GstClockTime interval = self->latency.interval;
    GST_OBJECT_UNLOCK(self);
    gst_gpudirect_src_want_slots(self, interval);
}

/* --- caps and allocation ------------------------------------------------------------------ */

gboolean gst_gpudirect_src_set_format(GstGpudirectSrc *self, GstCaps *caps,
                                      const struct gpud_layout *layout)
{
    struct input *input = self->feed.input;
    struct input_info info;

    if (!pictures_have_format(&self->pictures, caps))
        src_signal_forget_pictures(&self->signal);
    if (!pictures_set_format(&self->pictures, caps, layout))
        return FALSE;
    latency_note_interval(&self->latency, layout_interval(&self->pictures.info));
    if (input->ops->kind != INPUT_CARD)
        return TRUE;
    input->ops->get_info(input, &info);
    if (info.stamps_start)
        latency_expect_exposure(&self->latency, timeline_late_max(&self->times.line));
    return TRUE;
}

static GstCaps *src_get_caps(GstBaseSrc *base, GstCaps *filter)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(base);
    GstCaps *caps = NULL;

    GST_OBJECT_LOCK(self);
    gboolean known = self->endpoint.started || gst_gpudirect_src_keeps_card(self);
    GST_OBJECT_UNLOCK(self);
    g_mutex_lock(&self->feed.lock);
    if (known && self->feed.input && !input_is_of_sender(self->feed.input->ops))
        caps = self->feed.input->ops->get_caps(self->feed.input,
                                               caps_are_dmabufs(filter) ? NULL : filter);
    g_mutex_unlock(&self->feed.lock);
    caps =
        caps ? gst_gpudirect_src_offer_card(self, caps)
             : gst_gpudirect_src_offer(self, gst_pad_get_pad_template_caps(GST_BASE_SRC_PAD(base)));
    /* A pad that appears with sound, as in a programme, is not linked to what shows pictures. */
    GstCaps *current = gst_pad_get_current_caps(GST_BASE_SRC_PAD(base));
    if (current)
        caps = blocks_keep_like(caps, current);
    gst_clear_caps(&current);
    return endpoint_filter_caps(caps_filter_dmabufs(caps, filter), filter);
}

/* A third-party writer cannot be asked for its format, so the caps must state it. */
static GstCaps *check_stated(GstGpudirectSrc *self, GstCaps *caps)
{
    GstStructure *structure = NULL;

    caps = gst_caps_truncate(gst_caps_make_writable(caps));
    if (!gst_caps_is_empty(caps))
        structure = gst_caps_get_structure(caps, 0);
    if (!structure || !gst_structure_has_field_typed(structure, "format", G_TYPE_STRING) ||
        !gst_structure_has_field_typed(structure, "width", G_TYPE_INT) ||
        !gst_structure_has_field_typed(structure, "height", G_TYPE_INT)) {
        GST_ELEMENT_ERROR(self, STREAM, FORMAT,
                          ("The format of \"%s\" is unknown: put a capsfilter behind "
                           "this element, as in video/x-raw,format=UYVY,width=1920,height=1080,"
                           "framerate=50/1.",
                           self->endpoint.running.address),
                          ("%" GST_PTR_FORMAT, caps));
        gst_caps_unref(caps);
        return gst_caps_new_empty();
    }
    gst_structure_fixate_field_nearest_fraction(structure, "framerate", 0, 1);
    return gst_caps_fixate(caps);
}

static GstCaps *src_fixate(GstBaseSrc *base, GstCaps *caps)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(base);

    if (self->feed.input && self->feed.input->ops->kind == INPUT_TARGET)
        return check_stated(self, caps);
    struct capture_wish wish = {0};
    g_mutex_lock(&self->feed.lock);
    if (self->feed.input && self->feed.input->ops->kind == INPUT_CARD)
        self->feed.input->ops->get_wish(self->feed.input, &wish);
    g_mutex_unlock(&self->feed.lock);
    return capture_choose(caps, &wish);
}

static void refuse_caps(GstGpudirectSrc *self, const GstCaps *wanted)
{
    GstCaps *has = gst_pad_query_caps(GST_BASE_SRC_PAD(self), NULL);
    gchar *reason = capture_explain_refusal(has, wanted);

    GST_ELEMENT_ERROR(
        self, STREAM, FORMAT,
        ("The elements downstream accept no format of %s: %s.", self->feed.input->ops->what,
         reason),
        ("there is %" GST_PTR_FORMAT ", and wanted is %" GST_PTR_FORMAT, has, wanted));
    gst_caps_unref(has);
    g_free(reason);
}

/* The best caps that both sides support, fixated; NULL: there are none, and an error was posted. */
static GstCaps *choose_caps(GstGpudirectSrc *self)
{
    GstBaseSrc *base = GST_BASE_SRC(self);
    GstPad *pad = GST_BASE_SRC_PAD(base);
    GstCaps *wanted = gst_pad_peer_query_caps(pad, NULL);
    GstCaps *common = gst_pad_query_caps(pad, wanted);

    if (gst_caps_is_empty(common))
        refuse_caps(self, wanted);
    else
        common = src_fixate(base, gst_caps_make_writable(common));
    gst_caps_unref(wanted);
    if (gst_caps_is_empty(common)) /* an error was posted */
        gst_clear_caps(&common);
    return common;
}

/* The driver may adjust the negotiated caps, which it knows as those of plain memory. */
static enum gpud_status configure_card(GstGpudirectSrc *self, GstCaps **caps,
                                       struct gpud_layout *layout, struct gpud_error *error)
{
    struct input *input = self->feed.input;

    if (!caps_are_dmabufs(*caps))
        return input->ops->configure(input, caps, layout, error);
    if (!dmabuf_can_be_made(error))
        return error->status;
    GstCaps *plain = caps_out_of_dmabufs(*caps);
    enum gpud_status status = input->ops->configure(input, &plain, layout, error);
    GstCaps *adjusted = status == GPUD_OK ? caps_into_dmabufs_like(plain, *caps) : NULL;
    if (adjusted)
        gst_caps_take(caps, adjusted);
    gst_caps_unref(plain);
    return status;
}

static gboolean set_up_card(GstGpudirectSrc *self)
{
    struct gpud_layout layout;
    struct gpud_error error;
    GstCaps *caps = choose_caps(self);

    if (!caps)
        return FALSE;
    gboolean done = FALSE;
    if (configure_card(self, &caps, &layout, &error) != GPUD_OK) {
        gchar *what = g_strdup_printf("Cannot get frames of %s", self->feed.input->ops->what);
        gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_OPEN_SOURCE, &error, what);
        g_free(what);
    } else {
        self->pictures.gpu = gst_gpudirect_src_gpu_of_caps(self, caps);
        done = gst_gpudirect_src_set_format(self, caps, &layout) &&
               gst_base_src_set_caps(GST_BASE_SRC(self), caps);
    }
    gst_caps_unref(caps);
    return done;
}

static gboolean take_signal(GstGpudirectSrc *self, GstCaps *caps, const struct gpud_layout *layout)
{
    GstCaps *agreed = gst_gpudirect_src_agree(self, gst_caps_ref(caps), &self->pictures.gpu);

    GST_INFO_OBJECT(self, "the signal is now %" GST_PTR_FORMAT, caps);
    if (!agreed) {
        if (!feed_is_flushing(&self->feed))
            GST_ELEMENT_ERROR(
                self, CORE, NEGOTIATION,
                ("The signal changed, and the elements downstream do not accept its new format: "
                 "put a videoscale and a videoconvert after gpudirectsrc."),
                ("%" GST_PTR_FORMAT, caps));
        return FALSE;
    }
    self->follows_signal = TRUE;
    gboolean taken = gst_gpudirect_src_set_format(self, agreed, layout) &&
                     gst_base_src_set_caps(GST_BASE_SRC(self), agreed) &&
                     gst_base_src_negotiate(GST_BASE_SRC(self));
    self->follows_signal = FALSE;
    gst_caps_unref(agreed);
    return taken;
}

/* Whether downstream has the signal's caps already, in any kind of memory. */
static gboolean format_is_current(GstGpudirectSrc *self, const GstCaps *before, const GstCaps *now)
{
    GstCaps *on_gpu =
        self->pictures.gpu ? gpu_caps_in_memory(now, self->pictures.gpu->vendor) : NULL;
    GstCaps *plain = caps_are_dmabufs(before) ? caps_out_of_dmabufs(before) : NULL;
    gboolean same = before && gst_caps_is_subset(plain ? plain : before, on_gpu ? on_gpu : now);

    gst_clear_caps(&plain);
    gst_clear_caps(&on_gpu);
    return same;
}

gboolean gst_gpudirect_src_follow_signal(GstGpudirectSrc *self)
{
    struct gpud_layout layout;
    gchar *reason = NULL;
    GstCaps *now = self->feed.input->ops->get_current(self->feed.input, &layout, &reason);

    if (!now) {
        GST_ELEMENT_ERROR(self, STREAM, FORMAT, ("The signal changed: %s.", reason), (NULL));
        g_free(reason);
        return FALSE;
    }
    GstCaps *before = gst_pad_get_current_caps(GST_BASE_SRC_PAD(self));
    /* The same signal in other buffers does not concern downstream. */
    gboolean taken = format_is_current(self, before, now)
                         ? gst_gpudirect_src_set_format(self, before, &layout)
                         : take_signal(self, now, &layout);
    gst_clear_caps(&before);
    gst_caps_unref(now);
    return taken;
}

/* A card's caps are negotiated; a link's arrive in band. */
static gboolean src_negotiate(GstBaseSrc *base)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(base);

    return !self->feed.input || input_is_of_sender(self->feed.input->ops) || self->follows_signal ||
           set_up_card(self);
}

/* Memory that is shared by its descriptor, such as unixfdsink's, is reused. */
static void add_pool_of_files(GstQuery *query)
{
    GstBufferPool *pool = gst_video_buffer_pool_new();
    GstVideoInfo info;
    GstCaps *caps;

    gst_query_parse_allocation(query, &caps, NULL);
    if (caps && video_info_from_caps(&info, caps))
        gst_query_add_allocation_pool(query, pool, (guint)info.size, 0, 0);
    gst_object_unref(pool);
}

static gboolean src_decide_allocation(GstBaseSrc *base, GstQuery *query)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(base);
    gboolean files = gst_gpudirect_src_fills_files(query);

    self->pictures.reads_strides =
        gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, NULL);
    /* Buffers are slots: a pool from downstream would serve only if each frame had to be copied. */
    if (self->pictures.gpu || self->pictures.dmabufs || self->pictures.reads_strides ||
        self->pictures.is_default || files)
        while (gst_query_get_n_allocation_pools(query) > 0)
            gst_query_remove_nth_allocation_pool(query, 0);
    if (files)
        add_pool_of_files(query);
    GST_DEBUG_OBJECT(self, "downstream %s strides: %" GST_PTR_FORMAT,
                     self->pictures.reads_strides ? "reads" : "does not read", query);
    if (g_atomic_int_get(&self->pictures.fills_files) != files) {
        g_atomic_int_set(&self->pictures.fills_files, files);
        g_object_notify(G_OBJECT(self), "fallback-reason");
    }
    return parent_class->decide_allocation(base, query);
}

void gst_gpudirect_src_class_init_format(GstBaseSrcClass *klass)
{
    parent_class = g_type_class_peek_parent(klass);
    klass->get_caps = src_get_caps;
    klass->fixate = src_fixate;
    klass->negotiate = src_negotiate;
    klass->decide_allocation = src_decide_allocation;
}

/* === apply =================================================================================== */
/* Events of the link other than frames: noted inside acquire, applied after it. */

/* The sender hears of it before its first frame. */
static void ask_for_slots(GstGpudirectSrc *self, const struct gpud_media *media)
{
    const struct gpud_fraction *rate = &media->picture.rate;

    if (media->kind != GPUD_MEDIA_PICTURE || rate->num == 0 || rate->den == 0)
        return;
    gst_gpudirect_src_want_slots(self, gst_util_uint64_scale(GST_SECOND, rate->den, rate->num));
}

static void note_format(GstGpudirectSrc *self, const struct gpud_format_event *said)
{
    ask_for_slots(self, &said->media);
    updates_note_format(&self->updates, said);
    /* Before the sender relies on this link: a frame would be lost with it. */
    if (gst_gpudirect_src_may_follow(self, said))
        updates_yield(&self->updates, self->feed.input);
}

void gst_gpudirect_src_on_event(void *user, enum gpud_event event, const void *data)
{
    GstGpudirectSrc *self = user;

    switch (event) {
    case GPUD_EVENT_FORMAT:
        note_format(self, data);
        break;
    case GPUD_EVENT_CONNECTED:
        updates_note_peer(&self->updates, data);
        break;
    case GPUD_EVENT_USER:
        if (updates_note_event(&self->updates, GST_ELEMENT(self), data, self->names,
                               self->frames > 0))
            updates_yield(&self->updates, self->feed.input);
        break;
    }
}

void gst_gpudirect_src_note_slots(GstGpudirectSrc *self, const struct input_info *info)
{
    if (info->slots)
        self->pictures.slots = info->slots;
    latency_note_slots(&self->latency, info->slots, info->slots_max, info->hold);
}

/* The frames of a pair are another sender's from here on, which is no break. */
static void switch_sender(GstGpudirectSrc *self, const struct gpud_peer_info *peer)
{
    struct input *input = self->feed.input;
    struct input_info info;

    feed_get_info(&self->feed, &info);
    GstStructure *structure = gst_structure_new(
        "gpudirect-switched", "active", G_TYPE_STRING, input->ops->get_active(input), "id",
        G_TYPE_UINT64, peer->id, "pid", G_TYPE_INT64, peer->pid, "host", G_TYPE_STRING, peer->host,
        "name", G_TYPE_STRING, peer->name, "path", G_TYPE_STRING, peer->path, NULL);
    GST_INFO_OBJECT(self, "%" GST_PTR_FORMAT, structure);
    gst_element_post_message(GST_ELEMENT(self),
                             gst_message_new_element(GST_OBJECT(self), structure));
    g_object_notify(G_OBJECT(self), "active-path");
    g_object_notify(G_OBJECT(self), "fallback-reason");
    times_switch_sender(&self->times, peer);
    gst_gpudirect_src_note_slots(self, &info);
}

static void take_connection(GstGpudirectSrc *self, const struct gpud_peer_info *peer)
{
    struct input_info info;

    feed_get_info(&self->feed, &info);
    GstStructure *structure = gst_structure_new(
        "gpudirect-sender-connected", "device", G_TYPE_STRING, info.device, "id", G_TYPE_UINT64,
        peer->id, "pid", G_TYPE_INT64, peer->pid, "host", G_TYPE_STRING, peer->host, "name",
        G_TYPE_STRING, peer->name, "path", G_TYPE_STRING, peer->path, "fallback-reason",
        G_TYPE_STRING, peer->fallback_reason, NULL);

    GST_INFO_OBJECT(self, "%" GST_PTR_FORMAT, structure);
    gst_element_post_message(GST_ELEMENT(self),
                             gst_message_new_element(GST_OBJECT(self), structure));
    g_object_notify(G_OBJECT(self), "active-path");
    g_object_notify(G_OBJECT(self), "fallback-reason");
    link_state_connect(&self->link);
    self->beginning.pending = TRUE;
    self->discont = TRUE;
    gst_gpudirect_src_break_stream(self);
    times_meet_sender(&self->times, peer);
    gst_gpudirect_src_note_slots(self, &info);
}

gboolean gst_gpudirect_src_end_yield(GstGpudirectSrc *self)
{
    gboolean yielded = self->updates.yielding;

    if (yielded)
        feed_resume(&self->feed);
    self->updates.yielding = FALSE;
    return yielded;
}

GstFlowReturn gst_gpudirect_src_take_updates(GstGpudirectSrc *self, gboolean *moved)
{
    struct gpud_format_event *format = g_steal_pointer(&self->updates.format);
    struct gpud_peer_info *peer = g_steal_pointer(&self->updates.peer);
    GstFlowReturn flow = GST_FLOW_OK;

    *moved = format && !self->updates.flooded && gst_gpudirect_src_follow(self, format);
    if (format && !*moved && !self->updates.flooded)
        flow = gst_gpudirect_src_take_format(self, format);
    if (peer && !*moved && flow == GST_FLOW_OK && !self->updates.unusable)
        (self->link.linked && self->feed.input->ops->kind == INPUT_PAIR
             ? switch_sender
             : take_connection)(self, peer);
    g_free(format);
    g_free(peer);
    return flow;
}
