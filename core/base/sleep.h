/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How one side waits for a word that another thread or process writes: first it spins, if the last
 * waits were short enough for that to pay, then it sleeps in the kernel.
 *
 * Each side has two words in memory that both see, and no word is written by both:
 *
 *     asleep   0: awake; else the number of this sleep, and how it sleeps
 *     kicks    how often this side has woken the other: what the other sleeps on
 *
 *     sleeper                                   waker
 *     k = the other's kicks                     stores what the sleeper waits for
 *     asleep = a new number                     fence
 *     fence                                     n = the other's asleep
 *     looks once more                           n, and n was not woken before: kicks++, FUTEX_WAKE
 *     FUTEX_WAIT while kicks is k
 *     asleep = 0
 *
 * Of the store and the look on either side at least one sees the other. The numbers make it one
 * wake for a sleep, though nobody clears the sleeper's word; they come again after 2^30 sleeps, and
 * a wake is missed if not one of all these was woken. While both are awake a hand-over costs no
 * system call. A futex rather than an eventfd: waking never blocks, whatever a hostile peer does to
 * its end, there is no descriptor to pass, check and leak, and a wake is one system call on each
 * side. What a peer may write here costs a system call a frame, or a sleep until its deadline. */
#ifndef GPUD_BASE_SLEEP_H
#define GPUD_BASE_SLEEP_H

#include "base/clock.h"
#include <stdatomic.h>
#include <stdint.h>

/* Waits until *word is not value any more, somebody wakes it, or the deadline passes; may return
 * early for no reason. The word may be shared between processes. */
void gpud_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t deadline);
void gpud_futex_wake(_Atomic uint32_t *word);

/* How a side sleeps: the low bits of its `asleep`. */
enum gpud_sleep_mode {
    GPUD_SLEEP_FUTEX = 1, /* on the other's `kicks` */
    GPUD_SLEEP_POLL = 2,  /* in poll() on the control connection: it wants a message there */
};
#define GPUD_SLEEP_MODES UINT32_C(3)

struct gpud_sleeper {
    _Atomic uint32_t *asleep; /* ours */
    _Atomic uint32_t *kicks;  /* theirs */
    _Atomic uint32_t sleep;   /* what we wrote to *asleep, which a peer may overwrite */
    _Atomic uint32_t sleeps;  /* so far, in steps of a number */
};

struct gpud_waker {
    const _Atomic uint32_t *asleep; /* theirs */
    _Atomic uint32_t *kicks;        /* ours */
    _Atomic uint32_t kicked;        /* the sleep that we ended last */
};

/* Announces a sleep; whoever calls it looks once more before it sleeps, and has read the messages
 * that wake it (POLL) before it announces. gpud_sleep_end() when it is awake. */
void gpud_sleep_begin(struct gpud_sleeper *sleeper, enum gpud_sleep_mode mode);
void gpud_sleep_end(struct gpud_sleeper *sleeper);

/* Sleeps until it is woken or the deadline passes, unless ready(arg). May return early for no
 * reason. One thread at a time. */
void gpud_sleep(struct gpud_sleeper *sleeper, bool (*ready)(void *arg), void *arg,
                int64_t deadline);

/* Wakes a thread of this very side that is in gpud_sleep(); call it after the store that it looks
 * for. Its word is not ours to change, so this calls the kernel until that sleep is over. */
void gpud_sleeper_rouse(struct gpud_sleeper *sleeper);

/* The sleep that the other side is in and was not woken from yet; 0: nothing to do. Call it after
 * the store that the sleeper waits for. */
static inline uint32_t gpud_waker_look(const struct gpud_waker *waker)
{
    /* Orders the caller's store before this load; the sleeper's fence is in gpud_sleep_begin(). */
    atomic_thread_fence(memory_order_seq_cst);
    uint32_t sleep = atomic_load_explicit(waker->asleep, memory_order_acquire);
    return sleep == atomic_load_explicit(&waker->kicked, memory_order_relaxed) ? 0 : sleep;
}

/* Whether this thread is the one to end it: a side may have several that wake. */
bool gpud_waker_claim(struct gpud_waker *waker, uint32_t sleep);

/* Ends a sleep on the futex. */
void gpud_waker_kick(struct gpud_waker *waker);

/* How long spinning has paid lately; starts zeroed. */
struct gpud_spin {
    int64_t window; /* ns */
};

/* Looks, awake, until ready(arg) or that time; once at least. true: it became ready. */
bool gpud_poll(bool (*ready)(void *arg), void *arg, int64_t until);

/* The same until the window is over. */
bool gpud_spin(const struct gpud_spin *spin, bool (*ready)(void *arg), void *arg);

/* After a sleep of this many ns: longer waits close the window, shorter ones open it. */
void gpud_spin_learn(struct gpud_spin *spin, int64_t waited);

#endif
