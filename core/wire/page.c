/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/wire.h"

#include "base/base.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define INDEX(position) ((position) % GPUD_PAGE_ENTRIES)
#define CLAIM_TRIES 1000

/* --- the carrier --------------------------------------------------------------------------- */

static bool shared_notify(struct gpud_page_end *end)
{
    gpud_waker_kick(&end->waker);
    return true;
}

const struct gpud_page_carrier gpud_page_shared = {
    .name = "shared memory",
    .can_take_back = true,
    .can_elide = true,
    .notify = shared_notify,
};

const struct gpud_page_carrier *gpud_page_carrier = &gpud_page_shared;

static inline void publish_range(const struct gpud_page_end *end, const volatile void *from,
                                 size_t size)
{
    if (end->carrier->publish)
        end->carrier->publish(end, (size_t)((const volatile char *)from - (const char *)end->half),
                              size);
}

static inline void publish_word(const struct gpud_page_end *end, _Atomic uint32_t *word,
                                uint32_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
    publish_range(end, word, sizeof(*word));
}

/* Publishes the range and wakes the other side. */
static bool publish_and_notify(struct gpud_page_end *end, const volatile void *from, size_t size)
{
    if (end->carrier->publish_and_notify)
        return end->carrier->publish_and_notify(
            end, (size_t)((const volatile char *)from - (const char *)end->half), size);
    publish_range(end, from, size);
    return gpud_page_notify(end);
}

bool gpud_page_wake(struct gpud_page_end *end, uint32_t sleep)
{
    if (!gpud_waker_claim(&end->waker, sleep))
        return false;
    if ((sleep & GPUD_SLEEP_MODES) != GPUD_SLEEP_POLL)
        return end->carrier->notify(end);
    if (end->send_kick)
        end->send_kick(end->send_kick_arg);
    return end->send_kick != NULL;
}

void gpud_page_sleep(struct gpud_page_end *end, bool (*ready)(void *arg), void *arg,
                     int64_t deadline)
{
    if (end->carrier->sleep)
        end->carrier->sleep(end, ready, arg, deadline);
    else
        gpud_sleep(&end->sleeper, ready, arg, deadline);
}

void gpud_page_rouse(struct gpud_page_end *end)
{
    if (end->carrier->rouse)
        end->carrier->rouse(end);
    else
        gpud_sleeper_rouse(&end->sleeper);
}

void gpud_page_poll_begin(struct gpud_page_end *end)
{
    gpud_sleep_begin(&end->sleeper, GPUD_SLEEP_POLL);
    if (end->carrier->poll_begin)
        end->carrier->poll_begin(end);
}

static void write_identity(const struct gpud_page_end *end, struct gpud_page_identity *identity,
                           uint32_t entries)
{
    identity->magic = GPUD_PAGE_MAGIC;
    identity->version = GPUD_PAGE_VERSION;
    identity->entries = entries;
    publish_range(end, identity, sizeof(*identity));
}

static enum gpud_status check_identity(const struct gpud_page_identity *identity, const char *whose,
                                       uint32_t *entries, struct gpud_error *error)
{
    struct gpud_page_identity seen;
    gpud_shared_read(&seen, identity, sizeof(seen));
    if (seen.magic != GPUD_PAGE_MAGIC)
        return gpud_fail(error, GPUD_PEER, "what the %s shared is not a ring page", whose);
    if (seen.version != GPUD_PAGE_VERSION)
        return gpud_fail(error, GPUD_PEER,
                         "the %s's ring page is of version %u, and of version %d here: run the "
                         "same gpudirect on both sides",
                         whose, seen.version, GPUD_PAGE_VERSION);
    *entries = seen.entries;
    return GPUD_OK;
}

/* --- sender -------------------------------------------------------------------------------- */

enum gpud_status gpud_page_check_version(int fd, struct gpud_error *error)
{
    struct gpud_page_identity identity;
    uint32_t entries;
    if (fcntl(fd, F_GET_SEALS) < 0) /* not a memfd: reading it might block */
        return GPUD_OK;
    if (pread(fd, &identity, sizeof(identity), 0) != sizeof(identity) ||
        identity.magic != GPUD_PAGE_MAGIC)
        return GPUD_OK;
    return check_identity(&identity, "receiver", &entries, error);
}

