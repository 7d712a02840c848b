/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Receivers that stall: stopped in mid-stream, or not acquiring while the format changes. The
 * others lose nothing, and the sender never waits longer than its policy and its caller allow. */
#include "actor.h"

static struct {
    struct baseline before;
    struct gpud_context *context;
    struct gpud_sender *sender;
    struct gpud_layout layout;
    uint64_t number;
} scene;

static void format(uint32_t width)
{
    scene.layout = LAYOUT("UYVY", width, 181, 0);
    WORKS(gpud_sender_configure(scene.sender, PICTURE(&scene.layout), &e));
}

static void open_scene(enum gpud_slow_receiver policy)
{
    memset(&scene, 0, sizeof(scene));
    scene.before = baseline_take();
    scene.context = NEW_CONTEXT();
    scene.sender = NEW_SENDER(scene.context, .address = "stopped", .slow_receiver = policy);
    format(320);
}

/* Destruction must not wait for a peer that does not answer. */
static void close_scene(void)
{
    int64_t start = gpud_test_now();
    gpud_sender_destroy(&scene.sender);
    int64_t took = gpud_test_now() - start;
    CHECK(took < GPUD_SEC, "destroying the sender took %lld ms", (long long)(took / GPUD_MSEC));
    gpud_context_destroy(&scene.context);
    BASELINE_CHECK(scene.before);
}

/* The frame sent last. */
static void await_last(const struct peer *peer, const char *what)
{
    PEER_UNTIL(what, 10000, atomic_load(&peer->board->last) == scene.number);
}

static bool all_get_a_frame(struct peer peers[4])
{
    SEND_LENT(scene.sender, &scene.layout, ++scene.number);
    for (int waited = 0; waited < 200; waited++) {
        int have = 0;
        for (int k = 0; k < 4; k++)
            have += atomic_load(&peers[k].board->last) == scene.number;
        if (have == 4)
            return true;
        gpud_test_nap(1);
    }
    return false;
}

static void one_of_four(enum gpud_slow_receiver policy)
{
    struct peer peers[4];
    struct peer_orders orders = {.address = "stopped"};
    open_scene(policy);
    for (int i = 0; i < 4; i++)
        peer_start(&peers[i], &orders);
    WORKS(gpud_sender_wait(scene.sender, 4, 10 * GPUD_SEC, &e));
    int64_t worst = 0;
    for (int i = 0; i < 300; i++) {
        int64_t start = gpud_test_now();
        if (i == 50)
            kill(peers[2].pid, SIGSTOP);
        if (i == 250)
            kill(peers[2].pid, SIGCONT);
        SEND_LENT(scene.sender, &scene.layout, ++scene.number);
        worst = gpud_test_now() - start > worst ? gpud_test_now() - start : worst;
        /* Slow enough for the running peers: only the stop causes losses. */
        for (int k = 0; k < 4; k++)
            if (k != 2)
                await_last(&peers[k], "the frame at a receiver that runs");
    }
    /* The one that goes on may not have room yet: until a last frame is with all of them. */
    PEER_UNTIL("a frame that all four get", 10000, all_get_a_frame(peers));
    struct gpud_sender_info info = INFO(sender, scene.sender);
    /* A NULL state change, in GStreamer's words: with one receiver stopped again. */
    kill(peers[2].pid, SIGSTOP);
    gpud_test_nap(10);
    close_scene();
    kill(peers[2].pid, SIGCONT);
    for (int k = 0; k < 4; k++) {
        PEER_UNTIL("the goodbye", 10000, atomic_load(&peers[k].board->lost) == 1);
        PEER_FINISH(&peers[k]);
        const struct peer_board *board = peers[k].board;
        CHECK(k == 2 || board->gaps == 0, "receiver %d lost %llu frames to another's stop", k,
              atomic_load(&board->gaps));
        CHECK(k != 2 || (board->gaps > 100 && board->gaps == info.dropped),
              "the stopped one missed %llu, %llu reported", atomic_load(&board->gaps),
              (unsigned long long)info.dropped);
        CHECK_EQUAL(board->reported, board->gaps);
        peer_forget(&peers[k]);
    }
    SAY("  the longest hand-over took %lld us", (long long)(worst / 1000));
}

/* --- blocking, and being let go --------------------------------------------------------------- */

static void *interrupt_soon(void *sender)
{
    gpud_test_nap(200);
    gpud_sender_interrupt(sender, true);
    return NULL;
}

