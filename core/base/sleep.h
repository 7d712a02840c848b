/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* How one side waits for a word that another thread or process writes: it spins first, if recent
 * waits were short enough for that to pay, and then sleeps in the kernel.
 *
 * Each side has two words in memory that both map, and no word is written by both:
 *
 *     asleep   0: awake; else the number of this sleep, and its mode
 *     kicks    how often this side has woken the other; the other sleeps on it
 *
 *     sleeper                                   waker
 *     k = the other's kicks                     stores what the sleeper waits for
 *     asleep = a new number                     fence
 *     fence                                     n = the other's asleep
 *     checks once more                          n, and n was not woken before: kicks++, FUTEX_WAKE
 *     FUTEX_WAIT while kicks is k
 *     asleep = 0
 *
 * At least one side's check sees the other side's store. The numbers limit it to one wake for each
 * sleep, although the waker does not clear the sleeper's word; they repeat after 2^30 sleeps, and a
 * wake is missed only if none of those was woken. While both are awake a hand-over costs no system
 * call. Futexes are used rather than eventfds because waking never blocks, whatever a hostile peer
 * does, there is no descriptor to pass, check and leak, and a wake is one system call on each side.
 * A hostile peer can cost a system call a frame, or a sleep until its deadline. */
/* clang-format on */
#ifndef GPUD_BASE_SLEEP_H
#define GPUD_BASE_SLEEP_H

#include "base/clock.h"
#include <stdatomic.h>
#include <stdint.h>

/* Waits until *word differs from value, another thread wakes it, or the deadline passes; may return
 * spuriously. The word may be shared between processes. */
void gpud_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t deadline);
void gpud_futex_wake(_Atomic uint32_t *word);

/* How a side sleeps: the low bits of its `asleep`. */
enum gpud_sleep_mode {
    GPUD_SLEEP_FUTEX = 1, /* on the other's `kicks` */
    GPUD_SLEEP_POLL = 2,  /* in poll() on the control connection, woken by a message */
};
#define GPUD_SLEEP_MODES UINT32_C(3)

struct gpud_sleeper {
    _Atomic uint32_t *asleep; /* ours */
    _Atomic uint32_t *kicks;  /* theirs */
    _Atomic uint32_t sleep;   /* our value of *asleep, which a peer may overwrite */
    _Atomic uint32_t sleeps;  /* the last number used */
};

struct gpud_waker {
    const _Atomic uint32_t *asleep; /* theirs */
    _Atomic uint32_t *kicks;        /* ours */
    _Atomic uint32_t kicked;        /* the last sleep that we ended */
};

/* Announces a sleep. The caller checks once more afterwards and then sleeps; with POLL it must have
 * read its messages before. Call gpud_sleep_end() when awake. */
void gpud_sleep_begin(struct gpud_sleeper *sleeper, enum gpud_sleep_mode mode);
void gpud_sleep_end(struct gpud_sleeper *sleeper);

/* Sleeps until it is woken or the deadline passes, unless ready(arg). May return spuriously. One
 * thread at a time. */
void gpud_sleep(struct gpud_sleeper *sleeper, bool (*ready)(void *arg), void *arg,
                int64_t deadline);

/* Wakes a thread of this side from gpud_sleep(); call it after the store that the thread waits for.
 * Only the other side may write `kicks`, so this calls the kernel until that sleep is over. */
void gpud_sleeper_rouse(struct gpud_sleeper *sleeper);

/* The other side's sleep, if it was not woken from it yet; else 0. Call it after the store that the
 * sleeper waits for. */
static inline uint32_t gpud_waker_look(const struct gpud_waker *waker)
{
    /* Orders the caller's store before this load; the sleeper's fence is in gpud_sleep_begin(). */
    atomic_thread_fence(memory_order_seq_cst);
    uint32_t sleep = atomic_load_explicit(waker->asleep, memory_order_acquire);
    return sleep == atomic_load_explicit(&waker->kicked, memory_order_relaxed) ? 0 : sleep;
}

/* Whether this thread is to end the sleep: several threads of a side may try. */
bool gpud_waker_claim(struct gpud_waker *waker, uint32_t sleep);

/* Ends a sleep on the futex. */
void gpud_waker_kick(struct gpud_waker *waker);

/* How long spinning has paid lately, and whether yielding may; starts zeroed. */
struct gpud_spin {
    int64_t window; /* ns */
    int64_t no_yields_until;
    bool yields; /* the last sleep was shorter than any between paced frames */
};

/* Spins until ready(arg) or that time, with at least one check. true: it became ready. */
bool gpud_poll(bool (*ready)(void *arg), void *arg, int64_t until);

/* The same for the length of the window; then, in a fast stream, yields while other threads need
 * this processor. */
bool gpud_spin(struct gpud_spin *spin, bool (*ready)(void *arg), void *arg);

/* Adapts the window after a wait of this many ns: long waits close it, short ones open it. */
void gpud_spin_learn(struct gpud_spin *spin, int64_t waited);

#endif
