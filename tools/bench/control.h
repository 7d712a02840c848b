/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages between the director and a child, over a stream socket. */
#ifndef GPUD_TOOLS_BENCH_CONTROL_H
#define GPUD_TOOLS_BENCH_CONTROL_H

#include "bench.h"

enum bench_message {
    BENCH_JOB = 1,
    BENCH_LISTENING,
    BENCH_READY,
    BENCH_GO,
    BENCH_STOP,
    BENCH_RESULT, /* struct bench_result, then the latencies */
    BENCH_FAILED, /* struct bench_failure */
};

struct bench_packet {
    enum bench_message type;
    size_t size;
    void *data; /* g_free() it */
};

int64_t bench_now(void);
int64_t bench_cpu_time(void); /* of this process, all threads */
void bench_sleep_until(int64_t when);

/* false: the other end is gone, or takes nothing. */
bool bench_send(int fd, enum bench_message type, const void *data, size_t size);
bool bench_send_result(int fd, const struct bench_result *result, const int64_t *latencies);

enum bench_got { BENCH_GOT, BENCH_GOT_END, BENCH_GOT_NOTHING };
enum bench_got bench_receive(int fd, int64_t deadline, struct bench_packet *packet);

/* --- in a child ------------------------------------------------------------------------------- */

/* Tells the director why, and ends the process at once: the system cleans up what is half done. */
G_NORETURN void bench_child_fail(int fd, enum gpud_status status, const char *format, ...)
    G_GNUC_PRINTF(3, 4);

/* The next message must be this one. Ends the process where the director is gone or silent for too
 * long. */
void bench_child_expect(int fd, enum bench_message type, int64_t deadline, void *data, size_t size);

/* Whether the message has come already. */
bool bench_child_heard(int fd, enum bench_message type);

#endif
