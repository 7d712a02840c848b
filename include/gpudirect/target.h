/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/** @file
 * A ring that an external writer fills by itself: an SDI card's SDK, an FPGA, another process. It
 * is given the addresses of the slots and of their markers, and needs no code of this library.
 *
 * @verbatim
 *   gpud_target_create
 *     → gpud_target_get_info: what the writer must know of each slot
 *     → { gpud_target_acquire → use → gpud_frame_get_info → gpud_frame_release }…
 *     → gpud_target_destroy
 * @endverbatim
 *
 * What the writer does
 *
 * @verbatim
 *   1. Frame n, counted from 0, goes to slot n % slots, in the layout that the ring was made for.
 *   2. When all its bytes are there, the 32-bit value n + 1 is written to that slot's marker, in
 *      the byte order of this machine, as one write of 4 bytes behind those of the picture (on
 *      DirectGMA: clEnqueueWriteSignalAMD). So slot s has the values s + 1, s + 1 + slots,
 *      s + 1 + 2 · slots…
 *   3. A marker starts at 0 and only grows; it never wraps (6). Values are compared unsigned.
 *      Frames come in order, and none is left out: one that the writer itself lost has no number.
 *   4. A writer that starts, for the first time or again, begins with the frame number in the word
 *      `next`, which is 0 in a new ring.
 *   5. A writer that can wait (GPUD_TARGET_PACED) begins to write frame n only when the word
 *      `given_back` is above n - slots: frames before given_back are no longer read. A card that
 *      cannot wait (GPUD_TARGET_FREE_RUNNING) writes on.
 *   6. Numbers end before GPUD_TARGET_FRAMES_MAX (at 60 frames a second after 414 days): the writer
 *      stops there. acquire gives GPUD_CLOSED after the last frame, and a new target begins at 0.
 *   7. A writer that will never write into this ring again may store 1 to the word `stopped`.
 *   8. A writer may say how far it is within a frame, by the slot's word `lines` of 64 bits in host
 *      memory: the frame's number n in the upper half and the number of its valid rows, from the
 *      top, in the lower one, as one write of 8 bytes behind those of the rows. Rows never become
 *      fewer. The marker is written all the same, when the frame is whole.
 * @endverbatim
 *
 * Markers run from the writer to this side only. `given_back`, `next` and `stopped` are words in
 * host memory, 32 bits each: this side writes the first two, which the writer reads if it can; the
 * writer writes the third. A process that writes a marker in host memory may wake this side with
 * FUTEX_WAKE on it; without that the marker is seen within a millisecond.
 *
 * What this side does with it
 *
 * @verbatim
 *   - A frame is handed out when its marker was seen. No queue of a GPU ever waits for a marker
 *     that may not come.
 *   - It never waits for a slot that the writer has overwritten: it continues with the newest whole
 *     frame, which has GPUD_FRAME_DISCONTINUITY, and counts those in between as dropped.
 *   - A held frame that the writer has overwritten, or may be overwriting by now, gets
 *     GPUD_FRAME_CORRUPTED: ask gpud_frame_get_info() after the bytes were used. A free-running
 *     writer may be overwriting a frame as soon as it has written slots - 1 others after it.
 *   - A marker that goes back, has a value that its slot never has, or is ahead of the ones before
 *     it ends the target: acquire returns GPUD_PEER, with the cause, from then on. On DirectGMA a
 *     marker can only be compared, so that one that goes back, or has a neighbour's value, is not
 *     noticed.
 *   - With gpud_target_params.by_lines a frame is handed out when its first rows are announced.
 *     More rows than it has end the target; fewer than before make it GPUD_FRAME_CORRUPTED.
 *   - While the writer does not write, acquire returns GPUD_TIMEOUT, and error says since when.
 * @endverbatim
 *
 * Nothing keeps the writer within the ring: it is trusted with what its addresses reach. There is
 * no descriptor to poll, because nothing signals one when a card writes a word: call acquire in a
 * thread.
 *
 * The file for a writer in another process, `NAME.target`, has a line `key=value` each, numbers
 * in decimal but for addresses (0x…). It appears complete. A writer keeps it open: once it can get
 * a shared lock on it (flock), the target is gone or its process died, and the writer must read the
 * file again if there is a new one. It must skip keys that it does not know.
 *
 * @verbatim
 *   gpudirect-target      1: the version of these rules
 *   name, process         of the target, and the process that has it
 *   kind                  host, bus-address, dma-buf
 *   pace                  free-running, paced: what the writer is taken for
 *   format, width, height, framerate, size (bytes), planes     of a frame
 *   planeN.offset, planeN.stride, planeN.row_bytes, planeN.rows
 *   slots, slot_size
 *   words, words_size     a path to open and map: the words, and the markers of host and dma-buf
 *   given_back, next, stopped     where in there the words are
 *   memory                host: a path to open and map: the slots
 *   memory_fd             dma-buf: the process's descriptor (pidfd_getfd), which has no path
 *   slotN.surface, slotN.marker   bus-address: addresses; else offsets in memory and in words
 *   slotN.lines           offset in words
 * @endverbatim
 *
 * Thread-safety: acquire and destroy come from one thread at a time; get_info and
 * interrupt may be called from any, also during an acquire; frames may be released from any thread,
 * also after destroy.
 */
