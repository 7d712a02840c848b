/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Connections between hosts: kernel TCP, and TLS 1.3 over it. */
#ifndef GPUD_WIRE_TCP_TCP_H
#define GPUD_WIRE_TCP_TCP_H

#include "base/base.h"
#include "wire/network.h"
#include "wire/tcp/kind.h"
#include "wire/unix/unix.h"
#include "wire/wire.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* clang-format off */
/* One connection carries a link: its messages, its frames, and what each side publishes of its half
 * of the ring page, as records in one byte stream.
 *
 *     threads of the stream                I/O thread, one a process           the other side's
 *     send(), write(), publish() ──▶ queue ──▶ send ═══════ records ═══════▶ recv ──▶ slots, page,
 *     sleep, poll ◀── wake, messages ◀── recv ◀════════════════════════════ send       messages
 *
 *   channel.c    a connection, from looking up the name to its end, and listening
 *   tls.c        TLS, by OpenSSL
 *   io.c         the I/O thread: records to and from the socket, and whether the peer lives
 *   remote.c     a link's page, ring and large metas
 *
 * The record: a header of 24 bytes, in little-endian, and so many bytes.
 *
 *     0  type, 16 bits    2  flags, 16 bits    4  size, 32 bits    8  link, 32 bits
 *    12  entry, 32 bits  16  offset, 64 bits
 *
 *     MESSAGE    a message of wire/wire.h
 *     DATA       bytes of the slot of this entry, from this offset on
 *     META       bytes of the large metas, from this offset on
 *     RANGE      bytes of the sending side's half of the page, from this offset on; the flag WAKE
 *                ends the other side's sleep. Without bytes it only does that.
 *     PING       nothing: something to be acknowledged while there is nothing else
 *
 * `link` is the number that the receiving side gave the link, in its handles. Records are sent in
 * the order of the calls, so that words follow the bytes that they are about, and messages the
 * words. The bytes of DATA are sent in chunks, between which other channels have their turns.
 *
 * No peer writes memory: this side's recv() puts bytes where its own bounds allow. */
/* clang-format on */

#define TCP_HEADER_SIZE 24

enum tcp_record {
    TCP_MESSAGE = 1,
    TCP_DATA,
    TCP_META,
    TCP_RANGE,
    TCP_PING,
};

#define TCP_WAKE 1 /* flag of a RANGE */

/* Bytes of one DATA or META: what a message waits for at most, if the other side keeps up. Larger
 * ones cost no less CPU. */
#define TCP_CHUNK (256 * 1024)

/* A frame may be queued while less than this is not sent yet. */
#define TCP_ROOM (2 * TCP_CHUNK)

/* Bytes of one RANGE. */
#define TCP_RANGE_MAX 4096

/* Unread messages for which the socket is not read. */
#define TCP_UNREAD_MAX 64

/* With so many unsent messages a peer counts as not reading: more than are ever sent at once. */
#define TCP_UNSENT_MAX 1024

/* How long what was queued before the end has to be sent. */
#define TCP_LINGER GPUD_SEC

struct tcp_header {
    uint16_t type, flags;
    uint32_t size, link, entry;
    uint64_t offset;
};

/* === tls ===================================================================================== */

struct tcp_tls;

/* How an end proves who it is: the number of a request. */
enum tcp_proof {
    TCP_PROOF_NONE = 1,
    TCP_PROOF_KEY,
    TCP_PROOF_CERTIFICATE,
};

enum tcp_proof gpud_tls_proof(const struct gpud_access_rule *access);

/* Begins a handshake over a connected socket. Reads the rule's files anew. name: the channel's,
 * which both ends bind to the handshake. host: of the sender, as the receiver's address gives it,
 * which has to be in the sender's certificate. peer: for reasons. */
enum gpud_status gpud_tls_begin(struct tcp_tls **tls, int fd, bool is_sender,
                                const struct gpud_access_rule *access, const char *name,
                                const char *host, const char *peer, struct gpud_error *error);

/* Reads the rule's files, to report what is wrong with them before anybody connects. */
enum gpud_status gpud_tls_check(const struct gpud_access_rule *access, bool is_sender,
                                struct gpud_error *error);

/* GPUD_OK: done. GPUD_AGAIN: when the socket is readable, or with *wants_write writable. */
enum gpud_status gpud_tls_handshake(struct tcp_tls *tls, bool *wants_write,
                                    struct gpud_error *error);

/* "TLS 1.3 AES-128-GCM", after the handshake. */
void gpud_tls_describe(const struct tcp_tls *tls, char *text, size_t size);

/* As recv(): −1 and EAGAIN, 0 at the end of the stream. Otherwise −1 and EPROTO: *error says why.
 */
ssize_t gpud_tls_receive(struct tcp_tls *tls, void *bytes, size_t size, struct gpud_error *error);

/* Encrypts all of it, and sends as much as there is room for: returns its size. The rest is sent by
 * the next call, which may be of no parts. −1 and EAGAIN: what earlier calls left cannot be sent
 * yet, and nothing of this is taken; or another errno of the socket's; or EPROTO, with *error. */
ssize_t gpud_tls_send(struct tcp_tls *tls, const struct iovec *parts, size_t count,
                      struct gpud_error *error);
/* Whether calls have left something to be sent; receiving may have, too. */
bool gpud_tls_is_behind(const struct tcp_tls *tls);

/* Says goodbye, if there is room for it. */
void gpud_tls_shut_down(struct tcp_tls *tls);
void gpud_tls_end(struct tcp_tls **tls); /* *tls may be NULL */

/* After so many bytes a side changes its key: RFC 8446, 5.5 allows 2^24.5 records of AES-GCM. */
extern uint64_t gpud_tls_bytes_a_key;

