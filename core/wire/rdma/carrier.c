/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a network card moves between hosts: the pages of rings, whose sleepers it wakes, frames, and
 * an application's own data. */
#include "wire/rdma/rdma.h"

#include "base/base.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

/* === publish ================================================================================= */
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

static struct gpud_rdma_transfer publish_transfer_of(const struct rdma_remote *remote,
                                                     size_t offset, size_t size)
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
    struct gpud_rdma_transfer transfer = publish_transfer_of(remote, offset, size);
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

/* Updates the copy; true if it changed. */
static bool copy_range(struct rdma_remote *remote, size_t offset, size_t *size)
{
    *size = (*size + 3) & ~(size_t)3;
    return gpud_remote_copy(rdma_published_half(remote) + offset, rdma_own_half(remote) + offset,
                            *size);
}

static void notify_locked(struct rdma_remote *remote)
{
    if (remote->is_behind)
        remote->owes_notice = true;
    else
        send_notice(remote);
}

/* === records ================================================================================= */
/* All records of a channel, and when their registrations are released.
 *
 * A card that writes to unregistered memory ends the connection, and with it the links of later
 * epochs. So memory that the other side may write stays registered after its record is destroyed,
 * until the other side is known to have moved to a later record: that one's page is attached here,
 * and the other side has written into its half of it. */

/* Frees a record that is in no list. */
static void rdma_free_record(struct rdma_remote *remote)
{
    for (uint32_t i = 0; i < GPUD_RING_MEMORIES_MAX; i++)
        gpud_rdma_unregister(&remote->exposed[i]);
    for (uint32_t i = 0; i < remote->source_count; i++)
        gpud_rdma_unregister(&remote->sources[i].region);
    gpud_rdma_unregister(&remote->theirs);
    gpud_rdma_unregister(&remote->published);
    gpud_rdma_unregister(&remote->metas_region);
    if (remote->metas)
        munmap(remote->metas, remote->metas_size);
    if (remote->pages)
        munmap(remote->pages, sizeof(struct gpud_page) + rdma_own_size(remote));
    gpud_rdma_unref(&remote->rdma);
    gpud_fd_close(&remote->event);
    gpud_lock_destroy(&remote->lock);
    free(remote->sources);
    free(remote);
}

static uint64_t last_in_use(const struct rdma_remote *list)
{
    uint64_t last = 0;
    for (; list; list = list->next) {
        /* Whether the other side has written into its half of the page. */
        const struct gpud_page *page = list->base.page;
        const struct gpud_page_identity *identity =
            list->is_sender ? &page->receiver.identity : &page->sender.identity;
        if (list->number > last && list->was_attached &&
            *(const volatile uint64_t *)&identity->magic != 0)
            last = list->number;
    }
    return last;
}

void gpud_rdma_collect_records(struct rdma_channel *channel, bool all)
{
    struct rdma_remote *gone = NULL, **link = &channel->retired;
    gpud_lock_take(&channel->records_lock);
    uint64_t alive = last_in_use(channel->records), retired = last_in_use(channel->retired);
    uint64_t last = alive > retired ? alive : retired;
    while (*link) {
        struct rdma_remote *one = *link;
        if (!all && one->number >= last) {
            link = &one->next;
            continue;
        }
        *link = one->next;
        one->next = gone;
        gone = one;
    }
    gpud_lock_release(&channel->records_lock);
    while (gone) {
        struct rdma_remote *one = gone;
        gone = one->next;
        rdma_free_record(one);
    }
}

/* === wake ==================================================================================== */

/* clang-format off */
/* Wakes the threads that wait for notices and messages. A failed connection needs no wake: its
 * descriptor stays readable.
 *
 * Several threads of a side may wait for one connection: one polls the channel's descriptor for
 * messages (and KICKs), others sleep on ring pages. Any thread may take completions from the card,
 * even one that waits for nothing, so it wakes the others:
 *
 *     waiting thread                        thread that takes completions
 *     announces itself (sleepers,           takes a notice or a message from the card
 *         wants_kick)                       counts it (notices)
 *     arms, and takes pending completions   fence
 *     checks the words once more            raises the eventfd of each waiting thread
 *     sleeps
 *
 * Words are in memory before their notice is taken. So if the taking thread sees no waiting thread,
 * the waiting thread sees the words when it checks: each side stores before it loads, with
 * sequential consistency.
 *
 * Only arming clears the card's events, and it asks, under a lock, for what all waiting threads
 * need together, so that a later thread never asks for less than an earlier one. */
