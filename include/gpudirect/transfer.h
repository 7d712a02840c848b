/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/** @file
 * Transfers between hosts, for applications that move something other than frames: bytes of
 * registered memory, the host's or a GPU's, straight from one process into another's by their
 * network cards (RDMA).
 *
 * @verbatim
 *   one side                                       the other
 *   gpud_transfer_create("rdma://0.0.0.0:7200")    gpud_transfer_create
 *   gpud_transfer_accept  ◀───────────────────────  gpud_transfer_connect("rdma://host:7200")
 *   gpud_region_create                              gpud_region_create
 *   gpud_region_get_info: key ──── 64 bytes ──────▶  gpud_connection_post: PUT, GET
 *   gpud_connection_post: RECEIVE ◀───────────────  gpud_connection_post: SEND
 *   gpud_completion_queue_wait                      gpud_completion_queue_wait
 * @endverbatim
 *
 * Afterwards both sides are alike. Each side chooses the device that its memory is on: the same
 * calls serve the host, CUDA and every other device that gpud_device_open() knows.
 *
 * Rights. A peer can reach only memory that was registered, and only with the rights that were
 * given to it; a region is local by default. A region belongs to one connection, which the card
 * keeps apart from others (a protection domain each): a key is worthless on another connection. An
 * operation is checked against its key before anything is posted, and again by the peer's card. A
 * peer that bypasses this library is refused by the card, which ends only that connection.
 *
 * Order. A connection's operations are done in the order in which they were requested, also those
 * that wait for a GPU's queue. What was put is in the peer's memory before a notification or a
 * message that was requested later arrives. Gets follow the same order, but what they read may be
 * older than puts that the same peer requested later.
 *
 * Flow. No operation needs the peer's processor, except notifications and messages, which it takes
 * when it looks at its completions. A send needs a receive that the peer has posted before. Until
 * there is one the send waits, up to its timeout, and nothing is sent: no connection breaks because
 * a receiver is not ready.
 *
 * Security is that of frames between hosts: the key file decides who may connect, and nothing is
 * encrypted; see core/SECURITY.md.
 *
 * Thread-safety: every function may be called from any thread, but an object is closed or destroyed
 * only once no other call uses it.
 */
/* clang-format on */
#ifndef GPUDIRECT_TRANSFER_H
#define GPUDIRECT_TRANSFER_H

#include <gpudirect/device.h>

GPUD_BEGIN_DECLS

struct gpud_transfer;   /* listens, connects, and has a thread that serves its connections */
struct gpud_connection; /* to one peer */
struct gpud_region;     /* memory that is registered with a connection */
struct gpud_completion_queue;

/* --- completions --------------------------------------------------------------------------- */

/** What was completed. */
enum gpud_completion_kind {
    GPUD_COMPLETION_PUT = 1, /**< the bytes are in the peer's memory; the range may be reused */
    GPUD_COMPLETION_GET,     /**< the bytes are here */
    GPUD_COMPLETION_SEND,    /**< as PUT */
    GPUD_COMPLETION_RECEIVE, /**< a message is here */
    /** The peer put something with a notification, or only notified (length 0). */
    GPUD_COMPLETION_NOTIFICATION,
    /** An operation was refused with GPUD_TIMEOUT: now there may be room. status: GPUD_OK. */
    GPUD_COMPLETION_ROOM,
    /** The connection has ended, and this is the last completion of it. status: GPUD_CLOSED: one of
     * its ends closed it. GPUD_PEER: the peer vanished, or broke the protocol. GPUD_NO_ACCESS: the
     * peer's card refused. gpud_connection_info.reason says more. */
    GPUD_COMPLETION_END,
};

/** An operation that was accepted is completed exactly once. What says that bytes have arrived
 * (GET, RECEIVE, NOTIFICATION) comes after them also for the GPU whose memory they are in: work
 * that is launched afterwards sees them. */
