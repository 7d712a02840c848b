/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The marks of a frame, which tell its receiver which frame it is and whether it is whole.
 *
 *     | head: magic, index, size, hash, time | … 8 blocks of 256 bytes … | tail |
 *
 * Everything except hash and time depends on the index. Marking and checking takes about a
 * microsecond for any size of frame; in full, every byte is written and hashed. */
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
