/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The marks of a frame that a GPU writes or reads by copies alone: 16 bytes at the start of four
 * rows of the first plane, from the first row to about the last, so that one strided copy covers
 * all. They hold the frame's index, and show whether its beginning, middle and end belong to one
 * frame.
 *
 * Some frames of a run, or all with --verify full, are also filled with a byte that depends on the
 * index, and every byte is checked. */
#ifndef GPUD_TOOLS_BENCH_ROWS_H
#define GPUD_TOOLS_BENCH_ROWS_H

#include "bench.h"

#define BENCH_ROWS 4
#define BENCH_ROW 16
#define BENCH_ROWS_SIZE (BENCH_ROWS * BENCH_ROW)
#define BENCH_WHOLE_FRAMES 8 /* of the measured section: this many are checked to the last byte */

/* Whether the GPU itself works on frames on this device of the job. Elements support CUDA's memory
 * only. */
bool bench_works_on_gpu(const struct bench_job *job, const char *device);

/* The same for any receiver's device. */
bool bench_reads_on_gpu(const struct bench_job *job);

/* Whether frames of this job are marked this way: a GPU at one end writes or reads them. */
bool bench_uses_rows(const struct bench_job *job);

/* false: the frame is too small for the marks. */
bool bench_rows_fit(const struct gpud_layout *layout);

/* Bytes from one mark to the next. The first is at the plane's offset. */
uint64_t bench_rows_pitch(const struct gpud_layout *layout);

/* The marks of a frame, one after the other. */
void bench_rows_make(void *rows, uint64_t index);

/* false: not the marks of one frame. *index is that of the first. */
bool bench_rows_check(const void *rows, uint64_t *index);

/* Whether this frame is filled, and checked to the last byte. */
bool bench_rows_is_whole(const struct bench_job *job, uint64_t index);
uint8_t bench_rows_filler(uint64_t index);

/* Marks and checks by the CPU, filled frames in full. */
void bench_rows_mark(void *frame, const struct gpud_layout *layout, const struct bench_job *job,
                     uint64_t index);
bool bench_rows_check_frame(const void *frame, const struct gpud_layout *layout,
                            const struct bench_job *job, uint64_t *index);

/* Checks only the marks. */
bool bench_rows_check_marks(const void *frame, const struct gpud_layout *layout, uint64_t *index);

/* Checks every byte of the picture. */
bool bench_rows_check_whole(const void *frame, const struct gpud_layout *layout, uint64_t index);

#endif
