/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A live stream between a sender and a receiver of real-time priority, and a crowd of processes of
 * the same user that load the sender all the time: with connections, handshakes, queries, or only
 * CPU time. The receiver gets every frame. Its longest gap is printed, not checked: the last row
 * shows that of the machine alone.
 *
 *     process-crowd [DEVICE [PROCESSES [SECONDS]]] */
#include "actor.h"
#include "wire/unix/unix.h"

#include <sched.h>
#include <time.h>

#define ADDRESS "crowd"
#define PERIOD (GPUD_SEC / 30)
#define PRIORITY 50
#define PROCESSES_MAX 64

enum wish { CONNECTIONS, HANDSHAKES, ANSWERS, PROCESSOR, WISHES };
static const char *const wish_names[WISHES] = {"connect", "say HELLO", "ask", "burn"};

static const char *device = "host";

static bool set_policy(int policy, int priority)
{
    struct sched_param param = {.sched_priority = priority};
    return sched_setscheduler(0, policy, &param) == 0;
}

static void want(const void *part)
{
    enum wish wish = *(const enum wish *)part;
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    WORKS(gpud_socket_resolve(ADDRESS, name.sun_path, &e));
    while (wish == PROCESSOR)
        gpud_test_now(); /* a loop without an effect may be left out */
    for (;;) {
        struct gpud_message message;
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || connect(fd, (const struct sockaddr *)&name, sizeof(name)) < 0) {
            close(fd);
            sched_yield();
            continue;
        }
        if (wish == HANDSHAKES)
            raw_hello(&message);
        message.type = wish == ANSWERS ? GPUD_MESSAGE_QUERY : GPUD_MESSAGE_HELLO;
        if (wish != CONNECTIONS && raw_send_message(fd, &message) &&
            raw_receive(fd, &message, 50 * GPUD_MSEC) && wish == HANDSHAKES)
            raw_receive(fd, &message, 10 * GPUD_MSEC); /* the OFFER */
        close(fd);
    }
}

/* For each line it says how many frames it has had since the last one, how many are missing, and
 * the longest gap. */
static void receive(const void *unused)
{
    struct gpud_frame *frame;
    unsigned long long last = 0, frames = 0, missing = 0;
    long long last_at = 0, longest_gap = 0;
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_receiver *receiver = NEW_RECEIVER(context, .address = ADDRESS, .device = device);
    CHECK(set_policy(SCHED_FIFO, PRIORITY), "no real-time priority");
    test_alarm(590);
    for (;;) {
        if (is_told(0)) {
            if (!hear())
                break;
            say("%llu %llu %lld", frames, missing, longest_gap);
            frames = missing = 0;
            last_at = longest_gap = 0; /* nothing is sent while the next crowd is made */
        }
        if (gpud_receiver_acquire(receiver, 100 * GPUD_MSEC, &frame, NULL) != GPUD_OK)
            continue;
        struct gpud_frame_info info = INFO(frame, frame);
        int64_t now = gpud_test_now();
        if (last_at && now - last_at > longest_gap)
            longest_gap = now - last_at;
        last_at = now;
        if (last)
            missing += info.sequence - last - 1;
        last = info.sequence;
        frames++;
        gpud_frame_release(&frame);
    }
    gpud_receiver_destroy(&receiver);
    gpud_context_destroy(&context);
}

struct measure {
    int64_t longest_call, latest_wake;
    unsigned lost;
};

static void run(struct gpud_sender *sender, struct actor *receiver, enum wish wish, int processes,
                int64_t time)
{
    struct measure measure = {0};
    struct actor crowd[PROCESSES_MAX];
    for (int i = 0; i < processes; i++)
        actor_fork(&crowd[i], want, &wish);
    actor_tell(receiver, "from now on");
    actor_hear(receiver);
    int64_t next = gpud_test_now(), end = next + time;
    while (next < end) {
        next += PERIOD;
        struct timespec at = {.tv_sec = next / GPUD_SEC, .tv_nsec = next % GPUD_SEC};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
            ;
        int64_t late = gpud_test_now() - next;
        if (late > measure.latest_wake)
            measure.latest_wake = late;
        struct gpud_frame *frame;
        int64_t before = gpud_test_now();
        if (gpud_sender_acquire(sender, 0, &frame, NULL) == GPUD_OK)
            WORKS(gpud_sender_submit(sender, &frame, 0, &e));
        else
            measure.lost++;
        int64_t took = gpud_test_now() - before;
        if (took > measure.longest_call)
            measure.longest_call = took;
    }
    actor_tell(receiver, "what came");
    unsigned long long frames = 0, missing = 0;
    long long gap = 0;
    CHECK(sscanf(actor_hear(receiver), "%llu %llu %lld", &frames, &missing, &gap) == 3,
          "the receiver says \"%s\"", receiver->said);
    for (int i = 0; i < processes; i++)
        actor_kill(&crowd[i]);
    SAY("  %2d %-10s %4llu frames, %llu missing, %u without a slot; longest gap %6.1f ms; sender: "
        "woken %6.1f ms late, acquire and submit %6.2f ms",
        processes, wish_names[wish], frames, missing, measure.lost, (double)gap / 1e6,
        (double)measure.latest_wake / 1e6, (double)measure.longest_call / 1e6);
    CHECK(missing == 0 && measure.lost == 0, "the crowd cost the honest receiver frames");
}

int main(int argc, char **argv)
{
    int processes = argc > 2 ? atoi(argv[2]) : 24, seconds = argc > 3 ? atoi(argv[3]) : 8;
    device = argc > 1 ? argv[1] : "host";
    CHECK(processes >= 0 && processes <= PROCESSES_MAX && seconds > 0 && seconds <= 60,
          "at most %d processes, for 60 s", PROCESSES_MAX);
    alarm(590);
    if (!set_policy(SCHED_FIFO, PRIORITY) || !set_policy(SCHED_OTHER, 0))
        SKIP("real-time priority is not permitted here");
    runtime_make();
    struct actor receiver;
    actor_fork(&receiver, receive, NULL);
    setenv("GPUDIRECT_LOG", "error", 0);
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_sender *sender = NEW_SENDER(context, .address = ADDRESS, .device = device,
                                            .slow_receiver = GPUD_SLOW_DROP_NEWEST);
    CONFIGURE(sender, "UYVY", 1920, 1080);
    WORKS(gpud_sender_wait(sender, 1, 60 * GPUD_SEC, &e));
    CHECK(set_policy(SCHED_FIFO | SCHED_RESET_ON_FORK, PRIORITY), "no real-time priority");
    SAY("%s, 1080p at 30/s, %d processes:", device, processes);
    for (int wish = 0; wish < WISHES; wish++)
        run(sender, &receiver, (enum wish)wish, processes, seconds * GPUD_SEC);
    actor_finish(&receiver);
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
    return runtime_done();
}
