/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One description of each message serves both directions: a codec writes or reads the fields, so
 * that encoder and decoder cannot disagree. A value that does not fit or is invalid sets `bad`;
 * from then on nothing is written, and zeros are read. */
#include "wire/wire.h"

#include "base/base.h"
#include "frame/media/media.h"

#include <string.h>

#define HEADER_SIZE 16 /* magic, version and type, length, position */

struct codec {
    bool writing, bad, full;
    uint8_t *out;
    const uint8_t *in;
    size_t at, size;
};

/* Whether that many bytes are left to write or to read. */
static bool message_has_room(struct codec *codec, size_t bytes)
{
    if (!codec->bad && codec->size - codec->at < bytes)
        codec->bad = codec->full = true;
    return !codec->bad;
}

static void number(struct codec *codec, uint64_t *value, unsigned bytes)
{
    if (!message_has_room(codec, bytes)) {
        if (!codec->writing)
            *value = 0;
        return;
    }
    uint64_t read = 0;
    for (unsigned i = 0; i < bytes; i++) {
        if (codec->writing)
            codec->out[codec->at + i] = (uint8_t)(*value >> (8 * i));
        else
            read |= (uint64_t)codec->in[codec->at + i] << (8 * i);
    }
    if (!codec->writing)
        *value = read;
    codec->at += bytes;
}

#define FIELD(name, type, bytes)                       \
    static void name(struct codec *codec, type *value) \
    {                                                  \
        uint64_t wide = *value;                        \
        number(codec, &wide, bytes);                   \
        *value = (type)wide;                           \
    }
FIELD(u8, uint8_t, 1)
FIELD(u32, uint32_t, 4)
FIELD(u64, uint64_t, 8)

static void raw(struct codec *codec, void *data, size_t size)
{
    if (!message_has_room(codec, size)) {
        if (!codec->writing)
            memset(data, 0, size);
        return;
    }
    if (codec->writing)
        memcpy(codec->out + codec->at, data, size);
    else
        memcpy(data, codec->in + codec->at, size);
    codec->at += size;
}

/* A count of elements that follow; one above `max` is bad. */
static uint32_t message_count(struct codec *codec, uint32_t *value, uint32_t max)
{
    u32(codec, value);
    if (*value > max)
        codec->bad = true;
    if (codec->bad && !codec->writing)
        *value = 0;
    return codec->bad ? 0 : *value;
}

static void counted(struct codec *codec, void *data, uint32_t *size, uint32_t max)
{
    raw(codec, data, message_count(codec, size, max));
}

/* Text in an array; when read, it is terminated and cleaned for a terminal. */
static void text(struct codec *codec, char *data, uint32_t max)
{
    uint32_t size = codec->writing ? (uint32_t)strnlen(data, max - 1) : 0;
    counted(codec, data, &size, max - 1);
    if (codec->writing)
        return;
    data[size] = '\0';
    gpud_text_clean(data, size);
}

static void message_handle(struct codec *codec, struct gpud_handle *handle)
{
    handle->keep = false;
    u32(codec, &handle->type);
    u64(codec, &handle->size);
    if (!codec->writing) {
        memset(handle->word, 0, sizeof(handle->word));
        handle->fd = -1;
    }
    const struct gpud_handle_kind *kind = gpud_handle_find_kind(handle->type);
    if (!kind)
        codec->bad = true;
    for (uint32_t i = 0; kind && i < kind->words; i++)
        u64(codec, &handle->word[i]);
}

static void ring(struct codec *codec, struct gpud_ring_description *ring)
{
    u64(codec, &ring->slot_size);
    u32(codec, &ring->slots_per_memory);
    uint32_t memories = message_count(codec, &ring->memories, GPUD_RING_MEMORIES_MAX);
    for (uint32_t i = 0; i < memories; i++)
        message_handle(codec, &ring->handle[i]);
}

