/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Two benches on two hosts. They use TCP, on the port after the link's, and the messages of one
 * bench's processes. The sending one listens, like its sender; the receiving one stands for a
 * receiver's process.
 *
 *     --to rdma://A:7174 --remote            --receive rdma://A:7174
 *        |<-------------- HELLO -------------->|   on connecting
 *        |--------------- ORDER -------------->|   for each run; its receiver starts
 *        |   READY, IDLE, STOP, RESULT, as on one host
 *        |--------------- RAW ---------------->|   its raw target starts
 *        |<-------------- RESULT --------------|
 *        |--------------- SUMMARY ------------>|   both print the whole report
 *
 * FAILED in either direction ends both, and so does a lost connection. Everything from the other
 * side is checked here. Numbers have the machine's byte order; hosts with another one are
 * refused. */
#ifndef GPUD_TOOLS_BENCH_HOSTS_H
#define GPUD_TOOLS_BENCH_HOSTS_H

#include "children.h"

/* The largest message of the other side, except for a result's samples. */
#define BENCH_HOSTS_MESSAGE_MAX 8192

/* One run, as a receiver needs to know it. */
struct bench_order {
    uint32_t runs;
    char from[32], format[16], route[32];
    uint32_t width, height, fps_num, fps_den, frames, warmup, slots, slow_receiver;
    uint32_t foreign, full, elements;
    int64_t idle;
};

struct bench_summary {
    struct bench_result sender;
    double idle_percent; /* of the sender */
    double write;        /* the ceiling, frames a second; 0: not measured */
};

/* Exchanges greetings. *device: the receivers', which the receiving side sends. */
bool bench_hosts_greet(int fd, char device[32], struct bench_failure *failure);

void bench_hosts_order(const struct bench_job *job, uint32_t runs, struct bench_order *order);

/* Fills in a job from the other side's order; this side's own choices stay. */
bool bench_hosts_take_order(struct bench_order *order, struct bench_job *job,
                            struct bench_failure *failure);

/* The largest possible result of this job, in bytes. */
size_t bench_hosts_result_max(const struct bench_job *job);

/* Takes over the reason of the other side's FAILED. */
void bench_hosts_take_failure(const struct bench_packet *packet, const char *who,
                              struct bench_failure *failure);

#endif
