/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Other processes of a test, as actors: each plays a part, a function of the test's own, and the
 * test leads it by lines, "word number", which it hears one after the other. It answers by lines of
 * its own, and can be killed at any of them. */
#ifndef GPUD_TESTS_ACTOR_H
#define GPUD_TESTS_ACTOR_H

#include "process.h"

struct actor {
    pid_t pid;
    int wire;
    char said[640]; /* its last line */
};

/* --- the test's side -------------------------------------------------------------------------- */

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

/* --- the actor's side ------------------------------------------------------------------------- */

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

#endif
