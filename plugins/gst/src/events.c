/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What comes over the link beside frames: noted inside acquire, applied after it.
 *
 * Of formats and connections only the last one counts. Events wait until a frame tells the time,
 * and what a later one replaces does not wait beside it:
 *
 *     segment, flush   the last one
 *     tags             one list for each scope: what was said first is still true, later values win
 *     gap              none before the first frame: there is nothing to bridge
 *     custom           all of them; of sticky ones the last of each name
 *
 * So an honest sender may say what it likes before its first frame, and as often. What waits all
 * the same is bounded. Once frames flow, a burst that is larger only ends the acquire: downstream
 * gets the events, and the rest stays with the sender. Before the first frame nothing can be
 * handed on, so a sender that says more has its link cut. */
#include "src/src.h"
#include "wire/event.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

/* Events, and bytes of them as they travelled; decoded, a byte takes about ten. A merged list of
 * tags counts once: it has one value of each tag that GStreamer knows. */
#define EVENTS_MAX 512
#define EVENT_BYTES_MAX (512 * 1024)

struct waiting {
    struct wire_event event;
    gsize size;
};

static void waiting_free(struct waiting *waiting)
{
    wire_event_clear(&waiting->event);
    g_free(waiting);
}

static void clear_waiting(GstGpudirectSrc *self)
{
    g_queue_clear_full(&self->waiting, (GDestroyNotify)waiting_free);
    self->waiting_bytes = 0;
}

void gst_gpudirect_src_drop_updates(GstGpudirectSrc *self)
{
    clear_waiting(self);
    g_clear_pointer(&self->format, src_format_free);
    g_clear_pointer(&self->arrived, g_free);
    g_clear_pointer(&self->unusable, g_free);
    self->flooded = self->yielding = FALSE;
}

void src_format_free(struct src_format *format)
{
    g_bytes_unref(format->media);
    g_free(format);
}

/* --- inside acquire ----------------------------------------------------------------------- */

/* Makes acquire return, to be called again: see gst_gpudirect_src_end_yield(). */
static void yield(GstGpudirectSrc *self)
{
    self->yielding = TRUE;
    self->input->ops->interrupt(self->input, TRUE);
}

static void note_format(GstGpudirectSrc *self, const struct gpud_format_event *said)
{
    struct src_format *format = g_new0(struct src_format, 1);

    format->layout = said->layout;
    format->media = g_bytes_new(said->media, said->media_size);
    g_clear_pointer(&self->format, src_format_free);
    self->format = format;
    /* Before the sender relies on this link: a frame would be lost with it. */
    if (gst_gpudirect_src_may_follow(self, said->media, said->media_size))
        yield(self);
}

/* Events of the sender before it wait for a frame that will not come. */
static void note_connection(GstGpudirectSrc *self, const struct gpud_peer_info *peer)
{
    clear_waiting(self);
    g_free(self->arrived);
    self->arrived = g_memdup2(peer, sizeof(*peer));
}

/* Whether the later one replaces the other. */
static gboolean is_replaced_by(const struct wire_event *a, const struct wire_event *b)
{
    if (a->kind != b->kind)
        return FALSE;
    if (a->kind == EVENT_TAGS)
        return a->scope == b->scope;
    return a->kind != EVENT_CUSTOM_STICKY ||
           gst_structure_has_name(a->structure, gst_structure_get_name(b->structure));
}

static struct waiting *find_waiting(GstGpudirectSrc *self, const struct wire_event *event)
{
    for (GList *at = self->waiting.head; at; at = at->next) {
        struct waiting *waiting = at->data;
        if (is_replaced_by(&waiting->event, event))
            return waiting;
    }
    return NULL;
}

static void drop_waiting(GstGpudirectSrc *self, struct waiting *waiting)
{
    g_queue_remove(&self->waiting, waiting);
    self->waiting_bytes -= waiting->size;
    waiting_free(waiting);
}

static void merge_tags(GstGpudirectSrc *self, struct waiting *into, struct waiting *from)
{
    gst_tag_list_insert(into->event.tags, from->event.tags, GST_TAG_MERGE_REPLACE);
    into->event.head = from->event.head;
    if (from->size > into->size) {
        self->waiting_bytes += from->size - into->size;
        into->size = from->size;
    }
    waiting_free(from);
}

static void add_waiting(GstGpudirectSrc *self, struct waiting *waiting)
{
    struct wire_event *event = &waiting->event;
    struct waiting *old = find_waiting(self, event);

    if (event->kind == EVENT_GAP && self->frames == 0) {
        waiting_free(waiting);
        return;
    }
    if (old && event->kind == EVENT_TAGS) {
        merge_tags(self, old, waiting);
        return;
    }
    if (old && (event->kind == EVENT_SEGMENT || event->kind == EVENT_FLUSH ||
                event->kind == EVENT_CUSTOM_STICKY))
        drop_waiting(self, old);
    g_queue_push_tail(&self->waiting, waiting);
    self->waiting_bytes += waiting->size;
}

static void note_event(GstGpudirectSrc *self, const struct gpud_user_event *said)
{
    struct waiting *waiting = g_new0(struct waiting, 1);

    waiting->size = said->size;
    if (self->flooded || !event_decode(said->kind & ~GPUD_EVENT_STICKY, said->data, said->size,
                                       self->names, &waiting->event)) {
        GST_INFO_OBJECT(self, "an event of kind %u from the sender says nothing", said->kind);
        waiting_free(waiting);
        return;
    }
    add_waiting(self, waiting);
    if (self->waiting.length < EVENTS_MAX && self->waiting_bytes < EVENT_BYTES_MAX)
        return;
    self->flooded = self->frames == 0;
    if (self->flooded)
        clear_waiting(self);
    yield(self);
}

