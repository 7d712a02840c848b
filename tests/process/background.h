/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A stream in the background of a test: a sender in this process, whose log is kept, sends a frame
 * a millisecond to an honest receiver in another process. Whatever else connects to the sender, the
 * honest receiver loses no frame. */
#ifndef GPUD_TESTS_BACKGROUND_H
#define GPUD_TESTS_BACKGROUND_H

#include "process.h"

#define BACKGROUND_ADDRESS "background"

struct background {
    const char *device;        /* the sender's; NULL: the host */
    struct gpud_layout layout; /* of its frames; of size 0: chosen here */
    struct baseline before;
    struct gpud_context *context;
    struct gpud_sender *sender;
    struct peer honest;
    pthread_t thread;
    atomic_bool stop;
    atomic_ullong number;
    atomic_llong worst;    /* ns that a hand-over took */
    atomic_bool configure; /* the thread does, before its next frame */
};

void background_start(struct background *background);
/* The honest receiver got every frame, in order; the sender ends quickly; on the host nothing is
 * left open. */
void background_stop(struct background *background);

/* A new epoch of the same format, by the thread that submits. */
void background_configure(struct background *background);

/* Waits until the honest receiver has more than so many frames more. */
void background_flows(struct background *background, unsigned frames);

/* Waits until only the honest receiver is connected and its frames flow on. */
void background_goes_on(struct background *background);

/* The main of a test: each in turn (or the one whose number is the argument), and after each the
 * stream goes on, and the log is cleared. */
struct background_test {
    const char *says;
    void (*run)(void);
};
int background_main(struct background *background, const struct background_test *tests,
                    size_t count, int argc, char **argv);

/* Hangs up, which the log says; clears it. */
void hang_up_heard(struct raw *raw);

/* A lie was told on this connection: it ends within the time, and the log says why. Closes it and
 * clears the log. */
void turned_out_at(const char *file, int line, struct raw *raw, const char *says, int64_t patience);
#define TURNED_OUT(raw, says) turned_out_at(__FILE__, __LINE__, raw, says, 3 * GPUD_SEC)

#endif
