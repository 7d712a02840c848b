/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/** @file
 * The side that consumes frames. It connects to a sender's address, in either start order, and
 * connects again after the sender has gone.
 *
 * @verbatim
 *   gpud_receiver_create
 *     → { gpud_receiver_acquire → use → gpud_frame_release }…
 *     → gpud_receiver_destroy
 * @endverbatim
 *
 * Thread-safety: acquire, count_frames and set_latency come from one thread at a time; frames may
 * be released from any thread; get_fd, get_info, set_slots, request_key, switch and interrupt may
 * be called from any thread.
 */
/* clang-format on */
#ifndef GPUDIRECT_RECEIVER_H
#define GPUDIRECT_RECEIVER_H

#include <gpudirect/sender.h>

GPUD_BEGIN_DECLS

struct gpud_receiver;

/** What gpud_receiver_params.on_event reports. */
enum gpud_event {
    GPUD_EVENT_CONNECTED = 1, /**< data: struct gpud_peer_info */
    /** a new epoch; data: struct gpud_format_event. Reported again, with rows, if the receiver
     * cannot map an epoch's images after all */
    GPUD_EVENT_FORMAT,
    GPUD_EVENT_USER, /**< data: struct gpud_user_event */
    /** in a group in mode ANY, when frames are another member's from here on: a USER event with the
     * bit GPUD_EVENT_STICKY that this member's sender has sent before; data: struct gpud_user_event
     */
    GPUD_EVENT_REPEATED,
    /** a switch has ended; data: struct gpud_switch_event. After a successful one follow
     * GPUD_EVENT_FORMAT, GPUD_EVENT_CONNECTED, and the events that the new sender sent before its
     * first frame */
    GPUD_EVENT_SWITCHED,
};

/** The data of GPUD_EVENT_FORMAT. */
struct gpud_format_event {
    uint32_t epoch;          /**< of the frames that follow */
    struct gpud_media media; /**< what they are */
    char device[32];         /**< where the sender has its frames, as it calls it: "cuda:0" */
    /** that device's address on the bus of its host, "0000:63:00.0"; "": not known */
    char pci[16];
};

/** The data of GPUD_EVENT_USER. */
struct gpud_user_event {
    uint32_t kind;    /**< as given to gpud_sender_send_event() */
    const void *data; /**< valid during the call */
    size_t size;      /**< bytes of data */
};

/** The data of GPUD_EVENT_SWITCHED. */
struct gpud_switch_event {
    const char *address; /**< given to gpud_receiver_switch(); valid during the call */
    /** GPUD_OK: the next frame is the new sender's. Else the receiver stays with its sender:
     * GPUD_TIMEOUT, no frame came in time; GPUD_UNSUPPORTED, there is no route, or the stream is
     * of another kind; GPUD_NO_ACCESS; and the other failures of gpud_receiver_acquire() */
    enum gpud_status status;
    const char *reason; /**< why not, a sentence; "" with GPUD_OK; valid during the call */
};

/** Where gpud_receiver_switch() goes. */
struct gpud_switch_params {
    size_t size;         /**< sizeof(the struct), as the caller knows it */
    const char *address; /**< required: as the sender's, on this host or another one */
    /** how long it may take, in ns, from the next acquire on, before the receiver gives up and
     * stays with its sender; 0: until another switch */
    int64_t timeout_ns;
    /** Called with gpud_receiver_params.user inside gpud_receiver_acquire(), with the new sender's
     * media, once its first frame is here. GPUD_OK: its frames are next. GPUD_AGAIN: not yet; the
     * old sender's frames continue, the new sender's newest frame is kept, and this is called again
     * later, so that several receivers can switch together. Any other status, with
     * a reason: the receiver stays with its sender. It must not call this receiver. NULL: GPUD_OK
     */
    enum gpud_status (*admit)(void *user, const struct gpud_media *media, struct gpud_error *error);
    /** For an address over a network: as in gpud_receiver_params. If one of these four is not NULL,
     * all four replace the receiver's own, for later switches, too: "" means none. All NULL: the
     * receiver's own, which are not used for an address on this host */
    const char *psk_file;
    const char *tls_certificate; /**< likewise */
    const char *tls_key;         /**< likewise */
    const char *tls_ca;          /**< likewise */
};

