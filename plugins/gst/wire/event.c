/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Events and flags. */
#include "wire/codec.h"

#include <gpudirect/frame.h>
#include <gst/video/video.h>
#include <math.h>
#include <string.h>

/* === event =================================================================================== */
/* Events that are sent in order with the frames.
 *
 *     bytes   = head (see wire/times.c), payload
 *     segment = u64 running time of its start, u64 stream time there, f64 rate
 *     gap     = u64 running time, u64 duration
 *     tags    = u8 scope, structure; a tag with several values has a list of them
 *     custom  = structure, sticky or not
 *     flush   = nothing
 *     caps    = u32 hash and u32 size of the whole, then a part of it */

GstClockTime event_running_duration(const GstSegment *segment, GstClockTime duration)
{
    gdouble rate = ABS(segment->rate);

    return rate == 1.0 || !GST_CLOCK_TIME_IS_VALID(duration)
               ? duration
               : (GstClockTime)((gdouble)duration / rate);
}

/* --- writing ------------------------------------------------------------------------------ */

static void write_segment(struct pack *pack, const GstSegment *segment)
{
    gdouble rate = segment->rate * segment->applied_rate;
    guint64 bits;

    memcpy(&bits, &rate, sizeof(bits));
    GstClockTime position = segment->rate < 0 && GST_CLOCK_TIME_IS_VALID(segment->stop)
                                ? segment->stop
                                : segment->start;
    pack_u64(pack, gst_segment_to_running_time(segment, GST_FORMAT_TIME, position));
    pack_u64(pack, gst_segment_to_stream_time(segment, GST_FORMAT_TIME, position));
    pack_u64(pack, bits);
}

GstTagScope event_tag_scope(GstEvent *event)
{
    GstTagList *tags;

    gst_event_parse_tag(event, &tags);
    return gst_tag_list_get_scope(tags);
}

static void write_tags(struct pack *pack, GstEvent *event, guint *lost)
{
    GstTagList *tags;
    gint count;

    gst_event_parse_tag(event, &tags);
    count = gst_tag_list_n_tags(tags);
    GstStructure *structure = gst_structure_new_empty("taglist");
    for (gint i = 0; i < count; i++) {
        const gchar *name = gst_tag_list_nth_tag_name(tags, (guint)i);
        guint values = gst_tag_list_get_tag_size(tags, name);
        GValue list = G_VALUE_INIT;
        if (values == 1) {
            gst_structure_set_value(structure, name, gst_tag_list_get_value_index(tags, name, 0));
            continue;
        }
        g_value_init(&list, GST_TYPE_LIST);
        for (guint n = 0; n < values; n++)
            gst_value_list_append_value(&list, gst_tag_list_get_value_index(tags, name, n));
        gst_structure_take_value(structure, name, &list);
    }
    pack_u8(pack, (uint8_t)gst_tag_list_get_scope(tags));
    pack_structure(pack, structure, lost);
    gst_structure_free(structure);
}

size_t event_encode(GstEvent *event, const GstSegment *segment, const struct wire_head *head,
                    uint8_t bytes[GPUD_EVENT_SIZE_MAX], enum event_kind *kind, guint *lost)
{
    struct pack pack = {.data = bytes, .size = GPUD_EVENT_SIZE_MAX};
    const GstSegment *next;
    GstClockTime time, duration;

    wire_head_pack(&pack, head);
    switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_SEGMENT:
        *kind = EVENT_SEGMENT;
        gst_event_parse_segment(event, &next);
        if (next->format != GST_FORMAT_TIME)
            return 0;
        write_segment(&pack, next);
        break;
    case GST_EVENT_TAG:
        *kind = EVENT_TAGS;
        write_tags(&pack, event, lost);
        break;
    case GST_EVENT_GAP:
        *kind = EVENT_GAP;
        if (segment->format != GST_FORMAT_TIME)
            return 0;
        gst_event_parse_gap(event, &time, &duration);
        pack_u64(&pack, gst_segment_to_running_time(segment, GST_FORMAT_TIME, time));
        pack_u64(&pack, event_running_duration(segment, duration));
        break;
    case GST_EVENT_FLUSH_STOP:
        *kind = EVENT_FLUSH;
        break;
    case GST_EVENT_CUSTOM_DOWNSTREAM:
    case GST_EVENT_CUSTOM_DOWNSTREAM_STICKY:
        if (!gst_event_get_structure(event))
            return 0;
        *kind = GST_EVENT_IS_STICKY(event) ? EVENT_CUSTOM_STICKY : EVENT_CUSTOM;
        pack_structure(&pack, gst_event_get_structure(event), lost);
        break;
    default:
        return 0;
    }
    if (pack.full) {
        (*lost)++;
        return 0;
    }
    return pack.used;
}

