/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a connected sender and its receivers cost while no frames are sent. */
#ifndef GPUD_TOOLS_BENCH_IDLE_H
#define GPUD_TOOLS_BENCH_IDLE_H

#include "children.h"

/* Sets idle_percent of these children, measured for so many ns; unchanged for one that has
 * ended. */
void bench_idle_measure(struct bench_child *children, size_t count, int64_t duration);

#endif
