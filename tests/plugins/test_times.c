/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a peer says of time, reckoned with: nothing overflows, and what comes out is a time. Runs
 * under the sanitizers, which see what a result does not show. */
#include "../check.h"
#include "event.h"

#include <string.h>

static const guint64 said[] = {
    0,
    1,
    GST_SECOND,
    G_MAXINT64 - 1,
    G_MAXINT64,
    (guint64)G_MAXINT64 + 1,
    (guint64)G_MAXINT64 + 2,
    (guint64)G_MAXINT64 + GST_SECOND,
    G_MAXUINT64 - 1,
    G_MAXUINT64,
};
#define COUNT G_N_ELEMENTS(said)

static gdouble double_of(guint64 bits)
{
    gdouble value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static guint64 bits_of(gdouble value)
{
    guint64 bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static gboolean is_time(GstClockTime time)
{
    return time <= G_MAXINT64;
}

/* An event's bytes: the head, and up to three words behind it. */
static gboolean decode(uint32_t kind, gboolean monotonic, guint64 base, const guint64 *words,
                       guint count, struct wire_event *event)
{
    uint8_t bytes[64];
    struct pack pack = {.data = bytes, .size = sizeof(bytes)};
    struct wire_head head = {.monotonic = monotonic, .base_time = base};

    wire_head_pack(&pack, &head);
    for (guint i = 0; i < count; i++)
        pack_u64(&pack, words[i]);
    return event_decode(kind, bytes, pack.used, event);
}

/* An element whose clock shows a time since `base`. */
static GstElement *receiver_at(GstClockTime base)
{
    GstElement *receiver = gst_pipeline_new(NULL);
    GstClock *clock = gst_system_clock_obtain();

    gst_element_set_clock(receiver, clock);
    gst_element_set_base_time(receiver, base);
    gst_object_unref(clock);
    return receiver;
}

static void check_mapped(const struct time_map *map)
{
    for (guint i = 0; i < COUNT; i++) {
        GstClockTime time = wire_time(said[i]);
        GstClockTime mapped = time_map_apply(map, time);
        CHECK(time == GST_CLOCK_TIME_NONE ? mapped == GST_CLOCK_TIME_NONE : is_time(mapped),
              "%" G_GUINT64_FORMAT " shifted by %" G_GINT64_FORMAT " is %" G_GUINT64_FORMAT, time,
              map->shift, mapped);
    }
}

static void check_segments(const struct time_map *map, gboolean monotonic)
{
    static const gdouble rates[] = {1.0, -1.0, 1e-5, 999999.0, -999999.0};
    struct wire_event event;
    GstSegment segment;

    for (guint i = 0; i < COUNT * COUNT * G_N_ELEMENTS(rates); i++) {
        guint64 words[3] = {said[i % COUNT], said[i / COUNT % COUNT],
                            bits_of(rates[i / COUNT / COUNT])};
        if (!decode(EVENT_SEGMENT, monotonic, 5, words, 3, &event))
            continue;
        time_map_segment(map, event.time, event.stream_time, event.rate, &segment);
        CHECK(is_time(segment.start) && is_time(segment.base) && is_time(segment.position) &&
                  is_time(segment.time),
              "a segment from %" G_GUINT64_FORMAT " at %" G_GUINT64_FORMAT " times %f", words[0],
              words[1], event.rate);
    }
}

static void maps_of_forged_heads(void)
{
    for (guint i = 0; i < COUNT * COUNT * 4; i++) {
        GstElement *receiver = receiver_at(i & 1 ? 0 : GST_SECOND);
        uint8_t bytes[64];
        struct pack pack = {.data = bytes, .size = sizeof(bytes)};
        struct wire_head head = {.monotonic = (i & 2) != 0, .base_time = said[i / 4 % COUNT]};
        struct time_map map = {0};

        wire_head_pack(&pack, &head);
        struct unpack unpack = {.data = bytes, .left = pack.used};
        gboolean good = wire_head_unpack(&unpack, &head);
        CHECK(good || (!head.monotonic && head.base_time == 0), "a bad head says something");
        CHECK(good == (!(i & 2) || is_time(said[i / 4 % COUNT])), "a base time that is none");
        time_map_update(&map, &head, wire_time(said[i / 4 / COUNT % COUNT]), receiver, TRUE);
        check_mapped(&map);
        check_segments(&map, head.monotonic);
        gst_object_unref(receiver);
    }
}

static void events_of_forged_times(void)
{
    static const guint64 no_rates[] = {
        0,
        UINT64_C(0x8000000000000000), /* -0 */
        UINT64_C(0x7ff0000000000000), /* infinite */
        UINT64_C(0xfff0000000000000),
        UINT64_C(0x7ff8000000000000), /* not a number */
        UINT64_C(0x7ff0000000000001),
        1, /* so small that it is none */
        UINT64_C(0x7fefffffffffffff),
    };
    struct wire_event event;

    for (guint i = 0; i < G_N_ELEMENTS(no_rates); i++) {
        guint64 words[3] = {0, 0, no_rates[i]};
        CHECK(!decode(EVENT_SEGMENT, FALSE, 0, words, 3, &event), "a rate of %g",
              double_of(no_rates[i]));
    }
    for (guint i = 0; i < COUNT * COUNT; i++) {
        guint64 words[3] = {said[i % COUNT], said[i / COUNT], bits_of(1.0)};
        gboolean segment = decode(EVENT_SEGMENT, FALSE, 0, words, 3, &event);
        CHECK(segment ==
                  (is_time(words[0]) && (is_time(words[1]) || words[1] == GST_CLOCK_TIME_NONE)),
              "a segment at %" G_GUINT64_FORMAT " and %" G_GUINT64_FORMAT, words[0], words[1]);
        gboolean gap = decode(EVENT_GAP, FALSE, 0, words, 2, &event);
        CHECK(gap == is_time(words[0]), "a gap at %" G_GUINT64_FORMAT, words[0]);
        CHECK(!gap || is_time(event.duration) || event.duration == GST_CLOCK_TIME_NONE,
              "a gap of %" G_GUINT64_FORMAT, event.duration);
    }
}

/* And what an honest sender says is not bent. */
static void honest_times(void)
{
    struct time_map map = {.shift = -(gint64)(3 * GST_SECOND)};
    GstSegment segment;

    CHECK_EQUAL(time_map_apply(&map, 5 * GST_SECOND), 2 * GST_SECOND);
    CHECK_EQUAL(time_map_apply(&map, GST_SECOND), 0);
    time_map_segment(&map, 2 * GST_SECOND, 100 * GST_SECOND, 2.0, &segment);
    CHECK_EQUAL(segment.start, 0);
    CHECK_EQUAL(segment.time, 102 * GST_SECOND);
    map.shift = GST_SECOND;
    time_map_segment(&map, 2 * GST_SECOND, 100 * GST_SECOND, 2.0, &segment);
    CHECK_EQUAL(segment.start, 3 * GST_SECOND);
    CHECK_EQUAL(segment.base, 3 * GST_SECOND);
    CHECK_EQUAL(segment.time, 100 * GST_SECOND);
    CHECK(segment.applied_rate == 2.0 && segment.rate == 1.0, "rates");
}

int main(int argc, char **argv)
{
    /* No plugin is needed, and what others' leak is not to be found here. */
    setenv("GST_REGISTRY", "/nonexistent", 1);
    setenv("GST_PLUGIN_PATH", "", 1);
    setenv("GST_PLUGIN_SYSTEM_PATH_1_0", "", 1);
    gst_init(&argc, &argv);
    SAY("honest times");
    honest_times();
    SAY("events of forged times");
    events_of_forged_times();
    SAY("maps of forged heads");
    maps_of_forged_heads();
    return 0;
}
