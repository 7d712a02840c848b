/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One ring that many receivers map: all have a frame before one of them is woken; on a GPU what it
 * takes of the driver does not grow with them, and one of them that dies, is stopped, or whose GPU
 * stalls costs the others no frame.
 *
 * fanout_test [device] */
#include "actor.h"
#include "support/gpu.h"
#include "wire/wire.h"

#include <dlfcn.h>

#define ADDRESS "fanout"
#define RECEIVERS 16
#define SLOTS 2
#define FRAMES 40
#define LONG (30 * GPUD_SEC)

static const char *device = "cuda:0";
static struct gpud_layout layout;
static struct gpu gpu;
static struct gpud_context *sending, *receiving;
static struct gpud_sender *sender;
static struct gpud_receiver *receiver[RECEIVERS];
static unsigned receivers;
static uint64_t number; /* of the last frame */

/* --- a receiver in another process ------------------------------------------------------------ */

static struct gpud_receiver *victim;
static enum gpud_slow_receiver victim_policy;

static unsigned open_victim(unsigned policy)
{
    victim_policy = (enum gpud_slow_receiver)policy;
    struct gpud_context *context = NEW_CONTEXT();
    OPEN_DEVICE(context, device);
    gpu_open(&gpu, device, layout.size);
    victim = NEW_RECEIVER(context, .address = ADDRESS, .device = device, .slots = SLOTS,
                          .slow_receiver = victim_policy);
    return 0;
}

static void take(struct gpud_receiver *from, unsigned place, uint64_t expected)
{
    AUTO(gpud_frame_release) struct gpud_frame *frame = ACQUIRE_FRAME(from, LONG);
    struct gpud_frame_info info = INFO(frame, frame);
    CHECK(info.offset == expected, "receiver %u gets frame %llu instead of %llu", place,
          (unsigned long long)info.offset, (unsigned long long)expected);
    WORKS(gpud_frame_wait(frame, gpu.stream, &e));
    gpu_take(&gpu, frame, place);
    WORKS(gpud_frame_post(frame, gpu.stream, &e));
}

/* By a stream that does nothing from then on. */
static unsigned take_by_held(unsigned count)
{
    gpu_hold(&gpu);
    for (unsigned i = 1; i <= count; i++)
        take(victim, 0, i);
    return count;
}

static void play_victim(void)
{
    static const struct command commands[] = {
        {"open", open_victim}, {"take", take_by_held}, {NULL, NULL}};
    obey(commands);
    stay();
}

/* --- the sender and its receivers here -------------------------------------------------------- */

static void start(unsigned here, unsigned elsewhere)
{
    struct gpud_frame *frame;
    struct gpud_error error;
    number = 0;
    receivers = here;
    sender = NEW_SENDER(sending, .address = ADDRESS, .device = device, .slots = SLOTS);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    for (unsigned i = 0; i < receivers; i++)
        receiver[i] = NEW_RECEIVER(receiving, .address = ADDRESS, .device = device, .slots = SLOTS);
    while (gpud_sender_wait(sender, here + elsewhere, 0, &error) != GPUD_OK)
        for (unsigned i = 0; i < receivers; i++) {
            enum gpud_status status = gpud_receiver_acquire(receiver[i], GPUD_MSEC, &frame, &error);
            /* A busy machine may take longer than a handshake has, which is then begun again. */
            CHECK(status == GPUD_TIMEOUT || status == GPUD_CLOSED, "%s", error.reason);
        }
}

static void end(void)
{
    gpu_let_go(&gpu);
    CHECK(gpu_ends(&gpu, 10000), "the stream does not come to its end");
    for (unsigned i = 0; i < receivers; i++)
        CHECK(gpu_holds(&gpu, i, number), "receiver %u has another picture", i);
    for (unsigned i = 0; i < receivers; i++)
        gpud_receiver_destroy(&receiver[i]);
    gpud_sender_destroy(&sender);
}

/* Writes the next number's picture by the stream. */
static struct gpud_frame *fill_one(void)
{
    struct gpud_frame *frame = ACQUIRE_SLOT(sender, LONG);
    number++;
    WORKS(gpud_frame_wait(frame, gpu.stream, &e));
    gpu_fill(&gpu, frame, number);
    WORKS(gpud_frame_post(frame, gpu.stream, &e));
    struct gpud_frame_info info = INFO(frame, frame);
    info.offset = number;
    WORKS(gpud_frame_set_info(frame, &info, &e));
    return frame;
}

static void send_one(void)
{
    struct gpud_frame *frame = fill_one();
    WORKS(gpud_sender_submit(sender, &frame, LONG, &e));
}

static void take_one(void)
{
    for (unsigned i = 0; i < receivers; i++)
        take(receiver[i], i, number);
}

/* --- the order of publishing and waking ------------------------------------------------------- */

#define SLEEPERS 4

typeof(gpud_waker_kick) __real_gpud_waker_kick, __wrap_gpud_waker_kick;

