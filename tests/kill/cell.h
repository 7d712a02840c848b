/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One cell of the matrix: a point on a way. Children die there one after the other. This process is
 * the survivor; an honest receiver runs in a process of its own. */
#ifndef GPUD_TESTS_KILL_CELL_H
#define GPUD_TESTS_KILL_CELL_H

#include "child.h"
#include "support/peer.h"
#include "view.h"
#include <pthread.h>

#define KILL_NAME "kill"          /* of the stream; see peer_address() */
#define START_MAX (30 * GPUD_SEC) /* until processes that were started just now stream */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif
/* The guest that soft-RoCE runs in is slow, and so is the start of a process under a sanitizer: 2
 * s, with nothing else to do. */
#define SLOW (getenv("GPUD_TEST_HOST") || SANITIZED)
#define AGAIN_MAX ((SLOW ? 30 : 5) * GPUD_SEC) /* until a stream goes on after a death */
#define REACHED_MAX (20 * GPUD_SEC)            /* until a point is reached */
/* s: a cell hangs, where nothing of the above has noticed. */
#define CELL_MAX(kills) ((SLOW ? 5u : 1u) * (60 + 3 * (unsigned)(kills)))

struct way {
    const char *name; /* of the column */
    enum way_bit bit;
    const char *from, *to; /* devices */
    const char *route;
};
extern const struct way ways[WAYS];

struct cell {
    const struct point *point;
    const struct way *way;
    int kills;
    int64_t worst; /* ns from a death until the stream went on */
};

/* Kills so often; ends the process at the first thing that is wrong. */
void cell_run(struct cell *cell);

/* --- parts ------------------------------------------------------------------------------------ */

/* Children in turn: one that streams, and one that stands by, opened ahead. In `orders` the caller
 * may set `programme` before children_open(). */
struct children {
    struct child_orders orders;
    struct child child, next;
    unsigned number; /* of the child that streams */
    unsigned varied; /* passings, 1 to so many */
    pthread_t killer;
    bool kills; /* there is such a thread */
    atomic_bool armed;
    atomic_llong killed; /* the time of the last death; 0: none yet */
};

void children_open(struct children *children, const struct cell *cell,
                   enum gpud_slow_receiver policy);

/* From here on the point counts; the child dies there, at whatever moment, and the next one starts
 * in the same moment. */
void children_arm(struct children *children);
bool children_armed(struct children *children);

/* The next child is the one that streams; nothing may have been wrong with the last. */
void children_advance(struct children *children);

/* The last child leaves in order: tells it; whether it is gone. */
void children_dismiss(struct children *children);
bool children_gone(struct children *children);
void children_close(struct children *children);

/* The two kinds of survivors. Each returns the longest time that it took to stream again. */
int64_t survive_sending(const struct cell *cell, int kills, enum gpud_slow_receiver policy);
int64_t survive_receiving(const struct cell *cell, int kills, enum gpud_slow_receiver policy);

/* Receives in a group that has a backup besides: no picture is repeated, and none lost that not
 * both senders dropped. */
int64_t survive_grouped(const struct cell *cell, int kills);

/* An honest receiver beside the child. */
void honest_start(struct peer *honest, const struct cell *cell);
void honest_finish(struct peer *honest);

#endif
