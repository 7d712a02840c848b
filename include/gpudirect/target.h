/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* A ring that somebody outside writes by himself: an SDI card's SDK, an FPGA, another process. He
 * is given the addresses of the slots and of their markers, and needs no code of this library.
 *
 *   gpud_target_create
 *     → gpud_target_get_slot, for each slot: what the writer is to know
 *     → { gpud_target_acquire → use → gpud_frame_get_info → gpud_frame_release }…
 *     → gpud_target_destroy
 *
 * What the writer does
 *
 *   1. Frame n, counted from 0, goes to slot n % slots, in the layout that the ring was made for.
 *   2. When all its bytes are there, the 32-bit value n + 1 is written to that slot's marker, in
 *      the byte order of this machine, as one write of 4 bytes behind those of the picture (on
 *      DirectGMA: clEnqueueWriteSignalAMD). So slot s has the values s + 1, s + 1 + slots,
 *      s + 1 + 2 · slots…
 *   3. A marker starts at 0 and only grows; it never wraps (6). Values are compared unsigned.
 *      Frames come in order, and none is left out: one that the writer itself lost has no number.
 *   4. A writer that starts, for the first time or again, begins with the frame number that stands
 *      in the word `next`, which is 0 in a new ring.
 *   5. A polite writer (GPUD_TARGET_PACED) begins to write frame n only when the word `given_back`
 *      stands above n - slots: frames before given_back are not read any more. A card that cannot
 *      wait (GPUD_TARGET_FREE_RUNNING) writes on.
 *   6. Numbers end before GPUD_TARGET_FRAMES_MAX (at 60 frames a second after 414 days): the writer
 *      stops there. acquire gives GPUD_CLOSED after the last frame, and a new target begins at 0.
 *   7. A writer that will never write into this ring again may store 1 to the word `stopped`.
 *
 * Markers run from the writer to this side only. `given_back`, `next` and `stopped` are words in
 * host memory, 32 bits each: the first two are written by this side and read by the writer, where
 * it can; the third is the writer's. Who writes a marker in host memory from a process may wake
 * this side with FUTEX_WAKE on it, and is seen within a millisecond if not.
 *
 * What this side does with it
 *
 *   - A frame is handed out when its marker was seen. No queue of a GPU ever waits for a marker
 *     that may not come.
 *   - It never waits for a slot that the writer has overwritten: it goes on with the newest whole
 *     frame, counts those in between as dropped, and says GPUD_FRAME_DISCONTINUITY.
 *   - A held frame that the writer has overwritten, or may be overwriting by now, gets
 *     GPUD_FRAME_CORRUPTED: ask gpud_frame_get_info() after the bytes were used. A free-running
 *     writer may be overwriting a frame as soon as it has written slots - 1 others after it.
 *   - A marker that goes back, has a value that its slot never has, or is ahead of the ones before
 *     it ends the target: GPUD_PEER, with the sentence, from then on. On DirectGMA a marker can
 *     only be compared, so that one that goes back, or has a neighbour's value, is not seen.
 *   - A writer that does not write is GPUD_TIMEOUT, and the sentence says since when.
 *
 * Nothing keeps the writer within the ring: it is trusted with what its addresses reach. There is
 * no descriptor to poll, for nothing raises one when a card writes a word: call acquire in a
 * thread.
 *
 * The file for a writer in another process, `NAME.target`, has a line `key=value` each, numbers
 * in decimal but for addresses (0x…). It is whole when it is there. A writer keeps it open: once it
 * can have a shared lock on it (flock), the target is gone or its process died, and the file, if
 * another one is there, is to be read anew. Keys that are not known are to be skipped.
 *
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
 *
 * Thread-safety: acquire and destroy come from one thread at a time; get_slot, get_info and
 * interrupt may be called from any, also during an acquire; frames may be released from any thread,
 * also after destroy. */
/* clang-format on */
#ifndef GPUDIRECT_TARGET_H
#define GPUDIRECT_TARGET_H

#include <gpudirect/frame.h>

GPUD_BEGIN_DECLS

struct gpud_target;

#define GPUD_TARGET_SLOTS_MAX 32
#define GPUD_TARGET_FRAMES_MAX 2147483584 /* frames of one ring: 2^31 - 64 */

enum gpud_target_pace {
    GPUD_TARGET_FREE_RUNNING, /* the writer heeds nothing */
    GPUD_TARGET_PACED,        /* it waits for `given_back` */
};

struct gpud_target_params {
    size_t size;
    const struct gpud_layout *layout; /* required; copied */
    const char *device;               /* where the ring lies; NULL: "host" */
    uint32_t slots;                   /* 2 to GPUD_TARGET_SLOTS_MAX; 0: 4 */
    enum gpud_target_pace pace;
    uint32_t fps_num, fps_den; /* for the frames' duration and the file; 0/0: not known */
    /* A bare name ("cam1"): what the writer is to know stands in the file `cam1.target` in the
     * user's runtime directory, as long as the target lives; see gpud_target_info.file. NULL: no
     * file. */
    const char *name;
};

enum gpud_target_kind {
    GPUD_TARGET_HOST,        /* surface and marker are host memory */
    GPUD_TARGET_BUS_ADDRESS, /* DirectGMA: surface and marker are addresses on the bus */
    GPUD_TARGET_DMABUF,      /* the surface is a dma-buf of GPU memory, the marker host memory */
};

