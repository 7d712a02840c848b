/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc's caps, pool and allocation. */
#include "src/format.h"

#include "base/errors.h"
#include "memory/dmabuf.h"
#include "src/device.h"
#include "wire/blocks.h"
#include "wire/dmabufcaps.h"

#include <gst/base/gstbasesink.h>

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

GstFlowReturn gst_gpudirect_src_take_format(GstGpudirectSrc *self,
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

void gst_gpudirect_src_want_slots(GstGpudirectSrc *self, GstClockTime interval)
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
    if (!input->ops->has_signal)
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
    if (known && self->feed.input && self->feed.input->ops->get_caps)
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

    if (self->feed.input && self->feed.input->ops->needs_stated_format)
        return check_stated(self, caps);
    struct capture_wish wish = {0};
    g_mutex_lock(&self->feed.lock);
    if (self->feed.input && self->feed.input->ops->get_wish)
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
static gboolean is_current(GstGpudirectSrc *self, const GstCaps *before, const GstCaps *now)
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
    gboolean taken = is_current(self, before, now)
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

    return !self->feed.input || !self->feed.input->ops->configure || self->follows_signal ||
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
