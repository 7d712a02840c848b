/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "link.h"

#define SLICE (20 * GPUD_MSEC)

static const atomic_bool is_idle = true;

/* --- frames ------------------------------------------------------------------------------------
 */

void open_frames(struct frames_of *frames, uint64_t size)
{
    frames->size = size;
    WORKS(gpud_context_create(NULL, &frames->context, &e));
    WORKS(gpud_device_open(frames->context, "host", &frames->device, &e));
    gpud_ring_init(&frames->ring, frames->device, GPUD_USAGE_TARGET, size, ENTRIES / 2);
    while (gpud_ring_slots(&frames->ring) < ENTRIES)
        WORKS(gpud_ring_grow(&frames->ring, &e));
}

void close_frames(struct frames_of *frames)
{
    gpud_ring_finish(&frames->ring);
    gpud_device_close(&frames->device);
    gpud_context_destroy(&frames->context);
}

/* Words that tell the frame and the place. */
static uint32_t word_of(uint64_t sequence, uint64_t at)
{
    return (uint32_t)(sequence * 2654435761u + at * 40503u);
}

static uint32_t *slot_of(const struct frames_of *frames, uint32_t entry)
{
    uint64_t offset;
    struct gpud_memory *memory = gpud_ring_slot(&frames->ring, entry, &offset);
    return (uint32_t *)(void *)((char *)memory->host + offset);
}

/* --- beginning ---------------------------------------------------------------------------------
 */

void begin_tx(struct tx_link *link, struct gpud_channel *channel, uint64_t frame_size,
              struct tx_link *before)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_OFFER};
    const struct gpud_remote_ops *ops = channel->ops->remote;
    link->channel = channel;
    link->sequence = 0;
    open_frames(&link->frames, frame_size);
    WORKS(ops->create(channel, &link->remote, &message.offer.page, &e));
    for (uint32_t i = 0; i < link->frames.ring.memories; i++) {
        WORKS(ops->add_source(link->remote, link->frames.ring.memory[i], &e));
        WORKS(ops->add_source(link->remote, link->frames.ring.memory[i], &e)); /* does nothing */
    }
    send_one(channel, &message);
    if (before) /* counted where the receiver looks at that moment */
        gpud_page_count_message(&before->page);

    receive_one(channel, &message, GPUD_MESSAGE_ACCEPT);
    WORKS(ops->attach(link->remote, &message.accept.page, &e));
    WORKS(ops->attach_ring(link->remote, &message.accept.ring, message.accept.entries, frame_size,
                           &e));
    WORKS(gpud_page_tx_init(&link->page, link->remote->page, link->remote, message.accept.entries,
                            ENTRIES, &e));
    message = (struct gpud_message){.type = GPUD_MESSAGE_CANARY};
    send_one(channel, &message);
}

void begin_rx(struct rx_link *link, struct gpud_channel *channel, uint64_t frame_size)
{
    struct gpud_message message;
    struct gpud_handle page;
    const struct gpud_remote_ops *ops = channel->ops->remote;
    link->channel = channel;
    link->sequence = 0;
    open_frames(&link->frames, frame_size);
    receive_one(channel, &message, GPUD_MESSAGE_OFFER);
    WORKS(ops->create(channel, &link->remote, &page, &e));
    WORKS(ops->attach(link->remote, &message.offer.page, &e));
    gpud_page_rx_init(&link->page, link->remote->page, link->remote, ENTRIES);

    message = (struct gpud_message){.type = GPUD_MESSAGE_ACCEPT};
    message.accept.entries = ENTRIES;
    message.accept.page = page;
    WORKS(ops->expose(link->remote, &link->frames.ring, &message.accept.ring, &e));
    send_one(channel, &message);
    receive_one(channel, &message, GPUD_MESSAGE_CANARY);
    WORKS(gpud_page_check_sender(&link->page, &e));
}

void end_tx_epoch(struct gpud_remote *remote, struct frames_of *frames)
{
    remote->ops->destroy(remote);
    close_frames(frames);
}

void end_tx(struct tx_link *link)
{
    end_tx_epoch(link->remote, &link->frames);
    gpud_channel_unref(&link->channel);
}

/* The connection may outlive the record, which keeps the ring's memory registered for so long. */
void end_rx(struct rx_link *link)
{
    link->remote->ops->destroy(link->remote);
    gpud_channel_unref(&link->channel);
    close_frames(&link->frames);
}

