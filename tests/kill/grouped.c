/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The survivor is a group of a main and a backup sender, of which the main ones die in turn. Each
 * picture of the programme is handed on once, whichever has it. */
#include "cell.h"
#include "support/check.h"
#include "support/make.h"

#define MAIN 0
#define BACKUP 1

struct grouped {
    struct gpud_context *context;
    struct gpud_receiver *receivers[2];
    struct gpud_group *group;
    struct children children; /* the main ones */
    struct child backup;
    uint64_t last;
    unsigned of_main; /* how many in a row */
};

static void open_group(struct grouped *g)
{
    struct gpud_group_params params = GPUD_PARAMS_INIT(params);
    params.mode = GPUD_GROUP_ANY;
    g->context = NEW_CONTEXT();
    for (int i = 0; i < 2; i++) {
        struct child_orders orders = {.backup = i == BACKUP};
        g->receivers[i] = NEW_RECEIVER(g->context, .address = child_address(&orders));
    }
    WORKS(gpud_group_create(g->context, &params, g->receivers, 2, &g->group, &e));
}

static void check(struct grouped *g, struct gpud_group_instant got)
{
    struct gpud_frame *frame = got.frames[got.member];
    struct gpud_frame_info info = INFO(frame, frame);
    CHECK(g->last == 0 || info.offset == g->last + 1,
          "I1, I2: picture %llu of the %s after picture %llu", (unsigned long long)info.offset,
          got.member == MAIN ? "main" : "backup", (unsigned long long)g->last);
    CHECK(g->last == 0 || !got.discontinuity, "a discontinuity, and no picture is missing");
    CHECK(!(info.flags & GPUD_FRAME_CORRUPTED), "I3: a broken picture, and the backup has it");
    FRAME_CHECK(frame, &info.layout, info.offset);
    gpud_frame_release(&got.frames[got.member]);
    g->last = info.offset;
    g->of_main = got.member == MAIN ? g->of_main + 1 : 0;
    struct child *senders[] = {&g->backup, &g->children.child, &g->children.next};
    for (int i = 0; i < 3; i++)
        if (senders[i]->board)
            atomic_store(&senders[i]->board->handed, g->last);
}

static enum gpud_status take_any(struct grouped *g, struct gpud_error *error)
{
    struct gpud_group_instant got = GPUD_INFO_INIT(got);
    enum gpud_status status = gpud_group_acquire(g->group, NULL, 5 * GPUD_MSEC, &got, error);
    if (status == GPUD_OK)
        check(g, got);
    return status;
}

static void take(struct grouped *g)
{
    struct gpud_error error = {.reason = ""};
    enum gpud_status status = take_any(g, &error);
    CHECK(status == GPUD_OK || status == GPUD_TIMEOUT, "acquire says \"%s\": %s",
          gpud_status_string(status), error.reason);
}

#define TAKE_UNTIL(g, within, what, condition)                                               \
    do {                                                                                     \
        int64_t until_ = gpud_test_now() + (within);                                         \
        while (!(condition)) {                                                               \
            take(g);                                                                         \
            CHECK(gpud_test_now() < until_, "child %u, after picture %llu: not in time: %s", \
                  (g)->children.number, (unsigned long long)(g)->last, what);                \
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

/* Pictures of the main one must have come, before the next one may come into its place. */
static int64_t one_death(struct grouped *g, int round)
{
    uint64_t wanted = g->last + (uint64_t)round % 4;
    TAKE_UNTIL(g, AGAIN_MAX, "pictures", g->last >= wanted);
    children_arm(&g->children);
    TAKE_UNTIL(g, REACHED_MAX, "the point is reached", !children_armed(&g->children));
    int64_t killed = atomic_load(&g->children.killed);
    children_advance(&g->children);
    struct gpud_group_info info = GPUD_INFO_INIT(info);
    TAKE_UNTIL(g, AGAIN_MAX, "a picture of the next main sender",
               atomic_load(&g->children.child.board->frames) > 0);
    g->of_main = 0;
    TAKE_UNTIL(g, AGAIN_MAX, "the main sender is taken again", g->of_main > 1);
    gpud_group_get_info(g->group, MAIN, &info);
    CHECK(info.connected, "the main sender delivers, and counts as missing: %s", info.reason);
    return gpud_test_now() - killed;
}

/* The backup is the last to go: the stream goes on until then. It is gone only once there is room
 * for the frame that it sends at that moment. */
static void finish(struct grouped *g)
{
    children_dismiss(&g->children);
    TAKE_UNTIL(g, AGAIN_MAX, "the last main sender leaves", children_gone(&g->children));
    uint64_t wanted = g->last + 3;
    TAKE_UNTIL(g, AGAIN_MAX, "pictures of the backup", g->last >= wanted);
    struct children rest = {.child = g->backup};
    children_dismiss(&rest);
    for (int64_t until = gpud_test_now() + AGAIN_MAX; !children_gone(&rest); gpud_test_nap(1)) {
        CHECK(gpud_test_now() < until, "the backup does not leave");
        take_any(g, NULL);
    }
    children_close(&rest);
}

int64_t survive_grouped(const struct cell *cell, int kills)
{
    struct grouped g = {.last = 0};
    int64_t worst = 0;
    open_group(&g);
    g.children.orders.programme = gpud_test_now();
    children_open(&g.children, cell, GPUD_SLOW_BLOCK);
    start_backup(&g);
    TAKE_UNTIL(&g, START_MAX, "pictures of both",
               g.of_main > 0 && atomic_load(&g.backup.board->frames) > 0);
    for (int round = 0; round < kills; round++) {
        int64_t took = one_death(&g, round);
        worst = took > worst ? took : worst;
    }
    finish(&g);
    gpud_group_destroy(&g.group);
    for (int i = 0; i < 2; i++)
        gpud_receiver_destroy(&g.receivers[i]);
    children_close(&g.children);
    gpud_context_destroy(&g.context);
    return worst;
}
