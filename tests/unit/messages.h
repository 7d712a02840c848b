/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Texts, layouts and media in which every byte is significant; the smallest and the largest message
 * of every type. */
#ifndef GPUD_TESTS_MESSAGES_H
#define GPUD_TESTS_MESSAGES_H

#include "wire/wire.h"

#include <string.h>

#define KINDS_MAX 256 /* of handles */

static inline void fill_text(char *text, size_t size, char first)
{
    for (size_t i = 0; i + 1 < size; i++)
        text[i] = (char)(first + (char)(i % 10));
    text[size - 1] = '\0';
}

static inline void fill_layout(struct gpud_layout *layout)
{
    fill_text(layout->format, sizeof(layout->format), 'A');
    layout->width = 1366;
    layout->height = 767;
    layout->planes = 4;
    for (unsigned i = 0; i < 4; i++)
        layout->plane[i] =
            (struct gpud_plane){UINT64_MAX - i, UINT32_MAX - i, 0x01020304u + i, 767 + i};
    layout->size = UINT64_C(0xfedcba9876543210);
    layout->modifier = UINT64_C(0x0123456789abcdef);
}

/* Every member of a picture, each with a different number. */
static inline void fill_media(struct gpud_media *media)
{
    struct gpud_picture *picture = &media->picture;
    media->kind = GPUD_MEDIA_PICTURE;
    fill_layout(&picture->layout);
    picture->rate = (struct gpud_fraction){INT32_MAX, INT32_MAX - 1};
    picture->max_rate = (struct gpud_fraction){INT32_MAX - 2, INT32_MAX - 3};
    picture->pixel_aspect = (struct gpud_fraction){INT32_MAX - 4, INT32_MAX - 5};
    picture->scan = GPUD_SCAN_FIELDS;
    picture->field_order = GPUD_FIELD_ORDER_BOTTOM_FIRST;
    picture->picture_height = 2 * GPUD_DIMENSION_MAX;
    picture->colorimetry = (struct gpud_colorimetry){
        .primaries = GPUD_PRIMARIES_EBU3213,
        .transfer = GPUD_TRANSFER_GAMMA20,
        .matrix = GPUD_MATRIX_RGB,
        .range = GPUD_RANGE_LIMITED,
        .chroma_site = GPUD_CHROMA_DV,
    };
    picture->hdr = (struct gpud_hdr_metadata){
        .has_display = true,
        .has_light_level = true,
        .display_x = {UINT16_MAX, UINT16_MAX - 1, UINT16_MAX - 2},
        .display_y = {UINT16_MAX - 3, UINT16_MAX - 4, UINT16_MAX - 5},
        .white_x = UINT16_MAX - 6,
        .white_y = UINT16_MAX - 7,
        .max_luminance = UINT32_MAX,
        .min_luminance = UINT32_MAX - 1,
        .max_content_light = UINT16_MAX - 8,
        .max_frame_average_light = UINT16_MAX - 9,
    };
    picture->multiview = GPUD_MULTIVIEW_SEPARATED;
    picture->multiview_flags = UINT32_MAX - 2;
    picture->multiview_flags_mask = UINT32_MAX - 3;
    picture->views = INT32_MAX;
    fill_text(media->extra, sizeof(media->extra), 'k');
}

/* The kind of handles that takes the most room. */
static inline const struct gpud_handle_kind *largest_kind(void)
{
    const struct gpud_handle_kind *largest = gpud_handle_find_kind(GPUD_HANDLE_NONE);
    for (uint32_t type = 0; type < KINDS_MAX; type++) {
        const struct gpud_handle_kind *kind = gpud_handle_find_kind(type);
        if (kind && kind->words > largest->words)
            largest = kind;
    }
    return largest;
}

