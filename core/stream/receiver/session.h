/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The receiver's end of a link in one epoch: the ring page, the ring by its route, and the frames
 * made of them. Frames that are held keep it alive, whatever becomes of the connection and of the
 * receiver. */
#ifndef GPUD_STREAM_RECEIVER_SESSION_H
#define GPUD_STREAM_RECEIVER_SESSION_H

#include "base/lock.h"
#include "base/sleep.h"
#include "frame/frame.h"
#include "frame/ring.h"
#include "route/ops.h"
#include "stream/shared/watchdog.h"
#include "wire/channel.h"

struct gpud_session;

/* Where the application wants its frames; alloc NULL: it leaves that to the library. */
struct gpud_own_memory {
    enum gpud_status (*alloc)(void *user, const struct gpud_layout *layout, uint32_t slot,
                              struct gpud_memory **memory, struct gpud_error *error);
    void *user;
    bool failed; /* it was asked and gave none, or none that will do */
};

/* A frame as the application gets it. */
struct gpud_rx_frame {
    struct gpud_frame frame; /* first */
    struct gpud_session *session;
    uint32_t entry;         /* of the page; uploads: given back already */
    _Atomic uint32_t value; /* that the ready signal has when the bytes are there; 0: no signal */
    atomic_bool poisoned;
    bool posted; /* PAGE: the application's queue posts the release; uploads: our own */
    bool joined; /* PAGE: ours does, after those of several holders */
};

struct gpud_session {
    atomic_uint references;
    const struct gpud_route_ops *route;
    bool owns_ring; /* the sender writes into this session's own ring, instead of sharing its own */
    bool on_host;   /* the ring: in host pages, which both devices read and write */
    struct gpud_channel *channel; /* held frames ask it whether their writer lives */
    struct gpud_device *device, *host;
    struct gpud_queue *queue;
    uint32_t epoch, entries;
    struct gpud_layout layout;
    bool uploads;                 /* frames are copied from `ring` into `upload` */
    enum gpud_signal_place place; /* of the signals */

    int page_fd;
    struct gpud_page *page;
    struct gpud_remote *remote;     /* between hosts: what the frames and the page come by */
    struct gpud_handle remote_page; /* for the sender to write */
    /* Of giving back, upload_free and frame_of; never held while work is put on a queue. */
    struct gpud_lock lock;
    struct gpud_page_rx view;
    _Atomic int wake; /* eventfd of a loop that polls, for what this side brings about; -1: none */
    atomic_bool poisoned; /* its writer died: see gpud_session_poison() */
    atomic_bool idle;     /* the acquiring thread sleeps: it will not wake the sender */

    struct gpud_ring ring; /* imported, or our own that the sender writes */
    struct gpud_memory
        *views[GPUD_RING_MEMORIES_MAX]; /* the ring's memories as our device sees them; borrowed */
    struct gpud_signal *signal[GPUD_PAGE_ENTRIES]; /* MEMORY */
    struct gpud_watchdog *watchdog;                /* PAGE */
    uint32_t last_value;
    struct gpud_ring upload; /* ours, or memories of the application's own */
    uint8_t upload_free[GPUD_PAGE_ENTRIES];
    uint32_t upload_free_count;
    struct gpud_rx_frame frames[GPUD_PAGE_ENTRIES];    /* by entry; uploads: by slot of `upload` */
    struct gpud_rx_frame *frame_of[GPUD_PAGE_ENTRIES]; /* the one that an entry was claimed for */

    atomic_uint_fast64_t kicks, copies_cpu, copies_gpu, waits_device;
};

/* Makes what an OFFER asks for, but for its frames (frames.h). The offer is a peer's word;
 * own->failed tells a refusal of the application's from one of the offer. */
enum gpud_status gpud_session_create(const struct gpud_offer *offer,
                                     const struct gpud_route_ops *route,
                                     struct gpud_channel *channel, struct gpud_queue *queue,
                                     struct gpud_device *host, uint32_t slots,
                                     struct gpud_own_memory *own, const struct gpud_log *log,
                                     struct gpud_session **session, struct gpud_error *error);
void gpud_session_unref(struct gpud_session **session);

/* What the sender needs in return; the descriptors in it are borrowed from the session, but for the
 * ring's handles, which the caller closes with the message. */
enum gpud_status gpud_session_describe(const struct gpud_session *session,
                                       struct gpud_accept *accept, struct gpud_error *error);

/* Another session, or none, takes this one's place: frames that are still held concern their
 * holders alone. */
void gpud_session_detach(struct gpud_session *session);

/* How many frames may be in flight or held at once. share: slots of a ring of the sender's that
 * each receiver has room for. */
uint32_t gpud_session_slots(const struct gpud_session *session, uint32_t share);

/* The sender's ring grew. */
enum gpud_status gpud_session_grow(struct gpud_session *session,
                                   const struct gpud_ring_description *grown,
                                   struct gpud_error *error);

/* It shrank to so many memories. GPUD_PEER: it had no more, or frames in the others are still held.
 */
enum gpud_status gpud_session_shrink(struct gpud_session *session, uint32_t memories,
                                     struct gpud_error *error);

#endif
