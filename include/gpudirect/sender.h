/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/** @file
 * The side that produces frames. It listens on an address; any number of receivers connect, each by
 * the best route that both sides can take.
 *
 * @verbatim
 *   gpud_sender_create
 *     → gpud_sender_configure
 *     → { gpud_sender_acquire → write → gpud_sender_submit }…
 *     → gpud_sender_send_eos
 *     → gpud_sender_destroy
 * @endverbatim
 *
 * Thread-safety: submit, configure, send_event, send_eos and destroy come from one thread at a
 * time; acquire may come from any thread, also during submit; lent frames may be released from any
 * thread; get_info, get_fd, list_links, wait, announce, interrupt, take_key_request,
 * set_slow_receiver and set_dmabufs may be called from any thread.
 */
/* clang-format on */
#ifndef GPUDIRECT_SENDER_H
#define GPUDIRECT_SENDER_H

#include <gpudirect/frame.h>
#include <gpudirect/media.h>
#include <gpudirect/route.h>

GPUD_BEGIN_DECLS

struct gpud_sender;

/** What happens to a frame for a receiver whose ring is full. Each receiver is judged alone.
 *
 * Over a network nothing that was sent can be taken back. There, with DROP_OLDEST, a frame waits at
 * the sender until the receiver gives one back, and is then sent without another call. If the next
 * frame is submitted first, it replaces the waiting one, which is lost. Events keep their order
 * among the frames. The waiting frame is also lost when the application needs its slot (see
 * gpud_sender_acquire()), by gpud_sender_interrupt() before gpud_sender_send_eos(), when the
 * receiver or the sender goes away, and when the end of the stream or a new format has waited for
 * it for 5 s. */
enum gpud_slow_receiver {
    GPUD_SLOW_DEFAULT = 0, /**< sender: BLOCK; receiver: whatever the sender says */
    GPUD_SLOW_BLOCK,       /**< wait for it */
    GPUD_SLOW_DROP_NEWEST, /**< it does not get this frame */
    /** it loses the oldest that it has not taken yet, and gets this one; over a network it loses
     * one that waits, and this one waits */
    GPUD_SLOW_DROP_OLDEST,
};

/** Most slots of a ring. */
#define GPUD_SLOTS_MAX 64
/** Most receivers of one sender. */
#define GPUD_RECEIVERS_MAX 32

/** The other end of a link. */
struct gpud_peer_info {
    uint64_t id;   /**< counts connections from 1 */
    int64_t pid;   /**< of the other process; 0: not known, as of another container or host */
    char name[64]; /**< what it calls itself */
    char path[32]; /**< the route that carries it */
    char fallback_reason[GPUD_REASON_MAX]; /**< why no better route does, or "" */
    char host[64];                         /**< the other host's address; "": it is on this one */
    /** Both ends have the same CLOCK_MONOTONIC: they are on one host, and neither is in a container
     * with a time namespace of its own. If not, their times cannot be compared. */
    bool same_clock;
    enum gpud_degraded degraded; /**< whether the route is worse than the devices allow, and why */
};

