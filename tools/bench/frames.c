/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "frames.h"

#include <stddef.h>
#include <string.h>
#include <xxhash.h>

#define MAGIC UINT64_C(0x6d61726664757067)
#define PLACES 8
#define PLACE 256
#define TAIL 64
#define MARKED_MIN 8192 /* smaller frames have a head and a tail only */

struct head {
    uint64_t magic, index, size, hash;
    int64_t time;
    uint64_t unused[3];
};
_Static_assert(sizeof(struct head) + TAIL <= BENCH_FRAME_MIN,
               "the marks of the smallest frame do not overlap");

/* A different number for every index, place and word. */
static uint64_t mix(uint64_t index, uint64_t place, uint64_t word)
{
    uint64_t z = index * UINT64_C(0x9e3779b97f4a7c15) + (place << 32) + word;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    return z ^ (z >> 27);
}

static void fill(char *at, uint64_t size, uint64_t index, uint64_t place)
{
    for (uint64_t word = 0; word < size / 8; word++) {
        uint64_t value = mix(index, place, word);
        memcpy(at + word * 8, &value, 8);
    }
}

static unsigned places(uint64_t size)
{
    return size < MARKED_MIN ? 0 : PLACES;
}

static uint64_t place_offset(uint64_t size, unsigned place)
{
    uint64_t room = size - sizeof(struct head) - TAIL - PLACE;
    return sizeof(struct head) + (room * (place + 1) / (PLACES + 1) & ~UINT64_C(63));
}

static uint64_t hash_of(const char *frame, uint64_t size, uint64_t index, bool full)
{
    if (full)
        return XXH3_64bits_withSeed(frame + sizeof(struct head), size - sizeof(struct head), index);
    char gathered[PLACES * PLACE + TAIL];
    size_t used = 0;
    for (unsigned place = 0; place < places(size); place++, used += PLACE)
        memcpy(gathered + used, frame + place_offset(size, place), PLACE);
    memcpy(gathered + used, frame + size - TAIL, TAIL);
    return XXH3_64bits_withSeed(gathered, used + TAIL, index);
}

void bench_frame_mark(void *data, uint64_t size, uint64_t index, bool full)
{
    char *frame = data;
    struct head head = {.magic = MAGIC, .index = index, .size = size};
    if (full)
        fill(frame + sizeof(head), size - sizeof(head), index, 0);
    for (unsigned place = 0; place < places(size) && !full; place++)
        fill(frame + place_offset(size, place), PLACE, index, place);
    fill(frame + size - TAIL, TAIL, index, PLACES);
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
    /* Memory may be larger than the picture in it. */
    if (head.magic != MAGIC || head.size < BENCH_FRAME_MIN || head.size > size)
        return false;
    fill(tail, TAIL, head.index, PLACES);
    return memcmp(tail, frame + head.size - TAIL, TAIL) == 0 &&
           head.hash == hash_of(frame, head.size, head.index, full);
}
