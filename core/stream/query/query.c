/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "stream/query/query.h"

#include "base/process.h"
#include "frame/media/media.h"

static void fail(struct gpud_query *query, const char *reason)
{
    query->state = GPUD_QUERY_FAILED;
    gpud_print(query->reason, "%s", reason);
    gpud_channel_unref(&query->channel);
}

/* Explains a missing answer, as far as the system knows. */
static void fail_silent(struct gpud_query *query)
{
    char reason[160], name[64] = "";
    if (gpud_process_is_stopped(query->pid))
        gpud_print(reason, "does not answer; process %ld is stopped (kill -CONT %ld lets it go on)",
                   (long)query->pid, (long)query->pid);
    else if (gpud_process_name(query->pid, name, sizeof(name)))
        gpud_print(reason, "does not answer; process %ld (%s) may hang", (long)query->pid, name);
    else
        gpud_print(reason, "does not answer; its process is not known here");
    fail(query, reason);
}

static void fail_received(struct gpud_query *query)
{
    char reason[160], name[64] = "";
    gpud_process_name(query->address.receiver, name, sizeof(name));
    gpud_print(reason, "process %ld (%s) receives it; ask on the host that sends it",
               (long)query->address.receiver, name);
    query->user = -1;
    query->pid = 0;
    fail(query, reason);
}

void gpud_query_call(struct gpud_query *query)
{
    if (query->address.receiver) {
        fail_received(query);
        return;
    }
    struct gpud_message message = {.type = GPUD_MESSAGE_QUERY};
    struct gpud_error error = {.reason = ""};
    struct gpud_peer peer;
    enum gpud_status status = gpud_channel_ask(&query->address, &query->channel, &peer, &error);
    query->pid = peer.pid;
    query->user = status == GPUD_OK ? (int64_t)peer.uid : -1;
    if (status == GPUD_AGAIN) {
        if (gpud_process_is_stopped(query->pid))
            fail_silent(query);
        return;
    }
    if (status == GPUD_OK) {
        status = gpud_channel_send(query->channel, &message, &error);
        if (status == GPUD_PEER) /* it may have answered before it hung up */
            status = GPUD_OK;
    }
    if (status == GPUD_OK) {
        query->state = GPUD_QUERY_ASKED;
    } else if (status == GPUD_CLOSED) {
        query->state = GPUD_QUERY_NO_SENDER;
    } else {
        fail(query, error.reason);
    }
}

void gpud_query_name_only(struct gpud_query *query)
{
    query->user = -1;
    fail(query, "its host tells its name only: ask there");
}

/* --- the answer ---------------------------------------------------------------------------- */

static enum gpud_status take_report(struct gpud_query *query, const struct gpud_report *report,
                                    struct gpud_error *error)
{
    if (query->reported)
        return gpud_fail(error, GPUD_PEER, "broke the protocol: two answers to one question");
    if (report->epoch && gpud_media_check(&report->media, error) != GPUD_OK)
        return GPUD_PEER;
    query->report = *report;
    query->reported = true;
    return GPUD_OK;
}

static enum gpud_status take_links(struct gpud_query *query, const struct gpud_links *links,
                                   struct gpud_error *error)
{
    if (!query->reported || links->count > query->report.links - query->link_count)
        return gpud_fail(error, GPUD_PEER,
                         "broke the protocol: it lists more receivers than it has");
    for (uint32_t i = 0; i < links->count; i++) {
        struct gpud_link_info *link = &query->link[query->link_count];
        *link = links->link[i];
        query->links[query->link_count++] = link;
    }
    return GPUD_OK;
}

static enum gpud_status handle(struct gpud_query *query, const struct gpud_message *message,
                               struct gpud_error *error)
{
    switch (message->type) {
    case GPUD_MESSAGE_STATUS:
        return take_report(query, &message->report, error);
    case GPUD_MESSAGE_LINKS:
        return take_links(query, &message->links, error);
    case GPUD_MESSAGE_REFUSE:
        return gpud_fail(error, GPUD_PEER, "refused to answer: %s", message->refuse.reason);
    default:
        return gpud_fail(error, GPUD_PEER, "broke the protocol: a %s for an answer",
                         gpud_message_name(message->type));
    }
}

void gpud_query_read(struct gpud_query *query)
{
    while (query->state == GPUD_QUERY_ASKED) {
        struct gpud_message message;
        struct gpud_error error = {.reason = ""};
        enum gpud_status status = gpud_channel_receive(query->channel, &message, &error);
        if (status == GPUD_AGAIN)
            return;
        if (status == GPUD_OK) {
            status = handle(query, &message, &error);
            gpud_message_close(&message);
        } else if (status == GPUD_CLOSED) {
            gpud_fail(&error, status,
                      "hung up without an answer: it is ending, or is of a release that does not "
                      "answer queries");
        }
        if (status != GPUD_OK) {
            fail(query, error.reason);
        } else if (query->link_count == query->report.links) {
            query->state = GPUD_QUERY_ANSWERED;
            gpud_channel_unref(&query->channel);
        }
    }
}

void gpud_query_give_up(struct gpud_query *query)
{
    if (gpud_query_is_open(query))
        fail_silent(query);
}

void gpud_query_close(struct gpud_query *query)
{
    gpud_channel_unref(&query->channel);
}