/** How a sender is made. */
struct gpud_sender_params {
    size_t size; /**< sizeof(the struct), as the caller knows it */
    /** required: a bare name ("cam1"), "unix:/absolute/path", or, to be reached from other hosts,
     * "tcp://address-of-this-host:port/name" over any network, or "rdma://…" over network cards
     * with RDMA; "…/name/stream" is one of several streams. "tcp://:port/name" listens on every
     * address of this host. Default port: 7175 for tcp://, 7174 for rdma://. All senders of a user
     * share a port if they give the same one at the same address. */
    const char *address;
    /** where the ring lies; NULL: "host"; see device.h for kinds and "auto", and
     * gpud_sender_info.device_reason for the choice */
    const char *device;
    const char *name; /**< shown to the peers; NULL: the process's name */
    /** frames in flight per receiver, at most GPUD_SLOTS_MAX. 0: `picture_slots` pictures or frames
     * of tensors; of sound and data 60 blocks, or as many as fit into 64 MiB, but at least 8 */
    uint32_t slots;
    enum gpud_slow_receiver slow_receiver; /**< default: BLOCK */
    bool require_direct; /**< refuse a receiver that only a copy through host memory reaches */
    /** take only this route: "map", "peer", "directgma", "migrate", "staged-push", "staged",
     * "rdma-dmabuf", "rdma-peermem", "rdma-host", "tcp-host"; gpud_route_explain() lists those
     * between two devices. NULL: the best */
    const char *route;
    /** Called from a thread of the sender; must not call back into it. May be NULL. */
    void (*on_connect)(void *user, const struct gpud_peer_info *peer);
    void (*on_disconnect)(void *user, const struct gpud_peer_info *peer); /**< as on_connect */
    void *user;                                                           /**< passed to both */
    /** who may receive, besides root: "user" (this user alone), "group:NAME" (also processes in
     * that group), "all". With the latter two the address must be "unix:/path" in a folder that
     * the others can enter. NULL, "": "user" */
    const char *access;
    /** For an address over a network: a file with a key that both ends have, 16 to 1024 bytes,
     * which no other user can read (chmod 600). NULL, "": no key; then, without certificates
     * (tls_certificate), only addresses of this host itself can be listened on
     * (tcp://127.0.0.1:7175), unless allow_unauthenticated. Over tcp:// the key also encrypts
     * (TLS 1.3), over rdma:// it only proves who the ends are. */
    const char *psk_file;
    bool allow_unauthenticated; /**< any host that reaches the address may receive */
    /** While another sender has the address, wait instead of failing: receivers do not find this
     * sender, and its frames are discarded. It takes the address over as soon as the other sender's
     * process ends or gives the address up; a stopped process keeps it. Of several that wait, one
     * gets it. GPUD_NO_ACCESS: the two run as different users, whatever `access` says.
     * GPUD_UNSUPPORTED: the address is one over a network. */
    bool standby;
    /** bytes of gpud_frame_info.large_meta that a frame may have, at most GPUD_LARGE_META_MAX; 0:
     * 65536. Each receiver has room for it beside each frame in flight: memory that is used only as
     * far as metas are, except between hosts, where it is pinned */
    uint32_t large_meta_max;
    /** A sender of this process on the same address, which passes to this one without becoming free
     * for others, not even for one that stands by. The old sender is destroyed
     * (gpud_sender_destroy()) and *replaces set to NULL, unless this call fails before that. Its
     * on_disconnect is called for each of its receivers, which connect again, to this one. This one
     * keeps the old sender's access rule, key, certificates and standby: access, psk_file,
     * tls_certificate, tls_key, tls_ca and standby have no effect. NULL, or *replaces NULL: no
     * sender is replaced. */
    struct gpud_sender **replaces;
    /** DRM format modifiers of images that the application can write, on "vulkan:N": pictures whose
     * media has the modifier 0 are lent as images of the modifier among these that the driver
     * prefers, GPUD_MODIFIER_IMPLICIT if it has none of the others. A receiver that takes it
     * (gpud_receiver_params.modifiers) maps them. Every other one gets rows, by a route that
     * copies, which becomes a copy from the image by the GPU: on the same device "peer", by that
     * copy alone. Where the driver has none of them for a format, and on other devices, frames are
     * lent as rows: gpud_frame_info.layout of a lent frame has the modifier, and how its planes
     * lie.
     *
     * The application puts a VkImage of its own on the frame's memory
     * (gpud_memory_export_vulkan()). When it submits the frame its own work on it must be done, the
     * image in VK_IMAGE_LAYOUT_GENERAL and released to VK_QUEUE_FAMILY_EXTERNAL. A frame of rows
     * can be submitted, too: the GPU makes an image of it for receivers that map. gpud_frame_map()
     * of an image gives its bytes as they lie. NULL: frames are rows */
    const uint64_t *modifiers;
    uint32_t modifier_count; /**< entries of modifiers, at most GPUD_MODIFIERS_MAX */
    uint32_t picture_slots;  /**< where `slots` is 0; 0: 4; at most GPUD_SLOTS_MAX */
    /** For an address "tcp://…", instead of a key: a PEM file with this end's certificate, and any
     * between it and the authority's behind it. Each end shows its own and checks the other's, so
     * tls_key and tls_ca must be given, too. The files are read at each handshake: a renewed
     * certificate needs no restart. GPUD_INVALID: with a psk_file, or on an address of one host.
     * GPUD_UNSUPPORTED: on "rdma://…", which has no TLS. NULL, "": no certificates */
    const char *tls_certificate;
    /** a PEM file with that certificate's private key (chmod 600); NULL, "": none */
    const char *tls_key;
    /** a PEM file with the certificates of the authorities whose certificates the peers must have;
     * the receiver also checks that the sender's is for the address it connects to. NULL, "": none
     */
    const char *tls_ca;
    /** Do not announce the channel to other hosts. An address over a network is announced by DNS-SD
     * otherwise, with the names of its streams and what they are, if Avahi's daemon runs; one of
     * this host alone (rdma://127.0.0.1) never is. With `replaces` it has no effect. */
    bool no_announce;
};

