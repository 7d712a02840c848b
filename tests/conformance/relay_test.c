/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* relay [late] <first> <between> <last>: two links in a row, in one process: a sender, a receiver
 * with the next sender behind it, and the last receiver, on these devices. Rings of two slots, so
 * that one given back too early is written again at once.
 *
 * A received frame is sent on as it is. What arrives is what was sent, although nothing in between
 * waits for it or reads it.
 *
 * Late: a queue is held, so that a frame's content has not arrived when the frame is sent on; a
 * sender that does not wait for it would send the old content, every time. Nothing of the new
 * picture may be visible before the queue is released, and all of it afterwards. */
#include "conformance.h"

#include "stream/receiver/receiver.h"
#include "stream/sender/sender.h"
#include "support/copies.h"
#include "support/media.h"
#include "support/picture.h"

#define LONG (20 * GPUD_SEC)
#define FRAMES 40

/* --- links ------------------------------------------------------------------------------------ */

struct relay {
    struct gpud_context *context;
    struct gpud_layout layout;
    struct gpud_sender *first, *next;
    struct gpud_receiver *between, *last;
};

static void open_link(struct relay *relay, const char *address, const char *from, const char *to,
                      struct gpud_sender **sender, struct gpud_receiver **receiver)
{
    *sender = NEW_SENDER(relay->context, .address = peer_address(address), .psk_file = peer_key(),
                         .device = from, .slots = 2);
    WORKS(gpud_sender_configure(*sender, PICTURE(&relay->layout), &e));
    *receiver = NEW_RECEIVER(relay->context, .address = peer_address(address),
                             .psk_file = peer_key(), .device = to, .slots = 2);
    PEER_LINK(*sender, *receiver, 1);
}

static struct relay relay_open(char **devices)
{
    for (int i = 0; i < 3; i++) {
        struct side side = side_open(devices[i]); /* 77 if it is not there */
        side_close(&side);
    }
    runtime_make();
    struct relay relay = {.context = NEW_CONTEXT(), .layout = LAYOUT("UYVY", 1920, 1080, 0)};
    open_link(&relay, "relay-1", devices[0], devices[1], &relay.first, &relay.between);
    open_link(&relay, "relay-2", devices[1], devices[2], &relay.next, &relay.last);
    return relay;
}

static void relay_close(struct relay *relay)
{
    gpud_receiver_destroy(&relay->last);
    gpud_sender_destroy(&relay->next);
    gpud_receiver_destroy(&relay->between);
    gpud_sender_destroy(&relay->first);
    gpud_context_destroy(&relay->context);
    runtime_done();
}

/* --- frames ----------------------------------------------------------------------------------- */

static void submit(struct gpud_sender *sender, struct gpud_frame **frame)
{
    WORKS(gpud_sender_submit(sender, frame, LONG, &e));
}

static void send_picture(struct relay *relay, uint64_t number)
{
    SEND_LENT(relay->first, &relay->layout, number);
}

/* The frame, or the next one at the last receiver, is that picture, every byte of it. */
static void expect_picture(struct relay *relay, struct gpud_frame *frame, uint64_t number)
{
    if (!frame)
        frame = ACQUIRE_FRAME(relay->last, LONG);
    struct gpud_frame_info info = INFO(frame, frame);
    CHECK(!(info.flags & GPUD_FRAME_CORRUPTED), "frame %llu is flagged",
          (unsigned long long)number);
    FRAME_CHECK(frame, &relay->layout, number);
    gpud_frame_release(&frame);
}

/* --- sent on at once -------------------------------------------------------------------------- */

enum how { CONSUMED, KEPT, SECOND };

static void release_first(void *user)
{
    struct gpud_frame *frame = user;
    gpud_frame_release(&frame);
}

