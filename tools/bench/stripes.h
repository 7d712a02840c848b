/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Writes and reads parts of a picture where a frame lies: by the CPU in host memory, by a GPU's
 * driver, and by OpenCL, which writes a target over the bus. One for each thread; failures end the
 * process. */
#ifndef GPUD_TOOLS_BENCH_STRIPES_H
#define GPUD_TOOLS_BENCH_STRIPES_H

#include "bench.h"

struct bench_stripes;

/* data: a picture's bytes in host memory, from which parts are written and into which they are
 * read; set to NULL by bench_stripes_close(). */
struct bench_stripes *bench_stripes_open(int control, const char *device, uint64_t size,
                                         uint8_t **data);
void bench_stripes_close(struct bench_stripes *stripes);

/* A frame that may be written, and that another stream may still read. */
void bench_stripes_begin(struct bench_stripes *stripes, struct gpud_frame *frame);

/* Returns when the bytes are there. */
void bench_stripes_write(struct bench_stripes *stripes, const struct gpud_frame_info *info,
                         uint64_t offset, uint64_t size);
void bench_stripes_read(struct bench_stripes *stripes, const struct gpud_frame_info *info,
                        uint64_t offset, uint64_t size);

/* The same for a target's slot, as an external writer: the bytes, and its marker. */
void bench_stripes_write_slot(struct bench_stripes *stripes, const struct gpud_target_slot *slot,
                              uint32_t index, uint64_t offset, uint64_t size);
void bench_stripes_mark_slot(struct bench_stripes *stripes, const struct gpud_target_slot *slot,
                             uint32_t index, uint32_t value);

#endif