/** The state and counters of a sender. */
struct gpud_sender_info {
    size_t size;                           /**< sizeof(the struct), as the caller knows it */
    uint32_t receivers;                    /**< connected and streaming */
    char path[32];                         /**< of the last one that connected; "none" before */
    char fallback_reason[GPUD_REASON_MAX]; /**< why that receiver has no better route, or "" */
    uint64_t frames;                       /**< submitted */
    uint64_t delivered;                    /**< frames taken, summed over receivers */
    /** frames lost, summed over the receivers that did not ask for a drop policy of their own */
    uint64_t dropped;
    uint64_t connects;    /**< receivers that have connected */
    uint64_t disconnects; /**< receivers that have left */
    uint64_t refused;     /**< connections that were refused */
    /** copies of whole frames by the CPU. A copy between a GPU and host memory that its driver
     * cannot pin (not at the start of a page, or read-only) counts as one by the CPU and one by the
     * GPU */
    uint64_t copies_cpu;
    uint64_t copies_gpu;   /**< copies of whole frames by a GPU */
    uint64_t waits_cpu;    /**< times a call slept until a receiver gave a credit back */
    uint64_t waits_device; /**< times the CPU waited for a device to finish its work */
    uint64_t kicks;        /**< system calls made to wake a receiver */
    char device[32];       /**< where the ring lies */
    char device_reason[GPUD_REASON_MAX]; /**< why there; "": the application named it */
    bool stands_by; /**< another sender has the address; see gpud_sender_params.standby */
};

/** Creates a sender that listens at once, or stands by (gpud_sender_params.standby). An address
 * that another live sender has is waited for up to 2 s, since a process that was just killed holds
 * it a moment longer; a sender of the same process is not waited for, but can be replaced.
 *
 * @param context  must outlive the sender
 * @param params  copied
 * @param sender  set to the sender, which the caller owns
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_NO_ACCESS  the address cannot be used by this user
 * @retval GPUD_IO  the address is taken (EADDRINUSE); the reason names the process
 * @retval GPUD_INVALID  a parameter is wrong, or the sender to be replaced has another address
 * @retval GPUD_NO_DEVICE  the device is not there
 */
GPUD_API enum gpud_status gpud_sender_create(struct gpud_context *context,
                                             const struct gpud_sender_params *params,
                                             struct gpud_sender **sender, struct gpud_error *error);

/** Tells the receivers that the sender leaves, and waits up to 5 s for copies under way. Lent
 * frames may still be released.
 *
 * @param sender  set to NULL
 */