static void send_on(struct relay *relay, enum how how, uint64_t number)
{
    struct gpud_frame *second;
    struct gpud_frame *frame = ACQUIRE_FRAME(relay->between, LONG);
    CHECK_EQUAL(INFO(frame, frame).offset, number);
    switch (how) {
    case CONSUMED:
        submit(relay->next, &frame);
        CHECK(!frame, "a frame that was consumed is still there");
        break;
    case KEPT:
        WORKS(gpud_sender_submit_keep(relay->next, frame, LONG, &e));
        gpud_frame_release(&frame);
        break;
    case SECOND:
        WORKS(gpud_frame_wrap_frame(frame, NULL, release_first, frame, &second, &e));
        struct gpud_frame_info info = INFO(frame, frame);
        WORKS(gpud_frame_set_info(second, &info, &e));
        submit(relay->next, &second);
        break;
    }
}

/* Two frames are on their way at a time: while one is copied on, the next one comes. */
static void relay_frames(struct relay *relay, enum how how, uint64_t *number)
{
    uint64_t from = *number + 1, to = *number + FRAMES;
    for (uint64_t n = from; n <= to; n++) {
        send_picture(relay, n);
        send_on(relay, how, n);
        if (n > from)
            expect_picture(relay, NULL, n - 1);
    }
    expect_picture(relay, NULL, to);
    *number = to;
}

/* --- held queues ------------------------------------------------------------------------------ */

