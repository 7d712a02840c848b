/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Shared memory with a bus address. */

#ifndef DGMA_LAYER_OBJECT_H
#define DGMA_LAYER_OBJECT_H

#include <CL/cl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct dgma_object {
    cl_ulong base; /* bus address of the first byte */
    size_t total;  /* bytes mapped: the surface, then one marker page */
    uint8_t *map;
    int owner_pid;                /* 0: imported */
    struct dgma_written *written; /* NULL: the owner works in place */
    atomic_uint refs;
    atomic_uint pending_writes; /* WriteSignals of this process enqueued and not yet executed */
    struct dgma_object *next;   /* in the list of owned objects, under the registry's lock */
};

#endif
