/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A programme that a main and a backup sender have, and the group that receives it: I1, I2, I3,
 * instant by instant. */
#ifndef GPUD_TESTS_KILL_PROGRAMME_H
#define GPUD_TESTS_KILL_PROGRAMME_H

#include "child.h"

#define MAIN 0
#define BACKUP 1

/* Sound: CHILD_INSTANT. */
#define PROGRAMME_RATE 48000
#define PROGRAMME_BLOCK 240

/* What its offset is: the number of a picture, or of the first sample of a block. A backup's blocks
 * begin in the middle of the main one's. */
uint64_t programme_place(const struct child_orders *orders, uint64_t number);

/* Sends a picture or a block at its time. Every third lies in memory of the application's, on the
 * host, and is copied. jumps: it does not follow the one before. */
void programme_send(struct gpud_sender *sender, struct gpud_device *host,
                    const struct child_orders *orders, const struct child_format *format,
                    uint64_t number, bool jumps);

struct pair {
    bool sound;
    struct gpud_receiver *receivers[2];
    struct gpud_group *group;
    bool begun; /* an instant was taken since it was made, or since the end of a stream */
    /* Of each member: its sender, and what its last frame said, which tells pictures that the
     * group lost from those that the sender dropped; epoch 0: there was none. */
    struct {
        int64_t pid;
        uint32_t epoch;
        uint64_t dropped;
    } members[2];
    unsigned of_main; /* how many in a row */
    unsigned by_main; /* how many since it was made */
    /* They outlive the group. */
    uint64_t last;    /* the picture, or whole block, that was taken last; 0: none */
    uint64_t place;   /* the picture, or sample, behind all that was taken */
    uint64_t missing; /* pictures, or samples, that were not taken */
    uint64_t corrupted;
    char wrong[256]; /* the first thing that must not be; "": none */
};

void pair_open(struct pair *pair, struct gpud_context *context);
void pair_close(struct pair *pair);

/* Waits for the next instant so long at most, and checks it; its member, or -1: none came. */
int pair_take(struct pair *pair, int64_t timeout_ns);

#endif