/* clang-format on */
#ifndef GPUDIRECT_TARGET_H
#define GPUDIRECT_TARGET_H

#include <gpudirect/frame.h>

GPUD_BEGIN_DECLS

struct gpud_target;

/** Most slots of a target. */
#define GPUD_TARGET_SLOTS_MAX 32
/** Most frames of one ring: 2^31 - 64. */
#define GPUD_TARGET_FRAMES_MAX 2147483584

/** Whether the writer waits for slots. */
enum gpud_target_pace {
    GPUD_TARGET_FREE_RUNNING, /**< the writer never waits */
    GPUD_TARGET_PACED,        /**< it waits for `given_back` */
};

/** How a target is made. */
struct gpud_target_params {
    size_t size;                      /**< sizeof(the struct), as the caller knows it */
    const struct gpud_layout *layout; /**< required; copied */
    const char *device;               /**< where the ring lies: see device.h; NULL: "host" */
    uint32_t slots;                   /**< 2 to GPUD_TARGET_SLOTS_MAX; 0: 4 */
    enum gpud_target_pace pace;       /**< whether the writer waits */
    /** rate for the frames' duration and the file, pictures per fps_den seconds; 0/0: not known */
    uint32_t fps_num;
    uint32_t fps_den; /**< see fps_num */
    /** A bare name ("cam1"): what the writer must know is in the file `cam1.target` in the user's
     * runtime directory, as long as the target exists; see gpud_target_info.file. NULL: no file. */
    const char *name;
    /** Frames are acquired when their first rows are announced, and gpud_frame_wait_lines() waits
     * for more of them; gpud_frame_map(), gpud_frame_wait() and a sender wait for the marker: the
     * latter two for up to 1 s. pts_ns is then when the first rows were seen. false: at the marker
     */
    bool by_lines;
};

/** What a writer is given. */
enum gpud_target_kind {
    GPUD_TARGET_HOST,        /**< surface and marker are host memory */
    GPUD_TARGET_BUS_ADDRESS, /**< DirectGMA: surface and marker are addresses on the bus */
    GPUD_TARGET_DMABUF,      /**< the surface is a dma-buf of GPU memory, the marker host memory */
};

/** What the writer must know of one slot. It is secret: with it any process can write the ring.
 * Descriptors and pointers belong to the target and are valid until destroy; duplicate a descriptor
 * to use it longer or to pass it to another process. */
struct gpud_target_slot {
    size_t size;                /**< sizeof(the struct), as the caller knows it */
    enum gpud_target_kind kind; /**< which of the fields below are set */
    uint64_t surface_address;   /**< bus address of the slot; 0: none */
    uint64_t marker_address;    /**< bus address of its marker; 0: none */
    void *surface;              /**< the slot in this process; NULL: not host memory */
    void *marker;               /**< its marker in this process; NULL: not host memory */
    int surface_fd;             /**< a memfd or a dma-buf; -1: none */
    int marker_fd;              /**< a memfd; -1: none */
    uint64_t surface_offset;    /**< of the slot in surface_fd */
    uint64_t marker_offset;     /**< of the marker in marker_fd */
    uint64_t bytes;             /**< of the slot: whole pages */
    /** the marker's first value; the next ones are first + step, first + 2 · step… */
    uint32_t first;
    uint32_t step;         /**< see first */
    void *lines;           /**< the word `lines` of this slot in this process */
    uint64_t lines_offset; /**< of the same in gpud_target_info.words_fd */
};

/** The state and counters of a target. */
struct gpud_target_info {
    size_t size;                /**< sizeof(the struct), as the caller knows it */
    char path[32];              /**< "target-host", "target-directgma", "target-dmabuf" */
    struct gpud_layout layout;  /**< of a frame */
    uint32_t slots;             /**< of the ring */
    int words_fd;               /**< a memfd with the words; the target's */
    void *words;                /**< the words in this process */
    uint32_t given_back_offset; /**< of the word `given_back`, in words_fd and words */
    uint32_t next_offset;       /**< of the word `next` */
    uint32_t stopped_offset;    /**< of the word `stopped` */
    char file[256];             /**< the whole path of the writer's file; "": no file */
    uint64_t frames;            /**< handed out */
    uint64_t dropped;           /**< written, and skipped by this side */
    uint64_t corrupted;         /**< frames that may have been overwritten while they were held */
    uint64_t age_ns; /**< ns since the last frame was seen; GPUD_TIME_NONE: there was none */
    char reason[GPUD_REASON_MAX]; /**< what ended it, or why no frame comes; "": frames come */
    /** `slots` entries: what the writer must know of each slot; owned by the target */
    const struct gpud_target_slot *const *slot;
};

