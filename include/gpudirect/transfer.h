/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* Transfers between hosts, for who has something else to move than frames: bytes of registered
 * memory, host's or GPU's, straight from one process into another's, by their network cards (RDMA).
 *
 *   one side                                       the other
 *   gpud_transfer_create("rdma://0.0.0.0:7200")    gpud_transfer_create
 *   gpud_transfer_accept  ◀───────────────────────  gpud_transfer_connect("rdma://host:7200")
 *   gpud_region_create                            gpud_region_create
 *   gpud_region_export_key ────── 64 bytes ──────▶  gpud_connection_put / _get
 *   gpud_connection_receive  ◀───────────────────────  gpud_connection_send
 *   gpud_completion_queue_wait                      gpud_completion_queue_wait
 *
 * Afterwards both sides are alike. What is moved lies in memory of whichever device, each side's
 * own choice: the same calls serve host, CUDA and every other device that gpud_device_open() knows.
 *
 * Rights. Nothing of a process's memory can be reached but what it registered, and what was
 * registered is local unless a right was given to the peer. A registration belongs to one
 * connection, whose card keeps connections apart (a protection domain each): a key is worth nothing
 * on another one. Whoever asks for an operation has it checked against the key before anything is
 * posted, and the peer's card checks it again; only who bypasses this library gets as far as the
 * card's refusal, which ends that connection, and that one alone.
 *
 * Order. A connection's operations are done in the order in which they were asked for, also those
 * that wait for a GPU's queue. What was put is in the peer's memory before a notification or a
 * message that was asked for later arrives. Gets are no exception, but what they read may be older
 * than puts that the same peer was asked for later.
 *
 * Flow. No operation needs the peer's processor, but for notifications and messages, which it takes
 * when it looks at its completions. A send needs a receive that the peer has posted before; until
 * there is one it waits as long as it was told to, and nothing is sent: no connection breaks by a
 * receiver that is not ready.
 *
 * Security is that of frames between hosts: the key file decides who may connect, nothing is
 * encrypted, see core/SECURITY.md.
 *
 * Thread-safety: every function may be called from any thread, but that an object is closed,
 * deregistered or destroyed once nobody else uses it. */
/* clang-format on */
#ifndef GPUDIRECT_TRANSFER_H
#define GPUDIRECT_TRANSFER_H

#include <gpudirect/device.h>

GPUD_BEGIN_DECLS

struct gpud_transfer;   /* listens, connects, and has a thread that looks after its connections */
struct gpud_connection; /* to one peer */
struct gpud_region;     /* memory that is registered with a connection */
struct gpud_completion_queue;

/* --- completions --------------------------------------------------------------------------- */

enum gpud_completion_kind {
    GPUD_COMPLETION_PUT = 1, /* the bytes are in the peer's memory; its own are free again */
    GPUD_COMPLETION_GET,     /* the bytes are here */
    GPUD_COMPLETION_SEND,    /* as PUT */
    GPUD_COMPLETION_RECEIVE, /* a message is here */
    /* The peer put something with a notification; or only notified (length 0). */
    GPUD_COMPLETION_NOTIFICATION,
    /* An operation was refused with GPUD_TIMEOUT: now there may be room. status: GPUD_OK. */
    GPUD_COMPLETION_ROOM,
    /* The connection has ended, and this is the last completion of it. status: GPUD_CLOSED: one of
     * its ends closed it. GPUD_PEER: the peer vanished, or broke the protocol. GPUD_NO_ACCESS: the
     * peer's card refused. gpud_connection_info.reason says more. */
    GPUD_COMPLETION_END,
};

/* An operation that was accepted is completed exactly once. What says that bytes have arrived (GET,
 * RECV, NOTIFICATION) comes after them also for the GPU whose memory they are in: work that is
 * launched afterwards sees them. */
