/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the files of the network cards share. */
#ifndef GPUD_DEVICE_RDMA_INTERNAL_H
#define GPUD_DEVICE_RDMA_INTERNAL_H

#include "base/base.h"
#include "device/device.h"
#include "device/rdma/rdma.h"
#include <gpudirect/network.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>

/* === ability ================================================================================= */
/* What a network card and the system can do with GPUs' memory, and how much memory a process may
 * register: for connections, and for lists. */

/* Explains why a card for iWARP, or for another network, cannot be used. */
void gpud_rdma_explain_transport(const char *card, char why[GPUD_REASON_MAX]);

/* Asks a card's driver whether it takes dma-bufs, by passing none. EBADF: it does; EOPNOTSUPP or
 * EPROTONOSUPPORT: it does not; another errno: unknown. */
int gpud_rdma_ask_dmabuf(struct ibv_pd *domain);

/* GPUD_OK for EBADF, else the reason for such an errno. */
enum gpud_status gpud_rdma_explain_dmabuf(int number, const char *card, struct gpud_error *error);

/* Whether the module is loaded that gives network cards' drivers the pages behind an address of the
 * backend's devices. */
enum gpud_status gpud_rdma_check_peermem(const struct gpud_device_ops *backend,
                                         struct gpud_error *error);

/* Bytes that it may still register; UINT64_MAX: only memory limits it. */
uint64_t gpud_rdma_pin_room(void);

/* The reason if that is too little for a connection with a ring of 4 slots of 3840x2160 at 4 bytes
 * a pixel, else "". */
void gpud_rdma_explain_pin_room(uint64_t room, char why[GPUD_REASON_MAX]);

/* The reason why registering so many bytes, or creating queues (0), failed with this errno. */
enum gpud_status gpud_rdma_fail_register(struct gpud_error *error, int number, const char *card,
                                         uint64_t size);

/* === host ==================================================================================== */
/* What keeps this host, or this process, from using any network card. */

/* Whether something does. *why is the first thing to mend, with the command, or "". Reads what the
 * kernel shows, and opens no card. */
bool gpud_rdma_find_lack(char why[GPUD_REASON_MAX]);

/* === internal ================================================================================ */
/* What the files of this folder share. Functions that end with _locked need rdma->lock. */

/* Unread messages: a power of two, because the counters wrap. */
#define RDMA_ARRIVED 128

_Static_assert(RDMA_ARRIVED >= GPUD_RDMA_RECEIVES, "each may have a message");

/* Copies of messages that are being sent. */
#define RDMA_SENDS 32

/* Receives of one kind. The peer never returns more than `out`. */
struct rdma_credits {
    uint32_t limit; /* the peer's receives; 0: not known yet */
    uint32_t out;   /* receives used by what was sent */
    uint32_t owed;  /* posted again here, not yet reported */
};

/* What the drivers said about a device's memory. */
struct rdma_ways {
    struct rdma_ways *next;
    char device[32]; /* its name */
    bool dmabuf_known, peermem_known;
    char no_dmabuf[GPUD_REASON_MAX], no_peermem[GPUD_REASON_MAX]; /* "": possible */
};

struct gpud_rdma_region {
    struct gpud_rdma *rdma;
    struct gpud_rdma_region *next, **link; /* under the lock; link NULL: in no list */
    struct ibv_mr *mr;                     /* NULL after the end */
    struct gpud_memory *memory;            /* a reference, or NULL */
    const char *host;                      /* host address, or NULL */
    uint64_t address;                      /* as the cards of both sides see it */
    uint64_t size;
    uint32_t local_key, remote_key;
    unsigned access;
};

struct gpud_rdma {
    atomic_uint references;
    char card[64];
    uint32_t piece_max, inline_max, depth;
    int fd;    /* epoll: the channel, and the event */
    int event; /* stays raised after a failure */

    struct gpud_lock domain_lock; /* guards registrations; the end writes these under both locks */
    bool ended;
    struct rdma_cm_id *id;
    struct ibv_pd *domain;
    struct ibv_comp_channel *channel;
    struct ibv_cq *queue;
    struct ibv_mr *buffers_mr;

    struct gpud_lock ways_lock; /* also while the drivers are asked */
    struct rdma_ways *ways;
    int dmabuf_errno; /* the card's: EBADF where it takes dma-bufs; 0: not asked yet */

    struct gpud_lock lock; /* guards all below */
    bool connected, failed;
    bool refused; /* by the peer's card */
    char reason[GPUD_REASON_MAX];
    struct gpud_rdma_region *regions;

    /* Numbers of requests, which complete in order. */
    uint64_t posted, completed;
    uint64_t succeeded;            /* completed without failing; later ones failed */
    uint64_t signalled;            /* the last signalled request */
    int64_t heard_at;              /* when any request or receive last succeeded */
    int64_t asked_at;              /* signalled requests are pending since then */
    uint64_t unsignalled, stretch; /* bytes since the last signalled request; the most of these */

    struct rdma_credits messages, notices;
    bool news;
    bool pending, pending_urgent; /* a notice that did not fit */
    bool unfinished;              /* something unsent waits for credits or the card */
    bool armed_unfinished;        /* the descriptor wakes for these, however it is armed */
    bool armed_all;               /* armed for every event, and none has happened since */

    /* Receives with unread messages, in order; each with the index of its buffer. */
    uint32_t received, taken;
    bool handed_out;
    struct {
        uint32_t index, size;
    } arrived[RDMA_ARRIVED];
    /* Receives to be posted again. */
    uint32_t free_count;
    uint32_t free_index[GPUD_RDMA_RECEIVES];

    /* Copies being sent, by the numbers of their requests. */
    uint32_t send_first, send_count;
    uint64_t send_number[RDMA_SENDS];

    char *buffers; /* for the receives, then for the copies */
};

#endif
