/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The marks of frames, by the CPU. */
#include "bench.h"

#include <string.h>

#define MAGIC UINT32_C(0x67707564)

struct row {
    uint32_t magic, number;
    uint64_t index;
};
_Static_assert(sizeof(struct row) == BENCH_ROW, "a mark is as long as it says");

bool bench_works_on_gpu(const struct bench_job *job, const char *device)
{
    const struct raw_driver *driver = raw_driver_of(device, NULL);
    return driver && (!job->elements || driver == &raw_cuda);
}

bool bench_reads_on_gpu(const struct bench_job *job)
{
    char **list = g_strsplit(job->to, ",", -1);
    bool found = false;
    for (char **each = list; *each; each++)
        found = found || bench_works_on_gpu(job, g_strstrip(*each));
    g_strfreev(list);
    return found;
}

bool bench_uses_gpu(const struct bench_job *job)
{
    return bench_works_on_gpu(job, job->from) || bench_reads_on_gpu(job);
}

bool bench_is_marked(const struct gpud_plane *plane)
{
    return plane->rows >= BENCH_ROWS && plane->row_bytes >= BENCH_ROW &&
           bench_marks_pitch(plane) < INT32_MAX;
}

uint64_t bench_marks_pitch(const struct gpud_plane *plane)
{
    return plane->stride * (uint64_t)((plane->rows - 1) / (BENCH_ROWS - 1));
}

/* Mark i of a plane; after the last one, that at its end. */
static struct row mark_of(uint32_t plane, uint32_t i, uint64_t index)
{
    return (struct row){.magic = MAGIC, .number = plane * (BENCH_ROWS + 1) + i, .index = index};
}

void bench_marks_make(void *marks, uint32_t plane, uint64_t index)
{
    for (uint32_t i = 0; i < BENCH_ROWS; i++) {
        const struct row row = mark_of(plane, i, index);
        memcpy((char *)marks + i * BENCH_ROW, &row, BENCH_ROW);
    }
}

bool bench_marks_check(const void *marks, uint32_t plane, uint64_t *index)
{
    char made[BENCH_MARKS_SIZE];
    struct row first;
    memcpy(&first, marks, sizeof(first));
    *index = first.index;
    bench_marks_make(made, plane, first.index);
    return memcmp(marks, made, sizeof(made)) == 0;
}

bool bench_is_filled(const struct bench_job *job, uint64_t index)
{
    uint32_t every = MAX(job->frames / BENCH_FILLED_FRAMES, 1);
    if (index == 0)
        return false;
    return job->full || (job->fills && index > job->warmup && (index - job->warmup) % every == 0);
}

uint8_t bench_filler(uint64_t index)
{
    return (uint8_t)(index * 151 + 17);
}

/* Where only CPUs fill frames each row has a byte of its own. */
static uint8_t filler_of(const struct bench_job *job, uint64_t index, uint32_t plane, uint64_t y)
{
    return (uint8_t)(bench_filler(index) + (job->on_gpu ? 0 : plane * 85 + y * 7 + y / 256 * 13));
}

/* Where the mark at a plane's end lies; 0: it has none, since a GPU takes part, or every byte is
 * checked. */
static size_t tail_of(const struct gpud_plane *plane, const struct bench_job *job)
{
    if (job->on_gpu || job->full || plane->row_bytes < 2 * BENCH_ROW)
        return 0;
    return (size_t)(plane->offset + (uint64_t)plane->stride * (plane->rows - 1) + plane->row_bytes -
                    BENCH_ROW);
}

static void fill(void *frame, const struct gpud_layout *layout, const struct bench_job *job,
                 uint64_t index)
{
    for (uint32_t p = 0; p < layout->planes; p++) {
        const struct gpud_plane *plane = &layout->plane[p];
        for (uint64_t y = 0; y < plane->rows; y++)
            memset((char *)frame + plane->offset + y * plane->stride, filler_of(job, index, p, y),
                   (size_t)plane->row_bytes);
    }
}

void bench_frame_mark(void *frame, const struct gpud_layout *layout, const struct bench_job *job,
                      uint64_t index)
{
    if (bench_is_filled(job, index))
        fill(frame, layout, job, index);
    for (uint32_t p = 0; p < layout->planes; p++) {
        const struct gpud_plane *plane = &layout->plane[p];
        const struct row last = mark_of(p, BENCH_ROWS, index);
        size_t tail = tail_of(plane, job);
        for (uint32_t i = 0; bench_is_marked(plane) && i < BENCH_ROWS; i++) {
            const struct row row = mark_of(p, i, index);
            memcpy((char *)frame + plane->offset + i * bench_marks_pitch(plane), &row, BENCH_ROW);
        }
        if (tail)
            memcpy((char *)frame + tail, &last, BENCH_ROW);
    }
}

bool bench_frame_check_marks(const void *frame, const struct gpud_layout *layout, uint64_t *index)
{
    char marks[BENCH_MARKS_SIZE];
    uint64_t first = 0;
    for (uint32_t p = 0; p < layout->planes; p++) {
        const struct gpud_plane *plane = &layout->plane[p];
        if (!bench_is_marked(plane))
            continue;
        for (uint32_t i = 0; i < BENCH_ROWS; i++)
            memcpy(marks + i * BENCH_ROW,
                   (const char *)frame + plane->offset + i * bench_marks_pitch(plane), BENCH_ROW);
        if (!bench_marks_check(marks, p, index) || (p > 0 && *index != first))
            return false;
        first = *index;
    }
    return true;
}

bool bench_frame_check(const void *frame, const struct gpud_layout *layout,
                       const struct bench_job *job, uint64_t *index)
{
    if (!bench_frame_check_marks(frame, layout, index))
        return false;
    bool filled = bench_is_filled(job, *index);
    for (uint32_t p = 0; p < layout->planes; p++) {
        const struct gpud_plane *plane = &layout->plane[p];
        const struct row last = mark_of(p, BENCH_ROWS, *index);
        size_t tail = tail_of(plane, job);
        if (tail && memcmp((const char *)frame + tail, &last, BENCH_ROW) != 0)
            return false;
        uint64_t pitch = bench_marks_pitch(plane);
        for (uint64_t y = 0; filled && y < plane->rows; y++) {
            uint8_t filler = filler_of(job, *index, p, y);
            uint64_t from = y * plane->stride;
            bool marked = bench_is_marked(plane) && from % pitch == 0 && from / pitch < BENCH_ROWS;
            uint64_t skip = marked ? BENCH_ROW : 0, size = plane->row_bytes - skip;
            const char *at = (const char *)frame + plane->offset + from + skip;
            if (size > 0 && (*(const uint8_t *)at != filler || memcmp(at, at + 1, size - 1) != 0))
                return false;
        }
    }
    return true;
}
