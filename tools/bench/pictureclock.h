/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The clock that a test card draws into its pictures, read back from them. The kernel's vivid
 * writes " HH:MM:SS:mmm N" at (16,16), in letters of 8x16 pixels: the time since the stream began,
 * to the kernel's tick, and the picture's number. The font is unknown here: the driver reports each
 * picture's number, from which the digits are learned, and each number is checked. */
#ifndef GPUD_TOOLS_BENCH_PICTURECLOCK_H
#define GPUD_TOOLS_BENCH_PICTURECLOCK_H

#include <gpudirect/layout.h>

#define BENCH_CLOCK_CELLS 24

/* The letters of one picture: a bit for each pixel, set if it is bright. */
struct bench_clock_text {
    uint8_t cell[BENCH_CLOCK_CELLS][16];
};

/* What each digit looks like. */
struct bench_clock {
    uint8_t digit[10][16];
    bool known[10];
};

/* false: pictures of this layout cannot be read, *reason says why. */
bool bench_clock_read(const struct gpud_layout *layout, const void *data,
                      struct bench_clock_text *text, const char **reason);

/* Learns from all pictures, with their numbers. false: they carry no such clock. */
bool bench_clock_learn(struct bench_clock *clock, const struct bench_clock_text *texts,
                       const uint32_t *numbers, size_t count);

/* The picture's time, ms since the stream began; -1: it cannot be read. *right: its number is the
 * driver's. */
int64_t bench_clock_time(const struct bench_clock *clock, const struct bench_clock_text *text,
                         uint32_t number, bool *right);

#endif
