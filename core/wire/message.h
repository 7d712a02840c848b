/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The messages of a control channel: pure encoding and decoding, no I/O.
 *
 *     receiver                              sender
 *        HELLO ────────────────────────────────▶      its identity and abilities
 *        ◀──────────────────────────────── HELLO      (or REFUSE, and the end)
 *        ◀──────────────────────────────── OFFER      epoch, route, media
 *                                                     [+ the sender's ring, if it is shared]
 *                                                     [+ the sender's ring page, between hosts]
 *        ACCEPT ───────────────────────────────▶      the ring page, memory for large metas
 *                                                     [+ the receiver's ring, if it is written]
 *        ◀─────────────────────────────── CANARY      "a frame holds the pattern of this nonce"
 *        READY ────────────────────────────────▶      (or REFUSE: the next route is offered)
 *        ═════ frames: words in the ring page ═════   no messages
 *        ◀────────────── EVENT, EOS, GROW, OFFER      each with its place among the frames
 *        ◀─────────────────────────────── SHRINK      unmap the ring's last memories
 *        ◀─────────────────────────────────▶ KICK     "look again", to a side that polls the
 *                                                     connection (base/sleep.h); has no position
 *        ◀──────────────────────────────────▶ BYE     without it, the end is a crash
 *
 *     any process                           sender
 *        QUERY ────────────────────────────────▶      instead of HELLO: asks for its status
 *        ◀─────────────────────────────── STATUS      the stream
 *        ◀──────────────────────────────── LINKS      its receivers, some in each, until all are
 *                                                     listed; and the end
 *
 * Numbers are little-endian on every machine, so that the same bytes can travel between hosts.
 * Every message has the same header, and its length is checked before anything is read. Some kinds
 * of handles have an attachment that bytes cannot represent, such as a file descriptor; the channel
 * carries those (wire/channel.h). */
#ifndef GPUD_WIRE_MESSAGE_H
#define GPUD_WIRE_MESSAGE_H

#include "base/error.h"
#include "frame/ring.h"
#include <gpudirect/media.h>
#include <gpudirect/sender.h>

#define GPUD_MESSAGE_MAGIC UINT32_C(0x44555047) /* "GPUD" */
#define GPUD_MESSAGE_VERSION 10
#define GPUD_MESSAGE_MAX 16384
#define GPUD_MESSAGE_HANDLES (2 + GPUD_RING_MEMORIES_MAX)

enum gpud_message_type {
    GPUD_MESSAGE_HELLO = 1,
    GPUD_MESSAGE_OFFER,
    GPUD_MESSAGE_ACCEPT,
    GPUD_MESSAGE_CANARY,
    GPUD_MESSAGE_READY,
    GPUD_MESSAGE_REFUSE,
    GPUD_MESSAGE_EVENT,
    GPUD_MESSAGE_EOS,
    GPUD_MESSAGE_GROW,
    GPUD_MESSAGE_BYE,
    GPUD_MESSAGE_QUERY,
    GPUD_MESSAGE_STATUS,
    GPUD_MESSAGE_LINKS,
    GPUD_MESSAGE_KICK,
    GPUD_MESSAGE_SHRINK,
};

/* How a network card accesses a device's memory, as bits. */
enum gpud_network_way {
    GPUD_NETWORK_HOST = 1 << 0,    /* it is host memory, or is copied through some */
    GPUD_NETWORK_DMABUF = 1 << 1,  /* the device's driver exports it, the card's imports it */
    GPUD_NETWORK_PEERMEM = 1 << 2, /* the card's driver calls the device's through peermem */
};

/* The capabilities of a channel's network card; all 0 if it uses none. */
struct gpud_network {
    char card[32];                                                /* "mlx5_0"; "": none */
    uint32_t ways;                                                /* enum gpud_network_way */
    char no_dmabuf[GPUD_REASON_MAX], no_peermem[GPUD_REASON_MAX]; /* why those are missing */
};

/* One side's description of itself, from which the route is chosen. */
struct gpud_endpoint {
    char name[64];    /* of the application */
    char device[32];  /* "opencl:0" */
    char kind[16];    /* "opencl" */
    uint32_t caps;    /* enum gpud_device_caps */
    uint8_t uuid[16]; /* of the device */
    /* Its PCI address, "0000:63:00.0"; "": not given. Used only in reasons and to order routes: a
     * peer that lies here only gets a slower link. */
    char pci[16];
    uint64_t aperture; /* bytes of it that peers can write at once; 0: no known limit */
    char no_direct[GPUD_REASON_MAX]; /* why peers cannot write its memory */
    uint32_t reach_count;
    uint8_t reach[GPUD_REACH_MAX][16]; /* the devices that its copy engine can write */
    const void *common;      /* of the device, see ops.h; not sent: known only of a peer in the same
                                context */
    uint32_t host_rate;      /* MB/s between it and the host's memory; 0: unknown */
    uint64_t token;          /* of the context: equal = the same process and context */
    uint8_t host[16];        /* the machine's boot id */
    uint64_t time_namespace; /* identifies its CLOCK_MONOTONIC; see base/host.h */
    struct gpud_network network;
    char route[32]; /* the only one to use, or "" */
    uint32_t slots;
    uint8_t slow_receiver; /* enum gpud_slow_receiver */
    uint8_t require_direct;
};

struct gpud_offer {
    uint32_t epoch;
    char route[32];
    char reason[GPUD_REASON_MAX]; /* why the better routes do not work, or "" */
    uint32_t signal;              /* enum gpud_signal_place: where the devices' signal words are */
    uint32_t large_meta_max; /* bytes that a frame may have, at most GPUD_LARGE_META_MAX; 0: none */
    struct gpud_media media;
    struct gpud_handle page; /* the sender's ring page, if each side has one; else type NONE */
    struct gpud_ring_description ring; /* memories = 0 if the receiver owns the ring */
};

struct gpud_accept {
    uint32_t epoch, entries;
    struct gpud_handle page;           /* the ring page */
    struct gpud_handle large_metas;    /* room for each entry's; NONE: frames come without them */
    struct gpud_ring_description ring; /* memories = 0 if the sender owns the ring */
};

enum gpud_signal_place {
    GPUD_SIGNAL_NONE,   /* the host publishes a frame when the queue has finished it */
    GPUD_SIGNAL_MEMORY, /* in each slot's memory, known to the driver: DirectGMA */
    GPUD_SIGNAL_PAGE,   /* in the ring page, which both devices map */
};

struct gpud_canary {
    uint32_t epoch;
    uint64_t nonce;
};

struct gpud_refuse {
    uint32_t epoch;
    uint32_t status; /* enum gpud_status */
    char reason[GPUD_REASON_MAX];
};

struct gpud_user_message {
    uint32_t kind, size;
    uint8_t data[GPUD_EVENT_SIZE_MAX];
};

/* A sender's answer to a QUERY: its stream. */
struct gpud_report {
    char name[64], device[32]; /* of the application; of its ring */
    uint32_t epoch;            /* 0: no format yet, and no media follows */
    struct gpud_media media;
    uint8_t ended, slow_receiver;
    uint32_t slots, links; /* links: how many follow, in LINKS; at most GPUD_RECEIVERS_MAX */
    uint64_t frames, delivered, dropped, connects;
    uint64_t rate; /* frames in 1000 s, over the last second or two */
    uint64_t age;  /* ns since the last frame; GPUD_TIME_NONE: none yet */
    uint64_t disconnects, refused, copies_cpu, copies_gpu, waits_cpu, waits_device;
};

/* Leaves a quarter of a message free, as every type does. */
#define GPUD_LINKS_A_MESSAGE 8
struct gpud_links {
    uint32_t count;
    struct gpud_link_info link[GPUD_LINKS_A_MESSAGE]; /* without their size */
};

struct gpud_message {
    enum gpud_message_type type;
    uint32_t position; /* how many frames of this epoch were published before it */
    union {
        struct gpud_endpoint hello;
        struct gpud_offer offer;
        struct gpud_accept accept;
        struct gpud_canary canary;
        uint32_t epoch;            /* READY, EOS */
        struct gpud_refuse refuse; /* and BYE */
        struct gpud_user_message event;
        struct gpud_ring_description grow;
        uint32_t shrink; /* SHRINK: how many memories stay */
        struct gpud_report report;
        struct gpud_links links;
    };
};

/* Writes *size bytes, at most `room`. GPUD_INVALID: they do not fit, or a field has an invalid
 * value; then the link cannot go on, because its peer would miss the message. */
enum gpud_status gpud_message_encode(struct gpud_message *message, uint8_t *bytes, size_t room,
                                     size_t *size, struct gpud_error *error);

/* Reads a peer's bytes. Handles are still without their attachments. */
enum gpud_status gpud_message_decode(struct gpud_message *message, const uint8_t *bytes,
                                     size_t size, struct gpud_error *error);

/* Lists the handles that have an attachment, in wire order; returns how many there are. */
size_t gpud_message_attachments(struct gpud_message *message,
                                struct gpud_handle *handles[GPUD_MESSAGE_HANDLES]);

const char *gpud_message_name(enum gpud_message_type type);

#endif
