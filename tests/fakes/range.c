/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Device addresses and what lies behind them. A device address is one of a large reservation
 * that no CPU may touch, so that a program that takes it for its own memory crashes at once. */

#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static CUdeviceptr arena, arena_next;
static size_t arena_size;

void arena_open(size_t size)
{
    void *start = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) {
        fprintf(stderr, "fake libcuda: no %zu bytes of address space: %m\n", size);
        abort();
    }
    arena = (CUdeviceptr)(uintptr_t)start;
    arena_size = size;
    arena_next = (arena + GRANULARITY - 1) & ~(CUdeviceptr)(GRANULARITY - 1);
}

/* Never an address that was used before, as long as there are others: a use after the end is
 * seen. What this cannot give is refused as memory that ran out. */
CUdeviceptr arena_take(size_t size, size_t alignment)
{
    CUdeviceptr start = (arena_next + alignment - 1) & ~(CUdeviceptr)(alignment - 1);
    size_t room = (size + 2 * PAGE - 1) & ~(PAGE - 1); /* a hole behind each */
    if (size > arena_size || start + room > arena + arena_size)
        return 0;
    arena_next = start + room;
    return start;
}

bool in_arena(CUdeviceptr address)
{
    return address >= arena && address - arena < arena_size;
}

struct range *range_add(enum range_kind kind, CUdeviceptr start, size_t size)
{
    static unsigned long long last_id;
    struct range *range = calloc(1, sizeof *range);
    if (!range)
        return NULL;
    range->kind = kind;
    range->start = start;
    range->size = size;
    range->id = ++last_id;
    range->references = 1;
    range->next = fake.ranges;
    fake.ranges = range;
    return range;
}

struct range *range_at(CUdeviceptr address)
{
    struct range *range = fake.ranges;
    while (range && (address < range->start || address - range->start >= range->size))
        range = range->next;
    return range;
}

struct range *host_range_at(const void *host, size_t size)
{
    const unsigned char *first = host;
    for (struct range *range = fake.ranges; range; range = range->next) {
        if (range->kind == RANGE_HOST && first < range->host + range->size &&
            range->host < first + size)
            return range;
    }
    return NULL;
}

void range_unref(struct range *range)
{
    if (--range->references == 0)
        free(range);
}

CUresult range_retire(struct range *range, const char *word)
{
    CUresult result = CUDA_SUCCESS;
    if (range->queued > 0 && word)
        result = report(ERROR_ILLEGAL_ADDRESS, "%s while %u queued operations touch it", word,
                        range->queued);
    struct range **link = &fake.ranges;
    while (*link != range)
        link = &(*link)->next;
    *link = range->next;
    __atomic_store_n(&range->dead, true, __ATOMIC_RELEASE);
    while (range->running > 0)
        pthread_cond_wait(&fake.progress, &fake.lock);
    backing_unref(range->backing);
    range->backing = NULL;
    if (range->allocation)
        allocation_unref(range->allocation);
    if (range->host_allocated)
        munmap(range->host, range->size);
    if (range->kind == RANGE_MANAGED)
        munmap(range->cpu, range->size);
    range_unref(range);
    return result;
}