static void member(struct codec *codec, const struct gpud_media_member *member, void *at)
{
    if (member->width == 0) {
        text(codec, at, member->count);
        return;
    }
    for (uint8_t i = 0; i < member->count; i++) {
        void *one = (uint8_t *)at + (size_t)i * member->width;
        uint64_t value = gpud_media_get_number(one, member->width);
        number(codec, &value, member->width);
        if (!gpud_media_allows(member, value)) {
            codec->bad = true;
            value = 0;
        }
        gpud_media_set_number(one, member->width, value);
    }
}

static void media(struct codec *codec, struct gpud_media *media)
{
    uint32_t number = codec->writing ? (uint32_t)media->kind : 0;
    if (!codec->writing)
        memset(media, 0, sizeof(*media));
    u32(codec, &number);
    const struct gpud_media_kind_ops *kind = gpud_media_find_kind(number);
    if (!kind) {
        codec->bad = true;
        return;
    }
    media->kind = (enum gpud_media_kind)number;
    struct gpud_media_walk walk = {.kind = kind};
    const struct gpud_media_member *next;
    while ((next = gpud_media_next(&walk, media)) != NULL)
        member(codec, next, (uint8_t *)media + walk.offset);
    text(codec, media->extra, sizeof(media->extra));
}

static void endpoint(struct codec *codec, struct gpud_endpoint *endpoint)
{
    text(codec, endpoint->name, sizeof(endpoint->name));
    text(codec, endpoint->device, sizeof(endpoint->device));
    text(codec, endpoint->kind, sizeof(endpoint->kind));
    u32(codec, &endpoint->caps);
    raw(codec, endpoint->uuid, sizeof(endpoint->uuid));
    text(codec, endpoint->pci, sizeof(endpoint->pci));
    u64(codec, &endpoint->aperture);
    text(codec, endpoint->no_direct, sizeof(endpoint->no_direct));
    uint32_t reaches = message_count(codec, &endpoint->reach_count, GPUD_REACH_MAX);
    for (uint32_t i = 0; i < reaches; i++)
        raw(codec, endpoint->reach[i], sizeof(endpoint->reach[i]));
    if (!codec->writing)
        endpoint->common = NULL;
    u32(codec, &endpoint->host_rate);
    u64(codec, &endpoint->token);
    raw(codec, endpoint->host, sizeof(endpoint->host));
    u64(codec, &endpoint->time_namespace);
    text(codec, endpoint->network.card, sizeof(endpoint->network.card));
    if (endpoint->network.card[0]) {
        u32(codec, &endpoint->network.ways);
        text(codec, endpoint->network.no_dmabuf, sizeof(endpoint->network.no_dmabuf));
        text(codec, endpoint->network.no_peermem, sizeof(endpoint->network.no_peermem));
    } else if (!codec->writing) {
        memset(&endpoint->network, 0, sizeof(endpoint->network));
    }
    text(codec, endpoint->route, sizeof(endpoint->route));
    u32(codec, &endpoint->slots);
    u8(codec, &endpoint->slow_receiver);
    u8(codec, &endpoint->require_direct);
}

static void at_most(struct codec *codec, uint64_t value, uint64_t max)
{
    if (value > max)
        codec->bad = true;
}

static void message_report(struct codec *codec, struct gpud_report *report)
{
    text(codec, report->name, sizeof(report->name));
    text(codec, report->device, sizeof(report->device));
    u32(codec, &report->epoch);
    if (report->epoch) {
        media(codec, &report->media);
    } else if (!codec->writing) {
        memset(&report->media, 0, sizeof(report->media));
    }
    u8(codec, &report->ended);
    u8(codec, &report->slow_receiver);
    u32(codec, &report->slots);
    u32(codec, &report->links);
    u64(codec, &report->frames);
    u64(codec, &report->delivered);
    u64(codec, &report->dropped);
    u64(codec, &report->connects);
    u64(codec, &report->rate);
    u64(codec, &report->age);
    u64(codec, &report->disconnects);
    u64(codec, &report->refused);
    u64(codec, &report->copies_cpu);
    u64(codec, &report->copies_gpu);
    u64(codec, &report->waits_cpu);
    u64(codec, &report->waits_device);
    at_most(codec, report->ended, 1);
    at_most(codec, report->slow_receiver, GPUD_SLOW_DROP_OLDEST);
    at_most(codec, report->slots, GPUD_SLOTS_MAX);
    at_most(codec, report->links, GPUD_RECEIVERS_MAX);
}

