/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Senders and receivers that start and stop without pause, in threads of one process, in one
 * context and in contexts of their own, at any step of each other's handshakes, while others list
 * channels, read statistics and interrupt them. It ends after a number of rounds with nothing left
 * open; data races are left to the thread sanitizer. */
#include "actor.h"

#define ADDRESSES 3
#define DEADLINE (30 * GPUD_SEC)

static const char *device;
static unsigned rounds = 40;
static struct gpud_context *context;
static atomic_ullong frames_sent, frames_got, refusals, listed;
static atomic_uint senders_running;

/* A seed that is the same in each run, and different in each thread. */
struct thread {
    pthread_t id;
    unsigned number;
    uint32_t state;
};

static uint32_t draw(struct thread *thread, uint32_t below)
{
    thread->state = thread->state * 1664525 + 1013904223;
    return (thread->state >> 8) % below;
}

static void name_address(char address[32], unsigned number)
{
    snprintf(address, 32, "storm-%u", number);
}

/* The permitted errors: no sender, a peer that left, an interruption. */
static void expect_reason(const char *what, enum gpud_status status, const struct gpud_error *error)
{
    CHECK(status == GPUD_OK || strlen(error->reason) > 10, "%s: \"%s\" without a sentence", what,
          gpud_status_string(status));
    atomic_fetch_add(&refusals, status != GPUD_OK);
}

static void send_once(struct thread *thread, struct gpud_context *in, unsigned where)
{
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    char address[32];
    name_address(address, where);
    struct gpud_sender *sender = NEW_SENDER(
        in, .address = address, .device = device,
        .slow_receiver = draw(thread, 2) ? GPUD_SLOW_DROP_OLDEST : GPUD_SLOW_DROP_NEWEST);
    for (uint32_t format = draw(thread, 3); format > 0; format--) {
        CONFIGURE(sender, "GRAY8", 64 * format, 16);
        if (draw(thread, 2))
            gpud_sender_wait(sender, 1, 20 * GPUD_MSEC, NULL);
        for (uint32_t left = draw(thread, 12); left > 0; left--) {
            struct gpud_frame *frame;
            struct gpud_error error = {.reason = ""};
            enum gpud_status status = gpud_sender_acquire(sender, DEADLINE, &frame, &error);
            expect_reason("acquire", status, &error);
            if (status != GPUD_OK)
                continue;
            status = gpud_sender_submit(sender, &frame, DEADLINE, &error);
            expect_reason("submit", status, &error);
            gpud_frame_release(&frame);
            atomic_fetch_add(&frames_sent, status == GPUD_OK);
        }
        gpud_sender_get_info(sender, &info);
    }
    gpud_sender_destroy(&sender);
}

/* Each has its own address, since two at one would wait for each other. */
static void *send_often(void *arg)
{
    struct thread *thread = arg;
    for (unsigned i = 0; i < rounds; i++)
        send_once(thread, context, thread->number);
    atomic_fetch_sub(&senders_running, 1);
    return NULL;
}

static void *interrupt(void *receiver)
{
    INFO(receiver, (struct gpud_receiver *)receiver);
    gpud_receiver_interrupt(receiver, true);
    return NULL;
}

static void receive_once(struct thread *thread, struct gpud_context *in, unsigned where)
{
    char address[32];
    pthread_t other;
    bool interrupted = draw(thread, 3) == 0;
    name_address(address, where);
    struct gpud_receiver *receiver = NEW_RECEIVER(in, .address = address, .device = device);
    if (interrupted)
        CHECK(pthread_create(&other, NULL, interrupt, receiver) == 0, "no thread");
    for (uint32_t left = draw(thread, 8); left > 0; left--) {
        struct gpud_frame *frame;
        struct gpud_error error = {.reason = ""};
        enum gpud_status status =
            gpud_receiver_acquire(receiver, (int64_t)draw(thread, 20) * GPUD_MSEC, &frame, &error);
        expect_reason("acquire", status, &error);
        if (status != GPUD_OK)
            continue;
        gpud_frame_release(&frame);
        atomic_fetch_add(&frames_got, 1);
    }
    if (interrupted)
        pthread_join(other, NULL);
    gpud_receiver_destroy(&receiver);
}

static void *receive_often(void *arg)
{
    struct thread *thread = arg;
    for (unsigned i = 0; i < rounds || atomic_load(&senders_running); i++)
        receive_once(thread, context, draw(thread, ADDRESSES));
    return NULL;
}

static void *list_often(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < rounds; i++) {
        struct gpud_channel_list *channels;
        uint32_t count;
        struct gpud_error error = {.reason = ""};
        enum gpud_status status =
            gpud_channel_list_create(NULL, 100 * GPUD_MSEC, &channels, &count, NULL, &error);
        expect_reason("list", status, &error);
        if (status != GPUD_OK)
            continue;
        atomic_fetch_add(&listed, count);
        gpud_channel_list_destroy(&channels);
    }
    return NULL;
}

/* The whole storm, while contexts are created and destroyed. */
static void *come_and_go(void *arg)
{
    struct thread *thread = arg;
    for (unsigned i = 0; i < rounds; i++) {
        AUTO(gpud_context_destroy) struct gpud_context *own = raw_context();
        if (draw(thread, 2))
            receive_once(thread, own, draw(thread, ADDRESSES));
        send_once(thread, own, thread->number);
    }
    return NULL;
}

static void storm(void)
{
    static void *(*const runs[])(void *) = {send_often,    send_often, receive_often, receive_often,
                                            receive_often, list_often, come_and_go};
    struct thread threads[sizeof(runs) / sizeof(runs[0])];
    context = raw_context();
    atomic_store(&senders_running, 2);
    for (unsigned i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        threads[i] = (struct thread){.number = i, .state = i * 7919};
        if (runs[i] == come_and_go)
            threads[i].number = ADDRESSES - 1;
        CHECK(pthread_create(&threads[i].id, NULL, runs[i], &threads[i]) == 0, "no thread");
    }
    for (unsigned i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
        pthread_join(threads[i].id, NULL);
    gpud_context_destroy(&context);
}

int main(int argc, char **argv)
{
    device = argc > 1 ? argv[1] : "host";
    if (argc > 1)
        rounds = 5; /* a driver takes its time to begin and to end */
    alarm(1400);
    setenv("GPUDIRECT_LOG", "error", 0);
    runtime_make();
    storm(); /* what a driver opens once stays open */
    struct baseline before = baseline_take();
    storm();
    BASELINE_CHECK(before);
    SAY("%llu frames sent, %llu received, %llu refusals, %llu senders listed",
        atomic_load(&frames_sent), atomic_load(&frames_got), atomic_load(&refusals),
        atomic_load(&listed));
    CHECK(atomic_load(&frames_sent) > 0, "nothing was sent");
    return runtime_done();
}