/** How a receiver is made. */
struct gpud_receiver_params {
    size_t size;         /**< sizeof(the struct), as the caller knows it */
    const char *address; /**< required: as the sender's */
    const char *device;  /**< where the frames shall arrive, as the sender's; NULL: "host" */
    const char *name;    /**< shown to the sender; NULL: the process's name */
    /** frames that may be in flight or held at once; at most GPUD_SLOTS_MAX. 0: as many as the
     * sender gives; in memory of this receiver's own, its default; `picture_slots` with `alloc`.
     * Where the sender has set fewer, those count, until gpud_receiver_set_slots() asks for more */
    uint32_t slots;
    /** What happens when this receiver is slow. DEFAULT and BLOCK: the sender's policy, because
     * only the sender can choose to block. */
    enum gpud_slow_receiver slow_receiver;
    bool require_direct; /**< refuse routes that copy through host memory */
    const char *route;   /**< take only this route; NULL: the best */
    /** If frames come at a steady rate, the call that waits for one wakes up before it is due and
     * polls, for at most this long and 1/32 of the time between two frames; so the frame is not
     * delayed by the wake-up. In ns; 0: 250 µs; negative: always sleep. */
    int64_t busy_poll_ns;
    /** Called inside gpud_receiver_acquire(), in order with the frames. data is valid during the
     * call. May be NULL. */
    void (*on_event)(void *user, enum gpud_event event, const void *data);
    void *user; /**< passed to on_event and alloc */
    /** From whom frames are taken, besides root: "user" (senders of this user alone), "group:NAME"
     * (and of processes in that group), "all". NULL, "": "user". */
    const char *access;
    /** Makes memory of the application's own for frames; NULL: frames lie where the route puts
     * them. Called with `user` inside gpud_receiver_acquire(), before GPUD_EVENT_FORMAT, once for
     * each slot from 0 to `slots` - 1, at most: for every new format, and again where another route
     * is tried. It makes a memory of this receiver's device, of at least layout->size bytes
     * (gpud_memory_alloc(), gpud_memory_wrap()), and a frame lies at its beginning:
     * its gpud_frame_info has it, and the slot. It must not call this receiver.
     *
     * *memory is the receiver's from GPUD_OK on, and dropped when the format is over and the slot's
     * last frame is back. A failure, or a memory that will not do (GPUD_INVALID), ends the call of
     * gpud_receiver_acquire() and the connection; the next call connects, and asks, again.
     *
     * The price is a copy of every frame at the end of its route, by the receiver's device or the
     * CPU, where `staged` or `staged-push` does not upload it anyway; for that the frame is the
     * application's alone, to write as well (no GPUD_FRAME_READ_ONLY). The test picture with which
     * a link begins is written into the first memory. */
    enum gpud_status (*alloc)(void *user, const struct gpud_layout *layout, uint32_t slot,
                              struct gpud_memory **memory, struct gpud_error *error);
    /** The sender's key, for an address over a network, as gpud_sender_params.psk_file. */
    const char *psk_file;
    /** Pictures that their sender hands over while it writes them (gpud_sender_submit_lines()) are
     * acquired then, and gpud_frame_wait_lines() waits for their first rows. Whatever else reads
     * such a frame waits for all of it: gpud_frame_map(), and gpud_frame_wait(), which may block
     * for up to 1 s and give GPUD_TIMEOUT then. Where frames are copied the rows come in up to
     * eight steps; a last copy into memory of this side's device or of the application is made by
     * those calls as they wait. false: frames come when they are whole. Some routes
     * can only do that: gpud_receiver_info.whole_reason. */
    bool by_lines;
    /** DRM format modifiers of images that the application can read, on "vulkan:N": of a sender on
     * the same GPU and driver, frames may be images (gpud_sender_params.modifiers), which cost no
     * copy. gpud_frame_info.layout has the modifier, and the application puts a VkImage of its own
     * on the frame's memory (gpud_memory_export_vulkan()), acquired from VK_QUEUE_FAMILY_EXTERNAL
     * in VK_IMAGE_LAYOUT_GENERAL. It releases the frame when its own work on it is done. Frames may
     * come as rows at any time: with another sender, or after a change of format. NULL: frames are
     * rows */
    const uint64_t *modifiers;
    uint32_t modifier_count; /**< entries of modifiers, at most GPUD_MODIFIERS_MAX */
    /** The largest frame that is taken, in bytes; a sender whose frames are larger is refused. 0:
     * sound, data and tensors of any size, and pictures of about twice the bytes of their rows at
     * most, so that no sender can make this process read, and the system provide, much more memory
     * than a picture needs. Set it for pictures whose rows lie far apart. */
    uint64_t max_frame_size;
    uint32_t picture_slots; /**< in memory of its own, where `slots` is 0; 0: 4 */
    /** For an address "tcp://…", instead of a key: this end's certificate, a PEM file; tls_key and
     * tls_ca must be given, too: see gpud_sender_params.tls_certificate. NULL, "": no certificates
     */
    const char *tls_certificate;
    /** a PEM file with that certificate's private key (chmod 600); NULL, "": none */
    const char *tls_key;
    /** a PEM file with the certificates of the authorities whose certificates the sender must have,
     * for the address that this receiver connects to. NULL, "": none */
    const char *tls_ca;
};

