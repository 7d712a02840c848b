/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ring page: the words that a sender and one receiver share while frames flow.
 *
 * It belongs to the receiver (a sealed memfd). An entry is a credit: a descriptor, and two words
 * for devices that signal by themselves. Entries travel round two queues of indices, as in
 * io_uring:
 *
 *     sender                                              receiver
 *     take a free entry, write its descriptor
 *     published[head++] = entry ───────────────────────▶  claimed++ ; reads the descriptor, once
 *                                                         … uses the frame …
 *     returned++ seen; the entry is free  ◀─────────────  given_back[returned++] = entry
 *
 * `claimed` moves by compare-and-swap, so that the sender may take back the oldest frame that the
 * receiver has not taken yet (drop-oldest). `messages` counts what the sender has sent over the
 * socket, so that an event keeps its place among the frames although it travels elsewhere.
 *
 * Each side keeps its own copy of what it wrote, and believes nothing that it reads: indices are
 * checked against that copy, a lie is a violation and ends this link alone. Positions count frames
 * and wrap; the distance between two of them is unsigned, and compared with the number of entries
 * before anything is concluded from it. No function here calls
 * the kernel, but for the two that wake the other side. */
#ifndef GPUD_WIRE_PAGE_H
#define GPUD_WIRE_PAGE_H

#include "base/error.h"
#include "base/sleep.h"
#include <gpudirect/frame.h>
#include <gpudirect/sender.h>

#define GPUD_PAGE_MAGIC UINT64_C(0x6567615064757067) /* "gpudPage" */
#define GPUD_PAGE_VERSION 2
#define GPUD_PAGE_ENTRIES GPUD_SLOTS_MAX /* a power of two */

struct gpud_descriptor {
    uint64_t sequence, dropped;
    uint64_t pts, dts, duration, offset;
    uint64_t submit_time;
    uint32_t slot;  /* in the sender's ring; equal to the entry where the ring is the receiver's */
    uint32_t value; /* of the ready signal, where the route has one */
    uint32_t flags;
    uint32_t meta_size;
    uint8_t reserved[56];
    uint8_t meta[GPUD_FRAME_META_MAX];
};

/* DirectGMA's markers must never wrap, and CUDA compares cyclically: a new epoch starts long
 * before. Tests bring it within reach. Beyond the greatest value there is no comparison to rely on.
 */
#ifndef GPUD_SIGNAL_LIMIT
#define GPUD_SIGNAL_LIMIT (UINT32_C(1) << 30)
#endif
#define GPUD_SIGNAL_MAX UINT32_C(0x7fffffff)

/* In descriptor flags only: not a frame of the application but the test of the link. */
#define GPUD_FRAME_CANARY (UINT32_C(1) << 15)
/* Likewise: no frame after all, its copy failed. It is published all the same, because messages may
 * have been sent that have their place behind it, and given back at once. */
#define GPUD_FRAME_VOID (UINT32_C(1) << 14)

/* Words that different sides write stand on lines of their own. */
struct gpud_line {
    _Atomic uint32_t word;
    _Atomic uint32_t second;
    _Atomic uint32_t third;
    uint8_t padding[52];
};

struct gpud_page {
    uint64_t magic;
    uint32_t version, entries;
    uint8_t padding[48];
    struct gpud_line head; /* sender: frames published; second: messages sent; third: frames
                              announced, at least */
    struct gpud_line
        start; /* sender: the sequence (low and high word) after which frames are this receiver's;
                  third: 1 when it has taken all slots back, whoever still reads them */
    struct gpud_line claimed;  /* both, by compare-and-swap */
    struct gpud_line returned; /* receiver: entries given back; second: ns from submit to acquire of
                                  the last frame, for people */
    struct gpud_line
        sender_sleeps; /* sender: 0, or wake me at so many free entries; cleared by the waker */
    struct gpud_line receiver_sleeps; /* receiver: 0 or 1; cleared by the waker */
    _Atomic uint32_t published[GPUD_PAGE_ENTRIES];
    _Atomic uint32_t given_back[GPUD_PAGE_ENTRIES];
    struct {
        struct gpud_line ready, release; /* words for devices that signal by themselves */
    } signal[GPUD_PAGE_ENTRIES];
    struct gpud_descriptor descriptor[GPUD_PAGE_ENTRIES];
};

_Static_assert(sizeof(struct gpud_line) == 64, "a line is a cache line");
_Static_assert(sizeof(struct gpud_descriptor) == 832,
               "the layout of a descriptor is part of the protocol");
_Static_assert(sizeof(struct gpud_page) == 62400, "the layout of the page is part of the protocol");

/* --- the sender's view --------------------------------------------------------------------- */

struct gpud_page_sender {
    struct gpud_page *page;
    uint32_t entries;        /* used */
    uint32_t head, returned; /* ours, and how far we have read theirs */
    uint32_t free_count;
    uint8_t
        free[GPUD_PAGE_ENTRIES]; /* a stack: the entry used last is the one still in the caches */
    uint8_t out[GPUD_PAGE_ENTRIES];       /* published, neither returned nor revoked */
    uint32_t position[GPUD_PAGE_ENTRIES]; /* at which it was published */
    uint32_t order[GPUD_PAGE_ENTRIES];    /* our copy of published[] */
};

