/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/** @file
 * A frame: a layout somewhere in a memory, and what is known about the picture in it.
 *
 * A frame has one owner, or several holders (gpud_frame_ref()). Thread-safety: calls on one frame
 * come from one thread at a time, except gpud_frame_ref(), _release() and _get_info(), which its
 * holders may call at any time. Different frames may be used, and released, from different threads
 * at once.
 */
#ifndef GPUDIRECT_FRAME_H
#define GPUDIRECT_FRAME_H

#include <gpudirect/device.h>
#include <gpudirect/layout.h>

GPUD_BEGIN_DECLS

struct gpud_frame;

/** Flags of a frame. */
enum gpud_frame_flags {
    /** The content may be wrong: the card reported an error, or the writer died. */
    GPUD_FRAME_CORRUPTED = 1 << 0,
    /** Frames are missing before this one, or a new sender took over. */
    GPUD_FRAME_DISCONTINUITY = 1 << 1,
    GPUD_FRAME_READ_ONLY = 1 << 2, /**< shared with others: mapping it for writing is refused */
    /** The picture has two fields, whose rows alternate, beginning with the top field's. A capture
     * sets this flag and the next three; an application may set them on its own frames. */
    GPUD_FRAME_INTERLACED = 1 << 3,
    GPUD_FRAME_TOP_FIRST = 1 << 4, /**< of two fields, the top one came first */
    GPUD_FRAME_TOP_FIELD = 1 << 5, /**< the frame is the top field alone, with half the rows */
    /** the frame is the bottom field alone, with half the rows */
    GPUD_FRAME_BOTTOM_FIELD = 1 << 6,
    /** The frame is of no use without those before it, as a codec's picture that is not a key
     * frame. A receiver begins with a frame that has not this flag, and frames with it that follow
     * a lost one are lost, too: see gpud_sender_take_key_request(). */
    GPUD_FRAME_DELTA = 1 << 7,
    /** The bits from this one up are the application's, and travel unchanged. */
    GPUD_FRAME_USER = 1 << 16,
};

/** Most bytes of application data in gpud_frame_info.meta, such as serialised metas. */
#define GPUD_FRAME_META_MAX 704
/** Most bytes of gpud_frame_info.large_meta; see gpud_sender_params.large_meta_max. */
#define GPUD_LARGE_META_MAX 1048576

/** What is known of a frame. */
struct gpud_frame_info {
    size_t size; /**< sizeof(the struct), as the caller knows it */
    /** presentation time on the application's time line, in ns, or GPUD_TIME_NONE; travels
     * unchanged */
    uint64_t pts_ns;
    uint64_t dts_ns;      /**< decoding time, as pts_ns */
    uint64_t duration_ns; /**< duration, as pts_ns */
    uint64_t offset;      /**< the application's frame number, or UINT64_MAX; travels unchanged */
    uint32_t flags;       /**< enum gpud_frame_flags */
    uint32_t meta_size;   /**< bytes of meta in use */
    uint8_t meta[GPUD_FRAME_META_MAX]; /**< the application's data */

    /** counts the sender's frames from 1; a gap: frames were dropped for this receiver. This field
     * and all that follow, except large_meta, are written by the library */
    uint64_t sequence;
    uint64_t dropped; /**< frames dropped for this receiver since it connected */
    /** CLOCK_MONOTONIC, in ns, when it was submitted; 0: not known, because its sender has another
     * clock (gpud_peer_info.same_clock) */
    uint64_t submitted_ns;
    /** changes with every (re)connect, switch and change of format; a receiver or capture numbers
     * its epochs itself, and no number comes twice */
    uint32_t epoch;
    /** 0 to N-1 within an epoch, the same for all frames in one slot, so that an application can
     * keep an object for each slot; UINT32_MAX: wrapped memory */
    uint32_t slot;
    /** bytes in use from the frame's first one on: layout.size, or what gpud_frame_set_size() was
     * given */
    uint64_t bytes;
    struct gpud_layout layout; /**< how the frame lies in its memory */
    /** where it lies, from memory_offset on; borrowed from the frame, as all that follows */
    struct gpud_memory *memory;
    uint64_t memory_offset; /**< the frame's first byte in that memory */
    void *native;           /**< gpud_memory_get_native() of that memory */
    /** what that memory is on; within one context equal pointers are the same device */
    struct gpud_device *device;
    /** more of the application's data, if meta is too small, in host memory on every route; a
     * receiver has a copy of its own. gpud_frame_set_info() copies it; gpud_frame_get_info() gives
     * a pointer that is valid until the frame is released or its info set */
    const void *large_meta;
    size_t large_meta_size; /**< in bytes, at most the sender's large_meta_max; 0: none */
};

