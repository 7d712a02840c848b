/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "point.h"

#include <string.h>

#define MAP_GPU (WAY_CUDA | WAY_HIP)
#define PEER_GPU (WAY_PEER | WAY_HIP_PEER)
#define STAGED (WAY_STAGED | WAY_UP | WAY_DOWN)
#define TAKES_BACK (WAY_HOST | WAY_VULKAN | MAP_GPU | PEER_GPU | STAGED | WAY_DIRECTGMA | WAY_PUSH)
#define ALL (TAKES_BACK | WAY_RDMA)
/* Of a sender that dies: where another one stands by, and in a group. Nothing is lost in a group,
 * so nothing happens there that drops frames, nor what needs another receiver. */
#define MAY_STAND_BY (ALL | WAY_STANDBY)
#define MAY_BE_MAIN (MAY_STAND_BY | WAY_GROUP)
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
    {"sender: before a credit is taken", BY_FRAMES, MAY_BE_MAIN},
    {"sender: credit taken", BY_FRAMES, MAY_BE_MAIN},
    {"sender: described", BY_FRAMES, MAY_BE_MAIN},
    {"sender: signal posted", BY_FRAMES, SIGNALLED},
    {"sender: copy enqueued", BY_FRAMES, MAY_STAND_BY},
    {"sender: published", BY_FRAMES, MAY_BE_MAIN},
    {"sender: reaped", BY_FRAMES, MAY_BE_MAIN},
    {"sender: wait enqueued", BY_A_HELD_GPU, BY_QUEUE},
    {"sender: revoked", BY_SLOWNESS, TAKES_BACK | WAY_STANDBY},
    {"sender: frame waits", BY_SLOWNESS, WAY_RDMA},
    {"sender: waiting frame published", BY_SLOWNESS, WAY_RDMA},
    {"sender: message sent, not counted", BY_EVENTS, MAY_BE_MAIN},
    {"sender: event sent", BY_EVENTS, MAY_BE_MAIN},
    {"sender: EOS sent", BY_ENDS, MAY_BE_MAIN},
    {"sender: new epoch's OFFER sent", BY_EPOCHS, MAY_BE_MAIN},
    {"sender: GROW sent", BY_GROWTH, SHARED | WAY_STANDBY},
    {"sender: BYE sent", BY_LEAVING, ALL},
    {"receiver: HELLO sent", BY_CONNECTING, ALL},
    {"receiver: OFFER read", BY_CONNECTING, ALL},
    {"receiver: ring imported", BY_CONNECTING, ALL},
    {"receiver: ACCEPT sent", BY_CONNECTING, ALL},
    {"receiver: test frame claimed", BY_CONNECTING, ALL},
    {"receiver: READY sent", BY_CONNECTING, ALL},
    {"receiver: claimed, descriptor not read", BY_FRAMES, ALL},
    {"receiver: descriptor read", BY_FRAMES, ALL},
    {"receiver: upload enqueued", BY_FRAMES, WAY_STAGED | WAY_UP | WAY_PUSH},
    {"receiver: frame handed out", BY_FRAMES, ALL},
    {"receiver: wait enqueued", BY_FRAMES, SIGNALLED},
    {"receiver: release posted", BY_FRAMES, BY_QUEUE},
    {"receiver: before giving back", BY_FRAMES, ALL},
    {"receiver: given back", BY_FRAMES, ALL},
    {"receiver: event handled", BY_EVENTS, ALL},
    {"receiver: EOS read", BY_ENDS, ALL},
    {"receiver: new epoch's OFFER read", BY_EPOCHS, ALL},
    {"receiver: GROW imported", BY_GROWTH, SHARED},
    {"receiver: BYE sent", BY_LEAVING, ALL},
};
const int point_count = sizeof(points) / sizeof(points[0]);

bool point_is_the_senders(const struct point *point)
{
    return strncmp(point->name, "sender: ", 8) == 0;
}
