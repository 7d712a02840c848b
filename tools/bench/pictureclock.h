/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The clock that a test card draws into its pictures, read back from them. The kernel's vivid
 * writes " HH:MM:SS:mmm N" at (16,16), in letters of 8x16 pixels: the time since the stream began,
 * to the kernel's tick, and the picture's number. No font is known here: the driver says which
 * number each picture has, and by that the digits are learned, and each number is checked. */
#ifndef GPUD_TOOLS_BENCH_PICTURECLOCK_H
#define GPUD_TOOLS_BENCH_PICTURECLOCK_H

#include <gpudirect/layout.h>

#define BENCH_CLOCK_CELLS 24

/* The letters of one picture: a bit a pixel, set where it is bright. */
struct bench_clock_text {
    uint8_t cell[BENCH_CLOCK_CELLS][16];
};

/* Which digit looks how. */
struct bench_clock {
    uint8_t digit[10][16];
    bool known[10];
};

/* false: no picture of this layout is read, *reason says why. */
bool bench_clock_read(const struct gpud_layout *layout, const void *data,
                      struct bench_clock_text *text, const char **reason);

/* From all pictures, with their numbers. false: they carry no such clock. */
bool bench_clock_learn(struct bench_clock *clock, const struct bench_clock_text *texts,
                       const uint32_t *numbers, size_t count);

/* The picture's time, ms since the stream began; -1: it cannot be read. *right: its number is the
 * one that the driver says. */
int64_t bench_clock_time(const struct bench_clock *clock, const struct bench_clock_text *text,
                         uint32_t number, bool *right);

#endif
