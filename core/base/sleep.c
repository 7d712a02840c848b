/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sleeping until another side wakes one, and the pace of what comes. */
#include "base/base.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/* === sleep =================================================================================== */

/* A wake through the kernel takes tens of microseconds but little processor time, so longer waits
 * are cheaper asleep. */
#define SPIN_MAX (20 * INT64_C(1000))
#define SPIN_MIN (5 * INT64_C(1000))
#define YIELD_AFTER (2 * INT64_C(1000))

/* A yield that takes so long let another thread run; otherwise it returns within 0.3 us. */
#define SWITCH_MIN INT64_C(1000)

/* No wait for a paced picture is so short, and more than 16 peers take their turns within it. */
#define YIELDS_MAX (500 * INT64_C(1000))
#define YIELDS_PAUSE (100 * GPUD_MSEC)

/* How long to wait for a thread that was preempted on its way into the kernel. */
#define ROUSE_NAP (20 * INT64_C(1000))
#define ROUSE_MAX (50 * GPUD_MSEC)

void gpud_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t deadline)
{
    struct timespec until = gpud_timespec(deadline);
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value, &until, NULL, FUTEX_BITSET_MATCH_ANY);
}

void gpud_futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

#define NUMBER (GPUD_SLEEP_MODES + 1)

/* Model (tests/model): sleep.1 announces, sleep.2 fence in wakeup.pml. */
void gpud_sleep_begin(struct gpud_sleeper *sleeper, enum gpud_sleep_mode mode)
{
    uint32_t sleep = (atomic_fetch_add(&sleeper->sleeps, NUMBER) + NUMBER) | mode;
    atomic_store_explicit(&sleeper->sleep, sleep, memory_order_relaxed);
    atomic_store_explicit(sleeper->asleep, sleep, memory_order_release);
    /* Orders these stores before the caller's next loads of any memory order. */
    atomic_thread_fence(memory_order_seq_cst);
}

/* Model: sleep.5 in wakeup.pml. */
void gpud_sleep_end(struct gpud_sleeper *sleeper)
{
    atomic_store_explicit(&sleeper->sleep, 0, memory_order_relaxed);
    atomic_store_explicit(sleeper->asleep, 0, memory_order_relaxed);
}

/* Model: sleep.0 kicks, sleep.3 looks again, sleep.4 futex in wakeup.pml. */
void gpud_sleep(struct gpud_sleeper *sleeper, bool (*ready)(void *arg), void *arg, int64_t deadline)
{
    /* Read before another thread can see this sleep and end it. */
    uint32_t kicks = atomic_load_explicit(sleeper->kicks, memory_order_acquire);
    gpud_sleep_begin(sleeper, GPUD_SLEEP_FUTEX);
    if (!ready(arg))
        gpud_futex_wait(sleeper->kicks, kicks, deadline);
    gpud_sleep_end(sleeper);
}

/* Model: rouse.1, rouse.2 in wakeup.pml. */
void gpud_sleeper_rouse(struct gpud_sleeper *sleeper)
{
    const struct timespec nap = {.tv_nsec = ROUSE_NAP};
    atomic_thread_fence(memory_order_seq_cst);
    uint32_t sleep = atomic_load(&sleeper->sleep);
    if ((sleep & GPUD_SLEEP_MODES) != GPUD_SLEEP_FUTEX)
        return;
    int64_t until = gpud_now() + ROUSE_MAX;
    for (;;) {
        gpud_futex_wake(sleeper->kicks);
        if (atomic_load(&sleeper->sleep) != sleep || gpud_now() >= until)
            return;
        clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
    }
}

/* Model: wake.2 in wakeup.pml. */
bool gpud_waker_claim(struct gpud_waker *waker, uint32_t sleep)
{
    return atomic_exchange(&waker->kicked, sleep) != sleep;
}

/* Model: wake.3 in wakeup.pml. */
void gpud_waker_kick(struct gpud_waker *waker)
{
    atomic_fetch_add(waker->kicks, 1);
    gpud_futex_wake(waker->kicks);
}

static inline void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

