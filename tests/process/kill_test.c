/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* kill −9 in mid-stream, over and over: the survivor streams again with the next peer within 2 s, a
 * crash is never taken for the end of the stream, and nothing leaks. */
#include "actor.h"
#include "support/tally.h"

#include <poll.h>

#define WIDTH 320
#define HEIGHT 181
#define AGAIN (2 * GPUD_SEC)

/* --- the receiver dies ------------------------------------------------------------------------ */

static void kill_receivers(int rounds, enum gpud_slow_receiver policy)
{
    struct baseline before = baseline_take();
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_sender *sender = NEW_SENDER(context, .address = "kill", .slow_receiver = policy);
    struct gpud_layout layout = CONFIGURE(sender, "UYVY", WIDTH, HEIGHT);
    struct peer_orders orders = {.address = "kill", .hold = 1};
    uint64_t number = 0;
    int64_t killed = 0, worst = 0;
    for (int round = 0; round < rounds; round++) {
        struct peer peer;
        peer_start(&peer, &orders);
        /* In the middle of it: while frames are submitted, after a number of them that is never the
         * same. */
        unsigned wanted = 1 + tally_random_below(20);
        int64_t until = gpud_test_now() + AGAIN;
        while (atomic_load(&peer.board->frames) == 0) {
            SEND_LENT(sender, &layout, ++number);
            gpud_test_nap(1);
            CHECK(gpud_test_now() < until, "round %d: the next receiver gets nothing within 2 s",
                  round);
        }
        if (killed && gpud_test_now() - killed > worst)
            worst = gpud_test_now() - killed;
        while (atomic_load(&peer.board->frames) < wanted)
            SEND_LENT(sender, &layout, ++number);
        kill(peer.pid, SIGKILL);
        killed = gpud_test_now();
        for (int i = 0; i < 8; i++) /* at once, before the death is noticed */
            SEND_LENT(sender, &layout, ++number);
        CHECK(gpud_test_now() - killed < AGAIN, "round %d: the sender stood still", round);
        peer_kill(&peer);
        PEER_CHECK(&peer);
        peer_forget(&peer);
    }
    PEER_UNTIL("the last death is noticed", 10000,
               INFO(sender, sender).disconnects == (uint64_t)rounds);
    struct gpud_sender_info info = INFO(sender, sender);
    CHECK_EQUAL(info.connects, rounds);
    CHECK_EQUAL(info.receivers, 0);
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
    BASELINE_CHECK(before);
    SAY("  %d receivers killed, the next one had a frame at most %lld ms after the death", rounds,
        (long long)(worst / GPUD_MSEC));
}

/* --- the sender dies -------------------------------------------------------------------------- */

static void check(struct gpud_frame *frame)
{
    struct gpud_frame_info info = INFO(frame, frame);
    FRAME_CHECK(frame, &info.layout, info.offset);
}