static void *drop_soon(void *sender)
{
    gpud_test_nap(200);
    gpud_sender_set_slow_receiver(sender, GPUD_SLOW_DROP_NEWEST, NULL);
    return NULL;
}

static void blocking(void)
{
    struct peer peer;
    struct peer_orders orders = {.address = "stopped"};
    open_scene(GPUD_SLOW_BLOCK);
    peer_start(&peer, &orders);
    WORKS(gpud_sender_wait(scene.sender, 1, 10 * GPUD_SEC, &e));
    SEND_LENT(scene.sender, &scene.layout, ++scene.number);
    PEER_UNTIL("a frame", 10000, atomic_load(&peer.board->frames) == 1);
    kill(peer.pid, SIGSTOP);
    struct gpud_frame *frame;
    struct gpud_error error = {.reason = ""};
    enum gpud_status status = GPUD_OK;
    int64_t start = 0;
    unsigned taken = 0;
    for (; status == GPUD_OK; taken++) {
        frame = ACQUIRE_SLOT(scene.sender, GPUD_SEC);
        start = gpud_test_now();
        status = gpud_sender_submit(scene.sender, &frame, 300 * GPUD_MSEC, &error);
    }
    int64_t took = gpud_test_now() - start;
    CHECK(status == GPUD_TIMEOUT && frame, "a full ring gives %s", gpud_status_string(status));
    CHECK(took >= 290 * GPUD_MSEC && took < 3 * GPUD_SEC, "a wait of 300 ms took %lld ms",
          (long long)(took / GPUD_MSEC));
    CHECK(strstr(error.reason, "takes no frame"), "\"%s\"", error.reason);
    CHECK(taken == 5 || taken == 4, "%u frames went into a ring of 4", taken - 1);

    pthread_t thread = NEW_THREAD(interrupt_soon, scene.sender);
    start = gpud_test_now();
    status = gpud_sender_submit(scene.sender, &frame, 10 * GPUD_SEC, &error);
    took = gpud_test_now() - start;
    CHECK(status == GPUD_AGAIN && frame, "an interrupted submit gives %s",
          gpud_status_string(status));
    CHECK(took > 150 * GPUD_MSEC && took < 3 * GPUD_SEC, "interrupted after %lld ms",
          (long long)(took / GPUD_MSEC));
    pthread_join(thread, NULL);
    start = gpud_test_now();
    EXPECT(GPUD_AGAIN, "interrupted", gpud_sender_wait(scene.sender, 2, 10 * GPUD_SEC, &e));
    EXPECT(GPUD_AGAIN, "interrupted", gpud_sender_submit(scene.sender, &frame, 10 * GPUD_SEC, &e));
    CHECK(gpud_test_now() - start < 3 * GPUD_SEC, "an interrupted call waited");
    gpud_sender_interrupt(scene.sender, false);

    kill(peer.pid, SIGCONT);
    WORKS(gpud_sender_submit(scene.sender, &frame, 5 * GPUD_SEC, &e));
    PEER_UNTIL("what waited", 10000, atomic_load(&peer.board->frames) == taken + 1);
    CHECK_EQUAL(atomic_load(&peer.board->gaps), 0);

    /* Blocked again; a change of the policy releases the wait. */
    kill(peer.pid, SIGSTOP);
    for (status = GPUD_OK; status == GPUD_OK;) {
        frame = ACQUIRE_SLOT(scene.sender, GPUD_SEC);
        status = gpud_sender_submit(scene.sender, &frame, 0, &error);
    }
    CHECK_EQUAL(status, GPUD_TIMEOUT);
    thread = NEW_THREAD(drop_soon, scene.sender);
    WORKS(gpud_sender_submit(scene.sender, &frame, 60 * GPUD_SEC, &e));
    pthread_join(thread, NULL);
    EXPECT(GPUD_INVALID, "slow_receiver",
           gpud_sender_set_slow_receiver(scene.sender, (enum gpud_slow_receiver)9, &e));
    WORKS(gpud_sender_set_slow_receiver(scene.sender, GPUD_SLOW_DEFAULT, &e));
    frame = ACQUIRE_SLOT(scene.sender, GPUD_SEC);
    EXPECT(GPUD_TIMEOUT, "takes no frame", gpud_sender_submit(scene.sender, &frame, 0, &e));
    gpud_frame_release(&frame);
    kill(peer.pid, SIGCONT);

    /* Blocked again, and the one that blocks dies: the frame is done. */
    kill(peer.pid, SIGSTOP);
    for (int i = 0; i < 6; i++) {
        frame = ACQUIRE_SLOT(scene.sender, GPUD_SEC);
        if (i < 5 && gpud_sender_submit(scene.sender, &frame, 100 * GPUD_MSEC, &error) == GPUD_OK)
            continue;
        peer_kill(&peer);
        start = gpud_test_now();
        WORKS(gpud_sender_submit(scene.sender, &frame, 5 * GPUD_SEC, &e));
        CHECK(gpud_test_now() - start < 3 * GPUD_SEC, "a dead receiver blocks");
        break;
    }
    peer_forget(&peer);
    close_scene();
}