static inline void fill_handle(struct gpud_handle *handle, const struct gpud_handle_kind *kind,
                               unsigned n)
{
    handle->type = kind->type;
    handle->fd = -1;
    handle->size = UINT64_MAX - n;
    for (unsigned k = 0; k < kind->words; k++)
        handle->word[k] = UINT64_C(0x1111111111111111) * (k + 1) + n;
}

static inline void fill_ring(struct gpud_ring_description *ring, uint32_t memories)
{
    ring->slot_size = UINT64_C(0x0102030405060708);
    ring->slots_per_memory = 64;
    ring->memories = memories;
    for (uint32_t i = 0; i < memories; i++)
        fill_handle(&ring->handle[i], largest_kind(), i);
}

static inline void fill_report(struct gpud_report *report)
{
    fill_text(report->name, sizeof(report->name), 'a');
    fill_text(report->device, sizeof(report->device), 'b');
    report->epoch = UINT32_MAX;
    fill_media(&report->media);
    report->ended = 1;
    report->slow_receiver = GPUD_SLOW_DROP_OLDEST;
    report->slots = GPUD_SLOTS_MAX;
    report->links = GPUD_RECEIVERS_MAX;
    report->frames = UINT64_MAX;
    report->delivered = UINT64_MAX - 1;
    report->dropped = UINT64_MAX - 2;
    report->connects = UINT64_MAX - 3;
    report->rate = UINT64_MAX - 4;
    report->age = UINT64_MAX - 5;
    report->disconnects = report->refused = report->waits_cpu = UINT64_MAX - 6;
    report->copies_cpu = report->copies_gpu = report->waits_device = UINT64_MAX - 7;
}

static inline void fill_links(struct gpud_links *links, uint32_t count)
{
    links->count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_link_info *link = &links->link[i];
        link->size = sizeof(*link);
        link->id = UINT64_MAX - i;
        link->pid = INT32_MAX - (int)i;
        fill_text(link->name, sizeof(link->name), 'a');
        fill_text(link->device, sizeof(link->device), 'b');
        fill_text(link->path, sizeof(link->path), 'c');
        fill_text(link->fallback_reason, sizeof(link->fallback_reason), 'd');
        link->phase = GPUD_PHASE_LEAVING;
        link->slow_receiver = GPUD_SLOW_DROP_OLDEST;
        link->held = UINT32_MAX - i;
        link->delivered = UINT64_MAX / 3;
        link->dropped = UINT64_MAX / 5;
        link->waiting = UINT64_MAX / 11;
        link->latency_ns = UINT64_MAX / 7 + i;
        fill_text(link->host, sizeof(link->host), 'h');
        fill_text(link->encrypted, sizeof(link->encrypted), 'e');
        link->dropped_newest = UINT64_MAX - 8;
        link->dropped_oldest = UINT64_MAX - 9;
        link->dropped_failed = UINT64_MAX - 10;
        link->dropped_format = UINT64_MAX - 11;
        link->degraded = GPUD_DEGRADED_FAILED;
        memset(&link->stats, 0xa5 + (int)i, sizeof(link->stats));
    }
}

