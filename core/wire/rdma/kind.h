/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a build without RDMA knows of connections between hosts, too: their addresses, and the bytes
 * of their requests. */
#ifndef GPUD_WIRE_RDMA_KIND_H
#define GPUD_WIRE_RDMA_KIND_H

#include "base/base.h"
#include "wire/network.h"
#include "wire/wire.h"
#include <stdbool.h>
#include <stddef.h>

/* === scheme ================================================================================== */
/* Addresses of network cards: "rdma://host:port/name", see wire/network.h. */

extern const struct gpud_scheme gpud_rdma_scheme;

/* Resolves an address in a library built without rdma: always refuses. */
enum gpud_status gpud_rdma_refuse(const char *text, char place[GPUD_ADDRESS_MAX],
                                  struct gpud_error *error);

/* === kind ==================================================================================== */
/* clang-format off */
/* The control channel between hosts: a connection of rdma_cm and its queue pair.
 *
 *     receiver                                     sender
 *        looks up the address, and a route
 *        request: how many receives, a name ─────────▶   selects the channel
 *        ◀──────────────────────────── reply, refusal
 *        ◀═══════ each proves that it has the key ═══▶   wire/wire.h
 *        ◀═════════════════ messages ════════════════▶
 *
 * The end that connects is the receiver. No call waits: a new channel is not `connected` yet, and
 * every call on it makes progress; its descriptor is readable when that is useful. */
/* clang-format on */

extern const struct gpud_channel_ops gpud_rdma_channel_ops;

/* === private_data ============================================================================ */
/* The private data that rdma_cm carries with a connection request and its answer: a few bytes, to
 * which padding may be added on the way.
 *
 *     receiver                                  sender
 *        REQUEST, the channel's name ──────────────▶
 *        ◀───────────────────────────────── REPLY     or REFUSAL: the reason, and the known names
 *
 *        REQUEST with 0 receives, a name ──────────▶  asks for the names behind it, in their order
 *        ◀─────────────────────────────── REFUSAL     these names, as many as fit
 *
 *        REQUEST ──────────────────────────────────▶  whose channel another process sends
 *        ◀─────────────────────────────── REFUSAL     MOVED: the port of that process, in digits
 *
 *     0  magic "GPUR"     4  version     5  total length     6  16 bits: how many receives are
 *                                           posted; in a REFUSAL the reason     8  text
 *
 * Numbers are little-endian. The first eight bytes are the same in every version. */

#define GPUD_RDMA_VERSION 1

/* The limits of rdma_cm on InfiniBand and RoCE. */
#define GPUD_RDMA_REQUEST_MAX 56
#define GPUD_RDMA_REPLY_SIZE 8
#define GPUD_RDMA_REFUSAL_MAX 148
#define GPUD_RDMA_NAMES_MAX (GPUD_RDMA_REFUSAL_MAX - GPUD_RDMA_REPLY_SIZE)

/* With fewer, nothing could be sent: see device/rdma/rdma.h. */
#define GPUD_RDMA_RECEIVES_MIN 33

struct gpud_rdma_request {
    uint32_t receives; /* 0: it only asks for names */
    char name[GPUD_PLACE_NAME_MAX + 1];
};

enum gpud_rdma_refusal_reason {
    GPUD_RDMA_UNKNOWN_NAME = 1,
    GPUD_RDMA_NAME_WANTED, /* there are several, and the request names none */
    GPUD_RDMA_OTHER_VERSION,
    GPUD_RDMA_MALFORMED,
    GPUD_RDMA_BUSY,   /* the queue of requests is full */
    GPUD_RDMA_UNABLE, /* out of memory, descriptors, or the card's resources */
    GPUD_RDMA_NAMES,  /* the answer to a request for names */
    GPUD_RDMA_MOVED,  /* the channel is at another port: see wire/network.h */
};

struct gpud_rdma_refusal {
    enum gpud_rdma_refusal_reason reason;
    unsigned version;                    /* of the refusing end */
    char names[GPUD_RDMA_NAMES_MAX + 1]; /* "cam1,cam2"; a comma at the end: and more */
};

/* Return how many bytes were written. */
size_t gpud_rdma_write_request(const struct gpud_rdma_request *request,
                               uint8_t bytes[GPUD_RDMA_REQUEST_MAX]);
size_t gpud_rdma_write_reply(uint32_t receives, uint8_t bytes[GPUD_RDMA_REPLY_SIZE]);
size_t gpud_rdma_write_refusal(const struct gpud_rdma_refusal *refusal,
                               uint8_t bytes[GPUD_RDMA_REFUSAL_MAX]);

/* Adds a name to a refusal, or the mark for further names. "" adds nothing. */
void gpud_rdma_add_name(struct gpud_rdma_refusal *refusal, const char *name);

/* Makes it one that sends the receiver to another port; and that port, 0 for any other refusal. */
void gpud_rdma_refuse_moved(struct gpud_rdma_refusal *refusal, uint16_t port);
uint16_t gpud_rdma_moved_to(const struct gpud_rdma_refusal *refusal);

/* Read a peer's bytes. GPUD_UNSUPPORTED: another version. GPUD_PEER: they are malformed. */
enum gpud_status gpud_rdma_read_request(const uint8_t *bytes, size_t size,
                                        struct gpud_rdma_request *request,
                                        struct gpud_error *error);
enum gpud_status gpud_rdma_read_reply(const uint8_t *bytes, size_t size, uint32_t *receives,
                                      struct gpud_error *error);
enum gpud_status gpud_rdma_read_refusal(const uint8_t *bytes, size_t size,
                                        struct gpud_rdma_refusal *refusal,
                                        struct gpud_error *error);

/* The refusal as a reason for the receiver; GPUD_CLOSED if a later attempt may succeed. */
enum gpud_status gpud_rdma_explain_refusal(const struct gpud_rdma_refusal *refusal,
                                           const struct gpud_place *place,
                                           struct gpud_error *error);

/* === hint ==================================================================================== */
/* What this host lacks for RDMA connections. */

/* A kind's hint in wire/channel.c: a sentence with the command that helps, or "". */
void gpud_rdma_hint(const char *place, char *hint, size_t size);

/* === names =================================================================================== */
/* Asks another host for the names of the channels at one of its ports. It takes no key, as a
 * refusal lists them, too. */

/* GPUD_CLOSED: nothing listens there, or its answer did not arrive by the deadline. */
enum gpud_status gpud_rdma_ask_names(const struct gpud_place *place, const char *port,
                                     int64_t deadline, char *names, size_t size,
                                     struct gpud_error *error);

#endif
