/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Frames whose bytes come late: late <first> <between> <last>, as relay. A queue is held, so that
 * a frame's content has not arrived when the frame is sent on; a sender that does not wait for it
 * would send the old content, every time. Nothing of the new picture may be visible before the
 * queue is released, and all of it afterwards. */
#include "hold.h"
#include "relay.h"

#include "base/base.h"
#include "stream/receiver/receiver.h"
#include "stream/sender/sender.h"
#include "support/copies.h"
#include "support/check.h"
#include "support/make.h"
#include "support/peer.h"
#include "support/picture.h"

/* How long the test checks that a picture does not appear. */
#define LOOK (50 * GPUD_MSEC)

/* --- parts -------------------------------------------------------------------------------- */

static struct gpud_memory *new_memory(struct relay *relay, struct gpud_device *device,
                                      uint64_t number)
{
    AUTO(gpud_queue_unref) struct gpud_queue *queue = NULL;
    void *data;
    struct gpud_memory *memory = NEW_MEMORY(device, relay->layout.size);
    WORKS(gpud_queue_create(device, &queue, &e));
    WORKS(gpud_queue_map(queue, memory, 0, relay->layout.size, GPUD_WRITE,
                         gpud_deadline(20 * GPUD_SEC), &data, &e));
    picture_write(&relay->layout, data, number);
    WORKS(gpud_queue_unmap(queue, memory, data, &e));
    WORKS(gpud_queue_finish(queue, gpud_deadline(20 * GPUD_SEC), &e));
    return memory;
}

static void copy(struct relay *relay, struct gpud_queue *queue, struct gpud_memory *to,
                 struct gpud_memory *from)
{
    const struct gpud_copy all = {
        .to = to, .from = from, .row_bytes = relay->layout.size, .rows = 1};
    WORKS(gpud_queue_copy(queue, &all, &e));
    WORKS(gpud_queue_flush(queue, &e));
}

static struct gpud_frame *wrap(struct relay *relay, struct gpud_memory *memory, uint64_t number)
{
    struct gpud_frame *frame;
    WORKS(gpud_frame_wrap(memory, 0, &relay->layout, &frame, &e));
    struct gpud_frame_info info = INFO(frame, frame);
    info.offset = number;
    WORKS(gpud_frame_set_info(frame, &info, &e));
    return frame;
}

/* Acquires the next frame; NULL: none has arrived in time. */
static struct gpud_frame *look_for(struct gpud_receiver *receiver)
{
    struct gpud_frame *frame = NULL;
    struct gpud_error error;
    enum gpud_status status = gpud_receiver_acquire(receiver, LOOK, &frame, &error);
    CHECK(status == GPUD_OK || status == GPUD_TIMEOUT, "%s", error.reason);
    return frame;
}

/* The frame, or the next one, shows nothing yet. */
static struct gpud_frame *expect_nothing(struct gpud_receiver *receiver)
{
    struct gpud_frame *frame = look_for(receiver);
    void *data;
    if (frame)
        EXPECT(GPUD_TIMEOUT, "", gpud_frame_map(frame, GPUD_READ, LOOK, &data, &e));
    return frame;
}

static void expect_picture(struct relay *relay, struct gpud_receiver *receiver,
                           struct gpud_frame *frame, uint64_t number)
{
    if (!frame)
        WORKS(gpud_receiver_acquire(receiver, 20 * GPUD_SEC, &frame, &e));
    FRAME_CHECK(frame, &relay->layout, number);
    gpud_frame_release(&frame);
}

static void submit(struct gpud_sender *sender, struct gpud_frame **frame)
{
    WORKS(gpud_sender_submit(sender, frame, 20 * GPUD_SEC, &e));
}

/* Both links, and every slot of theirs, have shown pictures before `number`. */
static void fill_rings(struct relay *relay, uint64_t number)
{
    for (uint64_t n = number - 6; n < number; n++) {
        relay_send(relay, n);
        struct gpud_frame *frame = ACQUIRE_FRAME(relay->between, 20 * GPUD_SEC);
        submit(relay->next, &frame);
        relay_check(relay, n);
    }
}

/* --- held queues -------------------------------------------------------------------------- */

struct held {
    struct gpud_queue *queue;
    struct conformance_hold *hold;
    uint64_t waits; /* for the queue, before */
    pthread_t thread;
    bool by_thread;
};

/* Without fences the sender's thread waits for the queue, which is let go when it does. If it never
 * does, what it must not send has long been sent by then. */
static void *release_when_waited_for(void *arg)
{
    struct held *held = arg;
    int64_t deadline = gpud_deadline(GPUD_SEC / 2);
    while (atomic_load(&held->queue->waits) == held->waits && gpud_now() < deadline)
        nanosleep(&(struct timespec){.tv_nsec = GPUD_MSEC}, NULL);
    conformance_release_queue(held->hold, false);
    return NULL;
}

static void hold(struct held *held, struct gpud_queue *queue)
{
    *held = (struct held){.queue = queue, .hold = conformance_hold_queue(queue)};
    held->waits = atomic_load(&queue->waits);
}

