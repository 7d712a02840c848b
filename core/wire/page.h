/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ring page: the words that a sender and one receiver share while frames flow.
 *
 * It has two halves, and each is written by one side alone. An entry is a credit: a descriptor, and
 * two words for devices that signal by themselves. Entries travel round two queues of indices, as
 * in io_uring:
 *
 *     sender, in its half                                 receiver, in its half
 *     take a free entry, write its descriptor
 *     published[head++] = entry ───────────────────────▶  claimed++ ; reads the descriptor, once
 *                                                         … uses the frame …
 *     returned++ seen; the entry is free  ◀─────────────  given_back[returned++] = entry
 *
 * The carrier makes one side's half visible to the other, and wakes it. On one host both map the
 * same pages (a sealed memfd of the receiver's). Only there can a side write words of the other's
 * half, which it does for two:
 *
 *     claimed         by a sender that drops the oldest: it takes back, by compare-and-swap,
 *                     what the receiver has not claimed (gpud_page_carrier.can_take_back)
 *     ready, release  by a watchdog, which releases a queue that waits for the word of a dead
 *                     peer (release_waits() in stream/shared/watchdog.c)
 *
 * A frame that is handed over while it is written has a word of its own, `lines`: how many of its
 * rows are valid. The sender raises it, from before the frame is published until it is whole; the
 * receiver sleeps on it, and between hosts looks at it often. A receiver asks for such frames by
 * `by_lines` before the first one.
 *
 * `messages` counts what the sender has sent over the control connection, so that an event keeps
 * its place among the frames although it travels elsewhere.
 *
 * Each side keeps its own copy of what it wrote and trusts nothing that it reads: indices are
 * checked against that copy, and a violation ends only this link. Positions count frames and wrap;
 * the distance between two of them is unsigned, and is compared with the number of entries before
 * it is used. Only functions that wake the other side or sleep call the kernel. */
#ifndef GPUD_WIRE_PAGE_H
#define GPUD_WIRE_PAGE_H

#include "base/error.h"
#include "base/sleep.h"
#include <gpudirect/frame.h>
#include <gpudirect/sender.h>

#define GPUD_PAGE_MAGIC UINT64_C(0x6567615064757067) /* "gpudPage" */
#define GPUD_PAGE_VERSION 6
#define GPUD_PAGE_ENTRIES GPUD_SLOTS_MAX /* a power of two */

struct gpud_descriptor {
    uint64_t sequence, dropped;
    uint64_t pts, dts, duration, offset;
    uint64_t submit_time;
    uint32_t slot;  /* in the sender's ring; equal to the entry if the receiver owns the ring */
    uint32_t value; /* of the ready signal, where the route has one */
    uint32_t flags;
    uint32_t meta_size;
    uint64_t bytes; /* in use of the slot; 0: all */
    uint32_t large_meta_size;
    uint8_t reserved[44];
    uint8_t meta[GPUD_FRAME_META_MAX];
};

/* DirectGMA's markers must never wrap, and CUDA compares cyclically, so a new epoch starts long
 * before GPUD_SIGNAL_MAX, beyond which comparisons are unreliable. Tests lower the limit. */
#ifndef GPUD_SIGNAL_LIMIT
#define GPUD_SIGNAL_LIMIT (UINT32_C(1) << 30)
#endif
#define GPUD_SIGNAL_MAX UINT32_C(0x7fffffff)

/* In descriptor flags only: a test frame for the link, not the application's. */
#define GPUD_FRAME_CANARY (UINT32_C(1) << 15)
/* Likewise: its copy failed. It is published because messages may already have positions behind it;
 * the receiver gives it back at once. */
#define GPUD_FRAME_VOID (UINT32_C(1) << 14)
/* Likewise: it is still being written, and the word `lines` of its entry says how far. */
#define GPUD_FRAME_BY_LINES (UINT32_C(1) << 13)
/* In that word: the rest will not be written. */
#define GPUD_LINES_LOST UINT32_MAX

/* At the start of either half, and so of the page; the same in every version. */
struct gpud_page_identity {
    uint64_t magic;
    uint32_t version;
    uint32_t entries; /* sender: used; receiver: offered */
    uint8_t padding[48];
};

/* A word that a device writes or waits for, alone in its cache line. */
struct gpud_page_signal {
    _Atomic uint32_t word;
    uint8_t padding[60];
};

/* struct gpud_link_stats, word by word, in its order: what a receiver counts, for people. */
#define GPUD_PAGE_STATS (sizeof(struct gpud_link_stats) / sizeof(uint64_t))

/* Cache lines of 64 bytes separate words written for every frame from those written rarely. */
struct gpud_receiver_half {
    struct gpud_page_identity identity;

    /* Frames claimed. The sender moves it, too, if can_take_back; else it is not published. */
    _Atomic uint32_t claimed;
    uint8_t padding_claimed[60];

    _Atomic uint32_t returned; /* entries given back */
    _Atomic uint32_t latency;  /* ns from submit to acquire of the last frame, for people */
    _Atomic uint32_t kicks;    /* see base/sleep.h */
    uint8_t padding_returned[52];

    _Atomic uint32_t asleep; /* likewise */
    uint8_t padding_asleep[60];

    _Atomic uint32_t given_back[GPUD_PAGE_ENTRIES];
    struct gpud_page_signal release[GPUD_PAGE_ENTRIES];
    _Atomic uint64_t stats[GPUD_PAGE_STATS];
    _Atomic uint32_t by_lines; /* 1: frames may be published while they are written */
    uint8_t padding_half[3580 - sizeof(struct gpud_link_stats)];
};

struct gpud_sender_half {
    struct gpud_page_identity identity;

    _Atomic uint32_t head;      /* frames published */
    _Atomic uint32_t messages;  /* sent over the control connection */
    _Atomic uint32_t announced; /* frames that are or will be published, at least */
    _Atomic uint32_t kicks;
    uint8_t padding_head[48];

    _Atomic uint32_t asleep;
    _Atomic uint32_t wanted;   /* while asleep: free entries that are worth a wake */
    _Atomic uint32_t start[2]; /* low, high: the sequence after which frames are this receiver's */
    _Atomic uint32_t taken_back; /* 1: slots may be overwritten while the receiver reads them */
    uint8_t padding_asleep[44];

    _Atomic uint32_t published[GPUD_PAGE_ENTRIES];
    struct gpud_page_signal ready[GPUD_PAGE_ENTRIES];
    struct gpud_descriptor descriptor[GPUD_PAGE_ENTRIES];
    _Atomic uint32_t lines[GPUD_PAGE_ENTRIES]; /* valid rows; GPUD_FRAME_BY_LINES */
    uint8_t padding_half[3392];
};

struct gpud_page {
    struct gpud_receiver_half receiver;
    struct gpud_sender_half sender;
};

#define GPUD_PAGE_ALIGNMENT 4096 /* of either half: they are registered separately */
_Static_assert(sizeof(struct gpud_descriptor) == 832, "part of the protocol");
_Static_assert(sizeof(struct gpud_page_identity) == 64, "part of the protocol");
_Static_assert(sizeof(struct gpud_page_signal) == 64, "part of the protocol");
_Static_assert(offsetof(struct gpud_receiver_half, given_back) == 256, "part of the protocol");
_Static_assert(offsetof(struct gpud_sender_half, published) == 192, "part of the protocol");
_Static_assert(sizeof(struct gpud_receiver_half) == 2 * GPUD_PAGE_ALIGNMENT, "whole pages");
_Static_assert(sizeof(struct gpud_sender_half) == 15 * GPUD_PAGE_ALIGNMENT, "whole pages");
_Static_assert(sizeof(struct gpud_page) == 69632, "part of the protocol");

/* --- the carrier --------------------------------------------------------------------------- */

struct gpud_page_end;
struct gpud_remote;

/* Makes what a side writes into its half visible to the other, and wakes it. */
struct gpud_page_carrier {
    const char *name;

    /* Both sides can move `claimed`: a sender takes back what was not claimed. Otherwise only the
     * receiver moves it, and drop-oldest keeps the newest frame at the sender until an entry comes
     * back or the next frame replaces it: see stream/sender/waiting.c and the model waiting.pml. */
    bool can_take_back;

    /* `asleep` of the other side is reliable: after a store and a fence, either the side going to
     * sleep sees the store, or its `asleep` is seen here. So a side that is awake is not notified.
     * Otherwise notify() is called every time. */
    bool can_elide;

    /* How long a sleeper may sleep (ns) before it must check that the other host is alive: the end
     * of the connection wakes it unless that host has vanished. 0: nothing wakes it at the end, and
     * it must check often. */
    int64_t ask_after;

    /* Publishes the current bytes of a range of our half; ranges become visible in order. NULL:
     * stores are visible by themselves; words are stored with release order. */
    void (*publish)(const struct gpud_page_end *end, size_t offset, size_t size);

    /* Wakes the other side if it sleeps. Returns whether that took a system call. */
    bool (*notify)(struct gpud_page_end *end);

    /* Both at once. NULL: one after the other. */
    bool (*publish_and_notify)(struct gpud_page_end *end, size_t offset, size_t size);

    /* gpud_page_sleep(), gpud_page_rouse(), gpud_page_poll_begin(). NULL: these use the page's
     * words `asleep` and `kicks`, see base/sleep.h. */
    void (*sleep)(struct gpud_page_end *end, bool (*ready)(void *arg), void *arg, int64_t deadline);
    void (*rouse)(struct gpud_page_end *end);
    void (*poll_begin)(struct gpud_page_end *end);
};

extern const struct gpud_page_carrier gpud_page_shared;

/* The carrier of views without a remote. Tests replace it with a less capable one. */
extern const struct gpud_page_carrier *gpud_page_carrier;

/* The part that both views share. */
struct gpud_page_end {
    const struct gpud_page_carrier *carrier;
    void *half; /* ours */
    struct gpud_sleeper sleeper;
    struct gpud_waker waker;
    /* Sends a KICK over the control connection, to a side that polls it; NULL: none. A
     * KICK that does not fit is not needed, because there is already something to read. */
    void (*send_kick)(void *arg);
    void *send_kick_arg;
    struct gpud_remote *remote; /* the carrier's, where the sides share no memory */
};

/* Ends that sleep of the other side, unless another thread has claimed it. */
bool gpud_page_wake(struct gpud_page_end *end, uint32_t sleep);

/* Wakes the other side if it sleeps; true if that took a system call. Call it after publishing. */
static inline bool gpud_page_notify(struct gpud_page_end *end)
{
    if (!end->carrier->can_elide)
        return end->carrier->notify(end);
    uint32_t sleep = gpud_waker_look(&end->waker);
    return sleep && gpud_page_wake(end, sleep);
}

/* Before a receiver sleeps: wakes a sender that was left asleep because fewer entries came back
 * than it wants, since none will follow while the receiver waits. Carriers that cannot elide have
 * already notified it. */
static inline bool gpud_page_flush_pending_wake(struct gpud_page_end *end)
{
    return end->carrier->can_elide && gpud_page_notify(end);
}

/* Sleeps until the other side notifies, this side is roused, or the deadline passes, unless
 * ready(arg). May return spuriously. One thread at a time. */
void gpud_page_sleep(struct gpud_page_end *end, bool (*ready)(void *arg), void *arg,
                     int64_t deadline);

/* Wakes a thread of this side from gpud_page_sleep(); call it after the store that the thread
 * waits for. */
void gpud_page_rouse(struct gpud_page_end *end);

/* Until gpud_page_poll_end() this side polls the connection: the other's next notification arrives
 * there as a KICK. Check the page once more after the call. */
void gpud_page_poll_begin(struct gpud_page_end *end);
void gpud_page_poll_end(struct gpud_page_end *end);

/* --- the sender's view --------------------------------------------------------------------- */

struct gpud_page_tx {
    struct gpud_page *page;
    struct gpud_page_end end;
    uint32_t entries;        /* used: credits */
    uint32_t offered;        /* that the receiver has */
    uint32_t head, returned; /* ours, and how far we have read theirs */
    uint32_t messages;
    uint32_t free_count;
    uint8_t free[GPUD_PAGE_ENTRIES];      /* a stack: the entry used last is still in the caches */
    uint8_t out[GPUD_PAGE_ENTRIES];       /* published, neither returned nor revoked */
    uint32_t position[GPUD_PAGE_ENTRIES]; /* at which it was published */
    uint32_t order[GPUD_PAGE_ENTRIES];    /* our copy of published[] */
};

/* GPUD_PEER if the receiver's page has another version; anything else wrong with it is GPUD_OK
 * here. fd: a memfd of any size. */
enum gpud_status gpud_page_check_version(int fd, struct gpud_error *error);

/* remote: carries the page; NULL if it is shared. entries: as the receiver offers; credits: how
 * many of them to use at most. GPUD_PEER if the page contradicts the handshake. */
enum gpud_status gpud_page_tx_init(struct gpud_page_tx *view, struct gpud_page *page,
                                   struct gpud_remote *remote, uint32_t entries, uint32_t credits,
                                   struct gpud_error *error);

/* Every frame after `sequence` goes to this receiver or counts as dropped for it. */
void gpud_page_start(struct gpud_page_tx *view, uint64_t sequence);

/* The receiver may hold so many frames from now on; no fewer than before, and no more than it has
 * entries. */
void gpud_page_raise(struct gpud_page_tx *view, uint32_t credits);

bool gpud_page_take(struct gpud_page_tx *view, uint32_t *entry);
void gpud_page_untake(struct gpud_page_tx *view, uint32_t entry);

/* Fill it in between take and publish. */
static inline struct gpud_descriptor *gpud_page_descriptor(const struct gpud_page_tx *view,
                                                           uint32_t entry)
{
    return &view->page->sender.descriptor[entry];
}

/* The descriptor, then its place in the queue. */
void gpud_page_publish(struct gpud_page_tx *view, uint32_t entry);

/* Says how many rows of the entry's frame are valid, and wakes threads that wait for them where
 * memory is shared. */
void gpud_page_set_lines(const struct gpud_page_tx *view, uint32_t entry, uint32_t lines);

/* The same, and gpud_page_notify(). */
bool gpud_page_hand_over(struct gpud_page_tx *view, uint32_t entry);

/* Announces that `more` frames will be published shortly: a sleeping receiver is woken now, so that
 * it wakes up while the sender works. 0 withdraws this. Returns whether it was woken. */
bool gpud_page_announce(struct gpud_page_tx *view, uint32_t more);

/* The next entry that came back: 1 and *entry, 0 none, −1 a violation. */
int gpud_page_reap(struct gpud_page_tx *view, uint32_t *entry);

/* Takes back the oldest published entry that the receiver has not claimed: 1 and *entry, which is
 * free again; 0 if there is none or the carrier cannot; −1 on a violation. */
int gpud_page_revoke(struct gpud_page_tx *view, uint32_t *entry);

/* Whether an entry was given back and not reaped yet. */
static inline bool gpud_page_has_returns(const struct gpud_page_tx *view)
{
    return atomic_load_explicit(&view->page->receiver.returned, memory_order_acquire) !=
           view->returned;
}

/* The latency of its last frame as the receiver reports it, unverified; 0: none. */
static inline uint32_t gpud_page_latency(const struct gpud_page_tx *view)
{
    return atomic_load_explicit(&view->page->receiver.latency, memory_order_relaxed);
}

/* What the receiver counts, unverified. */
void gpud_page_get_stats(const struct gpud_page_tx *view, struct gpud_link_stats *stats);

void gpud_page_count_message(struct gpud_page_tx *view);

/* How many entries are published and neither returned nor revoked. */
uint32_t gpud_page_count_out(const struct gpud_page_tx *view);

/* Frames that were published and not claimed; 0 over a network, where claims are not known. */
uint32_t gpud_page_count_unclaimed(const struct gpud_page_tx *view);

/* Invalidates the frames that the receiver still holds: their slots will be overwritten. Call it
 * before the first such write. */
void gpud_page_take_all_back(struct gpud_page_tx *view);

/* --- the receiver's view ------------------------------------------------------------------- */

/* One thread at a time claims, and one gives back, which may be another one. */
struct gpud_page_rx {
    struct gpud_page *page;
    struct gpud_page_end end;
    uint32_t entries;
    _Atomic uint32_t credits; /* entries that the sender uses, as it says */
    uint32_t returned;
    uint64_t last_sequence;
    int64_t stats_told; /* when the stats were published last */
    _Atomic uint32_t held_count;
    /* Cleared by the thread that gives back, after its last use of the entry. */
    _Atomic uint8_t held[GPUD_PAGE_ENTRIES];
};

void gpud_page_rx_init(struct gpud_page_rx *view, struct gpud_page *page,
                       struct gpud_remote *remote, uint32_t entries);

/* Checks the identity of the sender's half, after its handshake and before the first claim. */
enum gpud_status gpud_page_check_sender(const struct gpud_page_rx *view, struct gpud_error *error);

/* Asks for frames that are still written, before the first one. */
void gpud_page_ask_for_lines(const struct gpud_page_rx *view);

/* Lies in a cache line that giving the frame back writes and publishes anyway. */
static inline void gpud_page_tell_latency(const struct gpud_page_rx *view, uint32_t latency)
{
    atomic_store_explicit(&view->page->receiver.latency, latency, memory_order_relaxed);
}

/* Whether they are to be told again: at most once a millisecond where memory is shared, so that the
 * fastest streams do not pay for it, and once a second elsewhere. `now`: of CLOCK_MONOTONIC, in ns.
 */
static inline bool gpud_page_owes_stats(const struct gpud_page_rx *view, int64_t now)
{
    return now - view->stats_told >= (view->end.carrier->publish ? GPUD_SEC : GPUD_MSEC);
}

/* By the thread that claims. */
void gpud_page_tell_stats(struct gpud_page_rx *view, const struct gpud_link_stats *stats,
                          int64_t now);

/* How many frames were published, and how many claimed or revoked, since the page was made. */
uint32_t gpud_page_head(const struct gpud_page_rx *view);
uint32_t gpud_page_claimed(const struct gpud_page_rx *view);

/* Whether a published frame was neither claimed nor revoked; also true if the words are invalid,
 * which gpud_page_claim() reports. False once the sender has taken all slots back. */
bool gpud_page_has_frames(const struct gpud_page_rx *view);

/* How many such frames there are; the number of entries if the words are invalid. */
uint32_t gpud_page_count_waiting(const struct gpud_page_rx *view);

/* How many messages the sender has counted. */
uint32_t gpud_page_messages(const struct gpud_page_rx *view);

/* Whether a frame was announced that is not published yet. */
bool gpud_page_is_announced(const struct gpud_page_rx *view);

/* Whether the sender has taken all slots back. Call the second one after reading a frame: if it
 * returns false, the frame was read intact. */
bool gpud_page_is_taken_back(const struct gpud_page_rx *view);
bool gpud_page_is_taken_back_after(const struct gpud_page_rx *view);

/* The sequence before the first frame for this receiver. */
uint64_t gpud_page_started(const struct gpud_page_rx *view);

/* Claims the next frame before the position `limit`: 1, *entry and *descriptor (copied once,
 * checked; only meta_size bytes of its meta are valid), 0 none, −1 a violation with its reason in
 * *error. The limit keeps messages in order: it is the position of the next message, or else the
 * head that was read before the messages were counted. */
int gpud_page_claim(struct gpud_page_rx *view, uint32_t limit, uint32_t *entry,
                    struct gpud_descriptor *descriptor, struct gpud_error *error);

/* 1 if every frame before the position was claimed or revoked, 0 if not yet, −1 if it is further
 * ahead than there are entries. */
int gpud_page_reached(const struct gpud_page_rx *view, uint32_t position);

/* Gives an entry back. *idle: this side has nothing left to do, so that a sleeping sender must be
 * woken even for fewer entries than it wants; it is read after the entry is returned, so that no
 * wake is lost. Returns whether that took a system call. */
bool gpud_page_give_back(struct gpud_page_rx *view, uint32_t entry, const atomic_bool *idle);

#endif
