/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What links do that their frames do not show. Linked with --wrap: calls of the core are watched.
 *
 * left DEVICE: a sender is killed with frames published whose copies its device has not made. The
 * first of them that the receiver maps reveals that the sender is dead. It does not wait for the
 * others: each wait would delay the next sender's first picture.
 *
 * locks [DEVICE]: how many mutexes a frame takes, on either side, while frames flow by map: each
 * call in this one thread, so that what the others do is not counted.
 *
 * fallback DEVICE: a receiver whose driver refuses the sender's memory, at the first format or at a
 * later one, gets its frames through the host, beside one that maps them. The first frame of the
 * format is submitted while the two still agree on that. */
#include "conformance.h"

#include "device/vulkan/vulkan.h"
#include "stream/sender/sender.h"
#include "support/media.h"

#include <signal.h>
#include <sys/wait.h>

static const char *device;

/* --- left ------------------------------------------------------------------------------------- */

#define LEFT 4

static bool known_dead;
static unsigned waits; /* for the bytes of a frame, once the sender is known to be dead */

__typeof__(gpud_signal_wait_host) __real_gpud_signal_wait_host, __wrap_gpud_signal_wait_host;
enum gpud_status __wrap_gpud_signal_wait_host(struct gpud_signal *signal, uint64_t value,
                                              int64_t deadline, struct gpud_error *error)
{
    waits += known_dead && deadline > gpud_now();
    return __real_gpud_signal_wait_host(signal, value, deadline, error);
}

static void submit(struct gpud_sender *sender)
{
    struct gpud_frame *frame = ACQUIRE_SLOT(sender, 10 * GPUD_SEC);
    WORKS(gpud_sender_submit(sender, &frame, 10 * GPUD_SEC, &e));
}

static _Noreturn void play_sender(int tell)
{
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_sender *sender = NEW_SENDER(context, .address = "left", .device = device);
    struct gpud_layout layout = LAYOUT("UYVY", 64, 32, 0);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    WORKS(gpud_sender_wait(sender, 1, 30 * GPUD_SEC, &e));
    submit(sender);
    hold_queue(sender->queue);
    for (int i = 0; i < LEFT; i++)
        submit(sender);
    CHECK(write(tell, "", 1) == 1, "the child is gone");
    for (;;)
        pause();
}

static void test_left(void)
{
    int ends[2];
    char ready;
    void *data;
    runtime_make();
    CHECK(pipe(ends) == 0, "no pipe");
    pid_t child = fork(); /* before there is a driver, which does not like it */
    CHECK(child >= 0, "no process");
    if (child == 0)
        play_sender(ends[1]);
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_receiver *receiver =
        NEW_RECEIVER(context, .address = "left", .device = device, .route = "directgma");
    struct gpud_frame *frame = ACQUIRE_FRAME(receiver, 30 * GPUD_SEC);
    MAP_FRAME(frame, GPUD_READ, 30 * GPUD_SEC);
    gpud_frame_unmap(frame);
    gpud_frame_release(&frame);
    CHECK(read(ends[0], &ready, 1) == 1, "the sender does not get that far");
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child, "no child");
    for (int i = 0; i < LEFT; i++) {
        frame = ACQUIRE_FRAME(receiver, 30 * GPUD_SEC);
        EXPECT(GPUD_PEER, "the sender died",
               gpud_frame_map(frame, GPUD_READ, 30 * GPUD_SEC, &data, &e));
        known_dead = true;
        gpud_frame_release(&frame);
    }
    GIVES(GPUD_PEER, gpud_receiver_acquire(receiver, 30 * GPUD_SEC, &frame, &e));
    SAY("%d frames were left behind, %u waits for their bytes", LEFT, waits);
    CHECK_EQUAL(waits, 0);
    gpud_receiver_destroy(&receiver);
    /* The dead sender's socket: the next one takes it over, and removes it when it leaves. */
    struct gpud_sender *next = NEW_SENDER(context, .address = "left");
    gpud_sender_destroy(&next);
    gpud_context_destroy(&context);
}

/* --- locks ------------------------------------------------------------------------------------ */

#define MANY 1000

static _Thread_local unsigned locks;

__typeof__(pthread_mutex_lock) __real_pthread_mutex_lock, __wrap_pthread_mutex_lock;
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    locks++;
    return __real_pthread_mutex_lock(mutex);
}

static unsigned take_locks(void)
{
    unsigned taken = locks;
    locks = 0;
    return taken;
}

static void test_locks(void)
{
    unsigned acquires = 0, submits = 0, receives = 0, releases = 0;
    runtime_make();
    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    AUTO(gpud_sender_destroy)
    struct gpud_sender *sender = NEW_SENDER(context, .address = "locks", .device = device);
    struct gpud_layout layout = LAYOUT("UYVY", 64, 32, 0);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    AUTO(gpud_receiver_destroy)
    struct gpud_receiver *receiver = NEW_RECEIVER(context, .address = "locks", .device = device);
    PEER_LINK(sender, receiver, 1);
    for (unsigned i = 0; i < MANY; i++) {
        take_locks();
        struct gpud_frame *frame = ACQUIRE_SLOT(sender, GPUD_SEC);
        acquires += take_locks();
        WORKS(gpud_sender_submit(sender, &frame, GPUD_SEC, &e));
        submits += take_locks();
        frame = ACQUIRE_FRAME(receiver, 10 * GPUD_SEC);
        receives += take_locks();
        gpud_frame_release(&frame);
        releases += take_locks();
    }
    SAY("%d frames: acquire %u, submit %u; receive %u, release %u", MANY, acquires, submits,
        receives, releases);
    CHECK_EQUAL(acquires, MANY);
    /* One more enqueues the device's signal. */
    CHECK_EQUAL(submits, (strcmp(device, "host") != 0 ? 2 : 1) * MANY);
    CHECK_EQUAL(receives, 0);
    CHECK_EQUAL(releases, MANY);
}

