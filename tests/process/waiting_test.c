/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Drop-oldest over a network, where no frame can be taken back: the newest one waits at the sender,
 * and arrives without another submit; later events keep their order; and the wait always ends. */
#include "actor.h"
#include "support/copies.h"

static const char *device; /* the sender's */

#define IN_GUEST getenv("GPUD_TEST_ADDRESS") /* slow, and with a network card */

#define SLOTS 4 /* the default: so many frames fit into the receiver's ring */

static struct scene {
    struct baseline before;
    struct gpud_context *context;
    struct gpud_device *host;
    struct gpud_sender *sender;
    struct gpud_layout layout;
    uint64_t number;
    struct peer peer;
} scene;

static void format(uint32_t width)
{
    scene.layout = CONFIGURE(scene.sender, "UYVY", width, 181);
}

static void open_sender(enum gpud_slow_receiver policy)
{
    memset(&scene, 0, sizeof(scene));
    scene.before = baseline_take();
    scene.context = NEW_CONTEXT();
    scene.host = OPEN_DEVICE(scene.context, "host");
    scene.sender = NEW_SENDER(scene.context, .address = peer_address("waiting"),
                              .psk_file = peer_key(), .device = device, .slow_receiver = policy);
    format(320);
}

static void start(struct peer *peer, const struct peer_orders *orders)
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
static void open_scene(enum gpud_slow_receiver policy, uint32_t hold)
{
    struct peer_orders orders = {.hold = hold};
    if (policy != GPUD_SLOW_DROP_OLDEST)
        orders.slow_receiver = GPUD_SLOW_DROP_OLDEST;
    open_sender(policy);
    start(&scene.peer, &orders);
    WORKS(gpud_sender_wait(scene.sender, 1, 30 * GPUD_SEC, &e));
    pause_peer(&scene.peer);
}

static void send_frames(unsigned frames)
{
    while (frames--)
        SEND_LENT(scene.sender, &scene.layout, ++scene.number);
}

static void send_event(void)
{
    WORKS(gpud_sender_send_event(scene.sender, 7, &scene.number, sizeof(scene.number), &e));
}

static uint64_t dropped(void)
{
    return INFO(sender, scene.sender).dropped;
}

/* Soon, but not before the device has copied the frame that replaces another. */
static void wait_for_drops(uint64_t wanted)
{
    PEER_UNTIL("a drop", 20000, dropped() >= wanted);
    CHECK_EQUAL(dropped(), wanted);
}

static void wait_for_last(uint64_t sequence)
{
    PEER_UNTIL("the last frame", 20000, atomic_load(&scene.peer.board->last) == sequence);
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

/* A peer that is still there leaves. */
static void close_scene(void)
{
    if (scene.peer.board) {
        PEER_LEAVE(&scene.peer);
    }
    gpud_sender_destroy(&scene.sender);
    gpud_device_close(&scene.host);
    gpud_context_destroy(&scene.context);
    BASELINE_CHECK(scene.before);
}

/* --- the last frame ----------------------------------------------------------------------------
 */

/* By a KICK: the thread's own polls, a second apart, would be late in half of the rounds. */
#define ROUNDS 30
#define LATE (GPUD_SEC / 2)
static void the_last_arrives(void)
{
    unsigned late = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t before = dropped();
        send_frames(SLOTS + 1 + round % 7);
        wait_for_drops(before + round % 7);
        int64_t resumed = gpud_test_now();
        resume_peer(&scene.peer);
        wait_for_last(scene.number);
        late += gpud_test_now() - resumed > LATE;
        pause_peer(&scene.peer); /* and has counted it */
        peer_wait_for_returns(scene.sender);
        CHECK_EQUAL(atomic_load(&scene.peer.board->frames), (round + 1) * (SLOTS + 1));
    }
    CHECK(IN_GUEST || late < ROUNDS / 4, "%u of %d rounds were late", late, ROUNDS);
}

/* --- its place among the messages ----------------------------------------------------------------
 */

