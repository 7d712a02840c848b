/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages between the coordinator and a child, over a stream socket. */
#ifndef GPUD_TOOLS_BENCH_CONTROL_H
#define GPUD_TOOLS_BENCH_CONTROL_H

#include "bench.h"
#include "ceilings/failure.h"
#include "clock.h"

enum bench_message {
    BENCH_JOB = 1,
    BENCH_LISTENING, /* a port, or nothing */
    BENCH_READY,
    BENCH_GO,
    BENCH_STOP,
    BENCH_RESULT, /* struct bench_result, then its samples */
    BENCH_FAILED, /* struct bench_failure */
    /* Between two hosts: hosts.h. */
    BENCH_HELLO,
    BENCH_ORDER,
    BENCH_IDLE, /* to a receiving bench: nothing; the answer: a double, % of one CPU */
    BENCH_RAW,  /* a port */
    BENCH_SUMMARY,
};

struct bench_packet {
    enum bench_message type;
    size_t size;
    void *data; /* to be freed with g_free() */
};

/* false: the other end is gone, or did not read in time. */
bool bench_send(int fd, enum bench_message type, const void *data, size_t size);
bool bench_send_result(int fd, const struct bench_result *result, const int64_t *latencies);

enum bench_receipt { BENCH_RECEIVED, BENCH_GONE, BENCH_TIMED_OUT };
/* max: largest message in bytes; a longer one counts as the end (BENCH_GONE). */
#define BENCH_MESSAGE_MAX (UINT64_C(1) << 28)
enum bench_receipt bench_receive(int fd, int64_t deadline, uint64_t max,
                                 struct bench_packet *packet);

/* Fills in a failure and returns false. */
bool bench_fail(struct bench_failure *failure, enum gpud_status status, const char *format, ...)
    G_GNUC_PRINTF(3, 4);

/* Cleans text from another host: terminates it, and removes a terminal's control characters. */
void bench_clean_text(char *text, size_t size);
void bench_clean_result(struct bench_result *result);

/* --- in a child ------------------------------------------------------------------------------- */

/* Reports the reason to the coordinator and ends the process, whose resources the system frees. */
G_NORETURN void bench_child_fail(int fd, enum gpud_status status, const char *format, ...)
    G_GNUC_PRINTF(3, 4);

/* The same for a measurement without gpudirect: its `user` is the control socket. */
struct raw_caller bench_child_caller(const int *fd);

/* Receives the next message, which must be of this type. Ends the process if the coordinator is
 * gone, or silent until the deadline. */
void bench_child_expect(int fd, enum bench_message type, int64_t deadline, void *data, size_t size);

/* Whether this message has come; does not wait. */
bool bench_child_received(int fd, enum bench_message type);

#endif
