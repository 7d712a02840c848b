/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A connection of a network card: a reliable queue pair to one peer, in a protection domain of its
 * own, over which messages, writes and notices travel in the order in which they were posted.
 *
 * Flow control. Each side posts GPUD_RDMA_RECEIVES receives. Every message and notice consumes one
 * of the other side's, and carries, as immediate data, how many of our own were reposted since the
 * last time. Messages may not use the last GPUD_RDMA_NOTICES: a message's receive is reposted only
 * when the message was read, a notice's at once, so that a peer that leaves messages unread can
 * still be notified. One of these is reserved for reporting reposted receives alone. So a stalled
 * peer costs this side GPUD_AGAIN, never the connection.
 *
 * Waking up. The descriptor is readable when there may be something to handle. A notice is `urgent`
 * (a frame was published) or not (a credit came back); the latter wakes only a sleeper that armed
 * for everything. The card signals one event after each gpud_rdma_arm(): a thread arms, checks once
 * more, and then sleeps. Arming consumes events that would have woken other threads, so one thread
 * sleeps here and wakes the others.
 *
 * Nothing here blocks except gpud_rdma_drain(); calls of the kernel (create, end, register,
 * unregister) are slow. Thread-safe: one lock, which is held only for posting and polling. */
#ifndef GPUD_DEVICE_RDMA_RDMA_H
#define GPUD_DEVICE_RDMA_RDMA_H

#include "base/base.h"
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* Bytes of one message, and how many may be under way in each direction. */
#define GPUD_RDMA_MESSAGE_MAX 16384
#define GPUD_RDMA_RECEIVES 96
#define GPUD_RDMA_NOTICES 32 /* of these; part of the protocol */

/* For the connecting end. RDMA_OPTION_ID_ACK_TIMEOUT: 4.096 us * 2^15 = 134 ms, up to four times
 * that on some cards. retry_count (7 means forever with soft-RoCE): a card gives up when seven
 * packets in a row are lost, after 0.94 s on soft-RoCE. A lossy network hardly ever does that (at 3
 * % once in 10^8 losses); a link that is down always does. rnr_retry_count: a peer without receives
 * has broken the protocol (7 means forever). */
#define GPUD_RDMA_ACK_TIMEOUT 15
#define GPUD_RDMA_RETRIES 6
#define GPUD_RDMA_RNR_RETRIES 3

struct gpud_rdma;

/* The queue pair for an id that is bound to a card (its route was resolved, or it is a request to
 * connect), with its receives posted. The id stays the caller's and must outlive the queue pair:
 * gpud_rdma_end() comes before rdma_destroy_id(). */
enum gpud_status gpud_rdma_create(struct rdma_cm_id *id, struct gpud_rdma **rdma,
                                  struct gpud_error *error);

/* Call when the connection is established, with the other side's number of receives. Before that
 * sending fails with GPUD_AGAIN. */
void gpud_rdma_set_peer_receives(struct gpud_rdma *rdma, uint32_t receives);
struct gpud_rdma *gpud_rdma_ref(struct gpud_rdma *rdma);
void gpud_rdma_unref(struct gpud_rdma **rdma); /* *rdma may be NULL */

/* Destroys the queue pair and all registrations: afterwards no card accesses memory of this process
 * for it, the id is unused, and every call fails with GPUD_PEER. Regions, the descriptor and the
 * record live until their owners release them. Idempotent. No other thread may be in an rdma_cm
 * call for the id. */
void gpud_rdma_end(struct gpud_rdma *rdma);

/* Fails the connection for good: flushes pending requests and makes the descriptor readable. The
 * first reason is kept. */
void gpud_rdma_fail(struct gpud_rdma *rdma, const char *reason);
bool gpud_rdma_has_failed(struct gpud_rdma *rdma, struct gpud_error *error); /* error may be NULL */

/* Whether the peer can be reached, as far as is known. After a silence it asks the peer's card by a
 * write of no bytes, which needs no process there: the connection fails if that is not answered in
 * GPUD_RDMA_ANSWER. Call it every GPUD_RDMA_SILENCE: a vanished peer is detected in 2 s,
 * also where the card itself neither goes on nor gives up. */
#define GPUD_RDMA_SILENCE (400 * GPUD_MSEC)
#define GPUD_RDMA_ANSWER (1500 * GPUD_MSEC)

bool gpud_rdma_is_alive(struct gpud_rdma *rdma);

/* The card's name ("mlx5_0"). */
const char *gpud_rdma_card(const struct gpud_rdma *rdma);

/* --- messages ------------------------------------------------------------------------------ */

/* Copies the bytes, 1 to GPUD_RDMA_MESSAGE_MAX. GPUD_AGAIN: the peer does not read. GPUD_PEER: it
 * is gone. */
enum gpud_status gpud_rdma_send(struct gpud_rdma *rdma, const void *bytes, size_t size,
                                struct gpud_error *error);

/* The next message, in the order of sending; its bytes are valid until the next call. GPUD_AGAIN:
 * no message yet. GPUD_CLOSED: no message will come, with the reason; messages received before a
 * failure are delivered first. One thread at a time. */
enum gpud_status gpud_rdma_receive(struct gpud_rdma *rdma, const void **bytes, size_t *size,
                                   struct gpud_error *error);

/* How many messages were received so far, taken by gpud_rdma_receive() or not. */
uint32_t gpud_rdma_received(struct gpud_rdma *rdma);