enum gpud_status gpud_page_tx_init(struct gpud_page_tx *view, struct gpud_page *page,
                                   struct gpud_remote *remote, uint32_t entries, uint32_t credits,
                                   struct gpud_error *error)
{
    uint32_t offered = 0;
    if (entries < 1 || entries > GPUD_PAGE_ENTRIES)
        return gpud_fail(error, GPUD_PEER, "the receiver offers %u entries: 1 to %d are possible",
                         entries, GPUD_PAGE_ENTRIES);
    enum gpud_status status = check_identity(&page->receiver.identity, "receiver", &offered, error);
    if (status != GPUD_OK)
        return status;
    if (offered != entries)
        return gpud_fail(error, GPUD_PEER,
                         "the receiver offers %u entries, and its ring page has %u", entries,
                         offered);
    if (atomic_load(&page->sender.head) || atomic_load(&page->receiver.claimed) ||
        atomic_load(&page->receiver.returned))
        return gpud_fail(error, GPUD_PEER, "the receiver's ring page has been used before");
    memset(view, 0, sizeof(*view));
    view->page = page;
    view->end.carrier = remote ? remote->ops->carrier : gpud_page_carrier;
    view->end.remote = remote;
    view->end.half = &page->sender;
    view->end.sleeper.asleep = &page->sender.asleep;
    view->end.sleeper.kicks = &page->receiver.kicks;
    view->end.waker.asleep = &page->receiver.asleep;
    view->end.waker.kicks = &page->sender.kicks;
    view->entries = credits < entries ? credits : entries;
    view->offered = entries;
    while (view->free_count < view->entries) {
        view->free[view->free_count] = (uint8_t)(view->entries - 1 - view->free_count);
        view->free_count++;
    }
    write_identity(&view->end, &page->sender.identity, view->entries);
    return GPUD_OK;
}

void gpud_page_start(struct gpud_page_tx *view, uint64_t sequence)
{
    _Atomic uint32_t *start = view->page->sender.start;
    atomic_store_explicit(&start[0], (uint32_t)sequence, memory_order_relaxed);
    atomic_store_explicit(&start[1], (uint32_t)(sequence >> 32), memory_order_release);
    publish_range(&view->end, start, sizeof(view->page->sender.start));
}

void gpud_page_raise(struct gpud_page_tx *view, uint32_t credits)
{
    while (view->entries < credits && view->entries < view->offered)
        view->free[view->free_count++] = (uint8_t)view->entries++;
}

/* Model (tests/model): describe.1 in link.pml and ring.pml. */
bool gpud_page_take(struct gpud_page_tx *view, uint32_t *entry)
{
    if (view->free_count == 0)
        return false;
    *entry = view->free[--view->free_count];
    return true;
}

/* Model: publish.1 (index) in link.pml. */
static void publish_entry(struct gpud_page_tx *view, uint32_t entry)
{
    uint32_t position = view->head++;
    view->out[entry] = 1;
    view->position[entry] = position;
    view->order[INDEX(position)] = entry;
    struct gpud_sender_half *half = &view->page->sender;
    /* Shared memory needs no publishing, and there a peer may write meta_size. */
    if (view->end.carrier->publish) {
        const struct gpud_descriptor *descriptor = &half->descriptor[entry];
        publish_range(&view->end, descriptor,
                      descriptor->meta_size > GPUD_FRAME_META_MAX
                          ? sizeof(*descriptor)
                          : offsetof(struct gpud_descriptor, meta) + descriptor->meta_size);
    }
    publish_word(&view->end, &half->published[INDEX(position)], entry);
}

/* Model, of this and the next: publish.2 (head) in link.pml. */
void gpud_page_publish(struct gpud_page_tx *view, uint32_t entry)
{
    publish_entry(view, entry);
    publish_word(&view->end, &view->page->sender.head, view->head);
}

void gpud_page_set_lines(const struct gpud_page_tx *view, uint32_t entry, uint32_t lines)
{
    _Atomic uint32_t *word = &view->page->sender.lines[entry];
    publish_word(&view->end, word, lines);
    gpud_futex_wake(word);
}

