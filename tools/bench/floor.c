/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Frames through shared memory and futexes alone, without the library: what a hand-over between
 * processes costs at least.
 *
 *     sender                                    each receiver
 *     marks frame n in the ring, writes n
 *     to the receiver's word `there`  --------> reads n, checks the frame's marks
 *                                     <-------- writes n to its word `back`
 *
 * As many frames are in flight as there are slots. A side sleeps if it finds nothing new, and is
 * woken only then. Without frames, the words alone are a reference of other runs. */
#include "bench.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPINS 200
#define NAP (100 * GPUD_MSEC)

void bench_word_send(struct bench_side *side, uint32_t value)
{
    atomic_store(&side->word, value);
    if (atomic_load(&side->waited_for) && atomic_exchange(&side->waited_for, false))
        syscall(SYS_futex, &side->word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void bench_word_await(struct bench_side *side, uint32_t old)
{
    const struct timespec nap = {.tv_nsec = NAP};
    for (int i = 0; i < SPINS; i++)
        if (atomic_load_explicit(&side->word, memory_order_acquire) != old)
            return;
    atomic_store(&side->waited_for, true);
    if (atomic_load(&side->word) == old)
        syscall(SYS_futex, &side->word, FUTEX_WAIT, old, &nap, NULL, 0);
    atomic_store(&side->waited_for, false);
}

static struct bench_page *page;
static uint64_t frame_size;
static uint32_t number; /* of the latest frame, from 1 */

static void *latest_frame(void)
{
    return (char *)page + BENCH_PAGE_SIZE + (number - 1) % bench_job.slots * frame_size;
}

/* Until the word is no longer the value; ends this process where the other one is silent. */
static void wait_for_word(struct bench_side *side, uint32_t value)
{
    int64_t deadline = clock_now() + 3 * BENCH_STEP_TIMEOUT;
    while (atomic_load_explicit(&side->word, memory_order_acquire) == value) {
        bench_word_await(side, value);
        if (clock_now() > deadline)
            bench_die(GPUD_TIMEOUT, "the other process does not answer");
    }
}

void bench_floor_open(void)
{
    page = bench_page_map(bench_job.page);
    frame_size = bench_layout_of(&bench_job).size;
    if (!page)
        bench_die(GPUD_NO_MEMORY, "no shared memory for the frames: %s", g_strerror(errno));
}

void *bench_floor_acquire(uint64_t *size)
{
    number++;
    for (uint32_t i = 0; number > bench_job.slots && i < bench_job.receivers; i++)
        wait_for_word(&page->back[i], number - 1 - bench_job.slots);
    *size = frame_size;
    return latest_frame();
}

void bench_floor_send(void)
{
    for (uint32_t i = 0; i < bench_job.receivers; i++)
        bench_word_send(&page->there[i], number);
}

const void *bench_floor_receive(void)
{
    wait_for_word(&page->there[bench_job.number - 1], number);
    number++;
    return latest_frame();
}

void bench_floor_release(void)
{
    bench_word_send(&page->back[bench_job.number - 1], number);
}
