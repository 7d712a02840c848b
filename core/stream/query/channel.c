/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* All channels of the user, asked at once. */
#include <gpudirect/channel.h>

#include "base/clock.h"
#include "base/process.h"
#include "base/sized.h"
#include "stream/query/query.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* How often those are tried again that too many wait for, and whether one was stopped meanwhile is
 * looked at. */
#define SLICE (20 * GPUD_MSEC)

struct channel {
    bool listed; /* by the system, and not by the caller */
    struct gpud_query query;
};

struct gpud_channels {
    char directory[GPUD_ADDRESS_MAX];
    size_t count;
    struct channel *channel[GPUD_CHANNELS_MAX];
};

/* --- asking -------------------------------------------------------------------------------- */

static bool is_worth_waiting_for(const struct gpud_query *query)
{
    return gpud_query_is_open(query) && !gpud_process_is_stopped(query->pid);
}

/* Calls who was not reached yet, and waits for the others until one says something or a slice is
 * over. false: nobody is left. */
static bool ask(struct gpud_channels *channels, int64_t deadline)
{
    struct pollfd fds[GPUD_CHANNELS_MAX];
    bool waits = false;
    for (size_t i = 0; i < channels->count; i++) {
        struct gpud_query *query = &channels->channel[i]->query;
        if (query->state == GPUD_QUERY_CALLING)
            gpud_query_call(query);
        bool asked = query->state == GPUD_QUERY_ASKED;
        fds[i] = (struct pollfd){.fd = asked ? query->channel->fd : -1, .events = POLLIN};
        waits |= is_worth_waiting_for(query);
    }
    int64_t now = gpud_now();
    if (!waits || now >= deadline)
        return false;
    struct timespec slice = gpud_timespec(deadline - now < SLICE ? deadline - now : SLICE);
    ppoll(fds, channels->count, &slice, NULL);
    for (size_t i = 0; i < channels->count; i++)
        if (fds[i].revents)
            gpud_query_read(&channels->channel[i]->query);
    return true;
}

/* Nobody is there: not told of, and where the system lists it that is set right. */
static void drop_nobody(struct gpud_channels *channels)
{
    size_t kept = 0;
    for (size_t i = 0; i < channels->count; i++) {
        struct channel *channel = channels->channel[i];
        if (channel->query.state != GPUD_QUERY_NOBODY) {
            channels->channel[kept++] = channel;
            continue;
        }
        if (channel->listed)
            gpud_address_forget(&channel->query.address);
        free(channel);
    }
    channels->count = kept;
}

/* --- the public calls ---------------------------------------------------------------------- */

static enum gpud_status add(struct gpud_channels *channels, const struct gpud_address *address,
                            bool listed, struct gpud_error *error)
{
    struct channel *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a channel");
    made->query.address = *address;
    made->listed = listed;
    channels->channel[channels->count++] = made;
    return GPUD_OK;
}

static enum gpud_status find(struct gpud_channels *channels, const char *address,
                             struct gpud_error *error)
{
    struct gpud_address one;
    enum gpud_status status;
    if (address) {
        gpud_address_directory(channels->directory, NULL);
        status = gpud_address_resolve(address, &one, error);
        return status == GPUD_OK ? add(channels, &one, false, error) : status;
    }
    size_t count = 0;
    struct gpud_address *found = calloc(GPUD_CHANNELS_MAX, sizeof(*found));
    if (!found)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of channels");
    status = gpud_address_list(found, GPUD_CHANNELS_MAX, &count, channels->directory, error);
    for (size_t i = 0; i < count && status == GPUD_OK; i++)
        status = add(channels, &found[i], true, error);
    free(found);
    return status;
}

enum gpud_status gpud_channels_create(const char *address, int64_t timeout_ns,
                                      struct gpud_channels **channels, struct gpud_error *error)
{
    if (timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
    struct gpud_channels *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of channels");
    enum gpud_status status = find(made, address, error);
    int64_t deadline = gpud_deadline(timeout_ns);
    while (status == GPUD_OK && ask(made, deadline))
        ;
    if (status != GPUD_OK) {
        gpud_channels_destroy(&made);
        return status;
    }
    for (size_t i = 0; i < made->count; i++)
        gpud_query_give_up(&made->channel[i]->query);
    drop_nobody(made);
    *channels = made;
    return GPUD_OK;
}

void gpud_channels_destroy(struct gpud_channels **channels)
{
    if (!channels || !*channels)
        return;
    for (size_t i = 0; i < (*channels)->count; i++) {
        gpud_query_close(&(*channels)->channel[i]->query);
        free((*channels)->channel[i]);
    }
    free(*channels);
    *channels = NULL;
}

size_t gpud_channels_count(const struct gpud_channels *channels)
{
    return channels->count;
}

const char *gpud_channels_get_directory(const struct gpud_channels *channels)
{
    return channels->directory;
}

/* --- what was found ------------------------------------------------------------------------ */

static void fill_report(struct gpud_channel_info *info, const struct gpud_report *report)
{
    info->answered = true;
    gpud_print(info->name, "%s", report->name);
    gpud_print(info->device, "%s", report->device);
    info->configured = report->epoch != 0;
    info->ended = report->ended;
    info->epoch = report->epoch;
    info->layout = report->layout;
    info->media_size = report->media_size;
    memcpy(info->media, report->media, report->media_size);
    info->slots = report->slots;
    info->slow_receiver = (enum gpud_slow_receiver)report->slow_receiver;
    info->links = report->links;
    info->frames = report->frames;
    info->delivered = report->delivered;
    info->dropped = report->dropped;
    info->connects = report->connects;
    info->rate = (double)report->rate / 1000;
    info->age = report->age;
}

enum gpud_status gpud_channels_get_info(const struct gpud_channels *channels, size_t index,
                                        struct gpud_channel_info *info, struct gpud_error *error)
{
    struct gpud_channel_info full = {.size = sizeof(full)};
    if (index >= channels->count)
        return gpud_fail(error, GPUD_INVALID, "channel %zu of %zu", index, channels->count);
    if (info->size < sizeof(info->size))
        return gpud_fail(error, GPUD_INVALID,
                         "gpud_channel_info.size is not set: use GPUD_INFO_INIT");
    const struct gpud_query *query = &channels->channel[index]->query;
    gpud_print(full.address, "%s", query->address.text);
    full.pid = query->pid;
    gpud_process_name(query->pid, full.program, sizeof(full.program));
    if (query->state == GPUD_QUERY_ANSWERED)
        fill_report(&full, &query->report);
    else
        gpud_print(full.reason, "%s", query->reason);
    gpud_sized_copy(info, info->size, &full, sizeof(full));
    return GPUD_OK;
}

size_t gpud_channels_list_links(const struct gpud_channels *channels, size_t index,
                                struct gpud_link_info *infos, size_t max)
{
    if (index >= channels->count || channels->channel[index]->query.state != GPUD_QUERY_ANSWERED)
        return 0;
    const struct gpud_query *query = &channels->channel[index]->query;
    for (uint32_t i = 0; i < query->link_count; i++)
        gpud_sized_entry(infos, max, i, &query->link[i], sizeof(query->link[i]));
    return query->link_count;
}
