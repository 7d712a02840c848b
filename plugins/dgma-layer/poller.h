/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The one thread that completes what a queue waits for. */

#ifndef DGMA_LAYER_POLLER_H
#define DGMA_LAYER_POLLER_H

#include <stdbool.h>

#include "buffer.h"
#include "written.h"

enum dgma_op_kind { DGMA_OP_WAIT, DGMA_OP_WRITE, DGMA_OP_RESIDENT };

/* Something to be done once `gate` has completed (NULL: at once), after which `done` completes. */
struct dgma_op {
    struct dgma_op *next;
    enum dgma_op_kind kind;
    cl_event gate;      /* owned */
    cl_event done;      /* a user event, owned */
    cl_event behind[2]; /* what `done` holds back, owned: PoCL aborts if a command fails whose
                         * event nobody holds */
    cl_mem mem;         /* WAIT, WRITE: retained, keeps `marker` and `object` alive */
    struct dgma_object *object; /* WRITE: whose pending_writes goes down */
    _Atomic uint32_t *marker;
    uint32_t value;           /* WAIT: complete at marker >= value; WRITE: what to store */
    uint32_t seen;            /* WAIT: the marker when last looked at */
    struct dgma_buffer *copy; /* WAIT: its copy gets what was written; WRITE: whose writer it is */
    cl_command_queue copy_queue; /* WAIT, through this, owned */
    cl_event before_copy;        /* WAIT: nothing is brought in before this one, owned */
    bool brought;                /* WAIT: it has, or will have once `gate` is complete */
    struct dgma_box *boxes;      /* WRITE: what was written, owned */
    cl_uint num_boxes;
    cl_uint count;           /* RESIDENT */
    cl_bus_address_amd *out; /* the program's */
    cl_bus_address_amd addresses[];
};

bool dgma_poller_start(void); /* false: the thread could not be started, logged */
/* Takes the operation over, whatever happens. The poller runs. */
void dgma_poller_submit(struct dgma_op *op);
/* Completes `done` and frees the operation, also one that never reached the poller. */
void dgma_op_finish(struct dgma_op *op, cl_int status);
/* Not if it has failed: that shows before PoCL is through with it, and then it aborts. Such an
 * event is left to the system. */
void dgma_gate_release(cl_event gate);
/* The poller looks at gates by itself too; this makes it quick. */
void dgma_poller_watch(cl_event gate);
/* The poller looks at everything again: a gate has completed. */
void dgma_poller_ring(void);
void dgma_poller_finish(void);
/* A release store, then whoever sleeps on that word, in any process, wakes. */
void dgma_marker_write(_Atomic uint32_t *marker, uint32_t value);

#endif
