/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "actor.h"

#include <grp.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define PATIENCE_MS 60000

/* --- the test's side -------------------------------------------------------------------------- */

static int wire = -1; /* of an actor: to its test */

static void make_wire(int ends[2])
{
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "socketpair: %s",
          strerror(errno));
}

void actor_fork(struct actor *actor, void (*play)(const void *part), const void *part)
{
    int ends[2];
    make_wire(ends);
    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        test_alarm(100); /* not inherited */
        close(ends[0]);
        wire = ends[1];
        play(part);
        _exit(0);
    }
    close(ends[1]);
    *actor = (struct actor){.pid = pid, .wire = ends[0]};
}

void actor_start(struct actor *actor, const char *part)
{
    int ends[2];
    make_wire(ends);
    *actor = (struct actor){.pid = peer_spawn(part, ends[1]), .wire = ends[0]};
}

static void write_line(int to, const char *line, va_list arguments)
{
    char text[sizeof((struct actor *)0)->said];
    int length = vsnprintf(text, sizeof(text), line, arguments);
    CHECK(send(to, text, (size_t)length, MSG_NOSIGNAL) == length, "\"%s\" is not heard: %s", text,
          strerror(errno));
}

void actor_tell(struct actor *actor, const char *line, ...)
{
    va_list arguments;
    va_start(arguments, line);
    write_line(actor->wire, line, arguments);
    va_end(arguments);
}

const char *actor_hear(struct actor *actor)
{
    struct pollfd look = {.fd = actor->wire, .events = POLLIN};
    CHECK(poll(&look, 1, PATIENCE_MS) == 1, "the other process says nothing");
    ssize_t got = recv(actor->wire, actor->said, sizeof(actor->said) - 1, 0);
    CHECK(got > 0, "the other process ended, after \"%s\"", actor->said);
    actor->said[got] = '\0';
    return actor->said;
}

void actor_await(struct actor *actor, const char *line)
{
    CHECK(strcmp(actor_hear(actor), line) == 0, "the other process says \"%s\" instead of \"%s\"",
          actor->said, line);
}

unsigned actor_await_done(struct actor *actor)
{
    unsigned number = 0;
    CHECK(sscanf(actor_hear(actor), "done %u", &number) == 1,
          "the other process says \"%s\" instead of \"done\"", actor->said);
    return number;
}

bool actor_has_line(const struct actor *actor)
{
    struct pollfd look = {.fd = actor->wire, .events = POLLIN};
    return poll(&look, 1, 0) == 1;
}

void actor_kill(struct actor *actor)
{
    spawned_kill(actor->pid);
    close(actor->wire);
}

void actor_await_end(struct actor *actor, int signal)
{
    spawned_await_end(actor->pid, signal);
    close(actor->wire);
}

void actor_finish(struct actor *actor)
{
    shutdown(actor->wire, SHUT_WR); /* whichever other actors have a copy of this end */
    actor_await_end(actor, 0);
}

/* --- the actor's side ------------------------------------------------------------------------- */

void actor_main(int argc, char **argv, const char *part, void (*play)(void))
{
    if (argc < 3 || strcmp(argv[1], part) != 0)
        return;
    wire = atoi(argv[2]);
    spawned_begin();
    play();
    exit(0);
}

void say(const char *line, ...)
{
    va_list arguments;
    va_start(arguments, line);
    write_line(wire, line, arguments);
    va_end(arguments);
}

const char *hear(void)
{
    static char text[sizeof((struct actor *)0)->said];
    ssize_t got = recv(wire, text, sizeof(text) - 1, 0);
    if (got <= 0)
        return NULL;
    text[got] = '\0';
    return text;
}

bool is_told(int64_t timeout)
{
    struct pollfd look = {.fd = wire, .events = POLLIN};
    return poll(&look, 1, (int)(timeout / GPUD_MSEC)) == 1;
}

void stay(void)
{
    while (hear())
        ;
}

void obey(const struct command *commands)
{
    for (const char *line; (line = hear()) != NULL;) {
        const struct command *command = commands;
        size_t length = strcspn(line, " ");
        while (command->word &&
               (strlen(command->word) != length || strncmp(line, command->word, length) != 0))
            command++;
        CHECK(command->word, "\"%s\" is no command", line);
        say("done %u", command->run((unsigned)atoi(line + length)));
    }
}

void become(uid_t user, gid_t group)
{
    if (setgroups(group ? 1 : 0, &group) < 0 || setresgid(user, user, user) < 0 ||
        setresuid(user, user, user) < 0)
        _exit(255);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* another user's process loses it */
    prctl(PR_SET_DUMPABLE, 1);        /* or its own /proc/self is closed to it */
}

struct someone {
    uid_t user;
    gid_t group;
};

static void look_at_groups(const void *part)
{
    const struct someone *someone = part;
    int ends[2];
    socklen_t size = 0;
    become(someone->user, someone->group);
    make_wire(ends);
    int asked = getsockopt(ends[0], SOL_SOCKET, SO_PEERGROUPS, NULL, &size);
    say(asked < 0 && errno == ERANGE && size == sizeof(gid_t) ? "told" : "not told");
}

bool groups_are_told(uid_t user, gid_t group)
{
    struct actor actor;
    actor_fork(&actor, look_at_groups, &(struct someone){user, group});
    bool told = strcmp(actor_hear(&actor), "told") == 0;
    actor_finish(&actor);
    return told;
}
