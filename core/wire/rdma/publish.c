/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What one side publishes of its half of a ring page.
 *
 * Published ranges of our half are copied behind the page, and the card writes them from there:
 * words with the values they have when posted; a descriptor a little later, which is safe because
 * it does not change until its entry comes back. So the other side always sees an earlier state of
 * our half: never a range before one that was published earlier. Words that have not changed are
 * not written again; in a steady stream those are most of published[] and given_back[].
 *
 * If the card's queue has no room, the record is behind. Then ranges are only copied, and once
 * there is room the half is written again, in an order in which the other side sees no counter
 * before what it counts:
 *
 *     receiver    identity, by_lines, given_back, then returned
 *     sender      identity, descriptors, published, lines, start, taken_back, messages, then head
 *
 * The other side may then see some ranges in a later state, but every counted word as it was
 * published before its counter: all is written from the copies, which only publishing changes,
 * under the record's lock. `messages` is written before `head`: a message can wait for its position
 * but must not come too late for it. The notice waits until all is written, and until then
 * has_room() returns false. */
#include "wire/rdma/publish.h"

#include "base/fd.h"

#include <string.h>

/* How many bytes the card's driver copies when they are posted. */
#define WORDS_MAX 64

struct part {
    size_t offset, size;
};

#define PART(half, member)                                                   \
    {                                                                        \
        offsetof(struct half, member), sizeof(((struct half *)NULL)->member) \
    }

static const struct part receiver_parts[] = {
    PART(gpud_receiver_half, identity),
    PART(gpud_receiver_half, stats),
    PART(gpud_receiver_half, by_lines),
    PART(gpud_receiver_half, given_back),
    {offsetof(struct gpud_receiver_half, returned), 2 * sizeof(uint32_t)}, /* and latency */
};

static const struct part sender_parts[] = {
    PART(gpud_sender_half, identity),
    PART(gpud_sender_half, descriptor),
    PART(gpud_sender_half, published),
    PART(gpud_sender_half, lines),
    PART(gpud_sender_half, start),
    PART(gpud_sender_half, taken_back),
    {offsetof(struct gpud_sender_half, messages), 2 * sizeof(uint32_t)}, /* and announced */
    PART(gpud_sender_half, head),
};

_Static_assert(offsetof(struct gpud_receiver_half, latency) ==
                   offsetof(struct gpud_receiver_half, returned) + sizeof(uint32_t),
               "one part");
_Static_assert(offsetof(struct gpud_sender_half, announced) ==
                   offsetof(struct gpud_sender_half, messages) + sizeof(uint32_t),
               "one part");

static const struct part *parts_of(const struct rdma_remote *remote, uint32_t *count)
{
    *count = remote->is_sender ? sizeof(sender_parts) / sizeof(sender_parts[0])
                               : sizeof(receiver_parts) / sizeof(receiver_parts[0]);
    return remote->is_sender ? sender_parts : receiver_parts;
}

/* --- publishing ---------------------------------------------------------------------------- */

static struct gpud_rdma_transfer transfer_of(const struct rdma_remote *remote, size_t offset,
                                             size_t size)
{
    return (struct gpud_rdma_transfer){
        .local = remote->published,
        .local_offset = offset,
        .remote_address = remote->remote_address + offset,
        .remote_key = remote->remote_key,
        .size = size,
    };
}

static enum gpud_status write_range(const struct rdma_remote *remote, size_t offset, size_t size)
{
    struct gpud_rdma_transfer transfer = transfer_of(remote, offset, size);
    return gpud_rdma_write(remote->rdma, &transfer, NULL);
}

/* Writes lines of WORDS_MAX, so that each word is copied when posted. Descriptors need no copy:
 * they are complete before `head` counts them. */
static enum gpud_status write_part(const struct rdma_remote *remote, const struct part *part)
{
    enum gpud_status status = GPUD_OK;
    size_t step = part->size > 4096 ? part->size : WORDS_MAX;
    for (size_t at = 0; at < part->size && status == GPUD_OK; at += step)
        status =
            write_range(remote, part->offset + at, part->size - at < step ? part->size - at : step);
    return status;
}

static void set_behind(struct rdma_remote *remote, bool is_behind)
{
    if (is_behind && !remote->is_behind)
        atomic_fetch_add(&remote->channel->behind, 1);
    if (!is_behind && remote->is_behind)
        atomic_fetch_sub(&remote->channel->behind, 1);
    remote->is_behind = is_behind;
}

