/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Marks of frames in a GPU's memory, written and read by work on a stream, as an application's own
 * work is: the CPU waits for none of it. The same calls serve the core and the elements. In a
 * child: failures end the process. */
#ifndef GPUD_TOOLS_BENCH_CUDAMARKS_H
#define GPUD_TOOLS_BENCH_CUDAMARKS_H

#include "bench/rawcuda.h"
#include "rows.h"
#include "tally.h"

/* --- writing ---------------------------------------------------------------------------------- */

struct bench_stamper;

struct bench_stamper *bench_stamper_create(const struct bench_job *job, int control);
void bench_stamper_destroy(struct bench_stamper *stamper);

/* Until the marks on this stream are there, for a reader that does not wait for the stream. */
void bench_stamper_finish(struct bench_stamper *stamper, raw_stream stream);

/* Enqueues marking of the frame that lies at address. The context that the stream belongs to is
 * current. */
void bench_stamper_mark(struct bench_stamper *stamper, raw_stream stream, raw_address address,
                        const struct gpud_layout *layout, uint64_t index);

/* --- reading ---------------------------------------------------------------------------------- */

/* What arrived, in order. The marks of a frame are copied into pinned memory in the stream's order,
 * and looked at when they are there: when the next frames come, or at the end. */
struct bench_log;

/* whole: some frames, or all, are also checked to the last byte, as bench_rows_is_whole() says. */
struct bench_log *bench_log_create(const struct bench_job *job, int control,
                                   struct bench_tally *tally, bool whole);
void bench_log_destroy(struct bench_log *log);

/* Enqueues the copy. acquired: when the CPU had the frame; submitted: when it was handed over, 0:
 * unknown; explained: frames reported as dropped so far. At a pace it also waits, without
 * sleeping, until the GPU has come past everything that was on the stream before, for the latency
 * that the GPU sees. */
void bench_log_frame(struct bench_log *log, raw_stream stream, raw_address address,
                     const struct gpud_layout *layout, int64_t acquired, int64_t submitted,
                     uint64_t explained);

/* Waits, without sleeping, until the marks of no more than `most` frames are under way, and tells
 * of how many they are. */
size_t bench_log_settle(struct bench_log *log, size_t most);

/* All of them, and those that are checked to the last byte. */
void bench_log_finish(struct bench_log *log);

#endif