/* clang-format on */

static void wake_look(struct rdma_channel *channel, bool wake_receiver)
{
    if (gpud_rdma_progress(channel->rdma)) {
        atomic_fetch_add(&channel->notices, 1);
        unsigned messages = gpud_rdma_received(channel->rdma);
        if (atomic_load(&channel->sleepers) > 0) {
            gpud_lock_take(&channel->records_lock);
            for (struct rdma_remote *one = channel->records; one; one = one->next)
                if (atomic_load(&one->asleep))
                    gpud_event_raise(one->event);
            gpud_lock_release(&channel->records_lock);
        }
        bool has_message = atomic_exchange(&channel->messages, messages) != messages;
        if (wake_receiver && (has_message || atomic_load(&channel->wants_kick)))
            gpud_event_raise(channel->event);
    }
    if (atomic_load(&channel->behind) > 0) { /* writes what the card's queue had no room for */
        gpud_lock_take(&channel->records_lock);
        for (struct rdma_remote *one = channel->records; one; one = one->next)
            gpud_rdma_catch_up_record(one);
        gpud_lock_release(&channel->records_lock);
    }
}

void gpud_rdma_look_around(struct rdma_channel *channel)
{
    wake_look(channel, true);
}

static void arm(struct rdma_channel *channel)
{
    gpud_lock_take(&channel->arm_lock);
    bool everything = atomic_load(&channel->sleepers) > 0 || atomic_load(&channel->wants_kick) ||
                      atomic_load(&channel->behind) > 0;
    gpud_rdma_arm(channel->rdma, !everything);
    gpud_lock_release(&channel->arm_lock);
}

/* Arm the card: its next event makes the connection's descriptor readable. Earlier events have been
 * handled by then; check once more. The second one is for the thread that receives messages and
 * KICKs, which need not be woken for them. */
static void rdma_arm_to_sleep(struct rdma_channel *channel)
{
    arm(channel);
    gpud_rdma_look_around(channel);
}

void gpud_rdma_arm_to_receive(struct rdma_channel *channel)
{
    arm(channel);
    wake_look(channel, false);
}

bool gpud_rdma_take_kick(struct rdma_channel *channel)
{
    return atomic_load(&channel->wants_kick) &&
           atomic_load(&channel->notices) != atomic_load(&channel->kick_after) &&
           atomic_exchange(&channel->wants_kick, false);
}

/* === carrier ================================================================================= */
/* The carrier of ring pages between hosts. */

#define BEHIND_LOOK GPUD_MSEC        /* poll for room in the queue, for which no event may come */
#define FAILED_LOOK (20 * GPUD_MSEC) /* after a failure, wake to let the caller notice it */

/* Writes this range of our half into the other side's page, ordered after earlier ranges. Does
 * nothing before the record is attached or after it is detached. */
static void carrier_publish(const struct gpud_page_end *end, size_t offset, size_t size)
{
    struct rdma_remote *remote = (struct rdma_remote *)end->remote;
    gpud_lock_take(&remote->lock);
    if (remote->attached && !remote->detached && copy_range(remote, offset, &size) &&
        (remote->is_behind || write_range(remote, offset, size) == GPUD_AGAIN)) {
        fall_behind(remote, offset);
        catch_up_locked(remote);
    }
    gpud_lock_release(&remote->lock);
}

/* Sends a notice, ordered after what was published. Called at least once a frame on either side, so
 * it also reposts receives and wakes waiters. */