/** The state and counters of a receiver. */
struct gpud_receiver_info {
    size_t size;    /**< sizeof(the struct), as the caller knows it */
    bool connected; /**< it has a sender */
    char path[32];  /**< "none" while not connected */
    /** why no better route is used, or ""; also that gpud_receiver_params.alloc costs a copy */
    char fallback_reason[GPUD_REASON_MAX];
    uint64_t frames;      /**< received */
    uint64_t dropped;     /**< by the sender, for this receiver */
    uint64_t corrupted;   /**< received with GPUD_FRAME_CORRUPTED */
    uint64_t connects;    /**< connections made */
    uint64_t disconnects; /**< connections ended */
    /** copies of whole frames by the CPU on this side; one that the CPU carries for the GPU counts
     * as both */
    uint64_t copies_cpu;
    uint64_t copies_gpu;   /**< copies of whole frames by a GPU on this side */
    uint64_t waits_cpu;    /**< times acquire slept */
    uint64_t waits_device; /**< times the CPU waited for a device to finish its work */
    uint64_t kicks;        /**< system calls made to wake the sender */
    /** median of the time from submit to acquire over the last 4096 frames, in ns; 0: not known, as
     * of a sender that has another clock */
    uint64_t latency_p50_ns;
    uint64_t latency_p99_ns; /**< 99th percentile, likewise */
    uint64_t latency_max_ns; /**< longest, likewise */
    /** frames that may be in flight or held at once: what both sides asked for, or more after
     * gpud_receiver_set_slots(); 0: not known */
    uint32_t slots;
    char device[32];                     /**< where the frames arrive */
    char device_reason[GPUD_REASON_MAX]; /**< why there; "": it was named */
    char whole_reason[GPUD_REASON_MAX];  /**< why frames come as a whole; "": also by lines */
    uint32_t slots_max; /**< the most that `slots` can become at this sender; 0: not known */
    /** how the connection is encrypted, as gpud_link_info.encrypted has it; "" while not connected
     */
    char encrypted[64];
    /** as given, of the sender that frames come from or are expected from; cut off at 119
     * characters */
    char address[120];
    uint64_t switches; /**< to other senders; each is one of `connects` and `disconnects`, too */
    enum gpud_degraded degraded; /**< whether the route is worse than the devices allow, and why */
};

/** Creates a receiver. It connects in gpud_receiver_acquire(), not here.
 *
 * @param context  must outlive the receiver
 * @param params  copied
 * @param receiver  set to the receiver, which the caller owns
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_INVALID  a parameter is wrong
 * @retval GPUD_NO_DEVICE  the device is not there
 */
GPUD_API enum gpud_status gpud_receiver_create(struct gpud_context *context,
                                               const struct gpud_receiver_params *params,
                                               struct gpud_receiver **receiver,
                                               struct gpud_error *error);

/** Disconnects. Frames that are still held stay valid and may be released later; the sender keeps
 * their slots until then. If the sender has to end the link before that (because it needs the place
 * for another receiver), they become GPUD_FRAME_CORRUPTED.
 *
 * @param receiver  set to NULL
 */
GPUD_API void gpud_receiver_destroy(struct gpud_receiver **receiver);

/** Takes the next frame, and connects first where needed. The frame's bytes may still be on their
 * way: gpud_frame_map() waits for them, and so does work put on the device's queue
 * (gpud_frame_wait()).
 *
 * @param receiver  the receiver
 * @param timeout_ns  how long to wait at most, in ns; 0: not at all
 * @param frame  set to the frame: release it
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_TIMEOUT  no frame, or no sender, in time: error says which
 * @retval GPUD_AGAIN  gpud_receiver_interrupt() is in effect
 * @retval GPUD_CLOSED  the sender ended the stream (EOS); the next call waits for the next stream;
 *         or exit() is ending this process: error says which
 * @retval GPUD_PEER  the sender vanished or broke the protocol; the next call connects again
 * @retval GPUD_UNSUPPORTED  there is no route: error says why; the next call tries again
 * @retval GPUD_NO_ACCESS  `access` does not admit this sender, or it refuses this user
 */
GPUD_API enum gpud_status gpud_receiver_acquire(struct gpud_receiver *receiver, int64_t timeout_ns,
                                                struct gpud_frame **frame,
                                                struct gpud_error *error);

