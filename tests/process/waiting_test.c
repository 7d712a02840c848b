/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Drop-oldest over a network, where no frame can be taken back: the newest one waits at the sender,
 * and arrives without another submit; later events keep their order; and the wait always ends. */
#include "support/check.h"
#include "support/copies.h"
#include "support/make.h"
#include "support/peer.h"

static const char *device; /* the sender's */

#define IN_GUEST getenv("GPUD_TEST_ADDRESS") /* slow, and with a network card */

#define SLOTS 4 /* the default: so many frames fit into the receiver's ring */

struct scene {
    struct baseline before;
    struct gpud_context *context;
    struct gpud_device *host;
    struct gpud_sender *sender;
    struct gpud_layout layout;
    uint64_t number;
    struct peer peer;
};

static void format(struct scene *scene, uint32_t width)
{
    scene->layout = LAYOUT("UYVY", width, 181, 0);
    WORKS(gpud_sender_configure(scene->sender, PICTURE(&scene->layout), &e));
}

static void open_sender(struct scene *scene, enum gpud_slow_receiver policy)
{
    memset(scene, 0, sizeof(*scene));
    scene->before = baseline_take();
    scene->context = NEW_CONTEXT();
    scene->host = OPEN_DEVICE(scene->context, "host");
    scene->sender = NEW_SENDER(scene->context, .address = peer_address("waiting"),
                               .psk_file = peer_key(), .device = device, .slow_receiver = policy);
    format(scene, 320);
}

static void start(const struct scene *scene, struct peer *peer, const struct peer_orders *orders)
{
    struct peer_orders own = *orders;
    snprintf(own.address, sizeof(own.address), "%s", peer_address("waiting"));
    peer_start(peer, &own);
}

static void pause_peer(struct peer *peer)
{
    atomic_store(&peer->board->paused, true);
    PEER_UNTIL("the receiver rests", 20000, atomic_load(&peer->board->resting));
}

static void resume_peer(struct peer *peer)
{
    atomic_store(&peer->board->paused, false);
}

/* A receiver with drop-oldest that pauses. */
static void open_with(struct scene *scene, enum gpud_slow_receiver policy, uint32_t hold)
{
    struct peer_orders orders = {.hold = hold};
    if (policy != GPUD_SLOW_DROP_OLDEST)
        orders.slow_receiver = GPUD_SLOW_DROP_OLDEST;
    open_sender(scene, policy);
    start(scene, &scene->peer, &orders);
    WORKS(gpud_sender_wait(scene->sender, 1, 30 * GPUD_SEC, &e));
    pause_peer(&scene->peer);
}

static void open_scene(struct scene *scene, uint32_t hold)
{
    open_with(scene, GPUD_SLOW_DROP_OLDEST, hold);
}

static void send(struct scene *scene, unsigned frames)
{
    while (frames--)
        SEND_LENT(scene->sender, &scene->layout, ++scene->number);
}

static void send_event(struct scene *scene)
{
    WORKS(gpud_sender_send_event(scene->sender, 7, &scene->number, sizeof(scene->number), &e));
}

static struct gpud_sender_info info_of(const struct scene *scene)
{
    return INFO(sender, scene->sender);
}

/* Soon, but not before the device has copied the frame that replaces another. */
static void wait_for_drops(const struct scene *scene, uint64_t dropped)
{
    PEER_UNTIL("a drop", 20000, info_of(scene).dropped >= dropped);
    CHECK_EQUAL(info_of(scene).dropped, dropped);
}

static void wait_for_last(const struct scene *scene, uint64_t sequence)
{
    PEER_UNTIL("the last frame", 20000, atomic_load(&scene->peer.board->last) == sequence);
}

/* The nth of a kind. */
static const struct peer_note *find_note(const struct peer_board *board, enum gpud_event event,
                                         unsigned nth)
{
    for (unsigned i = 0; i < atomic_load(&board->notes); i++)
        if (board->note[i].event == event && nth-- == 0)
            return &board->note[i];
    FAIL("an event is missing");
}

static void close_sender(struct scene *scene)
{
    gpud_sender_destroy(&scene->sender);
    gpud_device_close(&scene->host);
    gpud_context_destroy(&scene->context);
    BASELINE_CHECK(scene->before);
}

static void close_scene(struct scene *scene)
{
    PEER_FINISH(&scene->peer);
    peer_forget(&scene->peer);
    close_sender(scene);
}

