/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* --channels: what many channels cost at a pace, in two processes or in two each. */
#ifndef GPUD_TOOLS_BENCH_CHANNELS_H
#define GPUD_TOOLS_BENCH_CHANNELS_H

#include "options.h"

/* Measures and prints. Returns the exit status. */
int bench_channels_measure(const struct bench_options *options);

#endif
