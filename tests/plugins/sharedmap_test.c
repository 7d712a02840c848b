/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which streams share one conversion of times: those of one run of one process. */
#include "support/check.h"
#include "wire/sharedmap.h"

#define RUN 7

struct stream {
    struct shared_part part;
    struct time_map map;
};

/* A frame of running time 0 arrives, by clocks of which nothing is known. */
static void arrive(struct stream *stream, GstClockTime at)
{
    const struct wire_head head = {.live = TRUE, .run = RUN, .sent = GST_CLOCK_TIME_NONE};
    const struct time_frame frame = {
        .running = 0, .submitted = GST_CLOCK_TIME_NONE, .arrived = at, .waited_for = TRUE};
    const struct time_now now = {.base = GST_SECOND, .running = at, .system = at};
    shared_map_update(&stream->part, &stream->map, &head, &frame, &now);
    CHECK(stream->map.anchored, "nothing was learnt");
}

/* A frame of that running time. Returns its time here. */
static gint64 arrive_later(struct stream *stream, GstClockTime running, GstClockTime at)
{
    const struct wire_head head = {.live = TRUE, .run = RUN, .sent = GST_CLOCK_TIME_NONE};
    const struct time_frame frame = {
        .running = running, .submitted = GST_CLOCK_TIME_NONE, .arrived = at, .waited_for = TRUE};
    const struct time_now now = {.base = GST_SECOND, .running = at, .system = at};
    shared_map_update(&stream->part, &stream->map, &head, &frame, &now);
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
        pictures[i % 16] = arrive_later(&picture, running, at + way);
        if (i < 3)
            continue;
        gint64 heard = arrive_later(&sound, running - 3 * 40 * GST_MSECOND, at + 20 * GST_MSECOND);
        most = MAX(most, ABS(heard - pictures[(i - 3) % 16]));
    }
    SAY("sound and picture are %.3f ms apart at most", (double)most / 1e6);
    CHECK(most < GST_MSECOND, "sound and picture are %" G_GINT64_FORMAT " ns apart", most);
    shared_map_leave(&picture.part);
    shared_map_leave(&sound.part);
    shared_map_unref(map);
    g_rand_free(random);
}

int main(void)
{
    for (guint seed = 1; seed <= 5; seed++)
        jitter(seed);
    struct shared_map *map = shared_map_new();
    struct stream picture = {.part = {.map = map, .process = 1}};
    struct stream sound = {.part = {.map = map, .process = 1}};
    struct stream liar = {.part = {.map = map, .process = 2}};
    struct stream alone = {.part = {.process = 1}};

    arrive(&picture, GST_SECOND);
    gint64 shift = picture.map.shift;
    arrive(&sound, GST_SECOND + 10 * GST_MSECOND);
    CHECK(sound.map.shift == shift, "sound is %" G_GINT64_FORMAT " ns from its picture",
          sound.map.shift - shift);
    arrive(&alone, GST_SECOND + 20 * GST_MSECOND);
    CHECK(alone.map.shift != shift, "a stream of another programme shares the conversion");
    arrive(&liar, GST_SECOND + 300 * GST_MSECOND);
    CHECK(liar.map.shift != shift, "another process shares the conversion by naming the run");
    arrive(&sound, GST_SECOND + 310 * GST_MSECOND);
    CHECK(sound.map.shift == shift, "another process moves the times by naming the run");

    /* The sound measures when the picture has stopped, and goes on from there. */
    shared_map_leave(&picture.part);
    arrive(&sound, GST_SECOND + 320 * GST_MSECOND);
    picture.map = (struct time_map){0};
    arrive(&picture, GST_SECOND + 330 * GST_MSECOND);
    CHECK(picture.map.shift == sound.map.shift, "the picture comes back beside its sound");
    shared_map_unref(map);
    return 0;
}
