/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/sleep.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A wake through the kernel costs some tens of microseconds, but less of a processor's time: what
 * takes longer than this is cheaper slept through. */
#define SPIN_MAX (20 * INT64_C(1000))
#define SPIN_MIN (5 * INT64_C(1000))
#define YIELD_AFTER (2 * INT64_C(1000))

void gpud_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t deadline)
{
    struct timespec until = gpud_timespec(deadline);
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value, &until, NULL, FUTEX_BITSET_MATCH_ANY);
}

void gpud_futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Model (tests/model): wake.1, wake.2 in wakeup.pml. */
bool gpud_wake(_Atomic uint32_t *sleeper)
{
    /* Orders the caller's store before this load; the sleeper's fence is in gpud_sleep(). */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(sleeper, memory_order_relaxed) == 0)
        return false;
    if (atomic_exchange(sleeper, 0) == 0)
        return false;
    gpud_futex_wake(sleeper);
    return true;
}

/* Model: sleep.1 announces, sleep.2 fence, sleep.3 looks again, sleep.4 futex, sleep.5 awake, in
 * wakeup.pml. */
void gpud_sleep(_Atomic uint32_t *sleeper, uint32_t wish, bool (*ready)(void *arg), void *arg,
                int64_t deadline)
{
    atomic_store_explicit(sleeper, wish, memory_order_relaxed);
    /* Orders this store before what ready() loads, whatever orders its loads have. */
    atomic_thread_fence(memory_order_seq_cst);
    if (!ready(arg))
        gpud_futex_wait(sleeper, wish, deadline);
    atomic_store_explicit(sleeper, 0, memory_order_relaxed);
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
        /* With more processes than processors the one that we wait for may be waiting for ours. */
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

bool gpud_spin(const struct gpud_spin *spin, bool (*ready)(void *arg), void *arg)
{
    return gpud_poll(ready, arg, spin->window ? gpud_now() + spin->window : 0);
}

void gpud_spin_learn(struct gpud_spin *spin, int64_t waited)
{
    /* The rule by which hypervisors poll before they halt: grow while a longer window would have
     * caught the event, give up at once when it would not. */
    if (waited > SPIN_MAX)
        spin->window = 0;
    else if (spin->window < SPIN_MIN)
        spin->window = SPIN_MIN;
    else if (spin->window < SPIN_MAX)
        spin->window = spin->window * 2 < SPIN_MAX ? spin->window * 2 : SPIN_MAX;
}