static void kill_senders(int rounds)
{
    struct baseline before = baseline_take();
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_receiver *receiver = NEW_RECEIVER(context, .address = "kill");
    struct peer_orders orders = {
        .sends = true, .address = "kill", .width = WIDTH, .height = HEIGHT};
    struct gpud_frame *frame, *held = NULL;
    struct gpud_error error = {.reason = ""};
    int64_t killed = 0, worst = 0;
    for (int round = 0; round < rounds; round++) {
        struct peer peer;
        peer_start(&peer, &orders);
        unsigned wanted = 1 + tally_random_below(20), got = 0;
        int64_t until = gpud_test_now() + AGAIN;
        uint64_t last = 0;
        while (got < wanted) {
            enum gpud_status status =
                gpud_receiver_acquire(receiver, 100 * GPUD_MSEC, &frame, &error);
            CHECK(status == GPUD_OK || status == GPUD_TIMEOUT, "round %d: %s: %s", round,
                  gpud_status_string(status), error.reason);
            CHECK(gpud_test_now() < until, "round %d: no frame from the next sender within 2 s: %s",
                  round, error.reason);
            if (status != GPUD_OK)
                continue;
            if (got++ == 0 && killed && gpud_test_now() - killed > worst)
                worst = gpud_test_now() - killed;
            struct gpud_frame_info info = INFO(frame, frame);
            CHECK(info.sequence > last, "I1: frame %llu after %llu",
                  (unsigned long long)info.sequence, (unsigned long long)last);
            CHECK(got > 1 || round == 0 || (info.flags & GPUD_FRAME_DISCONTINUITY),
                  "a new sender, and no discontinuity");
            last = info.sequence;
            check(frame);
            gpud_frame_release(&held);
            held = frame;
            until = gpud_test_now() + AGAIN;
        }
        peer_kill(&peer);
        killed = gpud_test_now();
        /* What it left behind is still there, and good; then the crash is told as one. */
        enum gpud_status status;
        do {
            status = gpud_receiver_acquire(receiver, 100 * GPUD_MSEC, &frame, &error);
            if (status == GPUD_OK) {
                check(frame);
                gpud_frame_release(&frame);
            }
            CHECK(gpud_test_now() - killed < AGAIN, "round %d: the death is not noticed: %s", round,
                  error.reason);
        } while (status == GPUD_OK || status == GPUD_TIMEOUT);
        CHECK(status == GPUD_PEER, "a crash is told as \"%s\": %s", gpud_status_string(status),
              error.reason);
        check(held); /* a frame that is held outlives its writer */
        peer_forget(&peer);
    }
    gpud_frame_release(&held);
    struct gpud_receiver_info info = INFO(receiver, receiver);
    CHECK_EQUAL(info.connects, rounds);
    CHECK_EQUAL(info.disconnects, rounds);
    gpud_receiver_destroy(&receiver);
    gpud_context_destroy(&context);
    BASELINE_CHECK(before);
    SAY("  %d senders killed, the next one's frame came at most %lld ms after the death", rounds,
        (long long)(worst / GPUD_MSEC));
}

/* --- a child lives on ------------------------------------------------------------------------- */

/* Killed while a child of it, which runs no other program, still has all of its descriptors.
 * Returns that child. */
static pid_t kill_parent(struct peer *peer, enum peer_child how)
{
    atomic_store(&peer->board->child, how);
    PEER_UNTIL("a child", 30000, atomic_load(&peer->board->child_pid));
    pid_t child = atomic_load(&peer->board->child_pid);
    peer_kill(peer);
    CHECK(kill(child, 0) == 0, "the child is gone");
    return child;
}

static void bury(struct peer *peer, pid_t child)
{
    CHECK(kill(child, SIGKILL) == 0, "the child had ended before");
    peer_forget(peer);
}

#define NOTICED_MS 20000

static void kill_parent_that_receives(enum peer_child how)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    AUTO(gpud_sender_destroy) struct gpud_sender *sender = NEW_SENDER(context, .address = "kill");
    struct gpud_layout layout = LAYOUT("UYVY", WIDTH, HEIGHT, 0);
    struct peer_orders orders = {.address = "kill"};
    struct peer peer;
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    peer_start(&peer, &orders);
    WORKS(gpud_sender_wait(sender, 1, 30 * GPUD_SEC, &e));
    pid_t child = kill_parent(&peer, how);
    PEER_UNTIL("the death is noticed", NOTICED_MS, INFO(sender, sender).disconnects == 1);
    CHECK_EQUAL(INFO(sender, sender).receivers, 0);
    bury(&peer, child);
}

/* Acquires until the status differs from `usual` and a time-out; by_poll: when the descriptor for
 * loops is readable. */
