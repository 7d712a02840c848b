/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* When frames were submitted, in memory that the sender shares with its receivers: for frames that
 * a GPU marks, which cannot carry the time, and for elements, which do not report it. */
#ifndef GPUD_TOOLS_BENCH_SUBMITTIMES_H
#define GPUD_TOOLS_BENCH_SUBMITTIMES_H

#include "bench.h"

/* More than the frames that can be in flight; a frame's time is at index % BENCH_SUBMIT_TIMES. */
#define BENCH_SUBMIT_TIMES 4096

/* A descriptor; -1: out of memory. */
int bench_submit_times_create(void);

/* Maps job->page until the process ends; NULL: it has none. */
int64_t *bench_submit_times_map(const struct bench_job *job, bool writable);

#endif