/* Word by word, in its order. */
static void stats(struct codec *codec, struct gpud_link_stats *stats)
{
    uint64_t word[GPUD_PAGE_STATS];
    memcpy(word, stats, sizeof(word));
    for (size_t i = 0; i < GPUD_PAGE_STATS; i++)
        u64(codec, &word[i]);
    memcpy(stats, word, sizeof(word));
}

static void link(struct codec *codec, struct gpud_link_info *link)
{
    uint64_t pid = (uint64_t)link->pid;
    uint8_t phase = (uint8_t)link->phase, slow_receiver = (uint8_t)link->slow_receiver;
    uint8_t degraded = (uint8_t)link->degraded;
    u64(codec, &link->id);
    u64(codec, &pid);
    text(codec, link->name, sizeof(link->name));
    text(codec, link->device, sizeof(link->device));
    text(codec, link->path, sizeof(link->path));
    text(codec, link->fallback_reason, sizeof(link->fallback_reason));
    u8(codec, &phase);
    u8(codec, &slow_receiver);
    u32(codec, &link->held);
    u64(codec, &link->delivered);
    u64(codec, &link->waiting);
    u64(codec, &link->dropped);
    u64(codec, &link->latency_ns);
    text(codec, link->host, sizeof(link->host));
    text(codec, link->encrypted, sizeof(link->encrypted));
    u64(codec, &link->dropped_newest);
    u64(codec, &link->dropped_oldest);
    u64(codec, &link->dropped_failed);
    u64(codec, &link->dropped_format);
    stats(codec, &link->stats);
    u8(codec, &degraded);
    at_most(codec, pid, INT32_MAX);
    at_most(codec, phase, GPUD_PHASE_LEAVING);
    at_most(codec, slow_receiver, GPUD_SLOW_DROP_OLDEST);
    at_most(codec, degraded, GPUD_DEGRADED_FAILED);
    if (codec->writing)
        return;
    link->degraded = (enum gpud_degraded)degraded;
    link->size = sizeof(*link);
    link->pid = (int64_t)pid;
    link->phase = (enum gpud_link_phase)phase;
    link->slow_receiver = (enum gpud_slow_receiver)slow_receiver;
}

static void links(struct codec *codec, struct gpud_links *links)
{
    uint32_t listed = message_count(codec, &links->count, GPUD_LINKS_A_MESSAGE);
    if (listed == 0)
        codec->bad = true;
    for (uint32_t i = 0; i < listed; i++)
        link(codec, &links->link[i]);
}

