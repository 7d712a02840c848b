/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* The side that produces frames. It listens on an address; any number of receivers connect, each by
 * the best route that both sides can take.
 *
 *   gpud_sender_create
 *     → gpud_sender_configure
 *     → { gpud_sender_acquire → write → gpud_sender_submit }…
 *     → gpud_sender_send_eos
 *     → gpud_sender_destroy
 *
 * Thread-safety: submit, configure, send_event, send_eos and destroy come from one thread at a
 * time; acquire may come from any thread, also during submit; lent frames may be released from any
 * thread; get_info, list_links, wait, announce, interrupt and set_slow_receiver may be called from
 * any thread. */
/* clang-format on */
#ifndef GPUDIRECT_SENDER_H
#define GPUDIRECT_SENDER_H

#include <gpudirect/frame.h>
#include <gpudirect/media.h>

GPUD_BEGIN_DECLS

struct gpud_sender;

/* What happens to a frame for a receiver whose ring is full. Each receiver is judged alone.
 *
 * Over a network nothing that was sent can be taken back. There, with DROP_OLDEST, the frame waits
 * at the sender until the receiver gives one back, and goes then by itself; the next frame takes
 * its place, and it is lost. Events keep their order among the frames. What waits is lost, too,
 * when the application needs its slot (see gpud_sender_acquire()), by gpud_sender_interrupt(), with
 * the receiver or the sender, and when the end of the stream or a new format has waited for it for
 * 5 s.
 */
enum gpud_slow_receiver {
    GPUD_SLOW_DEFAULT = 0, /* sender: BLOCK; receiver: whatever the sender says */
    GPUD_SLOW_BLOCK,       /* wait for it */
    GPUD_SLOW_DROP_NEWEST, /* it does not get this frame */
    /* it loses the oldest that it has not taken yet, and gets this one; over a network it loses one
     * that waits, and this one waits */
    GPUD_SLOW_DROP_OLDEST,
};

#define GPUD_SLOTS_MAX 64
#define GPUD_RECEIVERS_MAX 32

struct gpud_peer_info {
    uint64_t id; /* counts connections from 1 */
    int64_t pid; /* of the other process; 0: not known, as of another container or host */
    char name[64];
    char path[32];                         /* the route that carries it */
    char fallback_reason[GPUD_REASON_MAX]; /* why no better route does, or "" */
    char host[64];                         /* the other host's address; "": it is on this one */
    /* Its CLOCK_MONOTONIC is this process's: it is on this host, and in no container that has a
     * time of its own. Else no time of the one says anything to the other. */
    bool same_clock;
};

struct gpud_sender_params {
    size_t size;
    /* required: a bare name, "unix:/absolute/path", or, to be reached from other hosts,
     * "rdma://address-of-this-host:port" or "rdma://…:port/name" (several of one process share a
     * port) */
    const char *address;
    /* Where the ring lies: a device's name, "cuda:1"; NULL: "host". A kind alone, "cuda": that one
     * of them which is nearest to the network card that the address leads over. "auto": the nearest
     * GPU of any kind; "host" where the address leads over no card, as a bare name does, or there
     * is no GPU that others write directly. See gpud_device_get_nearest(), and
     * gpud_sender_info.device_reason for what came of it. */
    const char *device;
    const char *name; /* shown to the peers; NULL: the process's name */
    uint32_t slots;   /* frames in flight per receiver; 0: 4; at most GPUD_SLOTS_MAX */
    enum gpud_slow_receiver slow_receiver; /* default: BLOCK */
    bool require_direct; /* refuse a receiver that only the staged routes can reach */
    /* take only this: "map", "peer", "directgma", "migrate", "staged-push", "staged",
     * "rdma-dmabuf", "rdma-peermem", "rdma-host"; NULL: the best */
    const char *route;
    /* Called from a thread of the sender; must not call back into it. May be NULL. */
    void (*on_connect)(void *user, const struct gpud_peer_info *peer);
    void (*on_disconnect)(void *user, const struct gpud_peer_info *peer);
    void *user;
    /* Who may receive, besides root: "user" (this user alone), "group:NAME" (and processes in that
     * group), "all". With the latter two the address must be "unix:/path" in a folder that the
     * others can enter. NULL: "user". */
    const char *access;
    /* For an address over a network: a file with a key that both ends have, 16 to 1024 bytes, which
     * nobody else can read (chmod 600). NULL: no key, and then only addresses of this host itself
     * can be listened on (rdma://127.0.0.1:7174), unless allow_unauthenticated. */
    const char *psk_file;
    bool allow_unauthenticated; /* whoever reaches the address may receive */
};

