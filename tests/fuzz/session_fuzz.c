/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A real sender and a real receiver, with their own sockets and threads, and a man in the middle
 * driven by the input, which alters their messages and their shared memory, while an
 * application sends frames. Beside the bent link there is an honest receiver.
 *
 * Not only that nothing crashes: each end notices the end of its peer, calls come back in time,
 * no side spins, nothing grows, and the honest receiver gets every frame, once, in order, with
 * its picture. An input:
 *
 *     byte 0   the bent receiver: its policy and its route; slots of both
 *     byte 1   how it ends
 *     then     turns: a byte for what is done, and what that needs */
#include "stateful.h"
#include "session/ends.h"
#include "session/middle.h"
#include "watch.h"

static char directory[] = "/tmp/gpud-fuzz-XXXXXX";
static char sender_path[64], middle_path[64], sender_address[72], middle_address[72];

static void remove_directory(void)
{
    char lock[80];
    gpud_print(lock, "%s.lock", sender_path);
    unlink(lock);
    unlink(sender_path);
    unlink(middle_path);
    rmdir(directory);
}

static void prepare(void)
{
    ends_prepare();
    if (!mkdtemp(directory))
        abort();
    gpud_print(sender_path, "%s/sender", directory);
    gpud_print(middle_path, "%s/middle", directory);
    gpud_print(sender_address, "unix:%s", sender_path);
    gpud_print(middle_address, "unix:%s", middle_path);
    atexit(remove_directory);
}

/* --- turns ------------------------------------------------------------------------------------ */

struct session {
    struct ends ends;
    struct middle middle;
    uint32_t waits; /* that may still be spent on messages that do not come */
    uint8_t shape;
};

#define WAIT 2 /* ms */
#define LONG_WAIT 6
#define WAITS 6

/* One message; with an input, bent as that says. */
static bool turn_middle(struct session *session, struct fuzz_input *input)
{
    int wait = input ? LONG_WAIT : WAIT;
    bool came = middle_turn(&session->middle, input, session->waits ? wait : 0);
    if (!came && session->waits)
        session->waits--;
    return came;
}

/* Runs until both ends have sent all their messages. */
static void settle(struct session *session)
{
    for (int i = 0; i < 40 && turn_middle(session, NULL); i++)
        ;
}

/* Lets the bent receiver take all available frames. */
static void let_run(struct session *session)
{
    const struct gpud_page *page = session->middle.page;
    for (int i = 0; i < 10 * WAIT; i++) {
        if (i > WAIT && page &&
            atomic_load(&page->sender.head) == atomic_load(&page->receiver.claimed))
            return;
        usleep(100);
    }
}

static void open_bent(struct session *session)
{
    static const char *const routes[] = {NULL, "map", "staged", "peer"};
    ends_open_bent(&session->ends, middle_address, 1 + session->shape / 8 % 4,
                   session->shape & 1 ? GPUD_SLOW_DROP_NEWEST : GPUD_SLOW_DROP_OLDEST,
                   routes[session->shape / 2 % 4]);
}

static void act_as_application(struct session *session, struct fuzz_input *input)
{
    struct ends *ends = &session->ends;
    uint32_t what = fuzz_number(input, 1);
    switch (what % 8) {
    case 0:
        ends_event(ends, false);
        break;
    case 1:
        ends_event(ends, true);
        break;
    case 2:
        ends_end_stream(ends);
        break;
    case 3:
        ends_configure(ends, what / 8);
        break;
    case 4:
        ends_announce(ends);
        break;
    case 5:
        atomic_store(&ends->bent.hold, what / 8 % ENDS_HOLD_MAX);
        break;
    case 6:
        gpud_receiver_interrupt(ends->bent.receiver, what & 8);
        break;
    case 7:
        ends_close_bent(ends);
        open_bent(session);
        break;
    }
}

static void submit(struct session *session, uint32_t count)
{
    for (; count && !session->ends.held_up; count--)
        ends_submit(&session->ends);
}

static void take_turn(struct session *session, struct fuzz_input *input)
{
    struct middle *middle = &session->middle;
    uint32_t turn = fuzz_number(input, 1);
    switch (turn % 16) {
    case 0:
    case 1:
    case 2:
        turn_middle(session, input);
        break;
    case 3: /* some as they are */
        for (uint32_t left = 1 + turn / 16; left && turn_middle(session, NULL); left--)
            ;
        break;
    case 4:
        settle(session);
        break;
    case 5:
    case 6:
        middle_inject(middle, input);
        break;
    case 7:
    case 8:
        submit(session, 1 + turn / 16 % 4);
        break;
    case 9:
        act_as_application(session, input);
        break;
    case 10:
        if (middle->page)
            lie_word(middle->page, input);
        break;
    case 11:
        if (middle->page)
            lie_descriptor(middle->page, input);
        break;
    case 12:
        if (middle->page)
            lie_frame(middle->page, input);
        break;
    case 13:
        lie_anywhere(middle, input);
        break;
    case 14:
        if (session->waits) {
            session->waits--;
            let_run(session);
        }
        break;
    case 15:
        if (turn & 0x40)
            middle_hang_up(middle, turn & 0x80 ? MIDDLE_SENDER : MIDDLE_RECEIVER);
        break;
    }
}

/* --- the end ---------------------------------------------------------------------------------- */

/* The bent link ends as the input says; either real end notices it. */
static void end_link(struct session *session, uint32_t how)
{
    struct middle *middle = &session->middle;
    struct ends *ends = &session->ends;
    gpud_receiver_interrupt(ends->bent.receiver, false);
    if (how & 16)
        settle(session);
    middle_stop_listening(middle);
    if (how & 8)
        ends_expect_deadlines(ends); /* nothing is forwarded any more */
    ends_expect_quiet(ends);
    switch (how % 4) {
    case 0:
        middle_hang_up(middle, MIDDLE_SENDER);
        ends_expect_link_gone(ends);
        middle_hang_up(middle, MIDDLE_RECEIVER);
        break;
    case 1:
        middle_hang_up(middle, MIDDLE_RECEIVER);
        ends_expect_bent_offline(ends);
        middle_hang_up(middle, MIDDLE_SENDER);
        break;
    case 2:
        ends_close_bent(ends);
        for (int i = 0; i < 8 && middle_turn(middle, NULL, 0); i++)
            ;
        /* fall through */
    case 3:
        middle_hang_up(middle, MIDDLE_RECEIVER);
        middle_hang_up(middle, MIDDLE_SENDER);
        break;
    }
    ends_expect_link_gone(ends);
    ends_expect_bent_offline(ends);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct session session;
    struct fuzz_input input = {data, size};
    if (!sender_path[0])
        prepare();
    struct watch_baseline before = watch_baseline_take();
    session.shape = (uint8_t)fuzz_number(&input, 1);
    uint32_t how = fuzz_number(&input, 1);
    session.waits = WAITS;
    unlink(middle_path);
    ends_open(&session.ends, sender_address, 1 + session.shape / 32 % 4);
    middle_open(&session.middle, middle_path, sender_path);
    open_bent(&session);
    for (unsigned turns = 0; input.size && turns < 100; turns++)
        take_turn(&session, &input);

    end_link(&session, how);
    session.ends.held_up = false;
    submit(&session, 2);
    ends_expect_honest(&session.ends);
    ends_close(&session.ends);
    middle_close(&session.middle);
    watch_baseline_check(&before);
    return 0;
}
