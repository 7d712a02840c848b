/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the tests of targets share: a target on the device that the program was started for, and its
 * writer. */
#ifndef GPUD_TESTS_TARGET_ENDS_H
#define GPUD_TESTS_TARGET_ENDS_H

#include "base/base.h"
#include "support/check.h"
#include "target_writer.h"

#define LONG (20 * GPUD_SEC) /* never reached, but by a failure */
#define SLOTS 4

struct ends {
    struct gpud_context *context;
    struct gpud_target *target;
    struct gpud_layout layout;
    struct gpud_target_params params;
    struct writer writer;
};

extern char runtime[]; /* XDG_RUNTIME_DIR */

#define UNTIL(condition)                                         \
    for (int64_t until_ = gpud_deadline(LONG); !(condition);     \
         nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL)) \
    CHECK(gpud_now() < until_, "never: %s", #condition)

/* By ends->params. */
void make_target(struct ends *ends);
void start_with(struct ends *ends, enum gpud_target_pace pace, const char *name);
void start(struct ends *ends);
/* Of a writer that stops. */
void end(struct ends *ends);
struct gpud_frame_info info_of(const struct gpud_frame *frame);
struct gpud_frame *take(struct ends *ends);
void check_picture(struct ends *ends, struct gpud_frame *frame, uint32_t number);
/* A device sees markers a little later than they are written. */
void see_all(struct ends *ends);
/* The next frame is whole, and of this number. */
void expect(struct ends *ends, uint32_t number, uint32_t flags, uint64_t dropped);
struct gpud_target_info info_now(struct ends *ends);
bool is_corrupted(const struct gpud_frame *frame);

/* Twice, and nothing is left behind. */
int run_twice(int argc, char **argv, void (*everything)(void));

#endif