static void events_keep_their_place(void)
{
    send_frames(SLOTS);
    send_event(); /* behind the last that fits */
    send_frames(1);
    send_event(); /* behind one that is replaced */
    send_frames(1);
    send_event();
    send_frames(3);
    send_event(); /* behind the one that waits */
    send_event();
    wait_for_drops(4);
    resume_peer(&scene.peer);
    wait_for_last(SLOTS + 5);
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
    send_frames(SLOTS + 1);
    for (int i = 0; i < 31; i++) {
        CHECK_EQUAL(dropped(), i > 28);
        send_event();
    }
    resume_peer(&scene.peer);
    PEER_UNTIL("the events", 20000, atomic_load(&scene.peer.board->notes) == 2 + 31);
    send_frames(1);
    wait_for_last(SLOTS + 2);
}

static void the_end_comes_last(void)
{
    send_frames(SLOTS + 3);
    WORKS(gpud_sender_send_eos(scene.sender, &e));
    wait_for_drops(2);
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
    send_frames(SLOTS + 3);
    WORKS(gpud_sender_send_eos(scene.sender, &e));
    resume_peer(&scene.peer);
    PEER_UNTIL("the end of the stream", 30000, atomic_load(&scene.peer.board->ends) == 1);
    CHECK_EQUAL(atomic_load(&scene.peer.board->last), SLOTS);
    CHECK_EQUAL(dropped(), 3);
}

static void the_old_format_comes_first(void)
{
    const struct peer_board *board = scene.peer.board;
    send_frames(SLOTS + 2);
    wait_for_drops(1); /* frames whose copies end behind the change are all kept */
    send_event();
    format(640);
    send_event();
    resume_peer(&scene.peer);
    WORKS(gpud_sender_wait(scene.sender, 1, 30 * GPUD_SEC, &e));
    send_frames(2);
    wait_for_last(SLOTS + 4);
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
    send_frames(SLOTS + 1);
    format(640);
    format(322);
    resume_peer(&scene.peer);
    WORKS(gpud_sender_wait(scene.sender, 1, 30 * GPUD_SEC, &e));
    send_frames(1);
    wait_for_last(SLOTS + 2);
    CHECK_EQUAL(dropped(), 1);
}

/* --- giving way ------------------------------------------------------------------------------- */

static void interrupted(void)
{
    send_frames(SLOTS + 1);
    send_event();
    gpud_sender_interrupt(scene.sender, true);
    gpud_sender_interrupt(scene.sender, false);
    CHECK_EQUAL(dropped(), 1);
    resume_peer(&scene.peer);
    PEER_UNTIL("the event", 20000, atomic_load(&scene.peer.board->notes) == 2 + 1);
    CHECK_EQUAL(find_note(scene.peer.board, GPUD_EVENT_USER, 0)->after, SLOTS);
    send_frames(1);
    wait_for_last(SLOTS + 2);
}

static void destroyed(void)
{
    send_frames(SLOTS + 1);
    send_event();
    WORKS(gpud_sender_send_eos(scene.sender, &e));
    int64_t start = gpud_test_now();
    gpud_sender_destroy(&scene.sender);
    CHECK(IN_GUEST || gpud_test_now() - start < 4 * GPUD_SEC, "the end waited for the receiver");
    resume_peer(&scene.peer);
    PEER_UNTIL("the end of the stream", 20000, atomic_load(&scene.peer.board->ends) == 1);
    CHECK_EQUAL(find_note(scene.peer.board, GPUD_EVENT_USER, 0)->after, SLOTS);
}

/* The ring has the sender's own slots, and as many for the receiver. */
static void take_all_slots(struct gpud_frame *frames[], unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        WORKS(gpud_sender_acquire(scene.sender, 20 * GPUD_SEC, &frames[i], &e));
}