/* === channel ================================================================================= */

enum tcp_phase {
    TCP_LOOKING_UP, /* the host's name */
    TCP_CONNECTING, /* to one of its addresses */
    TCP_ASKING,     /* request and reply */
    TCP_PROVING,    /* TLS */
    TCP_OPEN,       /* the I/O thread has the socket; final, `ended` says whether it still lives */
    TCP_ENDED,      /* before it was open; `end` says why */
};

struct tcp_message {
    struct tcp_message *next;
    size_t size;
    uint8_t bytes[];
};

struct tcp_messages {
    struct tcp_message *first, *last;
    uint32_t count;
};

/* What is to be sent in the order of the calls: bytes of `small`, or of a memory. */
struct tcp_piece {
    struct tcp_remote *remote;
    enum tcp_record type; /* RANGE: whole records in `small`; DATA, META */
    const char *data;     /* of DATA and META: what is still to be sent */
    uint64_t size, offset;
    uint32_t entry;
    bool is_dropped; /* nothing of it is sent */
};

struct tcp_remote;

struct tcp_channel {
    struct gpud_channel base; /* first */
    bool is_sender;           /* it was accepted */
    struct gpud_place place;
    char where[GPUD_ADDRESS_MAX]; /* of the other end, for people */
    int event;                    /* makes the channel's descriptor readable */
    struct gpud_access_rule access;
    int fd;              /* the connection; the I/O thread's while it is open */
    struct tcp_tls *tls; /* likewise; NULL: plain TCP */

    struct gpud_lock lock; /* for what follows */
    enum tcp_phase phase;
    bool hung_up, ended; /* ended: no longer open */
    struct gpud_error end;
    struct gpud_received received; /* a receiver's, while it is open */

    /* Before it is open: */
    struct tcp_opening *opening;

    /* While it is open: */
    struct tcp_messages unread;
    uint32_t unsent;          /* messages */
    struct tcp_piece *pieces; /* a ring of piece_room */
    uint32_t piece_first, piece_count, piece_room;
    uint8_t *small; /* a ring of small_room bytes */
    size_t small_first, small_count, small_room;
    uint64_t large_count;       /* bytes of DATA and META in the pieces */
    struct tcp_remote *sending; /* whose memory the I/O thread is sending from, or NULL */
    struct tcp_remote *remotes; /* changed under receive_lock, too */
    uint64_t remote_count;      /* ever made */
    atomic_bool kicked;         /* a KICK is to be received */

    struct gpud_lock receive_lock; /* held by the I/O thread while it receives */

    /* The I/O thread's. */
    struct tcp_channel *next, *next_ready;
    atomic_bool is_ready; /* it is in the list of those with something to do */
    struct tcp_io *io;
};

/* Frees a channel without references that the I/O thread does not have. */
void gpud_tcp_channel_destroy(struct tcp_channel *channel);

/* === io ====================================================================================== */

/* Something is to be sent, or the channel is to end. Under the channel's lock. */
void gpud_io_wake(struct tcp_channel *channel);

/* These are called under the channel's lock. The first one queues a record that is copied, also
 * before the channel is open. remote: NULL for a MESSAGE. false: out of memory. */
bool gpud_io_queue_small(struct tcp_channel *channel, struct tcp_remote *remote,
                         const struct tcp_header *header, const void *bytes);

/* Queues bytes of a memory, which stay as they are until the remote has no pieces. */
bool gpud_io_queue_large(struct tcp_channel *channel, struct tcp_remote *remote,
                         enum tcp_record type, uint32_t entry, uint64_t offset, const void *data,
                         uint64_t size);

/* Drops the remote's pieces: on return its memory is not read any more. The rest of a chunk that is
 * under way is sent as zeros. May wait for a call of send(). */
void gpud_io_drop(struct tcp_channel *channel, const struct tcp_remote *remote);

/* What is being received for the remote has no place any more. With receive_lock, too. */
void gpud_io_forget(struct tcp_channel *channel, const struct tcp_remote *remote);

bool gpud_io_has_pieces(const struct tcp_channel *channel, const struct tcp_remote *remote);

/* Takes over an open channel, until it ends. */
enum gpud_status gpud_io_add(struct tcp_channel *channel, struct gpud_error *error);

/* The channel has no references any more: it ends after what is queued, and is freed. */
void gpud_io_leave(struct tcp_channel *channel);

/* === remote ================================================================================== */

struct tcp_remote {
    struct gpud_remote base; /* first */
    struct tcp_channel *channel;
    bool is_sender;
    struct tcp_remote *next;
    uint32_t number; /* this side's, of the channel's */

    /* Under the channel's lock. */
    uint32_t peer_number; /* the other side's number of this link; 0: not known yet */
    bool detached;
    bool wants_room; /* a thread waits until the pieces are sent */
    char *published; /* our half, as it was published */
    struct gpud_waker waker;

    void *metas;
    uint64_t metas_size;

    /* Receiver: its ring. */
    char *ring[GPUD_RING_MEMORIES_MAX];
    /* Both: of the receiver's ring. */
    uint32_t entries, slots_per_memory;
    uint64_t slot_size;
};

extern const struct gpud_remote_ops gpud_tcp_remote_ops;

/* Where the bytes of a DATA or META go. false: the peer lies. */
bool gpud_remote_find_place(const struct tcp_remote *remote, const struct tcp_header *header,
                            char **place);

/* Stores a RANGE into the peer's half of the page. false: the peer lies. */
bool gpud_remote_store(struct tcp_remote *remote, const struct tcp_header *header,
                       const uint8_t *bytes);

/* Wakes the threads of this side that wait for the page. */
void gpud_remote_wake(struct tcp_remote *remote);

#endif
