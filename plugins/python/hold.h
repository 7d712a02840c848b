/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A frame and all that uses its bytes: the Frame object, its planes, buffers and tensors. The last
 * of them to go gives the frame back, on any thread, with or without the GIL.
 *
 * Every holder of a reference may read the constant fields. Whatever drops the GIL has a reference
 * of its own, since another thread may release the Frame meanwhile: HELD declares one. `frame`,
 * `mapped` and the streams are guarded by `calls`, which is held while the library waits for the
 * frame and is therefore taken only without the GIL. The info is read with either of them and
 * changed with both. hold_unref() takes no lock: it is alone with the frame. */
#ifndef GPUDIRECT_PYTHON_HOLD_H
#define GPUDIRECT_PYTHON_HOLD_H

#include "media.h"
#include "python.h"

#include <gpudirect/sender.h>

#include <pthread.h>
#include <stdatomic.h>

/* Streams of consumers that use one frame. */
#define HOLD_STREAMS_MAX 16

enum hold_device {
    HOLD_HOST,
    HOLD_CUDA,
    HOLD_HIP,
    HOLD_OPENCL,
    HOLD_VULKAN,
};

struct hold {
    atomic_uint refs;
    atomic_uint arrays; /* those of refs that use the bytes: planes, buffers, tensors */
    /* constant */
    struct media *media;
    char *native; /* of the frame's first byte; or the object that it is offset bytes in */
    uint64_t offset;
    char device[32];
    char route[32]; /* by which the frame came; "": it did not */
    enum hold_device kind;
    int number; /* of the device among its kind */
    bool lent;  /* by a sender: to be written, and submitted */
    bool read_only;
    bool allow_old_dlpack; /* although that cannot say that the frame is read-only */
    long pid;

    struct gpud_frame_info info; /* as it arrived; of a lent frame, as it shall be submitted */
    void *large_meta;            /* its own copy of info's, which outlives the frame */

    pthread_mutex_t calls;
    struct gpud_frame *frame;        /* NULL: submitted */
    struct gpud_frame *keeper;       /* of a submitted frame: keeps its memory for its arrays */
    void *mapped;                    /* by gpud_frame_map(); NULL: it is not */
    bool by_lines;                   /* its rows are waited for, or submitted, a part at a time */
    void *streams[HOLD_STREAMS_MAX]; /* that the release or the submission waits for */
    unsigned stream_count;
};

/* Owns the frame in any case. NULL with an exception if it fails. */
struct hold *hold_new(struct gpud_frame *frame, struct media *media, bool lent);
struct hold *hold_ref(struct hold *hold);
void hold_unref(struct hold *hold);

static inline void hold_cleanup(struct hold **hold)
{
    hold_unref(*hold);
}
/* A variable whose reference, or NULL, ends with its block. */
#define HELD __attribute__((cleanup(hold_cleanup))) struct hold *

/* A reference of an array's. It is taken before the check that the bytes are there, so that a
 * submission by another thread keeps their memory. */
struct hold *hold_ref_array(struct hold *hold);
void hold_unref_array(struct hold *hold);

/* Whether native is an object of the driver's (cl_mem, VkBuffer), and no address. */
static inline bool hold_is_object(const struct hold *hold)
{
    return hold->kind == HOLD_OPENCL || hold->kind == HOLD_VULKAN;
}

/* Whether the frame is not submitted, and whether a part of its rows is. */
bool hold_has_frame(struct hold *hold, bool *by_lines);
/* Whether the bytes are still those of the frame. */
bool hold_is_valid(struct hold *hold);
/* 0, or -1 with an exception if the bytes may not be used any more. */
int hold_check(struct hold *hold);

/* Encloses a change of the info, for which it takes `calls` as well. 0, or -1 with an exception if
 * the frame was submitted. */
int hold_begin_change(struct hold *hold);
void hold_end_change(struct hold *hold);

/* Sets how many bytes are in use, before the first array. 0, or -1 with an exception. */
int hold_set_size(struct hold *hold, uint64_t bytes);

/* Copies the bytes into the info. 0, or -1 with an exception. */
int hold_set_large_meta(struct hold *hold, const void *bytes, size_t size);

/* Waits until the CPU may use the bytes, without the GIL. 0, or -1 with an exception. */
int hold_map(struct hold *hold);
/* Where they are then: of a frame on a GPU, in the library's copy of it. NULL: it cannot be mapped,
 * as its rows are waited for a part at a time. */
char *hold_mapped(struct hold *hold);

/* Waits for the first rows, without the GIL; from then on nothing waits for the others. 0, or -1
 * with an exception. */
int hold_wait_lines(struct hold *hold, uint32_t lines, int64_t timeout_ns);

/* Puts a wait for the frame on a stream, and lets the frame's release wait for another, which is
 * often the same. 0, or -1 with an exception. */
int hold_join(struct hold *hold, bool wait, void *stream, void *release_stream);

/* Takes the frame out, to be submitted: its info is set and the consumers' streams are posted. NULL
 * with an exception. */
struct gpud_frame *hold_take(struct hold *hold);
/* A part of submitting the first rows of a lent frame, which stays here. Without the GIL. */
enum gpud_status hold_submit_lines(struct hold *hold, struct gpud_sender *sender, uint32_t lines,
                                   int64_t timeout_ns, struct gpud_error *error);
/* Undoes hold_take(). */
void hold_put_back(struct hold *hold, struct gpud_frame *frame);

#endif
