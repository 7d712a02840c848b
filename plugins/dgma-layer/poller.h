/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The thread that completes the operations that queues wait for. */

#ifndef DGMA_LAYER_POLLER_H
#define DGMA_LAYER_POLLER_H

#include <stdbool.h>

#include "buffer.h"
#include "written.h"

enum dgma_op_kind { DGMA_OP_WAIT, DGMA_OP_WRITE, DGMA_OP_RESIDENT };

/* An operation that runs once `gate` has completed (NULL: at once), and then completes `done`. */
struct dgma_op {
    struct dgma_op *next;
    enum dgma_op_kind kind;
    cl_event gate;      /* owned */
    cl_event done;      /* a user event, owned */
    cl_event behind[2]; /* the events that `done` blocks, owned: PoCL aborts if a command fails
                         * whose event has no reference */
    cl_mem mem;         /* WAIT, WRITE: retained, keeps `marker` and `object` alive */
    struct dgma_object *object; /* WRITE: the object whose pending_writes it decrements */
    _Atomic uint32_t *marker;
    uint32_t value;           /* WAIT: complete at marker >= value; WRITE: what to store */
    uint32_t seen;            /* WAIT: the marker when last polled */
    struct dgma_buffer *copy; /* WAIT: the buffer whose copy is updated; WRITE: the written one */
    cl_command_queue copy_queue; /* WAIT: the queue for the update, owned */
    cl_event before_copy;        /* WAIT: the update waits for this event, owned */
    bool brought;                /* WAIT: the update is done, or will be once `gate` completes */
    struct dgma_box *boxes;      /* WRITE: the written ranges, owned */
    cl_uint num_boxes;
    cl_uint count;           /* RESIDENT */
    cl_bus_address_amd *out; /* the program's */
    cl_bus_address_amd addresses[];
};

bool dgma_poller_start(void); /* false: the thread could not be started, logged */
/* Takes ownership of the operation in any case. The poller must have been started. */
void dgma_poller_submit(struct dgma_op *op);
/* Completes `done` and frees the operation, also one that never reached the poller. */
void dgma_op_finish(struct dgma_op *op, cl_int status);
/* Releases a gate, unless it has failed: PoCL reports a failure before it has finished with the
 * event, and would abort. Such an event is leaked. */
void dgma_gate_release(cl_event gate);
/* Registers a callback, so that the poller notices the gate's completion without polling. */
void dgma_poller_watch(cl_event gate);
/* Makes the poller check all operations again, because a gate has completed. */
void dgma_poller_ring(void);
void dgma_poller_finish(void);
/* A release store, which then wakes all sleepers on that word, in any process. */
void dgma_marker_write(_Atomic uint32_t *marker, uint32_t value);

#endif
