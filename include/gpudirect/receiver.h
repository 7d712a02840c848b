/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* The side that consumes frames. It connects to a sender's address, in either start order, and
 * connects again after the sender went away.
 *
 *   gpud_receiver_create
 *     → { gpud_receiver_acquire → use → gpud_frame_release }…
 *     → gpud_receiver_destroy
 *
 * Thread-safety: acquire and count_frames come from one thread at a time; frames may be released
 * from any thread; get_fd, get_info and interrupt may be called from any thread. */
/* clang-format on */
#ifndef GPUDIRECT_RECEIVER_H
#define GPUDIRECT_RECEIVER_H

#include <gpudirect/sender.h>

GPUD_BEGIN_DECLS

struct gpud_receiver;

enum gpud_event {
    GPUD_EVENT_CONNECTED = 1, /* data: struct gpud_peer_info */
    GPUD_EVENT_FORMAT,        /* a new epoch; data: struct gpud_format_event */
    GPUD_EVENT_USER,          /* data: struct gpud_user_event */
};

struct gpud_format_event {
    uint32_t epoch;
    struct gpud_media media;
    char device[32]; /* where the sender has its frames, as it calls it: "cuda:0" */
    char pci[16]; /* that device's address on the bus of its host, "0000:63:00.0"; "": not known */
};

struct gpud_user_event {
    uint32_t kind;
    const void *data;
    size_t size;
};

struct gpud_receiver_params {
    size_t size;
    const char *address; /* required: as the sender's */
    const char *device;  /* where the frames shall arrive, as the sender's; NULL: "host" */
    const char *name;    /* shown to the sender; NULL: the process's name */
    uint32_t slots; /* frames that may be in flight or held at once; 0: 4; at most GPUD_SLOTS_MAX */
    /* When this receiver is slow. DEFAULT: the sender's policy; a wish to BLOCK is heard only by a
     * sender that blocks by itself. */
    enum gpud_slow_receiver slow_receiver;
    bool require_direct; /* refuse the staged routes */
    const char *route;   /* take only this route; NULL: the best */
    /* Frames that come steadily are expected: the call that waits for one is awake when it is due,
     * and looks for it so long at most (and 1/32 of the time between two), which spares the frame
     * the time that waking up takes. ns; 0: 250 µs; negative: waits always sleep. */
    int64_t busy_poll_ns;
    /* Called inside gpud_receiver_acquire(), in order with the frames. data lives during the call.
     * May be NULL. */
    void (*on_event)(void *user, enum gpud_event event, const void *data);
    void *user;
    /* From whom frames are taken, besides root: "user" (senders of this user alone), "group:NAME"
     * (and of processes in that group), "all". NULL: "user". */
    const char *access;
    /* Frames are wanted in memory of the application's own; NULL: where the route puts them. Called
     * with `user` inside gpud_receiver_acquire(), before GPUD_EVENT_FORMAT, once for each slot from
     * 0 to `slots` - 1, at most: for every new format, and again where another route is tried. It
     * makes a memory of this receiver's device, of at least layout->size bytes
     * (gpud_memory_alloc(), gpud_memory_wrap()), and a frame lies at its beginning:
     * gpud_frame_get_memory() gives it back, and gpud_frame_get_slot() the slot. It must not call
     * this receiver.
     *
     * *memory is the receiver's from GPUD_OK on, and dropped when the format is over and the
     * slot's last frame is back. A failure, or a memory that will not do (GPUD_INVALID), ends the
     * call of gpud_receiver_acquire() and the connection; the next call connects, and asks, again.
     *
     * The price is a copy of every frame at the end of its route, by the receiver's device or the
     * CPU, where `staged` or `staged-push` does not upload it anyway; for that the frame is the
     * application's alone, to write as well (no GPUD_FRAME_READ_ONLY). The test picture with which
     * a link begins is written into the first memory. */
    enum gpud_status (*alloc)(void *user, const struct gpud_layout *layout, uint32_t slot,
                              struct gpud_memory **memory, struct gpud_error *error);
    /* The sender's key (gpud_sender_params.psk_file), for an address over a network. */
    const char *psk_file;
};