struct gpud_completion {
    size_t size;
    enum gpud_completion_kind kind;
    /* GPUD_OK. GPUD_CLOSED, GPUD_PEER: the connection ended before it was known to be done.
     * GPUD_NO_ACCESS: the key has been taken back meanwhile, or the peer's card refused it.
     * GPUD_IO: the GPU's queue failed. */
    enum gpud_status status;
    struct gpud_connection *connection; /* not to be used once it is closed */
    void *user;                         /* gpud_operation_params.user; else NULL */
    struct gpud_region *region; /* the own one; NULL in ROOM and END, and where it is gone */
    uint64_t offset, length;    /* in that; of a RECV as many bytes as were sent */
    uint32_t value; /* of a NOTIFICATION and of a RECV: the peer's gpud_operation_params.value */
};

/* One queue may serve any number of connections. It holds as much as they have under way. */
GPUD_API enum gpud_status gpud_completion_queue_create(struct gpud_context *context,
                                                       struct gpud_completion_queue **queue,
                                                       struct gpud_error *error);

/* What it holds, and what connections still complete, is forgotten. */
GPUD_API void gpud_completion_queue_destroy(struct gpud_completion_queue **queue);

/* Takes up to max completions, oldest first; list[0].size is that of each. Waits for the first one
 * alone. GPUD_TIMEOUT: there was none. GPUD_AGAIN: interrupted. */
GPUD_API enum gpud_status gpud_completion_queue_wait(struct gpud_completion_queue *queue,
                                                     int64_t timeout_ns,
                                                     struct gpud_completion *list, size_t max,
                                                     size_t *count, struct gpud_error *error);

/* A descriptor for epoll, GMainLoop or io_uring: readable as long as there are completions. It is
 * the queue's: poll it, do not read or close it. */
GPUD_API enum gpud_status gpud_completion_queue_get_fd(struct gpud_completion_queue *queue, int *fd,
                                                       struct gpud_error *error);

/* true: waiting calls return GPUD_AGAIN at once, until false is set. */
GPUD_API void gpud_completion_queue_interrupt(struct gpud_completion_queue *queue,
                                              bool interrupted);

/* --- connections --------------------------------------------------------------------------- */

struct gpud_transfer_params {
    size_t size;
    /* "rdma://address-of-this-host:port", with or without "/name" (several of one process share a
     * port), to listen on at once; NULL: only to connect. */
    const char *address;
    /* A file with a key that both ends have, as in gpud_sender_params; for listening and connecting
     * alike. NULL: no key, and then only addresses of this host itself can be listened on, unless
     * allow_unauthenticated. */
    const char *psk_file;
    bool allow_unauthenticated; /* whoever reaches the address may connect */
};

/* Listens, if it is to. GPUD_IO with EADDRINUSE: the address is taken. GPUD_NO_DEVICE,
 * GPUD_UNSUPPORTED, GPUD_NO_ACCESS, GPUD_INVALID: with what to do. params may be NULL. */
GPUD_API enum gpud_status gpud_transfer_create(struct gpud_context *context,
                                               const struct gpud_transfer_params *params,
                                               struct gpud_transfer **transfer,
                                               struct gpud_error *error);

/* Ends its connections, as gpud_connection_close() does; those that were had are still to be
 * closed. */
GPUD_API void gpud_transfer_destroy(struct gpud_transfer **transfer);

#define GPUD_CONNECTIONS_MAX 128 /* of one gpud_transfer, those that nobody took yet included */

/* The next peer that connected and proved who it is. What the connection completes goes to the
 * queue. GPUD_TIMEOUT: nobody was there. GPUD_AGAIN: interrupted. */
GPUD_API enum gpud_status gpud_transfer_accept(struct gpud_transfer *transfer,
                                               struct gpud_completion_queue *queue,
                                               int64_t timeout_ns,
                                               struct gpud_connection **connection,
                                               struct gpud_error *error);

/* A descriptor as above: readable while somebody waits to be accepted. */
GPUD_API enum gpud_status gpud_transfer_get_fd(struct gpud_transfer *transfer, int *fd,
                                               struct gpud_error *error);