bool gpud_page_hand_over(struct gpud_page_tx *view, uint32_t entry)
{
    struct gpud_sender_half *half = &view->page->sender;
    publish_entry(view, entry);
    atomic_store_explicit(&half->head, view->head, memory_order_release);
    GPUD_STOP_POINT(half->descriptor[entry].flags & GPUD_FRAME_CANARY
                        ? "sender: test frame published"
                        : "sender: published");
    if (!view->end.carrier->can_elide)
        return publish_and_notify(&view->end, &half->head, sizeof(half->head));
    publish_range(&view->end, &half->head, sizeof(half->head));
    return false;
}

bool gpud_page_announce(struct gpud_page_tx *view, uint32_t more)
{
    publish_word(&view->end, &view->page->sender.announced, view->head + more);
    return more && !view->end.carrier->can_elide && gpud_page_notify(&view->end);
}

/* According to the receiver's half. */
static bool is_unclaimed(const struct gpud_page_tx *view, uint32_t entry)
{
    uint32_t waiting =
        view->head - atomic_load_explicit(&view->page->receiver.claimed, memory_order_relaxed);
    return waiting > view->entries || view->head - view->position[entry] <= waiting;
}

/* Model: reap.1 (returned), reap.2 (given_back), reap.3 (claimed) in link.pml and liar.pml. */
int gpud_page_reap(struct gpud_page_tx *view, uint32_t *entry)
{
    uint32_t returned = atomic_load_explicit(&view->page->receiver.returned, memory_order_acquire);
    if (returned == view->returned)
        return 0;
    if (returned - view->returned > view->entries - view->free_count)
        return -1; /* more than were out */
    uint32_t index = atomic_load_explicit(&view->page->receiver.given_back[INDEX(view->returned)],
                                          memory_order_relaxed);
    if (index >= view->entries || !view->out[index])
        return -1; /* not an entry, or not one that is out */
    if (view->end.carrier->can_take_back && is_unclaimed(view, index))
        return -1; /* given back but never claimed: a revoke could free it a second time */
    view->out[index] = 0;
    view->returned++;
    view->free[view->free_count++] = (uint8_t)index;
    *entry = index;
    return 1;
}

/* Model: revoke.1 (load), revoke.2 (exchange) in link.pml; revoke.3 (check) in liar.pml. */
int gpud_page_revoke(struct gpud_page_tx *view, uint32_t *entry)
{
    if (!view->end.carrier->can_take_back)
        return 0;
    _Atomic uint32_t *word = &view->page->receiver.claimed; /* the one word of the other half */
    uint32_t claimed = atomic_load_explicit(word, memory_order_acquire);
    do {
        if (view->head - claimed > view->entries)
            return -1; /* behind what it must have claimed, or ahead of the head */
        if (claimed == view->head)
            return 0;
    } while (!atomic_compare_exchange_weak(word, &claimed, claimed + 1));
    uint32_t index = view->order[INDEX(claimed)];
    if (!view->out[index] || view->position[index] != claimed)
        return -1; /* already given back, without having been claimed */
    view->out[index] = 0;
    view->free[view->free_count++] = (uint8_t)index;
    *entry = index;
    return 1;
}

const struct gpud_descriptor *gpud_page_peek_oldest(const struct gpud_page_tx *view)
{
    uint32_t claimed = atomic_load_explicit(&view->page->receiver.claimed, memory_order_acquire);
    if (!view->end.carrier->can_take_back || view->head - claimed > view->entries ||
        claimed == view->head)
        return NULL;
    return &view->page->sender.descriptor[view->order[INDEX(claimed)]];
}

bool gpud_page_take_key_request(const struct gpud_page_tx *view, uint32_t *serial,
                                struct gpud_key_request *request)
{
    const struct gpud_page_key_request *words = &view->page->receiver.key_request;
    uint32_t before = atomic_load_explicit(&words->serial, memory_order_acquire);
    if (before == 0 || before == *serial)
        return false;
    uint32_t flags = atomic_load_explicit(&words->flags, memory_order_relaxed);
    uint64_t low = atomic_load_explicit(&words->low, memory_order_relaxed);
    uint64_t high = atomic_load_explicit(&words->high, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&words->serial, memory_order_relaxed) != before)
        return false; /* another one is being written: the next look finds it */
    *serial = before;
    request->at_once = flags & GPUD_PAGE_KEY_AT_ONCE;
    request->all_headers = flags & GPUD_PAGE_KEY_ALL_HEADERS;
    request->time_ns = flags & GPUD_PAGE_KEY_AT_TIME ? high << 32 | low : GPUD_TIME_NONE;
    return true;
}