/* --- the last frame ----------------------------------------------------------------------------
 */

/* By a KICK: the thread's own polls, a second apart, would be late in half of the rounds. */
#define ROUNDS 30
#define LATE (GPUD_SEC / 2)
static void the_last_arrives(void)
{
    AUTO(close_scene) struct scene scene;
    unsigned late = 0;
    open_scene(&scene, 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t dropped = info_of(&scene).dropped;
        send(&scene, SLOTS + 1 + round % 7);
        wait_for_drops(&scene, dropped + round % 7);
        int64_t resumed = gpud_test_now();
        resume_peer(&scene.peer);
        wait_for_last(&scene, scene.number);
        late += gpud_test_now() - resumed > LATE;
        pause_peer(&scene.peer); /* and has counted it */
        CHECK_EQUAL(atomic_load(&scene.peer.board->frames), (round + 1) * (SLOTS + 1));
    }
    CHECK(IN_GUEST || late < ROUNDS / 4, "%u of %d rounds were late", late, ROUNDS);
}

/* --- its place among the messages ----------------------------------------------------------------
 */

static void events_keep_their_place(void)
{
    AUTO(close_scene) struct scene scene;
    open_scene(&scene, 0);
    send(&scene, SLOTS);
    send_event(&scene); /* behind the last that fits */
    send(&scene, 1);
    send_event(&scene); /* behind one that is replaced */
    send(&scene, 1);
    send_event(&scene);
    send(&scene, 3);
    send_event(&scene); /* behind the one that waits */
    send_event(&scene);
    wait_for_drops(&scene, 4);
    resume_peer(&scene.peer);
    wait_for_last(&scene, SLOTS + 5);
    const struct peer_board *board = scene.peer.board;
    PEER_UNTIL("the events", 20000, atomic_load(&board->notes) >= 2 + 5);
    static const unsigned sent[] = {SLOTS, SLOTS + 1, SLOTS + 2, SLOTS + 5, SLOTS + 5};
    static const unsigned after[] = {SLOTS, SLOTS, SLOTS, SLOTS + 5, SLOTS + 5};
    for (unsigned i = 0; i < 5; i++) {
        const struct peer_note *note = find_note(board, GPUD_EVENT_USER, i);
        CHECK_EQUAL(note->value, sent[i]);
        CHECK_EQUAL(note->after, after[i]);
    }
}

static void many_events(void)
{
    AUTO(close_scene) struct scene scene;
    open_scene(&scene, 0);
    send(&scene, SLOTS + 1);
    for (int i = 0; i < 31; i++) {
        CHECK_EQUAL(info_of(&scene).dropped, i > 28);
        send_event(&scene);
    }
    resume_peer(&scene.peer);
    PEER_UNTIL("the events", 20000, atomic_load(&scene.peer.board->notes) == 2 + 31);
    send(&scene, 1);
    wait_for_last(&scene, SLOTS + 2);
}

static void the_end_comes_last(void)
{
    AUTO(close_scene) struct scene scene;
    open_scene(&scene, 0);
    send(&scene, SLOTS + 3);
    WORKS(gpud_sender_send_eos(scene.sender, &e));
    wait_for_drops(&scene, 2);
    resume_peer(&scene.peer);
    PEER_UNTIL("the end of the stream", 20000, atomic_load(&scene.peer.board->ends) == 1);
    const struct peer_board *board = scene.peer.board;
    CHECK_EQUAL(atomic_load(&board->last), SLOTS + 3);
    CHECK_EQUAL(find_note(board, (enum gpud_event)0, 0)->after, SLOTS + 3);
    CHECK_EQUAL(atomic_load(&board->gaps), 2);
}

/* It returns no slot before the end. */
static void the_end_comes_all_the_same(void)
{
    AUTO(close_scene) struct scene scene;
    open_scene(&scene, SLOTS);
    send(&scene, SLOTS + 3);
    WORKS(gpud_sender_send_eos(scene.sender, &e));
    resume_peer(&scene.peer);
    PEER_UNTIL("the end of the stream", 30000, atomic_load(&scene.peer.board->ends) == 1);
    CHECK_EQUAL(atomic_load(&scene.peer.board->last), SLOTS);
    CHECK_EQUAL(info_of(&scene).dropped, 3);
}

