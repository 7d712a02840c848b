/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* From what the processes of a run have measured to the figures of its report. */
#ifndef GPUD_TOOLS_BENCH_FIGURES_H
#define GPUD_TOOLS_BENCH_FIGURES_H

#include "children.h"
#include "run.h"

struct bench_processes {
    struct bench_child
        child[1 + GPUD_RECEIVERS_MAX]; /* the sender, the receivers, the joiner if any */
    size_t count;
    size_t receivers;
};

/* All but the ceilings. */
void bench_figures_sum_up(const struct bench_processes *processes, const struct bench_job *job,
                          struct bench_run *run);

/* The ratios to the ceilings, once both are known. */
void bench_figures_compare(const struct bench_job *job, struct bench_run *run);

#endif