void gst_gpudirect_src_on_event(void *user, enum gpud_event event, const void *data)
{
    switch (event) {
    case GPUD_EVENT_FORMAT:
        note_format(user, data);
        break;
    case GPUD_EVENT_CONNECTED:
        note_connection(user, data);
        break;
    case GPUD_EVENT_USER:
        note_event(user, data);
        break;
    }
}

/* --- after it ----------------------------------------------------------------------------- */

static void take_connection(GstGpudirectSrc *self, const struct gpud_peer_info *peer)
{
    struct input_info info;

    gst_gpudirect_src_get_info(self, &info);
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
    self->linked = self->starting = TRUE;
    self->ended = FALSE;
    self->refusal_told = self->waiting_told = FALSE;
    self->discont = TRUE;
    gst_gpudirect_src_break_times(self);
    gst_gpudirect_src_meet_clock(self, peer);
    self->map = (struct time_map){0};
    gst_gpudirect_src_note_slots(self, MIN(info.slots, self->running.slots));
}

gboolean gst_gpudirect_src_end_yield(GstGpudirectSrc *self)
{
    gboolean yielded = self->yielding;

    if (yielded)
        gst_gpudirect_src_resume(self);
    self->yielding = FALSE;
    return yielded;
}

GstFlowReturn gst_gpudirect_src_take_updates(GstGpudirectSrc *self, gboolean *moved)
{
    struct src_format *format = g_steal_pointer(&self->format);
    struct gpud_peer_info *peer = g_steal_pointer(&self->arrived);
    GstFlowReturn flow = GST_FLOW_OK;

    *moved = format && !self->flooded && gst_gpudirect_src_follow(self, format);
    if (format && !*moved && !self->flooded)
        flow = gst_gpudirect_src_take_format(self, format);
    if (peer && !*moved && flow == GST_FLOW_OK && !self->unusable)
        take_connection(self, peer);
    g_clear_pointer(&format, src_format_free);
    g_free(peer);
    return flow;
}

gboolean gst_gpudirect_src_must_cut(GstGpudirectSrc *self)
{
    return self->flooded || self->unusable;
}

/* The core cuts a link only with its receiver, so a new receiver is made. */
gboolean gst_gpudirect_src_cut(GstGpudirectSrc *self, struct gpud_error *why,
                               struct gpud_error *error)
{
    *why = (struct gpud_error){.status = self->unusable ? GPUD_UNSUPPORTED : GPUD_PEER};
    if (self->unusable)
        g_snprintf(why->reason, sizeof(why->reason),
                   "the sender's format cannot be used: %s: its link is cut", self->unusable);
    else
        g_snprintf(
            why->reason, sizeof(why->reason),
            "the sender sent %d events, or %d bytes of them, before a frame: its link is cut",
            EVENTS_MAX, EVENT_BYTES_MAX);
    self->flooded = FALSE;
    g_clear_pointer(&self->unusable, g_free);
    return gst_gpudirect_src_reopen(self, NULL, error);
}

/* --- sticky events ------------------------------------------------------------------------ */

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

/* --- events ------------------------------------------------------------------------------- */

static void push_gap(GstGpudirectSrc *self, const struct wire_event *event, gboolean before_frame)
{
    GstPad *pad = GST_BASE_SRC_PAD(self);
    GstEvent *segment = gst_pad_get_sticky_event(pad, GST_EVENT_SEGMENT, 0);
    struct time_now now;

    if (!segment) /* before the first frame there is no gap to tell of */
        return;
    gst_event_unref(segment);
    gst_gpudirect_src_time_now(self, &now);
    if (!before_frame) /* a frame says it more precisely, if there is one */
        time_map_update(&self->map, &event->head, NULL, &now);
    gint64 mapped = gst_base_src_get_do_timestamp(GST_BASE_SRC(self))
                        ? time_now_at(&now, GST_CLOCK_TIME_NONE)
                        : time_map_apply(&self->map, event->time);
    gst_pad_push_event(pad, gst_event_new_gap(timeline_stamp_gap(&self->line, mapped, before_frame),
                                              event->duration));
}

/* With do-timestamp the sender's times mean nothing here. */
static void push_segment(GstGpudirectSrc *self, const struct wire_event *event)
{
    GstSegment segment;

    if (gst_base_src_get_do_timestamp(GST_BASE_SRC(self)))
        return;
    timeline_segment(&self->line, time_map_apply(&self->map, event->time), event->stream_time,
                     event->rate, &segment);
    gst_base_src_new_segment(GST_BASE_SRC(self), &segment);
}

static void push_event(GstGpudirectSrc *self, struct wire_event *event, gboolean before_frame)
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
        push_gap(self, event, before_frame);
        break;
    case EVENT_FLUSH:
        self->discont = TRUE;
        gst_gpudirect_src_break_times(self);
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

/* A segment waits for its first frame, which tells where it begins here. Events that do not wait
 * with it do not need it: all times are running times. */
void gst_gpudirect_src_push_events(GstGpudirectSrc *self, gboolean before_frame)
{
    GList *next;

    for (GList *at = self->waiting.head; at; at = next) {
        struct waiting *waiting = at->data;
        next = at->next;
        if (waiting->event.kind == EVENT_SEGMENT && !before_frame)
            continue;
        g_queue_delete_link(&self->waiting, at);
        self->waiting_bytes -= waiting->size;
        push_event(self, &waiting->event, before_frame);
        waiting_free(waiting);
    }
}