/* Connects, once. GPUD_CLOSED: nobody listens there. GPUD_NO_ACCESS: keys differ, or one end has
 * none. GPUD_PEER: whoever is there transfers nothing (a sender of frames, say). GPUD_TIMEOUT,
 * GPUD_AGAIN: given up. */
GPUD_API enum gpud_status gpud_transfer_connect(struct gpud_transfer *transfer, const char *address,
                                                struct gpud_completion_queue *queue,
                                                int64_t timeout_ns,
                                                struct gpud_connection **connection,
                                                struct gpud_error *error);

/* true: accept, connect, deregister and operations that wait return GPUD_AGAIN at once, until false
 * is set. */
GPUD_API void gpud_transfer_interrupt(struct gpud_transfer *transfer, bool interrupted);

struct gpud_connection_info {
    size_t size;
    char host[64];                /* the other one's address */
    enum gpud_status status;      /* GPUD_OK: it stands; else as in GPUD_COMPLETION_END */
    char reason[GPUD_REASON_MAX]; /* of that */
};
GPUD_API void gpud_connection_get_info(struct gpud_connection *connection,
                                       struct gpud_connection_info *info);

/* Ends it. The peer is told, for which it has a second. When this returns, no card reads or writes
 * memory of this process for it any more, no key of it is worth anything, and what was under way is
 * completed with GPUD_CLOSED, or as it ended, in the queue. Its regions are still to be
 * deregistered. */
GPUD_API void gpud_connection_close(struct gpud_connection **connection);

/* --- memory -------------------------------------------------------------------------------- */

enum gpud_region_access {
    GPUD_REGION_LOCAL = 0, /* own operations alone read it (put, send) and write it (get) */
    /* The peer may write it at any time: for its puts, and for its messages, which it writes
     * straight into where this side posted a receive. */
    GPUD_REGION_REMOTE_WRITE = 1 << 0,
    GPUD_REGION_REMOTE_READ = 1 << 1, /* the peer may read it at any time: for its gets */
};

#define GPUD_REGIONS_MAX 1024 /* of one connection at a time */

struct gpud_region_params {
    size_t size;
    /* What is registered: a memory, all of it, which is kept; or */
    struct gpud_memory *memory;
    /* `length` bytes at an address, which stay the caller's, and there, until the region is
     * deregistered or the connection closed. They must be writable. */
    void *address;
    uint64_t length;
    /* Whose an address is: "host", "cuda:0", "hip:1"…; NULL, "auto": the devices' drivers are asked
     * (gpud_pointer_get_info()). Not with a memory, which knows. */
    const char *device;
    unsigned access; /* enum gpud_region_access; 0: LOCAL */
};

/* Host memory is registered as it is. A GPU's by the first of two ways that works: as a dma-buf of
 * its driver, or by its address where there is a module for that (nvidia-peermem).
 * GPUD_UNSUPPORTED: neither does, with the reason against each; registering pinned host memory, and
 * copying, is the way then. GPUD_NO_MEMORY: with the limit to raise. Takes its time: once for each
 * buffer, not for each operation.
 *
 * Once it is registered, synchronous copies to memory of cuMemAlloc() are done when they return
 * (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, as GPUDirect RDMA's manual demands). Of memory of
 * cuMemCreate() and of pools CUDA does not promise that: wait for the stream, or put behind it. */
GPUD_API enum gpud_status gpud_region_create(struct gpud_connection *connection,
                                             const struct gpud_region_params *params,
                                             struct gpud_region **region, struct gpud_error *error);

struct gpud_region_info {
    size_t size;
    uint64_t length;
    unsigned access;
    char device[32];
    char way[16]; /* "host", "dmabuf", "peermem" */
};
GPUD_API void gpud_region_get_info(const struct gpud_region *region, struct gpud_region_info *info);

/* What the peer needs to reach it: to be carried to it by gpud_connection_send(), or by whatever
 * the application has. A secret where the network is not trusted, and of no use to anybody but this
 * connection's peer; the same bytes on every machine. A checksum that both ends of the connection
 * alone can make covers all of it: a key that was damaged is GPUD_INVALID where it is used. */
