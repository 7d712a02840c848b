/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The survivors receive: senders die, this process and an honest receiver in another one see it. */
#include "cell.h"
#include "support/check.h"
#include "support/make.h"

#define EVERY 4 /* frames of one connection, where it is made anew again and again */

struct receiving {
    const struct cell *cell;
    struct gpud_context *context;
    struct gpud_receiver *receiver;
    struct gpu gpu;
    struct view view;
    unsigned since;      /* frames by this connection */
    unsigned seen;       /* the child whose frames came last */
    unsigned ends, sent; /* EOS that came, and that children before this one sent */
    uint64_t lost;
    struct peer honest;
    struct children children;
};

static void connect_anew(struct receiving *r)
{
    view_finish(&r->view); /* a sender that lives writes again what a link that ended had */
    gpud_receiver_destroy(&r->receiver);
    r->receiver = NEW_RECEIVER(r->context, .address = peer_address(KILL_NAME),
                               .psk_file = peer_key(), .device = r->cell->way->to);
    view_end_link(&r->view);
    r->view.dropped = r->since = 0;
}

static void take(struct receiving *r, struct gpud_frame *frame)
{
    struct gpud_frame_info info = INFO(frame, frame);
    unsigned child = (unsigned)(info.offset / CHILD_NUMBERS);
    CHECK(child == r->seen || !r->view.linked,
          "the death of child %u was not reported before frames of child %u came", r->seen, child);
    CHECK(child >= r->seen, "a frame of child %u after those of child %u", child, r->seen);
    r->seen = child;
    r->since++;
    view_take(&r->view, frame);
    CHECK(!r->view.wrong[0], "child %u: %s", child, r->view.wrong);
}

/* What comes within some ms: a frame, or the end of a link, told as what it is. */
static void receive(struct receiving *r)
{
    struct gpud_frame *frame;
    struct gpud_error error = {.reason = ""};
    enum gpud_status status = gpud_receiver_acquire(r->receiver, 5 * GPUD_MSEC, &frame, &error);
    if (status == GPUD_OK) {
        take(r, frame);
    } else if (status == GPUD_PEER) {
        view_end_link(&r->view);
        r->lost++;
    } else if (status == GPUD_CLOSED) {
        CHECK(++r->ends <= r->sent + atomic_load(&r->children.child.board->ends),
              "a crash is told as the end of the stream");
    } else {
        CHECK(status == GPUD_TIMEOUT, "acquire says \"%s\": %s", gpud_status_string(status),
              error.reason);
    }
}

/* --- what goes on until the point ------------------------------------------------------------- */

static void provoke(struct receiving *r)
{
    switch (r->cell->point->provoke) {
    case BY_CONNECTING:
        if (r->since >= EVERY)
            connect_anew(r);
        break;
    case BY_SLOWNESS:
        gpud_test_nap(5);
        break;
    case BY_A_HELD_GPU:
        if (!r->view.all_by_stream)
            gpu_hold(&r->gpu);
        r->view.all_by_stream = true;
        break;
    default:
        break;
    }
}

static void calm_down(struct receiving *r)
{
    if (r->view.all_by_stream)
        gpu_let_go(&r->gpu);
    r->view.all_by_stream = false;
}

/* --- deaths ----------------------------------------------------------------------------------- */

static unsigned honest_sees(const struct receiving *r)
{
    return (unsigned)(atomic_load(&r->honest.board->last_value) / CHILD_NUMBERS);
}

/* Until both receivers have frames of the child that streams. */
static void receive_from_child(struct receiving *r, int64_t within)
{
    int64_t until = gpud_test_now() + within;
    while (r->seen != r->children.number || honest_sees(r) != r->children.number) {
        receive(r);
        CHECK(gpud_test_now() < until,
              "no frame of child %u within %d s: ours are of child %u (%llu frames, %llu ends of "
              "links), the honest receiver's of child %u (%s)",
              r->children.number, (int)(within / GPUD_SEC), r->seen,
              (unsigned long long)r->view.frames, (unsigned long long)r->lost, honest_sees(r),
              r->honest.board->reason);
    }
}

static int64_t one_death(struct receiving *r, int round)
{
    for (int more = round % 4; more; more--)
        receive(r);
    struct peer more;
    bool grows = r->cell->point->provoke == BY_GROWTH;
    children_arm(&r->children);
    if (grows) /* one receiver more: the ring grows, and the others hear of it */
        honest_start(&more, r->cell);
    int64_t until = gpud_test_now() + REACHED_MAX;
    while (children_armed(&r->children)) {
        provoke(r);
        receive(r);
        if (grows && atomic_load(&more.board->frames) > EVERY) {
            honest_finish(&more); /* it found the room of one that has just left */
            honest_start(&more, r->cell);
        }
        CHECK(gpud_test_now() < until || !children_armed(&r->children),
              "the point was not reached, %u of %u times",
              atomic_load(&r->children.child.board->passings),
              r->children.child.board->orders.passing);
    }
    calm_down(r);
    int64_t killed = atomic_load(&r->children.killed);
    r->sent += atomic_load(&r->children.child.board->ends);
    children_advance(&r->children);
    receive_from_child(r, AGAIN_MAX);
    int64_t took = gpud_test_now() - killed;
    if (grows)
        honest_finish(&more);
    return took;
}

static void check_honest(struct receiving *r, int kills)
{
    struct peer_board *board = r->honest.board;
    PEER_UNTIL("the honest receiver notices every end of a link", 20000,
               atomic_load(&board->lost) > (unsigned)kills);
    PEER_FINISH(&r->honest);
    CHECK(atomic_load(&board->ends) <= r->sent + atomic_load(&r->children.child.board->ends),
          "a crash is told to the honest receiver as the end of the stream");
    peer_forget(&r->honest);
}

int64_t survive_receiving(const struct cell *cell, int kills, enum gpud_slow_receiver policy)
{
    struct receiving r = {.cell = cell};
    int64_t worst = 0;
    bool on_gpu = gpu_is_behind(cell->way->to);
    r.context = NEW_CONTEXT();
    connect_anew(&r);
    if (on_gpu) {
        struct gpud_device *device = OPEN_DEVICE(r.context, cell->way->to);
        gpu_open(&r.gpu, cell->way->to, VIEW_FRAME_MIN);
        gpud_device_close(&device);
        r.view.gpu = &r.gpu;
    }
    honest_start(&r.honest, cell);
    /* Some points exist under one policy alone. */
    if (cell->point->provoke == BY_SLOWNESS)
        policy = GPUD_SLOW_DROP_OLDEST;
    if (cell->point->provoke == BY_A_HELD_GPU)
        policy = GPUD_SLOW_BLOCK;
    children_open(&r.children, cell, policy);
    receive_from_child(&r, START_MAX);
    for (int round = 0; round < kills; round++) {
        int64_t took = one_death(&r, round);
        worst = took > worst ? took : worst;
    }
    children_dismiss(&r.children);
    int64_t until = gpud_test_now() + AGAIN_MAX;
    while (!children_gone(&r.children) || r.view.linked) {
        receive(&r);
        CHECK(gpud_test_now() < until, "the last sender does not leave");
    }
    check_honest(&r, kills);
    view_finish(&r.view);
    gpud_receiver_destroy(&r.receiver);
    if (on_gpu)
        gpu_close(&r.gpu);
    CHECK(!r.view.wrong[0], "%s", r.view.wrong);
    children_close(&r.children);
    gpud_context_destroy(&r.context);
    return worst;
}
