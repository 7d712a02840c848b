/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Checks: the first one that fails ends the test, with file, line and a sentence. */
#ifndef GPUD_TESTS_CHECK_H
#define GPUD_TESTS_CHECK_H

#include "support/auto.h"

#include <gpudirect/types.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAY(...)             \
    do {                     \
        printf(__VA_ARGS__); \
        putchar('\n');       \
        fflush(stdout);      \
    } while (0)

/* Not exit(): whatever the failure left behind must not make the end hang. */
#define FAIL(...)                                       \
    do {                                                \
        fflush(stdout);                                 \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); \
        fprintf(stderr, __VA_ARGS__);                   \
        fputc('\n', stderr);                            \
        _exit(1);                                       \
    } while (0)

#define SKIP(...)            \
    do {                     \
        printf("skipped: "); \
        printf(__VA_ARGS__); \
        putchar('\n');       \
        exit(77);            \
    } while (0)

/* A case of a test: says what it shows, and shows it. */
#define CASE(says, show) \
    do {                 \
        SAY("%s", says); \
        show;            \
    } while (0)

#define CHECK(condition, ...)                                                     \
    do {                                                                          \
        if (!(condition)) {                                                       \
            fflush(stdout);                                                       \
            fprintf(stderr, "%s:%d: not (%s): ", __FILE__, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__);                                         \
            fputc('\n', stderr);                                                  \
            _exit(1);                                                             \
        }                                                                         \
    } while (0)

#define CHECK_EQUAL(got, wanted)                                          \
    do {                                                                  \
        long long got_ = (long long)(got), wanted_ = (long long)(wanted); \
        if (got_ != wanted_)                                              \
            FAIL("%s is %lld, should be %lld", #got, got_, wanted_);      \
    } while (0)

/* The same of texts; and a text that contains another one. */
#define CHECK_TEXT(got, wanted)                                          \
    do {                                                                 \
        const char *got_ = (got), *wanted_ = (wanted);                   \
        if (strcmp(got_, wanted_) != 0)                                  \
            FAIL("%s is \"%s\", should be \"%s\"", #got, got_, wanted_); \
    } while (0)
#define CHECK_SAYS(text, part)                                                    \
    do {                                                                          \
        const char *text_ = (text), *part_ = (part);                              \
        if (!strstr(text_, part_))                                                \
            FAIL("%s is \"%s\", which does not say \"%s\"", #text, text_, part_); \
    } while (0)

/* The call, whose last argument is &e, ends so; a refusal carries a sentence, which contains the
 * text. */
#define EXPECT(wanted, text, call)                                                            \
    do {                                                                                      \
        struct gpud_error e = {.reason = ""};                                                 \
        enum gpud_status got_ = call;                                                         \
        if (got_ != (wanted))                                                                 \
            FAIL("%s gives \"%s\" where \"%s\" is right; its reason: \"%s\"", #call,          \
                 gpud_status_string(got_), gpud_status_string(wanted), e.reason);             \
        if (got_ != GPUD_OK && (e.status != got_ || strlen(e.reason) < 10))                   \
            FAIL("%s refuses without a sentence: \"%s\"", #call, e.reason);                   \
        if (got_ != GPUD_OK && !strstr(e.reason, text))                                       \
            FAIL("%s refuses with \"%s\", which does not say \"%s\"", #call, e.reason, text); \
    } while (0)
#define WORKS(call) EXPECT(GPUD_OK, "", call)

/* Ends the test by SIGALRM: a hang ends here, whatever the harness does. tools/check sets
 * GPUD_TEST_SLOWER where it prolongs Meson's limits, too: for builds whose code is slow. */
static inline void test_alarm(unsigned seconds)
{
    const char *slower = getenv("GPUD_TEST_SLOWER");
    alarm(slower ? seconds * (unsigned)atoi(slower) : seconds);
}

#endif