/* --- caps change while a receiver does not acquire -------------------------------------------- */

static void paused_change(enum gpud_slow_receiver policy)
{
    struct peer peers[2];
    struct peer_orders orders = {.address = "stopped"};
    open_scene(policy);
    for (int i = 0; i < 2; i++)
        peer_start(&peers[i], &orders);
    WORKS(gpud_sender_wait(scene.sender, 2, 10 * GPUD_SEC, &e));
    for (int i = 0; i < 5; i++) {
        SEND_LENT(scene.sender, &scene.layout, ++scene.number);
        for (int k = 0; k < 2; k++) /* at both: one that lags may lose it, by its policy */
            await_last(&peers[k], "a frame");
    }
    atomic_store(&peers[1].board->paused, true);
    gpud_test_nap(60);
    for (uint32_t change = 1; change <= 3; change++) {
        for (int i = 0; i < 7; i++) {
            SEND_LENT(scene.sender, &scene.layout, ++scene.number);
            await_last(&peers[0], "a frame at the one that runs");
        }
        format(320 + 2 * change);
        PEER_UNTIL("the format at the one that runs", 10000,
                   atomic_load(&peers[0].board->notes) == 2 + change);
        WORKS(gpud_sender_wait(scene.sender, 1, 10 * GPUD_SEC, &e)); /* it says READY, too */
    }
    for (int i = 0; i < 7; i++) {
        SEND_LENT(scene.sender, &scene.layout, ++scene.number);
        await_last(&peers[0], "a frame at the one that runs");
    }
    atomic_store(&peers[1].board->paused, false);
    WORKS(gpud_sender_wait(scene.sender, 2, 5 * GPUD_SEC, &e));
    /* Four of the seven frames of the last format have waited for it. */
    uint64_t waited = scene.number - (policy == GPUD_SLOW_DROP_NEWEST ? 3 : 0);
    PEER_UNTIL("what waited", 10000, atomic_load(&peers[1].board->last) == waited);
    SEND_LENT(scene.sender, &scene.layout, ++scene.number);
    uint64_t gaps = 0;
    for (int i = 0; i < 2; i++)
        await_last(&peers[i], "the last frame");
    struct gpud_sender_info info = INFO(sender, scene.sender);
    for (int i = 0; i < 2; i++) {
        PEER_FINISH(&peers[i]);
        CHECK_EQUAL(peers[i].board->lost, 0);
        CHECK_EQUAL(peers[i].board->frames + peers[i].board->gaps, scene.number);
        CHECK_EQUAL(peers[i].board->reported, peers[i].board->gaps);
        gaps += peers[i].board->gaps;
    }
    CHECK_EQUAL(peers[0].board->gaps, 0);
    CHECK(gaps == info.dropped && gaps > 10, "I2: %llu frames are missing, %llu were reported",
          (unsigned long long)gaps, (unsigned long long)info.dropped);
    CHECK_EQUAL(info.disconnects, 0);
    for (int i = 0; i < 2; i++)
        peer_forget(&peers[i]);
    close_scene();
}

int main(int argc, char **argv)
{
    peer_main(argc, argv);
    test_begin(110);
    SAY("one of four is stopped, the newest frames are dropped for it");
    one_of_four(GPUD_SLOW_DROP_NEWEST);
    SAY("one of four is stopped, the oldest frames are dropped for it");
    one_of_four(GPUD_SLOW_DROP_OLDEST);
    CASE("a receiver that blocks: time-out, interruption, death", blocking());
    SAY("the format changes three times while a receiver does not look");
    paused_change(GPUD_SLOW_DROP_NEWEST);
    paused_change(GPUD_SLOW_DROP_OLDEST);
    return runtime_done();
}
