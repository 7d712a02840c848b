/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What gpudirect-bench believes about frames: a whole one is whole, any damage to what it marks is
 * seen, and the numbers of its report are right. */
#include "bench.h"
#include "support/check.h"

#include <math.h>

#define LARGE 100003

static char frame[LARGE], other[LARGE];

static bool whole(const char *data, uint64_t size, bool full)
{
    uint64_t index;
    int64_t time;
    return bench_frame_check(data, size, full, &index, &time);
}

static void test_whole(void)
{
    const uint64_t sizes[] = {BENCH_FRAME_MIN, BENCH_FRAME_MIN + 1, 8191, 8192, LARGE};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int full = 0; full < 2; full++) {
            uint64_t index = 0;
            int64_t time = 0;
            bench_frame_mark(frame, sizes[i], 7, full);
            bench_frame_set_time(frame, 123456);
            CHECK(bench_frame_check(frame, sizes[i], full, &index, &time), "%llu bytes",
                  (unsigned long long)sizes[i]);
            CHECK_EQUAL(index, 7);
            CHECK_EQUAL(time, 123456);
            CHECK(!whole(frame, sizes[i] - 1, full), "a frame that was cut short");
        }
    }
    SAY("whole frames of all sizes are whole");
}

/* How many of the bytes of a frame may be changed without being seen. */
static unsigned unseen(uint64_t size, bool full)
{
    unsigned count = 0;
    bench_frame_mark(frame, size, 9, full);
    for (uint64_t i = 0; i < size; i++) {
        frame[i] ^= 0x10;
        count += whole(frame, size, full);
        frame[i] ^= 0x10;
    }
    return count;
}

static void test_damage(void)
{
    /* The time and what is behind it in the head are no part of the checksum. */
    CHECK_EQUAL(unseen(2000, true), 32);
    CHECK_EQUAL(unseen(20000, true), 32);
    CHECK_EQUAL(unseen(20000, false), 20000 - 64 - 64 - 8 * 256 + 32);
    SAY("every damaged byte that is marked is seen");
}

/* The ways in which a frame is torn: one frame's beginning with another's end, wherever the border
 * is. */
static void test_torn(void)
{
    for (int full = 0; full < 2; full++) {
        for (uint64_t border = 64; border < LARGE; border += 997) {
            bench_frame_mark(frame, LARGE, 10, full);
            bench_frame_mark(other, LARGE, 11, full);
            memcpy(frame + border, other + border, LARGE - border);
            CHECK(!whole(frame, LARGE, full), "torn at %llu", (unsigned long long)border);
        }
    }
    SAY("frames of two halves are torn");
}

/* The marks that GPUs write: whatever is changed is seen where it is looked at. */
static void test_rows(void)
{
    struct gpud_layout layout;
    struct bench_job job = {.from = "cuda:0", .to = "host", .warmup = 2, .frames = 8};
    uint64_t index, damaged = 0, stride = 128;
    CHECK_EQUAL(gpud_layout_init(&layout, "NV12", 60, 10, (uint32_t)stride, NULL), GPUD_OK);
    CHECK(bench_uses_rows(&job) && bench_rows_fit(&layout), "marks for a GPU");
    CHECK(!bench_rows_is_whole(&job, 2) && bench_rows_is_whole(&job, 3), "which frames are filled");

    bench_rows_mark(frame, &layout, &job, 2);
    for (uint64_t i = 0; i < layout.size; i++) {
        frame[i] ^= 0x10;
        damaged += !bench_rows_check_frame(frame, &layout, &job, &index);
        frame[i] ^= 0x10;
    }
    CHECK_EQUAL(damaged, BENCH_ROWS_SIZE);
    CHECK(bench_rows_check_frame(frame, &layout, &job, &index), "undamaged");
    CHECK_EQUAL(index, 2);
    bench_rows_mark(other, &layout, &job, 4);
    memcpy(frame + layout.size / 2, other + layout.size / 2, layout.size - layout.size / 2);
    CHECK(!bench_rows_check_frame(frame, &layout, &job, &index), "torn");

    damaged = 0;
    bench_rows_mark(frame, &layout, &job, 3);
    for (uint64_t i = 0; i < layout.size; i++) {
        frame[i] ^= 0x10;
        damaged += !bench_rows_check_frame(frame, &layout, &job, &index);
        frame[i] ^= 0x10;
    }
    CHECK_EQUAL(damaged, 60 * 15); /* the pixels of both planes, not what pads their rows */
    job.full = true;
    CHECK(bench_rows_is_whole(&job, 1) && !bench_rows_is_whole(&job, 0), "in full all but probes");
    SAY("frames that a GPU marks are checked as far as they are marked");
}

static void test_stats(void)
{
    int64_t ns[1000];
    for (int i = 0; i < 1000; i++)
        ns[i] = (int64_t)(i * 7 % 1000 + 1) * 1000; /* 1 to 1000 us in some order */
    struct stats_latency latency = stats_latency_of(ns, 1000);
    CHECK(latency.p50 == 500 && latency.p90 == 900 && latency.p99 == 990 && latency.p999 == 999 &&
              latency.max == 1000,
          "%g %g %g %g %g", latency.p50, latency.p90, latency.p99, latency.p999, latency.max);
    const int64_t swing[] = {1000, 3000, 1000, 3000};
    CHECK(stats_latency_of(swing, 4).jitter == 2, "jitter");
    CHECK(isnan(stats_latency_of(NULL, 0).p50), "no samples");
    double odd[] = {3, 1, 2}, even[] = {4, 1, 2, 3}, unknown[] = {1, NAN};
    CHECK(stats_median(odd, 3) == 2 && stats_median(even, 4) == 2.5 &&
              isnan(stats_median(unknown, 2)),
          "medians");
    SAY("percentiles, jitter and medians are right");
}

int main(void)
{
    test_whole();
    test_damage();
    test_torn();
    test_rows();
    test_stats();
    return 0;
}
