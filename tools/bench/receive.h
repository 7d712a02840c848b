/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The receiving one of two benches on two hosts (--receive). */
#ifndef GPUD_TOOLS_BENCH_RECEIVE_H
#define GPUD_TOOLS_BENCH_RECEIVE_H

#include "options.h"

/* Waits for the sending bench, runs what it asks for, and reports. Returns the exit status. */
int bench_receive_all(const struct bench_options *options);

#endif
