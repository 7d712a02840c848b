/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A descriptor for applications that submit from an event loop, armed when a call finds no slot or
 * no credit. Receivers then send a KICK over their channels when they give an entry back, and the
 * listener's thread reads it. */
#include "stream/sender/poll.h"

/* How often to check a device: no descriptor reports that it has read a frame. */
#define DEVICE_LOOK (100 * GPUD_USEC)

static void watch_pools(struct gpud_sender *sender, int fd)
{
    if (sender->device_pool)
        gpud_pool_set_wake(sender->device_pool, fd);
    if (sender->host_pool)
        gpud_pool_set_wake(sender->host_pool, fd);
}

static bool has_slots(const struct gpud_sender *sender)
{
    return (sender->device_pool && gpud_pool_count_free(sender->device_pool)) ||
           (sender->host_pool && gpud_pool_count_free(sender->host_pool));
}

void gpud_sender_poll_ask(struct gpud_link *link)
{
    struct gpud_page_tx *page = &link->transport->page;
    link->kicks_due++;
    atomic_store_explicit(&page->page->sender.wanted, 1, memory_order_relaxed);
    gpud_page_poll_begin(&page->end);
}

/* Requests a KICK; true if an entry came back before. */
static bool arm_link(struct gpud_link *link, bool *device_reads)
{
    struct gpud_transport *transport = link->transport;
    if (!transport || !transport->page.page)
        return false;
    *device_reads |= transport->releasing_count > 0;
    gpud_sender_poll_ask(link);
    return gpud_page_has_returns(&transport->page);
}

void gpud_sender_poll_arm(struct gpud_sender *sender)
{
    bool ready = atomic_load(&sender->interrupted), device_reads = false;
    if (sender->loop.fd < 0)
        return;
    gpud_loop_drain(&sender->loop);
    sender->polls = true;
    watch_pools(sender, sender->loop.event);
    for (uint32_t i = 0; i < sender->link_count; i++)
        ready |= arm_link(sender->links[i], &device_reads);
    if (ready || (sender->lacks_slot && has_slots(sender)))
        gpud_event_raise(sender->loop.event);
    gpud_loop_set_timer(&sender->loop, device_reads ? gpud_now() + DEVICE_LOOK : INT64_MAX);
}

void gpud_sender_poll_disarm(struct gpud_sender *sender)
{
    sender->lacks_slot = false;
    if (!sender->polls)
        return;
    sender->polls = false;
    watch_pools(sender, -1);
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        if (!link->transport || !link->transport->page.page || link->waiting.frames)
            continue;
        gpud_page_poll_end(&link->transport->page.end);
        link->waiting.is_armed = false;
    }
}

bool gpud_sender_poll_kick(struct gpud_link *link)
{
    if (link->kicks_due == 0)
        return false;
    link->kicks_due--;
    if (link->sender->polls)
        gpud_event_raise(link->sender->loop.event);
    return true;
}