/** A descriptor for epoll, GMainLoop or io_uring, for an application that acquires with a timeout
 * of 0. It is readable when that call may succeed, and sometimes without need: acquire until
 * GPUD_TIMEOUT, which arms the descriptor again, for edge-triggered loops (EPOLLET), too. It costs
 * nothing before the first call, and stays the same until the receiver is destroyed, also across
 * connections. Any thread.
 *
 * @param receiver  the receiver
 * @param fd  set to the descriptor, which is the receiver's: poll it, do not read or close it
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_IO  no descriptor could be made
 */
GPUD_API enum gpud_status gpud_receiver_get_fd(struct gpud_receiver *receiver, int *fd,
                                               struct gpud_error *error);

/** How many frames of the same format wait to be acquired. If there are none, the one acquired last
 * is the newest. For the thread that acquires.
 *
 * @param receiver  the receiver
 * @return the number of frames
 */
GPUD_API uint32_t gpud_receiver_count_frames(struct gpud_receiver *receiver);

/** Asks for more frames that may be in flight or held at once than gpud_receiver_params.slots, for
 * example once it is known how long a pipeline holds each. A sender that shares its ring lets it
 * grow, by memory of its own: by up to 256 MiB for one receiver and 512 MiB for all, and never to
 * more than GPUD_SLOTS_MAX frames. gpud_receiver_info.slots shows what it gave. The ring of another
 * route has a fixed size. The request also holds for later senders; fewer slots than before
 * take effect at the next connection. Any thread, also in on_event.
 *
 * @param receiver  the receiver
 * @param slots  frames; at most GPUD_SLOTS_MAX; 0: as gpud_receiver_params.slots
 */
GPUD_API void gpud_receiver_set_slots(struct gpud_receiver *receiver, uint32_t slots);

/** Asks the sender for a frame that is not GPUD_FRAME_DELTA: gpud_sender_take_key_request(). A
 * request that the sender has not seen yet is replaced by the next one. Without a connection, and
 * with a sender of an older release, it has no effect. Any thread, also for a member of a group.
 *
 * @param receiver  the receiver
 * @param request  what is asked for
 */
GPUD_API void gpud_receiver_request_key(struct gpud_receiver *receiver,
                                        const struct gpud_key_request *request);

/** Reports to the sender (gpud_link_info.latency_ns) how long the frame acquired last took, by a
 * clock that both hosts follow, such as PTP, and that only the application can read. Call it before
 * that frame is released, in the thread that acquires. It is ignored without a connection, and
 * where the library measures the latency itself (gpud_peer_info.same_clock).
 *
 * @param receiver  the receiver
 * @param latency_ns  from submit to acquire, in ns
 */
GPUD_API void gpud_receiver_set_latency(struct gpud_receiver *receiver, uint64_t latency_ns);

/** Changes to another sender without an interruption. Calls of gpud_receiver_acquire()
 * connect to the new sender beside the old one, whose frames they return meanwhile. When the new
 * sender's first frame is here (of several the newest, of data the first), they return those of the
 * old one that were there before it, then that frame (GPUD_FRAME_DISCONTINUITY), and none of the
 * old sender any more; so the two join with a gap or an overlap of one frame at most, if the
 * application takes frames as they come. Frames of the old sender that are still held stay valid.
 * GPUD_EVENT_SWITCHED tells the outcome.
 *
 * The new link has what the receiver was made with: the device, slots, policy, route, access; with
 * `alloc`, memory is asked for while that of the old link is in use. The descriptor stays the same,
 * counters go on, and gpud_receiver_info.address changes. If the old sender dies or ends its stream
 * meanwhile, acquire goes on waiting for either of them, and reports that only if the new one does
 * not come. A second call replaces a switch that is under way, which is then not reported; with
 * the address that frames come from it only ends that switch. Any thread, also in on_event.
 *
 * @param receiver  the receiver; not one of a group
 * @param params  copied
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK: the switch has begun; or a failure, which changes nothing:
 * @retval GPUD_INVALID  a parameter is wrong, or the receiver is in a group
 */
GPUD_API enum gpud_status gpud_receiver_switch(struct gpud_receiver *receiver,
                                               const struct gpud_switch_params *params,
                                               struct gpud_error *error);

/** The state and counters of a receiver. Any thread.
 *
 * @param receiver  the receiver
 * @param info  filled as far as info->size goes
 */
GPUD_API void gpud_receiver_get_info(struct gpud_receiver *receiver,
                                     struct gpud_receiver_info *info);

/** Interrupts waiting calls. Any thread.
 *
 * @param receiver  the receiver
 * @param interrupted  true: waiting calls return GPUD_AGAIN at once, until false is set
 */
GPUD_API void gpud_receiver_interrupt(struct gpud_receiver *receiver, bool interrupted);

GPUD_END_DECLS

#endif
