/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Writes and reads marks of frames in GPU memory by work on a stream, as an application would do:
 * the CPU does not wait. Used for the core and for elements, in child processes: failures end the
 * process. */
#ifndef GPUD_TOOLS_BENCH_GPUMARKS_H
#define GPUD_TOOLS_BENCH_GPUMARKS_H

#include "ceilings/driver.h"
#include "counters.h"
#include "rows.h"

/* --- writing ---------------------------------------------------------------------------------- */

struct bench_mark_writer;

/* The driver must be open. This applies to both directions. */
struct bench_mark_writer *bench_mark_writer_create(const struct raw_driver *driver,
                                                   const struct bench_job *job, int control);
void bench_mark_writer_destroy(struct bench_mark_writer *writer);

/* Waits until the marks are written, for a receiver that does not order its work after this
 * stream. */
void bench_mark_writer_finish(struct bench_mark_writer *writer, raw_stream stream);

/* Enqueues the marks of the frame at `address`. The stream's GPU must be current. */
void bench_mark_writer_mark(struct bench_mark_writer *writer, raw_stream stream,
                            raw_address address, const struct gpud_layout *layout, uint64_t index);

/* --- reading ---------------------------------------------------------------------------------- */

/* Reads marks in the order of frames: they are copied into pinned memory on the stream, and checked
 * once they are there, when later frames come or at the end. */
struct bench_mark_reader;

/* gpu: where frames are. whole: frames are also checked to the last byte, as bench_rows_is_whole()
 * decides. */
struct bench_mark_reader *bench_mark_reader_create(const struct raw_driver *driver, unsigned gpu,
                                                   const struct bench_job *job, int control,
                                                   struct bench_counters *counters, bool whole);
void bench_mark_reader_destroy(struct bench_mark_reader *reader);

/* Enqueues the copy of a frame's marks. acquired: when the CPU had the frame; submitted: 0:
 * unknown. With --fps it also polls until the GPU has finished earlier work on the stream, which
 * gives the latency as seen by the GPU. */
void bench_mark_reader_add(struct bench_mark_reader *reader, raw_stream stream, raw_address address,
                           const struct gpud_layout *layout, int64_t acquired, int64_t submitted,
                           uint64_t reported_drops);

/* Polls until the marks of at most `most` frames are pending; returns how many are. */
size_t bench_mark_reader_wait(struct bench_mark_reader *reader, size_t most);

/* Waits for all pending marks, and finishes checking to the last byte. */
void bench_mark_reader_finish(struct bench_mark_reader *reader);

#endif
