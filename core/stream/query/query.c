/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Asks senders what they send, and to whom. */
#include "stream/query/query.h"

#include "base/base.h"
#include "frame/media/media.h"

#include <gpudirect/channel.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* === query =================================================================================== */

/* What a host without the sender's key learns of its channels. */
static const char name_only[] = "its host tells its name only: ask there";

static void query_fail(struct gpud_query *query, const char *reason)
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
    query_fail(query, reason);
}

void gpud_query_call(struct gpud_query *query)
{
    if (query->address.receiver) {
        char reason[160], name[64] = "";
        gpud_process_name(query->address.receiver, name, sizeof(name));
        gpud_print(reason, "process %ld (%s) receives it; ask on the host that sends it",
                   (long)query->address.receiver, name);
        query->user = -1;
        query->pid = 0;
        query_fail(query, reason);
        return;
    }
    struct gpud_message message = {.type = GPUD_MESSAGE_QUERY};
    struct gpud_error error = {.reason = ""};
    struct gpud_peer peer;
    enum gpud_status status = gpud_channel_ask(&query->address, &query->channel, &peer, &error);
    query->pid = peer.pid;
    query->user = status == GPUD_OK && peer.uid != (uid_t)-1 ? (int64_t)peer.uid : -1;
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
        query_fail(query, error.reason);
    }
}

/* --- the answer ---------------------------------------------------------------------------- */