/** Makes the ring, zeroed, with its markers at 0; with a name also the file, which is removed with
 * the target.
 *
 * Memory whose bus address was given out (gpud_target_get_info(), or a file) cannot be taken back
 * from the writer. Unless the writer has set `stopped`, gpud_target_destroy() leaves such a ring
 * behind, and a target of the same name, device, slot size and number of slots in this context
 * takes it over, at the same addresses. Without a name it stays until the process ends.
 *
 * @param context  must outlive the target
 * @param params  copied
 * @param target  set to the target, which the caller owns
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_INVALID  a parameter, or the layout, is wrong
 * @retval GPUD_NO_DEVICE  the device is not there
 * @retval GPUD_UNSUPPORTED  no outside writer can reach the device's memory, and why
 * @retval GPUD_NO_MEMORY  it does not fit (DirectGMA's aperture)
 * @retval GPUD_NO_ACCESS  the runtime directory is not the user's alone
 * @retval GPUD_IO  another target, here or in another process, has the name
 */
GPUD_API enum gpud_status gpud_target_create(struct gpud_context *context,
                                             const struct gpud_target_params *params,
                                             struct gpud_target **target, struct gpud_error *error);

/** Removes the file and, where the writer is done, the ring. Held frames stay valid, but may still
 * be overwritten.
 *
 * @param target  set to NULL
 */
GPUD_API void gpud_target_destroy(struct gpud_target **target);

/** Takes the next frame. Its pts_ns and submitted_ns are when its marker was seen; its offset is
 * the writer's number.
 *
 * @param target  the target
 * @param timeout_ns  how long to wait at most, in ns; 0: not at all
 * @param frame  set to the frame: release it
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_TIMEOUT  no frame in time (error says since when), or all slots are held
 * @retval GPUD_AGAIN  gpud_target_interrupt() is in effect
 * @retval GPUD_PEER  the writer broke the rules above: make a new target
 * @retval GPUD_CLOSED  the numbers are used up: make a new target
 * @retval GPUD_IO  the device failed: make a new target
 */
GPUD_API enum gpud_status gpud_target_acquire(struct gpud_target *target, int64_t timeout_ns,
                                              struct gpud_frame **frame, struct gpud_error *error);

/** The state and counters of a target. Any thread.
 *
 * @param target  the target
 * @param info  filled as far as info->size goes
 */
GPUD_API void gpud_target_get_info(struct gpud_target *target, struct gpud_target_info *info);

/** Interrupts waiting calls. Any thread.
 *
 * @param target  the target
 * @param interrupted  true: waiting calls return GPUD_AGAIN at once, until false is set
 */
GPUD_API void gpud_target_interrupt(struct gpud_target *target, bool interrupted);

/* --- which targets there are --------------------------------------------------------------- */

/** A list of targets: a snapshot, which any threads may read at once. Their files come and go in
 * the directory gpud_channel_search_info.directory. */
struct gpud_target_list;

/** A target in a list. */
struct gpud_target_entry {
    size_t size;                /**< sizeof(the struct), as the caller knows it */
    char name[64];              /**< of the target */
    int64_t pid;                /**< of the process that has it */
    char program[64];           /**< the name of that process; "" where it is not known */
    enum gpud_target_kind kind; /**< of its slots */
    enum gpud_target_pace pace; /**< what the writer is taken for */
    char format[16];            /**< of a frame */
    uint32_t width;             /**< pixels */
    uint32_t height;            /**< rows */
    uint32_t fps_num;           /**< pictures per fps_den seconds; 0/0: not known */
    uint32_t fps_den;           /**< see fps_num */
    uint32_t slots;             /**< of the ring */
};

/** Lists the targets of this user that have a name, by their files.
 *
 * @param list  set to the snapshot, which the caller destroys
 * @param count  set to the number of entries; may be NULL
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_NO_MEMORY  out of memory
 * @retval GPUD_IO  the directory cannot be read
 * @retval GPUD_NO_ACCESS  the directory cannot be read
 */
GPUD_API enum gpud_status gpud_target_list_create(struct gpud_target_list **list, uint32_t *count,
                                                  struct gpud_error *error);

/** Destroys a list.
 *
 * @param list  set to NULL; NULL or a pointer to NULL: nothing happens
 */
GPUD_API void gpud_target_list_destroy(struct gpud_target_list **list);

/** One entry of a list. They are in the order of their names.
 *
 * @param list  the list
 * @param index  0 to the count - 1
 * @param entry  filled as far as its size goes
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_INVALID  there is no such entry, or the size is not set
 */
GPUD_API enum gpud_status gpud_target_list_get_info(const struct gpud_target_list *list,
                                                    uint32_t index, struct gpud_target_entry *entry,
                                                    struct gpud_error *error);

GPUD_END_DECLS

#endif
