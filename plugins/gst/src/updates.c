/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "src/updates.h"

#include "src/debug.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

/* The most events that wait, and their size as serialised; a decoded byte takes about ten. A merged
 * list of tags counts once, as it has one event's values for each tag that GStreamer knows. */
#define EVENTS_MAX 512
#define EVENT_BYTES_MAX (512 * 1024)

void update_event_free(struct update_event *waiting)
{
    wire_event_clear(&waiting->event);
    g_free(waiting);
}

static void clear_waiting(struct updates *updates)
{
    g_queue_clear_full(&updates->events, (GDestroyNotify)update_event_free);
    updates->event_bytes = 0;
}

void updates_init(struct updates *updates)
{
    g_queue_init(&updates->events);
}

void updates_clear(struct updates *updates)
{
    clear_waiting(updates);
    g_clear_pointer(&updates->format, g_free);
    g_clear_pointer(&updates->peer, g_free);
    g_clear_pointer(&updates->unusable, g_free);
    updates->flooded = updates->yielding = FALSE;
}

/* --- inside acquire ----------------------------------------------------------------------- */

void updates_yield(struct updates *updates, struct input *input)
{
    updates->yielding = TRUE;
    input->ops->interrupt(input, TRUE);
}

void updates_note_format(struct updates *updates, const struct gpud_format_event *said)
{
    g_free(updates->format);
    updates->format = g_memdup2(said, sizeof(*said));
}

/* Drops the previous sender's events, whose frame will not arrive. */
void updates_note_peer(struct updates *updates, const struct gpud_peer_info *peer)
{
    clear_waiting(updates);
    g_free(updates->peer);
    updates->peer = g_memdup2(peer, sizeof(*peer));
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

static struct update_event *find_waiting(struct updates *updates, const struct wire_event *event)
{
    for (GList *at = updates->events.head; at; at = at->next) {
        struct update_event *waiting = at->data;
        if (is_replaced_by(&waiting->event, event))
            return waiting;
    }
    return NULL;
}

static void drop_waiting(struct updates *updates, struct update_event *waiting)
{
    g_queue_remove(&updates->events, waiting);
    updates->event_bytes -= waiting->size;
    update_event_free(waiting);
}

static void merge_tags(struct updates *updates, struct update_event *into,
                       struct update_event *from)
{
    gst_tag_list_insert(into->event.tags, from->event.tags, GST_TAG_MERGE_REPLACE);
    into->event.head = from->event.head;
    if (from->size > into->size) {
        updates->event_bytes += from->size - into->size;
        into->size = from->size;
    }
    update_event_free(from);
}

static void add_waiting(struct updates *updates, struct update_event *waiting, gboolean begun)
{
    struct wire_event *event = &waiting->event;
    struct update_event *old = find_waiting(updates, event);

    if (event->kind == EVENT_GAP && !begun) {
        update_event_free(waiting);
        return;
    }
    if (old && event->kind == EVENT_TAGS) {
        merge_tags(updates, old, waiting);
        return;
    }
    if (old && (event->kind == EVENT_SEGMENT || event->kind == EVENT_FLUSH ||
                event->kind == EVENT_CUSTOM_STICKY))
        drop_waiting(updates, old);
    g_queue_push_tail(&updates->events, waiting);
    updates->event_bytes += waiting->size;
}

gboolean updates_note_event(struct updates *updates, GstElement *element,
                            const struct gpud_user_event *said, struct names *names, gboolean begun)
{
    struct update_event *waiting = g_new0(struct update_event, 1);

    waiting->size = said->size;
    if (updates->flooded || !event_decode(said->kind & ~GPUD_EVENT_STICKY, said->data, said->size,
                                          names, &waiting->event)) {
        GST_INFO_OBJECT(element, "an event of kind %u from the sender is empty", said->kind);
        update_event_free(waiting);
        return FALSE;
    }
    add_waiting(updates, waiting, begun);
    if (updates->events.length < EVENTS_MAX && updates->event_bytes < EVENT_BYTES_MAX)
        return FALSE;
    updates->flooded = !begun;
    if (updates->flooded)
        clear_waiting(updates);
    return TRUE;
}

/* --- after it ----------------------------------------------------------------------------- */

struct update_event *updates_take_event(struct updates *updates, gboolean with_frame)
{
    for (GList *at = updates->events.head; at; at = at->next) {
        struct update_event *waiting = at->data;
        if (waiting->event.kind == EVENT_SEGMENT && !with_frame)
            continue;
        g_queue_delete_link(&updates->events, at);
        updates->event_bytes -= waiting->size;
        return waiting;
    }
    return NULL;
}

void updates_take_reason(struct updates *updates, struct gpud_error *why)
{
    *why = (struct gpud_error){.status = updates->unusable ? GPUD_UNSUPPORTED : GPUD_PEER};
    if (updates->unusable)
        g_snprintf(why->reason, sizeof(why->reason),
                   "the sender's format cannot be used: %s: its link is cut", updates->unusable);
    else
        g_snprintf(
            why->reason, sizeof(why->reason),
            "the sender sent %d events, or %d bytes of them, before a frame: its link is cut",
            EVENTS_MAX, EVENT_BYTES_MAX);
    updates->flooded = FALSE;
    g_clear_pointer(&updates->unusable, g_free);
}