/* The sender's ends of the pages whose receivers it woke, and how many frames each page had before
 * the frame that is sent. */
static struct {
    pthread_t thread; /* that sends */
    bool sends, woke;
    const struct gpud_page_end *end[SLEEPERS];
    uint32_t before[SLEEPERS];
    unsigned count, checked;
} wakes;

static uint32_t head_of(const struct gpud_page_end *end)
{
    return atomic_load(&((struct gpud_sender_half *)end->half)->head);
}

/* In the sending thread, and so by the sender. */
static void note_wake(const struct gpud_page_end *end)
{
    unsigned place = 0;
    for (unsigned i = 0; i < wakes.count && !wakes.woke; i++)
        CHECK(head_of(wakes.end[i]) == wakes.before[i] + 1,
              "a receiver is woken before another one has the frame");
    wakes.checked += !wakes.woke && wakes.count == SLEEPERS;
    wakes.woke = true;
    while (place < wakes.count && wakes.end[place] != end)
        place++;
    if (place == wakes.count)
        wakes.end[wakes.count++] = end;
}

void __wrap_gpud_waker_kick(struct gpud_waker *waker)
{
    if (wakes.sends && pthread_equal(pthread_self(), wakes.thread))
        note_wake((const void *)((const char *)waker - offsetof(struct gpud_page_end, waker)));
    __real_gpud_waker_kick(waker);
}

static void publish_before_waking(void)
{
    struct acquirer acquirer[SLEEPERS];
    int64_t until = gpud_test_now() + LONG;
    wakes.thread = pthread_self();
    sender = NEW_SENDER(sending, .address = ADDRESS);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    for (unsigned i = 0; i < SLEEPERS; i++)
        acquirer_start(&acquirer[i], receiving, ADDRESS);
    WORKS(gpud_sender_wait(sender, SLEEPERS, LONG, &e));
    while (wakes.checked < 3) {
        CHECK(gpud_test_now() < until, "%u receivers were woken, %u times after the others",
              wakes.count, wakes.checked);
        struct gpud_frame *frame = ACQUIRE_SLOT(sender, LONG);
        for (unsigned i = 0; i < wakes.count; i++)
            wakes.before[i] = head_of(wakes.end[i]);
        wakes.woke = false;
        wakes.sends = true;
        WORKS(gpud_sender_submit(sender, &frame, LONG, &e));
        wakes.sends = false;
        gpud_test_nap(5); /* they fall asleep */
    }
    for (unsigned i = 0; i < SLEEPERS; i++)
        acquirer_stop(&acquirer[i]);
    gpud_sender_destroy(&sender);
}

/* --- what a frame takes ----------------------------------------------------------------------- */

static int (*ask_calls)(unsigned *writes, unsigned *waits);

struct calls {
    unsigned writes, waits;
};

static struct calls calls_so_far(void)
{
    struct calls calls;
    CHECK(ask_calls(&calls.writes, &calls.waits) == 0, "the driver does not count");
    return calls;
}

/* --- a wake that brings nothing ----------------------------------------------------------------
 */

typeof(gpud_pace_window) __wrap_gpud_pace_window, __real_gpud_pace_window;
typeof(gpud_page_sleep) __wrap_gpud_page_sleep, __real_gpud_page_sleep;
typeof(gpud_poll) __wrap_gpud_poll, __real_gpud_poll;

static struct {
    atomic_bool on;     /* in this test, which has one thread that waits */
    int64_t due;        /* when the next frame is expected */
    unsigned disturbed; /* sleeps until then that ended at once */
    int64_t longest;    /* of what was spun */
} early;

bool __wrap_gpud_pace_window(const struct gpud_pace *pace, int64_t limit, int64_t *from,
                             int64_t *until)
{
    if (!early.on)
        return __real_gpud_pace_window(pace, limit, from, until);
    *from = early.due;
    *until = early.due + 100 * GPUD_USEC;
    return true;
}

void __wrap_gpud_page_sleep(struct gpud_page_end *end, bool (*ready)(void *arg), void *arg,
                            int64_t deadline)
{
    if (early.on && deadline == early.due && early.disturbed < 3)
        early.disturbed++;
    else
        __real_gpud_page_sleep(end, ready, arg, deadline);
}

bool __wrap_gpud_poll(bool (*ready)(void *arg), void *arg, int64_t until)
{
    if (early.on && until - gpud_now() > early.longest)
        early.longest = until - gpud_now();
    return __real_gpud_poll(ready, arg, until);
}

/* A wake may be meant for the frame before, which the receiver has taken by itself. */
static void wake_too_early(void)
{
    struct gpud_frame *frame;
    start(1, 0);
    send_one();
    take_one();
    early.due = gpud_now() + 500 * GPUD_MSEC;
    early.on = true;
    EXPECT(GPUD_TIMEOUT, "no frame came",
           gpud_receiver_acquire(receiver[0], 700 * GPUD_MSEC, &frame, &e));
    early.on = false;
    CHECK(early.longest < GPUD_MSEC, "a receiver that was woken too early spins for %lld us",
          (long long)(early.longest / GPUD_USEC));
    CHECK(early.disturbed > 0, "no sleep was ended early");
    end();
}

