/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "instants.h"

#include <sys/mman.h>
#include <time.h>

static struct instants_board *own;

uint64_t instants_time(struct gpud_fraction rate, uint64_t instant)
{
    return instant * (uint64_t)GPUD_SEC * rate.den / rate.num;
}

/* --- the sender's side ------------------------------------------------------------------------ */

/* false: it is to leave. */
static bool wait_until_due(uint64_t instant)
{
    int64_t after = own->orders.delay + (int64_t)instants_time(own->orders.rate, instant);
    while (!atomic_load(&own->leave)) {
        int64_t left = atomic_load(&own->base) + after - gpud_test_now();
        if (left <= 0)
            return true;
        struct timespec nap = {.tv_nsec = left < 5 * GPUD_MSEC ? left : 5 * GPUD_MSEC};
        nanosleep(&nap, NULL);
    }
    return false;
}

static struct gpud_layout configure(struct gpud_sender *sender, uint32_t width)
{
    struct gpud_layout layout = LAYOUT("UYVY", width, INSTANTS_HEIGHT, 0);
    struct gpud_media media = *PICTURE(&layout);
    media.picture.rate = own->orders.rate;
    WORKS(gpud_sender_configure(sender, &media, &e));
    return layout;
}

void instants_main(int argc, char **argv)
{
    own = peer_board_open("--instants", argc, argv, sizeof(*own));
    if (!own)
        return;
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_sender *sender =
        NEW_SENDER(context, .address = own->orders.address,
                   .device = own->orders.device[0] ? own->orders.device : NULL,
                   .slow_receiver = own->orders.slow_receiver);
    struct gpud_layout layout = configure(sender, own->orders.width);
    /* What is sent before is sent to no one. */
    while (gpud_sender_wait(sender, 1, 20 * GPUD_MSEC, NULL) != GPUD_OK)
        if (atomic_load(&own->leave))
            break;
    uint64_t instant = atomic_load(&own->handed) + 1, other_at = 0;
    atomic_store(&own->first, instant);
    atomic_store(&own->begun, true);
    for (; wait_until_due(instant); instant++) {
        uint64_t wanted = atomic_load(&own->other_at);
        if (wanted != other_at && instant >= wanted) {
            layout = configure(sender, layout.width == own->orders.width ? 2 * layout.width
                                                                         : own->orders.width);
            other_at = wanted;
        }
        if (instant % INSTANTS_EVENTS == 0)
            WORKS(gpud_sender_send_event(sender, 1, &instant, sizeof(instant), &e));
        struct gpud_frame *frame = ACQUIRE_SLOT(sender, 60 * GPUD_SEC);
        frame_write(frame, &layout, instant);
        struct gpud_frame_info info = INFO(frame, frame);
        info.pts_ns = instants_time(own->orders.rate, instant) + (uint64_t)own->orders.apart;
        WORKS(gpud_frame_set_info(frame, &info, &e));
        /* Without an end by itself: nothing that the test waits for depends on a slow machine. */
        WORKS(gpud_sender_submit(sender, &frame, 200 * GPUD_SEC, &e));
        atomic_store(&own->sent, instant);
    }
    WORKS(gpud_sender_send_eos(sender, &e));
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
    exit(0);
}

/* --- the test's side -------------------------------------------------------------------------- */

struct instants instants_of(const char *address, const char *device, struct gpud_fraction rate,
                            int64_t base)
{
    struct instants sender = {.orders = {.rate = rate, .base = base, .width = 64}};
    snprintf(sender.orders.address, sizeof(sender.orders.address), "%s", address);
    snprintf(sender.orders.device, sizeof(sender.orders.device), "%s", device);
    return sender;
}

struct gpud_group_info group_info(struct gpud_group *group, uint32_t member)
{
    struct gpud_group_info info = GPUD_INFO_INIT(info);
    gpud_group_get_info(group, member, &info);
    return info;
}

void instants_start(struct instants *sender, uint64_t handed)
{
    int fd;
    sender->board = peer_board_make(sizeof(*sender->board), &fd);
    sender->board->orders = sender->orders;
    atomic_store(&sender->board->base, sender->orders.base);
    atomic_store(&sender->board->handed, handed);
    sender->pid = peer_spawn("--instants", fd);
}

static void forget(struct instants *sender)
{
    munmap(sender->board, sizeof(*sender->board));
    sender->board = NULL;
    sender->pid = 0;
}

void instants_kill(struct instants *sender)
{
    spawned_kill(sender->pid);
    forget(sender);
}

void instants_leave(struct instants *sender)
{
    atomic_store(&sender->board->leave, true);
}

bool instants_has_left(struct instants *sender)
{
    if (!spawned_has_ended(sender->pid))
        return false;
    forget(sender);
    return true;
}

void instants_finish(struct instants *sender)
{
    instants_leave(sender);
    spawned_await_end(sender->pid, 0);
    forget(sender);
}
