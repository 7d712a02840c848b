/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The marks of a frame, which tell its receiver which frame it is and whether it is whole.
 *
 *     | head: magic, index, size, hash, time | … 8 blocks of 256 bytes … | tail |
 *
 * Everything except hash and time depends on the index. Marking and checking takes about a
 * microsecond for any size of frame; in full, every byte is written and hashed. */
#ifndef GPUD_TOOLS_BENCH_FRAMES_H
#define GPUD_TOOLS_BENCH_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#define BENCH_FRAME_MIN 256

void bench_frame_mark(void *data, uint64_t size, uint64_t index, bool full);

/* Sets the time of submitting. It comes last, because marking takes time. */
void bench_frame_set_time(void *data, int64_t time);

/* false: torn, or not a marked frame. *index and *time are the head's even then. */
bool bench_frame_check(const void *data, uint64_t size, bool full, uint64_t *index, int64_t *time);

#endif
