/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A process ends with open links. exit() sends a goodbye on each of them, behind all sent frames,
 * whatever other threads do at that moment and wherever exit() is called; a forked child sends
 * none. If a signal ends the process, the other side reports that. */
#include "support/check.h"
#include "support/make.h"
#include "support/media.h"
#include "support/peer.h"
#include "support/raw.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define ADDRESS "exit"
#define WIDTH 64
#define HEIGHT 16
#define LAST_FRAMES 3

enum way {
    BY_EXIT,
    BY_EXIT_IN_CALLBACK,
    BY_CHILD, /* a child of the process calls exit(), and the process goes on */
    BY_TERM,
    BY_KILL,
};

struct board {
    bool sends;
    enum way way;
    atomic_bool go, child_is_gone;
    atomic_uint frames; /* that a receiver has */
};

static struct board *own;

/* --- the process that ends -------------------------------------------------------------------- */

static void end(void)
{
    int state;
    switch (own->way) {
    case BY_TERM:
    case BY_KILL:
        kill(getpid(), own->way == BY_TERM ? SIGTERM : SIGKILL);
        pause();
        break;
    case BY_CHILD: {
        pid_t child = fork();
        if (child == 0)
            exit(0);
        CHECK(waitpid(child, &state, 0) == child && WIFEXITED(state), "the child is lost");
        atomic_store(&own->child_is_gone, true);
        break;
    }
    default:
        exit(0);
    }
}

static void await_go(void)
{
    while (!atomic_load(&own->go))
        gpud_test_nap(1);
}

static void play_sender(struct gpud_context *context)
{
    uint64_t number = 0;
    struct gpud_sender *sender = NEW_SENDER(context, .address = ADDRESS, .slots = LAST_FRAMES + 1);
    struct gpud_layout layout = LAYOUT("UYVY", WIDTH, HEIGHT, 0);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    WORKS(gpud_sender_wait(sender, 1, 20 * GPUD_SEC, &e));
    SEND_LENT(sender, &layout, ++number);
    await_go();
    if (own->way == BY_CHILD)
        end();
    for (int i = 0; i < LAST_FRAMES; i++)
        SEND_LENT(sender, &layout, ++number);
    own->way = own->way == BY_CHILD ? BY_EXIT : own->way;
    end();
}

static struct gpud_receiver *receiver;

/* Set by the thread that acquires, when it is told that its own process is ending. */
static atomic_bool told;

static void *acquire(void *arg)
{
    for (;;) {
        struct gpud_frame *frame;
        struct gpud_error error = {.reason = ""};
        enum gpud_status status = gpud_receiver_acquire(receiver, 20 * GPUD_SEC, &frame, &error);
        if (status == GPUD_CLOSED && strstr(error.reason, "this process is ending"))
            break;
        CHECK(status == GPUD_OK, "%s: %s", gpud_status_string(status), error.reason);
        gpud_frame_release(&frame);
        atomic_fetch_add(&own->frames, 1);
    }
    atomic_store(&told, true);
    return NULL;
}

/* After the library's own: an exit() that takes its time, as under a sanitizer that looks for
 * leaks, while the thread above runs on. */
__attribute__((destructor(101))) static void linger(void)
{
    if (!own || own->sends || own->way != BY_EXIT)
        return;
    for (int64_t until = gpud_test_now() + 20 * GPUD_SEC; !atomic_load(&told); gpud_test_nap(1))
        CHECK(gpud_test_now() < until, "acquire does not say that the process is ending");
}

static void on_event(void *user, enum gpud_event event, const void *data)
{
    if (event == GPUD_EVENT_CONNECTED && own->way == BY_EXIT_IN_CALLBACK)
        exit(0);
}

static void play_receiver(struct gpud_context *context)
{
    receiver = NEW_RECEIVER(context, .address = ADDRESS, .on_event = on_event);
    CHECK(pthread_detach(NEW_THREAD(acquire, NULL)) == 0, "no thread");
    await_go();
    end();
}

static void play(int argc, char **argv)
{
    own = peer_board_open("--ends", argc, argv, sizeof(*own));
    if (!own)
        return;
    struct gpud_context *context = NEW_CONTEXT();
    if (own->sends)
        play_sender(context);
    else
        play_receiver(context);
    FAIL("it did not end");
}

/* --- the one that survives -------------------------------------------------------------------- */

struct ender {
    pid_t pid;
    struct board *board;
};

static void start(struct ender *ender, bool sends, enum way way)
{
    int fd;
    ender->board = peer_board_make(sizeof(*ender->board), &fd);
    ender->board->sends = sends;
    ender->board->way = way;
    ender->pid = peer_spawn("--ends", fd);
}

