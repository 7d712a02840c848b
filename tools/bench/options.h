/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The command line. */
#ifndef GPUD_TOOLS_BENCH_OPTIONS_H
#define GPUD_TOOLS_BENCH_OPTIONS_H

#include "bench.h"

/* Limits, also for a bench on another host. */
#define BENCH_FRAMES_MIN 2
#define BENCH_FRAMES_MAX 10000000
#define BENCH_FRAME_MAX (UINT64_C(1) << 30) /* bytes */
#define BENCH_WARMUP_MAX 1000000
#define BENCH_RUNS_MAX 1000
#define BENCH_RATE_MIN 0.1
#define BENCH_RATE_MAX 1e5
#define BENCH_IDLE_MAX 3600 /* s */
#define BENCH_ROWS_UNFIT \
    "--width %u --height %u: too small to be marked by a GPU: 4 lines of 16 bytes are needed"

#define BENCH_CHANNEL_ROWS 16 /* numbers of channels in one command */

struct bench_options {
    struct bench_job ours;
    struct bench_job peer; /* with --compare */
    bool compare;
    bool capture;      /* no link: `ours` says what a card captures, and has its address */
    bool receive;      /* `ours` is the receiver's part of a job that the sending bench completes */
    bool migrate;      /* --migrate, from one OpenCL device to another */
    char report[4096]; /* --report: a folder; "": none */
    bool quick, draw;  /* --quick and --draw, with it */
    bool failover;     /* --failover */
    uint32_t channels[BENCH_CHANNEL_ROWS]; /* --channels */
    uint32_t channel_rows;                 /* 0: not given */
    bool apart;                            /* each channel in two processes of its own */
    bool start;                            /* --start: `ours` says where, and what pictures */
    uint32_t runs;
    bool json;
    bool isolated;   /* each process in a PID namespace of its own */
    int64_t timeout; /* of one run */
};

/* false: nothing to run; *status is the exit status, and the reason was printed. */
bool bench_options_parse(int argc, char **argv, struct bench_options *options, int *status);

#endif