/* --- what a connection takes ------------------------------------------------------------------ */

#define COVERED 69632 /* bytes of a frame that its test pattern covers */

typeof(gpud_queue_map) __real_gpud_queue_map, __wrap_gpud_queue_map;

static _Atomic uint64_t mapped;

enum gpud_status __wrap_gpud_queue_map(struct gpud_queue *queue, struct gpud_memory *memory,
                                       uint64_t offset, uint64_t size, unsigned access,
                                       int64_t deadline, void **data, struct gpud_error *error)
{
    mapped += size;
    return __real_gpud_queue_map(queue, memory, offset, size, access, deadline, data, error);
}

/* Both ends map the test frame, which is on the device: a map of all of it would copy all of it. */
static void map_test_frames(unsigned here)
{
    mapped = 0;
    start(here, 0);
    CHECK(layout.size > COVERED && mapped == (uint64_t)2 * COVERED * here,
          "%llu bytes are mapped to connect %u receivers, where test patterns have %u each",
          (unsigned long long)mapped, here, COVERED);
    send_one();
    take_one();
    end();
}

/* --- what a frame takes ----------------------------------------------------------------------- */

/* The stream is held up, so that the driver has to do everything, and frames are given back that
 * it still reads. */
static void count(unsigned here)
{
    start(here, 0);
    gpu_hold(&gpu);
    for (unsigned i = 0; i < 2 * SLOTS; i++) {
        struct gpud_frame *frame = fill_one();
        struct calls before = calls_so_far();
        WORKS(gpud_sender_submit(sender, &frame, LONG, &e));
        struct calls after = calls_so_far();
        CHECK(after.writes - before.writes == 1, "%u calls post frame %llu to %u receivers",
              after.writes - before.writes, (unsigned long long)number, here);
        CHECK(after.waits - before.waits == (i >= SLOTS),
              "frame %llu to %u receivers waits by %u calls for those before it",
              (unsigned long long)number, here, after.waits - before.waits);
        take_one();
    }
    end();
}

/* --- one that fails --------------------------------------------------------------------------- */

enum failure { KILLED, STOPPED, STALLED };

static void lose_one(enum failure failure)
{
    struct actor actor;
    bool stopped = failure == STOPPED;
    actor_start(&actor, "victim");
    actor_tell(&actor, "open %d", stopped ? GPUD_SLOW_DROP_OLDEST : GPUD_SLOW_DEFAULT);
    actor_await_done(&actor);
    actor_tell(&actor, "take %d", SLOTS);
    start(RECEIVERS - 1, 1);
    for (unsigned i = 0; i < SLOTS; i++) {
        send_one();
        take_one();
    }
    actor_await_done(&actor);
    if (failure != STALLED)
        kill(actor.pid, stopped ? SIGSTOP : SIGKILL);
    for (unsigned i = 0; i < FRAMES; i++) {
        send_one();
        take_one();
    }
    struct gpud_sender_info info = INFO(sender, sender);
    CHECK(info.receivers == (stopped ? RECEIVERS : RECEIVERS - 1), "%u receivers are left",
          info.receivers);
    end();
    if (failure == KILLED)
        actor_await_end(&actor, SIGKILL);
    else
        actor_kill(&actor);
}

int main(int argc, char **argv)
{
    layout = LAYOUT("UYVY", 320, 180, 0);
    if (getenv("FANOUT_DEVICE"))
        device = getenv("FANOUT_DEVICE");
    actor_main(argc, argv, "victim", play_victim);
    if (argc > 1) {
        device = argv[1];
        setenv("FANOUT_DEVICE", device, 1);
    }
    test_begin(110);
    sending = NEW_CONTEXT();
    receiving = NEW_CONTEXT();
    CASE("all have a frame before one of them is woken", publish_before_waking());
    struct gpud_device *opened = OPEN_DEVICE(receiving, device);
    gpu_open(&gpu, device, layout.size);
    CASE("a receiver that is woken too early sleeps on", wake_too_early());
    *(void **)&ask_calls = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "fakeCudaCalls");
    if (ask_calls) {
        SAY("one call posts a frame to all receivers, and one waits for what they read");
        count(1);
        count(4);
        count(RECEIVERS);
    }
    if (strcmp(device, "host") != 0)
        CASE("of a device's test frame only its pattern is mapped", map_test_frames(3));
    CASE("one of them is killed", lose_one(KILLED));
    CASE("one of them is stopped", lose_one(STOPPED));
    CASE("the GPU of one of them stalls", lose_one(STALLED));
    gpu_close(&gpu);
    gpud_device_close(&opened);
    gpud_context_destroy(&receiving);
    gpud_context_destroy(&sending);
    return runtime_done();
}
