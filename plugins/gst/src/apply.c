/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Events of the link other than frames: noted inside acquire, applied after it. */
#include "src/apply.h"

#include "src/device.h"
#include "src/format.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

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
        (self->link.linked && self->feed.input->ops->place ? switch_sender : take_connection)(self,
                                                                                              peer);
    g_free(format);
    g_free(peer);
    return flow;
}