struct gpud_completion {
    size_t size;                    /**< sizeof(the struct), as the caller knows it */
    enum gpud_completion_kind kind; /**< what happened */
    /** GPUD_OK. GPUD_CLOSED, GPUD_PEER: the connection ended before it was known to be done.
     * GPUD_NO_ACCESS: the key has been taken back meanwhile, or the peer's card refused it.
     * GPUD_IO: the GPU's queue failed. */
    enum gpud_status status;
    struct gpud_connection *connection; /**< not to be used once it is closed */
    void *user;                         /**< gpud_operation_params.user; else NULL */
    struct gpud_region *region;         /**< this side's; NULL in ROOM and END, and if it is gone */
    uint64_t offset;                    /**< of the range in region */
    uint64_t length; /**< bytes of the range; of a RECEIVE, as many as were sent */
    /** of a NOTIFICATION and of a RECEIVE: the peer's gpud_operation_params.value */
    uint32_t value;
};

/** Creates a queue of completions, which may serve any number of connections. It grows with the
 * operations that they have under way.
 *
 * @param context  must outlive the queue
 * @param queue  set to the queue, which the caller owns
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_NO_MEMORY  out of memory
 * @retval GPUD_IO  no descriptor could be made
 */
GPUD_API enum gpud_status gpud_completion_queue_create(struct gpud_context *context,
                                                       struct gpud_completion_queue **queue,
                                                       struct gpud_error *error);

/** Discards what the queue holds, and what connections still complete.
 *
 * @param queue  set to NULL
 */
GPUD_API void gpud_completion_queue_destroy(struct gpud_completion_queue **queue);

/** Takes completions, oldest first. It waits for the first one only.
 *
 * @param queue  the queue
 * @param timeout_ns  how long to wait at most, in ns; 0: not at all
 * @param list  an array of max entries, filled from the start; list[0].size is the size of each
 * @param max  entries that list has room for
 * @param count  set to how many were taken
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_TIMEOUT  there was none
 * @retval GPUD_AGAIN  gpud_completion_queue_interrupt() is in effect
 */
GPUD_API enum gpud_status gpud_completion_queue_wait(struct gpud_completion_queue *queue,
                                                     int64_t timeout_ns,
                                                     struct gpud_completion *list, size_t max,
                                                     size_t *count, struct gpud_error *error);

/** A descriptor for epoll, GMainLoop or io_uring, readable while there are completions. It stays
 * the same until the queue is destroyed.
 *
 * @param queue  the queue
 * @param fd  set to the descriptor, which is the queue's: poll it, do not read or close it
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK
 */
GPUD_API enum gpud_status gpud_completion_queue_get_fd(struct gpud_completion_queue *queue, int *fd,
                                                       struct gpud_error *error);

/** Interrupts waiting calls.
 *
 * @param queue  the queue
 * @param interrupted  true: waiting calls return GPUD_AGAIN at once, until false is set
 */
GPUD_API void gpud_completion_queue_interrupt(struct gpud_completion_queue *queue,
                                              bool interrupted);

/* --- connections --------------------------------------------------------------------------- */

/** How a transfer is made. */
struct gpud_transfer_params {
    size_t size; /**< sizeof(the struct), as the caller knows it */
    /** where to listen, from creation on: "rdma://address-of-this-host:port", with or without
     * "/name" (several of one process share a port); NULL: only to connect. */
    const char *address;
    /** A file with a key that both ends have, as in gpud_sender_params; for listening and
     * connecting alike. NULL, "": no key, and then only addresses of this host itself can be
     * listened on, unless allow_unauthenticated. */
    const char *psk_file;
    bool allow_unauthenticated; /**< any host that reaches the address may connect */
};

/** Creates an end of transfers, which listens at once if it has an address.
 *
 * @param context  must outlive the transfer
 * @param params  copied; NULL: only to connect, without a key
 * @param transfer  set to the transfer, which the caller owns
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_IO  the address is taken (EADDRINUSE)
 * @retval GPUD_NO_DEVICE  there is no network card for the address
 * @retval GPUD_UNSUPPORTED  this build or system cannot, and why
 * @retval GPUD_NO_ACCESS  the key file cannot be read, or others can read it
 * @retval GPUD_INVALID  a parameter is wrong
 */
