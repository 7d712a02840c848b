/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the files of this folder share. Functions that end with _locked want rdma->lock. */
#ifndef GPUD_DEVICE_RDMA_INTERNAL_H
#define GPUD_DEVICE_RDMA_INTERNAL_H

#include "base/lock.h"
#include "device/rdma/rdma.h"
#include <stdatomic.h>

/* The send queue: what is asked for, and what makes no sense any more. */
#define RDMA_DEPTH 1024
#define RDMA_DEPTH_MIN 128
/* Of it, what transfers leave to messages and notices; what messages leave to notices. */
#define RDMA_KEPT_FROM_TRANSFERS 64
#define RDMA_KEPT_FROM_MESSAGES 16
/* Every so many requests, or bytes, one is signalled, so that the queue is never
 * full of others, and a card that moves a large transfer is seen to make progress. */
#define RDMA_SIGNAL_EVERY 16
#define RDMA_SIGNAL_BYTES (UINT64_C(1) << 20)
/* Larger transfers are cut into pieces of RDMA_SIGNAL_BYTES, but not into more than this. */
#define RDMA_PIECES_MAX 16
/* A transfer, and what goes with it: a descriptor, words. */
#define RDMA_WORDS 16

/* Bytes that are copied when they are posted. Words have a line of 64 bytes at most, and change
 * again soon: without that much a card cannot be used. */
#define RDMA_INLINE 256
#define RDMA_INLINE_MIN 64

/* Messages that wait to be read: a power of two, as they are counted by what wraps. */
#define RDMA_ARRIVED 128
_Static_assert(RDMA_ARRIVED >= GPUD_RDMA_RECEIVES, "each may have a message");

/* Messages that wait for their completion in copies. */
#define RDMA_SENDS 32

/* In the id of a receive's completion: the rest is the buffer's index. Others' ids are the numbers
 * of what was posted. */
#define RDMA_IS_RECEIVE (UINT64_C(1) << 63)

/* Receives of one kind. What was given back is never more than what is out. */
struct rdma_credits {
    uint32_t limit; /* the peer's receives; 0: not known yet */
    uint32_t out;   /* of these, taken by what was sent */
    uint32_t owed;  /* posted anew here, and not told yet */
};

/* What the drivers said of memory of a device. */
struct rdma_ways {
    struct rdma_ways *next;
    char device[32]; /* its name */
    bool dmabuf_known, peermem_known;
    char no_dmabuf[GPUD_REASON_MAX], no_peermem[GPUD_REASON_MAX]; /* "": it can */
};

struct gpud_rdma_region {
    struct gpud_rdma *rdma;
    struct gpud_rdma_region *next, **link; /* under the lock; link NULL: in no list */
    struct ibv_mr *mr;                     /* NULL: after the end */
    struct gpud_memory *memory;            /* kept; or NULL */
    const char *host;                      /* the CPU's address, or NULL */
    uint64_t address;                      /* for cards, here and there */
    uint64_t size;
    uint32_t local_key, remote_key;
    unsigned access;
};

struct gpud_rdma {
    atomic_uint references;
    char card[64];
    uint32_t piece_max, inline_max, depth;
    int fd;    /* epoll: the channel, and the event */
    int event; /* raised for good by a failure */

    struct gpud_lock domain_lock; /* around registrations; the end writes these under both locks */
    bool ended;
    struct rdma_cm_id *id;
    struct ibv_pd *domain;
    struct ibv_comp_channel *channel;
    struct ibv_cq *queue;
    struct ibv_mr *buffers_mr;

    struct gpud_lock ways_lock; /* also while the drivers are asked */
    struct rdma_ways *ways;
    int dmabuf_errno; /* of the card: EBADF where it takes dma-bufs; 0: not asked yet */

    struct gpud_lock lock; /* for all below */
    bool connected, failed;
    bool refused; /* by the peer's card */
    char reason[GPUD_REASON_MAX];
    struct gpud_rdma_region *regions;

    /* Numbers of requests, which complete in order. */
    uint64_t posted, completed;
    uint64_t succeeded;            /* of the completed ones; what came behind has failed */
    uint64_t signalled;            /* the last that was asked to say when it is done */
    int64_t heard_at;              /* the last success of any request or receive */
    int64_t asked_at;              /* since then requests are signalled and not completed */
    uint64_t unsignalled, stretch; /* bytes: since the last signalled request; the most of these */

    struct rdma_credits messages, notices;
    bool news;
    bool pending, pending_urgent; /* a notice that had no room */
    bool unfinished;              /* something is to be sent, and waits for credits or the card */
    bool armed_unfinished;        /* the descriptor will tell of these, whatever was asked for */
    bool armed_all;               /* everything was asked for, and nothing has happened since */