struct gpud_sender_info {
    size_t size;
    uint32_t receivers; /* connected and streaming */
    char path[32];      /* of the last one that connected; "none" before */
    char fallback_reason[GPUD_REASON_MAX];
    uint64_t frames;    /* submitted */
    uint64_t delivered; /* hand-offs, summed over receivers */
    uint64_t dropped;   /* by slow-receiver, summed over receivers */
    uint64_t connects, disconnects, refused;
    /* Of whole frames. One that lies in host memory which the GPU's driver does not pin (it begins
     * in mid-page, or may only be read) counts as both. */
    uint64_t copies_cpu, copies_gpu;
    uint64_t waits_cpu;    /* times a call slept until a receiver gave a credit back */
    uint64_t waits_device; /* times the CPU waited for a device to finish its work */
    uint64_t kicks;        /* system calls made to wake a receiver */
    char device[32];       /* where the ring lies */
    char device_reason[GPUD_REASON_MAX]; /* why there; "": it was named */
};

/* Listens at once. GPUD_NO_ACCESS, or GPUD_IO with EADDRINUSE when another live sender has the
 * address: it is waited for up to 2 s, as one that was just killed has it a moment longer, and then
 * the reason says which process it is. One of this process is not waited for. */
GPUD_API enum gpud_status gpud_sender_create(struct gpud_context *context,
                                             const struct gpud_sender_params *params,
                                             struct gpud_sender **sender, struct gpud_error *error);

/* Says goodbye to the receivers, waits (5 s at most) for copies under way. Lent frames may still be
 * released. */
GPUD_API void gpud_sender_destroy(struct gpud_sender **sender);

/* Starts a new epoch: from now on frames are of this media, whose layout
 * (gpud_media_get_layout()) is that of the ring. It is copied, and every receiver gets it. Frames
 * of the old epoch arrive before; lent frames of it can only be released. */
GPUD_API enum gpud_status gpud_sender_configure(struct gpud_sender *sender,
                                                const struct gpud_media *media,
                                                struct gpud_error *error);

/* Waits until `count` receivers are streaming. */
GPUD_API enum gpud_status gpud_sender_wait(struct gpud_sender *sender, uint32_t count,
                                           int64_t timeout_ns, struct gpud_error *error);

/* Lends a slot to write the next frame into; submitted, it costs no copy where the route shares
 * memory. Lent frames count against the ring: hold few. If none is free, a frame that waits for a
 * slow receiver on a network gives its slot up. */
GPUD_API enum gpud_status gpud_sender_acquire(struct gpud_sender *sender, int64_t timeout_ns,
                                              struct gpud_frame **frame, struct gpud_error *error);

/* Whether each lent frame shall have a dma-buf (gpud_frame_export_dmabuf()), from the next
 * configure on: for a driver of a card that writes pictures straight into the ring. Where the
 * sender's device cannot, frames are lent all the same, and the export says why. */
GPUD_API void gpud_sender_set_dmabufs(struct gpud_sender *sender, bool wanted);

/* A frame will be submitted in a moment, some tens of microseconds: receivers that sleep begin to
 * wake up while the caller still describes it. A hint, for streams with pauses between frames, from
 * devices whose drivers take such a time, and where there are processors enough; nothing is lost
 * without it, or if no frame follows. */
GPUD_API void gpud_sender_announce(struct gpud_sender *sender);

/* A lent frame, one in memory of the application's own, or one as it came from a receiver or a
 * capture: it is ordered after whatever still writes it, and goes back when it was copied. It lies
 * on the sender's device or in host memory, or, where the sender is on the host, on any device,
 * which then copies it there itself.
 *
 * Hands the frame to every receiver, and consumes it: on GPUD_OK, and on every failure but
 * GPUD_AGAIN and GPUD_TIMEOUT (a blocking receiver gave no credit), *frame is NULL. With no
 * receiver the frame is done. */
GPUD_API enum gpud_status gpud_sender_submit(struct gpud_sender *sender, struct gpud_frame **frame,
                                             int64_t timeout_ns, struct gpud_error *error);

/* The same, but the frame stays the caller's, who may submit it again or release it, but must not
 * write to it any more: it has GPUD_FRAME_READ_ONLY then. For a frame that is neither lent nor
 * wrapped the call waits until it was copied. */
GPUD_API enum gpud_status gpud_sender_submit_keep(struct gpud_sender *sender,
                                                  struct gpud_frame *frame, int64_t timeout_ns,
                                                  struct gpud_error *error);

