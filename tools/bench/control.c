/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "control.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WRITE_DEADLINE_S 10

struct header {
    uint64_t type, size;
};

/* --- sending ---------------------------------------------------------------------------------- */

static bool send_all(int fd, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

static bool send_parts(int fd, enum bench_message type, const void *data, size_t size,
                       const void *more, size_t more_size)
{
    const struct timeval timeout = {.tv_sec = WRITE_DEADLINE_S};
    struct header header = {.type = type, .size = size + more_size};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    return send_all(fd, &header, sizeof(header)) && send_all(fd, data, size) &&
           send_all(fd, more, more_size);
}

bool bench_send(int fd, enum bench_message type, const void *data, size_t size)
{
    return send_parts(fd, type, data, size, NULL, 0);
}

bool bench_send_result(int fd, const struct bench_result *result, const int64_t *latencies)
{
    return send_parts(fd, BENCH_RESULT, result, sizeof(*result), latencies,
                      bench_sample_count(result) * sizeof(*latencies));
}

/* --- receiving -------------------------------------------------------------------------------- */

/* An incomplete message counts as none. */
static enum bench_receipt receive_all(int fd, int64_t deadline, void *data, size_t size)
{
    char *at = data;
    while (size > 0) {
        int64_t left = deadline - clock_now();
        enum bench_receipt missed = at == data ? BENCH_TIMED_OUT : BENCH_GONE;
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int polled = poll(&ready, 1, left > 0 ? (int)MIN(left / GPUD_MSEC + 1, 1000) : 0);
        if (polled < 0)
            return missed; /* interrupted by a signal: the caller checks for one */
        if (polled == 0) {
            if (left <= 0)
                return missed;
            continue;
        }
        ssize_t got = recv(fd, at, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return BENCH_GONE;
        at += got;
        size -= (size_t)got;
    }
    return BENCH_RECEIVED;
}

enum bench_receipt bench_receive(int fd, int64_t deadline, uint64_t max,
                                 struct bench_packet *packet)
{
    struct header header;
    enum bench_receipt got = receive_all(fd, deadline, &header, sizeof(header));
    if (got != BENCH_RECEIVED)
        return got;
    if (header.size > max)
        return BENCH_GONE;
    /* A message that has begun is read to its end, because the next one starts behind it. */
    void *data = g_malloc(header.size + 1);
    got = receive_all(fd, MAX(deadline, clock_now() + BENCH_STEP_TIMEOUT), data, header.size);
    if (got != BENCH_RECEIVED) {
        g_free(data);
        return BENCH_GONE;
    }
    *packet = (struct bench_packet){
        .type = (enum bench_message)header.type, .size = header.size, .data = data};
    return BENCH_RECEIVED;
}

bool bench_fail(struct bench_failure *failure, enum gpud_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    failure->status = status;
    vsnprintf(failure->reason, sizeof(failure->reason), format, args);
    va_end(args);
    return false;
}

void bench_clean_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    char *valid = g_utf8_make_valid(text, -1);
    for (char *at = valid; *at; at = g_utf8_next_char(at))
        if (!g_unichar_isprint(g_utf8_get_char(at)))
            memset(at, '?', (size_t)(g_utf8_next_char(at) - at));
    g_strlcpy(text, valid, size);
    g_free(valid);
}

void bench_clean_result(struct bench_result *result)
{
    bench_clean_text(result->route, sizeof(result->route));
    bench_clean_text(result->fallback_reason, sizeof(result->fallback_reason));
}

/* --- in a child ------------------------------------------------------------------------------- */

void bench_child_fail(int fd, enum gpud_status status, const char *format, ...)
{
    struct bench_failure failure = {.status = status};
    va_list args;
    va_start(args, format);
    vsnprintf(failure.reason, sizeof(failure.reason), format, args);
    va_end(args);
    bench_send(fd, BENCH_FAILED, &failure, sizeof(failure));
    _exit(EXIT_FAILURE);
}

G_NORETURN static void fail(void *user, enum gpud_status status, const char *reason)
{
    bench_child_fail(*(const int *)user, status, "%s", reason);
}

struct raw_caller bench_child_caller(const int *fd)
{
    return (struct raw_caller){.fail = fail, .user = (void *)(uintptr_t)fd};
}

void bench_child_expect(int fd, enum bench_message type, int64_t deadline, void *data, size_t size)
{
    struct bench_packet packet;
    enum bench_receipt got = bench_receive(fd, deadline, BENCH_MESSAGE_MAX, &packet);
    if (got == BENCH_GONE)
        _exit(EXIT_FAILURE);
    if (got == BENCH_TIMED_OUT)
        bench_child_fail(fd, GPUD_TIMEOUT,
                         "the coordinator of the measurement did not go on in time");
    if (packet.type != type || packet.size != size)
        bench_child_fail(fd, GPUD_INVALID,
                         "the coordinator of the measurement sent message %d instead of %d",
                         (int)packet.type, (int)type);
    if (size)
        memcpy(data, packet.data, size);
    g_free(packet.data);
}

bool bench_child_received(int fd, enum bench_message type)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (poll(&ready, 1, 0) <= 0)
        return false;
    bench_child_expect(fd, type, clock_now() + BENCH_STEP_TIMEOUT, NULL, 0);
    return true;
}
