/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A receiver hands a frame back by two operations on the application's stream: one for the sender,
 * one for its own record. Here the driver does not take both at once, and takes the first and
 * refuses the second. The frame must not be given back before the stream has read it, and the page
 * that the stream has yet to write must stay.
 *
 * refused_test [device] */
#include "actor.h"
#include "support/gpu.h"
#include "base/base.h"
#include "stream/shared/shared.h"
#include "wire/unix/unix.h"

#include <sys/socket.h>

#define ENTRIES 2

typeof(gpud_signal_post) __real_gpud_signal_post, __wrap_gpud_signal_post;
typeof(gpud_signal_post_all) __real_gpud_signal_post_all, __wrap_gpud_signal_post_all;

static unsigned posts, refused_post; /* 0: none is */

enum gpud_status __wrap_gpud_signal_post_all(const struct gpud_signal_value *values, uint32_t count,
                                             struct gpud_queue *queue, struct gpud_error *error)
{
    if (refused_post)
        return gpud_fail(error, GPUD_IO, "two posts at once are refused by the test");
    return __real_gpud_signal_post_all(values, count, queue, error);
}

enum gpud_status __wrap_gpud_signal_post(struct gpud_signal *signal, uint64_t value,
                                         struct gpud_queue *queue, struct gpud_error *error)
{
    if (++posts == refused_post)
        return gpud_fail(error, GPUD_IO, "this post is refused by the test");
    return __real_gpud_signal_post(signal, value, queue, error);
}

static struct gpud_device *device;
static struct gpu gpu;
static struct gpud_page *page;
static struct gpud_channel *channel;
static struct gpud_watchdog *watchdog;
static atomic_bool over;

static void start(void)
{
    int ends[2], page_fd;
    void *mapped;
    const struct gpud_peer peer = {.pid = getpid(), .same_process = true};
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0,
          "no sockets");
    static int other = -1;
    gpud_fd_close(&other);
    other = ends[1];
    WORKS(gpud_unix_channel_create(ends[0], &peer, &channel, &e));
    WORKS(gpud_memfd_create("page", sizeof(*page), GPUD_SHARE_WRITABLE, &page_fd, &mapped, &e));
    close(page_fd);
    page = mapped;
    for (uint32_t i = 0; i < ENTRIES; i++) /* the frames are there */
        atomic_store(&page->sender.ready[i].word, 100);
    WORKS(gpud_watchdog_create(device, page, ENTRIES, channel, GPUD_SIDE_RECEIVER, &watchdog, &e));
    atomic_store(&over, false);
}

/* As a release does: what the queue does not post is posted by the CPU. */
static void hand_back(struct gpud_queue *queue, uint32_t entry, uint32_t value)
{
    if (gpud_watchdog_post(watchdog, entry, value, queue, NULL) != GPUD_OK)
        gpud_watchdog_post_now(watchdog, entry, value);
}

static uint32_t released(uint32_t entry)
{
    return atomic_load(&page->receiver.release[entry].word);
}

static void on_end(void *arg)
{
    atomic_store(&over, true);
}

static void end(void)
{
    gpud_watchdog_end(&watchdog, on_end, NULL);
    gpud_channel_unref(&channel);
}

static void refuse_next(unsigned number)
{
    posts = 0;
    refused_post = number;
}

static void held_up(struct gpud_queue *queue, unsigned number)
{
    start();
    gpu_hold(&gpu);
    refuse_next(number);
    if (number == 1) { /* nothing is on the stream: the caller waits for it */
        EXPECT(GPUD_IO, "refused", gpud_watchdog_post(watchdog, 0, 1, queue, &e));
        CHECK_EQUAL(released(0), 0);
    } else {
        hand_back(queue, 0, 1);
    }
    gpud_test_nap(100); /* in which the watchdog's thread comes round */
    CHECK(released(0) == 0, "the frame is given back while the stream still reads it");
    CHECK(gpud_watchdog_is_free(watchdog, 0), "a wait that is not there");
    hand_back(queue, 0, 2);
    hand_back(queue, 1, 1);
    end();
    gpud_test_nap(200);
    CHECK(!atomic_load(&over), "the page goes while the stream has yet to write it");
    gpu_let_go(&gpu);
    CHECK(gpu_ends(&gpu, 10000) && gpu_works(&gpu), "the stream does not come to its end");
    PEER_UNTIL("the end of the page", 10000, atomic_load(&over));
}

static void not_held_up(struct gpud_queue *queue)
{
    start();
    refuse_next(2);
    hand_back(queue, 0, 1);
    PEER_UNTIL("the frame to be given back", 10000, released(0) == 1);
    hand_back(queue, 0, 2);
    PEER_UNTIL("the next one", 10000, released(0) == 2);
    end();
    PEER_UNTIL("the end of the page", 10000, atomic_load(&over));
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "cuda:0";
    struct gpud_context *context;
    struct gpud_queue queue;
    test_alarm(100);
    setenv("GPUDIRECT_LOG", "error", 0);
    WORKS(gpud_context_create(NULL, &context, &e));
    WORKS(gpud_device_open(context, name, &device, &e));
    gpu_open(&gpu, name, 4096);
    WORKS(gpud_queue_wrap(device, gpu.stream, &queue, &e));
    CASE("the record is refused, and the stream is held up", held_up(&queue, 2));
    CASE("the post is refused, and the stream is held up", held_up(&queue, 1));
    CASE("nothing is refused, and the stream is held up", held_up(&queue, 0));
    SAY("the record is refused, and the stream goes on");
    not_held_up(&queue);
    gpu_close(&gpu);
    gpud_device_close(&device);
    gpud_context_destroy(&context);
    return 0;
}
