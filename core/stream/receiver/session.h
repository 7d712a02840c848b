/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The receiver's end of a link in one epoch: the ring page, the ring by its route, and their
 * frames. Held frames keep it alive even after the connection and the receiver have ended. */
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

/* The application's own memory for its frames; alloc NULL: the library allocates. */
struct gpud_own_memory {
    enum gpud_status (*alloc)(void *user, const struct gpud_layout *layout, uint32_t slot,
                              struct gpud_memory **memory, struct gpud_error *error);
    void *user;
    bool failed; /* alloc gave none, or an unsuitable one */
};

/* A frame as the application gets it. */
struct gpud_rx_frame {
    struct gpud_frame frame; /* first */
    struct gpud_session *session;
    uint32_t entry;         /* of the page; uploads: already given back */
    _Atomic uint32_t value; /* of the ready signal once the bytes are complete; 0: no signal */
    atomic_bool poisoned;
    bool by_lines;          /* handed over while it is written */
    _Atomic uint32_t lines; /* by_lines: the most valid rows that were seen */
    uint32_t slot;          /* by_lines, uploads: in the ring, from which it is copied */
    uint32_t uploaded;      /* likewise: the rows whose copy is enqueued */
    bool posted;            /* PAGE: the application's queue posts the release; uploads: our own */
    bool joined;            /* PAGE: our queue does, after those of several holders */
};

struct gpud_session {
    atomic_uint references;
    const struct gpud_route_ops *route;
    bool owns_ring; /* the sender writes into this session's own ring, instead of sharing its own */
    bool on_host;   /* the ring is in host pages, which both devices read and write */
    struct gpud_channel *channel; /* shows held frames whether their writer lives */
    struct gpud_device *device, *host;
    struct gpud_queue *queue;
    uint32_t epoch, entries;
    uint32_t slots_max;   /* of the sender's ring, if the receiver asks; 0: the ring is its own */
    uint32_t slots_asked; /* under the receiver's lock */
    struct gpud_layout layout;
    uint32_t unit;                /* of the frames' media: see gpud_media_get_unit() */
    bool by_lines;                /* frames may come while they are written */
    bool uploads;                 /* frames are copied from `ring` into `upload` */
    enum gpud_signal_place place; /* of the signals */

    int page_fd;
    struct gpud_page *page;
    struct gpud_remote *remote;     /* between hosts: carries the frames and the page */
    struct gpud_handle remote_page; /* for the sender to write */
    /* Memory for the entries' large metas, which the sender writes; between hosts the record's. */
    void *metas;
    size_t meta_room; /* for each */
    struct gpud_handle metas_handle;
    /* For giving back, upload_free and frame_of; never held while putting work on a queue. */
    struct gpud_lock lock;
    struct gpud_page_rx view;
    _Atomic int wake;     /* eventfd of a polling loop, for events of this side; -1: none */
    atomic_bool poisoned; /* its writer died: see gpud_session_poison() */
    atomic_bool broken;   /* the sender said nonsense about a frame's lines */
    atomic_bool idle;     /* the acquiring thread sleeps, and will not wake the sender */

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
    struct gpud_rx_frame *frame_of[GPUD_PAGE_ENTRIES]; /* for which the entry was claimed */

    atomic_uint_fast64_t kicks, copies_cpu, copies_gpu, waits_device;
};

/* Makes a session for an OFFER, without its frames (frames.h). The offer is untrusted; own->failed
 * distinguishes the application's failure from the offer's. */
enum gpud_status gpud_session_create(const struct gpud_offer *offer,
                                     const struct gpud_route_ops *route,
                                     struct gpud_channel *channel, struct gpud_queue *queue,
                                     struct gpud_device *host, uint32_t slots,
                                     struct gpud_own_memory *own, const struct gpud_log *log,
                                     struct gpud_session **session, struct gpud_error *error);
void gpud_session_unref(struct gpud_session **session);

/* Fills the ACCEPT. Its descriptors are borrowed from the session, except for the ring's handles,
 * which the caller closes with the message. */
enum gpud_status gpud_session_describe(const struct gpud_session *session,
                                       struct gpud_accept *accept, struct gpud_error *error);

/* After the ACCEPT was sent: this side needs only the mappings. */
void gpud_session_close_fds(struct gpud_session *session);

/* Ends the receiver's use of the session; its held frames stay valid for their holders. */
void gpud_session_detach(struct gpud_session *session);

/* How many frames may be in flight or held at once, and how many at most if the sender is asked. */
uint32_t gpud_session_slots(const struct gpud_session *session);
uint32_t gpud_session_slots_max(const struct gpud_session *session);

/* The sender says that so many may be. */
void gpud_session_set_slots(struct gpud_session *session, uint32_t slots);

/* Maps memories that the sender added to its ring. */
enum gpud_status gpud_session_grow(struct gpud_session *session,
                                   const struct gpud_ring_description *grown,
                                   struct gpud_error *error);

/* Unmaps all but the first memories. GPUD_PEER: there are no others, or their frames are held. */
enum gpud_status gpud_session_shrink(struct gpud_session *session, uint32_t memories,
                                     struct gpud_error *error);

#endif