/* The smallest message of a type, or the largest that there is. The compiler asks for all. */
static inline void make(struct gpud_message *message, enum gpud_message_type type, bool large)
{
    memset(message, 0, sizeof(*message));
    message->type = type;
    if (type == GPUD_MESSAGE_OFFER)
        message->offer.page.fd = -1;
    else if (type == GPUD_MESSAGE_ACCEPT)
        message->accept.page.fd = message->accept.large_metas.fd = -1;
    else if (type == GPUD_MESSAGE_SHRINK)
        message->shrink = 1;
    else if (type == GPUD_MESSAGE_LINKS)
        message->links.count = 1;
    if (!large)
        return;
    message->position = UINT32_MAX;
    switch (type) {
    case GPUD_MESSAGE_HELLO:
        fill_text(message->hello.name, sizeof(message->hello.name), 'a');
        fill_text(message->hello.device, sizeof(message->hello.device), 'b');
        fill_text(message->hello.kind, sizeof(message->hello.kind), 'c');
        fill_text(message->hello.no_direct, sizeof(message->hello.no_direct), 'd');
        fill_text(message->hello.route, sizeof(message->hello.route), 'e');
        fill_text(message->hello.network.card, sizeof(message->hello.network.card), 'n');
        fill_text(message->hello.network.no_dmabuf, GPUD_REASON_MAX, 'o');
        fill_text(message->hello.network.no_peermem, GPUD_REASON_MAX, 'p');
        message->hello.network.ways = UINT32_MAX;
        message->hello.caps = UINT32_MAX;
        memset(message->hello.uuid, 0xa5, 16);
        fill_text(message->hello.pci, sizeof(message->hello.pci), 'f');
        memset(message->hello.host, 0x5a, 16);
        message->hello.time_namespace = UINT64_MAX - 2;
        message->hello.aperture = message->hello.token = UINT64_MAX - 1;
        message->hello.slots = 64;
        message->hello.slow_receiver = 255;
        message->hello.require_direct = 1;
        message->hello.reach_count = GPUD_REACH_MAX;
        memset(message->hello.reach, 0xc3, sizeof(message->hello.reach));
        message->hello.host_rate = UINT32_MAX;
        break;
    case GPUD_MESSAGE_OFFER:
        fill_handle(&message->offer.page, largest_kind(), 200);
        message->offer.epoch = UINT32_MAX;
        message->offer.large_meta_max = GPUD_LARGE_META_MAX;
        message->offer.slots = message->offer.slots_max = GPUD_SLOTS_MAX;
        fill_text(message->offer.route, sizeof(message->offer.route), 'r');
        fill_text(message->offer.reason, sizeof(message->offer.reason), 's');
        message->offer.degraded = GPUD_DEGRADED_FAILED;
        fill_media(&message->offer.media);
        fill_ring(&message->offer.ring, GPUD_RING_MEMORIES_MAX);
        break;
    case GPUD_MESSAGE_ACCEPT:
        fill_handle(&message->accept.page, largest_kind(), 100);
        fill_handle(&message->accept.large_metas, largest_kind(), 150);
        message->accept.epoch = 7;
        message->accept.entries = UINT32_MAX;
        fill_ring(&message->accept.ring, GPUD_RING_MEMORIES_MAX);
        break;
    case GPUD_MESSAGE_CANARY:
        message->canary.epoch = UINT32_MAX;
        message->canary.nonce = UINT64_MAX;
        break;
    case GPUD_MESSAGE_READY:
    case GPUD_MESSAGE_EOS:
        message->epoch = UINT32_MAX;
        break;
    case GPUD_MESSAGE_REFUSE:
    case GPUD_MESSAGE_BYE:
        message->refuse.epoch = 3;
        message->refuse.status = UINT32_MAX;
        fill_text(message->refuse.reason, sizeof(message->refuse.reason), 'f');
        break;
    case GPUD_MESSAGE_EVENT:
        message->event.kind = UINT32_MAX;
        message->event.size = GPUD_EVENT_SIZE_MAX;
        memset(message->event.data, 0x77, GPUD_EVENT_SIZE_MAX);
        break;
    case GPUD_MESSAGE_SHRINK:
        message->shrink = UINT32_MAX;
        break;
    case GPUD_MESSAGE_SLOTS:
        message->slots = GPUD_SLOTS_MAX;
        break;
    case GPUD_MESSAGE_GROW:
        fill_ring(&message->grow, GPUD_RING_MEMORIES_MAX);
        break;
    case GPUD_MESSAGE_QUERY:
    case GPUD_MESSAGE_KICK:
        break;
    case GPUD_MESSAGE_STATUS:
        fill_report(&message->report);
        break;
    case GPUD_MESSAGE_LINKS:
        fill_links(&message->links, GPUD_LINKS_A_MESSAGE);
        break;
    }
}

#endif
