/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* --failover: the main sender of a programme is killed, and its backup takes over. */
#ifndef GPUD_TOOLS_BENCH_FAILOVER_H
#define GPUD_TOOLS_BENCH_FAILOVER_H

#include "options.h"

/* Measures and prints. Returns the exit status. */
int bench_failover_measure(const struct bench_options *options);

#endif