static bool notify(struct gpud_page_end *end)
{
    struct rdma_remote *remote = (struct rdma_remote *)end->remote;
    gpud_lock_take(&remote->lock);
    bool published = remote->attached && !remote->detached;
    if (published)
        notify_locked(remote);
    gpud_lock_release(&remote->lock);
    gpud_rdma_look_around(remote->channel);
    return published;
}

static bool publish_and_notify(struct gpud_page_end *end, size_t offset, size_t size)
{
    struct rdma_remote *remote = (struct rdma_remote *)end->remote;
    enum gpud_status status = GPUD_AGAIN;
    gpud_lock_take(&remote->lock);
    bool published = remote->attached && !remote->detached;
    if (published && !copy_range(remote, offset, &size)) {
        notify_locked(remote);
    } else if (published) {
        struct gpud_rdma_transfer transfer = publish_transfer_of(remote, offset, size);
        if (!remote->is_behind)
            status = gpud_rdma_write_and_notify(remote->rdma, &transfer, remote->is_sender, NULL);
        if (status == GPUD_AGAIN) {
            fall_behind(remote, offset);
            remote->owes_notice = true;
            catch_up_locked(remote);
        }
    }
    gpud_lock_release(&remote->lock);
    gpud_rdma_look_around(remote->channel);
    return published;
}

/* --- sleeping ------------------------------------------------------------------------------ */

/* Sleeps until another thread wakes it, or the card or rdma_cm has something to take. */
static void wait_for_events(struct rdma_remote *remote, int64_t deadline)
{
    struct rdma_channel *channel = remote->channel;
    bool has_failed = gpud_rdma_has_failed(remote->rdma, NULL);
    int64_t look = gpud_now() + (has_failed ? FAILED_LOOK : BEHIND_LOOK);
    if ((has_failed || atomic_load(&channel->behind) > 0) && look < deadline)
        deadline = look;
    /* The descriptors of a failed connection stay readable, so they are not polled. */
    struct pollfd fds[] = {
        {.fd = remote->event, .events = POLLIN},
        {.fd = has_failed ? -1 : gpud_rdma_get_fd(remote->rdma), .events = POLLIN},
        {.fd = has_failed ? -1 : channel->events->fd, .events = POLLIN},
    };
    struct timespec left = gpud_time_left(deadline);
    ppoll(fds, sizeof(fds) / sizeof(fds[0]), &left, NULL);
    if (fds[2].revents) {
        gpud_lock_take(&channel->lock);
        gpud_rdma_drive_locked(channel);
        gpud_lock_release(&channel->lock);
    }
    gpud_rdma_look_around(channel);
}

static void sleep_on(struct gpud_page_end *end, bool (*ready)(void *arg), void *arg,
                     int64_t deadline)
{
    struct rdma_remote *remote = (struct rdma_remote *)end->remote;
    struct rdma_channel *channel = remote->channel;
    unsigned notices = atomic_load(&channel->notices);
    gpud_event_drain(remote->event);
    atomic_store(&remote->asleep, true);
    atomic_fetch_add(&channel->sleepers, 1);
    rdma_arm_to_sleep(channel);
    if (!ready(arg) && notices == atomic_load(&channel->notices))
        wait_for_events(remote, deadline);
    atomic_fetch_sub(&channel->sleepers, 1);
    atomic_store(&remote->asleep, false);
}

static void rouse(struct gpud_page_end *end)
{
    const struct rdma_remote *remote = (const struct rdma_remote *)end->remote;
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&remote->asleep))
        gpud_event_raise(remote->event);
}

/* Requests a KICK. */
static void poll_begin(struct gpud_page_end *end)
{
    struct rdma_channel *channel = ((const struct rdma_remote *)end->remote)->channel;
    atomic_store(&channel->kick_after, atomic_load(&channel->notices));
    atomic_store(&channel->wants_kick, true);
    rdma_arm_to_sleep(channel);
}

const struct gpud_page_carrier gpud_rdma_carrier = {
    .name = "a network card",
    .ask_after = GPUD_RDMA_SILENCE,
    .publish = carrier_publish,
    .notify = notify,
    .publish_and_notify = publish_and_notify,
    .sleep = sleep_on,
    .rouse = rouse,
    .poll_begin = poll_begin,
};

