/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The survivor is a group of a main and a backup sender, of which the main ones die in turn. Each
 * picture of the programme is handed on once, whichever has it. */
#include "cell.h"
#include "programme.h"
#include "support/check.h"
#include "support/make.h"

#define EVERY 4                   /* pictures of one connection, where it is made anew */
#define SLOWNESS (20 * GPUD_MSEC) /* after each picture: four more are due meanwhile */

struct grouped {
    const struct cell *cell;
    struct gpud_context *context;
    struct pair pair;
    struct children children; /* the main ones */
    struct child backup;
    struct peer more; /* another receiver of the main one, for a while */
};

static void take(struct grouped *g)
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
            take(g);                                                                         \
            CHECK(gpud_test_now() < until_, "child %u, after picture %llu: not in time: %s", \
                  (g)->children.number, (unsigned long long)(g)->pair.last, what);           \
        }                                                                                    \
    } while (0)

static void start_backup(struct grouped *g)
{
    struct child_orders orders = g->children.orders;
    orders.sends = orders.backup = true;
    orders.number = 0;
    child_start(&g->backup, &orders);
    atomic_store(&g->backup.board->go, true);
}

/* What goes on until the point. */
static void provoke(struct grouped *g)
{
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
        honest_finish(&g->more); /* it found the room of one that has just left */
        honest_start(&g->more, g->cell);
        break;
    case BY_SLOWNESS:
        gpud_test_nap(SLOWNESS / GPUD_MSEC);
        break;
    default:
        break;
    }
}

/* Pictures of the main one must have come, before the next one may come into its place. */
static int64_t one_death(struct grouped *g, int round)
{
    uint64_t wanted = g->pair.last + (uint64_t)round % 4;
    TAKE_UNTIL(g, AGAIN_MAX, "pictures", g->pair.last >= wanted);
    bool grows = g->cell->point->provoke == BY_GROWTH;
    children_arm(&g->children);
    if (grows)
        honest_start(&g->more, g->cell);
    int64_t until = gpud_test_now() + REACHED_MAX;
    while (children_armed(&g->children)) {
        provoke(g);
        take(g);
        CHECK(gpud_test_now() < until || !children_armed(&g->children),
              "the point was not reached, %u of %u times",
              atomic_load(&g->children.child.board->passings),
              g->children.child.board->orders.passing);
    }
    int64_t killed = atomic_load(&g->children.killed);
    children_advance(&g->children);
    struct gpud_group_info info = GPUD_INFO_INIT(info);
    TAKE_UNTIL(g, AGAIN_MAX, "a picture of the next main sender",
               atomic_load(&g->children.child.board->frames) > 0);
    g->pair.of_main = 0;
    /* The stream goes on; a busy machine's main sender may be the later one for a while. */
    TAKE_UNTIL(g, START_MAX, "the main sender is taken again", g->pair.of_main > 1);
    gpud_group_get_info(g->pair.group, MAIN, &info);
    CHECK(info.connected, "the main sender delivers, and counts as missing: %s", info.reason);
    int64_t took = gpud_test_now() - killed;
    if (grows) {
        TAKE_UNTIL(g, START_MAX, "a frame at the receiver that has joined",
                   atomic_load(&g->more.board->frames) > 0);
        honest_finish(&g->more);
    }
    return took;
}

/* The backup is the last to go: the stream goes on until then. */
static void finish(struct grouped *g)
{
    children_dismiss(&g->children);
    TAKE_UNTIL(g, AGAIN_MAX, "the last main sender leaves", children_gone(&g->children));
    uint64_t wanted = g->pair.last + 3;
    TAKE_UNTIL(g, AGAIN_MAX, "pictures of the backup", g->pair.last >= wanted);
    struct children rest = {.child = g->backup};
    children_dismiss(&rest);
    /* It may wait for a slot until then. */
    TAKE_UNTIL(g, AGAIN_MAX, "the backup leaves", children_gone(&rest));
    children_close(&rest);
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
    start_backup(&g);
    TAKE_UNTIL(&g, START_MAX, "pictures of both",
               g.pair.of_main > 0 && atomic_load(&g.backup.board->frames) > 0);
    for (int round = 0; round < kills; round++) {
        int64_t took = one_death(&g, round);
        worst = took > worst ? took : worst;
    }
    finish(&g);
    pair_close(&g.pair);
    children_close(&g.children);
    gpud_context_destroy(&g.context);
    return worst;
}