static void the_old_format_comes_first(void)
{
    AUTO(close_scene) struct scene scene;
    open_scene(&scene, 0);
    const struct peer_board *board = scene.peer.board;
    send(&scene, SLOTS + 2);
    wait_for_drops(&scene, 1); /* frames whose copies end behind the change are all kept */
    send_event(&scene);
    format(&scene, 640);
    send_event(&scene);
    resume_peer(&scene.peer);
    WORKS(gpud_sender_wait(scene.sender, 1, 30 * GPUD_SEC, &e));
    send(&scene, 2);
    wait_for_last(&scene, SLOTS + 4);
    CHECK_EQUAL(find_note(board, GPUD_EVENT_FORMAT, 1)->after, SLOTS + 2);
    const struct peer_note *before = find_note(board, GPUD_EVENT_USER, 0),
                           *after = find_note(board, GPUD_EVENT_USER, 1);
    CHECK(before < find_note(board, GPUD_EVENT_FORMAT, 1) &&
              find_note(board, GPUD_EVENT_FORMAT, 1) < after,
          "an event is on the wrong side of the new format");
    CHECK_EQUAL(before->after, SLOTS + 2);
    CHECK_EQUAL(after->after, SLOTS + 2);
    CHECK_EQUAL(atomic_load(&board->gaps), 1);
}

/* It returns no slot before it has seen the new format. */
static void the_new_format_comes_all_the_same(void)
{
    AUTO(close_scene) struct scene scene;
    open_scene(&scene, SLOTS);
    send(&scene, SLOTS + 1);
    format(&scene, 640);
    format(&scene, 322);
    resume_peer(&scene.peer);
    WORKS(gpud_sender_wait(scene.sender, 1, 30 * GPUD_SEC, &e));
    send(&scene, 1);
    wait_for_last(&scene, SLOTS + 2);
    CHECK_EQUAL(info_of(&scene).dropped, 1);
}

/* --- giving way ------------------------------------------------------------------------------- */

static void interrupted(void)
{
    AUTO(close_scene) struct scene scene;
    open_scene(&scene, 0);
    send(&scene, SLOTS + 1);
    send_event(&scene);
    gpud_sender_interrupt(scene.sender, true);
    gpud_sender_interrupt(scene.sender, false);
    CHECK_EQUAL(info_of(&scene).dropped, 1);
    resume_peer(&scene.peer);
    PEER_UNTIL("the event", 20000, atomic_load(&scene.peer.board->notes) == 2 + 1);
    CHECK_EQUAL(find_note(scene.peer.board, GPUD_EVENT_USER, 0)->after, SLOTS);
    send(&scene, 1);
    wait_for_last(&scene, SLOTS + 2);
}

static void destroyed(void)
{
    struct scene scene;
    open_scene(&scene, 0);
    send(&scene, SLOTS + 1);
    send_event(&scene);
    WORKS(gpud_sender_send_eos(scene.sender, &e));
    int64_t start = gpud_test_now();
    gpud_sender_destroy(&scene.sender);
    CHECK(IN_GUEST || gpud_test_now() - start < 4 * GPUD_SEC, "the end waited for the receiver");
    resume_peer(&scene.peer);
    PEER_UNTIL("the end of the stream", 20000, atomic_load(&scene.peer.board->ends) == 1);
    CHECK_EQUAL(find_note(scene.peer.board, GPUD_EVENT_USER, 0)->after, SLOTS);
    close_scene(&scene);
}

/* The ring has the sender's own slots, and as many for the receiver. */
static void take_all_slots(struct scene *scene, struct gpud_frame *frames[], unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        WORKS(gpud_sender_acquire(scene->sender, 20 * GPUD_SEC, &frames[i], &e));
}

static void slots_are_needed(void)
{
    struct scene scene;
    struct gpud_frame *frames[2 * SLOTS];
    open_scene(&scene, 0);
    send(&scene, SLOTS + 1);
    take_all_slots(&scene, frames, SLOTS - 1);
    CHECK_EQUAL(info_of(&scene).dropped, 0);
    frames[SLOTS - 1] = ACQUIRE_SLOT(scene.sender, 0);
    CHECK_EQUAL(info_of(&scene).dropped, 1);
    for (unsigned i = 0; i < SLOTS; i++)
        gpud_frame_release(&frames[i]);
    send(&scene, 1);
    resume_peer(&scene.peer);
    wait_for_last(&scene, SLOTS + 2);

    pause_peer(&scene.peer);
    send(&scene, SLOTS + 2);
    send_event(&scene);
    peer_kill(&scene.peer);
    take_all_slots(&scene, frames, 2 * SLOTS);
    for (unsigned i = 0; i < 2 * SLOTS; i++)
        gpud_frame_release(&frames[i]);
    peer_forget(&scene.peer);
    close_sender(&scene);
}