/* Before the frame is sent on, so that it can be. */
static void release_in_time(struct held *held)
{
    held->by_thread = held->hold && !gpud_device_has_fences(held->queue->device);
    if (held->by_thread)
        CHECK(pthread_create(&held->thread, NULL, release_when_waited_for, held) == 0, "no thread");
}

/* The frame was sent on: nothing is seen before the queue is let go, and then this picture. */
static void expect_late(struct relay *relay, struct held *held, uint64_t number)
{
    struct gpud_frame *frame = NULL;
    if (held->by_thread)
        pthread_join(held->thread, NULL);
    else if (held->hold)
        frame = expect_nothing(relay->last);
    if (!held->by_thread)
        conformance_release_queue(held->hold, false);
    expect_picture(relay, relay->last, frame, number);
}

/* --- cases -------------------------------------------------------------------------------- */

/* The application's own queue has yet to write wrapped memory: it said so by post. */
static void wrapped_and_posted(struct relay *relay)
{
    struct gpud_device *device = relay->next->device;
    struct gpud_memory *target = new_memory(relay, device, 1),
                       *source = new_memory(relay, device, 9);
    struct held held;
    fill_rings(relay, 9);
    struct gpud_queue *queue = NEW_QUEUE(device);
    hold(&held, queue);
    copy(relay, queue, target, source);
    struct gpud_frame *frame = wrap(relay, target, 9);
    release_in_time(&held);
    WORKS(frame->ops->post(frame, queue, &e));
    submit(relay->next, &frame);
    expect_late(relay, &held, 9);
    gpud_queue_unref(&queue);
    gpud_memory_unref(&target);
    gpud_memory_unref(&source);
}

/* The CPU wrote wrapped memory by a map, which the frame's queue has yet to bring there. */
static void wrapped_and_mapped(struct relay *relay)
{
    struct gpud_memory *memory = new_memory(relay, relay->next->device, 1);
    struct gpud_frame *frame = wrap(relay, memory, 29);
    struct held held = {0};
    fill_rings(relay, 29);
    void *data = MAP_FRAME(frame, GPUD_WRITE, 20 * GPUD_SEC);
    picture_write(&relay->layout, data, 29);
    if (frame->queue)
        hold(&held, frame->queue);
    gpud_frame_unmap(frame);
    release_in_time(&held);
    submit(relay->next, &frame);
    expect_late(relay, &held, 29);
    gpud_memory_unref(&memory);
}

/* The first sender's copy is late, and its frame is sent on as soon as it is there. */
static void relayed(struct relay *relay)
{
    struct gpud_memory *source = new_memory(relay, relay->first->device, 49);
    struct gpud_frame *last = NULL;
    struct held held;
    fill_rings(relay, 49);
    hold(&held, relay->first->queue);
    struct gpud_frame *frame = wrap(relay, source, 49);
    submit(relay->first, &frame);
    frame = look_for(relay->between);
    bool early = frame;
    if (early)
        submit(relay->next, &frame);
    if (held.hold)
        last = expect_nothing(relay->last);
    conformance_release_queue(held.hold, false);
    if (!early) {
        frame = ACQUIRE_FRAME(relay->between, 20 * GPUD_SEC);
        submit(relay->next, &frame);
    }
    expect_picture(relay, relay->last, last, 49);
    gpud_memory_unref(&source);
}

/* Frames that were sent on give their slots back some time later, behind the receiver's queue.
 * While that is held none would come back. */
static void expect_slot(struct gpud_receiver *receiver)
{
    struct gpud_session *session = receiver->session;
    int64_t deadline = gpud_deadline(20 * GPUD_SEC);
    for (bool free = !session->uploads; !free;) {
        CHECK(gpud_now() < deadline, "every slot of the receiver stays in use");
        gpud_lock_take(&session->lock);
        free = session->upload_free_count > 0;
        gpud_lock_release(&session->lock);
        nanosleep(&(struct timespec){.tv_nsec = GPUD_MSEC}, NULL);
    }
}

/* The receiver's own upload from host pages is late. */
static void uploaded(struct relay *relay)
{
    struct held held;
    fill_rings(relay, 69);
    expect_slot(relay->between);
    hold(&held, relay->between->queue);
    relay_send(relay, 69);
    struct gpud_frame *frame = ACQUIRE_FRAME(relay->between, 20 * GPUD_SEC);
    release_in_time(&held);
    submit(relay->next, &frame);
    expect_late(relay, &held, 69);
}

/* Two holders' queues read a received frame, and the second one's is late: the slot is its sender's
 * again when both are done. */
