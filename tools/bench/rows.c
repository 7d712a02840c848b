/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The marks of a frame that a GPU writes or reads by copies alone: 16 bytes at the start of four
 * rows of the first plane, from the first row to about the last, so that one strided copy covers
 * all. They hold the frame's index, and show whether its beginning, middle and end belong to one
 * frame.
 *
 * Some frames of a run, or all with --verify full, are also filled with a byte that depends on the
 * index, and every byte is checked. */
#include "bench.h"

#include "ceilings/ceilings.h"

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
    return driver && (!bench_uses_elements(job) || driver == &raw_cuda);
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

bool bench_uses_rows(const struct bench_job *job)
{
    return bench_works_on_gpu(job, job->from) || bench_reads_on_gpu(job);
}

uint64_t bench_rows_pitch(const struct gpud_layout *layout)
{
    return layout->plane[0].stride * (uint64_t)((layout->plane[0].rows - 1) / (BENCH_ROWS - 1));
}

bool bench_rows_fit(const struct gpud_layout *layout)
{
    return layout->plane[0].rows >= BENCH_ROWS && layout->plane[0].row_bytes >= BENCH_ROW &&
           bench_rows_pitch(layout) < INT32_MAX;
}

void bench_rows_make(void *rows, uint64_t index)
{
    for (uint32_t i = 0; i < BENCH_ROWS; i++) {
        const struct row row = {.magic = MAGIC, .number = i, .index = index};
        memcpy((char *)rows + i * BENCH_ROW, &row, BENCH_ROW);
    }
}

bool bench_rows_check(const void *rows, uint64_t *index)
{
    char made[BENCH_ROWS_SIZE];
    struct row first;
    memcpy(&first, rows, sizeof(first));
    *index = first.index;
    bench_rows_make(made, first.index);
    return memcmp(rows, made, sizeof(made)) == 0;
}

bool bench_rows_is_whole(const struct bench_job *job, uint64_t index)
{
    uint32_t every = MAX(job->frames / BENCH_WHOLE_FRAMES, 1);
    if (index == 0)
        return false;
    return job->full || (index > job->warmup && (index - job->warmup) % every == 0);
}

uint8_t bench_rows_filler(uint64_t index)
{
    return (uint8_t)(index * 151 + 17);
}

void bench_rows_mark(void *frame, const struct gpud_layout *layout, const struct bench_job *job,
                     uint64_t index)
{
    char rows[BENCH_ROWS_SIZE], *at = (char *)frame + layout->plane[0].offset;
    if (bench_rows_is_whole(job, index))
        memset(frame, bench_rows_filler(index), layout->size);
    bench_rows_make(rows, index);
    for (unsigned i = 0; i < BENCH_ROWS; i++)
        memcpy(at + i * bench_rows_pitch(layout), rows + i * BENCH_ROW, BENCH_ROW);
}

bool bench_rows_check_marks(const void *frame, const struct gpud_layout *layout, uint64_t *index)
{
    char rows[BENCH_ROWS_SIZE];
    const char *at = (const char *)frame + layout->plane[0].offset;
    for (unsigned i = 0; i < BENCH_ROWS; i++)
        memcpy(rows + i * BENCH_ROW, at + i * bench_rows_pitch(layout), BENCH_ROW);
    return bench_rows_check(rows, index);
}

bool bench_rows_check_frame(const void *frame, const struct gpud_layout *layout,
                            const struct bench_job *job, uint64_t *index)
{
    return bench_rows_check_marks(frame, layout, index) &&
           (!bench_rows_is_whole(job, *index) || bench_rows_check_whole(frame, layout, *index));
}

static bool is_filled(const char *at, uint64_t size, uint8_t filler)
{
    return size == 0 || (*(const uint8_t *)at == filler && memcmp(at, at + 1, size - 1) == 0);
}

bool bench_rows_check_whole(const void *frame, const struct gpud_layout *layout, uint64_t index)
{
    uint64_t found, pitch = bench_rows_pitch(layout);
    uint8_t filler = bench_rows_filler(index);
    if (!bench_rows_check_marks(frame, layout, &found) || found != index)
        return false;
    for (uint32_t p = 0; p < layout->planes; p++) {
        const struct gpud_plane *plane = &layout->plane[p];
        for (uint64_t y = 0; y < plane->rows; y++) {
            uint64_t from = y * plane->stride;
            bool marked = p == 0 && from % pitch == 0 && from / pitch < BENCH_ROWS;
            uint64_t skip = marked ? BENCH_ROW : 0;
            if (!is_filled((const char *)frame + plane->offset + from + skip,
                           plane->row_bytes - skip, filler))
                return false;
        }
    }
    return true;
}