/* It reads no message either: the one that does not fit ends the link, where a frame is about to
 * wait for it, and that frame keeps no slot. */
static void ended_by_a_message(void)
{
    AUTO(close_sender) struct scene scene;
    static const char large[GPUD_EVENT_SIZE_MAX];
    struct gpud_frame *frames[2 * SLOTS];
    open_scene(&scene, 0);
    send(&scene, SLOTS + 1);
    for (int i = 0; i < 10000 && info_of(&scene).receivers > 0; i++) {
        WORKS(gpud_sender_send_event(scene.sender, 7, large, sizeof(large), &e));
        send(&scene, 1);
    }
    CHECK_EQUAL(info_of(&scene).receivers, 0);
    gpud_test_nap(300); /* until the link itself is gone: it could give the slot up before */
    take_all_slots(&scene, frames, 2 * SLOTS);
    for (unsigned i = 0; i < 2 * SLOTS; i++)
        gpud_frame_release(&frames[i]);
    peer_kill(&scene.peer);
    peer_forget(&scene.peer);
}

/* The policy changes while a frame waits. */
static void policies(void)
{
    struct scene scene;
    struct gpud_error error = {.reason = ""};
    open_scene(&scene, 0);
    send(&scene, SLOTS + 1);
    WORKS(gpud_sender_set_slow_receiver(scene.sender, GPUD_SLOW_DROP_NEWEST, &e));
    send(&scene, 1); /* the newest, now */
    CHECK_EQUAL(info_of(&scene).dropped, 1);
    WORKS(gpud_sender_set_slow_receiver(scene.sender, GPUD_SLOW_BLOCK, &e));
    struct gpud_frame *frame = ACQUIRE_SLOT(scene.sender, GPUD_SEC);
    enum gpud_status status = gpud_sender_submit(scene.sender, &frame, 100 * GPUD_MSEC, &error);
    CHECK(status == GPUD_TIMEOUT && frame, "it gives %s", gpud_status_string(status));
    gpud_frame_release(&frame);
    resume_peer(&scene.peer);
    wait_for_last(&scene, SLOTS + 1);
    pause_peer(&scene.peer);
    send(&scene, SLOTS);
    WORKS(gpud_sender_set_slow_receiver(scene.sender, GPUD_SLOW_DROP_OLDEST, &e));
    send(&scene, 2);
    WORKS(gpud_sender_set_slow_receiver(scene.sender, GPUD_SLOW_BLOCK, &e));
    resume_peer(&scene.peer);
    send(&scene, 20);
    wait_for_last(&scene, scene.number);
    CHECK_EQUAL(info_of(&scene).dropped, 2);
    close_scene(&scene);
}

/* An application that polls the sender for a receiver that blocks, beside a frame that waits. */
static void beside_a_poll(void)
{
    struct scene scene;
    struct peer blocking;
    struct peer_orders orders = {0};
    int fd;
    open_with(&scene, GPUD_SLOW_BLOCK, 0);
    start(&scene, &blocking, &orders);
    WORKS(gpud_sender_wait(scene.sender, 2, 30 * GPUD_SEC, &e));
    WORKS(gpud_sender_get_fd(scene.sender, &fd, &e));
    pause_peer(&blocking);
    send(&scene, SLOTS);
    struct gpud_frame *frame = ACQUIRE_SLOT(scene.sender, GPUD_SEC);
    for (int i = 0; i < 3; i++)
        EXPECT(GPUD_TIMEOUT, "no credit", gpud_sender_submit(scene.sender, &frame, 0, &e));
    gpud_frame_release(&frame);
    resume_peer(&blocking);
    PEER_UNTIL("all frames", 20000, atomic_load(&blocking.board->last) == SLOTS);
    send(&scene, 2);
    PEER_UNTIL("all frames", 20000, atomic_load(&blocking.board->last) == SLOTS + 2);
    WORKS(gpud_sender_acquire(scene.sender, 0, &frame, &e)); /* which asks for nothing any more */
    gpud_frame_release(&frame);
    resume_peer(&scene.peer);
    wait_for_last(&scene, SLOTS + 2);
    CHECK_EQUAL(atomic_load(&scene.peer.board->gaps), 1);
    PEER_FINISH(&blocking);
    CHECK_EQUAL(blocking.board->gaps, 0);
    peer_forget(&blocking);
    close_scene(&scene);
}

