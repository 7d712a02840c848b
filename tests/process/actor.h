/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Who plays in the tests of this folder: actors in processes of their own, an honest stream in the
 * background, a receiver in a thread; and what all tests include. */
#ifndef GPUD_TESTS_ACTOR_H
#define GPUD_TESTS_ACTOR_H

#include "support/check.h"
#include "support/make.h"
#include "support/media.h"
#include "support/peer.h"
#include "support/raw.h"

#include <gpudirect/gpudirect.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

/* Configures the sender for pictures, whose layout it is. */
#define CONFIGURE(sender, format, width, height)                       \
    ({                                                                 \
        struct gpud_layout layout_ = LAYOUT(format, width, height, 0); \
        WORKS(gpud_sender_configure(sender, PICTURE(&layout_), &e));   \
        layout_;                                                       \
    })

/* --- actors ----------------------------------------------------------------------------------- */

/* Other processes of a test, as actors: each plays a part, a function of the test's own, and the
 * test leads it by lines, "word number", which it hears one after the other. It answers by lines of
 * its own, and can be killed at any of them. */
struct actor {
    pid_t pid;
    int wire;
    char said[640]; /* its last line */
};

/* The test's side: */

/* A child of this process, with everything that this one has. */
void actor_fork(struct actor *actor, void (*play)(const void *part), const void *part);
/* This program, started anew: for whatever does not outlive a fork. */
void actor_start(struct actor *actor, const char *part);

/* Lines wait for each other at the actor. */
__attribute__((format(printf, 2, 3))) void actor_tell(struct actor *actor, const char *line, ...);

/* Its next line. */
const char *actor_hear(struct actor *actor);
/* The same, which must be this one. */
void actor_await(struct actor *actor, const char *line);
/* The same, which must be the answer to an order; its number. */
unsigned actor_await_done(struct actor *actor);
/* Whether a line is there; does not wait. */
bool actor_has_line(const struct actor *actor);

/* kill -9. */
void actor_kill(struct actor *actor);
/* Hangs up on it; it must end by exit(0). */
void actor_finish(struct actor *actor);
/* The same without a word to it; signal: that ended it, 0: exit(0). */
void actor_await_end(struct actor *actor, int signal);

/* The actor's side: */

/* For main(), first of all: plays the part with this name and ends, if this process was started for
 * it. */
void actor_main(int argc, char **argv, const char *part, void (*play)(void));

__attribute__((format(printf, 1, 2))) void say(const char *line, ...);
/* The next line; NULL: the test has hung up. */
const char *hear(void);
/* Whether there is a line, or the test has hung up; waits so long at most. */
bool is_told(int64_t timeout);
/* Until it is killed, or the test hangs up. */
void stay(void);

/* Does what each line says, "word number", and says "done" and a number after it, until the test
 * hangs up. */
struct command {
    const char *word; /* NULL ends them */
    unsigned (*run)(unsigned number);
};
void obey(const struct command *commands);

/* Turns this process into another user, with that group besides; 0: with none. */
void become(uid_t user, gid_t group);
/* Some emulators do not report a peer's groups. */
bool groups_are_told(uid_t user, gid_t group);

/* --- a stream in the background --------------------------------------------------------------- */

/* A stream in the background of a test: a sender in this process, whose log is kept, sends a frame
 * a millisecond to an honest receiver in another process. Whatever else connects to the sender, the
 * honest receiver loses no frame. */
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

/* --- a receiver in a thread ------------------------------------------------------------------- */

/* A receiver that acquires in a thread of its own, while the test plays its sender by hand. */
#define ACQUIRE_TIMEOUT (50 * GPUD_MSEC)

struct acquirer {
    struct gpud_receiver *receiver;
    pthread_t thread;
    atomic_bool stop;
    atomic_ullong frames, formats;
    atomic_uint ends;           /* statuses that were neither OK nor a time-out */
    atomic_uint ends_of_stream; /* of them: GPUD_CLOSED */
    atomic_llong longest;       /* that an acquire of ACQUIRE_TIMEOUT took, since the test set it */
    pthread_mutex_t lock;
    enum gpud_status status; /* of the last end */
    char reason[GPUD_REASON_MAX];
};

/* Every frame is read, all of it. */
void acquirer_start(struct acquirer *acquirer, struct gpud_context *context, const char *address);
void acquirer_stop(struct acquirer *acquirer);

/* After `before` ends there is another, which says the text, and is told as the sender's fault or
 * its end. */
void acquirer_ended_at(int line, struct acquirer *acquirer, unsigned before, const char *says);

#endif