#define GPUD_EVENT_STICKY (UINT32_C(1) << 31)
#define GPUD_EVENT_SIZE_MAX 2048

/* A message of the application, in order with the frames: kind is its own; size at most
 * GPUD_EVENT_SIZE_MAX. The last one of each kind that has the bit GPUD_EVENT_STICKY is also sent to
 * receivers that connect later, before their first frame (at most 16 kinds, in the order in which
 * they were first sent). */
GPUD_API enum gpud_status gpud_sender_send_event(struct gpud_sender *sender, uint32_t kind,
                                                 const void *data, size_t size,
                                                 struct gpud_error *error);

/* The end of the stream, in order with the frames. configure or submit begin a new one. */
GPUD_API enum gpud_status gpud_sender_send_eos(struct gpud_sender *sender,
                                               struct gpud_error *error);

/* A descriptor for epoll, GMainLoop or io_uring, for who acquires and submits with a timeout of 0:
 * after such a call gave GPUD_TIMEOUT it becomes readable when that may have changed, of which it
 * can turn out that it has not. It is the sender's: poll it, do not read or close it. It is the
 * same one until the sender is destroyed, and costs nothing before it is asked for. Any thread. */
GPUD_API enum gpud_status gpud_sender_get_fd(struct gpud_sender *sender, int *fd,
                                             struct gpud_error *error);

GPUD_API void gpud_sender_get_info(struct gpud_sender *sender, struct gpud_sender_info *info);

/* How far a receiver has come. */
enum gpud_link_phase {
    GPUD_PHASE_CONNECTING, /* it speaks with the sender, or waits for its format */
    GPUD_PHASE_STREAMING,
    GPUD_PHASE_LEAVING, /* it said goodbye, and still holds frames */
};

/* What a sender knows of one receiver: by which path it gets frames and why by no better one, what
 * it lost, and how late frames reach it. */
struct gpud_link_info {
    size_t size;
    uint64_t id; /* counts connections from 1 */
    int64_t pid; /* of its process; 0: in another container, or on another host */
    char name[64];
    char device[32];                       /* where its frames arrive */
    char path[32];                         /* the route that carries it, or "none" */
    char fallback_reason[GPUD_REASON_MAX]; /* why no better route does, or "" */
    enum gpud_link_phase phase;
    enum gpud_slow_receiver slow_receiver; /* the policy in effect */
    uint32_t held;                         /* frames that it has not given back */
    uint64_t delivered;                    /* frames that were handed to it */
    uint64_t dropped;                      /* frames that it lost by the policy */
    uint64_t latency_ns; /* ns from submit to acquire, of the last frame that it took, by its own
                         word; 0: not known, as between two clocks: gpud_receiver_set_latency() */
    char host[64];    /* its address; "": it is on this host */
};

/* All receivers that are connected; what was delivered to those that are gone, and dropped for
 * them, is in gpud_sender_info alone. Another process asks by gpud_channel_list_get_links(). Fails
 * only for want of memory.
 *
 * A list outlives the sender. Thread-safety: a list is a snapshot, which any threads may read at
 * once. *list is set only on success, and the caller's to destroy; destroying NULL, or a pointer to
 * NULL, does nothing. */
struct gpud_link_list;

GPUD_API enum gpud_status gpud_link_list_create(struct gpud_sender *sender,
                                                struct gpud_link_list **list,
                                                struct gpud_error *error);
GPUD_API void gpud_link_list_destroy(struct gpud_link_list **list);
GPUD_API uint32_t gpud_link_list_count(const struct gpud_link_list *list);

/* GPUD_INVALID: the index is the count or more, or info->size is not set. */
GPUD_API enum gpud_status gpud_link_list_get_info(const struct gpud_link_list *list, uint32_t index,
                                                  struct gpud_link_info *info,
                                                  struct gpud_error *error);

/* Another policy than at creation (DEFAULT: BLOCK), at once and for every receiver that did not ask
 * for one of its own: a submit that is waiting for such a receiver goes on by the new one. */
GPUD_API enum gpud_status gpud_sender_set_slow_receiver(struct gpud_sender *sender,
                                                        enum gpud_slow_receiver slow_receiver,
                                                        struct gpud_error *error);

/* true: waiting calls return GPUD_AGAIN at once, until false is set, and frames that wait for slow
 * receivers are dropped. */
GPUD_API void gpud_sender_interrupt(struct gpud_sender *sender, bool interrupted);

GPUD_END_DECLS

#endif
