/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a child process runs in each role. Each returns when its work is done; failures are reported
 * on the control socket and end the process. */
#ifndef GPUD_TOOLS_BENCH_ROLES_H
#define GPUD_TOOLS_BENCH_ROLES_H

#include "bench.h"

void bench_run_sender(int control);
void bench_run_receiver_core(int control, const struct bench_job *job);
void bench_run_receiver_gst(int control, const struct bench_job *job);

/* Receivers that connect, take a few frames and leave. */
void bench_run_joiner(int control);

/* One side of many channels. */
void bench_run_channel_senders(int control);
void bench_run_channel_receivers(int control);

/* The process that is woken for the ceiling of latency. */
void bench_run_echo(int control);

/* The process that answers words in shared memory. */
void bench_run_words(int control);

/* A GPU's driver without gpudirect. */
void bench_run_raw(int control);

/* A sender and a receiver on two OpenCL devices, and OpenCL without gpudirect. */
void bench_run_moves(int control);

/* A writer and a reader of pictures that are handed over while they are written. */
void bench_run_lines(int control);

/* A main or backup sender, and their receiver. */
void bench_run_failover_sender(int control);
void bench_run_failover_receiver(int control);

/* A network card without gpudirect: the writer, and the target. */
void bench_run_raw_writer(int control);
void bench_run_raw_target(int control);

#endif
