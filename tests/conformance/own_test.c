/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Frames received into memory of the application's own: own <from> <to> <route>. Two slots, so that
 * one that is given back too early is written again at once. */
#include "conformance.h"

#include "stream/receiver/receiver.h"
#include "stream/sender/sender.h"
#include "support/copies.h"
#include "support/media.h"
#include "support/picture.h"

#define ADDRESS "own"
#define SLOTS 2
#define LONG (20 * GPUD_SEC)

enum fault { NO_FAULT, NOTHING, TOO_SMALL, WRONG_DEVICE, TWICE, OUT_OF_MEMORY, NOT_YET };

struct scene {
    const char *from, *to, *route;
    struct gpud_context *context;
    struct gpud_device *device, *host; /* of the receiver; the host */
    struct gpud_layout layout;
    struct gpud_sender *sender;
    struct gpud_receiver *receiver;
    enum fault fault;                 /* of the second slot */
    struct gpud_memory *given[SLOTS]; /* last, by slot */
    unsigned asked, formats;
    atomic_uint made, gone; /* memories */
};

/* --- the application's memories ------------------------------------------------------------ */

struct wrapped {
    struct scene *scene;
    struct gpud_memory *inner;
};

static void wrapped_gone(void *user)
{
    struct wrapped *wrapped = user;
    struct scene *scene = wrapped->scene;
    gpud_memory_unref(&wrapped->inner);
    free(wrapped);
    atomic_fetch_add(&scene->gone, 1);
}

/* Wrapped, to be told when the library has done with it. */
static struct gpud_memory *make(struct scene *scene, struct gpud_device *device, uint64_t size)
{
    struct wrapped *wrapped = calloc(1, sizeof(*wrapped));
    struct gpud_memory *memory;
    CHECK(wrapped, "out of memory");
    wrapped->scene = scene;
    wrapped->inner = NEW_MEMORY(device, size);
    WORKS(gpud_memory_wrap(device, gpud_memory_get_native(wrapped->inner), size, wrapped_gone,
                           wrapped, &memory, &e));
    atomic_fetch_add(&scene->made, 1);
    return memory;
}

static enum gpud_status alloc(void *user, const struct gpud_layout *layout, uint32_t slot,
                              struct gpud_memory **memory, struct gpud_error *error)
{
    struct scene *scene = user;
    CHECK(slot < SLOTS, "slot %u of %d", slot, SLOTS);
    CHECK_EQUAL(layout->size, scene->layout.size);
    scene->asked++;
    switch (slot == 1 ? scene->fault : NO_FAULT) {
    case NOTHING:
        return GPUD_OK;
    case TOO_SMALL:
        *memory = make(scene, scene->device, layout->size - 1);
        return GPUD_OK;
    case WRONG_DEVICE: {
        struct gpud_device *other =
            OPEN_DEVICE(scene->context, scene->device == scene->host ? scene->from : "host");
        *memory = make(scene, other, layout->size);
        gpud_device_close(&other);
        return GPUD_OK;
    }
    case TWICE:
        *memory = scene->given[0];
        return GPUD_OK;
    case OUT_OF_MEMORY:
        return gpud_fail(error, GPUD_NO_MEMORY, "the pool is empty");
    case NOT_YET:
        return gpud_fail(error, GPUD_AGAIN, "the pool is empty");
    case NO_FAULT:
        break;
    }
    *memory = scene->given[slot] = make(scene, scene->device, layout->size);
    return GPUD_OK;
}

static void on_event(void *user, enum gpud_event event, const void *data)
{
    struct scene *scene = user;
    if (event != GPUD_EVENT_FORMAT)
        return;
    scene->formats++;
    CHECK_EQUAL(scene->asked % SLOTS, 0); /* all of them, before */
    CHECK(scene->asked, "a format before its memories");
}

static void expect_gone(struct scene *scene, unsigned wanted)
{
    PEER_UNTIL("the memories are given back", 10000, atomic_load(&scene->gone) >= wanted);
    CHECK_EQUAL(atomic_load(&scene->gone), wanted);
}

/* --- links --------------------------------------------------------------------------------- */

