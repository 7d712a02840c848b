/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which streams share one conversion of times, and one delay: those of one run of one process. */
#include "support/check.h"
#include "wire/codec.h"

#define RUN 7

struct stream {
    struct shared_part part;
    struct time_map map;
    struct timeline line;
};

/* A frame of that running time arrives, by clocks of which nothing is known. Returns its time here.
 */
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

/* A live frame of this running time arrives so late that it is put at its arrival. Returns its
 * time. */
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

/* Times at the ends of their range, as a lying sender may say: none overflows, and none goes back.
 */
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

int main(void)
{
    forged_times();
    late_programme();
    for (guint seed = 1; seed <= 5; seed++)
        jitter(seed);
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
    return 0;
}