    /* Receives with messages, in order; each with the index of its buffer. */
    uint32_t received, taken;
    bool handed_out;
    struct {
        uint32_t index, size;
    } arrived[RDMA_ARRIVED];
    /* Receives to be posted anew. */
    uint32_t free_count;
    uint32_t free_index[GPUD_RDMA_RECEIVES];

    /* Copies that are under way, by the numbers of their requests. */
    uint32_t send_first, send_count;
    uint64_t send_number[RDMA_SENDS];

    char *buffers; /* of the receives, then of the copies */
};

#define RDMA_BUFFERS_SIZE ((size_t)(GPUD_RDMA_RECEIVES + RDMA_SENDS) * GPUD_RDMA_MESSAGE_MAX)

static inline char *rdma_receive_buffer(const struct gpud_rdma *rdma, uint32_t index)
{
    return rdma->buffers + (size_t)index * GPUD_RDMA_MESSAGE_MAX;
}

static inline char *rdma_send_buffer(const struct gpud_rdma *rdma, uint32_t index)
{
    return rdma_receive_buffer(rdma, GPUD_RDMA_RECEIVES + index);
}

/* Requests that the send queue has room for. */
static inline uint32_t rdma_room(const struct gpud_rdma *rdma)
{
    return rdma->depth - (uint32_t)(rdma->posted - rdma->completed);
}

/* Receives that the peer has for what is sent. */
static inline uint32_t rdma_available(const struct rdma_credits *credits)
{
    return credits->limit - credits->out;
}

/* --- post.c -------------------------------------------------------------------------------- */

/* The first reason is kept. */
void gpud_rdma_fail_locked(struct gpud_rdma *rdma, const char *format, ...) GPUD_PRINTF(2, 3);

/* GPUD_PEER with the reason, where it has failed. */
enum gpud_status gpud_rdma_check_locked(const struct gpud_rdma *rdma, struct gpud_error *error);

/* The caller has seen to it that there is room. false: the connection failed. */
bool gpud_rdma_post_locked(struct gpud_rdma *rdma, struct ibv_send_wr *request);

/* A write of no bytes, behind everything, which says when it is done. */
bool gpud_rdma_post_marker_locked(struct gpud_rdma *rdma);

/* --- credits.c ----------------------------------------------------------------------------- */

/* A receive has completed with so many bytes. */
void gpud_rdma_take_message_locked(struct gpud_rdma *rdma, uint32_t index, const struct ibv_wc *wc);
void gpud_rdma_take_notice_locked(struct gpud_rdma *rdma, uint32_t index, const struct ibv_wc *wc);

/* Posts the free receives anew. */
void gpud_rdma_post_receives_locked(struct gpud_rdma *rdma);

/* Posts a request together with the credits that the peer is to be told of; flag: 0, for a message.
 * false: the connection failed. */
bool gpud_rdma_post_with_credits_locked(struct gpud_rdma *rdma, struct ibv_send_wr *request,
                                        uint32_t flag);

/* Whether a notice would have room at this moment; and the request, a write, as one. It is the
 * notice, too, that had none before. */
bool gpud_rdma_may_notify_locked(const struct gpud_rdma *rdma);
void gpud_rdma_post_notice_locked(struct gpud_rdma *rdma, struct ibv_send_wr *request, bool urgent);

/* Sends the notice that had no room, and tells the peer of receives that were posted anew, as far
 * as there is room now. */
void gpud_rdma_send_pending_locked(struct gpud_rdma *rdma);

/* --- completion.c -------------------------------------------------------------------------- */

/* Deals with what has completed, and with what waited for that. */
void gpud_rdma_poll_locked(struct gpud_rdma *rdma);

/* --- messages.c ---------------------------------------------------------------------------- */

/* gpud_rdma_notify(). */
void gpud_rdma_notify_locked(struct gpud_rdma *rdma, bool urgent);

/* --- memory.c ------------------------------------------------------------------------------ */

enum gpud_status gpud_rdma_fail_ended(struct gpud_error *error);

/* For verbs. */
int gpud_rdma_flags(unsigned access);

/* A region of a registration, which is the region's from now on, also on failure. With domain_lock
 * held. */
enum gpud_status gpud_rdma_add_region(struct gpud_rdma *rdma, struct ibv_mr *mr, uint64_t address,
                                      uint64_t size, unsigned access,
                                      struct gpud_rdma_region **region, struct gpud_error *error);

#endif
