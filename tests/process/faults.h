/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The driver or the C library fails: each function once, in its first call, or a later one, in a
 * process of its own in which a few frames go from one device to another. Whatever it was: nothing
 * crashes or hangs, every refusal has a sentence, a picture that arrives is whole or flagged, and
 * none is lost without a word. */
#ifndef GPUD_TESTS_FAULTS_H
#define GPUD_TESTS_FAULTS_H

#include <stdbool.h>
#include <stddef.h>

struct faults {
    const char *origin;   /* "the driver" */
    const char *variable; /* of the environment: "function:n" makes the n-th call fail */
    const char *const *function;
    size_t count;
    unsigned (*failures)(void); /* in this process, so far */
    /* Whether what a process said (the file's name) and its exit status are no more than what must
     * follow from this function's failure. NULL: nothing must. */
    bool (*excuses)(const char *function, int status, const char *out);
};

/* The main of a test: <from> <to> tries each function with its calls 1, 4, 16…; a third argument:
 * with each of its calls. */
int faults_main(const struct faults *faults, int argc, char **argv);

#endif
