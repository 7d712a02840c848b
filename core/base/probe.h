/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Places that a tracer can attach to while the program runs (USDT, provider "gpudirect"): bpftrace,
 * perf, SystemTap, gdb. Until one does, each is one instruction that does nothing. Names and
 * arguments are for people: pipelines/monitoring/frames.bt uses them. */
#ifndef GPUD_BASE_PROBE_H
#define GPUD_BASE_PROBE_H

/* clang-format off */
/*     submit    sender   its receivers  sequence        a frame is handed to the library
 *     publish   sender   link           sequence        a receiver may take it
 *     drop      sender   link           lost so far     a receiver loses a frame
 *     claim     session  sequence       latency in ns   a receiver takes a frame; 0: unknown
 *     release   session  entry          frames so far   and gives it back */
/* clang-format on */
#if GPUD_WITH_PROBES
#include <sys/sdt.h>
#define GPUD_PROBE(name, object, a, b) DTRACE_PROBE3(gpudirect, name, object, a, b)
#else
#define GPUD_PROBE(name, object, a, b) ((void)0)
#endif

#endif