static void body(struct codec *codec, struct gpud_message *message)
{
    switch (message->type) {
    case GPUD_MESSAGE_HELLO:
        endpoint(codec, &message->hello);
        break;
    case GPUD_MESSAGE_OFFER:
        u32(codec, &message->offer.epoch);
        text(codec, message->offer.route, sizeof(message->offer.route));
        text(codec, message->offer.reason, sizeof(message->offer.reason));
        u8(codec, &message->offer.degraded);
        at_most(codec, message->offer.degraded, GPUD_DEGRADED_FAILED);
        u32(codec, &message->offer.signal);
        u32(codec, &message->offer.large_meta_max);
        at_most(codec, message->offer.large_meta_max, GPUD_LARGE_META_MAX);
        u32(codec, &message->offer.slots);
        u32(codec, &message->offer.slots_max);
        at_most(codec, message->offer.slots_max, GPUD_SLOTS_MAX);
        at_most(codec, message->offer.slots, message->offer.slots_max);
        media(codec, &message->offer.media);
        message_handle(codec, &message->offer.page);
        ring(codec, &message->offer.ring);
        break;
    case GPUD_MESSAGE_ACCEPT:
        u32(codec, &message->accept.epoch);
        u32(codec, &message->accept.entries);
        message_handle(codec, &message->accept.page);
        message_handle(codec, &message->accept.large_metas);
        ring(codec, &message->accept.ring);
        break;
    case GPUD_MESSAGE_CANARY:
        u32(codec, &message->canary.epoch);
        u64(codec, &message->canary.nonce);
        break;
    case GPUD_MESSAGE_READY:
    case GPUD_MESSAGE_EOS:
        u32(codec, &message->epoch);
        break;
    case GPUD_MESSAGE_REFUSE:
    case GPUD_MESSAGE_BYE:
        u32(codec, &message->refuse.epoch);
        u32(codec, &message->refuse.status);
        text(codec, message->refuse.reason, sizeof(message->refuse.reason));
        break;
    case GPUD_MESSAGE_EVENT:
        u32(codec, &message->event.kind);
        counted(codec, message->event.data, &message->event.size, GPUD_EVENT_SIZE_MAX);
        break;
    case GPUD_MESSAGE_GROW:
        ring(codec, &message->grow);
        break;
    case GPUD_MESSAGE_SHRINK:
        u32(codec, &message->shrink);
        break;
    case GPUD_MESSAGE_SLOTS:
        u32(codec, &message->slots);
        at_most(codec, message->slots, GPUD_SLOTS_MAX);
        break;
    case GPUD_MESSAGE_QUERY:
    case GPUD_MESSAGE_KICK:
        break;
    case GPUD_MESSAGE_STATUS:
        message_report(codec, &message->report);
        break;
    case GPUD_MESSAGE_LINKS:
        links(codec, &message->links);
        break;
    default:
        codec->bad = true;
    }
}

static void header(struct codec *codec, uint32_t *magic, uint32_t *version_type, uint32_t *length,
                   uint32_t *position)
{
    u32(codec, magic);
    u32(codec, version_type);
    u32(codec, length);
    u32(codec, position);
}

enum gpud_status gpud_message_encode(struct gpud_message *message, uint8_t *bytes, size_t room,
                                     size_t *size, struct gpud_error *error)
{
    struct codec codec = {.writing = true, .out = bytes, .size = room};
    uint32_t magic = GPUD_MESSAGE_MAGIC, length = 0;
    uint32_t version_type = GPUD_MESSAGE_VERSION | (uint32_t)message->type << 16;
    uint32_t position = message->position;
    header(&codec, &magic, &version_type, &length, &position);
    body(&codec, message);
    if (codec.full)
        return gpud_fail(error, GPUD_INVALID,
                         "a %s of more than %zu bytes cannot be sent: it would fit with fewer "
                         "receivers that map the ring",
                         gpud_message_name(message->type), room);
    if (codec.bad)
        return gpud_fail(error, GPUD_INVALID, "a %s that no peer would understand cannot be sent",
                         gpud_message_name(message->type));
    length = (uint32_t)codec.at;
    codec.at = 0;
    header(&codec, &magic, &version_type, &length, &position);
    *size = length;
    return GPUD_OK;
}

enum gpud_status gpud_message_decode(struct gpud_message *message, const uint8_t *bytes,
                                     size_t size, struct gpud_error *error)
{
    struct codec codec = {.in = bytes, .size = size};
    uint32_t magic = 0, version_type = 0, length = 0, position = 0;
    if (size < HEADER_SIZE)
        return gpud_fail(error, GPUD_PEER, "the peer sent %zu bytes: not even a header", size);
    header(&codec, &magic, &version_type, &length, &position);
    if (magic != GPUD_MESSAGE_MAGIC)
        return gpud_fail(error, GPUD_PEER, "the peer does not speak gpudirect's protocol");
    if ((version_type & 0xffff) != GPUD_MESSAGE_VERSION)
        return gpud_fail(
            error, GPUD_UNSUPPORTED,
            "the peer speaks version %u of the protocol, this library %d: use the same release",
            version_type & 0xffff, GPUD_MESSAGE_VERSION);
    if (length != size || size > GPUD_MESSAGE_MAX)
        return gpud_fail(error, GPUD_PEER, "the peer announced %u bytes and sent %zu", length,
                         size);

    message->type = (enum gpud_message_type)(version_type >> 16);
    message->position = position;
    body(&codec, message);
    if (codec.bad || codec.at != size)
        return gpud_fail(error, GPUD_PEER, "the peer sent a malformed %s",
                         gpud_message_name(message->type));
    return GPUD_OK;
}

