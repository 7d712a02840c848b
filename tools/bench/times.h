/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The times at which frames were handed over, in pages that the sender shares with its receivers:
 * for frames that only a GPU writes, and elements that tell nothing. */
#ifndef GPUD_TOOLS_BENCH_TIMES_H
#define GPUD_TOOLS_BENCH_TIMES_H

#include "bench.h"

#define BENCH_TIMES \
    4096 /* more than frames can be under way; a frame's is at index % BENCH_TIMES */

/* -1: the system gives none. */
int bench_times_create(void);

/* Of job->page; NULL: there are none. Goes with the process. */
int64_t *bench_times_map(const struct bench_job *job, bool writable);

#endif
