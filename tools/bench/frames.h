/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How a frame is marked, so that its receiver knows which one it is and whether it is whole.
 *
 *     | head: magic, index, size, hash, time | … 256 bytes in 8 places … | tail |
 *
 * Everything but hash and time depends on the index. Marking and checking these places costs about
 * a microsecond, however large the frame is; in full, every byte is written and hashed. */
#ifndef GPUD_TOOLS_BENCH_FRAMES_H
#define GPUD_TOOLS_BENCH_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#define BENCH_FRAME_MIN 256

void bench_frame_mark(void *data, uint64_t size, uint64_t index, bool full);

/* The moment at which it is handed over: after marking, which takes its time. */
void bench_frame_set_time(void *data, int64_t time);

/* false: not one frame, or not one of ours. *index and *time as the head says, whether or not it
 * can be believed. */
bool bench_frame_check(const void *data, uint64_t size, bool full, uint64_t *index, int64_t *time);

#endif
