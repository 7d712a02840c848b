/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/page.h"

#include "base/stop.h"

#include <string.h>

#define INDEX(position) ((position) % GPUD_PAGE_ENTRIES)
#define CLAIM_TRIES 1000

/* --- sender -------------------------------------------------------------------------------- */

enum gpud_status gpud_page_sender_init(struct gpud_page_sender *view, struct gpud_page *page,
                                       uint32_t entries, uint32_t credits, struct gpud_error *error)
{
    if (entries < 1 || entries > GPUD_PAGE_ENTRIES)
        return gpud_fail(error, GPUD_PEER, "the receiver offers %u entries: 1 to %d are possible",
                         entries, GPUD_PAGE_ENTRIES);
    if (page->magic != GPUD_PAGE_MAGIC || page->version != GPUD_PAGE_VERSION ||
        page->entries != entries)
        return gpud_fail(error, GPUD_PEER,
                         "what the receiver shared is not a ring page of version %d",
                         GPUD_PAGE_VERSION);
    if (atomic_load(&page->head.word) || atomic_load(&page->claimed.word) ||
        atomic_load(&page->returned.word))
        return gpud_fail(error, GPUD_PEER, "the receiver's ring page has been used before");
    memset(view, 0, sizeof(*view));
    view->page = page;
    view->entries = credits < entries ? credits : entries;
    while (view->free_count < view->entries) {
        view->free[view->free_count] = (uint8_t)(view->entries - 1 - view->free_count);
        view->free_count++;
    }
    return GPUD_OK;
}

void gpud_page_start(struct gpud_page_sender *view, uint64_t sequence)
{
    atomic_store_explicit(&view->page->start.word, (uint32_t)sequence, memory_order_relaxed);
    atomic_store_explicit(&view->page->start.second, (uint32_t)(sequence >> 32),
                          memory_order_release);
}

/* Model (tests/model): describe.1 in link.pml and ring.pml. */
bool gpud_page_take(struct gpud_page_sender *view, uint32_t *entry)
{
    if (view->free_count == 0)
        return false;
    *entry = view->free[--view->free_count];
    return true;
}

void gpud_page_untake(struct gpud_page_sender *view, uint32_t entry)
{
    view->free[view->free_count++] = (uint8_t)entry;
}

/* Model: publish.1 (index), publish.2 (head) in link.pml. */
void gpud_page_publish(struct gpud_page_sender *view, uint32_t entry)
{
    uint32_t position = view->head++;
    view->out[entry] = 1;
    view->position[entry] = position;
    view->order[INDEX(position)] = entry;
    atomic_store_explicit(&view->page->published[INDEX(position)], entry, memory_order_relaxed);
    atomic_store_explicit(&view->page->head.word, view->head, memory_order_release);
}

bool gpud_page_announce(struct gpud_page_sender *view, uint32_t more)
{
    atomic_store_explicit(&view->page->head.third, view->head + more, memory_order_release);
    return more && gpud_wake(&view->page->receiver_sleeps.word);
}

/* Model: reap.1 (returned), reap.2 (given_back), reap.3 (claimed) in link.pml and liar.pml. */
int gpud_page_reap(struct gpud_page_sender *view, uint32_t *entry)
{
    uint32_t returned = atomic_load_explicit(&view->page->returned.word, memory_order_acquire);
    if (returned == view->returned)
        return 0;
    if (returned - view->returned > view->entries - view->free_count)
        return -1; /* more than we ever gave */
    uint32_t index =
        atomic_load_explicit(&view->page->given_back[INDEX(view->returned)], memory_order_relaxed);
    if (index >= view->entries || !view->out[index])
        return -1; /* not an entry, or not one that is out */
    uint32_t waiting =
        view->head - atomic_load_explicit(&view->page->claimed.word, memory_order_relaxed);
    if (waiting > view->entries || view->head - view->position[index] <= waiting)
        return -1; /* given back, but never taken */
    view->out[index] = 0;
    view->returned++;
    view->free[view->free_count++] = (uint8_t)index;
    *entry = index;
    return 1;
}

