/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a network card achieves without gpudirect: frames written from registered host memory into
 * another process's by plain RDMA WRITEs, as many at once as there are slots, each with a
 * completion of its own. Two processes, either of which any failure ends:
 *
 *     writer                                    target
 *     listens, says on which port
 *        |<-- connects, with address and key of its memory --|
 *        |==== frames ======================================>|
 *        |---- disconnects --------------------------------->|
 *
 * At a pace each frame ends with a notification (WRITE_WITH_IMM), and the target measures how long
 * after the write was asked for it was woken. */
#ifndef GPUD_TOOLS_CEILINGS_RDMA_H
#define GPUD_TOOLS_CEILINGS_RDMA_H

#include "failure.h"

#include <sys/socket.h>

/* Frames that are written before those that are counted, at a pace. */
#define RAW_RDMA_WARMUP 10

/* Both sides have the same size, slots and pace. */
struct raw_rdma_job {
    const struct sockaddr_storage
        *address;  /* to listen on, at any port; the target: the writer's */
    uint64_t size; /* of a frame, bytes */
    uint32_t slots;
    uint32_t paced; /* how many frames, one after the other; 0: as many and as fast as possible */
    double period;  /* of these, ns */
    int abandoned;  /* the target: a descriptor that is readable when it is to fail; -1: none */
};

/* Writes the frames, and returns how many. listening: told once, with the caller's `user`. rate:
 * set without a pace, frames a second. */
uint64_t raw_rdma_write(const struct raw_rdma_job *job, const struct raw_caller *caller,
                        void (*listening)(void *user, uint16_t port), double *rate);

/* Has its memory written, until the writer disconnects: how many frames came. latencies: ns, of
 * those that are counted, at most `paced`. */
uint64_t raw_rdma_receive(const struct raw_rdma_job *job, const struct raw_caller *caller,
                          int64_t *latencies);

#endif
