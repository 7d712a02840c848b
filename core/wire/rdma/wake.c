/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Who is woken by what comes. That the connection has failed needs nobody: its descriptor is
 * readable for good then.
 *
 * Several threads of a side may wait for one connection: whoever polls the channel's descriptor for
 * messages (and for KICKs), and whoever sleeps on a ring page. Any thread may be the one that deals
 * with what came, also one that waits for nothing. So whoever does passes it on:
 *
 *     waits                                 deals with it
 *     says so (sleepers, wants_kick)        takes it from the card: a notice, a message
 *     arms, and deals with what is there    counts it (notices)
 *     looks at the words once more          fence
 *     sleeps                                somebody waits: raises that one's eventfd
 *
 * Words are in memory before the notice behind them is taken. So if the one that deals with it sees
 * nobody wait, the one that waits sees the words when it looks: both do first the one, then the
 * other, with sequential consistency.
 *
 * The card's events are taken away by arming alone, and what is asked of the card is what all that
 * wait now want together, under a lock: the last who arms asks for no less than the one before. */
#include "wire/rdma/wake.h"

#include "base/fd.h"
#include "wire/rdma/records.h"

static void look(struct rdma_channel *channel, bool tell_receiver)
{
    if (gpud_rdma_progress(channel->rdma)) {
        atomic_fetch_add(&channel->notices, 1);
        unsigned messages = gpud_rdma_received(channel->rdma);
        if (atomic_load(&channel->sleepers) > 0)
            gpud_rdma_wake_records(channel);
        bool has_message = atomic_exchange(&channel->messages, messages) != messages;
        if (tell_receiver && (has_message || atomic_load(&channel->wants_kick)))
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