#define GPUD_REGION_KEY_SIZE 64
struct gpud_region_key {
    uint8_t bytes[GPUD_REGION_KEY_SIZE];
};
GPUD_API enum gpud_status gpud_region_export_key(const struct gpud_region *region,
                                                 struct gpud_region_key *key,
                                                 struct gpud_error *error);

/* Takes the memory back from the card; the peer's key is worth nothing any more. Waits until own
 * operations that name it are done (GPUD_TIMEOUT, GPUD_AGAIN: some are not, and nothing changed: a
 * receive without a message, say, ends with the connection). Then the peer is told, and has until
 * the deadline, a second at least, to finish what it has under way; it uses the key no more after
 * that (GPUD_NO_ACCESS there). If it does not answer the memory is taken back all the same, which
 * ends the connection if the peer's card then still writes there. */
GPUD_API enum gpud_status gpud_region_destroy(struct gpud_region **region, int64_t timeout_ns,
                                              struct gpud_error *error);

/* --- operations ---------------------------------------------------------------------------- */

#define GPUD_OPERATIONS_MAX                                                                    \
    256                      /* puts, gets and sends of one connection that are not taken from \
                                the completion queue yet */
#define GPUD_RECEIVES_MAX 64 /* the same of receives, and of notifications */

struct gpud_operation_params {
    size_t size;
    struct gpud_region *region;        /* required: the own memory, of this connection */
    uint64_t offset, length;           /* the range in it */
    const struct gpud_region_key *key; /* put, get: the peer's memory; copied */
    uint64_t key_offset;               /* where in it */
    void *user;                        /* for the completion */
    uint32_t value; /* send, and put with notify: arrives with it, in the peer's completion */
    bool notify;    /* put: the peer gets GPUD_COMPLETION_NOTIFICATION behind the bytes */
    /* put, get, send: the card begins only after what is on the GPU's queue now. native_queue: as
     * in gpud_frame_wait(), of the region's device (CUDA: a CUstream; NULL: the default stream). */
    bool after_queue;
    void *native_queue;
    /* For room among GPUD_OPERATIONS_MAX, and of a send for a receive of the peer's. ns; 0: polls.
     */
    int64_t timeout_ns;
};

/* clang-format off */
/* Each asks for one operation, and returns. On GPUD_OK it will be completed, and until then the
 * range is the card's: unchanged for put and send, not looked at for get and recv. Else nothing is
 * done:
 *
 *   GPUD_TIMEOUT      no room, or no receive of the peer's: GPUD_COMPLETION_ROOM says when to look
 *   GPUD_AGAIN        gpud_transfer_interrupt() is in effect
 *   GPUD_INVALID      a range leaves its region, a key is none or another connection's, a message
 *                     is longer than the peer's next receive
 *   GPUD_NO_ACCESS    the key does not give that right, or was taken back
 *   GPUD_UNSUPPORTED  the device has no queue of the application's; more bytes than the card takes
 *   GPUD_CLOSED, GPUD_PEER   the connection has ended
 *
 * However long, a range is one operation; what a card wants in pieces is cut for it. How many reads
 * a card may have under way is kept by the card itself. */
/* clang-format on */
/* put with notify and send may be of 0 bytes, and without a region then. */
GPUD_API enum gpud_status gpud_connection_put(struct gpud_connection *connection,
                                              const struct gpud_operation_params *params,
                                              struct gpud_error *error);
GPUD_API enum gpud_status gpud_connection_get(struct gpud_connection *connection,
                                              const struct gpud_operation_params *params,
                                              struct gpud_error *error);
GPUD_API enum gpud_status gpud_connection_send(struct gpud_connection *connection,
                                               const struct gpud_operation_params *params,
                                               struct gpud_error *error);

/* Into the range, the next message that no earlier receive got. The region is one with
 * GPUD_REGION_REMOTE_WRITE. */
GPUD_API enum gpud_status gpud_connection_receive(struct gpud_connection *connection,
                                                  const struct gpud_operation_params *params,
                                                  struct gpud_error *error);

GPUD_END_DECLS

#endif