static struct gpud_receiver *open_receiver(struct scene *scene, bool own)
{
    return NEW_RECEIVER(scene->context, .address = ADDRESS, .device = scene->to, .slots = SLOTS,
                        .user = scene, .alloc = own ? alloc : NULL,
                        .on_event = own ? on_event : NULL);
}

static unsigned receivers_of(struct scene *scene)
{
    return INFO(sender, scene->sender).receivers;
}

static void open_link(struct scene *scene)
{
    scene->receiver = open_receiver(scene, true);
    PEER_LINK(scene->sender, scene->receiver, 1);
    CHECK_EQUAL(scene->asked % SLOTS, 0);
}

static void close_link(struct scene *scene)
{
    gpud_receiver_destroy(&scene->receiver);
    expect_gone(scene, atomic_load(&scene->made));
    PEER_UNTIL("the sender's end of the link is gone", 20000, receivers_of(scene) == 0);
}

/* --- frames -------------------------------------------------------------------------------- */

static struct gpud_frame *draw(struct scene *scene, uint64_t number)
{
    struct gpud_frame *frame = ACQUIRE_SLOT(scene->sender, LONG);
    frame_write(frame, &scene->layout, number);
    return frame;
}

static void send_frame(struct scene *scene, uint64_t number)
{
    SEND_LENT(scene->sender, &scene->layout, number);
}

static void check_bytes(struct gpud_frame *frame, uint64_t number)
{
    struct gpud_frame_info info = INFO(frame, frame);
    CHECK_EQUAL(info.flags & (GPUD_FRAME_CORRUPTED | GPUD_FRAME_READ_ONLY), 0);
    FRAME_CHECK(frame, &info.layout, number);
}

/* In the application's memory, with the picture of this number. */
static void check(struct scene *scene, struct gpud_frame *frame, uint64_t number)
{
    struct gpud_frame_info info = INFO(frame, frame);
    CHECK(info.slot < SLOTS && info.memory == scene->given[info.slot],
          "not the application's memory");
    CHECK_EQUAL(info.memory_offset, 0);
    check_bytes(frame, number);
}

/* The frame, or the next one. */
static void take(struct scene *scene, struct gpud_frame *frame, uint64_t number)
{
    if (!frame)
        frame = ACQUIRE_FRAME(scene->receiver, LONG);
    check(scene, frame, number);
    gpud_frame_release(&frame);
}

static void drop(struct gpud_receiver *receiver)
{
    struct gpud_frame *frame = ACQUIRE_FRAME(receiver, LONG);
    gpud_frame_release(&frame);
}

/* --- cases --------------------------------------------------------------------------------- */

/* Every frame is there, where it is wanted, copied once; and what the application writes over it
 * is not seen by the sender. */
static void frames(struct scene *scene)
{
    open_link(scene);
    for (uint64_t number = 1; number <= 10; number++) {
        struct gpud_frame *sent = draw(scene, number);
        for (int again = 0; again < 2; again++) {
            if (again == 0)
                WORKS(gpud_sender_submit_keep(scene->sender, sent, LONG, &e));
            else
                WORKS(gpud_sender_submit(scene->sender, &sent, LONG, &e));
            struct gpud_frame *frame = ACQUIRE_FRAME(scene->receiver, LONG);
            check(scene, frame, number);
            void *data = MAP_FRAME(frame, GPUD_WRITE, LONG);
            memset(data, 0xa5, scene->layout.size);
            gpud_frame_unmap(frame);
            gpud_frame_release(&frame);
        }
    }
    struct gpud_receiver_info info = INFO(receiver, scene->receiver);
    bool cpu = scene->device == scene->host;
    CHECK_EQUAL(info.frames, 20);
    CHECK_EQUAL(info.copies_cpu, cpu ? 21 : 0); /* and the test frame */
    CHECK_EQUAL(info.copies_gpu, cpu ? 0 : 21);
    CHECK(strcmp(info.path, scene->route) == 0, "the route is %s", info.path);
    CHECK(strstr(info.fallback_reason, "copied into the application's own memory"),
          "the copy is not told: \"%s\"", info.fallback_reason);
    CHECK_EQUAL(scene->asked, SLOTS);
    CHECK_EQUAL(scene->formats, 1);
    close_link(scene);
}

