/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "actor.h"

#include <grp.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* --- actors ----------------------------------------------------------------------------------- */

#define PATIENCE_MS 60000

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
    CHECK(length < (int)sizeof(text), "a line of %d bytes", length);
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

/* --- a stream in the background --------------------------------------------------------------- */

static void *stream(void *arg)
{
    struct background *background = arg;
    while (!atomic_load(&background->stop)) {
        if (atomic_load(&background->configure)) {
            WORKS(gpud_sender_configure(background->sender, PICTURE(&background->layout), &e));
            atomic_store(&background->configure, false);
        }
        int64_t start = gpud_test_now();
        SEND_LENT(background->sender, &background->layout,
                  atomic_fetch_add(&background->number, 1) + 1);
        int64_t took = gpud_test_now() - start;
        if (took > atomic_load(&background->worst))
            atomic_store(&background->worst, took);
        gpud_test_nap(1);
    }
    return NULL;
}

void background_start(struct background *background)
{
    background->before = baseline_take();
    background->context = raw_context();
    background->sender =
        NEW_SENDER(background->context, .address = peer_address(BACKGROUND_ADDRESS),
                   .device = background->device);
    if (!background->layout.size)
        background->layout = LAYOUT("NV12", 160, 91, 0);
    WORKS(gpud_sender_configure(background->sender, PICTURE_AT(&background->layout, 25), &e));
    struct peer_orders orders = {.device = ""};
    snprintf(orders.address, sizeof(orders.address), "%s", peer_address(BACKGROUND_ADDRESS));
    peer_start(&background->honest, &orders);
    WORKS(gpud_sender_wait(background->sender, 1, 10 * GPUD_SEC, &e));
    CHECK(pthread_create(&background->thread, NULL, stream, background) == 0, "no thread");
}

void background_configure(struct background *background)
{
    atomic_store(&background->configure, true);
    PEER_UNTIL("a new epoch", 10000, !atomic_load(&background->configure));
}

void background_flows(struct background *background, unsigned frames)
{
    unsigned long long at = atomic_load(&background->honest.board->frames);
    PEER_UNTIL("frames flow on", 20000,
               atomic_load(&background->honest.board->frames) > at + frames);
}

void background_goes_on(struct background *background)
{
    PEER_UNTIL("only the honest receiver is connected", 20000,
               INFO(sender, background->sender).receivers == 1);
    background_flows(background, 2);
    CHECK_EQUAL(atomic_load(&background->honest.board->gaps), 0);
    CHECK_EQUAL(atomic_load(&background->honest.board->lost), 0);
    CHECK_EQUAL(atomic_load(&background->honest.board->wrong), 0);
}

void background_stop(struct background *background)
{
    atomic_store(&background->stop, true);
    pthread_join(background->thread, NULL);
    PEER_UNTIL("the last frame", 10000,
               atomic_load(&background->honest.board->last_value) ==
                   atomic_load(&background->number));
    PEER_FINISH(&background->honest);
    const struct peer_board *board = background->honest.board;
    CHECK(board->gaps == 0 && board->frames == background->number,
          "the honest receiver has %llu of %llu frames", atomic_load(&board->frames),
          atomic_load(&background->number));
    CHECK_EQUAL(board->lost, 0);
    peer_forget(&background->honest);
    int64_t start = gpud_test_now();
    gpud_sender_destroy(&background->sender);
    CHECK(gpud_test_now() - start < GPUD_SEC, "destroying the sender took %lld ms",
          (long long)(gpud_test_now() - start) / 1000000);
    gpud_context_destroy(&background->context);
    if (!background->device) /* what a driver opens once stays open */
        BASELINE_CHECK(background->before);
    SAY("  %llu frames undisturbed, the longest hand-over took %lld us",
        atomic_load(&background->number), (long long)atomic_load(&background->worst) / 1000);
}

void hang_up_heard(struct raw *raw)
{
    raw_close(raw);
    CHECK(raw_log_says("vanished", GPUD_SEC), "a hang-up is not noticed");
    raw_log_clear();
}

