/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A frame: a layout somewhere in a memory, and what is known about the picture in it.
 *
 * A frame has one holder, who has the pointer, or several (gpud_frame_ref()). Thread-safety: calls
 * on one frame come from one thread at a time, but for gpud_frame_ref(), _release(), _get_memory()
 * and _get_slot(), which its holders may call at any time; _get_info() may run in several threads
 * at once where no other call does. Different frames may be used, and released, from different
 * threads at once. */
#ifndef GPUDIRECT_FRAME_H
#define GPUDIRECT_FRAME_H

#include <gpudirect/device.h>
#include <gpudirect/layout.h>

GPUD_BEGIN_DECLS

struct gpud_frame;

enum gpud_frame_flags {
    /* The content may be wrong: an error of the card, a writer that died. */
    GPUD_FRAME_CORRUPTED = 1 << 0,
    /* Frames are missing before this one, or a new sender took over. */
    GPUD_FRAME_DISCONTINUITY = 1 << 1,
    /* Shared with others: mapping it for writing is refused. */
    GPUD_FRAME_READ_ONLY = 1 << 2,
    /* Written by a capture; on a frame of the application's they mean the same. The picture was
     * made of two fields, which lie row by row in turn, the top one's row first; the top one came
     * first. Or it is one field alone, which has half the rows. */
    GPUD_FRAME_INTERLACED = 1 << 3,
    GPUD_FRAME_TOP_FIRST = 1 << 4,
    GPUD_FRAME_TOP_FIELD = 1 << 5,
    GPUD_FRAME_BOTTOM_FIELD = 1 << 6,
    /* From this bit up the bits are the application's and travel as they are. */
    GPUD_FRAME_USER = 1 << 16,
};

/* Application data that travels with a frame, such as serialised metas. */
#define GPUD_FRAME_META_MAX 704

struct gpud_frame_info {
    size_t size;
    /* ns of the application's time line, or GPUD_TIME_NONE; travel as they are. */
    uint64_t pts_ns, dts_ns, duration_ns;
    uint64_t offset; /* the application's frame number, or UINT64_MAX; travels as it is */
    uint32_t flags;  /* enum gpud_frame_flags */
    uint32_t meta_size;
    uint8_t meta[GPUD_FRAME_META_MAX];

    /* Written by the library; ignored by gpud_frame_set_info(). */
    uint64_t sequence; /* the sender's frames from 1; a gap: dropped for this receiver */
    uint64_t dropped;  /* frames dropped for this receiver since it connected */
    /* CLOCK_MONOTONIC ns at which it was submitted; 0: not known, as its sender has another clock
     * (gpud_peer_info.same_clock). */
    uint64_t submitted_ns;
    uint32_t epoch; /* changes with every (re)connect and every change of format */
    struct gpud_layout layout;
};

/* Called once a frame, so it takes no detours: all fields above are written, but of meta only
 * meta_size bytes, and nothing is read but info->size, which covers all fields above, or nothing is
 * written. What a later release adds behind them is filled as in any other _info. */
GPUD_API void gpud_frame_get_info(const struct gpud_frame *frame, struct gpud_frame_info *info);

/* Before submit: times, offset, flags, meta. GPUD_INVALID if meta_size is too large, or size does
 * not cover all fields above. */
GPUD_API enum gpud_status gpud_frame_set_info(struct gpud_frame *frame,
                                              const struct gpud_frame_info *info,
                                              struct gpud_error *error);

/* Where the frame lies: a borrowed memory, and the frame's start in it. */
GPUD_API struct gpud_memory *gpud_frame_get_memory(const struct gpud_frame *frame,
                                                   uint64_t *offset);

/* A number that is the same for every frame that lies in the same place: 0..N-1 within an epoch, or
 * UINT32_MAX for wrapped memory. For caches of per-slot objects. */
GPUD_API uint32_t gpud_frame_get_slot(const struct gpud_frame *frame);

