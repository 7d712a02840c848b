/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* Wakes the threads that wait for notices and messages. A failed connection needs no wake: its
 * descriptor stays readable.
 *
 * Several threads of a side may wait for one connection: one polls the channel's descriptor for
 * messages (and KICKs), others sleep on ring pages. Any thread may take completions from the card,
 * even one that waits for nothing, so it wakes the others:
 *
 *     waiting thread                        thread that takes completions
 *     announces itself (sleepers,           takes a notice or a message from the card
 *         wants_kick)                       counts it (notices)
 *     arms, and takes pending completions   fence
 *     checks the words once more            raises the eventfd of each waiting thread
 *     sleeps
 *
 * Words are in memory before their notice is taken. So if the taking thread sees no waiting thread,
 * the waiting thread sees the words when it checks: each side stores before it loads, with
 * sequential consistency.
 *
 * Only arming clears the card's events, and it asks, under a lock, for what all waiting threads
 * need together, so that a later thread never asks for less than an earlier one. */
/* clang-format on */
#include "wire/rdma/wake.h"

#include "base/fd.h"
#include "wire/rdma/records.h"

static void look(struct rdma_channel *channel, bool wake_receiver)
{
    if (gpud_rdma_progress(channel->rdma)) {
        atomic_fetch_add(&channel->notices, 1);
        unsigned messages = gpud_rdma_received(channel->rdma);
        if (atomic_load(&channel->sleepers) > 0)
            gpud_rdma_wake_records(channel);
        bool has_message = atomic_exchange(&channel->messages, messages) != messages;
        if (wake_receiver && (has_message || atomic_load(&channel->wants_kick)))
            gpud_event_raise(channel->event);
    }
    if (atomic_load(&channel->behind) > 0)
        gpud_rdma_catch_up(channel);
}

void gpud_rdma_look_around(struct rdma_channel *channel)
{
    look(channel, true);
}

static void arm(struct rdma_channel *channel)
{
    gpud_lock_take(&channel->arm_lock);
    bool everything = atomic_load(&channel->sleepers) > 0 || atomic_load(&channel->wants_kick) ||
                      atomic_load(&channel->behind) > 0;
    gpud_rdma_arm(channel->rdma, !everything);
    gpud_lock_release(&channel->arm_lock);
}

void gpud_rdma_arm_to_sleep(struct rdma_channel *channel)
{
    arm(channel);
    look(channel, true);
}

void gpud_rdma_arm_to_receive(struct rdma_channel *channel)
{
    arm(channel);
    look(channel, false);
}

void gpud_rdma_want_kick(struct rdma_channel *channel)
{
    atomic_store(&channel->kick_after, atomic_load(&channel->notices));
    atomic_store(&channel->wants_kick, true);
    gpud_rdma_arm_to_sleep(channel);
}

bool gpud_rdma_take_kick(struct rdma_channel *channel)
{
    return atomic_load(&channel->wants_kick) &&
           atomic_load(&channel->notices) != atomic_load(&channel->kick_after) &&
           atomic_exchange(&channel->wants_kick, false);
}