/* --- sending -----------------------------------------------------------------------------------
 */

void reap(struct tx_link *link)
{
    uint32_t entry;
    int got;
    while ((got = gpud_page_reap(&link->page, &entry)) > 0)
        ;
    CHECK(got == 0, "an honest receiver is called a liar");
}

static bool has_returns(void *arg)
{
    return gpud_page_has_returns(arg);
}

static bool take_credit(struct tx_link *link, uint32_t *entry)
{
    int64_t deadline = gpud_deadline(PATIENCE);
    for (;;) {
        reap(link);
        if (link->page.free_count > 0 && link->remote->ops->has_room(link->remote))
            return gpud_page_take(&link->page, entry);
        CHECK(gpud_now() < deadline, "no credit comes back");
        if (gpud_channel_is_dead(link->channel))
            return false;
        gpud_page_sleep(&link->page.end, has_returns, &link->page, gpud_now() + SLICE);
    }
}

bool send_frame(struct tx_link *link)
{
    uint32_t entry;
    uint64_t offset;
    if (!take_credit(link, &entry))
        return false;
    uint64_t sequence = ++link->sequence;
    uint32_t *words = slot_of(&link->frames, entry);
    for (uint64_t i = 0; i < link->frames.size / 4; i++)
        words[i] = word_of(sequence, i);
    struct gpud_memory *memory = gpud_ring_slot(&link->frames.ring, entry, &offset);
    enum gpud_status status =
        link->remote->ops->write(link->remote, entry, 0, memory, offset, link->frames.size, NULL);
    if (status == GPUD_PEER)
        return false;
    CHECK(status == GPUD_OK, "a frame cannot be written: %s", gpud_status_string(status));
    struct gpud_descriptor *descriptor = gpud_page_descriptor(&link->page, entry);
    *descriptor = (struct gpud_descriptor){.sequence = sequence, .slot = entry};
    descriptor->meta_size = (uint32_t)(sequence % (GPUD_FRAME_META_MAX + 1));
    memset(descriptor->meta, (int)(sequence & 0xff), descriptor->meta_size);
    gpud_page_publish(&link->page, entry);
    gpud_page_notify(&link->page.end);
    return true;
}

/* --- receiving ---------------------------------------------------------------------------------
 */

static bool has_frames(void *arg)
{
    return gpud_page_has_frames(arg);
}

static void check_frame(const struct rx_link *link, uint32_t entry,
                        const struct gpud_descriptor *descriptor)
{
    uint64_t sequence = link->sequence;
    const uint32_t *words = slot_of(&link->frames, entry);
    CHECK_EQUAL(descriptor->sequence, sequence);
    CHECK_EQUAL(descriptor->meta_size, sequence % (GPUD_FRAME_META_MAX + 1));
    for (uint32_t i = 0; i < descriptor->meta_size; i++)
        CHECK(descriptor->meta[i] == (uint8_t)sequence, "a torn descriptor");
    for (uint64_t i = 0; i < link->frames.size / 4; i++)
        CHECK(words[i] == word_of(sequence, i), "frame %llu is torn at word %llu",
              (unsigned long long)sequence, (unsigned long long)i);
}

bool take_frame(struct rx_link *link, uint32_t *entry)
{
    int64_t deadline = gpud_deadline(PATIENCE);
    struct gpud_descriptor descriptor;
    struct gpud_error error = {.reason = ""};
    for (;;) {
        int got =
            gpud_page_claim(&link->page, gpud_page_head(&link->page), entry, &descriptor, &error);
        CHECK(got >= 0, "an honest sender is called a liar: %s", error.reason);
        if (got > 0)
            break;
        CHECK(gpud_now() < deadline, "no frame comes");
        if (gpud_channel_is_dead(link->channel) && !gpud_page_has_frames(&link->page))
            return false;
        gpud_page_sleep(&link->page.end, has_frames, &link->page, gpud_now() + SLICE);
    }
    link->sequence++;
    check_frame(link, *entry, &descriptor);
    return true;
}

void give_back(struct rx_link *link, uint32_t entry)
{
    memset(slot_of(&link->frames, entry), 0xee, link->frames.size);
    gpud_page_give_back(&link->page, entry, &is_idle);
}
