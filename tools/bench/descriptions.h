/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The descriptions of the elements that frames go through. */
#ifndef GPUD_TOOLS_BENCH_DESCRIPTIONS_H
#define GPUD_TOOLS_BENCH_DESCRIPTIONS_H

#include "bench.h"

/* The caps of a job. */
void bench_describe_caps(struct bench_job *job);

/* Fills in the braces of the gst-launch descriptions of sink and source, except {dir} and
 * {device}. */
bool bench_describe(struct bench_job *job, const char *sink, const char *src);

/* The same for gpudirectsink and gpudirectsrc. */
bool bench_describe_ours(struct bench_job *job);

#endif