GPUD_API void gpud_sender_destroy(struct gpud_sender **sender);

/** Starts a new epoch: from now on frames are of this media, whose layout (gpud_media_get_layout())
 * is that of the ring. Frames of the previous epoch arrive before it; lent frames of that epoch can
 * only be released.
 *
 * @param sender  the sender
 * @param media  copied; every receiver gets it
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_INVALID  the media is invalid or incomplete
 * @retval GPUD_NO_MEMORY  there is no room for the ring
 */
GPUD_API enum gpud_status gpud_sender_configure(struct gpud_sender *sender,
                                                const struct gpud_media *media,
                                                struct gpud_error *error);

/** Waits until a number of receivers stream. May be called from any thread.
 *
 * @param sender  the sender
 * @param count  of receivers
 * @param timeout_ns  how long to wait at most, in ns; 0: not at all
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_TIMEOUT  there were fewer
 * @retval GPUD_AGAIN  gpud_sender_interrupt() is in effect
 */
GPUD_API enum gpud_status gpud_sender_wait(struct gpud_sender *sender, uint32_t count,
                                           int64_t timeout_ns, struct gpud_error *error);

/** Lends a slot to write the next frame into. Submitting it costs no copy where the route shares
 * memory. Lent frames count against the ring: hold few. If no slot is free, a frame that waits for
 * a slow receiver on a network gives up its own.
 *
 * @param sender  a configured sender
 * @param timeout_ns  how long to wait at most, in ns; 0: not at all
 * @param frame  set to the lent frame: submit or release it
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_TIMEOUT  no slot became free
 * @retval GPUD_AGAIN  gpud_sender_interrupt() is in effect
 * @retval GPUD_INVALID  there is no format yet, or it changed meanwhile
 */
GPUD_API enum gpud_status gpud_sender_acquire(struct gpud_sender *sender, int64_t timeout_ns,
                                              struct gpud_frame **frame, struct gpud_error *error);

/** Sets whether lent frames have a dma-buf (gpud_memory_export_dmabuf()), from the next
 * gpud_sender_configure() on: for a card's driver that writes pictures straight into the ring.
 * Where the device cannot make them, frames are lent all the same, and the export gives the reason.
 *
 * @param sender  the sender
 * @param wanted  false after creation
 */
GPUD_API void gpud_sender_set_dmabufs(struct gpud_sender *sender, bool wanted);

/** Hints that a frame will be submitted within some tens of microseconds, so that sleeping
 * receivers wake up meanwhile. It pays for streams with pauses between frames, on devices whose
 * drivers need that long, with enough processors. Omitting it, or submitting no frame afterwards,
 * does no harm. Any thread.
 *
 * @param sender  the sender
 */
GPUD_API void gpud_sender_announce(struct gpud_sender *sender);

/** Hands a frame to every receiver, and consumes it. The frame may be a lent one, one of the
 * application's memory, or one from a receiver or capture: it is ordered after whatever still
 * writes it, and is given back once it was copied. It lies on the sender's device or in host
 * memory; a sender on the host also takes frames of any device, which then copies them itself.
 * Without a receiver the frame is discarded.
 *
 * @param sender  a configured sender
 * @param frame  set to NULL on success and on every failure but GPUD_TIMEOUT and GPUD_AGAIN, which
 *     leave it the caller's
 * @param timeout_ns  how long to wait at most, in ns; 0: not at all
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_TIMEOUT  a receiver that the sender blocks for gave no slot back
 * @retval GPUD_AGAIN  gpud_sender_interrupt() is in effect
 * @retval GPUD_INVALID  there is no frame (*frame is NULL), it is mapped, its layout is not the
 *     sender's, or the timeout is negative
 */
GPUD_API enum gpud_status gpud_sender_submit(struct gpud_sender *sender, struct gpud_frame **frame,
                                             int64_t timeout_ns, struct gpud_error *error);

