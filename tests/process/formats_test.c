/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A live sender that changes its format, step by step: the next ring is made and tested beside the
 * old one's last frames, in calls and by the descriptor; what cannot wait has a count of its own; a
 * frame of the format before is still the sender's. And what a sender does while an address is not
 * to be had. Every route is in conformance/route_test.c. */
#include "actor.h"

#include <poll.h>
#include <sys/resource.h>
#include <time.h>

#define SLOTS 16
#define PATIENCE (20 * GPUD_SEC)

static struct gpud_context *contexts[2];
static struct gpud_sender *sender;
static struct gpud_receiver *receiver;
static struct gpud_layout layout;
static uint64_t number, taken;
static unsigned formats;

static void on_event(void *user, enum gpud_event event, const void *data)
{
    (void)user;
    (void)data;
    formats += event == GPUD_EVENT_FORMAT;
}

static void change_format(void)
{
    static uint32_t turn;
    layout = CONFIGURE(sender, "UYVY", 64 + 2 * (turn++ % 5), 32);
}

static void send_frames(unsigned frames)
{
    while (frames--)
        SEND_LENT(sender, &layout, ++number);
}

static void check_taken(struct gpud_frame *frame)
{
    struct gpud_frame_info info = INFO(frame, frame);
    CHECK_EQUAL(info.sequence, ++taken);
    CHECK_EQUAL(info.flags & GPUD_FRAME_DISCONTINUITY, taken == 1 ? GPUD_FRAME_DISCONTINUITY : 0);
    FRAME_CHECK(frame, &info.layout, info.offset);
    gpud_frame_release(&frame);
}

static void take(unsigned frames)
{
    while (frames--)
        check_taken(ACQUIRE_FRAME(receiver, PATIENCE));
}

static void open_ends(enum gpud_slow_receiver policy, uint32_t slots)
{
    struct gpud_frame *frame;
    number = taken = formats = 0;
    for (int i = 0; i < 2; i++)
        contexts[i] = NEW_CONTEXT();
    sender = NEW_SENDER(contexts[0], .address = "formats", .slots = slots, .slow_receiver = policy);
    change_format();
    receiver =
        NEW_RECEIVER(contexts[1], .address = "formats", .slots = slots, .on_event = on_event);
    PEER_UNTIL("a connection", 30000,
               (gpud_receiver_acquire(receiver, GPUD_MSEC, &frame, NULL),
                gpud_sender_wait(sender, 1, 0, NULL) == GPUD_OK));
    send_frames(1);
    take(1);
}

static void close_ends(void)
{
    gpud_receiver_destroy(&receiver);
    gpud_sender_destroy(&sender);
    for (int i = 0; i < 2; i++)
        gpud_context_destroy(&contexts[i]);
}

/* A receiver that takes one old frame at a time answers the new OFFER meanwhile. */
static void beside_the_old_frames(void)
{
    open_ends(GPUD_SLOW_DROP_OLDEST, SLOTS);
    send_frames(SLOTS);
    change_format();
    send_frames(2);
    unsigned old = 0;
    do {
        CHECK(++old < SLOTS, "the new ring is ready only behind the last old frame");
        take(1);
    } while (gpud_sender_wait(sender, 1, GPUD_SEC, NULL) != GPUD_OK);
    SAY("  ready after %u of %u old frames", old, SLOTS);
    CHECK_EQUAL(formats, 1); /* it is not told before its frames */
    take(SLOTS - old);
    CHECK_EQUAL(formats, 1);
    take(2);
    CHECK_EQUAL(formats, 2);
    struct gpud_sender_info info = INFO(sender, sender);
    CHECK_EQUAL(info.dropped, 0);
    close_ends();
}

/* An application's loop, in which no call waits. */
static void by_descriptor(void)
{
    struct pollfd loop = {.events = POLLIN};
    open_ends(GPUD_SLOW_DROP_NEWEST, SLOTS);
    WORKS(gpud_receiver_get_fd(receiver, &loop.fd, &e));
    for (unsigned round = 0; round < 40; round++) {
        send_frames(round % 4);
        change_format();
        send_frames(2);
        for (int64_t until = gpud_test_now() + PATIENCE; taken < number;) {
            struct gpud_frame *frame;
            CHECK(gpud_test_now() < until, "round %u: frame %llu does not come", round,
                  (unsigned long long)taken + 1);
            if (gpud_receiver_acquire(receiver, 0, &frame, NULL) == GPUD_OK)
                check_taken(frame);
            else
                CHECK(poll(&loop, 1, (int)(PATIENCE / GPUD_MSEC)) == 1, "round %u: no event",
                      round);
        }
    }
    CHECK_EQUAL(formats, 41);
    close_ends();
}