static enum gpud_status query_handle(struct gpud_query *query, const struct gpud_message *message,
                                     struct gpud_error *error)
{
    const struct gpud_report *report = &message->report;
    const struct gpud_links *links = &message->links;
    switch (message->type) {
    case GPUD_MESSAGE_STATUS:
        if (query->reported)
            return gpud_fail(error, GPUD_PEER, "broke the protocol: two answers to one question");
        if (report->epoch && gpud_media_check(&report->media, error) != GPUD_OK)
            return GPUD_PEER;
        query->report = *report;
        query->reported = true;
        return GPUD_OK;
    case GPUD_MESSAGE_LINKS:
        if (!query->reported || links->count > query->report.links - query->link_count)
            return gpud_fail(error, GPUD_PEER,
                             "broke the protocol: it lists more receivers than it has");
        for (uint32_t i = 0; i < links->count; i++) {
            struct gpud_link_info *link = &query->link[query->link_count];
            *link = links->link[i];
            query->links[query->link_count++] = link;
        }
        return GPUD_OK;
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
            status = query_handle(query, &message, &error);
            gpud_message_close(&message);
        } else if (status == GPUD_CLOSED) {
            gpud_fail(&error, status,
                      "hung up without an answer: it is ending, or is of a release that does not "
                      "answer queries");
        }
        if (status == GPUD_NO_ACCESS && gpud_address_get_host(query->address.text)) {
            query_fail(query, name_only); /* the sender has a key, which questions do not give */
        } else if (status != GPUD_OK) {
            query_fail(query, error.reason);
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

/* === channel ================================================================================= */
/* All channels of the user, asked at once. */

/* How often a sender whose queue was full is tried again, and stopped senders are detected. */
#define SLICE (20 * GPUD_MSEC)

/* Guaranteed to each process; beyond them it gets what others leave, so that a process that listens
 * on ten thousand sockets hides only its own. */
#define PLACES_A_PROCESS (GPUD_CHANNELS_MAX / 8)

struct gpud_channel_list {
    struct gpud_channel_search_info search;
    uint32_t count;
    struct gpud_query *channel[GPUD_CHANNELS_MAX];
    struct gpud_query *spare; /* for the next call; NULL: none */
};

/* --- which senders have a place ------------------------------------------------------------ */

static size_t count_places(const struct gpud_channel_list *channels, pid_t pid)
{
    size_t places = 0;
    for (size_t i = 0; i < channels->count; i++)
        places += channels->channel[i]->pid == pid;
    return places;
}

/* Returns the index of a query to the process with the most places, preferably one without an
 * answer, of those the oldest. */
static size_t choose_eviction(const struct gpud_channel_list *channels)
{
    size_t chosen = 0, most = 0;
    for (size_t i = 0; i < channels->count; i++) {
        const struct gpud_query *query = channels->channel[i];
        size_t weight = 2 * count_places(channels, query->pid);
        weight += query->state != GPUD_QUERY_ANSWERED;
        if (weight > most) {
            chosen = i;
            most = weight;
        }
    }
    return chosen;
}

static void channel_discard(struct gpud_query *query)
{
    gpud_query_close(query);
    free(query);
}

/* Takes ownership of the query. */
static void give_place(struct gpud_channel_list *channels, struct gpud_query *query)
{
    if (channels->count == GPUD_CHANNELS_MAX) {
        channels->search.omitted++;
        if (count_places(channels, query->pid) >= PLACES_A_PROCESS) {
            channel_discard(query);
            return;
        }
        for (size_t i = 0; i < channels->count; i++)
            gpud_query_read(channels->channel[i]);
        size_t evicted = choose_eviction(channels);
        channel_discard(channels->channel[evicted]);
        memmove(&channels->channel[evicted], &channels->channel[evicted + 1],
                (--channels->count - evicted) * sizeof(channels->channel[0]));
    }
    channels->channel[channels->count++] = query;
}

/* Omits dead senders. forget: the address is from the system's list; a stale entry is removed. */
static enum gpud_status channel_call(struct gpud_channel_list *channels,
                                     const struct gpud_address *address, bool forget,
                                     struct gpud_error *error)
{
    struct gpud_query *query = channels->spare ? channels->spare : calloc(1, sizeof(*query));
    if (!query)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a channel");
    channels->spare = NULL;
    query->address = *address;
    gpud_query_call(query);
    if (query->state != GPUD_QUERY_NO_SENDER) {
        give_place(channels, query);
        return GPUD_OK;
    }
    if (forget)
        gpud_address_forget(address);
    query->state = GPUD_QUERY_CALLING; /* as new: nothing else was written */
    channels->spare = query;
    return GPUD_OK;
}

/* Connects to senders not reached yet, and waits until an answer arrives or a slice has passed.
 * false: no query is pending. */
static bool channel_ask(struct gpud_channel_list *channels, int64_t deadline)
{
    struct pollfd fds[GPUD_CHANNELS_MAX];
    bool waits = false;
    for (size_t i = 0; i < channels->count; i++) {
        struct gpud_query *query = channels->channel[i];
        if (query->state == GPUD_QUERY_CALLING)
            gpud_query_call(query);
        bool asked = query->state == GPUD_QUERY_ASKED;
        fds[i] = (struct pollfd){.fd = asked ? query->channel->fd : -1, .events = POLLIN};
        waits |= gpud_query_is_open(query) && !gpud_process_is_stopped(query->pid);
    }
    int64_t now = gpud_now();
    if (!waits || now >= deadline)
        return false;
    struct timespec slice = gpud_timespec(deadline - now < SLICE ? deadline - now : SLICE);
    ppoll(fds, channels->count, &slice, NULL);
    for (size_t i = 0; i < channels->count; i++)
        if (fds[i].revents)
            gpud_query_read(channels->channel[i]);
    return true;
}

/* Bare names first, then their streams, then other folders and the network. */
static int channel_rank(const char *address)
{
    return strchr(address, ':') ? 2 : strchr(address, '/') ? 1 : 0;
}

static int channel_compare(const void *a, const void *b)
{
    const struct gpud_query *const *x = a, *const *y = b;
    const char *one = (*x)->address.text, *other = (*y)->address.text;
    int ranks = channel_rank(one) - channel_rank(other);
    return ranks ? ranks : strcmp(one, other);
}

/* --- the public calls ---------------------------------------------------------------------- */

static enum gpud_status call_one(struct gpud_channel_list *channels, const char *text,
                                 struct gpud_error *error)
{
    struct gpud_address address;
    char hint[GPUD_REASON_MAX];
    gpud_address_directory(channels->search.directory, NULL);
    enum gpud_status status = gpud_address_resolve(text, &address, error);
    address.any_owner = true;
    if (status == GPUD_OK)
        status = channel_call(channels, &address, false, error);
    if (status != GPUD_OK || channels->count > 0)
        return status;
    gpud_address_hint(&address, hint, sizeof(hint));
    gpud_print(channels->search.note, "no sender listens on %s%s%s", address.place,
               hint[0] ? "; " : "", hint);
    return GPUD_OK;
}

static enum gpud_status call_all(struct gpud_channel_list *channels, const char *folder,
                                 struct gpud_error *error)
{
    struct gpud_address *found;
    size_t count;
    enum gpud_status status = gpud_address_list(folder, &found, &count, &channels->search.omitted,
                                                channels->search.directory, error);
    if (status != GPUD_OK)
        return status;
    for (size_t i = 0; i < count && status == GPUD_OK; i++)
        status = channel_call(channels, &found[i], !found[i].any_owner, error);
    free(found);
    return status;
}

/* The channels at a port of another host, of which only the names are known here. */
static enum gpud_status call_port(struct gpud_channel_list *channels, const char *port,
                                  int64_t deadline, struct gpud_error *error)
{
    struct gpud_address *found = NULL;
    size_t count = 0;
    struct gpud_error why;
    gpud_address_directory(channels->search.directory, NULL);
    enum gpud_status status =
        gpud_address_list_port(port, deadline, &found, &count, &channels->search.omitted, &why);
    if (status == GPUD_CLOSED) { /* nothing listens there: an empty list with a note */
        gpud_print(channels->search.note, "%s", why.reason);
        return GPUD_OK;
    }
    for (size_t i = 0; i < count && status == GPUD_OK; i++) {
        struct gpud_query *query = calloc(1, sizeof(*query));
        if (!query) {
            status = gpud_fail(&why, GPUD_NO_MEMORY, "out of memory for a channel");
            break;
        }
        query->address = found[i];
        query->user = -1;
        query_fail(query, name_only);
        give_place(channels, query);
    }
    free(found);
    return status == GPUD_OK
               ? status
               : gpud_fail_native(error, status, why.origin, why.native, "%s", why.reason);
}

/* The channels that hosts of the network announce. */
static enum gpud_status call_network(struct gpud_channel_list *channels, int64_t deadline,
                                     struct gpud_error *error)
{
    struct gpud_found *found = NULL;
    struct gpud_found_rest rest;
    size_t count = 0;
    char reason[GPUD_REASON_MAX];
    struct gpud_error why;
    gpud_print(channels->search.directory, "%s", GPUD_CHANNELS_NETWORK);
    enum gpud_status status = gpud_announce_search(deadline, &found, &count, &rest, &why);
    if (status != GPUD_OK) { /* nothing was asked, which is not a failure of what is listed */
        gpud_print(channels->search.note, "%s", why.reason);
        return GPUD_OK;
    }
    for (size_t i = 0; i < count && status == GPUD_OK; i++) {
        const struct gpud_found *one = &found[i];
        struct gpud_query *query = calloc(1, sizeof(*query));
        if (!query) {
            status = gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a channel");
            break;
        }
        gpud_print(query->address.text, "%s://%s:%u%s%s", one->scheme, one->host, one->port,
                   one->name[0] ? "/" : "", one->name);
        query->user = -1;
        query->found = *one;
        gpud_print(reason, "announced by %s (%s); ask there what it sends to whom", one->host,
                   one->address);
        query_fail(query, reason);
        give_place(channels, query);
    }
    channels->search.omitted = rest.omitted;
    char omitted[80] = "", invalid[80] = "";
    if (rest.omitted > 0)
        gpud_print(omitted, "%zu more are announced than are listed", rest.omitted);
    if (rest.invalid > 0)
        gpud_print(invalid, "%zu announcements make no sense and are left out", rest.invalid);
    gpud_print(channels->search.note, "%s%s%s", omitted, omitted[0] && invalid[0] ? "; " : "",
               invalid);
    free(found);
    return status;
}

/* "unix:/run/studio/": the folder without the final slash. false: it is not a folder. */
static bool read_folder(const char *address, char folder[GPUD_ADDRESS_MAX])
{
    size_t length = address ? strlen(address) : 0;
    if (length < strlen("unix:/a/") || length >= GPUD_ADDRESS_MAX ||
        strncmp(address, "unix:/", 6) != 0 || address[length - 1] != '/')
        return false;
    gpud_print_n(folder, GPUD_ADDRESS_MAX, "%.*s", (int)(length - 6), address + 5);
    return true;
}

enum gpud_status gpud_channel_list_create(const char *address, int64_t timeout_ns,
                                          struct gpud_channel_list **channels, uint32_t *count,
                                          struct gpud_channel_search_info *search,
                                          struct gpud_error *error)
{
    char folder[GPUD_ADDRESS_MAX];
    if (timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
    struct gpud_channel_list *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of channels");
    bool is_folder = read_folder(address, folder);
    enum gpud_status status;
    if (address && strcmp(address, GPUD_CHANNELS_NETWORK) == 0)
        status = call_network(made, gpud_deadline(timeout_ns), error);
    else if (address && gpud_address_is_port(address))
        status = call_port(made, address, gpud_deadline(timeout_ns), error);
    else if (address && !is_folder)
        status = call_one(made, address, error);
    else
        status = call_all(made, is_folder ? folder : NULL, error);
    int64_t deadline = gpud_deadline(timeout_ns);
    while (status == GPUD_OK && channel_ask(made, deadline))
        ;
    if (status != GPUD_OK) {
        gpud_channel_list_destroy(&made);
        return status;
    }
    uint32_t kept = 0;
    for (size_t i = 0; i < made->count; i++) {
        struct gpud_query *query = made->channel[i];
        gpud_query_give_up(query);
        if (query->state == GPUD_QUERY_NO_SENDER) /* it ended while its queue was full */
            channel_discard(query);
        else
            made->channel[kept++] = query;
    }
    made->count = kept;
    if (kept > 0)
        qsort(made->channel, kept, sizeof(made->channel[0]), channel_compare);
    if (made->search.omitted > 0 && !made->search.note[0])
        gpud_print(made->search.note,
                   "%zu more are not listed, as there is room for %d: query one by its address",
                   made->search.omitted, GPUD_CHANNELS_MAX);
    *channels = made;
    if (count)
        *count = made->count;
    if (search)
        gpud_sized_copy(search, search->size, &made->search, sizeof(made->search));
    return GPUD_OK;
}

void gpud_channel_list_destroy(struct gpud_channel_list **channels)
{
    if (!channels || !*channels)
        return;
    for (size_t i = 0; i < (*channels)->count; i++)
        channel_discard((*channels)->channel[i]);
    free((*channels)->spare);
    free(*channels);
    *channels = NULL;
}

enum gpud_status gpud_channel_list_get_info(const struct gpud_channel_list *channels,
                                            uint32_t index, struct gpud_channel_info *info,
                                            struct gpud_error *error)
{
    struct gpud_channel_info full = {.size = sizeof(full)};
    if (index >= channels->count)
        return gpud_fail(error, GPUD_INVALID, "channel %u of %u", index, channels->count);
    if (info->size < sizeof(info->size))
        return gpud_fail(error, GPUD_INVALID,
                         "gpud_channel_info.size is not set: use GPUD_INFO_INIT");
    const struct gpud_query *query = channels->channel[index];
    const struct gpud_report *report = &query->report;
    gpud_print(full.address, "%s", query->address.text);
    full.pid = query->pid;
    full.user = query->user;
    full.receiver_pid = query->address.receiver;
    gpud_process_name(query->pid, full.program, sizeof(full.program));
    if (query->found.scheme[0]) {
        full.announced = true;
        full.encrypted = query->found.encrypted;
        full.own_host = query->found.own_host;
        gpud_print(full.host, "%s", query->found.host);
        gpud_print(full.host_address, "%s", query->found.address);
        gpud_print(full.version, "%s", query->found.version);
        full.configured =
            query->found.media[0] &&
            gpud_media_from_string(&full.media, query->found.media, NULL) == GPUD_OK &&
            gpud_media_check(&full.media, NULL) == GPUD_OK;
    }
    full.answered = query->state == GPUD_QUERY_ANSWERED;
    if (full.answered) {
        gpud_print(full.name, "%s", report->name);
        gpud_print(full.device, "%s", report->device);
        full.configured = report->epoch != 0;
        full.ended = report->ended;
        full.epoch = report->epoch;
        full.media = report->media;
        full.slots = report->slots;
        full.slow_receiver = (enum gpud_slow_receiver)report->slow_receiver;
        full.links = query->link_count;
        full.link = query->links;
        full.frames = report->frames;
        full.delivered = report->delivered;
        full.dropped = report->dropped;
        full.connects = report->connects;
        full.rate = (double)report->rate / 1000;
        full.age_ns = report->age;
        full.disconnects = report->disconnects;
        full.refused = report->refused;
        full.copies_cpu = report->copies_cpu;
        full.copies_gpu = report->copies_gpu;
        full.waits_cpu = report->waits_cpu;
        full.waits_device = report->waits_device;
    } else {
        gpud_print(full.reason, "%s", query->reason);
    }
    gpud_sized_copy(info, info->size, &full, sizeof(full));
    return GPUD_OK;
}