/** Reads what is known of a frame. It is called once a frame and therefore kept short: all fields
 * of this version are written, but of meta only meta_size bytes. info->size must cover all of them,
 * or nothing is written; fields that a later release adds behind them are filled as in any other
 * _info struct.
 *
 * @param frame  any frame
 * @param info  filled
 */
GPUD_API void gpud_frame_get_info(const struct gpud_frame *frame, struct gpud_frame_info *info);

/** Sets a frame's times, offset, flags and metas before it is submitted. Other fields are ignored.
 *
 * @param frame  a frame that the caller may write
 * @param info  all fields of this version must be within its size
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_INVALID  meta_size or large_meta_size is too large, size does not cover the fields,
 * or the frame has several holders
 * @retval GPUD_NO_MEMORY  for a copy of the large meta
 */
GPUD_API enum gpud_status gpud_frame_set_info(struct gpud_frame *frame,
                                              const struct gpud_frame_info *info,
                                              struct gpud_error *error);

/** Sets how many bytes of a block of sound or data are in use: only those are copied and sent. In a
 * frame that was just lent or wrapped all bytes are in use, in a picture always. Set it before
 * gpud_frame_map() where a map copies. A sender takes whole samples of all channels only.
 *
 * @param frame  a frame that the caller may write, and that is not mapped
 * @param bytes  1 to layout.size
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure that leaves the frame as it was:
 * @retval GPUD_INVALID  the frame is a picture, is mapped, or has not as many bytes
 * @retval GPUD_NO_ACCESS  the frame is GPUD_FRAME_READ_ONLY
 */
GPUD_API enum gpud_status gpud_frame_set_size(struct gpud_frame *frame, uint64_t bytes,
                                              struct gpud_error *error);

/** Makes a frame's bytes accessible to the CPU, once the device has finished its work on them. It
 * is free where the memory is host memory. Elsewhere GPUD_READ may cost a copy to the host and
 * GPUD_WRITE one back; after GPUD_WRITE alone the previous content is not visible.
 *
 * Maps nest, with the access of the first one. Unmap a frame before it is submitted or released.
 *
 * @param frame  any frame
 * @param access  GPUD_READ, GPUD_WRITE or both
 * @param timeout_ns  how long to wait at most, in ns; 0: not at all
 * @param data  set to the frame's first byte
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_TIMEOUT  the device did not finish in time; the frame is unchanged
 * @retval GPUD_NO_ACCESS  GPUD_WRITE, and the frame is GPUD_FRAME_READ_ONLY; or it is mapped
 *     already, with less access
 * @retval GPUD_PEER  the writer died within the frame; it is GPUD_FRAME_CORRUPTED now and may be
 *     mapped again
 */
GPUD_API enum gpud_status gpud_frame_map(struct gpud_frame *frame, unsigned access,
                                         int64_t timeout_ns, void **data, struct gpud_error *error);

/** Ends one gpud_frame_map().
 *
 * @param frame  a mapped frame
 */
GPUD_API void gpud_frame_unmap(struct gpud_frame *frame);

/** Waits until the first rows of a picture are valid, which may be before the picture is whole
 * (gpud_receiver_params.by_lines, gpud_target_params.by_lines). They may be read from then on, at
 * gpud_frame_info.native and memory_offset: by the CPU in host memory, elsewhere by work that is
 * put on a queue of the device after this call. Of each plane the same fraction is valid as of
 * the picture, rounded down. On a route that copies, rows may become valid by eighths of the
 * picture. Any other frame is waited for as a whole, as by gpud_frame_map(). A frame may be
 * released before it is whole.
 *
 * @param frame  a picture
 * @param lines  1 to layout.height
 * @param timeout_ns  how long to wait at most, in ns; 0: not at all
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_TIMEOUT  they are not valid yet
 * @retval GPUD_PEER  they never will be: the writer died, gave the frame up, or broke the protocol;
 *     the frame is GPUD_FRAME_CORRUPTED
 * @retval GPUD_INVALID  the frame is not a picture, or has not as many rows
 */
