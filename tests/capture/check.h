/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Checks that end the program at the first failure, with file, line and a sentence. */
#ifndef GPUD_TESTS_CAPTURE_CHECK_H
#define GPUD_TESTS_CAPTURE_CHECK_H

#include <gpudirect/types.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition, ...)                                               \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__);                                   \
            fprintf(stderr, "\n");                                          \
            abort();                                                        \
        }                                                                   \
    } while (0)

#define CHECK_EQUAL(got, wanted)                                                              \
    CHECK((uint64_t)(got) == (uint64_t)(wanted), "is %lld, should be %lld", (long long)(got), \
          (long long)(wanted))

/* The call, whose last argument is &e, ends so; a refusal carries a sentence, and it contains the
 * text. */
#define EXPECT(wanted, text, call)                                                               \
    do {                                                                                         \
        struct gpud_error e = {.reason = ""};                                                    \
        enum gpud_status ended = call;                                                           \
        CHECK(ended == (wanted), "%s: gave %s: %s", #call, gpud_status_string(ended), e.reason); \
        CHECK(ended == GPUD_OK || (e.reason[0] && e.status == ended), "%s: no sentence", #call); \
        CHECK(strstr(e.reason, text), "%s: \"%s\" does not say \"%s\"", #call, e.reason, text);  \
    } while (0)
#define WORKS(call) EXPECT(GPUD_OK, "", call)

#endif
