/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The command line. */
#ifndef GPUD_TOOLS_BENCH_OPTIONS_H
#define GPUD_TOOLS_BENCH_OPTIONS_H

#include "bench.h"

struct bench_options {
    struct bench_job ours;
    struct bench_job peer; /* with --compare */
    bool compare;
    uint32_t runs;
    bool json;
    bool isolated;   /* each process in a PID namespace of its own */
    int64_t timeout; /* of one run */
};

/* false: nothing to run; *status is the exit status, and the reason was printed. */
bool bench_options_parse(int argc, char **argv, struct bench_options *options, int *status);

#endif