/* The device's own memory with this picture. */
static struct gpud_memory *new_memory(struct relay *relay, struct gpud_device *device,
                                      uint64_t number)
{
    AUTO(gpud_queue_unref) struct gpud_queue *queue = NEW_QUEUE(device);
    void *data;
    struct gpud_memory *memory = NEW_MEMORY(device, relay->layout.size);
    WORKS(gpud_queue_map(queue, memory, 0, relay->layout.size, GPUD_WRITE, gpud_deadline(LONG),
                         &data, &e));
    picture_write(&relay->layout, data, number);
    WORKS(gpud_queue_unmap(queue, memory, data, &e));
    WORKS(gpud_queue_finish(queue, gpud_deadline(LONG), &e));
    return memory;
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

/* What a holder does that reads a frame by a queue of its own, and gives it back. */
static void copy_and_release(struct relay *relay, struct gpud_frame *frame,
                             struct gpud_queue *queue, struct gpud_memory *to)
{
    const struct gpud_copy all = {.to = to,
                                  .from = frame->memory,
                                  .from_offset = frame->offset,
                                  .row_bytes = relay->layout.size,
                                  .rows = 1};
    WORKS(frame->ops->wait(frame, queue, &e));
    if (to) {
        WORKS(gpud_queue_copy(queue, &all, &e));
        WORKS(gpud_queue_flush(queue, &e));
    }
    WORKS(frame->ops->post(frame, queue, &e));
    gpud_frame_release(&frame);
}

/* Both links, and every slot of theirs, have shown pictures before `number`. */
static void fill_rings(struct relay *relay, uint64_t number)
{
    for (uint64_t n = number - 6; n < number; n++) {
        send_picture(relay, n);
        struct gpud_frame *frame = ACQUIRE_FRAME(relay->between, LONG);
        submit(relay->next, &frame);
        expect_picture(relay, NULL, n);
    }
}

struct held {
    struct gpud_queue *queue;
    struct hold *hold;
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
        gpud_test_nap(1);
    release_queue(held->hold, false);
    return NULL;
}

static struct held hold(struct gpud_queue *queue)
{
    struct held held = {.queue = queue, .hold = hold_queue(queue)};
    held.waits = atomic_load(&queue->waits);
    return held;
}

/* Before the frame is sent on, so that it can be. */
static void release_in_time(struct held *held)
{
    held->by_thread = held->hold && !gpud_device_has_fences(held->queue->device);
    if (held->by_thread)
        held->thread = NEW_THREAD(release_when_waited_for, held);
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
        release_queue(held->hold, false);
    expect_picture(relay, frame, number);
}

/* --- late ------------------------------------------------------------------------------------- */

/* The application's own queue has yet to write wrapped memory: it said so by post. */
static void wrapped_and_posted(struct relay *relay)
{
    struct gpud_device *device = relay->next->device;
    AUTO(gpud_memory_unref) struct gpud_memory *target = new_memory(relay, device, 1);
    AUTO(gpud_memory_unref) struct gpud_memory *source = new_memory(relay, device, 9);
    fill_rings(relay, 9);
    AUTO(gpud_queue_unref) struct gpud_queue *queue = NEW_QUEUE(device);
    struct held held = hold(queue);
    copy_whole(queue, target, source);
    WORKS(gpud_queue_flush(queue, &e));
    struct gpud_frame *frame = wrap(relay, target, 9);
    release_in_time(&held);
    WORKS(frame->ops->post(frame, queue, &e));
    submit(relay->next, &frame);
    expect_late(relay, &held, 9);
}

/* The CPU wrote wrapped memory by a map, which the frame's queue has yet to bring there. */
static void wrapped_and_mapped(struct relay *relay)
{
    AUTO(gpud_memory_unref) struct gpud_memory *memory = new_memory(relay, relay->next->device, 1);
    struct gpud_frame *frame = wrap(relay, memory, 29);
    struct held held = {0};
    fill_rings(relay, 29);
    void *data = MAP_FRAME(frame, GPUD_WRITE, LONG);
    picture_write(&relay->layout, data, 29);
    if (frame->queue)
        held = hold(frame->queue);
    gpud_frame_unmap(frame);
    release_in_time(&held);
    submit(relay->next, &frame);
    expect_late(relay, &held, 29);
}

/* The first sender's copy is late, and its frame is sent on as soon as it is there. */
static void relayed(struct relay *relay)
{
    AUTO(gpud_memory_unref)
    struct gpud_memory *source = new_memory(relay, relay->first->device, 49);
    struct gpud_frame *last = NULL;
    fill_rings(relay, 49);
    struct held held = hold(relay->first->queue);
    struct gpud_frame *frame = wrap(relay, source, 49);
    submit(relay->first, &frame);
    frame = look_for(relay->between);
    bool early = frame;
    if (early)
        submit(relay->next, &frame);
    if (held.hold)
        last = expect_nothing(relay->last);
    release_queue(held.hold, false);
    if (!early) {
        frame = ACQUIRE_FRAME(relay->between, LONG);
        submit(relay->next, &frame);
    }
    expect_picture(relay, last, 49);
}

static bool has_free_slot(struct gpud_session *session)
{
    gpud_lock_take(&session->lock);
    bool free = session->upload_free_count > 0;
    gpud_lock_release(&session->lock);
    return free;
}

/* The receiver's own upload from host pages is late. */
static void uploaded(struct relay *relay)
{
    fill_rings(relay, 69);
    /* Frames that were sent on give their slots back some time later, behind the receiver's queue.
     * While that is held none would come back. */
    struct gpud_session *session = relay->between->session;
    PEER_UNTIL("a slot of the receiver is free", 20000,
               !session->uploads || has_free_slot(session));
    struct held held = hold(relay->between->queue);
    send_picture(relay, 69);
    struct gpud_frame *frame = ACQUIRE_FRAME(relay->between, LONG);
    release_in_time(&held);
    submit(relay->next, &frame);
    expect_late(relay, &held, 69);
}

/* Two holders' queues read a received frame, and the second one's is late: the slot is its sender's
 * again when both are done. */
static void held_by_two(struct relay *relay)
{
    struct gpud_device *device = relay->between->device;
    AUTO(gpud_memory_unref) struct gpud_memory *copied = new_memory(relay, device, 1);
    fill_rings(relay, 89);
    send_picture(relay, 89);
    struct gpud_frame *frame = ACQUIRE_FRAME(relay->between, LONG), *other = gpud_frame_ref(frame);
    AUTO(gpud_queue_unref)
    struct gpud_queue *first = NEW_QUEUE(device), *second = NEW_QUEUE(device);
    struct held held = hold(second);
    copy_and_release(relay, frame, first, NULL);
    copy_and_release(relay, other, second, copied);
    WORKS(gpud_queue_finish(first, gpud_deadline(LONG), &e));

    /* As many pictures as there are slots, if they are to be had. */
    unsigned sent = 0, seen = 0;
    for (uint64_t n = 90; n < 96; n++) {
        int taken = try_to_send(relay->first, &relay->layout, n);
        if (taken < 0)
            break;
        sent += (unsigned)taken;
        for (; gpud_receiver_acquire(relay->between, 0, &frame, NULL) == GPUD_OK; seen++)
            gpud_frame_release(&frame);
    }
    release_queue(held.hold, false);
    WORKS(gpud_queue_finish(second, gpud_deadline(LONG), &e));
    for (; seen < sent; seen++) { /* which waited for the queue */
        frame = ACQUIRE_FRAME(relay->between, LONG);
        gpud_frame_release(&frame);
    }
    frame = wrap(relay, copied, 89);
    submit(relay->next, &frame);
    expect_picture(relay, NULL, 89);
}

/* A queue still reads a frame that was given back. The next one in its entry of the page, which the
 * sender's queue may not write before, is given back unread. */
static void replaced_unread(struct relay *relay)
{
    struct gpud_device *device = relay->between->device;
    AUTO(gpud_memory_unref) struct gpud_memory *copied = new_memory(relay, device, 1);
    fill_rings(relay, 109);
    send_picture(relay, 109);
    struct gpud_frame *frame = ACQUIRE_FRAME(relay->between, LONG);
    AUTO(gpud_queue_unref) struct gpud_queue *queue = NEW_QUEUE(device);
    struct held held = hold(queue);
    copy_and_release(relay, frame, queue, copied);

    send_picture(relay, 110); /* in the other entry, which is kept */
    struct gpud_frame *other = ACQUIRE_FRAME(relay->between, LONG);
    send_picture(relay, 111);
    frame = ACQUIRE_FRAME(relay->between, LONG);
    gpud_frame_release(&frame);
    GIVES(GPUD_TIMEOUT, gpud_queue_finish(relay->first->queue, gpud_deadline(LOOK), &e));
    release_queue(held.hold, false);
    WORKS(gpud_queue_finish(queue, gpud_deadline(LONG), &e));
    gpud_frame_release(&other);
    frame = wrap(relay, copied, 109);
    submit(relay->next, &frame);
    expect_picture(relay, NULL, 109);
    fill_rings(relay, 129); /* both entries go on */
}

int main(int argc, char **argv)
{
    static const char *const names[] = {
        [CONSUMED] = "consumed", [KEPT] = "kept", [SECOND] = "a second frame"};
    copies_install_if_asked();
    bool late = argc > 1 && strcmp(argv[1], "late") == 0;
    char **devices = argv + 1 + late;
    CHECK(argc == 4 + late, "usage: relay [late] <first> <between> <last>");
    AUTO(relay_close) struct relay relay = relay_open(devices);
    SAY("%s → %s → %s", devices[0], devices[1], devices[2]);
    if (!late) {
        uint64_t number = 0;
        for (enum how how = CONSUMED; how <= SECOND; how++) {
            SAY("%s", names[how]);
            relay_frames(&relay, how, &number);
        }
        /* The relay's sender on a GPU never copies by the CPU. */
        if (strcmp(devices[1], "host") != 0)
            CHECK_EQUAL(INFO(sender, relay.next).copies_cpu, 0);
        return 0;
    }
    wrapped_and_posted(&relay);
    wrapped_and_mapped(&relay);
    struct gpud_device *between = relay.between->device;
    bool one = relay.first->device == between;
    if (one)
        relayed(&relay);
    else
        uploaded(&relay);
    if (gpud_device_has_fences(between) && between == relay.next->device && holds_alone(between))
        held_by_two(&relay);
    if (between->caps & GPUD_CAP_PAGE_SIGNALS && one)
        replaced_unread(&relay);
    return 0;
}