/* The queue had no room for the range: everything from its part on must be written again. */
static void fall_behind(struct rdma_remote *remote, size_t offset)
{
    uint32_t count, first = 0;
    const struct part *parts = parts_of(remote, &count);
    while (first < count &&
           (offset < parts[first].offset || offset >= parts[first].offset + parts[first].size))
        first++;
    if (!remote->is_behind || first < remote->next_part)
        remote->next_part = first < count ? first : 0;
    if (!remote->is_behind)
        gpud_event_raise(remote->channel->event); /* its poller then arms the card for room */
    set_behind(remote, true);
}

static void send_notice(struct rdma_remote *remote)
{
    remote->owes_notice = false;
    gpud_rdma_notify(remote->rdma, remote->is_sender);
}

static void catch_up_locked(struct rdma_remote *remote)
{
    uint32_t count;
    const struct part *parts = parts_of(remote, &count);
    enum gpud_status status = GPUD_OK;
    while (remote->is_behind && remote->next_part < count && status == GPUD_OK) {
        status = write_part(remote, &parts[remote->next_part]);
        remote->next_part += status == GPUD_OK;
    }
    if (!remote->is_behind || status == GPUD_AGAIN)
        return;
    set_behind(remote, false); /* also if the connection has failed */
    if (remote->owes_notice)
        send_notice(remote);
}

bool gpud_rdma_catch_up_record(struct rdma_remote *remote)
{
    gpud_lock_take(&remote->lock);
    catch_up_locked(remote);
    bool done = !remote->is_behind;
    gpud_lock_release(&remote->lock);
    return done;
}

void gpud_rdma_stop_publishing(struct rdma_remote *remote)
{
    gpud_lock_take(&remote->lock);
    remote->detached = true;
    set_behind(remote, false);
    gpud_lock_release(&remote->lock);
}

/* Copies words that other threads of this side may be storing. True: any changed. */
static bool copy_words(char *to, const char *from, size_t size)
{
    bool changed = false;
    for (size_t at = 0; at < size; at += sizeof(uint32_t)) {
        uint32_t word = atomic_load((const _Atomic uint32_t *)(const void *)(from + at));
        changed |= memcmp(to + at, &word, sizeof(word)) != 0;
        memcpy(to + at, &word, sizeof(word));
    }
    return changed;
}

/* Updates the copy; true if it changed. */
static bool copy_range(struct rdma_remote *remote, size_t offset, size_t *size)
{
    *size = (*size + 3) & ~(size_t)3;
    return copy_words(rdma_published_half(remote) + offset, rdma_own_half(remote) + offset, *size);
}

void gpud_rdma_publish(struct rdma_remote *remote, size_t offset, size_t size)
{
    gpud_lock_take(&remote->lock);
    if (remote->attached && !remote->detached && copy_range(remote, offset, &size) &&
        (remote->is_behind || write_range(remote, offset, size) == GPUD_AGAIN)) {
        fall_behind(remote, offset);
        catch_up_locked(remote);
    }
    gpud_lock_release(&remote->lock);
}

/* --- with a notice ------------------------------------------------------------------------- */

static void notify_locked(struct rdma_remote *remote)
{
    if (remote->is_behind)
        remote->owes_notice = true;
    else
        send_notice(remote);
}

bool gpud_rdma_publish_notice(struct rdma_remote *remote)
{
    gpud_lock_take(&remote->lock);
    bool published = remote->attached && !remote->detached;
    if (published)
        notify_locked(remote);
    gpud_lock_release(&remote->lock);
    return published;
}

static void publish_and_notify_locked(struct rdma_remote *remote, size_t offset, size_t size)
{
    enum gpud_status status = GPUD_AGAIN;
    if (!copy_range(remote, offset, &size)) {
        notify_locked(remote);
        return;
    }
    if (!remote->is_behind) {
        struct gpud_rdma_transfer transfer = transfer_of(remote, offset, size);
        status = gpud_rdma_write_and_notify(remote->rdma, &transfer, remote->is_sender, NULL);
    }
    if (status != GPUD_AGAIN)
        return;
    fall_behind(remote, offset);
    remote->owes_notice = true;
    catch_up_locked(remote);
}

bool gpud_rdma_publish_with_notice(struct rdma_remote *remote, size_t offset, size_t size)
{
    gpud_lock_take(&remote->lock);
    bool published = remote->attached && !remote->detached;
    if (published)
        publish_and_notify_locked(remote, offset, size);
    gpud_lock_release(&remote->lock);
    return published;
}