size_t event_encode_caps(const struct caps_rest *rest, guint index, const struct wire_head *head,
                         uint8_t bytes[GPUD_EVENT_SIZE_MAX])
{
    struct pack pack = {.data = bytes, .size = GPUD_EVENT_SIZE_MAX};
    gsize from = index * (gsize)CAPS_PART_SIZE;

    wire_head_pack(&pack, head);
    pack_u32(&pack, rest->hash);
    pack_u32(&pack, (uint32_t)rest->size);
    pack_bytes(&pack, rest->data + from, MIN(rest->size - from, CAPS_PART_SIZE));
    return pack.used;
}

/* --- reading ------------------------------------------------------------------------------ */

gboolean event_take_caps(uint32_t said, const void *bytes, size_t size, struct caps_rest *rest)
{
    struct unpack unpack = {.data = bytes, .left = size};
    guint index = said >> 8;
    struct wire_head head;

    if ((said & 0xff) != EVENT_CAPS)
        return FALSE;
    gboolean read = wire_head_unpack(&unpack, &head);
    guint32 hash = unpack_u32(&unpack), whole = unpack_u32(&unpack);
    if (!read || unpack.bad || hash == 0 || hash != rest->hash || whole > CAPS_REST_MAX)
        return TRUE;
    if (rest->size != whole) /* the first one, or of a sender that contradicts itself */
        rest->parts = 0;
    rest->size = whole;
    gsize from = index * (gsize)CAPS_PART_SIZE;
    if (index < caps_rest_parts(rest) && unpack.left == MIN(whole - from, CAPS_PART_SIZE)) {
        memcpy(rest->data + from, unpack.data, unpack.left);
        rest->parts |= 1u << index;
    }
    return TRUE;
}

/* Accepts only tags that are registered here, with values of their type, and several of one that
 * may have several. */
static gboolean read_tags(struct unpack *unpack, struct wire_event *event)
{
    event->scope =
        unpack_u8(unpack) == GST_TAG_SCOPE_GLOBAL ? GST_TAG_SCOPE_GLOBAL : GST_TAG_SCOPE_STREAM;
    GstStructure *structure = unpack_structure(unpack);
    if (!structure)
        return FALSE;
    event->tags = gst_tag_list_new_empty();
    gst_tag_list_set_scope(event->tags, event->scope);
    for (gint i = 0; i < gst_structure_n_fields(structure); i++) {
        const gchar *name = gst_structure_nth_field_name(structure, (guint)i);
        const GValue *value = gst_structure_get_value(structure, name);
        gboolean several = GST_VALUE_HOLDS_LIST(value);
        guint values = several ? gst_value_list_get_size(value) : 1;
        for (guint n = 0; n < values && gst_tag_exists(name); n++) {
            const GValue *one = several ? gst_value_list_get_value(value, n) : value;
            gboolean empty_text = G_VALUE_HOLDS_STRING(one) && !g_value_get_string(one)[0];
            if ((n == 0 || !gst_tag_is_fixed(name)) && !empty_text &&
                G_VALUE_TYPE(one) == gst_tag_get_type(name))
                gst_tag_list_add_value(event->tags, GST_TAG_MERGE_APPEND, name, one);
        }
    }
    gst_structure_free(structure);
    return TRUE;
}

gboolean event_decode(uint32_t said, const void *bytes, size_t size, struct names *names,
                      struct wire_event *event)
{
    struct unpack unpack = {.data = bytes, .left = size, .names = names};
    enum event_kind kind = (enum event_kind)(said & 0xff);
    guint64 there, bits;

    memset(event, 0, sizeof(*event));
    event->kind = kind;
    if (!wire_head_unpack(&unpack, &event->head))
        return FALSE;
    switch (kind) {
    case EVENT_SEGMENT:
        event->time = wire_time(unpack_u64(&unpack));
        there = unpack_u64(&unpack);
        bits = unpack_u64(&unpack);
        event->stream_time = wire_time(there);
        memcpy(&event->rate, &bits, sizeof(bits));
        return !unpack.bad && GST_CLOCK_TIME_IS_VALID(event->time) &&
               (GST_CLOCK_TIME_IS_VALID(event->stream_time) || there == GST_CLOCK_TIME_NONE) &&
               isfinite(event->rate) && fabs(event->rate) > 1e-6 && fabs(event->rate) < 1e6;
    case EVENT_TAGS:
        return read_tags(&unpack, event);
    case EVENT_GAP:
        event->time = wire_time(unpack_u64(&unpack));
        event->duration = wire_time(unpack_u64(&unpack));
        return !unpack.bad && GST_CLOCK_TIME_IS_VALID(event->time);
    case EVENT_FLUSH:
        return TRUE;
    case EVENT_CUSTOM:
    case EVENT_CUSTOM_STICKY:
        event->structure = unpack_structure(&unpack);
        return event->structure != NULL;
    default:
        return FALSE;
    }
}