static enum gpud_status acquire_until_not(enum gpud_status usual, struct gpud_receiver *receiver,
                                          bool by_poll, struct gpud_error *error)
{
    int64_t until = gpud_test_now() + NOTICED_MS * GPUD_MSEC;
    struct pollfd loop = {.events = POLLIN};
    if (by_poll)
        WORKS(gpud_receiver_get_fd(receiver, &loop.fd, &e));
    for (;;) {
        struct gpud_frame *frame = NULL;
        enum gpud_status status =
            gpud_receiver_acquire(receiver, by_poll ? 0 : 3 * GPUD_SEC, &frame, error);
        gpud_frame_release(&frame);
        if (status != usual && status != GPUD_TIMEOUT)
            return status;
        CHECK(gpud_test_now() < until, "nothing happens: %s", error->reason);
        if (by_poll && status == GPUD_TIMEOUT)
            CHECK(poll(&loop, 1, NOTICED_MS) == 1, "the descriptor tells nothing");
    }
}

static void kill_parent_that_sends(enum peer_child how, bool by_poll)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    struct gpud_receiver *receiver = NEW_RECEIVER(context, .address = "kill");
    struct gpud_sender *standby = NULL;
    struct gpud_layout layout = LAYOUT("UYVY", WIDTH, HEIGHT, 0);
    struct peer_orders orders = {.sends = true,
                                 .address = "kill",
                                 .width = WIDTH,
                                 .height = HEIGHT,
                                 .nap = GPUD_MSEC,
                                 .slow_receiver = GPUD_SLOW_DROP_OLDEST};
    struct gpud_error error = {.reason = ""};
    struct peer peer;
    peer_start(&peer, &orders);
    enum gpud_status status;
    do /* the child before may still die with the socket that it has kept */
        status = acquire_until_not(GPUD_TIMEOUT, receiver, by_poll, &error);
    while (status == GPUD_PEER);
    CHECK(status == GPUD_OK, "%s: %s", gpud_status_string(status), error.reason);
    if (how == PEER_FORK) {
        standby = NEW_SENDER(context, .address = "kill", .standby = true);
        WORKS(gpud_sender_configure(standby, PICTURE(&layout), &e));
    }
    pid_t child = kill_parent(&peer, how);
    CHECK(acquire_until_not(GPUD_OK, receiver, by_poll, &error) == GPUD_PEER, "%s", error.reason);
    if (standby) /* it has the address, and the receiver */
        WORKS(gpud_sender_wait(standby, 0, 30 * GPUD_SEC, &e));
    int64_t until = gpud_test_now() + NOTICED_MS * GPUD_MSEC;
    for (status = GPUD_TIMEOUT; standby && status != GPUD_OK;) {
        struct gpud_frame *frame = NULL;
        SEND_LENT(standby, &layout, 1);
        status = gpud_receiver_acquire(receiver, 10 * GPUD_MSEC, &frame, &error);
        gpud_frame_release(&frame);
        CHECK(gpud_test_now() < until, "the standby does not take over: %s", error.reason);
    }
    bury(&peer, child);
    gpud_sender_destroy(&standby);
    gpud_receiver_destroy(&receiver);
}

static void kill_parents(void)
{
    struct baseline before = baseline_take();
    for (enum peer_child how = PEER_FORK; how <= PEER_CLONE; how++) {
        kill_parent_that_receives(how);
        kill_parent_that_sends(how, false);
        kill_parent_that_sends(how, true);
    }
    BASELINE_CHECK(before);
}

/* kill_test [rounds]; the long run: 1000. */
int main(int argc, char **argv)
{
    peer_main(argc, argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 50;
    test_begin(rounds <= 50 ? 110 : 3000);
    SAY("receivers that are killed, the sender blocks for slow ones");
    kill_receivers(rounds, GPUD_SLOW_BLOCK);
    SAY("receivers that are killed, the oldest frames are dropped");
    kill_receivers(rounds / 2, GPUD_SLOW_DROP_OLDEST);
    CASE("senders that are killed", kill_senders(rounds));
    CASE("senders and receivers whose children live on", kill_parents());
    /* The last sender could not clean up: the next one to listen does. */
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_sender *sender = NEW_SENDER(context, .address = "kill");
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
    return runtime_done();
}