/** As gpud_sender_submit(), but the frame stays the caller's whatever the result. It may be
 * submitted again, or released, but not written: it is GPUD_FRAME_READ_ONLY from then on. For a
 * received or captured frame the call waits until it was copied.
 *
 * @param sender  a configured sender
 * @param frame  stays the caller's
 * @param timeout_ns  how long to wait at most, in ns; 0: not at all
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_TIMEOUT  as for gpud_sender_submit()
 * @retval GPUD_AGAIN  as for gpud_sender_submit()
 * @retval GPUD_INVALID  as for gpud_sender_submit()
 */
GPUD_API enum gpud_status gpud_sender_submit_keep(struct gpud_sender *sender,
                                                  struct gpud_frame *frame, int64_t timeout_ns,
                                                  struct gpud_error *error);

/** Hands a picture to the receivers while it is being written: the first call for a lent frame
 * submits it, and each further one says that more rows, from the top, are valid; with all of them
 * the frame is whole. Of each plane as large a part is valid as of the picture, rounded down.
 *
 * Receivers that asked for it (gpud_receiver_params.by_lines) get the frame at the first call.
 * Where frames are copied, rows are copied as soon as there are enough: an eighth of the picture.
 * All others get it when it is whole, as from gpud_sender_submit_keep(). One frame at a time is
 * written so: gpud_sender_submit() fails until it is whole. The frame stays the caller's, to write
 * and, in host memory, to stay mapped; after the last row it is GPUD_FRAME_READ_ONLY. Released
 * before that, or at gpud_sender_configure(), it is lost: dropped for those that did not get it,
 * and GPUD_FRAME_CORRUPTED for those that did.
 *
 * The rows must be in memory when this is called. Where a queue of the application's writes them,
 * gpud_frame_post() it before, and the call waits until the device is done.
 *
 * @param sender  a configured sender
 * @param frame  lent by this sender; stays the caller's
 * @param lines  valid rows: not fewer than before, at most layout.height; 0 is possible at first
 * @param timeout_ns  how long the first call waits at most, in ns; 0: not at all. Others do not
 * wait
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_TIMEOUT  as for gpud_sender_submit(); the frame was not submitted
 * @retval GPUD_AGAIN  as for gpud_sender_submit(); the frame was not submitted
 * @retval GPUD_INVALID  as for gpud_sender_submit(); or the frame is not a picture, has not as many
 *     rows, had more before, or another one is being written
 * @retval GPUD_IO  a copy failed: the frame is GPUD_FRAME_CORRUPTED for its receivers, and may
 * still be submitted for others
 */
GPUD_API enum gpud_status gpud_sender_submit_lines(struct gpud_sender *sender,
                                                   struct gpud_frame *frame, uint32_t lines,
                                                   int64_t timeout_ns, struct gpud_error *error);

/** A bit of an event's kind: see gpud_sender_send_event(). */
#define GPUD_EVENT_STICKY (UINT32_C(1) << 31)
/** Most bytes of an event's data. */
#define GPUD_EVENT_SIZE_MAX 2048

/** Sends a message of the application's, in order with the frames. The last one of each kind that
 * has the bit GPUD_EVENT_STICKY is also sent to receivers that connect later, before their first
 * frame: 24 kinds at most, in the order in which they were first sent.
 *
 * @param sender  the sender
 * @param kind  the application's own number
 * @param data  copied; may be NULL if size is 0
 * @param size  bytes, at most GPUD_EVENT_SIZE_MAX
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_INVALID  the message is too long, or there are too many sticky kinds
 */
GPUD_API enum gpud_status gpud_sender_send_event(struct gpud_sender *sender, uint32_t kind,
                                                 const void *data, size_t size,
                                                 struct gpud_error *error);