GPUD_API enum gpud_status gpud_transfer_create(struct gpud_context *context,
                                               const struct gpud_transfer_params *params,
                                               struct gpud_transfer **transfer,
                                               struct gpud_error *error);

/** Ends all connections as gpud_connection_close() does. Connections that were accepted or made
 * still have to be closed.
 *
 * @param transfer  set to NULL
 */
GPUD_API void gpud_transfer_destroy(struct gpud_transfer **transfer);

/** Connections of one gpud_transfer, those that are not accepted yet included. */
#define GPUD_CONNECTIONS_MAX 128

/** Takes the next peer that connected and proved that it has the key.
 *
 * @param transfer  a transfer that listens
 * @param queue  gets what the connection completes; must outlive it
 * @param timeout_ns  how long to wait at most, in ns; 0: not at all
 * @param connection  set to the connection: close it
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_TIMEOUT  no peer connected in time
 * @retval GPUD_AGAIN  gpud_transfer_interrupt() is in effect
 */
GPUD_API enum gpud_status gpud_transfer_accept(struct gpud_transfer *transfer,
                                               struct gpud_completion_queue *queue,
                                               int64_t timeout_ns,
                                               struct gpud_connection **connection,
                                               struct gpud_error *error);

/** A descriptor for epoll, GMainLoop or io_uring, readable while a peer waits to be accepted. It
 * stays the same until the transfer is destroyed.
 *
 * @param transfer  the transfer
 * @param fd  set to the descriptor, which is the transfer's: poll it, do not read or close it
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK
 */
GPUD_API enum gpud_status gpud_transfer_get_fd(struct gpud_transfer *transfer, int *fd,
                                               struct gpud_error *error);

/** Connects to a listening transfer. It tries once.
 *
 * @param transfer  any transfer
 * @param address  "rdma://host:port", with or without "/name"
 * @param queue  gets what the connection completes; must outlive it
 * @param timeout_ns  how long to wait at most, in ns; 0: not at all
 * @param connection  set to the connection: close it
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_CLOSED  nothing listens there
 * @retval GPUD_NO_ACCESS  the keys differ, or one end has none
 * @retval GPUD_PEER  the other end is not a transfer (a sender of frames, for example)
 * @retval GPUD_TIMEOUT  the other end did not answer in time
 * @retval GPUD_AGAIN  gpud_transfer_interrupt() is in effect
 */
GPUD_API enum gpud_status gpud_transfer_connect(struct gpud_transfer *transfer, const char *address,
                                                struct gpud_completion_queue *queue,
                                                int64_t timeout_ns,
                                                struct gpud_connection **connection,
                                                struct gpud_error *error);

/** Interrupts accept, connect, gpud_region_destroy() and operations that wait.
 *
 * @param transfer  the transfer
 * @param interrupted  true: these calls return GPUD_AGAIN at once, until false is set
 */
GPUD_API void gpud_transfer_interrupt(struct gpud_transfer *transfer, bool interrupted);

/** The state of a connection. */
struct gpud_connection_info {
    size_t size;                  /**< sizeof(the struct), as the caller knows it */
    char host[64];                /**< the other host's address */
    enum gpud_status status;      /**< GPUD_OK: it is open; else as in GPUD_COMPLETION_END */
    char reason[GPUD_REASON_MAX]; /**< why it ended; "" while it is open */
};

/** The state of a connection.
 *
 * @param connection  the connection
 * @param info  filled as far as info->size goes
 */
GPUD_API void gpud_connection_get_info(struct gpud_connection *connection,
                                       struct gpud_connection_info *info);

/** Ends a connection, after telling the peer, which has a second to answer. Afterwards no card
 * reads or writes memory of this process for it, its keys are worthless, and operations under way
 * are completed in the queue with GPUD_CLOSED, or as they ended. Its regions still have to be
 * destroyed.
 *
 * @param connection  set to NULL
 */
