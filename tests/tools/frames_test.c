/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What gpudirect-bench believes about frames: a whole one is whole, any damage to what it marks is
 * seen, and the numbers of its report are right. */
#include "bench.h"
#include "support/check.h"

#include <math.h>

static char frame[200000], other[200000];

static bool whole(const struct gpud_layout *layout, const struct bench_job *job, uint64_t index)
{
    uint64_t found;
    return bench_frame_check(frame, layout, job, &found) && found == index;
}

/* How many damaged bytes of a frame are seen. */
static uint64_t seen(const struct gpud_layout *layout, const struct bench_job *job, uint64_t index)
{
    uint64_t count = 0;
    bench_frame_mark(frame, layout, job, index);
    CHECK(whole(layout, job, index), "undamaged");
    for (uint64_t i = 0; i < layout->size; i++) {
        frame[i] ^= 0x10;
        count += !whole(layout, job, index);
        frame[i] ^= 0x10;
    }
    return count;
}

static void test_damage(void)
{
    static const struct {
        const char *format;
        uint32_t width, height, stride_align, planes;
        uint64_t picture; /* bytes without what pads the rows */
    } pictures[] = {
        {"UYVY", 64, 8, 0, 1, 64 * 2 * 8},
        {"NV12", 60, 16, 128, 2, 60 * 16 * 3 / 2},
        {"I420", 319, 177, 0, 3, 319 * 177 + 2 * 160 * 89},
        {"NV12", 60, 10, 128, 1, 60 * 15}, /* chroma has five rows: no marks there */
    };
    for (size_t i = 0; i < sizeof(pictures) / sizeof(pictures[0]); i++) {
        struct gpud_layout layout;
        struct bench_job job = {.warmup = 2, .frames = 8, .on_gpu = true, .fills = true};
        CHECK_EQUAL(gpud_layout_init(&layout, pictures[i].format, pictures[i].width,
                                     pictures[i].height, pictures[i].stride_align, NULL),
                    GPUD_OK);
        CHECK(bench_is_marked(&layout.plane[0]), "%s has marks", pictures[i].format);
        CHECK_EQUAL(seen(&layout, &job, 2), pictures[i].planes * (uint64_t)BENCH_MARKS_SIZE);
        CHECK_EQUAL(seen(&layout, &job, 3), pictures[i].picture);
        job.full = true;
        CHECK_EQUAL(seen(&layout, &job, 2), pictures[i].picture);
        job.on_gpu = job.fills = false;
        CHECK_EQUAL(seen(&layout, &job, 2), pictures[i].picture);
        job.full = false;
        CHECK_EQUAL(seen(&layout, &job, 2), pictures[i].planes * (uint64_t)BENCH_MARKS_SIZE +
                                                layout.planes * (uint64_t)BENCH_ROW);
    }
    /* A mark at the end of a row needs a row that is longer than one at its start. */
    struct gpud_layout small;
    struct bench_job job = {.warmup = 2, .frames = 8};
    CHECK_EQUAL(gpud_layout_init(&small, "UYVY", 8, 22, 0, NULL), GPUD_OK);
    CHECK_EQUAL(seen(&small, &job, 2), BENCH_MARKS_SIZE);
    CHECK_EQUAL(gpud_layout_init(&small, "UYVY", 64, 7, 0, NULL), GPUD_OK);
    CHECK(!bench_is_marked(&small.plane[0]), "seven rows are too few");
    CHECK_EQUAL(gpud_layout_init(&small, "UYVY", 6, 8, 0, NULL), GPUD_OK);
    CHECK(!bench_is_marked(&small.plane[0]), "twelve bytes are too few");
    SAY("every damaged byte that is marked is seen, in filled frames every byte of the picture");
}

static void test_filled(void)
{
    struct bench_job job = {.warmup = 2, .frames = 8, .on_gpu = true, .fills = true};
    CHECK(!bench_is_filled(&job, 0) && !bench_is_filled(&job, 2) && bench_is_filled(&job, 3),
          "which frames are filled where a GPU takes part");
    job.on_gpu = job.fills = false;
    CHECK(!bench_is_filled(&job, 3), "without one none");
    job.full = true;
    CHECK(bench_is_filled(&job, 1) && !bench_is_filled(&job, 0), "in full all but probes");
    SAY("the frames are filled that should be");
}

/* The ways in which a frame is torn: one frame's beginning with another's end, wherever the border
 * is. */
static void test_torn(void)
{
    struct gpud_layout layout;
    CHECK_EQUAL(gpud_layout_init(&layout, "NV12", 320, 180, 0, NULL), GPUD_OK);
    for (int full = 0; full < 2; full++) {
        struct bench_job job = {.frames = 8, .full = (uint32_t)full};
        for (uint64_t border = BENCH_ROW; border < layout.size - (full ? 1 : BENCH_ROW);
             border += 997) {
            uint64_t index;
            bench_frame_mark(frame, &layout, &job, 10);
            bench_frame_mark(other, &layout, &job, 11);
            memcpy(frame + border, other + border, layout.size - border);
            CHECK(!bench_frame_check(frame, &layout, &job, &index), "torn at %llu",
                  (unsigned long long)border);
        }
    }
    SAY("frames of two halves are torn");
}

static void swap(const struct gpud_layout *layout, uint64_t a, uint64_t b, uint64_t size)
{
    memcpy(other, frame, layout->size);
    memcpy(frame + a, other + b, size);
    memcpy(frame + b, other + a, size);
}

/* Parts of a frame where others of it belong. */
static void test_swapped(void)
{
    struct gpud_layout layout;
    CHECK_EQUAL(gpud_layout_init(&layout, "I420", 640, 180, 0, NULL), GPUD_OK);
    const struct gpud_plane *y = &layout.plane[0], *u = &layout.plane[1], *v = &layout.plane[2];
    for (int how = 0; how < 3; how++) {
        struct bench_job job = {
            .frames = 8, .full = how == 1, .on_gpu = how == 2, .fills = how == 2};
        bench_frame_mark(frame, &layout, &job, 10);
        swap(&layout, u->offset, v->offset, (uint64_t)u->stride * u->rows);
        CHECK(!whole(&layout, &job, 10), "the planes U and V are swapped");
    }
    const struct bench_job job = {.frames = 8, .full = true};
    for (uint64_t row = 1; row < y->rows; row++) {
        bench_frame_mark(frame, &layout, &job, 10);
        swap(&layout, y->offset + BENCH_ROW, y->offset + row * y->stride + BENCH_ROW,
             y->row_bytes - BENCH_ROW);
        CHECK(!whole(&layout, &job, 10), "row %llu is swapped with the first",
              (unsigned long long)row);
    }
    SAY("swapped planes are seen, in full swapped rows");
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
    test_damage();
    test_filled();
    test_torn();
    test_swapped();
    test_stats();
    return 0;
}