/* Model: message.2 in link.pml. */
void gpud_page_count_message(struct gpud_page_tx *view)
{
    publish_word(&view->end, &view->page->sender.messages, ++view->messages);
}

uint32_t gpud_page_count_out(const struct gpud_page_tx *view)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < GPUD_PAGE_ENTRIES; i++)
        count += view->out[i];
    return count;
}

uint32_t gpud_page_count_unclaimed(const struct gpud_page_tx *view)
{
    uint32_t claimed = atomic_load_explicit(&view->page->receiver.claimed, memory_order_relaxed);
    uint32_t most = gpud_page_count_out(view), count = view->head - claimed;
    if (!view->end.carrier->can_take_back)
        return 0;
    return count < most ? count : most;
}

void gpud_page_get_stats(const struct gpud_page_tx *view, struct gpud_link_stats *stats)
{
    uint64_t word[GPUD_PAGE_STATS];
    for (size_t i = 0; i < GPUD_PAGE_STATS; i++)
        word[i] = atomic_load_explicit(&view->page->receiver.stats[i], memory_order_relaxed);
    memcpy(stats, word, sizeof(word));
}

void gpud_page_take_all_back(struct gpud_page_tx *view)
{
    publish_word(&view->end, &view->page->sender.taken_back, 1);
    atomic_thread_fence(memory_order_seq_cst); /* before any write into a slot */
}

/* --- receiver ------------------------------------------------------------------------------ */

void gpud_page_rx_init(struct gpud_page_rx *view, struct gpud_page *page,
                       struct gpud_remote *remote, uint32_t entries)
{
    memset(view, 0, sizeof(*view));
    view->page = page;
    view->entries = entries;
    atomic_init(&view->credits, entries);
    view->end.carrier = remote ? remote->ops->carrier : gpud_page_carrier;
    view->end.remote = remote;
    view->end.half = &page->receiver;
    view->end.sleeper.asleep = &page->receiver.asleep;
    view->end.sleeper.kicks = &page->sender.kicks;
    view->end.waker.asleep = &page->sender.asleep;
    view->end.waker.kicks = &page->receiver.kicks;
    write_identity(&view->end, &page->receiver.identity, entries);
}

enum gpud_status gpud_page_check_sender(const struct gpud_page_rx *view, struct gpud_error *error)
{
    uint32_t used = 0;
    enum gpud_status status = check_identity(&view->page->sender.identity, "sender", &used, error);
    if (status == GPUD_OK && (used < 1 || used > view->entries))
        return gpud_fail(error, GPUD_PEER, "the sender uses %u entries, and %u were offered", used,
                         view->entries);
    return status;
}

void gpud_page_ask_for_lines(const struct gpud_page_rx *view)
{
    publish_word(&view->end, &view->page->receiver.by_lines, 1);
}

void gpud_page_request_key(const struct gpud_page_rx *view, const struct gpud_key_request *request)
{
    struct gpud_page_key_request *words = &view->page->receiver.key_request;
    uint32_t serial = atomic_load_explicit(&words->serial, memory_order_relaxed) + 1;
    bool timed = request->time_ns != GPUD_TIME_NONE;
    uint32_t flags = (request->at_once ? GPUD_PAGE_KEY_AT_ONCE : 0u) |
                     (timed ? GPUD_PAGE_KEY_AT_TIME : 0u) |
                     (request->all_headers ? GPUD_PAGE_KEY_ALL_HEADERS : 0u);
    publish_word(&view->end, &words->serial, 0);
    atomic_thread_fence(memory_order_seq_cst);
    atomic_store_explicit(&words->flags, flags, memory_order_relaxed);
    atomic_store_explicit(&words->low, (uint32_t)request->time_ns, memory_order_relaxed);
    atomic_store_explicit(&words->high, (uint32_t)(request->time_ns >> 32), memory_order_relaxed);
    publish_range(&view->end, &words->flags, 3 * sizeof(words->flags));
    publish_word(&view->end, &words->serial, serial ? serial : 1);
}

/* The messages before a frame are read before it is claimed, so that a larger number is known by
 * then. */
