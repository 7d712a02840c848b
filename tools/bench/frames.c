/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The marks of frames, by the CPU. */
#include "bench.h"

#include <stddef.h>
#include <string.h>
#include <xxhash.h>

#define MAGIC UINT64_C(0x6d61726664757067)
#define BLOCKS 8
#define BLOCK 256
#define TAIL 64
#define MARKED_MIN 8192 /* smaller frames have a head and a tail only */

struct head {
    uint64_t magic, index, size, hash;
    int64_t time;
    uint64_t unused[3];
};
_Static_assert(sizeof(struct head) + TAIL <= BENCH_FRAME_MIN,
               "the marks of the smallest frame do not overlap");

/* A different number for each index, block and word. */
static uint64_t mix(uint64_t index, uint64_t block, uint64_t word)
{
    uint64_t z = index * UINT64_C(0x9e3779b97f4a7c15) + (block << 32) + word;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    return z ^ (z >> 27);
}

static void frames_fill(char *at, uint64_t size, uint64_t index, uint64_t block)
{
    for (uint64_t word = 0; word < size / 8; word++) {
        uint64_t value = mix(index, block, word);
        memcpy(at + word * 8, &value, 8);
    }
}

static unsigned blocks(uint64_t size)
{
    return size < MARKED_MIN ? 0 : BLOCKS;
}

static uint64_t block_offset(uint64_t size, unsigned block)
{
    uint64_t room = size - sizeof(struct head) - TAIL - BLOCK;
    return sizeof(struct head) + (room * (block + 1) / (BLOCKS + 1) & ~UINT64_C(63));
}

static uint64_t hash_of(const char *frame, uint64_t size, uint64_t index, bool full)
{
    if (full)
        return XXH3_64bits_withSeed(frame + sizeof(struct head), size - sizeof(struct head), index);
    char gathered[BLOCKS * BLOCK + TAIL];
    size_t used = 0;
    for (unsigned block = 0; block < blocks(size); block++, used += BLOCK)
        memcpy(gathered + used, frame + block_offset(size, block), BLOCK);
    memcpy(gathered + used, frame + size - TAIL, TAIL);
    return XXH3_64bits_withSeed(gathered, used + TAIL, index);
}

void bench_frame_mark(void *data, uint64_t size, uint64_t index, bool full)
{
    char *frame = data;
    struct head head = {.magic = MAGIC, .index = index, .size = size};
    if (full)
        frames_fill(frame + sizeof(head), size - sizeof(head), index, 0);
    for (unsigned block = 0; block < blocks(size) && !full; block++)
        frames_fill(frame + block_offset(size, block), BLOCK, index, block);
    frames_fill(frame + size - TAIL, TAIL, index, BLOCKS);
    head.hash = hash_of(frame, size, index, full);
    memcpy(frame, &head, sizeof(head));
}

void bench_frame_set_time(void *data, int64_t time)
{
    memcpy((char *)data + offsetof(struct head, time), &time, sizeof(time));
}

bool bench_frame_check(const void *data, uint64_t size, bool full, uint64_t *index, int64_t *time)
{
    const char *frame = data;
    struct head head = {0};
    char tail[TAIL];
    *index = 0;
    *time = 0;
    if (size < BENCH_FRAME_MIN)
        return false;
    memcpy(&head, frame, sizeof(head));
    *index = head.index;
    *time = head.time;
    /* The memory may be larger than the frame. */
    if (head.magic != MAGIC || head.size < BENCH_FRAME_MIN || head.size > size)
        return false;
    frames_fill(tail, TAIL, head.index, BLOCKS);
    return memcmp(tail, frame + head.size - TAIL, TAIL) == 0 &&
           head.hash == hash_of(frame, head.size, head.index, full);
}

/* === rows =================================================================================== */

#define ROW_MAGIC UINT32_C(0x67707564)

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
        const struct row row = {.magic = ROW_MAGIC, .number = i, .index = index};
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
    if (!bench_rows_check_marks(frame, layout, index))
        return false;
    if (!bench_rows_is_whole(job, *index))
        return true;
    uint64_t pitch = bench_rows_pitch(layout);
    uint8_t filler = bench_rows_filler(*index);
    for (uint32_t p = 0; p < layout->planes; p++) {
        const struct gpud_plane *plane = &layout->plane[p];
        for (uint64_t y = 0; y < plane->rows; y++) {
            uint64_t from = y * plane->stride;
            uint64_t skip =
                p == 0 && from % pitch == 0 && from / pitch < BENCH_ROWS ? BENCH_ROW : 0;
            const char *at = (const char *)frame + plane->offset + from + skip;
            uint64_t size = plane->row_bytes - skip;
            if (size > 0 && (*(const uint8_t *)at != filler || memcmp(at, at + 1, size - 1) != 0))
                return false;
        }
    }
    return true;
}