/* --- fallback --------------------------------------------------------------------------------- */

#define FRAMES 8
#define UNLIMITED 1000
/* How many imports a driver accepts: Vulkan's here, the fake one of CUDA by a fault of its own. */
#define IMPORTS "GPUD_TEST_IMPORTS"
#define FAULT "GPUD_FAKE_CUDA_FAIL"

__typeof__(gpud_vulkan_import) __real_gpud_vulkan_import, __wrap_gpud_vulkan_import;
enum gpud_status __wrap_gpud_vulkan_import(struct gpud_memory *memory,
                                           const struct gpud_handle *handle,
                                           struct gpud_error *error)
{
    static atomic_int count;
    const char *limit = getenv(IMPORTS);
    if (limit && atomic_fetch_add(&count, 1) >= atoi(limit))
        return gpud_fail(error, GPUD_PEER, "the driver of this test imports no more");
    return __real_gpud_vulkan_import(memory, handle, error);
}

static void set_limit(int imports)
{
    char limit[64];
    snprintf(limit, sizeof(limit), "%d", imports);
    setenv(IMPORTS, limit, 1);
    snprintf(limit, sizeof(limit), "cuMemImportFromShareableHandle:%d+=2", imports + 1);
    setenv(FAULT, limit, 1);
}

static void start(struct peer *peer, int imports)
{
    struct peer_orders orders = {0};
    gpud_print(orders.device, "%s", device);
    gpud_print(orders.address, "%s", peer_address("fallback"));
    set_limit(imports);
    peer_start(peer, &orders);
    set_limit(UNLIMITED);
}

static uint64_t count_copies(struct gpud_sender *sender)
{
    struct gpud_sender_info info = INFO(sender, sender);
    return info.copies_cpu + info.copies_gpu;
}

/* Returns how many of the three formats went through the host. */
static int run(int imports)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    AUTO(gpud_sender_destroy)
    struct gpud_sender *sender = NEW_SENDER(context, .address = peer_address("fallback"),
                                            .device = device, .slow_receiver = GPUD_SLOW_BLOCK);
    struct gpud_layout layout = LAYOUT("UYVY", 160, 90, 0);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    /* The ring has its full size before the driver refuses: growing ends a link. */
    struct peer peer[2];
    start(&peer[0], UNLIMITED);
    WORKS(gpud_sender_wait(sender, 1, 30 * GPUD_SEC, &e));
    start(&peer[1], imports);
    WORKS(gpud_sender_wait(sender, 2, 30 * GPUD_SEC, &e));

    uint64_t number = 0;
    int staged = 0;
    for (uint32_t width = 160; width <= 320; width += 80) {
        uint64_t copies = count_copies(sender);
        layout = LAYOUT("UYVY", width, 90, 0);
        WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
        for (int i = 0; i < FRAMES; i++)
            SEND_LENT(sender, &layout, ++number);
        staged += count_copies(sender) > copies;
    }
    for (int i = 0; i < 2; i++)
        PEER_UNTIL("the last frame", 30000, atomic_load(&peer[i].board->last) == number);
    struct gpud_link_info link[2] = {{.size = sizeof(link[0])}};
    CHECK_EQUAL(gpud_sender_list_links(sender, link, 2), 2);
    for (int i = 0; i < 2; i++) {
        bool degraded = link[i].degraded == GPUD_DEGRADED_FAILED;
        CHECK(degraded == (strcmp(link[i].path, "map") != 0), "%s is degraded: %d (%s)",
              link[i].path, link[i].degraded, link[i].fallback_reason);
        PEER_FINISH(&peer[i]);
        CHECK_EQUAL(peer[i].board->frames, number);
        CHECK_EQUAL(peer[i].board->gaps, 0);
        peer_forget(&peer[i]);
    }
    return staged;
}

static void test_fallback(void)
{
    set_limit(0);                         /* of this process, the sender's */
    struct side side = side_open(device); /* 77 without */
    side_close(&side);
    runtime_make();
    int seen = 0;
    for (int imports = 0, staged = 1; staged > 0; imports++) {
        staged = run(imports);
        SAY("%d imports: %d of three formats go through the host", imports, staged);
        seen |= 1 << staged;
    }
    CHECK(seen == 15, "the driver refused at %x formats, not at each of them", seen);
}

int main(int argc, char **argv)
{
    peer_main(argc, argv);
    CHECK(argc > 1, "usage: links left|locks|fallback [DEVICE]");
    device = argc > 2 ? argv[2] : "host";
    bool fallback = strcmp(argv[1], "fallback") == 0;
    test_alarm(fallback ? 240 : 100);
    if (fallback)
        test_fallback();
    else if (strcmp(argv[1], "left") == 0)
        test_left();
    else
        test_locks();
    runtime_done();
    return 0;
}
