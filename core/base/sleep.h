/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How one side waits for a word that another thread or process writes: first it spins, if the last
 * waits were short enough for that to pay, then it sleeps in the kernel.
 *
 * The sleeper announces itself in a word of its own and checks once more before it sleeps; the
 * writer enters the kernel only when it sees the announcement. Each has a fence between its store
 * and its load, so that at least one of them sees the other. While both are awake a hand-over costs
 * no system call. A futex rather than an eventfd: waking never blocks, whatever a hostile
 * peer does to its end, there is no descriptor to pass, check and leak, and a wake is one system
 * call on each side. */
#ifndef GPUD_BASE_SLEEP_H
#define GPUD_BASE_SLEEP_H

#include "base/clock.h"
#include <stdatomic.h>

/* Waits until *word is not value any more, somebody wakes it, or the deadline passes; may return
 * early for no reason. The word may be shared between processes. */
void gpud_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t deadline);
void gpud_futex_wake(_Atomic uint32_t *word);

/* Wakes whoever announced itself in *sleeper; true if that took a system call. Call it after the
 * store that the sleeper waits for. */
bool gpud_wake(_Atomic uint32_t *sleeper);

/* Announces itself in *sleeper with a wish that is not 0, and sleeps until it is woken or the
 * deadline passes, unless ready(arg). May return early for no reason. */
void gpud_sleep(_Atomic uint32_t *sleeper, uint32_t wish, bool (*ready)(void *arg), void *arg,
                int64_t deadline);

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
