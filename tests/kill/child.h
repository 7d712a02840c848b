/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The process that dies: this program, started anew, sends or receives, and stands still as a whole
 * at a named point, on the n-th time that it passes there after it was armed. A kill then hits
 * exactly that point. */
#ifndef GPUD_TESTS_KILL_CHILD_H
#define GPUD_TESTS_KILL_CHILD_H

#include "point.h"
#include <gpudirect/gpudirect.h>
#include <stdatomic.h>
#include <sys/types.h>

#define CHILD_NUMBERS 1000000         /* pictures of one child: from its own number times this */
#define CHILD_INSTANT (5 * GPUD_MSEC) /* of a programme: between its pictures */

struct child_orders {
    bool sends;
    char device[32], route[32];
    char point[64];
    unsigned passing; /* at which it stops, from 1 */
    enum provoke provoke;
    unsigned number; /* of this child, from 1 */
    enum gpud_slow_receiver slow_receiver;
    bool standby; /* a sender: waits for the address while another child has it */
    /* A sender of a programme: picture n is due n * CHILD_INSTANT after this, for all its senders;
     * 0: it sends without a pause. */
    int64_t programme;
    bool backup; /* of the programme, on an address of its own */
    bool group;  /* a receiver: of both */
    bool sound;  /* the programme is of sound: pictures are blocks */
};

struct child_board {
    struct child_orders orders;
    /* By the test. */
    atomic_bool go;    /* everything slow is done before */
    atomic_bool armed; /* the point counts */
    atomic_bool leave;
    atomic_ullong handed; /* of a programme: the picture that was handed on last */
    /* By the child. */
    atomic_bool ready;
    atomic_uint passings;
    _Atomic uint32_t stopped; /* a futex */
    atomic_ullong frames;
    atomic_ullong corrupted;
    atomic_uint ends; /* a sender: EOS that it was about to send */
    char wrong[256];  /* what it saw that must not be */
};

struct child {
    pid_t pid;
    struct child_board *board;
};

/* For main(), first of all. */
void child_main(int argc, char **argv);

/* Where it sends. */
const char *child_address(const struct child_orders *orders);

void child_start(struct child *child, const struct child_orders *orders);

/* Another format for every second epoch: of the picture, or of the sound's channels. */
struct child_format {
    struct gpud_media media;
    struct gpud_layout layout;
};
void child_format(struct child_format *format, const struct child_orders *orders, unsigned epoch);

#endif