static void slots_are_needed(void)
{
    struct gpud_frame *frames[2 * SLOTS];
    send_frames(SLOTS + 1);
    take_all_slots(frames, SLOTS - 1);
    CHECK_EQUAL(dropped(), 0);
    frames[SLOTS - 1] = ACQUIRE_SLOT(scene.sender, 0);
    CHECK_EQUAL(dropped(), 1);
    for (unsigned i = 0; i < SLOTS; i++)
        gpud_frame_release(&frames[i]);
    send_frames(1);
    resume_peer(&scene.peer);
    wait_for_last(SLOTS + 2);

    pause_peer(&scene.peer);
    send_frames(SLOTS + 2);
    send_event();
    peer_kill(&scene.peer);
    take_all_slots(frames, 2 * SLOTS);
    for (unsigned i = 0; i < 2 * SLOTS; i++)
        gpud_frame_release(&frames[i]);
    peer_forget(&scene.peer);
}

/* It reads no message either: the one that does not fit ends the link, where a frame is about to
 * wait for it, and that frame keeps no slot. */
static void ended_by_a_message(void)
{
    static const char large[GPUD_EVENT_SIZE_MAX];
    struct gpud_frame *frames[2 * SLOTS];
    send_frames(SLOTS + 1);
    for (int i = 0; i < 10000 && INFO(sender, scene.sender).receivers > 0; i++) {
        WORKS(gpud_sender_send_event(scene.sender, 7, large, sizeof(large), &e));
        send_frames(1);
    }
    CHECK_EQUAL(INFO(sender, scene.sender).receivers, 0);
    gpud_test_nap(300); /* until the link itself is gone: it could give the slot up before */
    take_all_slots(frames, 2 * SLOTS);
    for (unsigned i = 0; i < 2 * SLOTS; i++)
        gpud_frame_release(&frames[i]);
    peer_kill(&scene.peer);
    peer_forget(&scene.peer);
}

/* The policy changes while a frame waits. */
static void policies(void)
{
    struct gpud_error error = {.reason = ""};
    send_frames(SLOTS + 1);
    WORKS(gpud_sender_set_slow_receiver(scene.sender, GPUD_SLOW_DROP_NEWEST, &e));
    send_frames(1); /* the newest, now */
    CHECK_EQUAL(dropped(), 1);
    WORKS(gpud_sender_set_slow_receiver(scene.sender, GPUD_SLOW_BLOCK, &e));
    struct gpud_frame *frame = ACQUIRE_SLOT(scene.sender, GPUD_SEC);
    enum gpud_status status = gpud_sender_submit(scene.sender, &frame, 100 * GPUD_MSEC, &error);
    CHECK(status == GPUD_TIMEOUT && frame, "it gives %s", gpud_status_string(status));
    gpud_frame_release(&frame);
    resume_peer(&scene.peer);
    wait_for_last(SLOTS + 1);
    pause_peer(&scene.peer);
    send_frames(SLOTS);
    WORKS(gpud_sender_set_slow_receiver(scene.sender, GPUD_SLOW_DROP_OLDEST, &e));
    send_frames(2);
    WORKS(gpud_sender_set_slow_receiver(scene.sender, GPUD_SLOW_BLOCK, &e));
    resume_peer(&scene.peer);
    send_frames(20);
    wait_for_last(scene.number);
    CHECK_EQUAL(dropped(), 2);
}