static void list(struct gpud_handle *handle, struct gpud_handle **handles, size_t *count)
{
    const struct gpud_handle_kind *kind = gpud_handle_find_kind(handle->type);
    if (kind && kind->attachment)
        handles[(*count)++] = handle;
}

size_t gpud_message_attachments(struct gpud_message *message,
                                struct gpud_handle *handles[GPUD_MESSAGE_HANDLES])
{
    struct gpud_ring_description *ring = NULL;
    size_t count = 0;
    switch (message->type) {
    case GPUD_MESSAGE_OFFER:
        list(&message->offer.page, handles, &count);
        ring = &message->offer.ring;
        break;
    case GPUD_MESSAGE_ACCEPT:
        list(&message->accept.page, handles, &count);
        list(&message->accept.large_metas, handles, &count);
        ring = &message->accept.ring;
        break;
    case GPUD_MESSAGE_GROW:
        ring = &message->grow;
        break;
    default:
        break;
    }
    for (uint32_t i = 0; ring && i < ring->memories; i++)
        list(&ring->handle[i], handles, &count);
    return count;
}

static bool is_ring_of_network(const struct gpud_ring_description *ring)
{
    for (uint32_t i = 0; i < ring->memories; i++)
        if (ring->handle[i].type != GPUD_HANDLE_NETWORK)
            return false;
    return true;
}

static bool is_of_network(const struct gpud_handle *handle)
{
    return handle->type == GPUD_HANDLE_NONE || handle->type == GPUD_HANDLE_NETWORK;
}

bool gpud_message_can_travel(const struct gpud_message *message)
{
    switch (message->type) {
    case GPUD_MESSAGE_OFFER:
        return is_of_network(&message->offer.page) && is_ring_of_network(&message->offer.ring);
    case GPUD_MESSAGE_ACCEPT:
        return is_of_network(&message->accept.page) &&
               is_of_network(&message->accept.large_metas) &&
               is_ring_of_network(&message->accept.ring);
    case GPUD_MESSAGE_GROW:
        return is_ring_of_network(&message->grow);
    default:
        return true;
    }
}

const char *gpud_message_name(enum gpud_message_type type)
{
    static const char *const names[] = {
        [GPUD_MESSAGE_HELLO] = "HELLO",   [GPUD_MESSAGE_OFFER] = "OFFER",
        [GPUD_MESSAGE_ACCEPT] = "ACCEPT", [GPUD_MESSAGE_CANARY] = "CANARY",
        [GPUD_MESSAGE_READY] = "READY",   [GPUD_MESSAGE_REFUSE] = "REFUSE",
        [GPUD_MESSAGE_EVENT] = "EVENT",   [GPUD_MESSAGE_EOS] = "EOS",
        [GPUD_MESSAGE_GROW] = "GROW",     [GPUD_MESSAGE_BYE] = "BYE",
        [GPUD_MESSAGE_QUERY] = "QUERY",   [GPUD_MESSAGE_STATUS] = "STATUS",
        [GPUD_MESSAGE_LINKS] = "LINKS",   [GPUD_MESSAGE_KICK] = "KICK",
        [GPUD_MESSAGE_SHRINK] = "SHRINK", [GPUD_MESSAGE_SLOTS] = "SLOTS",
    };
    return (unsigned)type < sizeof(names) / sizeof(names[0]) && names[type] ? names[type]
                                                                            : "message";
}
