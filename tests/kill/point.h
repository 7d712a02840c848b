/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The named points of the hand-off (core/base/base.h), and what must go on in a stream so that a
 * process passes them. */
#ifndef GPUD_TESTS_KILL_POINT_H
#define GPUD_TESTS_KILL_POINT_H

#include <stdbool.h>

/* The ways of a frame: the columns of the matrix. */
enum way_bit {
    WAY_HOST = 1 << 0,      /* map, both ends on the host */
    WAY_CUDA = 1 << 1,      /* map, both ends on one GPU */
    WAY_PEER = 1 << 2,      /* peer, from one GPU to another */
    WAY_STAGED = 1 << 3,    /* staged, from one GPU to another */
    WAY_DIRECTGMA = 1 << 4, /* directgma */
    WAY_RDMA = 1 << 5,      /* rdma-host, both ends on the host; see support/copies.h */
    WAY_HIP = 1 << 6,       /* as WAY_CUDA, by another vendor's driver */
    WAY_HIP_PEER = 1 << 7,  /* as WAY_PEER */
    WAY_PUSH = 1 << 8,      /* staged-push, from one GPU to another */
    WAY_VULKAN = 1 << 9,    /* map, both ends on one GPU, whose queues wait for no words */
    WAY_STANDBY = 1 << 10,  /* as WAY_HOST; the next sender waits for the address meanwhile */
    WAY_GROUP = 1 << 11,    /* as WAY_HOST; a group has a backup besides */
    WAY_UP = 1 << 12,       /* staged, from the host to such a GPU as WAY_VULKAN's */
    WAY_DOWN = 1 << 13,     /* and from there to the host */
    WAY_SOUND = 1 << 14,    /* as WAY_GROUP, of sound: the two senders' blocks overlap by half */
};
#define WAYS 15
#define WAYS_OF_GROUPS (WAY_GROUP | WAY_SOUND)

/* What makes a process pass the point, besides frames. */
enum provoke {
    BY_FRAMES,
    BY_CONNECTING, /* the receiver is made anew, again and again */
    BY_LEAVING,    /* the process ends its own object in order, and makes it anew */
    BY_EVENTS,
    BY_ENDS,       /* EOS, and frames again */
    BY_EPOCHS,     /* another format every few frames */
    BY_GROWTH,     /* one receiver more joins */
    BY_SLOWNESS,   /* the receiver, or the group, is slow, the sender drops the oldest */
    BY_A_HELD_GPU, /* the receiver's stream stands still for a moment */
};

struct point {
    const char *name; /* as the code has it: "sender: …" or "receiver: …" */
    enum provoke provoke;
    unsigned ways; /* on which it exists */
};

extern const struct point points[];
extern const int point_count;

/* Whose point it is. */
bool point_is_the_senders(const struct point *point);

#endif
