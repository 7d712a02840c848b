/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A process ends with open links. exit() sends a goodbye on each of them, behind all sent frames,
 * whatever other threads do at that moment and wherever exit() is called; a forked child sends
 * none. If a signal ends the process, the other side reports that. */
#include "actor.h"

#define ADDRESS "exit"
#define LAST_FRAMES 3

/* --- the process that ends -------------------------------------------------------------------- */

static struct gpud_layout layout;
static struct gpud_sender *sender;
static struct gpud_receiver *receiver;
/* Set by the thread that acquires, when it is told that its own process is ending. */
static atomic_bool lingers, told;

static unsigned send_frames(unsigned count)
{
    static uint64_t number;
    while (count--)
        SEND_LENT(sender, &layout, ++number);
    return 0;
}

static unsigned end(unsigned signal)
{
    if (!signal)
        exit(0);
    kill(getpid(), (int)signal);
    pause();
    return 0;
}

static unsigned end_child(unsigned unused)
{
    int state;
    pid_t child = fork();
    if (child == 0)
        exit(0);
    CHECK(waitpid(child, &state, 0) == child && WIFEXITED(state), "the child is lost");
    return 0;
}

static const struct command commands[] = {
    {"send", send_frames}, {"end", end}, {"end-child", end_child}, {NULL, NULL}};

static void play_sender(void)
{
    layout = LAYOUT("UYVY", 64, 16, 0);
    struct gpud_context *context = NEW_CONTEXT();
    sender = NEW_SENDER(context, .address = ADDRESS, .slots = LAST_FRAMES + 1);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    WORKS(gpud_sender_wait(sender, 1, 20 * GPUD_SEC, &e));
    obey(commands);
}

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
        say("a frame");
    }
    atomic_store(&told, true);
    return NULL;
}

/* After the library's own: an exit() that takes its time, as under a sanitizer that looks for
 * leaks, while the thread above runs on. */
__attribute__((destructor(101))) static void linger(void)
{
    for (int64_t until = gpud_test_now() + 20 * GPUD_SEC;
         atomic_load(&lingers) && !atomic_load(&told); gpud_test_nap(1))
        CHECK(gpud_test_now() < until, "acquire does not say that the process is ending");
}

static void play_receiver(void)
{
    struct gpud_context *context = NEW_CONTEXT();
    receiver = NEW_RECEIVER(context, .address = ADDRESS);
    CHECK(pthread_detach(NEW_THREAD(acquire, NULL)) == 0, "no thread");
    atomic_store(&lingers, true);
    obey(commands);
}

static void exit_when_connected(void *user, enum gpud_event event, const void *data)
{
    if (event == GPUD_EVENT_CONNECTED)
        exit(0);
}

static void play_receiver_with_callback(void)
{
    struct gpud_context *context = NEW_CONTEXT();
    receiver = NEW_RECEIVER(context, .address = ADDRESS, .on_event = exit_when_connected);
    CHECK(pthread_detach(NEW_THREAD(acquire, NULL)) == 0, "no thread");
    stay();
}

/* --- the one that survives -------------------------------------------------------------------- */

static const char *sentence(int signal)
{
    return signal ? "ended by a signal or killed" : "said goodbye: its process ended";
}

static void take_frame(struct gpud_receiver *from)
{
    AUTO(gpud_frame_release) struct gpud_frame *frame = ACQUIRE_FRAME(from, 20 * GPUD_SEC);
}

/* By this signal; 0: by exit(). reaped: the goodbye is read after the process has ended; else while
 * it ends. child: one of its own calls exit() before, and the process goes on. */
static void sender_ends(int signal, bool reaped, bool child)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = raw_context();
    struct gpud_frame *frame;
    struct actor ender;
    AUTO(gpud_receiver_destroy)
    struct gpud_receiver *survivor =
        NEW_RECEIVER(context, .address = ADDRESS, .slots = LAST_FRAMES + 1);
    actor_start(&ender, "sender");
    actor_tell(&ender, "send 1");
    take_frame(survivor);
    actor_await_done(&ender);
    if (child) {
        actor_tell(&ender, "end-child");
        actor_await_done(&ender);
    }
    actor_tell(&ender, "send %d", LAST_FRAMES);
    actor_tell(&ender, "end %d", signal);
    if (reaped)
        actor_await_end(&ender, signal);
    for (int i = 0; i < LAST_FRAMES; i++)
        take_frame(survivor);
    EXPECT(GPUD_PEER, sentence(signal), gpud_receiver_acquire(survivor, 20 * GPUD_SEC, &frame, &e));
    if (!reaped)
        actor_await_end(&ender, signal);
}

static void receiver_ends(int signal, const char *part)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = raw_context();
    struct actor ender;
    raw_log_clear();
    AUTO(gpud_sender_destroy)
    struct gpud_sender *survivor =
        NEW_SENDER(context, .address = ADDRESS, .slow_receiver = GPUD_SLOW_DROP_OLDEST);
    layout = CONFIGURE(survivor, "UYVY", 64, 16);
    actor_start(&ender, part);
    if (strcmp(part, "receiver") == 0) {
        WORKS(gpud_sender_wait(survivor, 1, 20 * GPUD_SEC, &e));
        SEND_LENT(survivor, &layout, 1);
        actor_await(&ender, "a frame");
        actor_tell(&ender, "end %d", signal);
    }
    actor_await_end(&ender, signal);
    if (!raw_log_says(sentence(signal), 20 * GPUD_SEC)) {
        raw_log_print();
        FAIL("the sender does not say \"%s\"", sentence(signal));
    }
}

int main(int argc, char **argv)
{
    actor_main(argc, argv, "sender", play_sender);
    actor_main(argc, argv, "receiver", play_receiver);
    actor_main(argc, argv, "receiver-with-callback", play_receiver_with_callback);
    test_begin(110);
    struct baseline before = baseline_take();
    SAY("a sender that ends by exit()");
    sender_ends(0, true, false);
    sender_ends(0, false, false);
    CASE("a child of a sender ends by exit(), and then the sender", sender_ends(0, true, true));
    SAY("a sender that is ended by a signal");
    sender_ends(SIGTERM, true, false);
    sender_ends(SIGKILL, true, false);
    for (int i = 0; i < 10; i++)
        sender_ends(SIGKILL, false, false);
    SAY("a receiver that ends by exit(), while another thread of it acquires");
    receiver_ends(0, "receiver");
    SAY("a receiver that ends by exit() inside a callback");
    receiver_ends(0, "receiver-with-callback");
    SAY("a receiver that is ended by a signal");
    receiver_ends(SIGTERM, "receiver");
    receiver_ends(SIGKILL, "receiver");
    BASELINE_CHECK(before);
    /* The files of processes that ended in this way stay until the next one of their name. */
    struct gpud_context *context = raw_context();
    sender = NEW_SENDER(context, .address = ADDRESS);
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
    return runtime_done();
}
