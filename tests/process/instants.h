/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Senders of one programme in processes of their own: this program, started anew, sends picture n
 * at the time of instant n, which is the same for all of them. A shared board carries their orders
 * and reports, so that they can be stopped and killed at any instant. */
#ifndef GPUD_TESTS_INSTANTS_H
#define GPUD_TESTS_INSTANTS_H

#include "actor.h"

#define INSTANTS_HEIGHT 36
/* Before every so many instants comes an event with the instant's number. */
#define INSTANTS_EVENTS 5

struct instants_orders {
    char address[64], device[32];
    struct gpud_fraction rate;
    int64_t base;  /* at which instant 0 is due */
    int64_t delay; /* of this sender's frames, whose times are the programme's all the same */
    int64_t apart; /* is added to its frames' times */
    uint32_t width;
    enum gpud_slow_receiver slow_receiver;
};

struct instants_board {
    struct instants_orders orders;
    /* By the test. */
    atomic_ullong handed;   /* the instant that was handed on last: a new sender begins behind it */
    atomic_llong base;      /* the orders', which may be moved until the sender has begun */
    atomic_bool leave;      /* after an EOS */
    atomic_ullong other_at; /* the instant from which on frames are larger; 0: never */
    /* By the sender. */
    atomic_bool begun;   /* a receiver is connected, and the first instant is chosen */
    atomic_ullong first; /* that instant */
    atomic_ullong sent;  /* the last one */
};

struct instants {
    struct instants_orders orders;
    pid_t pid; /* 0: does not run */
    struct instants_board *board;
};

/* For main(), first of all. */
void instants_main(int argc, char **argv);

/* One of small pictures that has not been started; the device "": the default. */
struct instants instants_of(const char *address, const char *device, struct gpud_fraction rate,
                            int64_t base);

struct gpud_group_info group_info(struct gpud_group *group, uint32_t member);

uint64_t instants_time(struct gpud_fraction rate, uint64_t instant);

/* Starts it with its orders; `handed`: the instant that was handed on last. */
void instants_start(struct instants *sender, uint64_t handed);
void instants_kill(struct instants *sender);
/* It sends EOS and ends. It may first wait for receivers to take what it has sent: `leave` tells
 * it, `has_left` is true once it is gone, `finish` does both. */
void instants_leave(struct instants *sender);
bool instants_has_left(struct instants *sender);
void instants_finish(struct instants *sender);

#endif
