/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* --lines: what is gained where pictures are handed over while they are written. Both ends are in
 * one process, the child with the role `lines`. */
#ifndef GPUD_TOOLS_BENCH_LINES_H
#define GPUD_TOOLS_BENCH_LINES_H

#include "options.h"

/* Measures and prints. Returns the exit status. */
int bench_lines_measure(const struct bench_options *options);

#endif