GPUD_API void gpud_connection_close(struct gpud_connection **connection);

/* --- memory -------------------------------------------------------------------------------- */

/** What a peer may do with a region. */
enum gpud_region_access {
    GPUD_REGION_LOCAL = 0, /**< only own operations read it (put, send) and write it (get) */
    /** The peer may write it at any time: for its puts, and for its messages, which it writes
     * straight into where this side posted a receive. */
    GPUD_REGION_REMOTE_WRITE = 1 << 0,
    GPUD_REGION_REMOTE_READ = 1 << 1, /**< the peer may read it at any time: for its gets */
};

/** Most regions of one connection at a time. */
#define GPUD_REGIONS_MAX 1024

/** What is registered: a memory, or bytes at an address. */
struct gpud_region_params {
    size_t size; /**< sizeof(the struct), as the caller knows it */
    /** what is registered: all of a memory, to which the region holds a reference; or NULL: see
     * address */
    struct gpud_memory *memory;
    /** `length` bytes at an address. They stay the caller's, must be writable, and must exist until
     * the region is destroyed or the connection closed */
    void *address;
    uint64_t length; /**< bytes at address */
    /** whose an address is: "host", "cuda:0", "hip:1"…; NULL, "auto": the drivers are asked
     * (gpud_pointer_get_info()). Not with a memory */
    const char *device;
    unsigned access; /**< enum gpud_region_access; 0: GPUD_REGION_LOCAL */
};

/** Registers memory with a connection. Host memory is registered as it is; a GPU's as a dma-buf of
 * its driver or, where there is a module for that (nvidia-peermem), by its address. It takes time:
 * register each buffer once, not for each operation.
 *
 * After registration, synchronous copies to memory of cuMemAlloc() are complete when they return
 * (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, as GPUDirect RDMA's manual demands). CUDA does not promise
 * that for memory of cuMemCreate() and of pools: wait for the stream, or put after it.
 *
 * @param connection  an open connection
 * @param params  copied; a memory in it gains a reference
 * @param region  set to the region: destroy it
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_INVALID  a parameter is wrong
 * @retval GPUD_UNSUPPORTED  neither way works for the GPU's memory, with both reasons: register
 *     pinned host memory and copy; or the memory is managed
 * @retval GPUD_NO_MEMORY  a limit is reached, which error names
 * @retval GPUD_CLOSED  the connection has ended
 * @retval GPUD_PEER  the connection has ended
 */
GPUD_API enum gpud_status gpud_region_create(struct gpud_connection *connection,
                                             const struct gpud_region_params *params,
                                             struct gpud_region **region, struct gpud_error *error);

/** Bytes of a key. */
#define GPUD_REGION_KEY_SIZE 64
/** What a peer needs to reach a region; the application carries it there, by a message for example.
 * It is a secret where the network is not trusted, and works only for this connection's peer. The
 * same bytes are valid on every machine. A checksum that only the two ends can make covers it: a
 * damaged key is GPUD_INVALID where it is used. */
struct gpud_region_key {
    uint8_t bytes[GPUD_REGION_KEY_SIZE]; /**< opaque */
};

/** What a region is. */
struct gpud_region_info {
    size_t size;                /**< sizeof(the struct), as the caller knows it */
    uint64_t length;            /**< bytes */
    unsigned access;            /**< enum gpud_region_access */
    char device[32];            /**< where the memory is */
    char way[16];               /**< "host", "dmabuf", "peermem" */
    struct gpud_region_key key; /**< for the peer; all zeros: the region is local */
};

/** What a region is.
 *
 * @param region  the region
 * @param info  filled as far as info->size goes
 */
GPUD_API void gpud_region_get_info(const struct gpud_region *region, struct gpud_region_info *info);

