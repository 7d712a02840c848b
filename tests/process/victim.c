/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "victim.h"

#include "support/check.h"
#include "support/gpu.h"
#include "support/make.h"
#include "support/media.h"
#include "support/peer.h"

#include <sys/mman.h>

static struct victim_board *own;
static struct gpu gpu;

void victim_layout(struct gpud_layout *layout)
{
    WORKS(gpud_layout_init(layout, "UYVY", VICTIM_WIDTH, VICTIM_HEIGHT, 0, &e));
}

/* --- the victim's side ------------------------------------------------------------------------ */

/* Between the wait for a frame and the work on it. */
static void hold_if_ordered(uint64_t number)
{
    if (!atomic_load(&own->hold) || atomic_load(&own->held_from))
        return;
    gpu_hold(&gpu);
    atomic_store(&own->held_from, number);
}

static void obey(void)
{
    if (atomic_load(&own->let_go))
        gpu_let_go(&gpu);
}

/* Checked once, by the CPU, to show that the stream is good. */
static void check_first(struct gpud_frame *frame, uint64_t number)
{
    void *data;
    struct gpud_error error = {.reason = ""};
    if (gpud_frame_map(frame, GPUD_READ, 10 * GPUD_SEC, &data, &error) != GPUD_OK) {
        snprintf(own->reason, sizeof(own->reason), "%s", error.reason);
        atomic_fetch_add(&own->wrong, 1);
        return;
    }
    if (!gpu_is_picture(&gpu, data, number))
        atomic_fetch_add(&own->wrong, 1);
    gpud_frame_unmap(frame);
}

static void take(struct gpud_frame *frame)
{
    struct gpud_frame_info info = INFO(frame, frame);
    if (atomic_load(&own->frames) == 0)
        check_first(frame, info.offset);
    WORKS(gpud_frame_wait(frame, gpu.stream, &e));
    hold_if_ordered(info.offset);
    gpu_take(&gpu, frame, (unsigned)info.sequence);
    WORKS(gpud_frame_post(frame, gpu.stream, &e));
    gpud_frame_release(&frame);
    atomic_store(&own->last, info.offset);
    atomic_fetch_add(&own->frames, 1);
}

static void play_receiver(struct gpud_context *context)
{
    struct gpud_receiver *receiver =
        NEW_RECEIVER(context, .address = own->orders.address, .device = own->orders.device,
                     .route = own->orders.route);
    while (!atomic_load(&own->leave)) {
        struct gpud_frame *frame;
        struct gpud_error error = {.reason = ""};
        obey();
        if (own->orders.rests && atomic_load(&own->held_from) && !atomic_load(&own->let_go)) {
            gpud_test_nap(1);
            continue;
        }
        enum gpud_status status = gpud_receiver_acquire(receiver, 20 * GPUD_MSEC, &frame, &error);
        if (status == GPUD_OK) {
            take(frame);
        } else if (status == GPUD_CLOSED) {
            atomic_fetch_add(&own->ends, 1);
        } else if (status != GPUD_TIMEOUT) {
            snprintf(own->reason, sizeof(own->reason), "%s", error.reason);
            atomic_fetch_add(&own->lost, 1);
        }
    }
    gpu_let_go(&gpu);
    gpud_receiver_destroy(&receiver);
}

static void give(struct gpud_sender *sender, struct gpud_frame *frame, uint64_t number)
{
    struct gpud_error error = {.reason = ""};
    WORKS(gpud_frame_wait(frame, gpu.stream, &e));
    hold_if_ordered(number);
    gpu_fill(&gpu, frame, number);
    WORKS(gpud_frame_post(frame, gpu.stream, &e));
    struct gpud_frame_info info = INFO(frame, frame);
    info.offset = number;
    WORKS(gpud_frame_set_info(frame, &info, &e));
    enum gpud_status status = GPUD_TIMEOUT;
    while (status == GPUD_TIMEOUT && !atomic_load(&own->leave)) {
        obey();
        status = gpud_sender_submit(sender, &frame, 20 * GPUD_MSEC, &error);
    }
    CHECK(status == GPUD_OK || status == GPUD_TIMEOUT, "frame %llu is not taken: %s",
          (unsigned long long)number, error.reason);
    gpud_frame_release(&frame); /* one that is left over when it is time to leave */
    atomic_store(&own->last, number);
    atomic_fetch_add(&own->frames, 1);
}

static void play_sender(struct gpud_context *context)
{
    struct gpud_layout layout;
    struct gpud_sender *sender =
        NEW_SENDER(context, .address = own->orders.address, .device = own->orders.device,
                   .route = own->orders.route);
    victim_layout(&layout);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    struct gpud_error error = {.reason = ""};
    for (uint64_t number = 1; !atomic_load(&own->leave);) {
        struct gpud_frame *frame;
        obey();
        /* Without a receiver there is no limit to the frames that a stream accepts. */
        enum gpud_status status = gpud_sender_wait(sender, 1, 20 * GPUD_MSEC, &error);
        if (status == GPUD_OK)
            status = gpud_sender_acquire(sender, 20 * GPUD_MSEC, &frame, &error);
        CHECK(status == GPUD_OK || status == GPUD_TIMEOUT, "no slot is lent: %s", error.reason);
        if (status == GPUD_OK)
            give(sender, frame, number++);
    }
    gpu_let_go(&gpu);
    gpud_sender_destroy(&sender);
}

void victim_main(int argc, char **argv)
{
    own = peer_board_open("--victim", argc, argv, sizeof(*own));
    if (!own)
        return;
    struct gpud_layout layout;
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_device *device = OPEN_DEVICE(context, own->orders.device);
    victim_layout(&layout);
    gpu_open(&gpu, own->orders.device, layout.size);
    while (!atomic_load(&own->go))
        gpud_test_nap(1);
    if (own->orders.sends)
        play_sender(context);
    else
        play_receiver(context);
    gpu_close(&gpu);
    gpud_device_close(&device);
    gpud_context_destroy(&context);
    exit(0);
}

/* --- the test's side -------------------------------------------------------------------------- */

void victim_start(struct victim *victim, const struct victim_orders *orders)
{
    int fd;
    victim->board = peer_board_make(sizeof(*victim->board), &fd);
    victim->board->orders = *orders;
    victim->pid = peer_spawn("--victim", fd);
}

void victim_finish(struct victim *victim)
{
    atomic_store(&victim->board->leave, true);
    spawned_await_end(victim->pid, 0);
}

void victim_forget(struct victim *victim)
{
    munmap(victim->board, sizeof(*victim->board));
    victim->board = NULL;
}
