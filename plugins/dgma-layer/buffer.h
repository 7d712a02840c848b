/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The records of the two kinds of memory object. */

#ifndef DGMA_LAYER_BUFFER_H
#define DGMA_LAYER_BUFFER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "aperture.h"
#include "next.h"
#include "object.h"
#include "table.h"

enum dgma_kind { DGMA_BUS, DGMA_EXTERNAL };

struct dgma_buffer {
    enum dgma_kind kind;
    atomic_uint refs;   /* the program's; at 0 the handle is no longer ours */
    cl_mem_flags flags; /* as the program passed them */
    cl_context context;
    size_t size; /* rounded up to a page, as with AMD's driver */
    bool copies; /* the driver keeps its own copy: move the bytes at each signal */
    struct dgma_object *surface_object, *marker_object; /* one reference each; often the same */
    uint8_t *surface;
    _Atomic uint32_t *marker;  /* start of the marker page */
    size_t marker_room;        /* bytes of the mapping from there on */
    struct dgma_write *writes; /* DGMA_EXTERNAL: commands whose bytes are not sent yet, writes.c */
    bool all_written;          /* the whole buffer counts as written */
    struct dgma_copy_queue *copy_queue; /* DGMA_BUS that copies, bring.c */
    uint32_t seen_marker;               /* the poller's, bring.c */
    struct dgma_aperture *aperture;     /* DGMA_BUS; NULL until its device is known */
};

/* These records by their memory objects; changed only by memobject.c. */
extern struct dgma_table dgma_buffers;

/* The record of this memory object, valid as long as `mem` is; NULL: it is not ours. */
struct dgma_buffer *dgma_buffer_get(cl_mem mem);
static inline bool dgma_flags_are_ours(cl_mem_flags flags)
{
    /* AMD's header sign-extends bit 31, so nothing above it may be looked at. */
    return (flags & (CL_MEM_BUS_ADDRESSABLE_AMD | CL_MEM_EXTERNAL_PHYSICAL_AMD)) != 0;
}

/* Places the bus buffer on this device, unless it has one. false: it does not fit, logged. */
bool dgma_buffer_place(struct dgma_buffer *buffer, cl_device_id device);

/* Frees its share of the aperture. */
void dgma_buffer_leave(struct dgma_buffer *buffer);

#endif
