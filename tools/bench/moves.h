/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* --migrate: the benefit of moving a frame to another OpenCL device as soon as it is submitted.
 * Both ends are in one process, the child with the role `moves`. */
#ifndef GPUD_TOOLS_BENCH_MOVES_H
#define GPUD_TOOLS_BENCH_MOVES_H

#include "options.h"

/* Measures and prints. Returns the exit status. */
int bench_moves_measure(const struct bench_options *options);

#endif