/* An application that polls the sender for a receiver that blocks, beside a frame that waits. */
static void beside_a_poll(void)
{
    struct peer blocking;
    struct peer_orders orders = {0};
    int fd;
    start(&blocking, &orders);
    WORKS(gpud_sender_wait(scene.sender, 2, 30 * GPUD_SEC, &e));
    WORKS(gpud_sender_get_fd(scene.sender, &fd, &e));
    pause_peer(&blocking);
    send_frames(SLOTS);
    struct gpud_frame *frame = ACQUIRE_SLOT(scene.sender, GPUD_SEC);
    for (int i = 0; i < 3; i++)
        EXPECT(GPUD_TIMEOUT, "takes no frame", gpud_sender_submit(scene.sender, &frame, 0, &e));
    gpud_frame_release(&frame);
    resume_peer(&blocking);
    PEER_UNTIL("all frames", 20000, atomic_load(&blocking.board->last) == SLOTS);
    send_frames(2);
    PEER_UNTIL("all frames", 20000, atomic_load(&blocking.board->last) == SLOTS + 2);
    WORKS(gpud_sender_acquire(scene.sender, 0, &frame, &e)); /* which asks for nothing any more */
    gpud_frame_release(&frame);
    resume_peer(&scene.peer);
    wait_for_last(SLOTS + 2);
    CHECK_EQUAL(atomic_load(&scene.peer.board->gaps), 1);
    PEER_FINISH(&blocking);
    CHECK_EQUAL(blocking.board->gaps, 0);
    peer_forget(&blocking);
}

/* --- beside others ---------------------------------------------------------------------------- */

static void beside_a_fast_one(void)
{
    struct peer fast;
    struct peer_orders blocks = {0}, slow = {.slow_receiver = GPUD_SLOW_DROP_OLDEST};
    slow.nap = 20 * GPUD_MSEC;
    open_sender(GPUD_SLOW_BLOCK);
    start(&fast, &blocks);
    start(&scene.peer, &slow);
    WORKS(gpud_sender_wait(scene.sender, 2, 30 * GPUD_SEC, &e));
    for (unsigned i = 0; i < 300; i++) {
        if (i % 2)
            send_frames(1);
        else
            SEND_FOREIGN(scene.sender, scene.host, &scene.layout, ++scene.number);
        if (i % 8 == 0)
            send_event();
    }
    send_event();
    PEER_UNTIL("all frames", 20000, atomic_load(&fast.board->last) == 300);
    wait_for_last(300);
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
    uint64_t lost = links[0].dropped + links[1].dropped;
    CHECK(lost || IN_GUEST, "it was not slow");
    CHECK_EQUAL(INFO(sender, scene.sender).delivered + lost, 600);
    CHECK_EQUAL(dropped(), 0); /* as it asked for that policy */
    PEER_FINISH(&fast);
    CHECK_EQUAL(fast.board->gaps, 0);
    CHECK_EQUAL(fast.board->frames, 300);
    PEER_FINISH(&scene.peer);
    CHECK_EQUAL(scene.peer.board->gaps, lost);
    peer_forget(&fast);
    peer_forget(&scene.peer);
    close_scene();
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
        bool holds;   /* the receiver, as many frames as fit */
        bool blocks;  /* the sender, for other receivers */
    } tests[] = {
        {"the last frame arrives although nothing follows it", the_last_arrives},
        {"events keep their place, also where a frame is replaced", events_keep_their_place},
        {"more events than can wait", many_events, .on_host = true},
        {"the end of the stream waits for the last frame", the_end_comes_last},
        {"but not for ever", the_end_comes_all_the_same, .holds = true},
        {"a new format waits for the last frame of the old one", the_old_format_comes_first},
        {"but not for ever", the_new_format_comes_all_the_same, .holds = true},
        {"an interrupt drops the frame, and nothing else", interrupted, .on_host = true},
        {"so does the end of the sender", destroyed},
        {"a slot that is needed is given up", slots_are_needed, .on_host = true},
        {"a message that does not fit", ended_by_a_message, .on_host = true},
        {"other policies while a frame waits", policies, .on_host = true},
        {"an application that polls", beside_a_poll, .blocks = true},
    };
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        if (tests[i].on_host && strcmp(device, "host") != 0)
            continue;
        SAY("%s", tests[i].says);
        open_scene(tests[i].blocks ? GPUD_SLOW_BLOCK : GPUD_SLOW_DROP_OLDEST,
                   tests[i].holds ? SLOTS : 0);
        tests[i].test();
        close_scene();
    }
    CASE("a fast receiver beside a slow one", beside_a_fast_one());
    return runtime_done();
}
