/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The survivors receive: senders die, this process and an honest receiver in another one see it. */
#include "kill.h"

#define EVERY 4 /* frames of one connection, where it is made anew again and again */

struct receiving {
    const struct cell *cell;
    struct gpud_context *context;
    struct gpud_receiver *receiver;
    struct gpu gpu;
    struct view view;
    unsigned since; /* frames by this connection */
    unsigned seen;  /* the child whose frames came last */
    unsigned ends;  /* EOS that came */
    uint64_t lost;
    struct peer honest;
    struct peer more; /* another one, for a while */
    struct children children;
};

static void connect_anew(struct receiving *r)
{
    view_finish(&r->view); /* a sender that lives writes again what a link that ended had */
    gpud_receiver_destroy(&r->receiver);
    r->receiver = NEW_RECEIVER(r->context, .address = peer_address(KILL_NAME),
                               .psk_file = peer_key(), .device = r->cell->way->to);
    r->view.linked = false;
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
        r->view.linked = false;
        r->lost++;
    } else if (status == GPUD_CLOSED) {
        CHECK(++r->ends <= r->children.ends + atomic_load(&r->children.child.board->ends),
              "a crash is told as the end of the stream");
    } else {
        CHECK(status == GPUD_TIMEOUT, "acquire says \"%s\": %s", gpud_status_string(status),
              error.reason);
    }
}

/* --- what goes on until the point ------------------------------------------------------------- */

