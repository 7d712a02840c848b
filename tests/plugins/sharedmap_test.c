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

int main(void)
{
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