GPUD_API enum gpud_status gpud_frame_wait_lines(struct gpud_frame *frame, uint32_t lines,
                                                int64_t timeout_ns, struct gpud_error *error);

/** Orders a queue of the application's after the frame: work put on it afterwards sees the frame's
 * bytes or, on a lent frame, may write them. The call does not block; the device waits.
 *
 * @param frame  any frame
 * @param native_queue  a CUstream of the device's primary context on "cuda:N" (NULL: the default
 *     stream), a hipStream_t on "hip:N"; on "opencl:N" a cl_command_queue of the context that the
 *     frame's cl_mem has; around its commands the application acquires and releases a cl_mem that
 *     another driver's memory was imported as (cl_khr_external_memory)
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_UNSUPPORTED  the device has no such queue, or its driver cannot join it: use
 *     gpud_frame_map()
 */
GPUD_API enum gpud_status gpud_frame_wait(struct gpud_frame *frame, void *native_queue,
                                          struct gpud_error *error);

/** Orders the frame after a queue of the application's: it is released or submitted only once the
 * work put on the queue before this call is done. A queue that waited for a frame must post it.
 * Call it once, before the release or submit; with several holders, each may call it, after
 * gpud_frame_ref(). The call does not block.
 *
 * @param frame  any frame
 * @param native_queue  as in gpud_frame_wait()
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_UNSUPPORTED  as in gpud_frame_wait()
 */
GPUD_API enum gpud_status gpud_frame_post(struct gpud_frame *frame, void *native_queue,
                                          struct gpud_error *error);

/** Makes a frame of the application's own memory, to be submitted. It costs one copy where a lent
 * frame costs none. The frame holds a reference to the memory until the last receiver's copy is
 * done.
 *
 * @param memory  where the frame lies; the caller keeps its own reference
 * @param offset  the frame's first byte in memory
 * @param layout  copied
 * @param frame  set to the frame, which the caller owns
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_INVALID  the layout is wrong, or exceeds the memory
 */
GPUD_API enum gpud_status gpud_frame_wrap(struct gpud_memory *memory, uint64_t offset,
                                          const struct gpud_layout *layout,
                                          struct gpud_frame **frame, struct gpud_error *error);

/** Makes a second frame over the bytes of one that the caller holds, with its own times and metas:
 * to submit a received or captured frame, perhaps to several senders.
 *
 * @param of  must not be released before released() was called
 * @param layout  NULL: that of the first frame; copied
 * @param released  called from any thread when the last copy is done or the second frame is
 *     released unsent; not called if this function fails
 * @param user  passed to released
 * @param frame  set to the second frame, which the caller owns
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure that leaves the first frame as it was:
 * @retval GPUD_INVALID  the layout is wrong, or larger than the first frame
 * @retval GPUD_NO_MEMORY  out of memory
 */
GPUD_API enum gpud_status gpud_frame_wrap_frame(struct gpud_frame *of,
                                                const struct gpud_layout *layout,
                                                void (*released)(void *user), void *user,
                                                struct gpud_frame **frame,
                                                struct gpud_error *error);

/** Adds a holder to a frame of any origin. Each holder releases the frame, and only the last
 * release gives it back. From the first call on the frame is GPUD_FRAME_READ_ONLY until it is given
 * back, and its info cannot be set while it has several holders.
 *
 * Holders share maps and posts; each unmaps what it mapped before it releases the frame. Submitting
 * the frame consumes only the caller's hold.
 *
 * @param frame  any frame
 * @return the same frame
 */
GPUD_API struct gpud_frame *gpud_frame_ref(struct gpud_frame *frame);

/** Gives a frame back: a received or captured one to where it came from, once the device has
 * finished with it; a lent one, unsent, to its sender. A frame may outlive the object that it came
 * from.
 *
 * @param frame  set to NULL; NULL or a pointer to NULL: nothing happens
 */
GPUD_API void gpud_frame_release(struct gpud_frame **frame);

GPUD_END_DECLS

#endif