/* More frames than can wait are lost, as many as the policy says, and not by slowness. */
static void more_than_can_wait(enum gpud_slow_receiver policy)
{
    struct gpud_link_info link = {.size = sizeof(link)};
    open_ends(policy, 4);
    change_format();
    send_frames(4 + 3);
    CHECK_EQUAL(gpud_sender_list_links(sender, &link, 1), 1);
    CHECK_EQUAL(link.dropped, 3);
    CHECK_EQUAL(link.dropped_format, 3);
    taken += policy == GPUD_SLOW_DROP_OLDEST ? 3 : 0;
    for (unsigned i = 0; i < 4; i++) {
        struct gpud_frame *frame = ACQUIRE_FRAME(receiver, PATIENCE);
        struct gpud_frame_info info = INFO(frame, frame);
        CHECK_EQUAL(info.sequence, ++taken);
        CHECK_EQUAL((info.flags & GPUD_FRAME_DISCONTINUITY) != 0,
                    i == 0 && policy == GPUD_SLOW_DROP_OLDEST);
        gpud_frame_release(&frame);
    }
    close_ends();
}

/* The end comes behind a format that the receiver never took. */
static void the_end_behind_it(void)
{
    struct gpud_frame *frame;
    open_ends(GPUD_SLOW_DROP_OLDEST, 4);
    send_frames(2);
    change_format();
    WORKS(gpud_sender_send_eos(sender, &e));
    gpud_sender_destroy(&sender);
    take(2);
    EXPECT(GPUD_CLOSED, "ended", gpud_receiver_acquire(receiver, PATIENCE, &frame, &e));
    close_ends();
}

/* A frame of the pool before, handed over line by line. */
static void lines_of_the_pool_before(void)
{
    open_ends(GPUD_SLOW_BLOCK, 4);
    struct gpud_frame *frame = ACQUIRE_SLOT(sender, PATIENCE);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e)); /* another pool from here on */
    struct gpud_frame *other;
    PEER_UNTIL("the new ring", 30000,
               (gpud_receiver_acquire(receiver, GPUD_MSEC, &other, NULL),
                gpud_sender_wait(sender, 1, 0, NULL) == GPUD_OK));
    frame_write(frame, &layout, ++number);
    WORKS(gpud_sender_submit_lines(sender, frame, layout.height / 2, PATIENCE, &e));
    WORKS(gpud_sender_submit_lines(sender, frame, layout.height, PATIENCE, &e));
    gpud_frame_release(&frame);
    take(1);
    close_ends();
}

/* A standby for which there is no descriptor when the address is free, and which then finds it
 * taken: it waits on, and does nothing meanwhile. */
static int64_t used(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * GPUD_SEC + time.tv_nsec;
}

static void a_standby_that_failed(void)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    struct gpud_sender *first = NULL, *standby = NULL, *next = NULL;
    struct rlimit limit, none;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    none = limit;
    none.rlim_cur = 3;
    for (int tries = 0; !next; tries++) {
        CHECK(tries < 20, "the standby is always faster");
        first = NEW_SENDER(context, .address = "standby");
        standby = NEW_SENDER(context, .address = "standby", .standby = true);
        setrlimit(RLIMIT_NOFILE, &none);
        gpud_sender_destroy(&first);
        gpud_test_nap(50);
        setrlimit(RLIMIT_NOFILE, &limit);
        struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
        params.address = "standby";
        if (gpud_sender_create(context, &params, &next, NULL) != GPUD_OK)
            gpud_sender_destroy(&standby);
    }
    gpud_test_nap(300); /* its next try, and what follows */
    int64_t before = used();
    gpud_test_nap(1000);
    CHECK(used() - before < 60 * GPUD_MSEC, "%lld ms of a processor in a second",
          (long long)((used() - before) / GPUD_MSEC));
    gpud_sender_destroy(&next);
    PEER_UNTIL("the standby has the address", 30000, !INFO(sender, standby).stands_by);
    gpud_sender_destroy(&standby);
}

int main(void)
{
    test_alarm(110);
    runtime_make();
    CASE("a new format is prepared beside the old frames", beside_the_old_frames());
    CASE("in a loop of the application's", by_descriptor());
    SAY("more frames than can wait");
    more_than_can_wait(GPUD_SLOW_DROP_OLDEST);
    more_than_can_wait(GPUD_SLOW_DROP_NEWEST);
    CASE("the end behind a format that was not taken", the_end_behind_it());
    CASE("line by line, a frame of the pool before", lines_of_the_pool_before());
    CASE("a standby that failed once rests", a_standby_that_failed());
    return runtime_done();
}