/** Ends the stream, in order with the frames. gpud_sender_configure() or gpud_sender_submit()
 * begins a new one.
 *
 * @param sender  the sender
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure, as from gpud_sender_submit()
 */
GPUD_API enum gpud_status gpud_sender_send_eos(struct gpud_sender *sender,
                                               struct gpud_error *error);

/** A request to the sender's encoder: for a frame that is not GPUD_FRAME_DELTA (a key frame). */
struct gpud_key_request {
    size_t size;      /**< sizeof(the struct), as the caller knows it */
    bool at_once;     /**< the next frame that can be a key frame */
    bool all_headers; /**< with everything that a decoder needs to begin */
    /** the first frame at or after this time of the sender's (gpud_frame_info.pts_ns);
     * GPUD_TIME_NONE: no such frame is asked for */
    uint64_t time_ns;
};

/** Whether frames that are not GPUD_FRAME_DELTA have been asked for since the last call: by
 * receivers (gpud_receiver_request_key()), or by the library, once for each receiver that waits for
 * one because it is new or has lost a frame. Requests are merged: of several times the first one
 * counts. Call it after each frame of a stream that has such frames, and hand the request to the
 * encoder. Any thread.
 *
 * A receiver's first frame is not GPUD_FRAME_DELTA: those before it are not sent to it, and not
 * counted. If a frame is lost for it, by a policy or a failure, those with the flag that follow are
 * not sent to it, and are counted as lost, up to the next one without.
 *
 * @param sender  the sender
 * @param request  filled as far as request->size goes
 * @return true if there is a request
 */
GPUD_API bool gpud_sender_take_key_request(struct gpud_sender *sender,
                                           struct gpud_key_request *request);

/** A descriptor for epoll, GMainLoop or io_uring, for an application that acquires and submits with
 * a timeout of 0: after such a call returned GPUD_TIMEOUT it becomes readable when trying again may
 * succeed, and sometimes without need. It costs nothing before the first call, and stays
 * the same until the sender is destroyed. Any thread.
 *
 * @param sender  the sender
 * @param fd  set to the descriptor, which is the sender's: poll it, do not read or close it
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_IO  no descriptor could be made
 */
GPUD_API enum gpud_status gpud_sender_get_fd(struct gpud_sender *sender, int *fd,
                                             struct gpud_error *error);

/** The state and counters of a sender. Any thread.
 *
 * @param sender  the sender
 * @param info  filled as far as info->size goes
 */
GPUD_API void gpud_sender_get_info(struct gpud_sender *sender, struct gpud_sender_info *info);

/** What a receiver is doing. */
enum gpud_link_phase {
    GPUD_PHASE_CONNECTING, /**< it negotiates with the sender, or waits for its format */
    GPUD_PHASE_STREAMING,
    GPUD_PHASE_LEAVING, /**< it said goodbye, and still holds frames */
};

/** Buckets of gpud_link_stats.latency_bucket. */
#define GPUD_LATENCY_BUCKETS 16
/** The longest latency of each bucket but the last, which has no limit; in ns. */
#define GPUD_LATENCY_BOUNDS_NS                                                            \
    {                                                                                     \
        10000, 20000, 50000, 100000, 200000, 500000, 1000000, 2000000, 5000000, 10000000, \
            20000000, 50000000, 100000000, 200000000, 500000000                           \
    }

/** What a receiver counts, and reports to its sender. While it acquires frames its sender sees this
 * within a millisecond on one host, and within a second over a network. */
struct gpud_link_stats {
    /** frames acquired since it connected, by the time from submit to acquire; all 0: not known, as
     * between two clocks: gpud_receiver_set_latency() */
    uint64_t latency_bucket[GPUD_LATENCY_BUCKETS];
    uint64_t latency_sum_ns; /**< of all of these */
    uint64_t latency_max_ns; /**< the longest of these */
    uint64_t frames;         /**< acquired since it was created, as in gpud_receiver_info */
    uint64_t corrupted;      /**< likewise, as all that follow */
    uint64_t copies_cpu;     /**< copies of whole frames by the CPU */
    uint64_t copies_gpu;     /**< copies of whole frames by a GPU */
    uint64_t waits_cpu;      /**< times acquire slept */
    uint64_t waits_device;   /**< times the CPU waited for a device */
};

