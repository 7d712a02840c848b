/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* --migrate: what it is worth that a frame begins to move to another OpenCL device as soon as it is
 * submitted. Both ends are in one process, the child that plays the role `moves`. */
#ifndef GPUD_TOOLS_BENCH_MOVES_H
#define GPUD_TOOLS_BENCH_MOVES_H

#include "options.h"

/* Measures and prints; the exit status. */
int bench_moves_measure(const struct bench_options *options);

#endif