/* The sender's queue is late: nothing is seen before it. */
static void late_sender(struct scene *scene)
{
    open_link(scene);
    for (uint64_t number = 20; number < 24; number++) {
        send_frame(scene, number);
        take(scene, NULL, number);
    }
    struct gpud_frame *sent = draw(scene, 24);
    struct hold *hold = hold_queue(scene->sender->queue);
    WORKS(gpud_sender_submit(scene->sender, &sent, LONG, &e));
    struct gpud_frame *frame = hold ? expect_nothing(scene->receiver) : NULL;
    release_queue(hold, false);
    take(scene, frame, 24);
    close_link(scene);
}

/* The receiver's own copies are late: the sender does not write their slots meanwhile, whatever it
 * can do by then, nor after the frames have been released. */
static void late_copies(struct scene *scene)
{
    struct gpud_frame *frame[SLOTS];
    open_link(scene);
    struct hold *hold = hold_queue(scene->receiver->queue);
    for (uint64_t n = 0; n < SLOTS; n++) {
        send_frame(scene, 30 + n);
        frame[n] = ACQUIRE_FRAME(scene->receiver, LONG);
    }
    for (uint64_t n = 0; hold && n < 3; n++) {
        if (try_to_send(scene->sender, &scene->layout, 90 + n) < 0)
            break;
    }
    release_queue(hold, false);
    for (uint64_t n = 0; n < SLOTS; n++) {
        check_bytes(frame[n], 30 + n);
        gpud_frame_release(&frame[n]);
    }
    close_link(scene);
}

/* A new format gets new memories; the old ones go with the last frame that lies in them. */
static void formats(struct scene *scene)
{
    unsigned before = atomic_load(&scene->made);
    struct gpud_layout first = scene->layout;
    open_link(scene);
    send_frame(scene, 40);
    struct gpud_frame *kept = ACQUIRE_FRAME(scene->receiver, LONG);
    scene->layout = LAYOUT("NV12", 1366, 766, 0);
    WORKS(gpud_sender_configure(scene->sender, PICTURE(&scene->layout), &e));
    for (unsigned formats = scene->formats, wait = 0; scene->formats == formats; wait++) {
        struct gpud_frame *frame;
        CHECK(wait < 400, "no new format within 20 s");
        GIVES(GPUD_TIMEOUT, gpud_receiver_acquire(scene->receiver, LOOK, &frame, &e));
    }
    PEER_LINK(scene->sender, scene->receiver, 1);
    for (uint64_t number = 41; number < 47; number++) {
        send_frame(scene, number);
        take(scene, NULL, number);
    }
    CHECK_EQUAL(atomic_load(&scene->made), before + 2 * SLOTS);
    CHECK_EQUAL(atomic_load(&scene->gone), before);
    check_bytes(kept, 40);
    gpud_frame_release(&kept);
    expect_gone(scene, before + SLOTS);

    /* And without the receiver, once the bytes have come (else: lost()). */
    send_frame(scene, 47);
    kept = ACQUIRE_FRAME(scene->receiver, LONG);
    check_bytes(kept, 47);
    gpud_receiver_destroy(&scene->receiver);
    check_bytes(kept, 47);
    CHECK_EQUAL(atomic_load(&scene->gone), before + SLOTS);
    gpud_frame_release(&kept);
    close_link(scene);
    scene->layout = first;
    WORKS(gpud_sender_configure(scene->sender, PICTURE(&scene->layout), &e));
}

/* The link ends before the bytes came: where the frame was handed out by then, it says so. */
static void lost(struct scene *scene)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    struct gpud_frame *frame = NULL;
    void *data;
    open_link(scene);
    /* Kept, but copied: the next frame goes by the same entry of the link into another slot. */
    send_frame(scene, 49);
    struct gpud_frame *kept = ACQUIRE_FRAME(scene->receiver, LONG);
    check_bytes(kept, 49);
    struct gpud_frame *sent = draw(scene, 50);
    struct hold *hold = hold_queue(scene->sender->queue);
    WORKS(gpud_sender_submit(scene->sender, &sent, LONG, &e));
    if (hold && scene->receiver->session->place != GPUD_SIGNAL_NONE) {
        frame = ACQUIRE_FRAME(scene->receiver, LONG);
        gpud_receiver_destroy(&scene->receiver);
        EXPECT(GPUD_PEER, "incomplete", gpud_frame_map(frame, GPUD_READ, LONG, &data, &e));
        gpud_frame_get_info(frame, &info);
        CHECK(info.flags & GPUD_FRAME_CORRUPTED, "the frame is not flagged");
    }
    release_queue(hold, false);
    gpud_frame_release(&frame);
    check_bytes(kept, 49);
    gpud_frame_release(&kept);
    close_link(scene);
}

