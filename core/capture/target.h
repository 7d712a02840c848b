/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* The inside of a target, whose ring somebody outside writes. target.c is the public object,
 * target_ring.c the memory and who keeps it, target_markers.c what the writer says, target_frames.c
 * the frames, target_file.c the file for the writer, target_list.c the files that there are.
 *
 *   writer ──bytes──▶ slot ──marker n + 1──▶ seen ──▶ frame = slot ──released──▶ given_back
 *
 * The words, each in a line of its own of one page of host memory:
 *
 *   given_back, next   ours to write     stopped, marker 0, marker 1…   the writer's
 */
/* clang-format on */
#ifndef GPUD_CAPTURE_TARGET_H
#define GPUD_CAPTURE_TARGET_H

#include "base/lock.h"
#include "frame/frame.h"
#include <gpudirect/target.h>

#define GPUD_TARGET_WORDS_SIZE 4096
#define GPUD_TARGET_GIVEN_BACK 0
#define GPUD_TARGET_NEXT 64
#define GPUD_TARGET_STOPPED 128
#define GPUD_TARGET_MARKER(slot) (192 + 64 * (uint64_t)(slot))
#define GPUD_TARGET_NAME_MAX 64

struct gpud_target_ring;

/* What a frame's owner knows of its slot. */
struct gpud_target_place {
    struct gpud_target_ring *ring;
    uint32_t number; /* the writer's, of the frame that is held */
    bool posted;     /* the frame's queue comes after one of the application's */
    /* What this side knows that the marker reached; any thread raises it. */
    _Atomic uint32_t seen;
    struct gpud_signal *signal; /* the marker, where only a device can look at it; else NULL */
    struct gpud_handle bus;     /* where the writer finds slot and marker on the bus */
};

struct gpud_target_ring {
    struct gpud_kept kept;  /* first */
    struct gpud_work work;  /* its end */
    atomic_uint references; /* the target, or its context, and each frame that somebody has */
    struct gpud_context *context;
    struct gpud_device *device, *host;
    char name[GPUD_TARGET_NAME_MAX]; /* "": nobody takes the ring over */
    enum gpud_target_kind kind;
    enum gpud_target_pace pace;
    struct gpud_layout layout;
    uint32_t fps_num, fps_den;
    uint32_t slots;
    uint64_t slot_size;

    struct gpud_memory *words;
    int words_fd;
    uint32_t memories; /* one a slot, or one for all */
    struct gpud_memory *memory[GPUD_TARGET_SLOTS_MAX];
    int memory_fd; /* -1: none */
    uint64_t memory_fd_offset;
    atomic_bool exposed; /* somebody was given a bus address */

    struct gpud_target_place place[GPUD_TARGET_SLOTS_MAX];
    struct gpud_frame frames[GPUD_TARGET_SLOTS_MAX];

    /* The acquiring thread's. */
    uint32_t posted;     /* frames that the writer has written, as far as was seen */
    int64_t looked;      /* when that was found out */
    int64_t ahead_since; /* a marker is ahead of one before it since then; 0: none is */
    bool broken;         /* the writer broke the rules, or the device failed */

    struct gpud_lock lock; /* of what follows */
    uint32_t next;         /* the number after the last frame that was handed out or dropped */
    uint64_t held;         /* a bit a slot: the application has it */
    uint64_t pending;      /* a bit a slot: it is free, but a device still works on it */
    uint64_t corrupted;    /* frames that were overwritten while they were held */
    bool failed;           /* a device did not do what was enqueued */
};

struct gpud_target {
    struct gpud_context *context;
    struct gpud_target_ring *ring;
    char file[256];
    int file_fd;
    atomic_bool interrupted;

    /* The acquiring thread's. */
    struct gpud_error failure; /* what ended it */
    uint64_t sequence;
    bool discontinuity, said_full;

    struct gpud_lock lock; /* of what follows */
    uint64_t frames, dropped;
    int64_t began, last; /* when it was made; when the last frame came, or 0 */
    char reason[GPUD_REASON_MAX];
};

/* --- target_ring.c ------------------------------------------------------------------------- */

/* A new ring, or one that an earlier target left behind. params are checked and complete. */
enum gpud_status gpud_target_ring_create(struct gpud_context *context, struct gpud_device *device,
                                         struct gpud_device *host,
                                         const struct gpud_target_params *params,
                                         struct gpud_target_ring **ring, struct gpud_error *error);

/* The target goes: frees the ring, or leaves it where the writer may still write. */
void gpud_target_ring_leave(struct gpud_target_ring *ring);
void gpud_target_ring_unref(struct gpud_target_ring *ring);

static inline _Atomic uint32_t *gpud_target_word(const struct gpud_target_ring *ring,
                                                 uint64_t offset)
{
    return (_Atomic uint32_t *)(void *)((char *)ring->words->host + offset);
}

/* Where a slot lies. */
static inline struct gpud_memory *gpud_target_slot_memory(const struct gpud_target_ring *ring,
                                                          uint32_t slot, uint64_t *offset)
{
    *offset = ring->memories == 1 ? slot * ring->slot_size : 0;
    return ring->memory[ring->memories == 1 ? 0 : slot];
}

/* --- target_markers.c ---------------------------------------------------------------------- */

/* Brings ring->posted up to date. GPUD_PEER: the writer lies. */
enum gpud_status gpud_target_look(struct gpud_target_ring *ring, struct gpud_error *error);

/* Sleeps until the next marker is written, or the deadline, or a little while. */
void gpud_target_wait(struct gpud_target_ring *ring, int64_t began, int64_t deadline);

/* Whether the writer has overwritten frame `number`, or may be doing so. From any thread. */
bool gpud_target_is_lapped(const struct gpud_target_ring *ring, uint32_t number);

/* --- target_frames.c ----------------------------------------------------------------------- */

/* Makes the frames of a new ring. */
enum gpud_status gpud_target_frames_create(struct gpud_target_ring *ring, struct gpud_error *error);

/* The next frame of those that were seen; *frame is NULL if there is none. Of its info, the layout,
 * the offset and the flags are filled. *dropped: how many before it nobody will see. */
enum gpud_status gpud_target_take(struct gpud_target_ring *ring, struct gpud_frame **frame,
                                  uint64_t *dropped, struct gpud_error *error);

/* --- target_file.c ------------------------------------------------------------------------- */

#define GPUD_TARGET_FILE_SUFFIX ".target"
#define GPUD_TARGET_FILE_MAX 8192 /* bytes of it */

/* Whether the file that was opened is still the one with that name. */
bool gpud_target_file_is_there(int fd, const char *path);

/* The file of a name, written and locked. *fd holds the lock, by which others see that its owner
 * lives. */
enum gpud_status gpud_target_file_create(const struct gpud_target_ring *ring, char path[256],
                                         int *fd, struct gpud_error *error);
/* Removes it. */
void gpud_target_file_remove(const char *path, int *fd);

#endif