void wire_event_clear(struct wire_event *event)
{
    g_clear_pointer(&event->tags, gst_tag_list_unref);
    g_clear_pointer(&event->structure, gst_structure_free);
}

/* --- events of our own --------------------------------------------------------------------- */

#define BROKEN_OFF "gpudirect-broken-off"
#define OPENED "gpudirect-opened"
#define SENDER_LIVE "gpudirect-sender-live"

static GstEvent *new_custom(const gchar *name)
{
    return gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM, gst_structure_new_empty(name));
}

static gboolean is_custom(GstEvent *event, const gchar *name)
{
    return GST_EVENT_TYPE(event) == GST_EVENT_CUSTOM_DOWNSTREAM && gst_event_has_name(event, name);
}

GstEvent *event_new_broken_off(void)
{
    return new_custom(BROKEN_OFF);
}

gboolean event_is_broken_off(GstEvent *event)
{
    return is_custom(event, BROKEN_OFF);
}

GstEvent *event_new_opened(void)
{
    return new_custom(OPENED);
}

gboolean event_is_opened(GstEvent *event)
{
    return is_custom(event, OPENED);
}

GstQuery *query_new_sender_live(void)
{
    return gst_query_new_custom(GST_QUERY_CUSTOM, gst_structure_new_empty(SENDER_LIVE));
}

gboolean query_is_sender_live(GstQuery *query)
{
    const GstStructure *structure =
        GST_QUERY_TYPE(query) == GST_QUERY_CUSTOM ? gst_query_get_structure(query) : NULL;

    return structure && gst_structure_has_name(structure, SENDER_LIVE);
}

void query_set_sender_live(GstQuery *query, gboolean live)
{
    gst_structure_set(gst_query_writable_structure(query), "live", G_TYPE_BOOLEAN, live, NULL);
}

gboolean query_get_sender_live(GstQuery *query, gboolean *live)
{
    return gst_structure_get_boolean(gst_query_get_structure(query), "live", live);
}

GstEvent *event_new_sender_live(void)
{
    return new_custom(SENDER_LIVE);
}

gboolean event_is_sender_live(GstEvent *event)
{
    return is_custom(event, SENDER_LIVE);
}

/* === flags =================================================================================== */

#define BIT(n) ((uint32_t)GPUD_FRAME_USER << (n))

/* Flags that describe the picture; LIVE, DECODE_ONLY, SYNC_AFTER and TAG_MEMORY are about this
 * process. */
static const struct {
    uint32_t frame;
    guint buffer;
} table[] = {
    {GPUD_FRAME_CORRUPTED, GST_BUFFER_FLAG_CORRUPTED},
    {GPUD_FRAME_DISCONTINUITY, GST_BUFFER_FLAG_DISCONT},
    {BIT(0), GST_BUFFER_FLAG_RESYNC},
    {BIT(1), GST_BUFFER_FLAG_MARKER},
    {BIT(2), GST_BUFFER_FLAG_HEADER},
    {BIT(3), GST_BUFFER_FLAG_GAP},
    {BIT(4), GST_BUFFER_FLAG_DROPPABLE},
    {BIT(5), GST_BUFFER_FLAG_DELTA_UNIT},
    {BIT(6), GST_BUFFER_FLAG_NON_DROPPABLE},
    {BIT(7), GST_VIDEO_BUFFER_FLAG_INTERLACED},
    {BIT(8), GST_VIDEO_BUFFER_FLAG_TFF},
    {BIT(9), GST_VIDEO_BUFFER_FLAG_RFF},
    {BIT(10), GST_VIDEO_BUFFER_FLAG_ONEFIELD},
    {BIT(11), GST_VIDEO_BUFFER_FLAG_MULTIPLE_VIEW},
    {BIT(12), GST_VIDEO_BUFFER_FLAG_FIRST_IN_BUNDLE},
};

uint32_t frame_flags_from_buffer(GstBuffer *buffer)
{
    guint flags = GST_BUFFER_FLAGS(buffer);
    uint32_t out = 0;

    for (guint i = 0; i < G_N_ELEMENTS(table); i++)
        if (flags & table[i].buffer)
            out |= table[i].frame;
    return out;
}

void frame_flags_to_buffer(uint32_t flags, GstBuffer *buffer)
{
    if (flags & GPUD_FRAME_DELTA) /* a program has no other flag for it */
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT);
    for (guint i = 0; flags && i < G_N_ELEMENTS(table); i++) {
        if (flags & table[i].frame)
            GST_BUFFER_FLAG_SET(buffer, table[i].buffer);
        flags &= ~table[i].frame;
    }
}