/* Model: revoke.1 (load), revoke.2 (exchange) in link.pml; revoke.3 (check) in liar.pml. */
int gpud_page_revoke(struct gpud_page_sender *view, uint32_t *entry)
{
    uint32_t claimed = atomic_load_explicit(&view->page->claimed.word, memory_order_acquire);
    do {
        if (view->head - claimed > view->entries)
            return -1; /* behind what it must have claimed, or ahead of what there is */
        if (claimed == view->head)
            return 0;
    } while (!atomic_compare_exchange_weak(&view->page->claimed.word, &claimed, claimed + 1));
    uint32_t index = view->order[INDEX(claimed)];
    if (!view->out[index] || view->position[index] != claimed)
        return -1; /* it gave this one back already, without claiming it */
    view->out[index] = 0;
    view->free[view->free_count++] = (uint8_t)index;
    *entry = index;
    return 1;
}

/* Model: message.2 in link.pml. */
void gpud_page_count_message(struct gpud_page_sender *view)
{
    atomic_fetch_add_explicit(&view->page->head.second, 1, memory_order_release);
}

uint32_t gpud_page_count_out(const struct gpud_page_sender *view)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < GPUD_PAGE_ENTRIES; i++)
        count += view->out[i];
    return count;
}

void gpud_page_take_all_back(struct gpud_page_sender *view)
{
    atomic_store_explicit(&view->page->start.third, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst); /* before whatever is written into a slot */
}

/* --- receiver ------------------------------------------------------------------------------ */

void gpud_page_receiver_init(struct gpud_page_receiver *view, struct gpud_page *page,
                             uint32_t entries)
{
    memset(view, 0, sizeof(*view));
    view->page = page;
    view->entries = entries;
    page->magic = GPUD_PAGE_MAGIC;
    page->version = GPUD_PAGE_VERSION;
    page->entries = entries;
}

uint32_t gpud_page_head(const struct gpud_page_receiver *view)
{
    return atomic_load_explicit(&view->page->head.word, memory_order_acquire);
}

uint32_t gpud_page_claimed(const struct gpud_page_receiver *view)
{
    return atomic_load_explicit(&view->page->claimed.word, memory_order_relaxed);
}

bool gpud_page_has_frames(const struct gpud_page_receiver *view)
{
    return gpud_page_claimed(view) != gpud_page_head(view) && !gpud_page_is_taken_back(view);
}

uint32_t gpud_page_messages(const struct gpud_page_receiver *view)
{
    return atomic_load_explicit(&view->page->head.second, memory_order_acquire);
}

bool gpud_page_is_announced(const struct gpud_page_receiver *view)
{
    uint32_t announced = atomic_load_explicit(&view->page->head.third, memory_order_acquire);
    uint32_t ahead = announced - gpud_page_head(view);
    return ahead > 0 && ahead <= view->entries;
}

bool gpud_page_is_taken_back(const struct gpud_page_receiver *view)
{
    return atomic_load_explicit(&view->page->start.third, memory_order_relaxed) != 0;
}

bool gpud_page_is_taken_back_after(const struct gpud_page_receiver *view)
{
    atomic_thread_fence(memory_order_seq_cst); /* whatever was read of a slot was read before */
    return gpud_page_is_taken_back(view);
}

uint64_t gpud_page_started(const struct gpud_page_receiver *view)
{
    uint64_t high = atomic_load_explicit(&view->page->start.second, memory_order_acquire);
    return high << 32 | atomic_load_explicit(&view->page->start.word, memory_order_relaxed);
}

static int violation(struct gpud_error *error, const char *what)
{
    gpud_fail(error, GPUD_PEER, "the sender broke the protocol: %s", what);
    return -1;
}