static void receive_to_the_death(void *survivor)
{
    struct receiving *r = survivor;
    switch (r->cell->point->provoke) {
    case BY_GROWTH:
        if (atomic_load(&r->more.board->frames) <= EVERY)
            break;
        PEER_LEAVE(&r->more); /* it found the room of one that has just left */
        honest_start(&r->more, r->cell);
        break;
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
    receive(r);
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
    children_arm(&r->children);
    if (r->cell->point->provoke == BY_GROWTH) /* the ring grows, and the others hear of it */
        honest_start(&r->more, r->cell);
    int64_t killed = children_die(&r->children, receive_to_the_death, r);
    if (r->view.all_by_stream)
        gpu_let_go(&r->gpu);
    r->view.all_by_stream = false;
    receive_from_child(r, AGAIN_MAX);
    int64_t took = gpud_test_now() - killed;
    if (r->more.board)
        PEER_LEAVE(&r->more);
    return took;
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
    struct peer_board *board = r.honest.board;
    PEER_UNTIL("the honest receiver notices every end of a link", 20000,
               atomic_load(&board->lost) > (unsigned)kills);
    PEER_FINISH(&r.honest);
    CHECK(atomic_load(&board->ends) <= r.children.ends + atomic_load(&r.children.child.board->ends),
          "a crash is told to the honest receiver as the end of the stream");
    peer_forget(&r.honest);
    view_finish(&r.view);
    gpud_receiver_destroy(&r.receiver);
    if (on_gpu)
        gpu_close(&r.gpu);
    CHECK(!r.view.wrong[0], "%s", r.view.wrong);
    children_close(&r.children);
    gpud_context_destroy(&r.context);
    return worst;
}

/* --- a group ---------------------------------------------------------------------------------- */

/* The survivor is a group of a main and a backup sender, of which the main ones die in turn. Each
 * picture of the programme is handed on once, whichever has it. */
#define SLOWNESS (20 * GPUD_MSEC) /* after each picture: four more are due meanwhile */

struct grouped {
    const struct cell *cell;
    struct gpud_context *context;
    struct pair pair;
    struct children children; /* the main ones */
    struct child backup;
    struct peer more; /* another receiver of the main one, for a while */
};

static void take_instant(struct grouped *g)
{
    if (pair_take(&g->pair, 5 * GPUD_MSEC) < 0)
        return;
    CHECK(!g->pair.wrong[0], "child %u: %s", g->children.number, g->pair.wrong);
    /* Where nothing is dropped nothing is missing after any death; but a member that connects anew
     * begins in the present, for which a busy machine's backup may be too late. */
    enum provoke provoke = g->cell->point->provoke;
    if (provoke != BY_SLOWNESS && provoke != BY_CONNECTING)
        CHECK(!g->pair.missing && !g->pair.corrupted,
              "I2, I3: %llu pictures or samples are missing, %llu broken, before picture %llu, and "
              "the "
              "backup has them",
              (unsigned long long)g->pair.missing, (unsigned long long)g->pair.corrupted,
              (unsigned long long)g->pair.last);
    struct child *senders[] = {&g->backup, &g->children.child, &g->children.next};
    for (int i = 0; i < 3; i++)
        if (senders[i]->board)
            atomic_store(&senders[i]->board->handed, g->pair.last);
}

#define TAKE_UNTIL(g, within, what, condition)                                               \
    do {                                                                                     \
        int64_t until_ = gpud_test_now() + (within);                                         \
        while (!(condition)) {                                                               \
            take_instant(g);                                                                 \
            CHECK(gpud_test_now() < until_, "child %u, after picture %llu: not in time: %s", \
                  (g)->children.number, (unsigned long long)(g)->pair.last, what);           \
        }                                                                                    \
    } while (0)

/* What goes on until the point. */
static void take_to_the_death(void *survivor)
{
    struct grouped *g = survivor;
    switch (g->cell->point->provoke) {
    case BY_CONNECTING:
        if (g->pair.by_main < EVERY)
            break;
        pair_close(&g->pair);
        pair_open(&g->pair, g->context);
        break;
    case BY_GROWTH:
        if (atomic_load(&g->more.board->frames) <= EVERY)
            break;
        PEER_LEAVE(&g->more); /* it found the room of one that has just left */
        honest_start(&g->more, g->cell);
        break;
    case BY_SLOWNESS:
        gpud_test_nap(SLOWNESS / GPUD_MSEC);
        break;
    default:
        break;
    }
    take_instant(g);
}

/* Pictures of the main one must have come, before the next one may come into its place. */
static int64_t one_death_grouped(struct grouped *g, int round)
{
    uint64_t wanted = g->pair.last + (uint64_t)round % 4;
    TAKE_UNTIL(g, AGAIN_MAX, "pictures", g->pair.last >= wanted);
    children_arm(&g->children);
    if (g->cell->point->provoke == BY_GROWTH)
        honest_start(&g->more, g->cell);
    int64_t killed = children_die(&g->children, take_to_the_death, g);
    struct gpud_group_info info = GPUD_INFO_INIT(info);
    TAKE_UNTIL(g, AGAIN_MAX, "a picture of the next main sender",
               atomic_load(&g->children.child.board->frames) > 0);
    g->pair.of_main = 0;
    /* The stream goes on; a busy machine's main sender may be the later one for a while. */
    TAKE_UNTIL(g, START_MAX, "the main sender is taken again", g->pair.of_main > 1);
    gpud_group_get_info(g->pair.group, MAIN, &info);
    CHECK(info.connected, "the main sender delivers, and counts as missing: %s", info.reason);
    int64_t took = gpud_test_now() - killed;
    if (g->more.board) {
        TAKE_UNTIL(g, START_MAX, "a frame at the receiver that has joined",
                   atomic_load(&g->more.board->frames) > 0);
        PEER_LEAVE(&g->more);
    }
    return took;
}

int64_t survive_grouped(const struct cell *cell, int kills)
{
    bool slow = cell->point->provoke == BY_SLOWNESS;
    struct grouped g = {.cell = cell};
    int64_t worst = 0;
    g.context = NEW_CONTEXT();
    g.pair.sound = cell->way->bit == WAY_SOUND;
    pair_open(&g.pair, g.context);
    g.children.orders.programme = gpud_test_now();
    children_open(&g.children, cell, slow ? GPUD_SLOW_DROP_OLDEST : GPUD_SLOW_BLOCK);
    struct child_orders orders = g.children.orders;
    orders.sends = orders.backup = true;
    orders.number = 0;
    child_start(&g.backup, &orders);
    atomic_store(&g.backup.board->go, true);
    TAKE_UNTIL(&g, START_MAX, "pictures of both",
               g.pair.of_main > 0 && atomic_load(&g.backup.board->frames) > 0);
    for (int round = 0; round < kills; round++) {
        int64_t took = one_death_grouped(&g, round);
        worst = took > worst ? took : worst;
    }
    /* The backup is the last to go: the stream goes on until then. */
    children_dismiss(&g.children);
    TAKE_UNTIL(&g, AGAIN_MAX, "the last main sender leaves", children_gone(&g.children));
    uint64_t wanted = g.pair.last + 3;
    TAKE_UNTIL(&g, AGAIN_MAX, "pictures of the backup", g.pair.last >= wanted);
    struct children rest = {.child = g.backup};
    children_dismiss(&rest);
    /* It may wait for a slot until then. */
    TAKE_UNTIL(&g, AGAIN_MAX, "the backup leaves", children_gone(&rest));
    children_close(&rest);
    pair_close(&g.pair);
    children_close(&g.children);
    gpud_context_destroy(&g.context);
    return worst;
}
