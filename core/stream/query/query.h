/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A query to one sender, and its answer. The answer is bounded: it has as many messages as the
 * first one says, and no more than there can be receivers. */
#ifndef GPUD_STREAM_QUERY_QUERY_H
#define GPUD_STREAM_QUERY_QUERY_H

#include "wire/announce.h"
#include "wire/wire.h"

enum gpud_query_state {
    GPUD_QUERY_CALLING,  /* not connected yet; tried again while the sender's queue is full */
    GPUD_QUERY_ASKED,    /* the answer is not complete */
    GPUD_QUERY_ANSWERED, /* report and link[] hold it */
    GPUD_QUERY_FAILED,   /* reason says why */
    GPUD_QUERY_NO_SENDER,
};

/* Starts zeroed except for the address. */
struct gpud_query {
    struct gpud_address address;
    enum gpud_query_state state;
    struct gpud_channel *channel; /* ASKED */
    pid_t pid;                    /* 0: unknown */
    int64_t user;                 /* -1: unknown */
    bool reported;
    struct gpud_report report;
    uint32_t link_count;
    struct gpud_link_info link[GPUD_RECEIVERS_MAX];
    const struct gpud_link_info *links[GPUD_RECEIVERS_MAX]; /* to each of them */
    char reason[GPUD_REASON_MAX];
    struct gpud_found found; /* FAILED: what its host announces; scheme "": nothing */
};

/* CALLING: connects and sends the query. A stopped sender fails at once: an unread query would
 * occupy a place in its queue. */
void gpud_query_call(struct gpud_query *query);

/* ASKED: reads the messages that have arrived. */
void gpud_query_read(struct gpud_query *query);

/* Ends it at the timeout. */
void gpud_query_give_up(struct gpud_query *query);
void gpud_query_close(struct gpud_query *query);

static inline bool gpud_query_is_open(const struct gpud_query *query)
{
    return query->state <= GPUD_QUERY_ASKED;
}

#endif
