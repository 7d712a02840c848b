/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A process that is killed while GPUs wait for each other: this program, started anew, sends or
 * receives by work on a stream alone. On order it holds that stream up, so that whatever it has
 * promised by then is never done. */
#ifndef GPUD_TESTS_VICTIM_H
#define GPUD_TESTS_VICTIM_H

#include <gpudirect/gpudirect.h>
#include <stdatomic.h>
#include <sys/types.h>

#define VICTIM_WIDTH 640
#define VICTIM_HEIGHT 361

struct victim_orders {
    bool sends;
    bool rests; /* takes no more frames while the stream is held up */
    char address[64], device[32], route[32];
};

struct victim_board {
    struct victim_orders orders;
    /* By the test. */
    atomic_bool go;     /* everything is opened before, so that a start costs nothing later */
    atomic_bool hold;   /* the stream, from the next frame on, once */
    atomic_bool let_go; /* what is held */
    atomic_bool leave;
    /* By the victim. */
    atomic_ullong frames, last;
    atomic_ullong held_from; /* the first frame whose work is held up; 0: none is */
    atomic_ullong ends, lost, wrong;
    char reason[GPUD_REASON_MAX]; /* of the last loss */
};

struct victim {
    pid_t pid;
    struct victim_board *board;
};

/* For main(), first of all. */
void victim_main(int argc, char **argv);

/* The layout that every frame has. */
void victim_layout(struct gpud_layout *layout);

void victim_start(struct victim *victim, const struct victim_orders *orders);
/* It leaves in order. */
void victim_finish(struct victim *victim);
/* The board is readable until then. */
void victim_forget(struct victim *victim);

#endif