/* --- waking up ----------------------------------------------------------------------------- */

/* To poll for POLLIN: an epoll descriptor, valid as long as the record. Readable for good once the
 * connection has failed. */
int gpud_rdma_get_fd(const struct gpud_rdma *rdma);

/* Arms the card: the next event makes the descriptor readable, or, with urgent_only, the next
 * message, urgent notice or failure. Clears earlier events and handles completions. */
void gpud_rdma_arm(struct gpud_rdma *rdma, bool urgent_only);

/* Handles the card's completions: reposts receives and counts credits. Returns whether a notice or
 * a message has arrived since the last call by any thread. */
bool gpud_rdma_progress(struct gpud_rdma *rdma);

/* --- memory -------------------------------------------------------------------------------- */

enum gpud_rdma_access {
    GPUD_RDMA_LOCAL = 0,             /* read by this side's card, to be sent */
    GPUD_RDMA_REMOTE_WRITE = 1 << 0, /* written by the peer */
    GPUD_RDMA_REMOTE_READ = 1 << 1,
    GPUD_RDMA_LOCAL_WRITE = 1 << 2, /* written by this side's card: gpud_rdma_read() */
};

struct gpud_memory;

/* How a registration got at the memory, best first. */
enum gpud_rdma_way { GPUD_RDMA_DMABUF, GPUD_RDMA_PEERMEM, GPUD_RDMA_HOST };

struct gpud_rdma_region; /* a registration in the connection's protection domain */

/* Host pages. They stay the caller's, and mapped until the region is gone. */
enum gpud_status gpud_rdma_register(struct gpud_rdma *rdma, void *data, uint64_t size,
                                    unsigned access, struct gpud_rdma_region **region,
                                    struct gpud_error *error);

/* Registers memory of any device, and keeps a reference: host memory by its host address, else by
 * dma-buf, else by peermem. GPUD_UNSUPPORTED with both reasons. */
enum gpud_status gpud_rdma_register_memory(struct gpud_rdma *rdma, struct gpud_memory *memory,
                                           unsigned access, struct gpud_rdma_region **region,
                                           enum gpud_rdma_way *way, struct gpud_error *error);

/* No request that uses the region may be pending: gpud_rdma_drain(). */
void gpud_rdma_unregister(struct gpud_rdma_region **region); /* may be NULL */

/* What a peer needs to write or read it. A secret: never logged. */
uint64_t gpud_rdma_region_address(const struct gpud_rdma_region *region);
uint32_t gpud_rdma_region_key(const struct gpud_rdma_region *region);

/* Whether this card can register the device's memory by itself; "" or the reason. The drivers are
 * asked once for each connection and device. */
struct gpud_device;

bool gpud_rdma_has_dmabuf(struct gpud_rdma *rdma, struct gpud_device *device,
                          char why[GPUD_REASON_MAX]);
bool gpud_rdma_has_peermem(struct gpud_rdma *rdma, struct gpud_device *device,
                           char why[GPUD_REASON_MAX]);

/* --- writing and reading ------------------------------------------------------------------- */

struct gpud_rdma_transfer {
    struct gpud_rdma_region *local;
    uint64_t local_offset;
    uint64_t remote_address;
    uint32_t remote_key;
    uint64_t size;
    bool tells; /* it is signalled: see gpud_rdma_is_done() */
};

/* Into the peer's memory, behind everything posted before, in as many pieces as the card wants.
 * Small ones are copied at once (inline); the bytes of others must not change until they have
 * arrived. GPUD_AGAIN: the card's queue is full, and nothing was posted. */
enum gpud_status gpud_rdma_write(struct gpud_rdma *rdma, const struct gpud_rdma_transfer *transfer,
                                 struct gpud_error *error);

/* From the peer's memory. */
enum gpud_status gpud_rdma_read(struct gpud_rdma *rdma, const struct gpud_rdma_transfer *transfer,
                                struct gpud_error *error);

/* Notifies the peer of earlier writes. Never fails: if the peer's receives or the card's queue are
 * used up, the notice follows when there is room again, before anything else. */
void gpud_rdma_notify(struct gpud_rdma *rdma, bool urgent);

/* Both: the notice goes with the last bytes if the peer has a receive for it, else as a request of
 * its own. */
enum gpud_status gpud_rdma_write_and_notify(struct gpud_rdma *rdma,
                                            const struct gpud_rdma_transfer *transfer, bool urgent,
                                            struct gpud_error *error);

/* Whether a write of so many bytes, and some words behind it, fit into the card's queue. */
bool gpud_rdma_has_room(struct gpud_rdma *rdma, uint64_t size);

/* The number of the last posted request; whether the card is done with everything up to a number,
 * and a wait for that. GPUD_TIMEOUT: the card may still use the memory. GPUD_PEER: it is done, but
 * failed. */
uint64_t gpud_rdma_posted(struct gpud_rdma *rdma);
bool gpud_rdma_is_done(struct gpud_rdma *rdma, uint64_t number);
enum gpud_status gpud_rdma_drain(struct gpud_rdma *rdma, uint64_t number, int64_t deadline,
                                 struct gpud_error *error);

/* The number up to which everything succeeded, as far as known. *refused: the peer's card rejected
 * the next request, because its key or range is wrong. */
uint64_t gpud_rdma_succeeded(struct gpud_rdma *rdma, bool *refused);

#endif