bool gpud_poll(bool (*ready)(void *arg), void *arg, int64_t until)
{
    if (ready(arg))
        return true;
    int64_t start = gpud_now(), now = start;
    while (now < until) {
        /* With more threads than processors, the awaited one may need this processor. */
        if (now - start > YIELD_AFTER)
            sched_yield();
        for (int i = 0; i < 16; i++) {
            if (ready(arg))
                return true;
            pause_cpu();
        }
        now = gpud_now();
    }
    return false;
}

/* Yields for as long as other threads use this processor meanwhile: with more peers than processors
 * the awaited one may be among them. A yield costs less than a sleep and a wake, and a peer that
 * has its turn later finds several frames at once. */
static bool yield_to_others(struct gpud_spin *spin, bool (*ready)(void *arg), void *arg)
{
    int64_t start = gpud_now(), before = start;
    for (;;) {
        sched_yield();
        if (ready(arg))
            return true;
        int64_t now = gpud_now();
        if (now - before < SWITCH_MIN)
            return false;
        if (now - start > YIELDS_MAX) {
            /* The others are not our peers; a thread that they delay runs sooner if it is woken. */
            spin->no_yields_until = now + YIELDS_PAUSE;
            return false;
        }
        before = now;
    }
}

bool gpud_spin(struct gpud_spin *spin, bool (*ready)(void *arg), void *arg)
{
    if (gpud_poll(ready, arg, spin->window ? gpud_now() + spin->window : 0))
        return true;
    return spin->yields && gpud_now() >= spin->no_yields_until && yield_to_others(spin, ready, arg);
}

void gpud_spin_learn(struct gpud_spin *spin, int64_t waited)
{
    /* As hypervisors poll before halting: grow the window while a longer one would have caught the
     * event, close it at once otherwise. */
    spin->yields = waited < YIELDS_MAX;
    if (waited > SPIN_MAX)
        spin->window = 0;
    else if (spin->window < SPIN_MIN)
        spin->window = SPIN_MIN;
    else if (spin->window < SPIN_MAX)
        spin->window = spin->window * 2 < SPIN_MAX ? spin->window * 2 : SPIN_MAX;
}

/* === pace ==================================================================================== */

/* After this many events a new period is settled; more events refine it. */
#define SETTLING 48

/* At most this part of a period is spent awake. Events further than that from their expected time
 * are off the pace; several of them in a row start a new pace. */
#define AWAKE_PART 32
#define OFF_PACE_MAX 3

/* Timers that wake us later than this are useless. */
#define LAG_MAX (200 * INT64_C(1000))

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Events come on a beat or after it, and the delays are independent. So an early event moves the
 * estimate at once, a late one only slightly; `cover` settles where one event in nine exceeds it.
 */
void gpud_pace_learn(struct gpud_pace *pace, int64_t now)
{
    int64_t interval = now - pace->last, off = now - pace->due, far = pace->period / AWAKE_PART;
    bool first = pace->last == 0;
    pace->last = now;
    if (first)
        return;
    if (far > 0 && off >= -far && off <= far) {
        if (off > pace->cover)
            pace->cover += pace->cover / 2 + 1;
        else
            pace->cover -= pace->cover / 16;
        pace->period += (interval - pace->period) / (++pace->followed <= SETTLING ? 8 : 64);
        pace->due += pace->period + (off < 0 ? off / 2 : min(off, pace->cover) / 16);
        pace->off_pace = 0;
        return;
    }
    /* A missing event or a pause: the next events show which. */
    if (pace->period == 0 || ++pace->off_pace >= OFF_PACE_MAX) {
        pace->period = interval;
        pace->cover = interval / AWAKE_PART; /* too long to be used until it is known */
        pace->off_pace = pace->followed = 0;
    }
    pace->due = now + pace->period;
}

bool gpud_pace_window(const struct gpud_pace *pace, int64_t limit, int64_t *from, int64_t *until)
{
    int64_t early = pace->cover / 4;
    if (pace->period == 0 || early + pace->cover > min(limit, pace->period / AWAKE_PART))
        return false;
    *from = pace->due - early - pace->lag;
    *until = pace->due + pace->cover;
    return true;
}

void gpud_pace_overslept(struct gpud_pace *pace, int64_t late)
{
    pace->lag += (min(late, LAG_MAX) - pace->lag) / 4;
}