static uint32_t credits_of(const struct gpud_page_rx *view)
{
    return atomic_load_explicit(&view->credits, memory_order_relaxed);
}

/* How many frames were claimed or revoked since the page was made. */
static uint32_t claimed_of(const struct gpud_page_rx *view)
{
    return atomic_load_explicit(&view->page->receiver.claimed, memory_order_relaxed);
}

bool gpud_page_has_frames(const struct gpud_page_rx *view)
{
    return claimed_of(view) != gpud_page_head(view) && !gpud_page_is_taken_back(view);
}

uint32_t gpud_page_count_waiting(const struct gpud_page_rx *view)
{
    uint32_t claimed = claimed_of(view); /* before the head: a sender moves both */
    uint32_t waiting = gpud_page_head(view) - claimed;
    return waiting < credits_of(view) ? waiting : credits_of(view);
}

bool gpud_page_is_announced(const struct gpud_page_rx *view)
{
    uint32_t announced = atomic_load_explicit(&view->page->sender.announced, memory_order_acquire);
    uint32_t ahead = announced - gpud_page_head(view);
    return ahead > 0 && ahead <= credits_of(view);
}

static int violation(struct gpud_error *error, const char *what)
{
    gpud_fail(error, GPUD_PEER, "the sender broke the protocol: %s", what);
    return -1;
}

int gpud_page_reached(const struct gpud_page_rx *view, uint32_t position)
{
    uint32_t ahead = position - claimed_of(view);
    if (ahead == 0 || ahead > UINT32_MAX / 2) /* a sender's revoke may move past it, too */
        return 1;
    return ahead <= credits_of(view) ? 0 : -1;
}

void gpud_page_tell_stats(struct gpud_page_rx *view, const struct gpud_link_stats *stats,
                          int64_t now)
{
    struct gpud_receiver_half *half = &view->page->receiver;
    uint64_t word[GPUD_PAGE_STATS];
    memcpy(word, stats, sizeof(word));
    for (size_t i = 0; i < GPUD_PAGE_STATS; i++)
        atomic_store_explicit(&half->stats[i], word[i], memory_order_relaxed);
    view->stats_told = now;
    publish_range(&view->end, half->stats, sizeof(half->stats));
}

/* Claims the position; false if the sender has taken it back. */
static bool move_claimed(const struct gpud_page_rx *view, uint32_t claimed)
{
    _Atomic uint32_t *word = &view->page->receiver.claimed;
    if (view->end.carrier->can_take_back)
        return atomic_compare_exchange_strong(word, &claimed, claimed + 1);
    atomic_store_explicit(word, claimed + 1, memory_order_relaxed);
    return true;
}

/* Model: claim.1, claim.1b (head, and claimed once more), claim.2 (index), claim.3 (exchange),
 * claim.4 (descriptor) in link.pml. */
int gpud_page_claim(struct gpud_page_rx *view, uint32_t limit, uint32_t *entry,
                    struct gpud_descriptor *descriptor, struct gpud_error *error)
{
    struct gpud_sender_half *sender = &view->page->sender;
    uint32_t index, claimed;
    for (int tries = 0;; tries++) {
        /* A sender that keeps taking frames back must not hold this thread. */
        if (tries == CLAIM_TRIES || gpud_page_is_taken_back(view))
            return 0;
        claimed = claimed_of(view);
        uint32_t waiting = gpud_page_head(view) - claimed, ahead = limit - claimed;
        if (claimed_of(view) != claimed)
            continue; /* the sender took the oldest back meanwhile, and may have published more */
        if (waiting > credits_of(view))
            return violation(error, "more frames waiting than entries");
        if (waiting == 0 || ahead == 0 || ahead > credits_of(view))
            return 0;
        /* Read before the exchange: after it the sender may publish into this position again. */
        index = atomic_load_explicit(&sender->published[INDEX(claimed)], memory_order_acquire);
        if (move_claimed(view, claimed))
            break;
    }
    GPUD_STOP_POINT("receiver: claimed, descriptor not read");
    if (index >= credits_of(view))
        return violation(error, "an entry that does not exist");
    if (atomic_load_explicit(&view->held[index], memory_order_acquire))
        return violation(error, "an entry that is still held here");

