/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The state that a group's files share. A thread for each member acquires from its receiver and
 * puts the frames into the match; the application's thread decides and takes them out.
 *
 *     match.c    which frames are of one instant, and when: a state machine
 *     freeze.c   whether a picture stands still
 *     member.c   a member: its thread, its frames, its events
 *     group.c    the public object, waiting */
#ifndef GPUD_GROUP_STATE_H
#define GPUD_GROUP_STATE_H

#include "base/lock.h"
#include "group/freeze.h"
#include "group/match.h"
#include "stream/shared/loop.h"

#include <stdatomic.h>

/* USER events that wait for a member's next frame; more than these are lost. */
#define GPUD_GROUP_EVENTS_MAX 64
/* Frames in the match, those that the member's thread releases, and those that the application's
 * does. */
#define GPUD_GROUP_ITEMS (2 * GPUD_SLOTS_MAX)

/* What frames of one connection and format have in common. */
struct gpud_group_link {
    atomic_uint references;
    uint64_t connection; /* counts the member's */
    struct gpud_peer_info peer;
    struct gpud_format_event format;
};

struct gpud_group_event {
    struct gpud_group_event *next;
    struct gpud_user_event said;
    uint8_t data[];
};

/* A frame in the group: gpud_match_entry.what. */
struct gpud_group_item {
    atomic_bool used;
    struct gpud_frame *frame;
    struct gpud_group_link *link;
    struct gpud_group_event *events; /* before the frame */
    struct gpud_group_item *next;    /* in a list of those to be released */
};

struct gpud_group_member {
    struct gpud_group *group;
    uint32_t index;
    struct gpud_receiver *receiver;
    pthread_t thread;
    bool runs;
    bool was_interrupted; /* the receiver, before the group ended */
    void (*on_event)(void *user, enum gpud_event event, const void *data); /* the receiver's own */
    void *user;

    /* In its thread. */
    bool renewed; /* `connection`, `peer` or `format` is newer than `link` */
    uint64_t connection;
    struct gpud_peer_info peer;
    struct gpud_format_event format;
    struct gpud_group_link *link;
    uint32_t faults; /* bits of enum gpud_match_fault that were logged since the last connection */
    struct gpud_group_event *events, **events_end;
    uint32_t events_count;
    struct gpud_freeze freeze;

    struct gpud_group_item items[GPUD_GROUP_ITEMS]; /* `used` is set in its thread only */
    /* Under the group's lock. */
    char reason[GPUD_REASON_MAX]; /* why its last acquire gave no frame */
    uint64_t frames, handed_on, untimed;
};

struct gpud_group {
    struct gpud_context *context;
    uint64_t (*time)(void *user, uint32_t member, const struct gpud_frame_info *info);
    void (*on_event)(void *user, uint32_t member, enum gpud_event event, const void *data);
    void *user;
    uint32_t count;
    int64_t freeze_timeout; /* 0: frozen pictures count like others */
    struct gpud_group_member members[GPUD_GROUP_MEMBERS_MAX];
    struct gpud_group_link
        *reported[GPUD_GROUP_MEMBERS_MAX]; /* ANY: [0]; the application's thread */
    uint32_t reported_member;

    struct gpud_lock lock;
    pthread_cond_t due;  /* for the application's thread */
    pthread_cond_t room; /* for members' threads */
    bool stopping;
    struct gpud_match match;
    struct gpud_match_request request; /* of the last acquire */
    bool waits;                        /* the application's thread, on `due` until `waits_until` */
    bool armed;                        /* its loop, likewise */
    int64_t waits_until;
    struct gpud_loop loop;
    uint32_t last_member;
    uint64_t instants, incomplete, discontinuities, switches;
};

#endif