/** What a sender knows of one receiver: the path of its frames and why no better one is used, what
 * it lost, and how late frames reach it. */
struct gpud_link_info {
    size_t size;     /**< sizeof(the struct), as the caller knows it */
    uint64_t id;     /**< counts connections from 1 */
    int64_t pid;     /**< of its process; 0: in another container, or on another host */
    char name[64];   /**< what it calls itself */
    char device[32]; /**< where its frames arrive */
    char path[32];   /**< the route that carries it, or "none" */
    char fallback_reason[GPUD_REASON_MAX]; /**< why no better route does, or "" */
    enum gpud_link_phase phase;            /**< what it is doing */
    enum gpud_slow_receiver slow_receiver; /**< the policy in effect */
    uint32_t held;                         /**< frames that it has not given back */
    uint64_t delivered; /**< frames that it took; over a network, that were sent to it */
    uint64_t dropped;   /**< frames that it lost, whose causes follow */
    /** ns from submit to acquire, of the last frame that it took, as it reports; 0: not known, as
     * between two clocks: gpud_receiver_set_latency() */
    uint64_t latency_ns;
    char host[64];                /**< its address; "": it is on this host */
    uint64_t dropped_newest;      /**< of dropped: no slot was free for it (DROP_NEWEST) */
    uint64_t dropped_oldest;      /**< of dropped: a newer frame took its place (DROP_OLDEST) */
    uint64_t dropped_failed;      /**< of dropped: the copy to the receiver failed */
    struct gpud_link_stats stats; /**< what the receiver itself counts */
    /** of dropped: frames after a change of format that could not wait until the receiver was ready
     * for it */
    uint64_t dropped_format;
    /** frames on their way to it, which it can still take. delivered, dropped and waiting add up to
     * the frames that were submitted since its first one */
    uint64_t waiting;
    /** how the connection is encrypted, in words: "TLS 1.3 AES-128-GCM"; "no"; "": it is on this
     * host, and crosses no network */
    char encrypted[64];
    enum gpud_degraded degraded; /**< whether the route is worse than the devices allow, and why */
};

/** Lists the receivers that are connected to a sender. What was delivered to those that are gone,
 * and dropped for them, is in gpud_sender_info alone. Another process finds them in
 * gpud_channel_info. Any thread.
 *
 * @param sender  the sender
 * @param links  an array of max entries, filled from the start; links[0].size is the size of each
 * @param max  entries that links has room for; there are GPUD_RECEIVERS_MAX receivers at most
 * @return how many receivers there are, which may be more than max
 */
GPUD_API size_t gpud_sender_list_links(struct gpud_sender *sender, struct gpud_link_info *links,
                                       size_t max);

/** Changes the policy given at creation, at once, for every receiver that did not ask for one of
 * its own. A submit that waits for such a receiver continues by the new policy. Any thread.
 *
 * @param sender  the sender
 * @param slow_receiver  GPUD_SLOW_DEFAULT: GPUD_SLOW_BLOCK
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_INVALID  there is no such policy
 */
GPUD_API enum gpud_status gpud_sender_set_slow_receiver(struct gpud_sender *sender,
                                                        enum gpud_slow_receiver slow_receiver,
                                                        struct gpud_error *error);

/** Interrupts waiting calls, and drops frames that wait for slow receivers. Any thread.
 *
 * @param sender  the sender
 * @param interrupted  true: waiting calls return GPUD_AGAIN at once, until false is set
 */
GPUD_API void gpud_sender_interrupt(struct gpud_sender *sender, bool interrupted);

GPUD_END_DECLS

#endif