/* === record ================================================================================== */
/* A link's record: its page, its registered memory, and writing its frames. */

#define DRAIN_MAX GPUD_SEC
#define DRAIN_SLICE (5 * GPUD_MSEC)

/* --- the page ------------------------------------------------------------------------------ */

/* Shared, so that copy-on-write after fork() does not detach these pages from the card. */
static void *map_pages(size_t size)
{
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

static struct gpud_handle handle_of(const struct gpud_rdma_region *region, uint64_t size)
{
    return (struct gpud_handle){
        .type = GPUD_HANDLE_NETWORK,
        .fd = -1,
        .size = size,
        .word = {gpud_rdma_region_address(region), gpud_rdma_region_key(region)},
    };
}

static enum gpud_status make_page(struct rdma_remote *remote, struct gpud_handle *handle,
                                  struct gpud_error *error)
{
    size_t size = sizeof(struct gpud_page) + rdma_own_size(remote);
    void *pages = map_pages(size);
    if (!pages)
        return gpud_fail_errno(error, "no memory for a ring page");
    remote->pages = pages;
    remote->base.page = pages;
    struct gpud_page *page = pages;
    void *half = remote->is_sender ? (void *)&page->receiver : (void *)&page->sender;
    size_t half_size = sizeof(struct gpud_page) - rdma_own_size(remote);
    enum gpud_status status = gpud_rdma_register(remote->rdma, half, half_size,
                                                 GPUD_RDMA_REMOTE_WRITE, &remote->theirs, error);
    if (status == GPUD_OK)
        status =
            gpud_rdma_register(remote->rdma, rdma_published_half(remote), rdma_own_size(remote),
                               GPUD_RDMA_LOCAL, &remote->published, error);
    if (status != GPUD_OK)
        return status;
    *handle = handle_of(remote->theirs, half_size);
    return GPUD_OK;
}

static enum gpud_status record_create(struct gpud_channel *base, struct gpud_remote **remote,
                                      struct gpud_handle *page, struct gpud_error *error)
{
    struct rdma_channel *channel = (struct rdma_channel *)base;
    if (!atomic_load(&base->connected))
        return gpud_fail(error, GPUD_PEER, "%s is not connected", channel->where);
    struct rdma_remote *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a link");
    made->base.ops = &gpud_rdma_remote_ops;
    made->channel = channel;
    made->rdma = gpud_rdma_ref(channel->rdma);
    made->is_sender = channel->is_sender;
    gpud_lock_init(&made->lock, GPUD_RANK_RDMA_RECORD);
    made->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    enum gpud_status status = GPUD_OK;
    if (made->event < 0)
        status = gpud_fail_errno(error, "no descriptor for a link");
    if (status == GPUD_OK)
        status = make_page(made, page, error);
    if (status != GPUD_OK) {
        rdma_free_record(made);
        return status;
    }
    gpud_channel_ref(base);
    gpud_lock_take(&channel->records_lock);
    made->number = ++channel->record_count;
    made->next = channel->records;
    channel->records = made;
    gpud_lock_release(&channel->records_lock);
    *remote = &made->base;
    return GPUD_OK;
}

/* Whether a peer's handle can be memory of that size that a card may write. */
static bool is_writable(const struct gpud_handle *handle, uint64_t size)
{
    uint64_t end;
    return handle->type == GPUD_HANDLE_NETWORK && handle->size >= size &&
           !__builtin_add_overflow(handle->word[0], handle->size, &end) &&
           handle->word[1] <= UINT32_MAX;
}

static enum gpud_status attach(struct gpud_remote *base, const struct gpud_handle *page,
                               struct gpud_error *error)
{
    struct rdma_remote *remote = (struct rdma_remote *)base;
    struct rdma_channel *channel = remote->channel;
    if (page->size != rdma_own_size(remote) || !is_writable(page, page->size))
        return gpud_fail(error, GPUD_PEER, "this side cannot write the peer's ring page");
    gpud_lock_take(&remote->lock);
    remote->remote_address = page->word[0];
    remote->remote_key = (uint32_t)page->word[1];
    remote->attached = true;
    gpud_lock_release(&remote->lock);
    /* Once the other side sees this page used, it may release earlier ones, so a sender stops
     * writing into those here. A receiver does so by detaching. */
    gpud_lock_take(&channel->records_lock);
    remote->was_attached = true;
    for (struct rdma_remote *one = channel->records; remote->is_sender && one; one = one->next)
        if (one->number < remote->number)
            gpud_rdma_stop_publishing(one);
    gpud_lock_release(&channel->records_lock);
    gpud_rdma_collect_records(channel, false);
    return GPUD_OK;
}

/* --- large metas --------------------------------------------------------------------------- */

static enum gpud_status share_metas(struct gpud_remote *base, uint64_t size,
                                    struct gpud_handle *handle, void **metas,
                                    struct gpud_error *error)
{
    struct rdma_remote *remote = (struct rdma_remote *)base;
    if (remote->is_sender && !is_writable(handle, size))
        return gpud_fail(error, GPUD_PEER,
                         "this side cannot write the receiver's memory for large metas");
    remote->metas_size = size;
    remote->metas = map_pages(size);
    if (!remote->metas)
        return gpud_fail_errno(error, "no memory for large metas");
    enum gpud_status status = gpud_rdma_register(
        remote->rdma, remote->metas, size,
        remote->is_sender ? GPUD_RDMA_LOCAL : GPUD_RDMA_REMOTE_WRITE, &remote->metas_region, error);
    if (status != GPUD_OK)
        return status;
    if (remote->is_sender) {
        remote->metas_address = handle->word[0];
        remote->metas_key = (uint32_t)handle->word[1];
    } else {
        *handle = handle_of(remote->metas_region, size);
    }
    *metas = remote->metas;
    return GPUD_OK;
}

static enum gpud_status write_meta(struct gpud_remote *base, uint64_t offset, uint64_t size,
                                   struct gpud_error *error)
{
    struct rdma_remote *remote = (struct rdma_remote *)base;
    struct gpud_rdma_transfer transfer = {
        .local = remote->metas_region,
        .local_offset = offset,
        .remote_address = remote->metas_address + offset,
        .remote_key = remote->metas_key,
        .size = size,
    };
    return gpud_rdma_write(remote->rdma, &transfer, error);
}

/* --- the ring ------------------------------------------------------------------------------ */

static enum gpud_status expose(struct gpud_remote *base, const struct gpud_ring *ring,
                               struct gpud_ring_description *description, struct gpud_error *error)
{
    struct rdma_remote *remote = (struct rdma_remote *)base;
    struct gpud_ring_description made = {
        .slot_size = ring->slot_size,
        .slots_per_memory = ring->slots_per_memory,
        .memories = ring->memories,
    };
    enum gpud_rdma_way way;
    for (uint32_t i = 0; i < ring->memories; i++) {
        struct gpud_rdma_region **region = &remote->exposed[i];
        enum gpud_status status = GPUD_OK;
        if (!*region)
            status = gpud_rdma_register_memory(remote->rdma, ring->memory[i],
                                               GPUD_RDMA_REMOTE_WRITE, region, &way, error);
        if (status != GPUD_OK)
            return status;
        made.handle[i] = handle_of(*region, ring->slot_size * ring->slots_per_memory);
    }
    *description = made;
    return GPUD_OK;
}

static enum gpud_status attach_ring(struct gpud_remote *base,
                                    const struct gpud_ring_description *description,
                                    uint32_t entries, uint64_t frame_size, struct gpud_error *error)
{
    struct rdma_remote *remote = (struct rdma_remote *)base;
    uint32_t memories = description->memories, slots = description->slots_per_memory;
    enum gpud_status status = gpud_remote_check_ring(description, entries, frame_size, error);
    if (status != GPUD_OK)
        return status;
    for (uint32_t i = 0; i < memories; i++)
        if (!is_writable(&description->handle[i], description->slot_size * slots))
            return gpud_fail(error, GPUD_PEER,
                             "the receiver's ring has memory that this side cannot write");
    remote->entries = entries;
    remote->frame_size = frame_size;
    remote->slot_size = description->slot_size;
    remote->slots_per_memory = slots;
    remote->memories = memories;
    memcpy(remote->ring, description->handle, memories * sizeof(remote->ring[0]));
    return GPUD_OK;
}

/* --- frames -------------------------------------------------------------------------------- */

static struct gpud_rdma_region *find_source(struct rdma_remote *remote,
                                            const struct gpud_memory *memory)
{
    struct gpud_rdma_region *found = NULL;
    gpud_lock_take(&remote->lock);
    for (uint32_t i = 0; i < remote->source_count && !found; i++)
        if (remote->sources[i].memory == memory)
            found = remote->sources[i].region;
    gpud_lock_release(&remote->lock);
    return found;
}

static enum gpud_status add_source(struct gpud_remote *base, struct gpud_memory *memory,
                                   struct gpud_error *error)
{
    struct rdma_remote *remote = (struct rdma_remote *)base;
    struct rdma_source source = {.memory = memory};
    enum gpud_rdma_way way;
    if (find_source(remote, memory))
        return GPUD_OK;
    enum gpud_status status = gpud_rdma_register_memory(remote->rdma, memory, GPUD_RDMA_LOCAL,
                                                        &source.region, &way, error);
    if (status != GPUD_OK)
        return status;
    gpud_lock_take(&remote->lock);
    struct rdma_source *sources =
        realloc(remote->sources, (remote->source_count + 1) * sizeof(*sources));
    if (sources) {
        remote->sources = sources;
        sources[remote->source_count++] = source;
    }
    gpud_lock_release(&remote->lock);
    if (sources)
        return GPUD_OK;
    gpud_rdma_unregister(&source.region);
    return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a link");
}

static void record_catch_up(struct gpud_remote *base)
{
    gpud_rdma_catch_up_record((struct rdma_remote *)base);
}

static bool record_has_room(struct gpud_remote *base)
{
    struct rdma_remote *remote = (struct rdma_remote *)base;
    return gpud_rdma_catch_up_record(remote) &&
           gpud_rdma_has_room(remote->rdma, remote->frame_size);
}

static enum gpud_status write_frame(struct gpud_remote *base, uint32_t entry, uint64_t at,
                                    struct gpud_memory *memory, uint64_t offset, uint64_t size,
                                    struct gpud_error *error)
{
    struct rdma_remote *remote = (struct rdma_remote *)base;
    struct gpud_rdma_region *region = find_source(remote, memory);
    if (!region || entry >= remote->entries || at > remote->slot_size ||
        size > remote->slot_size - at)
        return gpud_fail(error, GPUD_INVALID,
                         "%llu bytes at %llu for entry %u of %u, of memory that was %sadded",
                         (unsigned long long)size, (unsigned long long)at, entry, remote->entries,
                         region ? "" : "not ");
    const struct gpud_handle *to = &remote->ring[entry / remote->slots_per_memory];
    struct gpud_rdma_transfer transfer = {
        .local = region,
        .local_offset = offset,
        .remote_address = to->word[0] + entry % remote->slots_per_memory * remote->slot_size + at,
        .remote_key = (uint32_t)to->word[1],
        .size = size,
    };
    gpud_lock_take(&remote->lock);
    bool is_behind = remote->is_behind; /* earlier words are not written yet */
    gpud_lock_release(&remote->lock);
    if (is_behind)
        return gpud_fail(error, GPUD_AGAIN, "the network card's queue is full");
    return gpud_rdma_write(remote->rdma, &transfer, error);
}

/* --- the end ------------------------------------------------------------------------------- */

static void detach(struct gpud_remote *base)
{
    gpud_rdma_stop_publishing((struct rdma_remote *)base);
}

static void record_destroy(struct gpud_remote *base)
{
    struct rdma_remote *remote = (struct rdma_remote *)base, **link;
    struct rdma_channel *channel = remote->channel;
    struct gpud_channel *kept = &channel->base;
    gpud_rdma_stop_publishing(remote);
    /* Waits until the card no longer reads this side's memory. Handles rdma_cm's events meanwhile:
     * they report that the peer closed the connection long before the card's retries run out. */
    uint64_t posted = gpud_rdma_posted(remote->rdma);
    int64_t deadline = gpud_deadline(DRAIN_MAX);
    enum gpud_status status = GPUD_TIMEOUT;
    while (status == GPUD_TIMEOUT && gpud_now() < deadline) {
        status = gpud_rdma_drain(remote->rdma, posted, gpud_deadline(DRAIN_SLICE), NULL);
        if (status == GPUD_TIMEOUT) {
            gpud_lock_take(&channel->lock);
            gpud_rdma_drive_locked(channel);
            gpud_lock_release(&channel->lock);
        }
    }
    if (status == GPUD_TIMEOUT) {
        gpud_lock_take(&channel->lock);
        gpud_rdma_disconnect_locked(channel,
                                    "the peer took more than a second to receive the data");
        gpud_rdma_end(remote->rdma);
        gpud_lock_release(&channel->lock);
    }
    for (uint32_t i = 0; i < remote->source_count; i++)
        gpud_rdma_unregister(&remote->sources[i].region);
    gpud_lock_take(&channel->records_lock);
    for (link = &channel->records; *link != remote; link = &(*link)->next)
        ;
    *link = remote->next;
    remote->next = channel->retired;
    channel->retired = remote;
    gpud_lock_release(&channel->records_lock);
    gpud_rdma_collect_records(channel, false);
    gpud_channel_unref(&kept);
}

static void record_describe(const struct gpud_channel *base, struct gpud_device *device,
                            struct gpud_network *network)
{
    const struct rdma_channel *channel = (const struct rdma_channel *)base;
    struct gpud_network made = {.ways = 0};
    if (atomic_load(&base->connected)) {
        gpud_print(made.card, "%s", gpud_rdma_card(channel->rdma));
        made.ways = GPUD_NETWORK_HOST;
        bool is_host = device->caps & GPUD_CAP_HOST;
        if (!is_host && gpud_rdma_has_dmabuf(channel->rdma, device, made.no_dmabuf))
            made.ways |= GPUD_NETWORK_DMABUF;
        if (!is_host && gpud_rdma_has_peermem(channel->rdma, device, made.no_peermem))
            made.ways |= GPUD_NETWORK_PEERMEM;
    }
    *network = made;
}

const struct gpud_remote_ops gpud_rdma_remote_ops = {
    .carrier = &gpud_rdma_carrier,
    .describe = record_describe,
    .create = record_create,
    .attach = attach,
    .expose = expose,
    .attach_ring = attach_ring,
    .share_metas = share_metas,
    .add_source = add_source,
    .catch_up = record_catch_up,
    .has_room = record_has_room,
    .write = write_frame,
    .write_meta = write_meta,
    .detach = detach,
    .destroy = record_destroy,
};

/* === verbs =================================================================================== */
/* The verbs of a connection's card, for the application's own data; see wire/wire.h. */

static struct gpud_rdma *rdma_of(const struct gpud_channel *base)
{
    return ((const struct rdma_channel *)base)->rdma;
}

/* --- memory -------------------------------------------------------------------------------- */

static enum gpud_status register_memory(struct gpud_channel *channel, struct gpud_memory *memory,
                                        unsigned access, struct gpud_verbs_region *region,
                                        struct gpud_error *error)
{
    static const char *const ways[] = {
        [GPUD_RDMA_DMABUF] = "dmabuf",
        [GPUD_RDMA_PEERMEM] = "peermem",
        [GPUD_RDMA_HOST] = "host",
    };
    struct gpud_rdma_region *made;
    enum gpud_rdma_way way;
    unsigned wanted = GPUD_RDMA_LOCAL_WRITE;
    if (access & GPUD_VERBS_REMOTE_WRITE)
        wanted |= GPUD_RDMA_REMOTE_WRITE;
    if (access & GPUD_VERBS_REMOTE_READ)
        wanted |= GPUD_RDMA_REMOTE_READ;
    enum gpud_status status =
        gpud_rdma_register_memory(rdma_of(channel), memory, wanted, &made, &way, error);
    if (status == GPUD_OK)
        *region = (struct gpud_verbs_region){
            .address = gpud_rdma_region_address(made),
            .key = gpud_rdma_region_key(made),
            .way = ways[way],
            .record = made,
        };
    return status;
}

static void unregister(struct gpud_verbs_region *region)
{
    struct gpud_rdma_region *gone = region->record;
    region->record = NULL;
    gpud_rdma_unregister(&gone);
}

/* --- requests ------------------------------------------------------------------------------ */

static struct gpud_rdma_transfer verbs_transfer_of(const struct gpud_verbs_region *region,
                                                   uint64_t offset, uint64_t size, uint64_t address,
                                                   uint32_t key)
{
    return (struct gpud_rdma_transfer){
        .local = region->record,
        .local_offset = offset,
        .remote_address = address,
        .remote_key = key,
        .size = size,
        .tells = true,
    };
}

static enum gpud_status write_to(struct gpud_channel *channel,
                                 const struct gpud_verbs_region *region, uint64_t offset,
                                 uint64_t size, uint64_t address, uint32_t key,
                                 struct gpud_error *error)
{
    struct gpud_rdma_transfer transfer = verbs_transfer_of(region, offset, size, address, key);
    return gpud_rdma_write(rdma_of(channel), &transfer, error);
}

static enum gpud_status read_from(struct gpud_channel *channel,
                                  const struct gpud_verbs_region *region, uint64_t offset,
                                  uint64_t size, uint64_t address, uint32_t key,
                                  struct gpud_error *error)
{
    struct gpud_rdma_transfer transfer = verbs_transfer_of(region, offset, size, address, key);
    return gpud_rdma_read(rdma_of(channel), &transfer, error);
}

static enum gpud_status send_bytes(struct gpud_channel *channel, const void *bytes, size_t size,
                                   struct gpud_error *error)
{
    return gpud_rdma_send(rdma_of(channel), bytes, size, error);
}

static enum gpud_status receive_bytes(struct gpud_channel *channel, const void **bytes,
                                      size_t *size, struct gpud_error *error)
{
    return gpud_rdma_receive(rdma_of(channel), bytes, size, error);
}

/* --- completions --------------------------------------------------------------------------- */

static void verbs_look(struct gpud_channel *channel, struct gpud_verbs_state *state)
{
    struct gpud_rdma *rdma = rdma_of(channel);
    struct gpud_error why = {.reason = ""};
    gpud_rdma_progress(rdma);
    state->posted = gpud_rdma_posted(rdma);
    gpud_rdma_is_done(rdma, state->posted); /* requests a completion if none is pending */
    state->failed = gpud_rdma_has_failed(rdma, &why);
    state->done = gpud_rdma_succeeded(rdma, &state->refused);
    gpud_print(state->reason, "%s", why.reason);
}

static void verbs_arm(struct gpud_channel *base)
{
    struct rdma_channel *channel = (struct rdma_channel *)base;
    gpud_event_drain(channel->event);
    gpud_lock_take(&channel->lock);
    gpud_rdma_drive_locked(channel);
    gpud_lock_release(&channel->lock);
    gpud_rdma_arm(channel->rdma, false);
}

static void verbs_end(struct gpud_channel *base, const char *reason)
{
    struct rdma_channel *channel = (struct rdma_channel *)base;
    gpud_lock_take(&channel->lock);
    gpud_rdma_disconnect_locked(channel, reason);
    gpud_rdma_end(channel->rdma);
    gpud_lock_release(&channel->lock);
}

const struct gpud_verbs_ops gpud_rdma_verbs = {
    .register_memory = register_memory,
    .unregister = unregister,
    .write = write_to,
    .read = read_from,
    .send = send_bytes,
    .receive = receive_bytes,
    .look = verbs_look,
    .arm = verbs_arm,
    .end = verbs_end,
};
