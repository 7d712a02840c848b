/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calculations with a peer's times: nothing overflows, and results are valid times. Runs under the
 * sanitizers, which detect what a result does not show. And two parts of their own: which streams
 * share one conversion of times, and one delay; and the evaluation of the pictures' lateness.
 *     times_test [map|lateness] */
#include "support/check.h"
#include "wire/codec.h"

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
    return event_decode(kind, bytes, pack.used, NULL, event);
}

/* Frames in any order, of any durations: each is put at a time, and none before the one before. */
static void check_placed(const struct time_map *map, guint seed)
{
    struct timeline line = {0};
    GstClockTime last = 0;

    for (guint i = 0; i < COUNT * COUNT; i++) {
        GstClockTime running = wire_time(said[(i * 7 + seed) % COUNT]);
        if (!GST_CLOCK_TIME_IS_VALID(running))
            continue;
        GstClockTime duration = wire_time(said[i / COUNT]), before = last;
        struct timeline_frame frame = {.mapped = time_map_apply(map, running),
                                       .arrived = seed & 2 ? TIMELINE_UNKNOWN
                                                           : (gint64)(said[(i + seed) % COUNT] / 2),
                                       .duration = duration,
                                       .live = (seed & 1) != 0};
        last = timeline_stamp(&line, &frame);
        CHECK(is_time(last) && last >= before,
              "%" G_GUINT64_FORMAT " shifted by %" G_GINT64_FORMAT " is put at %" G_GUINT64_FORMAT
              " behind %" G_GUINT64_FORMAT,
              running, map->shift, last, before);
        GstClockTime gap = timeline_stamp_gap(&line, time_map_apply(map, running), TRUE);
        CHECK(gap >= before && gap <= last, "a gap before the frame at %" G_GUINT64_FORMAT, gap);
        if (seed % 3 == 0)
            last = timeline_stamp_gap(&line, time_map_apply(map, running), FALSE);
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
        struct timeline line = {0};
        if (!decode(EVENT_SEGMENT, monotonic, 5, words, 3, &event))
            continue;
        gint64 mapped = time_map_apply(map, event.time);
        struct timeline_frame frame = {.mapped = mapped, .duration = GST_CLOCK_TIME_NONE};
        GstClockTime first = timeline_stamp(&line, &frame);
        timeline_segment(&line, mapped, event.stream_time, event.rate, &segment);
        CHECK(segment.start <= first && is_time(segment.base) && is_time(segment.position) &&
                  is_time(segment.time),
              "a segment from %" G_GUINT64_FORMAT " at %" G_GUINT64_FORMAT " times %f", words[0],
              words[1], event.rate);
    }
}

