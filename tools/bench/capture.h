/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* --capture: what a capture card's frames cost, and how old they are when they can be shown. */
#ifndef GPUD_TOOLS_BENCH_CAPTURE_H
#define GPUD_TOOLS_BENCH_CAPTURE_H

#include "options.h"

/* Measures and prints it. Returns the exit status. */
int bench_capture_run(const struct bench_options *options);

#endif