void turned_out_at(const char *file, int line, struct raw *raw, const char *says, int64_t patience)
{
    if (!raw_wait_hangup(raw->fd, patience)) {
        raw_log_print();
        FAIL("(%s:%d) still connected after the lie; \"%s\" was expected", file, line, says);
    }
    if (!raw_log_says(says, patience / 3)) {
        raw_log_print();
        FAIL("(%s:%d) the log does not say \"%s\"", file, line, says);
    }
    raw_close(raw);
    raw_log_clear();
}

int background_main(struct background *background, const struct background_test *tests,
                    size_t count, int argc, char **argv)
{
    peer_main(argc, argv);
    test_begin(110);
    background_start(background);
    for (size_t i = 0; i < count; i++) {
        if (argc > 1 && atoi(argv[1]) != (int)i)
            continue;
        SAY("%s", tests[i].says);
        tests[i].run();
        background_goes_on(background);
        raw_log_clear();
    }
    background_stop(background);
    return runtime_done();
}

/* --- a receiver in a thread ------------------------------------------------------------------- */

static void *acquire(void *arg)
{
    struct acquirer *acquirer = arg;
    while (!atomic_load(&acquirer->stop)) {
        struct gpud_frame *frame;
        struct gpud_error error = {.reason = ""};
        int64_t start = gpud_test_now();
        enum gpud_status status =
            gpud_receiver_acquire(acquirer->receiver, ACQUIRE_TIMEOUT, &frame, &error);
        int64_t took = gpud_test_now() - start;
        if (took > atomic_load(&acquirer->longest))
            atomic_store(&acquirer->longest, took);
        if (status == GPUD_OK) {
            void *data = MAP_FRAME(frame, GPUD_READ, GPUD_SEC);
            struct gpud_frame_info info = INFO(frame, frame);
            volatile uint8_t sum = 0;
            for (uint64_t i = 0; i < info.layout.size; i += 64) /* every page is there to be read */
                sum = (uint8_t)(sum + ((uint8_t *)data)[i]);
            gpud_frame_release(&frame);
            atomic_fetch_add(&acquirer->frames, 1);
        }
        if (status == GPUD_OK || status == GPUD_TIMEOUT)
            continue;
        pthread_mutex_lock(&acquirer->lock);
        acquirer->status = status;
        snprintf(acquirer->reason, sizeof(acquirer->reason), "%s", error.reason);
        atomic_fetch_add(&acquirer->ends_of_stream, status == GPUD_CLOSED);
        atomic_fetch_add(&acquirer->ends, 1);
        pthread_mutex_unlock(&acquirer->lock);
    }
    return NULL;
}

static void on_event(void *user, enum gpud_event event, const void *data)
{
    struct acquirer *acquirer = user;
    if (event == GPUD_EVENT_FORMAT)
        atomic_fetch_add(&acquirer->formats, 1);
}

void acquirer_start(struct acquirer *acquirer, struct gpud_context *context, const char *address)
{
    memset(acquirer, 0, sizeof(*acquirer));
    pthread_mutex_init(&acquirer->lock, NULL);
    acquirer->receiver =
        NEW_RECEIVER(context, .address = address, .on_event = on_event, .user = acquirer);
    CHECK(pthread_create(&acquirer->thread, NULL, acquire, acquirer) == 0, "no thread");
}

void acquirer_stop(struct acquirer *acquirer)
{
    atomic_store(&acquirer->stop, true);
    pthread_join(acquirer->thread, NULL);
    gpud_receiver_destroy(&acquirer->receiver);
    pthread_mutex_destroy(&acquirer->lock);
}

void acquirer_ended_at(int line, struct acquirer *acquirer, unsigned before, const char *says)
{
    int64_t until = gpud_test_now() + 4 * GPUD_SEC;
    while (atomic_load(&acquirer->ends) <= before) {
        CHECK(gpud_test_now() < until, "(line %d) the end is not noticed; \"%s\" was expected",
              line, says);
        gpud_test_nap(1);
    }
    pthread_mutex_lock(&acquirer->lock);
    if (!strstr(acquirer->reason, says))
        FAIL("(line %d) \"%s\" does not say \"%s\"", line, acquirer->reason, says);
    CHECK(acquirer->status == GPUD_PEER || acquirer->status == GPUD_UNSUPPORTED,
          "(line %d) it is told as \"%s\"", line, gpud_status_string(acquirer->status));
    pthread_mutex_unlock(&acquirer->lock);
}
