/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pushes the sender's events downstream. */
#include "src/events.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

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