/* entries: what the receiver offers; credits: how many of them are used at most. GPUD_PEER if the
 * page does not say what the handshake said. */
enum gpud_status gpud_page_sender_init(struct gpud_page_sender *view, struct gpud_page *page,
                                       uint32_t entries, uint32_t credits,
                                       struct gpud_error *error);

/* From here on every frame is this receiver's, or counts as dropped for it. */
void gpud_page_start(struct gpud_page_sender *view, uint64_t sequence);

bool gpud_page_take(struct gpud_page_sender *view, uint32_t *entry);
void gpud_page_untake(struct gpud_page_sender *view, uint32_t entry);
void gpud_page_publish(struct gpud_page_sender *view, uint32_t entry);

/* So many more frames will be published in a moment: a receiver that sleeps is woken now, so that
 * its waking up and the sender's work go on side by side. 0: none after all. Returns whether it was
 * woken. */
bool gpud_page_announce(struct gpud_page_sender *view, uint32_t more);

/* The next entry that came back: 1 and *entry, 0 none, −1 a violation. */
int gpud_page_reap(struct gpud_page_sender *view, uint32_t *entry);

/* The oldest published entry that the receiver has not claimed: 1 and *entry (free again), 0 none,
 * −1. */
int gpud_page_revoke(struct gpud_page_sender *view, uint32_t *entry);

/* Whether something came back that was not reaped yet. */
static inline bool gpud_page_has_returns(const struct gpud_page_sender *view)
{
    return atomic_load_explicit(&view->page->returned.word, memory_order_acquire) != view->returned;
}

/* What the receiver says of its last frame; 0: nothing. Believed by nobody but people. */
static inline uint32_t gpud_page_latency(const struct gpud_page_sender *view)
{
    return atomic_load_explicit(&view->page->returned.second, memory_order_relaxed);
}

void gpud_page_count_message(struct gpud_page_sender *view);

/* How many entries are with the receiver: published, neither returned nor revoked. */
uint32_t gpud_page_count_out(const struct gpud_page_sender *view);

/* The slots will be written anew although entries are out: frames that the receiver still holds are
 * frames no more. Call it before the first such write. */
void gpud_page_take_all_back(struct gpud_page_sender *view);

/* --- the receiver's view ------------------------------------------------------------------- */

struct gpud_page_receiver {
    struct gpud_page *page;
    uint32_t entries;
    uint32_t returned;
    uint32_t held_count;
    uint64_t last_sequence;
    uint8_t held[GPUD_PAGE_ENTRIES];
};

void gpud_page_receiver_init(struct gpud_page_receiver *view, struct gpud_page *page,
                             uint32_t entries);

/* In a line that is the receiver's to write anyway. */
static inline void gpud_page_tell_latency(const struct gpud_page_receiver *view, uint32_t latency)
{
    atomic_store_explicit(&view->page->returned.second, latency, memory_order_relaxed);
}

/* How many frames were published, and claimed or revoked, in this page's life; messages that the
 * sender counted. */
uint32_t gpud_page_head(const struct gpud_page_receiver *view);
uint32_t gpud_page_claimed(const struct gpud_page_receiver *view);

/* Whether a published frame was neither claimed nor revoked, or the words make no sense, which
 * gpud_page_claim() will say. None is there any more when the sender has taken all slots back. */
bool gpud_page_has_frames(const struct gpud_page_receiver *view);
uint32_t gpud_page_messages(const struct gpud_page_receiver *view);

/* Whether a frame was announced that is not there yet. */
bool gpud_page_is_announced(const struct gpud_page_receiver *view);

/* Whether the sender has taken all slots back. The second one is for after a frame was read, which
 * was whole if the answer is false. */
bool gpud_page_is_taken_back(const struct gpud_page_receiver *view);
bool gpud_page_is_taken_back_after(const struct gpud_page_receiver *view);

/* The last sequence before the first that was meant for this receiver. */
uint64_t gpud_page_started(const struct gpud_page_receiver *view);

/* The next frame before the position `limit`: 1, *entry and *descriptor (copied once, checked; only
 * meta_size bytes of its meta are valid), 0 none, −1 a violation with its reason in *error. The
 * limit keeps messages in order: it is the place of the message that comes next, or else the head
 * that was read before the messages were counted. */
int gpud_page_claim(struct gpud_page_receiver *view, uint32_t limit, uint32_t *entry,
                    struct gpud_descriptor *descriptor, struct gpud_error *error);

/* Whether every frame before the position was claimed or revoked: 1; 0 not yet; −1 never: it is
 * further ahead than there are entries. */
int gpud_page_reached(const struct gpud_page_receiver *view, uint32_t position);

/* Gives an entry back. *idle: this side has nothing left to do, so that a sleeping sender must be
 * woken whatever it wished; read after the entry is back, so that one of the two sees the other.
 * Returns whether that took a system call. */
bool gpud_page_give_back(struct gpud_page_receiver *view, uint32_t entry, const atomic_bool *idle);

#endif