/* What the writer is to know of one slot. Secrets: whoever has them writes the ring. Descriptors
 * and pointers are the target's, and valid until destroy; to be used longer, or passed to another
 * process, a descriptor is duplicated. */
struct gpud_target_slot {
    size_t size;
    enum gpud_target_kind kind;
    uint64_t surface_address, marker_address; /* bus addresses; 0: it has none */
    void *surface, *marker;                   /* in this process; NULL: not host memory */
    int surface_fd, marker_fd;                /* a memfd or a dma-buf; -1: none */
    uint64_t surface_offset, marker_offset;   /* in those */
    uint64_t bytes;                           /* of the slot: whole pages */
    uint32_t first, step; /* the marker's values: first, first + step, first + 2 · step… */
};

struct gpud_target_info {
    size_t size;
    char path[32]; /* "target-host", "target-directgma", "target-dmabuf" */
    struct gpud_layout layout;
    uint32_t slots;
    int words_fd; /* a memfd with the words, the target's; and the words in this process */
    void *words;
    uint32_t given_back_offset, next_offset, stopped_offset; /* in both */
    char file[256]; /* the whole path of the writer's file; "": there is none */
    uint64_t frames;
    uint64_t dropped;   /* that the writer wrote, and nobody saw */
    uint64_t corrupted; /* that were overwritten, or may have been, while they were held */
    uint64_t age_ns;    /* ns since the last frame was seen; GPUD_TIME_NONE: there was none */
    char reason[GPUD_REASON_MAX]; /* what ended it; or why there is no frame; "": there are */
};

/* Makes the ring and, with a name, the file, which goes with the target; the memory is zeroed and
 * the markers are at 0.
 *
 * Memory whose bus address was given out (get_slot, or a file) cannot be taken back from the
 * writer. Unless that says that it has stopped, destroy leaves such a ring behind, and a target of
 * the same name, device, slot size and number of slots in this context takes it over: at the same
 * addresses, where the writer is by now. Without a name it stays until the process ends.
 *
 *   GPUD_INVALID      a parameter, or the layout, is wrong
 *   GPUD_UNSUPPORTED  nobody outside can write memory of the device, and why
 *   GPUD_NO_MEMORY    it does not fit (DirectGMA's aperture)
 *   GPUD_NO_ACCESS    the runtime directory is not the user's alone
 *   GPUD_IO           another target, here or in another process, has the name */
GPUD_API enum gpud_status gpud_target_create(struct gpud_context *context,
                                             const struct gpud_target_params *params,
                                             struct gpud_target **target, struct gpud_error *error);

/* Removes the file. Frames that are held stay valid, and may still be overwritten. */
GPUD_API void gpud_target_destroy(struct gpud_target **target);

/* GPUD_INVALID: there are not so many slots. */
GPUD_API enum gpud_status gpud_target_get_slot(struct gpud_target *target, uint32_t index,
                                               struct gpud_target_slot *slot,
                                               struct gpud_error *error);

/* clang-format off */
/* The next frame; pts_ns and submitted_ns are when its marker was seen, offset is the writer's number.
 *
 *   GPUD_TIMEOUT  no frame until then, and since when; or all slots are held
 *   GPUD_AGAIN    gpud_target_interrupt() is in effect
 *   GPUD_PEER     the writer broke the rules above: make a new target
 *   GPUD_CLOSED   the numbers are used up: make a new target
 *   GPUD_IO       the device failed: make a new target
 */
/* clang-format on */
GPUD_API enum gpud_status gpud_target_acquire(struct gpud_target *target, int64_t timeout_ns,
                                              struct gpud_frame **frame, struct gpud_error *error);

GPUD_API void gpud_target_get_info(struct gpud_target *target, struct gpud_target_info *info);
GPUD_API void gpud_target_interrupt(struct gpud_target *target, bool interrupted);

/* --- which targets there are --------------------------------------------------------------- */

/* The targets of this user that have a name, by their files, which come and go in the directory
 * that gpud_channel_list_get_directory() names.
 *
 * Thread-safety: a list is a snapshot, which any threads may read at once. *list is set only on
 * success, and the caller's to destroy; destroying NULL, or a pointer to NULL, does nothing. */
struct gpud_target_list;

struct gpud_target_entry {
    size_t size;
    char name[64];
    int64_t pid;      /* of the process that has it, and shows what is written */
    char program[64]; /* the name of that process; "" where it is not known */
    enum gpud_target_kind kind;
    enum gpud_target_pace pace;
    char format[16];
    uint32_t width, height;
    uint32_t fps_num, fps_den; /* 0/0: not known */
    uint32_t slots;
};

GPUD_API enum gpud_status gpud_target_list_create(struct gpud_target_list **list,
                                                  struct gpud_error *error);
GPUD_API void gpud_target_list_destroy(struct gpud_target_list **list);

GPUD_API uint32_t gpud_target_list_count(const struct gpud_target_list *list);

/* In the order of their names. GPUD_INVALID: the index is the count or more, or entry->size is not
 * set. */
GPUD_API enum gpud_status gpud_target_list_get_info(const struct gpud_target_list *list,
                                                    uint32_t index, struct gpud_target_entry *entry,
                                                    struct gpud_error *error);

GPUD_END_DECLS

#endif
