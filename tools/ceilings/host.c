/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the processor can do at best: copy a frame, and wake another process. */
#include "ceilings/ceilings.h"

#include "clock.h"

#include <errno.h>
#include <glib.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

/* === memory ================================================================================== */

#define ROUNDS 7
#define ROUND 40000000 /* ns */
#define POOL_MAX (UINT64_C(384) << 20)

uint32_t raw_memory_buffers(uint64_t size)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    uint64_t pool = cache > 0 ? 4 * (uint64_t)cache : UINT64_C(128) << 20;
    return (uint32_t)CLAMP(MIN(pool, POOL_MAX) / size, 3, 512);
}

static double copy_for_a_while(char *from, char *to, uint64_t size, uint32_t buffers)
{
    int64_t start = clock_now(), now = start;
    uint64_t copies = 0;
    while (now - start < ROUND || copies < 2) {
        uint64_t offset = copies % buffers * size;
        memcpy(to + offset, from + offset, size);
        /* Keeps the compiler from removing the copy. */
        __asm__ volatile("" : : "r"(to) : "memory");
        copies++;
        now = clock_now();
    }
    return (double)copies * 1e9 / (double)(now - start);
}

double raw_memory_copy_rate(uint64_t size)
{
    uint32_t buffers = raw_memory_buffers(size);
    char *from = malloc(size * buffers), *to = malloc(size * buffers);
    double rates[ROUNDS], rate = 0;
    if (from && to) {
        memset(from, 1, size * buffers);
        memset(to, 2, size * buffers);
        for (int i = 0; i < ROUNDS; i++)
            rates[i] = copy_for_a_while(from, to, size, buffers);
        rate = stats_median(rates, ROUNDS);
    }
    free(from);
    free(to);
    return rate;
}

/* === wake ==================================================================================== */

#define WARMUP 10
#define ANSWER_MS 10000

struct page {
    _Atomic int64_t sent;
};

bool raw_wake_open(struct raw_wake *wake)
{
    wake->ping = eventfd(0, EFD_CLOEXEC);
    wake->pong = eventfd(0, EFD_CLOEXEC);
    wake->page = memfd_create("gpudirect-wake", MFD_CLOEXEC);
    return wake->ping >= 0 && wake->pong >= 0 && wake->page >= 0 &&
           ftruncate(wake->page, sizeof(struct page)) == 0;
}

void raw_wake_close(struct raw_wake *wake)
{
    const int fds[] = {wake->ping, wake->pong, wake->page};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    *wake = (struct raw_wake){-1, -1, -1};
}

static struct page *map_page(const struct raw_wake *wake)
{
    struct page *page =
        mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, wake->page, 0);
    return page == MAP_FAILED ? NULL : page;
}

static bool wait_for_pong(int fd, bool (*stopped)(void))
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    uint64_t value;
    int polled;
    do
        polled = poll(&ready, 1, ANSWER_MS);
    while (polled < 0 && errno == EINTR && !stopped());
    return polled > 0 && read(fd, &value, sizeof(value)) == sizeof(value);
}

bool raw_wake_send(const struct raw_wake *wake, uint32_t count, double period,
                   bool (*stopped)(void))
{
    struct page *page = map_page(wake);
    int64_t first = clock_now();
    bool answered = page != NULL;
    for (uint32_t i = 1; answered && i <= count + WARMUP; i++) {
        const uint64_t one = 1;
        clock_sleep_until(first + (int64_t)(i * period));
        atomic_store(&page->sent, clock_now());
        answered = write(wake->ping, &one, sizeof(one)) == sizeof(one) &&
                   wait_for_pong(wake->pong, stopped);
    }
    if (page)
        munmap(page, sizeof(*page));
    return answered;
}

bool raw_wake_answer(const struct raw_wake *wake, uint32_t count, int64_t *latencies)
{
    struct page *page = map_page(wake);
    bool works = page != NULL;
    for (uint32_t i = 0; works && i < count + WARMUP; i++) {
        uint64_t one;
        works = read(wake->ping, &one, sizeof(one)) == sizeof(one);
        int64_t now = clock_now();
        if (works && i >= WARMUP)
            latencies[i - WARMUP] = now - atomic_load(&page->sent);
        works = works && write(wake->pong, &one, sizeof(one)) == sizeof(one);
    }
    int error = errno;
    if (page)
        munmap(page, sizeof(*page));
    errno = error;
    return works;
}