static void await_end(struct ender *ender, enum way way)
{
    int state = 0, signal = way == BY_TERM ? SIGTERM : way == BY_KILL ? SIGKILL : 0;
    pid_t got = 0;
    PEER_UNTIL("the end of the process", 20000,
               (got = waitpid(ender->pid, &state, WNOHANG)) == ender->pid);
    if (signal)
        CHECK(WIFSIGNALED(state) && WTERMSIG(state) == signal, "it ended so: %#x", state);
    else
        CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 0, "it ended so: %#x", state);
    munmap(ender->board, sizeof(*ender->board));
}

static const char *sentence(enum way way)
{
    return way == BY_TERM || way == BY_KILL ? "ended by a signal or killed"
                                            : "said goodbye: its process ended";
}

static void take_frame(struct gpud_receiver *from)
{
    struct gpud_frame *frame = ACQUIRE_FRAME(from, 20 * GPUD_SEC);
    gpud_frame_release(&frame);
}

/* reaped: the goodbye is read after the process has ended; else while it ends. */
static void sender_ends(enum way way, bool reaped)
{
    struct gpud_context *context = raw_context();
    struct gpud_frame *frame;
    struct ender ender;
    struct gpud_receiver *survivor =
        NEW_RECEIVER(context, .address = ADDRESS, .slots = LAST_FRAMES + 1);
    start(&ender, true, way);
    take_frame(survivor);
    atomic_store(&ender.board->go, true);
    if (way == BY_CHILD)
        PEER_UNTIL("the end of the child", 20000, atomic_load(&ender.board->child_is_gone));
    if (reaped)
        await_end(&ender, way);
    for (int i = 0; i < LAST_FRAMES; i++)
        take_frame(survivor);
    EXPECT(GPUD_PEER, sentence(way), gpud_receiver_acquire(survivor, 20 * GPUD_SEC, &frame, &e));
    if (!reaped)
        await_end(&ender, way);
    gpud_receiver_destroy(&survivor);
    gpud_context_destroy(&context);
}

static void receiver_ends(enum way way)
{
    struct gpud_context *context = raw_context();
    struct ender ender;
    raw_log_clear();
    struct gpud_sender *survivor =
        NEW_SENDER(context, .address = ADDRESS, .slow_receiver = GPUD_SLOW_DROP_OLDEST);
    struct gpud_layout layout = LAYOUT("UYVY", WIDTH, HEIGHT, 0);
    WORKS(gpud_sender_configure(survivor, PICTURE(&layout), &e));
    start(&ender, false, way);
    if (way != BY_EXIT_IN_CALLBACK) {
        WORKS(gpud_sender_wait(survivor, 1, 20 * GPUD_SEC, &e));
        SEND_LENT(survivor, &layout, 1);
        PEER_UNTIL("a frame", 20000, atomic_load(&ender.board->frames) == 1);
        atomic_store(&ender.board->go, true);
    }
    await_end(&ender, way);
    if (!raw_log_says(sentence(way), 20 * GPUD_SEC)) {
        raw_log_print();
        FAIL("the sender does not say \"%s\"", sentence(way));
    }
    gpud_sender_destroy(&survivor);
    gpud_context_destroy(&context);
}

int main(int argc, char **argv)
{
    play(argc, argv);
    test_alarm(110);
    setenv("GPUDIRECT_LOG", "error", 0);
    runtime_make();
    struct baseline before = baseline_take();
    SAY("a sender that ends by exit()");
    sender_ends(BY_EXIT, true);
    sender_ends(BY_EXIT, false);
    SAY("a child of a sender ends by exit(), and then the sender");
    sender_ends(BY_CHILD, true);
    SAY("a sender that is ended by a signal");
    sender_ends(BY_TERM, true);
    sender_ends(BY_KILL, true);
    for (int i = 0; i < 10; i++)
        sender_ends(BY_KILL, false);
    SAY("a receiver that ends by exit(), while another thread of it acquires");
    receiver_ends(BY_EXIT);
    SAY("a receiver that ends by exit() inside a callback");
    receiver_ends(BY_EXIT_IN_CALLBACK);
    SAY("a receiver that is ended by a signal");
    receiver_ends(BY_TERM);
    receiver_ends(BY_KILL);
    BASELINE_CHECK(before);
    /* The files of processes that ended in this way stay until the next one of their name. */
    struct gpud_context *context = raw_context();
    struct gpud_sender *sender = NEW_SENDER(context, .address = ADDRESS);
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
    runtime_done();
    return 0;
}
