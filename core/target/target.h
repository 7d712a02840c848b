/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Targets: a third-party device writes the ring. */
#ifndef GPUD_TARGET_TARGET_H
#define GPUD_TARGET_TARGET_H

#include "base/base.h"
#include "frame/frame.h"
#include <gpudirect/target.h>

/* === state =================================================================================== */
/* clang-format off */
/* A target: a ring that a writer outside of this library fills. What its files share.
 *
 *   writer ──bytes──▶ slot ──marker n + 1──▶ seen ──▶ frame = slot ──released──▶ given_back
 *
 * The words, each in a line of its own of one page of host memory:
 *
 *   given_back, next   this side writes     stopped, marker 0, marker 1…   the writer does
 *
 * The line of a marker also has the slot's word `lines`, by which the writer announces rows.
 *
 * ring.c owns the ring's memory, reads what the writer says, and makes frames of the slots.
 * target.c is the public object: it tells a writer in another process where the ring is. */
/* clang-format on */

#define GPUD_TARGET_WORDS_SIZE 4096
#define GPUD_TARGET_GIVEN_BACK 0
#define GPUD_TARGET_NEXT 64
#define GPUD_TARGET_STOPPED 128
#define GPUD_TARGET_MARKER(slot) (192 + 64 * (uint64_t)(slot))
#define GPUD_TARGET_LINES(slot) (GPUD_TARGET_MARKER(slot) + 8)
#define GPUD_TARGET_NAME_MAX 64

struct gpud_target_ring;

/* What a frame's owner knows about its slot. */
struct gpud_target_place {
    struct gpud_target_ring *ring;
    uint32_t number; /* the writer's number of the held frame */
    bool posted;     /* the frame's queue comes after one of the application's */
    bool early;      /* the frame was handed out before its marker, which nothing waited for yet */
    _Atomic uint32_t lines; /* of the held frame: the most that were announced, and seen */
    atomic_bool torn;       /* they became fewer */
    /* The marker's highest value seen by this side; any thread raises it. */
    _Atomic uint32_t seen;
    struct gpud_signal *signal; /* the marker, where only a device can read it; else NULL */
    struct gpud_handle bus;     /* bus addresses of slot and marker, for the writer */
};

struct gpud_target_ring {
    struct gpud_kept kept;  /* must be first */
    struct gpud_work work;  /* ends the ring */
    atomic_uint references; /* of the target, or its context, and each acquired frame */
    struct gpud_context *context;
    struct gpud_device *device, *host;
    char name[GPUD_TARGET_NAME_MAX]; /* "": no later target takes the ring over */
    enum gpud_target_kind kind;
    enum gpud_target_pace pace;
    struct gpud_layout layout;
    uint32_t fps_num, fps_den;
    uint32_t slots;
    uint64_t slot_size;
    bool by_lines;    /* frames are handed out at their first announced row */
    atomic_bool lied; /* more rows were announced than a frame has */

    struct gpud_memory *words;
    int words_fd;
    uint32_t memories; /* one for each slot, or one for all */
    struct gpud_memory *memory[GPUD_TARGET_SLOTS_MAX];
    int memory_fd; /* -1: none */
    uint64_t memory_fd_offset;
    atomic_bool exposed; /* a bus address was handed out */

    struct gpud_target_place place[GPUD_TARGET_SLOTS_MAX];
    struct gpud_frame frames[GPUD_TARGET_SLOTS_MAX];

    /* Used by the acquiring thread only. */
    uint32_t posted;   /* frames seen as written */
    int64_t looked;    /* when that was last updated */
    int64_t gap_since; /* when a marker was first seen ahead of an earlier one; 0: none is */
    bool broken;       /* the writer broke the rules, or the device failed */

    struct gpud_lock lock; /* guards what follows */
    uint32_t next;         /* the number after the last frame that was handed out or dropped */
    uint64_t held;         /* a bit for each slot: the application has it */
    uint64_t pending;      /* a bit for each slot: released, but a device still works on it */
    uint64_t corrupted;    /* frames that were overwritten while held */
    bool failed;           /* a device failed to do enqueued work */
};

static inline _Atomic uint32_t *gpud_target_word(const struct gpud_target_ring *ring,
                                                 uint64_t offset)
{
    return (_Atomic uint32_t *)(void *)((char *)ring->words->host + offset);
}

/* The memory that contains a slot. */
static inline struct gpud_memory *gpud_target_slot_memory(const struct gpud_target_ring *ring,
                                                          uint32_t slot, uint64_t *offset)
{
    *offset = ring->memories == 1 ? slot * ring->slot_size : 0;
    return ring->memory[ring->memories == 1 ? 0 : slot];
}

/* === markers ================================================================================= */

/* Brings ring->posted up to date. GPUD_PEER: the writer broke the rules. */
enum gpud_status gpud_target_look(struct gpud_target_ring *ring, struct gpud_error *error);

/* Sleeps until the next marker is written, until the deadline, or for a short while. */
void gpud_target_wait(struct gpud_target_ring *ring, int64_t began, int64_t deadline);

/* The next detected frame, or NULL in *frame. Fills in the layout, the offset and the
 * flags of its info. *dropped: how many frames before it were lost. */
enum gpud_status gpud_target_take(struct gpud_target_ring *ring, struct gpud_frame **frame,
                                  uint64_t *dropped, struct gpud_error *error);

/* === ring ==================================================================================== */

/* A new ring, or one that an earlier target left behind. params are checked and complete. */
enum gpud_status gpud_target_ring_create(struct gpud_context *context, struct gpud_device *device,
                                         struct gpud_device *host,
                                         const struct gpud_target_params *params,
                                         struct gpud_target_ring **ring, struct gpud_error *error);

/* Ends the target's use: frees the ring, or leaves it where the writer may still write. */
void gpud_target_ring_leave(struct gpud_target_ring *ring);

/* === target ================================================================================== */

struct gpud_target {
    struct gpud_context *context;
    struct gpud_target_ring *ring;
    char file[256];
    int file_fd;
    struct gpud_target_slot slots[GPUD_TARGET_SLOTS_MAX];
    const struct gpud_target_slot *slot[GPUD_TARGET_SLOTS_MAX]; /* to each of them */
    atomic_bool interrupted;

    /* Used by the acquiring thread only. */
    struct gpud_error failure; /* why it ended */
    uint64_t sequence;
    bool discontinuity, said_full;

    struct gpud_lock lock; /* guards what follows */
    uint64_t frames, dropped;
    int64_t began, last; /* when it was created; when the last frame came, or 0 */
    char reason[GPUD_REASON_MAX];
};

#endif