static void held_by_two(struct relay *relay)
{
    struct gpud_device *device = relay->between->device;
    struct gpud_memory *copied = new_memory(relay, device, 1);
    struct gpud_frame *other;
    struct held held;
    fill_rings(relay, 89);
    relay_send(relay, 89);
    struct gpud_frame *frame = ACQUIRE_FRAME(relay->between, 20 * GPUD_SEC);
    other = gpud_frame_ref(frame);
    struct gpud_queue *first = NEW_QUEUE(device);
    struct gpud_queue *second = NEW_QUEUE(device);
    hold(&held, second);
    const struct gpud_copy all = {.to = copied,
                                  .from = frame->memory,
                                  .from_offset = frame->offset,
                                  .row_bytes = relay->layout.size,
                                  .rows = 1};
    WORKS(frame->ops->wait(frame, first, &e));
    WORKS(frame->ops->post(frame, first, &e));
    gpud_frame_release(&frame);
    WORKS(other->ops->wait(other, second, &e));
    WORKS(gpud_queue_copy(second, &all, &e));
    WORKS(gpud_queue_flush(second, &e));
    WORKS(other->ops->post(other, second, &e));
    gpud_frame_release(&other);
    WORKS(gpud_queue_finish(first, gpud_deadline(20 * GPUD_SEC), &e));

    /* As many pictures as there are slots, if they are to be had. */
    unsigned sent = 0, seen = 0;
    for (uint64_t n = 90; n < 96; n++) {
        void *data;
        if (gpud_sender_acquire(relay->first, LOOK, &frame, NULL) != GPUD_OK)
            break;
        if (gpud_frame_map(frame, GPUD_WRITE, LOOK, &data, NULL) == GPUD_OK) {
            picture_write(&relay->layout, data, n);
            gpud_frame_unmap(frame);
            sent += gpud_sender_submit(relay->first, &frame, LOOK, NULL) == GPUD_OK;
        }
        gpud_frame_release(&frame);
        for (; gpud_receiver_acquire(relay->between, 0, &frame, NULL) == GPUD_OK; seen++)
            gpud_frame_release(&frame);
    }
    conformance_release_queue(held.hold, false);
    WORKS(gpud_queue_finish(second, gpud_deadline(20 * GPUD_SEC), &e));
    for (; seen < sent; seen++) { /* which waited for the queue */
        frame = ACQUIRE_FRAME(relay->between, 20 * GPUD_SEC);
        gpud_frame_release(&frame);
    }
    frame = wrap(relay, copied, 89);
    submit(relay->next, &frame);
    expect_picture(relay, relay->last, NULL, 89);
    gpud_memory_unref(&copied);
    gpud_queue_unref(&first);
    gpud_queue_unref(&second);
}

/* A queue still reads a frame that was given back. The next one in its entry of the page, which the
 * sender's queue may not write before, is given back unread. */
static void replaced_unread(struct relay *relay)
{
    struct gpud_device *device = relay->between->device;
    struct gpud_memory *copied = new_memory(relay, device, 1);
    struct gpud_frame *other;
    struct held held;
    fill_rings(relay, 109);
    relay_send(relay, 109);
    struct gpud_frame *frame = ACQUIRE_FRAME(relay->between, 20 * GPUD_SEC);
    struct gpud_queue *queue = NEW_QUEUE(device);
    hold(&held, queue);
    const struct gpud_copy all = {.to = copied,
                                  .from = frame->memory,
                                  .from_offset = frame->offset,
                                  .row_bytes = relay->layout.size,
                                  .rows = 1};
    WORKS(frame->ops->wait(frame, queue, &e));
    WORKS(gpud_queue_copy(queue, &all, &e));
    WORKS(gpud_queue_flush(queue, &e));
    WORKS(frame->ops->post(frame, queue, &e));
    gpud_frame_release(&frame);

    relay_send(relay, 110); /* in the other entry, which is kept */
    WORKS(gpud_receiver_acquire(relay->between, 20 * GPUD_SEC, &other, &e));
    relay_send(relay, 111);
    frame = ACQUIRE_FRAME(relay->between, 20 * GPUD_SEC);
    gpud_frame_release(&frame);
    EXPECT(GPUD_TIMEOUT, "", gpud_queue_finish(relay->first->queue, gpud_deadline(LOOK), &e));
    conformance_release_queue(held.hold, false);
    WORKS(gpud_queue_finish(queue, gpud_deadline(20 * GPUD_SEC), &e));
    gpud_frame_release(&other);
    frame = wrap(relay, copied, 109);
    submit(relay->next, &frame);
    expect_picture(relay, relay->last, NULL, 109);
    fill_rings(relay, 129); /* both entries go on */
    gpud_memory_unref(&copied);
    gpud_queue_unref(&queue);
}

int main(int argc, char **argv)
{
    struct relay relay;
    copies_install_if_asked();
    CHECK(argc == 4, "usage: late <first> <between> <last>");
    relay_open(&relay, argv + 1);
    SAY("%s → %s → %s", argv[1], argv[2], argv[3]);
    wrapped_and_posted(&relay);
    wrapped_and_mapped(&relay);
    if (relay.first->device == relay.between->device)
        relayed(&relay);
    else
        uploaded(&relay);
    if (gpud_device_has_fences(relay.between->device) &&
        relay.between->device == relay.next->device &&
        conformance_holds_alone(relay.between->device))
        held_by_two(&relay);
    if (relay.between->device->caps & GPUD_CAP_PAGE_SIGNALS &&
        relay.first->device == relay.between->device)
        replaced_unread(&relay);
    relay_close(&relay);
    return 0;
}