static void maps_of_forged_heads(void)
{
    for (guint i = 0; i < COUNT * COUNT * 32; i++) {
        guint at = i / 32;
        gboolean monotonic = (i & 2) != 0, named = (i & 8) != 0;
        struct time_now now = {
            .monotonic = (i & 4) == 0,
            .clock = i & 4 ? 77 : 0,
            .local = i % 5 == 0,
            .same_clock = (i & 16) != 0,
            .base = i & 1 ? 0 : GST_SECOND,
            .running = 5 * GST_SECOND,
            .system = 6 * GST_SECOND,
        };
        uint8_t bytes[64];
        struct pack pack = {.data = bytes, .size = sizeof(bytes)};
        struct wire_head head = {.monotonic = monotonic,
                                 .live = i % 3 == 0,
                                 .clock = named ? 77 : 0,
                                 .base_time = said[at % COUNT],
                                 .sent = said[(at + 3) % COUNT]};
        struct time_map map = {0};

        wire_head_pack(&pack, &head);
        struct unpack unpack = {.data = bytes, .left = pack.used};
        gboolean good = wire_head_unpack(&unpack, &head);
        CHECK(unpack.left == 0, "%zu bytes of a head are left", unpack.left);
        CHECK(good || (!head.monotonic && !head.clock && head.base_time == 0),
              "a bad head says something");
        CHECK(good == ((!monotonic && !named) || is_time(said[at % COUNT])), "not a base time");
        for (guint k = 0; k < COUNT; k++) {
            struct time_frame frame = {
                .running = wire_time(said[(at / COUNT + k) % COUNT]),
                .submitted = now.same_clock ? said[k] : GST_CLOCK_TIME_NONE,
                .arrived = now.system,
                .waited_for = k % 2 == 0,
            };
            time_map_update(&map, &head, &frame, &now);
            gint64 arrived = time_map_arrival(&map, &head, &frame, &now);
            CHECK(arrived <= time_now_at(&now, now.system) && arrived >= -G_MAXINT64,
                  "arrived at %" G_GINT64_FORMAT, arrived);
            now.system += GST_SECOND;
        }
        check_placed(&map, i);
        check_segments(&map, head.monotonic);
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
        1, /* so small that it is 0 */
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

/* --- and what an honest sender says is not bent ------------------------------------------- */

static GstClockTime place_at(struct timeline *line, gint64 mapped, gint64 arrived,
                             GstClockTime duration, gboolean live)
{
    struct timeline_frame frame = {
        .mapped = mapped, .arrived = arrived, .duration = duration, .live = live};

    return timeline_stamp(line, &frame);
}

static GstClockTime place(struct timeline *line, gint64 at, gboolean live)
{
    return place_at(line, at, TIMELINE_UNKNOWN, 40 * GST_MSECOND, live);
}

static void honest_segments(void)
{
    struct timeline line = {0};
    GstSegment segment;

    place(&line, -(gint64)GST_SECOND, FALSE); /* is put at 0 */
    timeline_segment(&line, -(gint64)GST_SECOND, 100 * GST_SECOND, 2.0, &segment);
    CHECK_EQUAL(segment.start, 0);
    CHECK_EQUAL(segment.time, 100 * GST_SECOND);
    timeline_segment(&line, -(gint64)(3 * GST_SECOND), 100 * GST_SECOND, 2.0, &segment);
    CHECK_EQUAL(segment.start, 0);
    CHECK_EQUAL(segment.time, 104 * GST_SECOND);
    timeline_break(&line);
    place(&line, 3 * GST_SECOND, FALSE);
    timeline_segment(&line, 3 * GST_SECOND, 100 * GST_SECOND, 2.0, &segment);
    CHECK_EQUAL(segment.start, 3 * GST_SECOND);
    CHECK_EQUAL(segment.base, 3 * GST_SECOND);
    CHECK_EQUAL(segment.time, 100 * GST_SECOND);
    CHECK(segment.applied_rate == 2.0 && segment.rate == 1.0, "rates");
}

/* A file whose sender waited 5 s for this receiver, and that starts again: as long as it was. */
static void honest_files(void)
{
    struct timeline line = {0};
    const gint64 late = -(gint64)(5 * GST_SECOND);

    for (guint i = 0; i < 100; i++)
        CHECK_EQUAL(place(&line, late + i % 50 * 40 * GST_MSECOND, FALSE), i * 40 * GST_MSECOND);
    timeline_break(&line); /* the next sender's begins later than this one's has ended */
    CHECK_EQUAL(place(&line, 90 * GST_SECOND, FALSE), 90 * GST_SECOND);
    CHECK_EQUAL(place(&line, 91 * GST_SECOND, FALSE), 91 * GST_SECOND);
}

/* A live one that was paused: what waited comes closer together, until nothing is late any more. */
static void honest_cameras(void)
{
    struct timeline line = {0};
    guint frames = 0;

    place(&line, 10 * GST_SECOND, TRUE);
    GstClockTime last = place(&line, 10 * GST_SECOND + 40 * GST_MSECOND, TRUE);
    gint64 at = 9 * GST_SECOND + 900 * GST_MSECOND;
    CHECK_EQUAL(last, 10 * GST_SECOND + 40 * GST_MSECOND);
    do {
        GstClockTime next = place(&line, at, TRUE);
        CHECK(next > last && next - last <= 40 * GST_MSECOND, "steps of %" G_GUINT64_FORMAT,
              next - last);
        last = next;
        at += 40 * GST_MSECOND;
    } while (line.delay > 0 && ++frames < 1000);
    CHECK(frames < 30, "a delay of 140 ms is made up for in %u frames", frames);
    CHECK_EQUAL(place(&line, at, TRUE), at);
}

/* Pictures that come 55 s late, of which every tenth is lost: the first is put when it came, the
 * others at their distance, so that none gets later than the first by more than its way varies. */
static void senders_out_of_step(void)
{
    const gint64 period = 20 * GST_MSECOND, late = 55 * GST_SECOND;
    struct timeline line = {0};
    GstClockTime last = 0;

    for (gint64 i = 0; i < 5000; i++) {
        gint64 way = i % 7 * GST_MSECOND, here = 600 * GST_MSECOND + i * period + way;
        if (i % 10 == 9)
            continue;
        GstClockTime at = place_at(&line, here - way - late, here, 20 * GST_MSECOND, TRUE);
        CHECK_EQUAL(at, (GstClockTime)(600 * GST_MSECOND + i * period));
        last = at;
    }
    /* It follows the clock again: so do its pictures, none before or after its time for long. */
    guint frames = 0;
    for (gint64 here = (gint64)last + period; line.delay > 0; here += period) {
        GstClockTime at =
            place_at(&line, here - 3 * (gint64)GST_MSECOND, here, 20 * GST_MSECOND, TRUE);
        CHECK(at >= last && at <= (GstClockTime)here,
              "put %" G_GUINT64_FORMAT " after %" G_GUINT64_FORMAT, at, last);
        CHECK(++frames < 5, "still %" G_GINT64_FORMAT " ns off", line.delay);
        last = at;
    }
    /* And once more late; the user says that this is right. */
    gint64 here = (gint64)last + 60 * GST_SECOND;
    line.late_max = 56 * GST_SECOND;
    CHECK_EQUAL(place_at(&line, here - late, here, 20 * GST_MSECOND, TRUE),
                (GstClockTime)(here - late));
}

/* Pictures from before this pipeline's start: those of a sender that is a little late are left to
 * the ones that follow, those of one that is out of step are not. */
static void cold_starts(void)
{
    const gint64 ms = GST_MSECOND;
    static const struct {
        gint64 mapped, arrived, late_max; /* ms */
        gboolean live, past;
    } cases[] = {
        {-28, 0, 0, TRUE, TRUE},      {-1, 0, 0, TRUE, TRUE},        {0, 28, 0, TRUE, FALSE},
        {-900, 100, 0, TRUE, TRUE},   {-28, 0, 0, FALSE, FALSE},     {-900, 101, 0, TRUE, FALSE},
        {-900, 101, 50, TRUE, FALSE}, {-900, 101, 1001, TRUE, TRUE}, {-3000, 1, 3001, TRUE, TRUE},
    };

    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct timeline line = {.late_max = cases[i].late_max * ms};
        struct timeline_frame frame = {.mapped = cases[i].mapped * ms,
                                       .arrived = cases[i].arrived * ms,
                                       .duration = 20 * GST_MSECOND,
                                       .live = cases[i].live};
        CHECK(timeline_is_past(&line, &frame) == cases[i].past, "case %u", i);
        GstClockTime first = timeline_stamp(&line, &frame);
        if (cases[i].live && !cases[i].past)
            CHECK_EQUAL(first,
                        (GstClockTime)(MAX(frame.mapped < 0 ? frame.arrived : 0, frame.mapped)));
    }
}

static struct time_now now_at(gboolean monotonic, GstClockTime running, GstClockTime system)
{
    return (struct time_now){.monotonic = monotonic,
                             .same_clock = TRUE,
                             .base = 2 * GST_SECOND,
                             .running = running,
                             .system = system};
}

static void update(struct time_map *map, const struct wire_head *head, GstClockTime running,
                   GstClockTime submitted, const struct time_now *now)
{
    struct time_frame frame = {
        .running = running, .submitted = submitted, .arrived = now->system, .waited_for = TRUE};

    time_map_update(map, head, &frame, now);
}

static void honest_clocks(void)
{
    struct wire_head both = {.monotonic = TRUE, .live = TRUE, .base_time = 3 * GST_SECOND};
    struct wire_head foreign = {.live = TRUE};
    struct time_map map = {0};

    struct time_now now = now_at(TRUE, 8 * GST_SECOND, 10 * GST_SECOND);
    update(&map, &both, 5 * GST_SECOND, GST_CLOCK_TIME_NONE, &now);
    CHECK_EQUAL(time_map_apply(&map, 5 * GST_SECOND), (gint64)(6 * GST_SECOND));

    /* Another clock here, whose running time is 70 s when the monotonic one shows 10 s. */
    now = now_at(FALSE, 70 * GST_SECOND, 10 * GST_SECOND);
    update(&map, &both, 5 * GST_SECOND, GST_CLOCK_TIME_NONE, &now);
    CHECK_EQUAL(time_map_apply(&map, 5 * GST_SECOND), (gint64)(68 * GST_SECOND));
    both.base_time += GST_SECOND / 2; /* the sender was paused */
    update(&map, &both, 5 * GST_SECOND, GST_CLOCK_TIME_NONE, &now);
    CHECK_EQUAL(time_map_apply(&map, 5 * GST_SECOND), (gint64)(68 * GST_SECOND + GST_SECOND / 2));

    /* Another clock there: the two were started together, or what is submitted belongs to then. */
    map = (struct time_map){0};
    update(&map, &foreign, 70 * GST_SECOND - 1, 10 * GST_SECOND, &now);
    CHECK_EQUAL(time_map_apply(&map, 70 * GST_SECOND), (gint64)(70 * GST_SECOND));
    time_map_lose(&map); /* a pause of half a second here */
    update(&map, &foreign, 70 * GST_SECOND + GST_SECOND / 2, 10 * GST_SECOND, &now);
    CHECK_EQUAL(time_map_apply(&map, 70 * GST_SECOND + GST_SECOND / 2), (gint64)(70 * GST_SECOND));
    foreign.run++; /* and one there */
    update(&map, &foreign, 70 * GST_SECOND, 10 * GST_SECOND - 1, &now);
    CHECK_EQUAL(time_map_apply(&map, 70 * GST_SECOND), (gint64)(70 * GST_SECOND) - 1);
    update(&map, &foreign, 60 * GST_SECOND, 9 * GST_SECOND, &now); /* its clock stood */
    CHECK_EQUAL(time_map_apply(&map, 60 * GST_SECOND), (gint64)(69 * GST_SECOND));
}

/* The host's clock, here and there: read now and then, it is gone after slowly. */
static void followed_clocks(void)
{
    struct wire_head head = {.monotonic = TRUE, .live = TRUE, .base_time = 3 * GST_SECOND};
    struct time_map map = {0};
    gint64 last = 0;

    for (guint64 i = 0; i < 30000; i++) { /* 10 minutes; 100 ppm */
        GstClockTime system = 10 * GST_SECOND + i * 20 * GST_MSECOND;
        struct time_now now = now_at(FALSE, 70 * GST_SECOND + i * 20 * 1000100, system);
        GstClockTime pts = 5 * GST_SECOND + i * 20 * GST_MSECOND;
        update(&map, &head, pts, GST_CLOCK_TIME_NONE, &now);
        gint64 at = time_map_apply(&map, pts);
        /* When the sender's clock showed the picture's time, this one showed that. */
        gint64 right = (gint64)(now.running - (system - pts - head.base_time));
        CHECK(ABS(at - right) < 10000, "frame %" G_GUINT64_FORMAT " is %" G_GINT64_FORMAT " ns off",
              i, at - right);
        CHECK(i == 0 || ABS(at - last - 20 * (gint64)GST_MSECOND) < 200000,
              "frame %" G_GUINT64_FORMAT " comes %" G_GINT64_FORMAT " ns after the one before", i,
              at - last);
        last = at;
    }
}

/* One clock with a name, on two hosts whose monotonic clocks have nothing to do with each other. */
static void named_clocks(void)
{
    struct wire_head head = {.clock = 77,
                             .live = TRUE,
                             .base_time = 100 * GST_SECOND,
                             .run = 100 * GST_SECOND,
                             .sent = 107 * GST_SECOND};
    struct time_now now = {.clock = 77,
                           .base = 102 * GST_SECOND,
                           .running = 6 * GST_SECOND,
                           .system = 5000 * GST_SECOND};
    struct time_frame frame = {.running = 7 * GST_SECOND - GST_MSECOND,
                               .submitted = GST_CLOCK_TIME_NONE,
                               .arrived = 5000 * GST_SECOND};
    struct time_map map = {0};
    gint64 sent = 0;

    CHECK_EQUAL(time_relation(&head, &now), TIME_SHARED);
    time_map_update(&map, &head, &frame, &now);
    CHECK_EQUAL(time_map_apply(&map, 7 * GST_SECOND), 5 * GST_SECOND);
    CHECK(time_map_sent(&head, &frame, &now, &sent), "the time of submission is unknown");
    CHECK_EQUAL(sent, 5 * GST_SECOND);
    CHECK_EQUAL(time_map_arrival(&map, &head, &frame, &now), 5 * GST_SECOND);

    /* Other ones, and the loopback's, which each host has; and a sender that is on this host. */
    now.clock = 78;
    CHECK_EQUAL(time_relation(&head, &now), TIME_UNKNOWN);
    CHECK(!time_map_sent(&head, &frame, &now, &sent), "by another clock");
    now.clock = 77;
    now.local = TRUE;
    CHECK_EQUAL(time_relation(&head, &now), TIME_UNKNOWN);
    now.same_clock = TRUE;
    CHECK_EQUAL(time_relation(&head, &now), TIME_SHARED);
    now.local = now.same_clock = FALSE;

    /* The monotonic clocks of two hosts are two. */
    struct wire_head other = {.monotonic = TRUE, .live = TRUE, .base_time = 3 * GST_SECOND};
    struct time_now own = {.monotonic = TRUE,
                           .base = 2 * GST_SECOND,
                           .system = 9 * GST_SECOND,
                           .running = 7 * GST_SECOND};
    CHECK_EQUAL(time_relation(&other, &own), TIME_UNKNOWN);
    own.same_clock = TRUE;
    CHECK_EQUAL(time_relation(&other, &own), TIME_SHARED);
    own.monotonic = FALSE;
    CHECK_EQUAL(time_relation(&other, &own), TIME_FOLLOWED);

    /* The grandmaster changes, at one end first: until then the map stays, and then it is exact. */
    now.clock = 79;
    frame.running += 20 * GST_MSECOND;
    time_map_update(&map, &head, &frame, &now);
    CHECK_EQUAL(time_map_apply(&map, 7 * GST_SECOND), 5 * GST_SECOND);
    head.clock = 79;
    head.base_time += GST_MSECOND;
    time_map_update(&map, &head, &frame, &now);
    CHECK_EQUAL(time_map_apply(&map, 7 * GST_SECOND), 5 * GST_SECOND + GST_MSECOND);
}

/* --- which streams share a map: those of one run of one process ------------------------------ */

#define RUN 7

struct stream {
    struct shared_part part;
    struct time_map map;
    struct timeline line;
};

/* A frame of that running time arrives, by clocks of which nothing is known. Returns its time. */
static gint64 arrive_at(struct stream *stream, GstClockTime running, GstClockTime at)
{
    const struct wire_head head = {.live = TRUE, .run = RUN, .sent = GST_CLOCK_TIME_NONE};
    const struct time_frame frame = {
        .running = running, .submitted = GST_CLOCK_TIME_NONE, .arrived = at, .waited_for = TRUE};
    const struct time_now now = {.base = GST_SECOND, .running = at, .system = at};

    shared_map_update(&stream->part, &stream->map, &head, &frame, &now);
    CHECK(stream->map.anchored, "nothing was learnt");
    return time_map_apply(&stream->map, running);
}

/* Pictures are up to 15 ms on their way, the sound of the same moment arrives 100 ms later: from
 * the first picture on they keep their times to each other, also while the shortest way is still
 * unknown. */
static void jitter(guint seed)
{
    struct shared_map *map = shared_map_new();
    struct stream picture = {.part = {.map = map, .process = 1}};
    struct stream sound = {.part = {.map = map, .process = 1}};
    gint64 pictures[16], most = 0;
    GRand *random = g_rand_new_with_seed(seed);

    for (guint i = 0; i < 1000; i++) { /* 25 a second; sound is 100 ms later */
        GstClockTime running = 100 * GST_SECOND + i * 40 * GST_MSECOND;
        GstClockTime at = 10 * GST_SECOND + i * 40 * GST_MSECOND;
        GstClockTime way = (GstClockTime)g_rand_int_range(random, 0, 15 * GST_MSECOND);
        pictures[i % 16] = arrive_at(&picture, running, at + way);
        if (i < 3)
            continue;
        gint64 heard = arrive_at(&sound, running - 3 * 40 * GST_MSECOND, at + 20 * GST_MSECOND);
        most = MAX(most, ABS(heard - pictures[(i - 3) % 16]));
    }
    SAY("sound and picture are %.3f ms apart at most", (double)most / 1e6);
    CHECK(most < GST_MSECOND, "sound and picture are %" G_GINT64_FORMAT " ns apart", most);
    shared_map_leave(&picture.part);
    shared_map_leave(&sound.part);
    shared_map_unref(map);
    g_rand_free(random);
}

/* A live frame of this running time is so late that it is put at its arrival. Returns its time. */
static gint64 stamp(struct stream *stream, gint64 running, gint64 late)
{
    const struct wire_head head = {.live = TRUE, .run = RUN, .sent = GST_CLOCK_TIME_NONE};
    const struct time_now now = {.base = 0, .system = (GstClockTime)(running + late)};
    const struct timeline_frame frame = {.mapped = running,
                                         .arrived = running + late,
                                         .duration = GST_CLOCK_TIME_NONE,
                                         .live = TRUE};

    timeline_stamp(&stream->line, &frame);
    return (gint64)shared_map_delay(&stream->part, &head, &now, &stream->line);
}

/* A programme comes with more delay than this pipeline allows, its sound with less of it than its
 * pictures: they are put later by the same, also while the delay that is over is caught up. */
static void late_programme(void)
{
    struct shared_map *map = shared_map_new();
    struct stream picture = {.part = {.map = map, .process = 1}};
    struct stream sound = {.part = {.map = map, .process = 1}};
    struct stream other = {.part = {.map = map, .process = 2}};
    gint64 late = 1500 * (gint64)GST_MSECOND, shown = 0;

    for (gint64 i = 0; i < 400; i++) {
        gint64 running = (gint64)(10 * GST_SECOND) + i * (gint64)(40 * GST_MSECOND);
        if (i == 100)
            late = 20 * (gint64)GST_MSECOND;
        gint64 seen = stamp(&picture, running, late);
        gint64 heard = stamp(&sound, running, late * 3 / 4);
        CHECK(seen == heard, "picture %" G_GINT64_FORMAT ": sound is %" G_GINT64_FORMAT " ns off",
              i, heard - seen);
        CHECK(stamp(&other, running, 0) == running, "another process delays this one's frames");
        CHECK(seen > shown, "picture %" G_GINT64_FORMAT " goes back", i);
        CHECK(i >= 100 || seen == running + late,
              "picture %" G_GINT64_FORMAT " is not put at its "
              "arrival",
              i);
        shown = seen;
    }
    CHECK(!picture.line.delay && !sound.line.delay, "the delay is not caught up");

    /* The one that was late has left: the other one is not held back by it. */
    stamp(&picture, 40 * (gint64)GST_SECOND, 0);
    for (gint64 i = 0; i < 60; i++)
        stamp(&picture, (gint64)(41 * GST_SECOND) + i * (gint64)(40 * GST_MSECOND), 1500000000);
    CHECK(picture.line.delay > 0, "the picture is not late");
    shared_map_leave(&picture.part);
    gint64 running = 60 * (gint64)GST_SECOND;
    CHECK(stamp(&sound, running, 0) == running, "sound is late by a picture that has left");
    shared_map_unref(map);
}

/* Times at the ends of their range, as a lying sender says: none overflows, and none goes back. */
static void forged_times(void)
{
    static const gint64 times[] = {0, G_MAXINT64, 1, G_MAXINT64 / 2, -G_MAXINT64, GST_SECOND};
    struct shared_map *map = shared_map_new();
    struct stream streams[2] = {{.part = {.map = map, .process = 1}},
                                {.part = {.map = map, .process = 1}}};
    const struct wire_head head = {.live = TRUE, .run = RUN, .sent = GST_CLOCK_TIME_NONE};
    gint64 shown[2] = {0, 0};

    for (guint i = 0; i < 6 * 6 * 6; i++) {
        struct stream *stream = &streams[i % 2];
        const struct time_now now = {.base = 0, .system = GST_SECOND};
        const struct timeline_frame frame = {.mapped = times[i % 6],
                                             .arrived = times[i / 6 % 6],
                                             .duration = (GstClockTime)ABS(times[i / 36]),
                                             .live = TRUE};
        timeline_stamp(&stream->line, &frame);
        gint64 time = (gint64)shared_map_delay(&stream->part, &head, &now, &stream->line);
        CHECK(time >= shown[i % 2], "%" G_GINT64_FORMAT " goes back", time);
        shown[i % 2] = time;
    }
    shared_map_leave(&streams[0].part);
    shared_map_leave(&streams[1].part);
    shared_map_unref(map);
}

/* One process is one conversion, whichever stream of it was first. */
static void sharing(void)
{
    struct shared_map *map = shared_map_new();
    struct stream picture = {.part = {.map = map, .process = 1}};
    struct stream sound = {.part = {.map = map, .process = 1}};
    struct stream liar = {.part = {.map = map, .process = 2}};
    struct stream alone = {.part = {.process = 1}};

    arrive_at(&picture, 0, GST_SECOND);
    gint64 shift = picture.map.shift;
    arrive_at(&sound, 0, GST_SECOND + 10 * GST_MSECOND);
    CHECK(sound.map.shift == shift, "sound is %" G_GINT64_FORMAT " ns from its picture",
          sound.map.shift - shift);
    arrive_at(&alone, 0, GST_SECOND + 20 * GST_MSECOND);
    CHECK(alone.map.shift != shift, "a stream of another programme shares the conversion");
    arrive_at(&liar, 0, GST_SECOND + 300 * GST_MSECOND);
    CHECK(liar.map.shift != shift, "another process shares the conversion by naming the run");
    arrive_at(&sound, 0, GST_SECOND + 310 * GST_MSECOND);
    CHECK(sound.map.shift == shift, "another process moves the times by naming the run");

    /* The sound measures when the picture has stopped, and goes on from there. */
    shared_map_leave(&picture.part);
    arrive_at(&sound, 0, GST_SECOND + 320 * GST_MSECOND);
    picture.map = (struct time_map){0};
    arrive_at(&picture, 0, GST_SECOND + 330 * GST_MSECOND);
    CHECK(picture.map.shift == sound.map.shift, "the picture comes back beside its sound");
    shared_map_unref(map);
}

/* --- lateness -------------------------------------------------------------------------------- */

/* It follows a machine that gets busy, recovers when that is over, and changes rarely, and never by
 * little. Time is simulated. */
#define MS GST_MSECOND
#define GUESS (25 * MS)

struct sim {
    struct lateness lateness;
    GstClockTime now, interval;
    GstClockTime least, most;     /* as they were last */
    GstClockTime changed;         /* when */
    GstClockTime lowest, highest; /* of most, since sim_run() began */
    guint64 pictures;
    guint changes;
};

static void begin(struct sim *sim, GstClockTime interval)
{
    *sim =
        (struct sim){.now = 1000 * GST_SECOND, .interval = interval, .least = GUESS, .most = GUESS};
    lateness_begin(&sim->lateness, GUESS);
}

static GstClockTime apart(GstClockTime a, GstClockTime b)
{
    return a > b ? a - b : b - a;
}

static void check_change(struct sim *sim)
{
    const struct lateness *lateness = &sim->lateness;
    GstClockTime least = apart(lateness->least, sim->least),
                 most = apart(lateness->most, sim->most);

    if (least == 0 && most == 0)
        return;
    CHECK(least == 0 || least >= sim->interval / 4 || lateness->least == 0 || sim->changes == 0,
          "least changes by %" G_GUINT64_FORMAT, least);
    CHECK(most == 0 || most >= sim->interval / 4, "most changes by %" G_GUINT64_FORMAT, most);
    CHECK(sim->changes == 0 || sim->now - sim->changed >= GST_SECOND, "two changes in a second");
    sim->least = lateness->least;
    sim->most = lateness->most;
    sim->changed = sim->now;
    sim->changes++;
}

/* Pictures as late as `usual`, and each nth of them as late as `late`. Returns how many changes. */
static guint run(struct sim *sim, guint seconds, GstClockTime usual, guint nth, GstClockTime late)
{
    guint before = sim->changes;
    GstClockTime until = sim->now + seconds * GST_SECOND;

    sim->lowest = sim->highest = sim->lateness.most;
    for (; sim->now < until; sim->now += sim->interval) {
        gboolean is_late = nth && sim->pictures % nth == nth - 1;
        /* Half a millisecond of noise. */
        GstClockTime noise = sim->pictures * 7919 % 500 * GST_USECOND;
        sim->pictures++;
        lateness_note(&sim->lateness, (is_late ? late : usual) + noise, sim->now, sim->interval);
        check_change(sim);
        sim->lowest = MIN(sim->lowest, sim->lateness.most);
        sim->highest = MAX(sim->highest, sim->lateness.most);
    }
    return sim->changes - before;
}

static const GstClockTime intervals[] = {4 * MS, 20 * MS, 40 * MS};

/* The guess is as good as what comes; or far too high, and given up at the first picture. */
static void first_pictures(void)
{
    struct sim sim;

    for (guint i = 0; i < G_N_ELEMENTS(intervals); i++) {
        begin(&sim, intervals[i]);
        CHECK(run(&sim, 30, 24 * MS, 0, 0) <= 1, "%u changes", sim.changes);
        CHECK_EQUAL(sim.lateness.most, GUESS);
        begin(&sim, intervals[i]);
        CHECK_EQUAL(run(&sim, 30, 1 * MS, 0, 0), 1);
        CHECK_EQUAL(sim.lateness.most, 2 * MS);
        CHECK_EQUAL(sim.lateness.least, 1 * MS);
    }
}

/* A picture that is 200 ms late, twice a minute, is lost, and does not change the latency. */
static void single_pictures(void)
{
    struct sim sim;

    for (guint i = 0; i < G_N_ELEMENTS(intervals); i++) {
        begin(&sim, intervals[i]);
        run(&sim, 10, 20 * MS, 0, 0);
        guint changes = run(&sim, 600, 20 * MS, (guint)(30 * GST_SECOND / intervals[i]), 200 * MS);
        CHECK_EQUAL(changes, 0);
    }
}

/* A machine that is busy for 12 s, when each tenth picture comes 50 ms later, and then for a minute
 * each second one: covered within 2 s, and over 12 s after it. */
static void busy_phases(void)
{
    struct sim sim;

    for (guint i = 0; i < G_N_ELEMENTS(intervals); i++) {
        begin(&sim, intervals[i]);
        run(&sim, 20, 20 * MS, 0, 0);
        GstClockTime quiet = sim.lateness.most;
        for (guint phase = 0; phase < 2; phase++) {
            guint up = run(&sim, phase ? 60 : 12, 20 * MS, phase ? 2 : 10, 70 * MS);
            CHECK(sim.lateness.most >= 70 * MS, "%" G_GUINT64_FORMAT " in a busy phase",
                  sim.lateness.most);
            CHECK(up <= 2, "%u changes in a busy phase", up);
            guint down = run(&sim, 24, 20 * MS, 0, 0);
            CHECK(sim.lateness.most <= quiet + intervals[i] / 2, "%" G_GUINT64_FORMAT " after it",
                  sim.lateness.most);
            CHECK(down <= 2, "%u changes after a busy phase", down);
        }
    }
}

/* It gets a little worse, and a little better, for an hour: no more than a step either way. */
static void unrest(void)
{
    struct sim sim;

    begin(&sim, 20 * MS);
    run(&sim, 20, 20 * MS, 0, 0);
    guint changes = 0;
    for (guint i = 0; i < 180; i++)
        changes += run(&sim, 20, (20 + i % 6) * MS, 0, 0);
    CHECK(changes <= 2, "%u changes in an hour", changes);
}

/* Another sender: what is in force holds until eight pictures of its have come, and what the one
 * before did is forgotten. */
static void another_sender(void)
{
    struct sim sim;

    begin(&sim, 20 * MS);
    run(&sim, 20, 60 * MS, 0, 0);
    GstClockTime most = sim.lateness.most;
    lateness_break(&sim.lateness);
    for (guint i = 0; i < 7; i++, sim.now += sim.interval)
        lateness_note(&sim.lateness, 500 * MS, sim.now, sim.interval);
    CHECK_EQUAL(sim.lateness.most, most);
    lateness_break(&sim.lateness);
    run(&sim, 12, 5 * MS, 0, 0);
    CHECK_EQUAL(sim.lateness.most, 6 * MS);
    CHECK_EQUAL(sim.lateness.least, 5 * MS);
}

int main(int argc, char **argv)
{
    /* No plugin is needed, and what others' leak is not to be found here. */
    setenv("GST_REGISTRY", "/nonexistent", 1);
    setenv("GST_PLUGIN_PATH", "", 1);
    setenv("GST_PLUGIN_SYSTEM_PATH_1_0", "", 1);
    gst_init(&argc, &argv);
    if (argc > 1 && strcmp(argv[1], "map") == 0) {
        forged_times();
        late_programme();
        for (guint seed = 1; seed <= 5; seed++)
            jitter(seed);
        sharing();
    } else if (argc > 1) {
        first_pictures();
        single_pictures();
        busy_phases();
        unrest();
        another_sender();
    } else {
        SAY("honest times");
        honest_segments();
        honest_files();
        honest_cameras();
        senders_out_of_step();
        cold_starts();
        honest_clocks();
        followed_clocks();
        named_clocks();
        SAY("events of forged times");
        events_of_forged_times();
        SAY("maps of forged heads");
        maps_of_forged_heads();
    }
    return 0;
}
