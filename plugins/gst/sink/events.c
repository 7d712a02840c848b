/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The events that gpudirectsink sends, the head before them and before each frame, and the sticky
 * events for receivers that connect late. The sender keeps the last event of each of its kinds;
 * GStreamer keeps the last sticky event of each name, so each name gets a kind. */
#include "sink/events.h"

#include "sink/copy.h"
#include "sink/policy.h"
#include "sink/report.h"
#include "sink/wait.h"
#include "wire/event.h"
#include "wire/flags.h"
#include "wire/meta.h"

#include <string.h>

#define GST_CAT_DEFAULT gst_gpudirect_sink_debug

static GstBaseSinkClass *parent_class;

static void fill_clock(GstGpudirectSink *self, struct wire_head *head)
{
    struct clock_name name;

    head->monotonic = endpoint_get_clock(&self->endpoint, &name) == CLOCK_KIND_MONOTONIC;
    head->clock = name.id;
    GstClock *clock = name.id ? gst_element_get_clock(GST_ELEMENT(self)) : NULL;
    head->sent = clock ? gst_clock_get_time(clock) : GST_CLOCK_TIME_NONE;
    gst_clear_object(&clock);
}

void gst_gpudirect_sink_fill_head(GstGpudirectSink *self, struct wire_head *head)
{
    head->drops = gst_gpudirect_sink_policy(self) != GPUD_SLOW_BLOCK;
    head->live = g_atomic_int_get(&self->live) == TRUE;
    head->base_time = gst_element_get_base_time(GST_ELEMENT(self));
    fill_clock(self, head);
}

void gst_gpudirect_sink_describe(GstGpudirectSink *self, GstBuffer *buffer,
                                 struct gpud_frame_info *info)
{
    struct meta_loss loss = {self->endpoint.lost_metas, GST_ELEMENT(self)};
    struct wire_head head;

    info->pts_ns = gst_gpudirect_sink_running_time(self, GST_BUFFER_PTS(buffer));
    info->dts_ns = gst_gpudirect_sink_running_time(self, GST_BUFFER_DTS(buffer));
    info->duration_ns =
        event_running_duration(&GST_BASE_SINK(self)->segment, GST_BUFFER_DURATION(buffer));
    info->offset = GST_BUFFER_OFFSET(buffer);
    info->flags = frame_flags_from_buffer(buffer);
    gst_gpudirect_sink_fill_head(self, &head);
    info->meta_size = meta_encode(buffer, &head, info->meta, &self->large_metas, &loss);
    info->large_meta = self->large_metas.data;
    info->large_meta_size = self->large_metas.used;
    if (self->large_metas.overflown && !self->reported.large_metas) {
        self->reported.large_metas = TRUE;
        GST_ELEMENT_WARNING(self, STREAM, FORMAT,
                            ("The metas of a buffer have more than %u KiB: some are not sent. The "
                             "stats count them by type (lost-meta-types).",
                             self->large_metas.max / 1024),
                            ("%" GST_PTR_FORMAT, buffer));
    }
}

/* The index of this event among the sticky ones of its kind. FALSE: there are more names than the
 * sender keeps. */
static gboolean find_index(GstGpudirectSink *self, GstEvent *event, enum event_kind kind,
                           guint *index)
{
    if (kind != EVENT_CUSTOM_STICKY) {
        *index = kind == EVENT_TAGS ? event_tag_scope(event) : 0;
        return TRUE;
    }
    const gchar *name = gst_structure_get_name(gst_event_get_structure(event));
    for (*index = 0; *index < self->sticky_names->len; (*index)++)
        if (g_str_equal(g_ptr_array_index(self->sticky_names, *index), name))
            return TRUE;
    if (*index >= EVENT_STICKY_NAMES_MAX)
        return FALSE;
    g_ptr_array_add(self->sticky_names, g_strdup(name));
    return TRUE;
}

static uint32_t wire_kind(GstGpudirectSink *self, GstEvent *event, enum event_kind kind)
{
    guint index;

    if (!event_is_sticky(kind))
        return kind;
    if (find_index(self, event, kind, &index))
        return event_make_kind(kind, index) | GPUD_EVENT_STICKY;
    GST_WARNING_OBJECT(self,
                       "more than %d names of sticky events: late receivers do not get "
                       "%" GST_PTR_FORMAT,
                       EVENT_STICKY_NAMES_MAX, event);
    return kind;
}

/* Events of the moment that precede the first frame of a stream that waits for its first receiver
 * wait with it. Sticky ones are kept by the sender. */
#define UNSENT_MAX 64

static gboolean keep_unsent(GstGpudirectSink *self, GstEvent *event)
{
    if ((GST_EVENT_TYPE(event) != GST_EVENT_CUSTOM_DOWNSTREAM &&
         GST_EVENT_TYPE(event) != GST_EVENT_GAP) ||
        sink_clients_count(&self->clients) > 0 || g_atomic_int_get(&self->ending) ||
        !gst_gpudirect_sink_waits(self))
        return FALSE;
    if (self->unsent.length == UNSENT_MAX) {
        GstEvent *oldest = g_queue_pop_head(&self->unsent);
        GST_WARNING_OBJECT(
            self, "more than %d events before the first receiver: not sent: %" GST_PTR_FORMAT,
            UNSENT_MAX, oldest);
        gst_event_unref(oldest);
    }
    g_queue_push_tail(&self->unsent, gst_event_ref(event));
    return TRUE;
}

