/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* --start: where the time from gst-launch-1.0 to the first picture goes. */
#ifndef GPUD_TOOLS_BENCH_START_H
#define GPUD_TOOLS_BENCH_START_H

#include "options.h"

/* Measures and prints; returns the exit status. */
int bench_start_measure(const struct bench_options *options);

#endif
