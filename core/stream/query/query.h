/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One question to one sender, and its answer. Nothing that comes back is believed to end by itself:
 * there are as many messages as the first one says, and no more than there can be receivers. */
#ifndef GPUD_STREAM_QUERY_QUERY_H
#define GPUD_STREAM_QUERY_QUERY_H

#include "wire/channel.h"

enum gpud_query_state {
    GPUD_QUERY_CALLING,  /* too many wait for the sender: to be tried again */
    GPUD_QUERY_ASKED,    /* the answer is not there, or not all of it */
    GPUD_QUERY_ANSWERED, /* report and link[] hold it */
    GPUD_QUERY_FAILED,   /* reason says why */
    GPUD_QUERY_NOBODY,   /* no sender listens */
};

/* Starts zeroed but for the address. */
struct gpud_query {
    struct gpud_address address;
    enum gpud_query_state state;
    struct gpud_channel *channel; /* ASKED */
    pid_t pid;                    /* 0: not known */
    int64_t user;                 /* -1: not known */
    bool reported;
    struct gpud_report report;
    uint32_t link_count;
    struct gpud_link_info link[GPUD_RECEIVERS_MAX];
    char reason[GPUD_REASON_MAX];
};

/* CALLING: connects and asks, unless the sender is stopped, which fails at once: a question that
 * is not read would take a place in its queue. */
void gpud_query_call(struct gpud_query *query);

/* ASKED: reads what is there. */
void gpud_query_read(struct gpud_query *query);

/* There is no more time. */
void gpud_query_give_up(struct gpud_query *query);

void gpud_query_close(struct gpud_query *query);

static inline bool gpud_query_is_open(const struct gpud_query *query)
{
    return query->state <= GPUD_QUERY_ASKED;
}

#endif