static void send_now(GstGpudirectSink *self, GstEvent *event)
{
    uint8_t bytes[GPUD_EVENT_SIZE_MAX];
    struct wire_head head;
    struct gpud_error error;
    enum event_kind kind;
    guint lost = 0;

    gst_gpudirect_sink_fill_head(self, &head);
    size_t size = event_encode(event, &GST_BASE_SINK(self)->segment, &head, bytes, &kind, &lost);
    if (lost)
        GST_DEBUG_OBJECT(self, "%u parts are not sent of %" GST_PTR_FORMAT, lost, event);
    if (size == 0)
        return;
    if (gpud_sender_send_event(shared_sender_core(self->sender), wire_kind(self, event, kind),
                               bytes, size, &error) != GPUD_OK)
        GST_WARNING_OBJECT(self, "%s cannot be sent: %s", GST_EVENT_TYPE_NAME(event), error.reason);
}

static void send_event(GstGpudirectSink *self, GstEvent *event)
{
    if (self->sender && !keep_unsent(self, event))
        send_now(self, event);
}

/* The first receiver may not be among the clients yet, because its connection is reported later. */
void gst_gpudirect_sink_send_unsent(GstGpudirectSink *self)
{
    GstEvent *event;

    while (self->sender && (event = g_queue_pop_head(&self->unsent))) {
        send_now(self, event);
        gst_event_unref(event);
    }
}

void gst_gpudirect_sink_drop_unsent(GstGpudirectSink *self)
{
    g_queue_clear_full(&self->unsent, (GDestroyNotify)gst_event_unref);
}

void gst_gpudirect_sink_send_gap(GstGpudirectSink *self, GstBuffer *buffer)
{
    GstEvent *event = gst_event_new_gap(GST_BUFFER_PTS(buffer), GST_BUFFER_DURATION(buffer));

    send_event(self, event);
    gst_event_unref(event);
}

void gst_gpudirect_sink_repeat_events(GstGpudirectSink *self)
{
    static const GstEventType types[] = {GST_EVENT_SEGMENT, GST_EVENT_TAG,
                                         GST_EVENT_CUSTOM_DOWNSTREAM_STICKY};

    for (guint i = 0; i < G_N_ELEMENTS(types); i++) {
        GstEvent *event;
        for (guint n = 0; (event = gst_pad_get_sticky_event(GST_BASE_SINK_PAD(self), types[i], n));
             n++) {
            send_event(self, event);
            gst_event_unref(event);
        }
    }
}

static guint opened_count; /* atomic: of this process's sinks, ever */

gboolean gst_gpudirect_sink_is_between_hosts(GstGpudirectSink *self)
{
    return g_str_has_prefix(self->endpoint.running.address, "rdma://");
}

void gst_gpudirect_sink_note_opened(GstGpudirectSink *self)
{
    if (gst_gpudirect_sink_is_between_hosts(self))
        g_atomic_int_inc(&opened_count);
    self->opened = (guint)g_atomic_int_get(&opened_count);
}

void gst_gpudirect_sink_tell_opened(GstGpudirectSink *self)
{
    guint opened = (guint)g_atomic_int_get(&opened_count);

    if (opened == self->opened)
        return;
    self->opened = opened;
    if (!gst_gpudirect_sink_is_between_hosts(self))
        return;
    GstEvent *event = event_new_opened();
    send_event(self, event);
    gst_event_unref(event);
}

static gboolean sink_event(GstBaseSink *base, GstEvent *event)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);

    switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_EOS:
        gst_gpudirect_sink_report_rest(self);
        endpoint_post_stats(&self->endpoint);
        gst_gpudirect_sink_send_unsent(self);
        if (self->sender && !self->failed)
            gpud_sender_send_eos(shared_sender_core(self->sender), NULL);
        gst_gpudirect_sink_report_end(self);
        gst_gpudirect_sink_set_ending(self, FALSE);
        break;
    case GST_EVENT_STREAM_START:
        endpoint_note_stats(&self->endpoint);
        self->failed = FALSE;
        break;
    case GST_EVENT_CUSTOM_DOWNSTREAM:
        if (event_is_broken_off(event))
            self->failed = TRUE;
        else if (event_is_sender_live(event))
            gst_gpudirect_sink_query_live(self);
        else
            send_event(self, event);
        break;
    case GST_EVENT_FLUSH_STOP:
        self->failed = FALSE;
        self->end = (struct sink_end){0};
        gst_gpudirect_sink_set_ending(self, FALSE);
        gst_gpudirect_sink_drop_prepared(self);
        gst_gpudirect_sink_drop_unsent(self);
        send_event(self, event);
        break;
    default:
        send_event(self, event);
    }
    return parent_class->event(base, event);
}

void gst_gpudirect_sink_class_init_events(GstBaseSinkClass *klass)
{
    parent_class = g_type_class_peek_parent(klass);
    klass->event = sink_event;
}
