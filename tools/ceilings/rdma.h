/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a network card achieves without gpudirect: frames written from registered host memory into
 * another process's by plain RDMA WRITEs, as many at once as there are slots, each with a
 * completion of its own. Two processes; a failure of either ends both:
 *
 *     writer                                    target
 *     listens, says on which port
 *        |<-- connects, with address and key of its memory --|
 *        |==== frames ======================================>|
 *        |---- disconnects --------------------------------->|
 *
 * With a pace, each frame ends with a notification (WRITE_WITH_IMM), and the target measures the
 * time from the request of the write to its waking. */
#ifndef GPUD_TOOLS_CEILINGS_RDMA_H
#define GPUD_TOOLS_CEILINGS_RDMA_H

#include "failure.h"

#include <sys/socket.h>

/* Frames written before the counted ones, with a pace. */
#define RAW_RDMA_WARMUP 10

/* Both sides have the same size, slots and pace. */
struct raw_rdma_job {
    const struct sockaddr_storage
        *address;  /* to listen on, at any port; for the target: the writer's */
    uint64_t size; /* of a frame, bytes */
    uint32_t slots;
    uint32_t paced; /* how many frames, one after the other; 0: as many and as fast as possible */
    double period;  /* between these, ns */
    int abandoned;  /* for the target: a descriptor, readable when it has to fail; -1: none */
};

/* Writes the frames, and returns how many. listening: called once, with the caller's `user`. rate:
 * set without a pace, frames a second. */
uint64_t raw_rdma_write(const struct raw_rdma_job *job, const struct raw_caller *caller,
                        void (*listening)(void *user, uint16_t port), double *rate);

/* Lets the writer write until it disconnects; returns how many frames came. latencies: ns, of the
 * counted frames, at most `paced`. */
uint64_t raw_rdma_receive(const struct raw_rdma_job *job, const struct raw_caller *caller,
                          int64_t *latencies);

#endif
