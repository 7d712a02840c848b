/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One run: starts its processes, measures the ceilings, and sums it up. */
#ifndef GPUD_TOOLS_BENCH_RUN_H
#define GPUD_TOOLS_BENCH_RUN_H

#include "figures.h"

struct bench_remotes;

/* remotes: the benches on other hosts; NULL: everything is here. */
bool bench_run(const struct bench_job *job, int64_t timeout, struct bench_remotes *remotes,
               struct bench_run *run, struct bench_failure *failure);

/* Says on a terminal which of several runs is at hand, on a line of standard error that is
 * rewritten; 0 removes it. */
void bench_show_progress(uint32_t number, uint32_t count);

/* A private directory for sockets, to be freed with g_free(). NULL: *failure. */
char *bench_make_directory(struct bench_failure *failure);
void bench_remove_directory(const char *path);

#endif