/* Makes the frame's bytes visible to the CPU, after whatever the device still has to do for it.
 * Free where the memory is host memory; elsewhere GPUD_READ may cost a copy down, GPUD_WRITE one
 * up, and what was there before GPUD_WRITE alone is not seen. Maps nest, for what the first asked
 * for. GPUD_TIMEOUT leaves the frame as it was. A frame that is mapped must be unmapped before it
 * is submitted or released. GPUD_PEER: the writer died in
 * mid-frame; the frame is flagged CORRUPTED and may be mapped again. */
GPUD_API enum gpud_status gpud_frame_map(struct gpud_frame *frame, unsigned access,
                                         int64_t timeout_ns, void **data, struct gpud_error *error);
GPUD_API void gpud_frame_unmap(struct gpud_frame *frame);

/* A dma-buf of the frame's bytes, for a driver that writes (a lent frame) or reads them: the frame
 * begins at *offset in it. On success *fd is the caller's to close, and stays valid; it is of the
 * place, not of the frame: another frame in it has the same bytes. GPUD_UNSUPPORTED, with the
 * reason, where there is none; see gpud_sender_set_dmabufs(). */
GPUD_API enum gpud_status gpud_frame_export_dmabuf(const struct gpud_frame *frame, int *fd,
                                                   uint64_t *offset, struct gpud_error *error);

/* For an application that works on the device itself. native_queue: a CUstream of the device's
 * primary context on "cuda:N" (NULL: the default stream). GPUD_UNSUPPORTED, with the reason, where
 * the device has no such queue or the driver cannot join it; then gpud_frame_map() is the way.
 * Neither call waits: the devices do.
 *
 * wait: what is put on native_queue afterwards sees the frame's bytes, or, on a lent frame, may
 * write them.
 * post: the frame is handed on (released to where it came from, or submitted) only after what was
 * put on native_queue before; a queue that waited for a frame must post it, too. Call it once,
 * before release or submit; of several holders each may, once there are several (gpud_frame_ref()
 * comes before it). */
GPUD_API enum gpud_status gpud_frame_wait(struct gpud_frame *frame, void *native_queue,
                                          struct gpud_error *error);
GPUD_API enum gpud_status gpud_frame_post(struct gpud_frame *frame, void *native_queue,
                                          struct gpud_error *error);

/* A frame in memory of the application's own, to be submitted: it costs one copy where a lent frame
 * costs none. The frame takes a reference on memory and drops it when the last receiver's copy is
 * done. */
GPUD_API enum gpud_status gpud_frame_wrap(struct gpud_memory *memory, uint64_t offset,
                                          const struct gpud_layout *layout,
                                          struct gpud_frame **frame, struct gpud_error *error);

/* A second frame over the bytes of one that the caller holds, with times and metas of its own, to
 * be submitted: for who hands a received or captured frame on, perhaps to several senders. layout:
 * NULL for the first one's. `of` must not be released before released(user) is called, from any
 * thread: the last copy is done, or the second frame was released unsent. On failure it is not
 * called. */
GPUD_API enum gpud_status gpud_frame_wrap_frame(struct gpud_frame *of,
                                                const struct gpud_layout *layout,
                                                void (*released)(void *user), void *user,
                                                struct gpud_frame **frame,
                                                struct gpud_error *error);

/* One more holder of the frame, whoever it came from: each releases it, and only the last release
 * gives it back. Returns the frame. From the first call on the frame is GPUD_FRAME_READ_ONLY until
 * it is given back: nobody maps it for writing, and while there are several holders its info cannot
 * be set. Holders share maps (each unmaps what it mapped, before its release) and posts. Submitting
 * takes the caller's part alone: the others go on reading. */
GPUD_API struct gpud_frame *gpud_frame_ref(struct gpud_frame *frame);

/* Gives a frame back: to the receiver or capture that it came from (the credit returns once the
 * device has finished with it), or a lent one, unsent, to its sender. The frame may outlive what it
 * came from. */
GPUD_API void gpud_frame_release(struct gpud_frame **frame);

GPUD_END_DECLS

#endif