/* --- beside others ---------------------------------------------------------------------------- */

static void beside_a_fast_one(void)
{
    struct scene scene;
    struct peer fast;
    struct peer_orders blocks = {0}, slow = {.slow_receiver = GPUD_SLOW_DROP_OLDEST};
    slow.nap = 20 * GPUD_MSEC;
    open_sender(&scene, GPUD_SLOW_BLOCK);
    start(&scene, &fast, &blocks);
    start(&scene, &scene.peer, &slow);
    WORKS(gpud_sender_wait(scene.sender, 2, 30 * GPUD_SEC, &e));
    for (unsigned i = 0; i < 300; i++) {
        if (i % 2)
            send(&scene, 1);
        else
            SEND_FOREIGN(scene.sender, scene.host, &scene.layout, ++scene.number);
        if (i % 8 == 0)
            send_event(&scene);
    }
    send_event(&scene);
    PEER_UNTIL("all frames", 20000, atomic_load(&fast.board->last) == 300);
    wait_for_last(&scene, 300);
    PEER_UNTIL("the events", 20000,
               atomic_load(&fast.board->notes) == 2 + 39 &&
                   atomic_load(&scene.peer.board->notes) == 2 + 39);
    const struct peer_board *boards[] = {fast.board, scene.peer.board};
    for (unsigned k = 0; k < 2; k++)
        for (unsigned i = 0; i < 39; i++) {
            const struct peer_note *note = find_note(boards[k], GPUD_EVENT_USER, i);
            CHECK(note->after <= note->value, "an event behind a later frame");
            CHECK(k == 1 || note->after == note->value, "an event before its frame");
        }
    struct gpud_link_info links[2] = {GPUD_INFO_INIT(links[0])};
    CHECK_EQUAL(gpud_sender_list_links(scene.sender, links, 2), 2);
    uint64_t dropped = links[0].dropped + links[1].dropped;
    CHECK(dropped || IN_GUEST, "it was not slow");
    CHECK_EQUAL(info_of(&scene).delivered + dropped, 600);
    CHECK_EQUAL(info_of(&scene).dropped, 0); /* as it asked for that policy */
    PEER_FINISH(&fast);
    CHECK_EQUAL(fast.board->gaps, 0);
    CHECK_EQUAL(fast.board->frames, 300);
    PEER_FINISH(&scene.peer);
    CHECK_EQUAL(scene.peer.board->gaps, dropped);
    peer_forget(&fast);
    peer_forget(&scene.peer);
    close_sender(&scene);
}

int main(int argc, char **argv)
{
    if (!IN_GUEST)
        setenv("GPUD_TEST_COPIES", "1", 1);
    copies_install_if_asked();
    peer_main(argc, argv);
    test_alarm(IN_GUEST ? 600 : 220);
    runtime_make();
    device = argc > 1 ? argv[1] : "host";
    static const struct {
        const char *says;
        void (*test)(void);
        bool on_host; /* where what is submitted is complete at once */
    } tests[] = {
        {"the last frame arrives although nothing follows it", the_last_arrives},
        {"events keep their place, also where a frame is replaced", events_keep_their_place},
        {"more events than can wait", many_events, true},
        {"the end of the stream waits for the last frame", the_end_comes_last},
        {"but not for ever", the_end_comes_all_the_same},
        {"a new format waits for the last frame of the old one", the_old_format_comes_first},
        {"but not for ever", the_new_format_comes_all_the_same},
        {"an interrupt drops the frame, and nothing else", interrupted, true},
        {"so does the end of the sender", destroyed},
        {"a slot that is needed is given up", slots_are_needed, true},
        {"a message that does not fit", ended_by_a_message, true},
        {"other policies while a frame waits", policies, true},
        {"an application that polls", beside_a_poll},
        {"a fast receiver beside a slow one", beside_a_fast_one},
    };
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        if (tests[i].on_host && strcmp(device, "host") != 0)
            continue;
        SAY("%s", tests[i].says);
        tests[i].test();
    }
    return runtime_done();
}
