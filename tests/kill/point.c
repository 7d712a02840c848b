/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "point.h"

#include <string.h>

#define MAP_GPU (WAY_CUDA | WAY_HIP)
#define PEER_GPU (WAY_PEER | WAY_HIP_PEER)
#define STAGED (WAY_STAGED | WAY_UP | WAY_DOWN)
#define TAKES_BACK (WAY_HOST | WAY_VULKAN | MAP_GPU | PEER_GPU | STAGED | WAY_DIRECTGMA | WAY_PUSH)
#define ALL (TAKES_BACK | WAY_RDMA)
/* What dies is the main sender of a group, or the group. */
#define GROUPED (ALL | WAYS_OF_GROUPS)
/* Of a sender that dies: where another one stands by, too. */
#define MAY_STAND_BY (GROUPED | WAY_STANDBY)
#define SHARED (WAY_HOST | WAY_VULKAN | MAP_GPU | STAGED) /* a ring of the sender's */
#define SIGNALLED (MAP_GPU | PEER_GPU | WAY_DIRECTGMA)    /* words that the devices write */
#define BY_QUEUE (MAP_GPU | PEER_GPU)                     /* and that the page holds */

const struct point points[] = {
    {"sender: connection accepted", BY_CONNECTING, MAY_STAND_BY},
    {"sender: HELLO read", BY_CONNECTING, MAY_STAND_BY},
    {"sender: OFFER sent", BY_CONNECTING, MAY_STAND_BY},
    {"sender: ACCEPT read", BY_CONNECTING, MAY_STAND_BY},
    {"sender: test frame published", BY_CONNECTING, MAY_STAND_BY},
    {"sender: CANARY sent", BY_CONNECTING, MAY_STAND_BY},
    {"sender: READY read", BY_CONNECTING, MAY_STAND_BY},
    {"sender: before a credit is taken", BY_FRAMES, MAY_STAND_BY},
    {"sender: credit taken", BY_FRAMES, MAY_STAND_BY},
    {"sender: described", BY_FRAMES, MAY_STAND_BY},
    {"sender: signal posted", BY_FRAMES, SIGNALLED},
    {"sender: copy enqueued", BY_FRAMES, MAY_STAND_BY},
    {"sender: published", BY_FRAMES, MAY_STAND_BY},
    {"sender: reaped", BY_FRAMES, MAY_STAND_BY},
    {"sender: wait enqueued", BY_A_HELD_GPU, BY_QUEUE},
    {"sender: revoked", BY_SLOWNESS, TAKES_BACK | WAY_STANDBY | WAYS_OF_GROUPS},
    {"sender: frame waits", BY_SLOWNESS, WAY_RDMA},
    {"sender: waiting frame published", BY_SLOWNESS, WAY_RDMA},
    {"sender: message sent, not counted", BY_EVENTS, MAY_STAND_BY},
    {"sender: event sent", BY_EVENTS, MAY_STAND_BY},
    {"sender: EOS sent", BY_ENDS, MAY_STAND_BY},
    {"sender: new epoch's OFFER sent", BY_EPOCHS, MAY_STAND_BY},
    {"sender: GROW sent", BY_GROWTH, SHARED | WAY_STANDBY | WAYS_OF_GROUPS},
    {"sender: BYE sent", BY_LEAVING, GROUPED},
    {"receiver: HELLO sent", BY_CONNECTING, GROUPED},
    {"receiver: OFFER read", BY_CONNECTING, GROUPED},
    {"receiver: ring imported", BY_CONNECTING, GROUPED},
    {"receiver: ACCEPT sent", BY_CONNECTING, GROUPED},
    {"receiver: test frame claimed", BY_CONNECTING, GROUPED},
    {"receiver: READY sent", BY_CONNECTING, GROUPED},
    {"receiver: claimed, descriptor not read", BY_FRAMES, GROUPED},
    {"receiver: descriptor read", BY_FRAMES, GROUPED},
    {"receiver: upload enqueued", BY_FRAMES, WAY_STAGED | WAY_UP | WAY_PUSH},
    {"receiver: frame handed out", BY_FRAMES, GROUPED},
    {"receiver: wait enqueued", BY_FRAMES, SIGNALLED},
    {"receiver: release posted", BY_FRAMES, BY_QUEUE},
    {"receiver: before giving back", BY_FRAMES, GROUPED},
    {"receiver: given back", BY_FRAMES, GROUPED},
    {"receiver: event handled", BY_EVENTS, GROUPED},
    {"receiver: EOS read", BY_ENDS, GROUPED},
    {"receiver: new epoch's OFFER read", BY_EPOCHS, GROUPED},
    {"receiver: GROW imported", BY_GROWTH, SHARED | WAYS_OF_GROUPS},
    {"receiver: BYE sent", BY_LEAVING, GROUPED},
};
const int point_count = sizeof(points) / sizeof(points[0]);

bool point_is_the_senders(const struct point *point)
{
    return strncmp(point->name, "sender: ", 8) == 0;
}