    const struct gpud_descriptor *shared = &sender->descriptor[index];
    gpud_shared_read(descriptor, shared, offsetof(struct gpud_descriptor, meta));
    if (descriptor->meta_size > GPUD_FRAME_META_MAX)
        return violation(error, "more meta than a frame carries");
    gpud_shared_read(descriptor->meta, shared->meta, descriptor->meta_size);
    bool counts = !(descriptor->flags & (GPUD_FRAME_CANARY | GPUD_FRAME_VOID));
    if (counts && descriptor->sequence <= view->last_sequence)
        return violation(error, "a sequence number that went back");
    if (counts)
        view->last_sequence = descriptor->sequence;
    GPUD_STOP_POINT("receiver: descriptor read");
    atomic_store_explicit(&view->held[index], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&view->held_count, 1, memory_order_relaxed);
    *entry = index;
    return 1;
}

/* Model: give_back.1, .2 in link.pml; .2 to .4 (fence, asleep, idle) in wakeup.pml. */
bool gpud_page_give_back(struct gpud_page_rx *view, uint32_t entry, const atomic_bool *idle)
{
    struct gpud_receiver_half *half = &view->page->receiver;
    const struct gpud_sender_half *sender = &view->page->sender;
    atomic_store_explicit(&view->held[entry], 0, memory_order_release);
    uint32_t held = atomic_fetch_sub_explicit(&view->held_count, 1, memory_order_relaxed) - 1;
    publish_word(&view->end, &half->given_back[INDEX(view->returned)], entry);
    view->returned++;
    atomic_store_explicit(&half->returned, view->returned, memory_order_release);
    GPUD_STOP_POINT("receiver: given back");
    if (!view->end.carrier->can_elide)
        return publish_and_notify(&view->end, &half->returned,
                                  sizeof(half->returned) + sizeof(half->latency));
    publish_range(&view->end, &half->returned, sizeof(half->returned) + sizeof(half->latency));
    uint32_t sleep = gpud_waker_look(&view->end.waker);
    if (sleep == 0)
        return false;
    /* A sender asleep for lack of credits is woken once for several, not for each. */
    uint32_t wanted = atomic_load_explicit(&sender->wanted, memory_order_relaxed);
    uint32_t waiting = atomic_load_explicit(&sender->head, memory_order_relaxed) -
                       atomic_load_explicit(&half->claimed, memory_order_relaxed);
    if (!atomic_load_explicit(idle, memory_order_relaxed) &&
        credits_of(view) - held < waiting + wanted)
        return false;
    return gpud_page_wake(&view->end, sleep);
}

/* --- between hosts -------------------------------------------------------------------------- */

bool gpud_remote_copy(char *to, const char *from, size_t size)
{
    bool changed = false;
    for (size_t at = 0; at < size; at += sizeof(uint32_t)) {
        uint32_t word = atomic_load((const _Atomic uint32_t *)(const void *)(from + at));
        changed |= memcmp(to + at, &word, sizeof(word)) != 0;
        memcpy(to + at, &word, sizeof(word));
    }
    return changed;
}

enum gpud_status gpud_remote_check_ring(const struct gpud_ring_description *description,
                                        uint32_t entries, uint64_t frame_size,
                                        struct gpud_error *error)
{
    uint64_t memory_size;
    uint32_t memories = description->memories, slots = description->slots_per_memory;
    if (memories < 1 || memories > GPUD_RING_MEMORIES_MAX || slots < 1 ||
        slots > GPUD_RING_SLOTS_MAX ||
        __builtin_mul_overflow(description->slot_size, slots, &memory_size))
        return gpud_fail(error, GPUD_PEER,
                         "the receiver's ring is impossible: %u memories of %u slots of "
                         "%llu bytes",
                         memories, slots, (unsigned long long)description->slot_size);
    if (frame_size == 0 || description->slot_size < frame_size || memories * slots < entries)
        return gpud_fail(
            error, GPUD_PEER,
            "the receiver's ring has %u slots of %llu bytes, and %u of %llu are needed",
            memories * slots, (unsigned long long)description->slot_size, entries,
            (unsigned long long)frame_size);
    for (uint32_t i = 0; i < memories; i++)
        if (description->handle[i].type != GPUD_HANDLE_NETWORK ||
            description->handle[i].size < memory_size)
            return gpud_fail(error, GPUD_PEER,
                             "the receiver's ring has memory that this side cannot write");
    return GPUD_OK;
}