/** Takes the memory back from the card and makes the peer's key worthless. It first waits until own
 * operations that name the region are done (a receive without a message is done only when the
 * connection ends). The peer is then told, and has until the deadline, a second at least, to finish
 * what it has under way; its later uses of the key fail with GPUD_NO_ACCESS. If it does not answer,
 * the memory is taken back all the same, which ends the connection if the peer's card still writes
 * there.
 *
 * @param region  set to NULL on success; NULL or a pointer to NULL: nothing happens
 * @param timeout_ns  how long to wait at most, in ns; 0: not at all
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_TIMEOUT  own operations are not done, and nothing changed
 * @retval GPUD_AGAIN  gpud_transfer_interrupt() is in effect, and nothing changed
 */
GPUD_API enum gpud_status gpud_region_destroy(struct gpud_region **region, int64_t timeout_ns,
                                              struct gpud_error *error);

/* --- operations ---------------------------------------------------------------------------- */

/** Most puts, gets and sends of one connection that are not yet taken from the completion queue. */
#define GPUD_OPERATIONS_MAX 256
/** The same for receives, and for notifications. */
#define GPUD_RECEIVES_MAX 64

/** An operation. */
struct gpud_operation_params {
    size_t size;                       /**< sizeof(the struct), as the caller knows it */
    struct gpud_region *region;        /**< required: this side's memory, of this connection */
    uint64_t offset;                   /**< of the range in region */
    uint64_t length;                   /**< bytes of the range */
    const struct gpud_region_key *key; /**< put, get: the peer's memory; copied */
    uint64_t key_offset;               /**< where in it */
    void *user;                        /**< returned in gpud_completion.user */
    uint32_t value;   /**< send, and put with notify: arrives with it, in the peer's completion */
    bool notify;      /**< put: the peer gets GPUD_COMPLETION_NOTIFICATION behind the bytes */
    bool after_queue; /**< put, get, send: the card begins only after what is on native_queue now */
    void *native_queue; /**< as in gpud_frame_wait(), of the region's device */
    /** how long to wait for room among GPUD_OPERATIONS_MAX and, of a send, for a receive of the
     * peer's, in ns; 0: not at all */
    int64_t timeout_ns;
};

/** Requests an operation. On GPUD_OK it is accepted and will be completed, and until then the range
 * must not be used (put, send: not changed); on failure nothing is done. A range of any length is
 * one operation: it is cut into the pieces that the card wants.
 *
 * - GPUD_COMPLETION_PUT writes the range into the peer's memory. With `notify` it may be of 0
 *   bytes, and without a region then.
 * - GPUD_COMPLETION_GET reads the peer's memory into the range. The number of reads under way is
 *   kept within the card's limit.
 * - GPUD_COMPLETION_SEND sends the range as a message into the range of the peer's next receive. It
 *   may be of 0 bytes, and without a region then.
 * - GPUD_COMPLETION_RECEIVE posts the range for the next message that no earlier receive takes. The
 *   region is one with GPUD_REGION_REMOTE_WRITE.
 *
 * @param connection  an open connection
 * @param kind  one of these four
 * @param params  copied
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_TIMEOUT  no room, or the peer has posted no receive; GPUD_COMPLETION_ROOM says when
 *     to try again
 * @retval GPUD_AGAIN  gpud_transfer_interrupt() is in effect
 * @retval GPUD_INVALID  a range leaves its region, a key is damaged or another connection's, a
 *     message is longer than the peer's next receive, or the kind names no operation
 * @retval GPUD_NO_ACCESS  the key does not give that right, or was withdrawn
 * @retval GPUD_UNSUPPORTED  the device has no queue of the application's, or the card does not take
 *     so many bytes
 * @retval GPUD_CLOSED  the connection has ended
 * @retval GPUD_PEER  the connection has ended
 */
GPUD_API enum gpud_status gpud_connection_post(struct gpud_connection *connection,
                                               enum gpud_completion_kind kind,
                                               const struct gpud_operation_params *params,
                                               struct gpud_error *error);

GPUD_END_DECLS

#endif
