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
 * How one side's half comes before the other's eyes, and how the other is woken, is the carrier's
 * business. On one host both map the same pages (a sealed memfd of the receiver's). There two words
 * are written by the side that does not own them, which a carrier between hosts cannot do:
 *
 *     claimed         by a sender that drops the oldest: it takes back, by compare-and-swap,
 *                     what the receiver has not taken (gpud_page_carrier.can_take_back)
 *     ready, release  by a watchdog, which releases a queue that waits for the word of a peer
 *                     that died (release_waits() in stream/shared/watchdog.c)
 *
 * `messages` counts what the sender has sent over the control connection, so that an event keeps
 * its place among the frames although it travels elsewhere.
 *
 * Each side keeps its own copy of what it wrote, and believes nothing that it reads: indices are
 * checked against that copy, a lie is a violation and ends this link alone. Positions count frames
 * and wrap; the distance between two of them is unsigned, and compared with the number of entries
 * before anything is concluded from it. No function here calls the kernel, but for those that wake
 * the other side. */
#ifndef GPUD_WIRE_PAGE_H
#define GPUD_WIRE_PAGE_H

#include "base/error.h"
#include "base/sleep.h"
#include <gpudirect/frame.h>
#include <gpudirect/sender.h>

#define GPUD_PAGE_MAGIC UINT64_C(0x6567615064757067) /* "gpudPage" */
#define GPUD_PAGE_VERSION 4
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

/* What stands at the start of either half, the receiver's and with it the page: of every version.
 */
struct gpud_page_identity {
    uint64_t magic;
    uint32_t version;
    uint32_t entries; /* sender: used; receiver: offered */
    uint8_t padding[48];
};

/* A word that a device writes or waits for has its line to itself. */
struct gpud_page_signal {
    _Atomic uint32_t word;
    uint8_t padding[60];
};

/* Lines of 64 bytes: what a side writes for every frame, and what it writes now and then. */
struct gpud_receiver_half {
    struct gpud_page_identity identity;

    /* Frames taken. The sender may move it, too: can_take_back. Else it is not published. */
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
    uint8_t padding_half[3584];
};

struct gpud_sender_half {
    struct gpud_page_identity identity;

    _Atomic uint32_t head;      /* frames published */
    _Atomic uint32_t messages;  /* sent over the control connection */
    _Atomic uint32_t announced; /* frames that are or will be published, at least */
    _Atomic uint32_t kicks;
    uint8_t padding_head[48];

    _Atomic uint32_t asleep;
    _Atomic uint32_t wanted;   /* asleep: free entries before it is worth to be woken */
    _Atomic uint32_t start[2]; /* low, high: the sequence after which frames are this receiver's */
    _Atomic uint32_t taken_back; /* 1: all slots will be written anew, whoever still reads them */
    uint8_t padding_asleep[44];

    _Atomic uint32_t published[GPUD_PAGE_ENTRIES];
    struct gpud_page_signal ready[GPUD_PAGE_ENTRIES];
    struct gpud_descriptor descriptor[GPUD_PAGE_ENTRIES];
    uint8_t padding_half[3648];
};

struct gpud_page {
    struct gpud_receiver_half receiver;
    struct gpud_sender_half sender;
};

#define GPUD_PAGE_ALIGNMENT 4096 /* of either half: pages that are registered apart */
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

/* How what a side writes into its half reaches the other, and how the other is woken. */
struct gpud_page_carrier {
    const char *name;

    /* `claimed` can be moved by both sides: a sender takes back what was not claimed. Where it
     * cannot, there is never anything to take back, `claimed` is the receiver's alone, and
     * drop-oldest keeps the newest frame at the sender, until an entry comes back or the next frame
     * takes its place: see stream/sender/waiting.c, and waiting.pml of the models. */
    bool can_take_back;

    /* The other side's `asleep` can be believed: a store that is followed by a fence is seen by
     * whoever goes to sleep, or its `asleep` is seen after the fence. Then nobody is notified who
     * is awake. Where it cannot, the carrier is asked every time. */
    bool can_elide;

    /* Whoever sleeps by this carrier is also woken by the end of the connection, and is told of no
     * end at all only where the other host has vanished. So long it may sleep before it asks
     * whether that is there (ns); 0: it is told of nothing, and has to ask often. */
    int64_t ask_after;

    /* These bytes of our half, as they are now. Whatever was published before them is seen before
     * them. NULL: stores are seen as they are; words are stored with release order. */
    void (*publish)(const struct gpud_page_end *end, size_t offset, size_t size);

    /* The other side looks again, if it sleeps. Returns whether that took a system call. */
    bool (*notify)(struct gpud_page_end *end);

    /* Both, in one go. NULL: one after the other. */
    bool (*publish_and_notify)(struct gpud_page_end *end, size_t offset, size_t size);

    /* gpud_page_sleep(), gpud_page_rouse(), gpud_page_poll_begin(). NULL: by the words `asleep` and
     * `kicks` of the page, see base/sleep.h. */
    void (*sleep)(struct gpud_page_end *end, bool (*ready)(void *arg), void *arg, int64_t deadline);
    void (*rouse)(struct gpud_page_end *end);
    void (*poll_begin)(struct gpud_page_end *end);
};

extern const struct gpud_page_carrier gpud_page_shared;

/* What views begin with: the shared memory. Tests put one without its powers here. */
extern const struct gpud_page_carrier *gpud_page_carrier;

/* What both views have in common. */
struct gpud_page_end {
    const struct gpud_page_carrier *carrier;
    void *half; /* ours */
    struct gpud_sleeper sleeper;
    struct gpud_waker waker;
    /* Sends a KICK over the control connection: for a side that polls that. NULL: there is none.
     * What does not fit into the connection was not needed: there is something to read already. */
    void (*send_kick)(void *arg);
    void *send_kick_arg;
    struct gpud_remote *remote; /* the carrier's, where the sides share no memory */
};

/* Ends that sleep of the other side, unless another thread does. */
bool gpud_page_wake(struct gpud_page_end *end, uint32_t sleep);

/* Wakes the other side, if it sleeps; true if that took a system call. Call it after what it is
 * woken for was published. */
static inline bool gpud_page_notify(struct gpud_page_end *end)
{
    if (!end->carrier->can_elide)
        return end->carrier->notify(end);
    uint32_t sleep = gpud_waker_look(&end->waker);
    return sleep && gpud_page_wake(end, sleep);
}

/* Before a receiver sleeps: wakes a sender that was left asleep when something was given back, as
 * it asks for more at once; nothing more will come back while the receiver waits. Carriers that
 * cannot elide have notified of everything already. */
static inline bool gpud_page_notify_of_little(struct gpud_page_end *end)
{
    return end->carrier->can_elide && gpud_page_notify(end);
}

/* Sleeps until the other side notifies, this side is roused, or the deadline passes, unless
 * ready(arg). May return early for no reason. One thread at a time. */
void gpud_page_sleep(struct gpud_page_end *end, bool (*ready)(void *arg), void *arg,
                     int64_t deadline);

/* Wakes a thread of this very side that is in gpud_page_sleep(); call it after the store that it
 * looks for. */
void gpud_page_rouse(struct gpud_page_end *end);

/* This side polls the connection from now on: the other's next notice comes as something to receive
 * there, a KICK. Look once more after the call. Until gpud_page_poll_end(). */
void gpud_page_poll_begin(struct gpud_page_end *end);
void gpud_page_poll_end(struct gpud_page_end *end);

/* --- the sender's view --------------------------------------------------------------------- */

struct gpud_page_tx {
    struct gpud_page *page;
    struct gpud_page_end end;
    uint32_t entries;        /* used */
    uint32_t head, returned; /* ours, and how far we have read theirs */
    uint32_t messages;
    uint32_t free_count;
    uint8_t
        free[GPUD_PAGE_ENTRIES]; /* a stack: the entry used last is the one still in the caches */
    uint8_t out[GPUD_PAGE_ENTRIES];       /* published, neither returned nor revoked */
    uint32_t position[GPUD_PAGE_ENTRIES]; /* at which it was published */
    uint32_t order[GPUD_PAGE_ENTRIES];    /* our copy of published[] */
};

/* Why a page that the receiver shared cannot be ours, where that is its version; GPUD_OK: it is not
 * that. fd: a memfd, whatever its size. */
enum gpud_status gpud_page_check_version(int fd, struct gpud_error *error);

/* remote: what carries the page, NULL where it is shared. entries: what the receiver offers;
 * credits: how many of them are used at most. GPUD_PEER if the page does not say what the handshake
 * said. */
enum gpud_status gpud_page_tx_init(struct gpud_page_tx *view, struct gpud_page *page,
                                   struct gpud_remote *remote, uint32_t entries, uint32_t credits,
                                   struct gpud_error *error);

/* From here on every frame is this receiver's, or counts as dropped for it. */
void gpud_page_start(struct gpud_page_tx *view, uint64_t sequence);

bool gpud_page_take(struct gpud_page_tx *view, uint32_t *entry);
void gpud_page_untake(struct gpud_page_tx *view, uint32_t entry);

/* To be filled in between take and publish. */
static inline struct gpud_descriptor *gpud_page_descriptor(const struct gpud_page_tx *view,
                                                           uint32_t entry)
{
    return &view->page->sender.descriptor[entry];
}

/* The descriptor, then its place in the queue. */
void gpud_page_publish(struct gpud_page_tx *view, uint32_t entry);

/* The same, and gpud_page_notify(). */
bool gpud_page_hand_over(struct gpud_page_tx *view, uint32_t entry);

/* So many more frames will be published in a moment: a receiver that sleeps is woken now, so that
 * its waking up and the sender's work go on side by side. 0: none after all. Returns whether it was
 * woken. */
bool gpud_page_announce(struct gpud_page_tx *view, uint32_t more);

/* The next entry that came back: 1 and *entry, 0 none, −1 a violation. */
int gpud_page_reap(struct gpud_page_tx *view, uint32_t *entry);

/* The oldest published entry that the receiver has not claimed: 1 and *entry (free again), 0 none,
 * or a carrier that cannot, −1. */
int gpud_page_revoke(struct gpud_page_tx *view, uint32_t *entry);

/* Whether something came back that was not reaped yet. */
static inline bool gpud_page_has_returns(const struct gpud_page_tx *view)
{
    return atomic_load_explicit(&view->page->receiver.returned, memory_order_acquire) !=
           view->returned;
}

/* What the receiver says of its last frame; 0: nothing. Believed by nobody but people. */
static inline uint32_t gpud_page_latency(const struct gpud_page_tx *view)
{
    return atomic_load_explicit(&view->page->receiver.latency, memory_order_relaxed);
}

void gpud_page_count_message(struct gpud_page_tx *view);

/* How many entries are with the receiver: published, neither returned nor revoked. */
uint32_t gpud_page_count_out(const struct gpud_page_tx *view);

/* The slots will be written anew although entries are out: frames that the receiver still holds are
 * frames no more. Call it before the first such write. */
void gpud_page_take_all_back(struct gpud_page_tx *view);

/* --- the receiver's view ------------------------------------------------------------------- */

/* One thread at a time claims, and one gives back, which may be another one. */
struct gpud_page_rx {
    struct gpud_page *page;
    struct gpud_page_end end;
    uint32_t entries;
    uint32_t returned;
    uint64_t last_sequence;
    _Atomic uint32_t held_count;
    /* Cleared by who gives back, after the last that it did with the entry. */
    _Atomic uint8_t held[GPUD_PAGE_ENTRIES];
};

void gpud_page_rx_init(struct gpud_page_rx *view, struct gpud_page *page,
                       struct gpud_remote *remote, uint32_t entries);

/* Whether the sender's half is one: after its handshake, before the first claim. */
enum gpud_status gpud_page_check_sender(const struct gpud_page_rx *view, struct gpud_error *error);

/* In a line that is written and published anyway when the frame is given back. */
static inline void gpud_page_tell_latency(const struct gpud_page_rx *view, uint32_t latency)
{
    atomic_store_explicit(&view->page->receiver.latency, latency, memory_order_relaxed);
}

/* How many frames were published, and claimed or revoked, in this page's life; messages that the
 * sender counted. */
uint32_t gpud_page_head(const struct gpud_page_rx *view);
uint32_t gpud_page_claimed(const struct gpud_page_rx *view);

/* Whether a published frame was neither claimed nor revoked, or the words make no sense, which
 * gpud_page_claim() will say. None is there any more when the sender has taken all slots back. */
bool gpud_page_has_frames(const struct gpud_page_rx *view);

/* How many they are; of words that make no sense, as many as there are entries. */
uint32_t gpud_page_count_waiting(const struct gpud_page_rx *view);

uint32_t gpud_page_messages(const struct gpud_page_rx *view);

/* Whether a frame was announced that is not there yet. */
bool gpud_page_is_announced(const struct gpud_page_rx *view);

/* Whether the sender has taken all slots back. The second one is for after a frame was read, which
 * was whole if the answer is false. */
bool gpud_page_is_taken_back(const struct gpud_page_rx *view);
bool gpud_page_is_taken_back_after(const struct gpud_page_rx *view);

/* The last sequence before the first that was meant for this receiver. */
uint64_t gpud_page_started(const struct gpud_page_rx *view);

/* The next frame before the position `limit`: 1, *entry and *descriptor (copied once, checked; only
 * meta_size bytes of its meta are valid), 0 none, −1 a violation with its reason in *error. The
 * limit keeps messages in order: it is the place of the message that comes next, or else the head
 * that was read before the messages were counted. */
int gpud_page_claim(struct gpud_page_rx *view, uint32_t limit, uint32_t *entry,
                    struct gpud_descriptor *descriptor, struct gpud_error *error);

/* Whether every frame before the position was claimed or revoked: 1; 0 not yet; −1 never: it is
 * further ahead than there are entries. */
int gpud_page_reached(const struct gpud_page_rx *view, uint32_t position);

/* Gives an entry back. *idle: this side has nothing left to do, so that a sleeping sender must be
 * woken whatever it wished; read after the entry is back, so that one of the two sees the other.
 * Returns whether that took a system call. */
bool gpud_page_give_back(struct gpud_page_rx *view, uint32_t entry, const atomic_bool *idle);

#endif