int gpud_page_reached(const struct gpud_page_receiver *view, uint32_t position)
{
    uint32_t ahead = position - gpud_page_claimed(view);
    if (ahead == 0 || ahead > UINT32_MAX / 2) /* a sender that drops the oldest passes it, too */
        return 1;
    return ahead <= view->entries ? 0 : -1;
}

/* Model: claim.1, claim.1b (head, and claimed once more), claim.2 (index), claim.3 (exchange),
 * claim.4 (descriptor) in link.pml. */
int gpud_page_claim(struct gpud_page_receiver *view, uint32_t limit, uint32_t *entry,
                    struct gpud_descriptor *descriptor, struct gpud_error *error)
{
    struct gpud_page *page = view->page;
    uint32_t index, claimed;
    for (int tries = 0;; tries++) {
        /* A sender that does nothing but take back keeps nobody here. */
        if (tries == CLAIM_TRIES || gpud_page_is_taken_back(view))
            return 0;
        claimed = gpud_page_claimed(view);
        uint32_t waiting = gpud_page_head(view) - claimed, ahead = limit - claimed;
        if (gpud_page_claimed(view) != claimed)
            continue; /* the sender took the oldest back meanwhile, and may have published more */
        if (waiting > view->entries)
            return violation(error, "more frames waiting than entries");
        if (waiting == 0 || ahead == 0 || ahead > view->entries)
            return 0;
        /* Before the exchange: once the position is ours, a sender that drops the oldest may go
         * round. */
        index = atomic_load_explicit(&page->published[INDEX(claimed)], memory_order_acquire);
        if (atomic_compare_exchange_strong(&page->claimed.word, &claimed, claimed + 1))
            break;
    }
    GPUD_STOP_POINT("receiver: claimed, descriptor not read");
    if (index >= view->entries)
        return violation(error, "an entry that does not exist");
    if (view->held[index])
        return violation(error, "an entry that is still held here");

    /* Once into our own memory: the sender can change the words under our eyes. */
    const struct gpud_descriptor *shared = &page->descriptor[index];
    memcpy(descriptor, shared, offsetof(struct gpud_descriptor, meta));
    if (descriptor->meta_size > GPUD_FRAME_META_MAX)
        return violation(error, "more meta than a frame carries");
    memcpy(descriptor->meta, shared->meta, descriptor->meta_size);
    bool counts = !(descriptor->flags & (GPUD_FRAME_CANARY | GPUD_FRAME_VOID));
    if (counts && descriptor->sequence <= view->last_sequence)
        return violation(error, "a sequence number that went back");
    if (counts)
        view->last_sequence = descriptor->sequence;
    GPUD_STOP_POINT("receiver: descriptor read");
    view->held[index] = 1;
    view->held_count++;
    *entry = index;
    return 1;
}

/* Model: give_back.1, .2 in link.pml; .2 to .5 (fence, idle, who sleeps) in wakeup.pml. */
bool gpud_page_give_back(struct gpud_page_receiver *view, uint32_t entry, const atomic_bool *idle)
{
    struct gpud_page *page = view->page;
    view->held[entry] = 0;
    view->held_count--;
    atomic_store_explicit(&page->given_back[INDEX(view->returned)], entry, memory_order_relaxed);
    view->returned++;
    atomic_store_explicit(&page->returned.word, view->returned, memory_order_release);
    GPUD_STOP_POINT("receiver: given back");

    atomic_thread_fence(memory_order_seq_cst);
    uint32_t wanted = atomic_load_explicit(&page->sender_sleeps.word, memory_order_relaxed);
    if (wanted == 0)
        return false;
    /* A sender that sleeps for want of credits is woken once, when several are there, not once a
     * frame. */
    uint32_t waiting = atomic_load_explicit(&page->head.word, memory_order_relaxed) -
                       atomic_load_explicit(&page->claimed.word, memory_order_relaxed);
    if (!atomic_load_explicit(idle, memory_order_relaxed) &&
        view->entries - view->held_count < waiting + wanted)
        return false;
    return gpud_wake(&page->sender_sleeps.word);
}