static const struct {
    enum fault fault;
    enum gpud_status status;
    const char *text;
} faults[] = {
    {NOTHING, GPUD_INVALID, "gave no memory for slot 1"},
    {TOO_SMALL, GPUD_INVALID, "bytes, and a frame"},
    {WRONG_DEVICE, GPUD_INVALID, "make it there"},
    {TWICE, GPUD_INVALID, "one memory for the slots 0 and 1"},
    {OUT_OF_MEMORY, GPUD_NO_MEMORY, "no memory for slot 1: the pool is empty"},
    {NOT_YET, GPUD_INVALID, "no memory for slot 1: the pool is empty"},
};

/* Unusable memory is refused with a reason, at the first try and at the next; other receivers
 * continue; and a hook that then provides good memory gets its link. */
static void refusals(struct scene *scene)
{
    struct gpud_receiver *other = open_receiver(scene, false);
    uint64_t number = 60;
    PEER_LINK(scene->sender, other, 1);
    for (size_t i = 0; i < COUNT(faults); i++) {
        if (faults[i].fault == WRONG_DEVICE && strcmp(scene->from, "host") == 0 &&
            scene->device == scene->host)
            continue; /* there is no other */
        scene->fault = faults[i].fault;
        scene->receiver = open_receiver(scene, true);
        for (int again = 0; again < 2; again++) {
            struct gpud_frame *none;
            struct gpud_error why = {.reason = ""};
            enum gpud_status got;
            PEER_UNTIL("a refusal", 20000,
                       (got = gpud_receiver_acquire(scene->receiver, LOOK, &none, &why)) !=
                           GPUD_TIMEOUT);
            CHECK(got == faults[i].status && why.status == got &&
                      strstr(why.reason, faults[i].text),
                  "%s: \"%s\" is refused as \"%s\"", gpud_status_string(why.status), why.reason,
                  faults[i].text);
            send_frame(scene, ++number);
            drop(other);
        }
        expect_gone(scene, atomic_load(&scene->made));
        scene->fault = NO_FAULT;
        scene->asked = 0;
        PEER_LINK(scene->sender, scene->receiver, 2);
        send_frame(scene, ++number);
        take(scene, NULL, number);
        drop(other);
        gpud_receiver_destroy(&scene->receiver);
        expect_gone(scene, atomic_load(&scene->made));
        PEER_UNTIL("one receiver is left", 20000, receivers_of(scene) == 1);
    }
    gpud_receiver_destroy(&other);
}

int main(int argc, char **argv)
{
    copies_install_if_asked();
    CHECK(argc == 4, "usage: own <from> <to> <route>");
    struct scene scene = {.from = argv[1], .to = argv[2], .route = argv[3]};
    struct side from = side_open(scene.from), to = side_open(scene.to); /* 77 without */
    side_close(&from);
    side_close(&to);
    runtime_make();
    SAY("%s → %s by %s", scene.from, scene.to, scene.route);
    scene.context = NEW_CONTEXT();
    scene.device = OPEN_DEVICE(scene.context, scene.to);
    scene.host = OPEN_DEVICE(scene.context, "host");
    scene.sender = NEW_SENDER(scene.context, .address = ADDRESS, .device = scene.from,
                              .route = scene.route, .slots = SLOTS);
    scene.layout = LAYOUT("UYVY", 640, 360, 0);
    WORKS(gpud_sender_configure(scene.sender, PICTURE(&scene.layout), &e));
    frames(&scene);
    late_sender(&scene);
    late_copies(&scene);
    formats(&scene);
    lost(&scene);
    refusals(&scene);
    gpud_sender_destroy(&scene.sender);
    gpud_device_close(&scene.host);
    gpud_device_close(&scene.device);
    gpud_context_destroy(&scene.context);
    CHECK_EQUAL(atomic_load(&scene.gone), atomic_load(&scene.made));
    runtime_done();
    return 0;
}