struct gpud_receiver_info {
    size_t size;
    bool connected;
    char path[32]; /* "none" while not connected */
    /* With gpud_receiver_params.alloc it says, too, that frames are copied for that. */
    char fallback_reason[GPUD_REASON_MAX];
    uint64_t frames;    /* received */
    uint64_t dropped;   /* by the sender, for this receiver */
    uint64_t corrupted; /* flagged so */
    uint64_t connects, disconnects;
    /* Of whole frames, on this side; one that the CPU carries for the GPU counts as both. */
    uint64_t copies_cpu, copies_gpu;
    uint64_t waits_cpu;    /* times acquire slept */
    uint64_t waits_device; /* times the CPU waited for a device to finish its work */
    uint64_t kicks;        /* system calls made to wake the sender */
    /* From submit to acquire, over the last 4096 frames, ns; 0: not known, as of frames of a sender
     * that has another clock. */
    uint64_t latency_p50_ns, latency_p99_ns, latency_max_ns;
    uint32_t slots;  /* that may be in flight or held at once, as both sides asked; 0: not known */
    char device[32]; /* where the frames arrive */
    char device_reason[GPUD_REASON_MAX]; /* why there; "": it was named */
};

GPUD_API enum gpud_status gpud_receiver_create(struct gpud_context *context,
                                               const struct gpud_receiver_params *params,
                                               struct gpud_receiver **receiver,
                                               struct gpud_error *error);

/* Frames that are still held stay valid and can be released later: the sender keeps their slots
 * until then, also while it goes on. Should it have to end the link all the same (the places of its
 * receivers are all taken, say), they get GPUD_FRAME_CORRUPTED. */
GPUD_API void gpud_receiver_destroy(struct gpud_receiver **receiver);

/* clang-format off */
/* The next frame. Connects first where needed. The frame's bytes may still be on their way:
 * gpud_frame_map() waits for them, and so does work put on the device's queue.
 *
 *   GPUD_TIMEOUT      no frame, or no sender, until then: error says which
 *   GPUD_AGAIN        gpud_receiver_interrupt() is in effect
 *   GPUD_CLOSED       the sender ended the stream (EOS); the next call waits for the one after it.
 *                     Or exit() is ending this process, and error says so
 *   GPUD_PEER         the sender vanished or broke the protocol; the next call connects again
 *   GPUD_UNSUPPORTED  no route: error says why; the next call tries again
 *   GPUD_NO_ACCESS    the sender is not one that `access` lets in, or it refuses this user
 */
/* clang-format on */
GPUD_API enum gpud_status gpud_receiver_acquire(struct gpud_receiver *receiver, int64_t timeout_ns,
                                                struct gpud_frame **frame,
                                                struct gpud_error *error);

/* A descriptor for epoll, GMainLoop or io_uring, for who acquires with a timeout of 0: readable
 * when that may have something to do, of which it can turn out that it is nothing yet. Look again
 * and again until GPUD_TIMEOUT, which is when the descriptor is armed. It is the receiver's: poll
 * it, do not read or close it. It is the same one until the receiver is destroyed, whatever becomes
 * of the connection, and costs nothing before it is asked for. */
GPUD_API enum gpud_status gpud_receiver_get_fd(struct gpud_receiver *receiver, int *fd,
                                               struct gpud_error *error);

/* How many frames of the same format wait to be acquired: with none, what was acquired last is the
 * newest. */
GPUD_API uint32_t gpud_receiver_count_frames(struct gpud_receiver *receiver);

/* How long the frame that was acquired last took, ns from submit, by a clock that both ends follow
 * though they are on two hosts (PTP, say), which only the application knows. Before it is released:
 * the sender is told then (gpud_link_info.latency_ns), and what is said of no frame is not known.
 * Ignored where the library knows it (gpud_peer_info.same_clock), and without a connection. For the
 * thread that acquires. */
GPUD_API void gpud_receiver_set_latency(struct gpud_receiver *receiver, uint64_t latency_ns);

GPUD_API void gpud_receiver_get_info(struct gpud_receiver *receiver,
                                     struct gpud_receiver_info *info);

/* true: waiting calls return GPUD_AGAIN at once, until false is set. */
GPUD_API void gpud_receiver_interrupt(struct gpud_receiver *receiver, bool interrupted);

GPUD_END_DECLS

#endif
