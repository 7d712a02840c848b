/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A card is unplugged while it captures, and comes back: the folder of nodes is a folder of this
 * test's, in which the card's node appears and disappears. */
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Simulates the error for a user without watches left. */
static bool no_watches;
int __real_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    if (!no_watches)
        return __real_inotify_add_watch(fd, path, mask);
    errno = ENOSPC;
    return -1;
}

struct slot {
    struct bench bench;
    struct gpud_v4l2_system system;
    char folder[32], node[64], other[64];
    int fd; /* for event loops */
};

static void make(const char *path)
{
    int fd = open(path, O_CREAT | O_EXCL | O_CLOEXEC | O_WRONLY, 0600);
    CHECK(fd >= 0 && close(fd) == 0, "%s", path);
}

static void begin(struct slot *slot)
{
    snprintf(slot->folder, sizeof(slot->folder), "/tmp/gpudirect-lost-XXXXXX");
    CHECK(mkdtemp(slot->folder), "no folder");
    snprintf(slot->node, sizeof(slot->node), "%s/video0", slot->folder);
    snprintf(slot->other, sizeof(slot->other), "%s/video1", slot->folder);
    make(slot->node);
    slot->system = fake_system;
    slot->system.folder = slot->folder;
    slot->bench.system = &slot->system;
    slot->bench.driver.node = slot->node;
    slot->bench.driver.place = "PCI:0000:03:00.0";
    bench_stream(&slot->bench);
    WORKS(gpud_capture_get_fd(slot->bench.capture, &slot->fd, &e));
}

static void finish(struct slot *slot)
{
    bench_close(&slot->bench);
    unlink(slot->node);
    unlink(slot->other);
    CHECK(rmdir(slot->folder) == 0, "%s is not empty", slot->folder);
}

static bool is_readable(const struct slot *slot, int milliseconds)
{
    struct pollfd loop = {.fd = slot->fd, .events = POLLIN};
    return poll(&loop, 1, milliseconds) == 1;
}

static void unplug(struct slot *slot)
{
    struct gpud_frame *frame;
    fake_unplug(&slot->bench.driver, true);
    unlink(slot->node);
    for (int i = 0; i < 2; i++) {
        EXPECT(GPUD_NO_DEVICE, "unplugged",
               gpud_capture_acquire(slot->bench.capture, 30 * GPUD_SEC, &frame, &e));
        CHECK(is_readable(slot, 0), "an event loop is not told");
    }
    CHECK(bench_info(&slot->bench).unplugged, "info does not say so");
}

/* The card is missing, it is not polled, and an event loop may sleep. */
static void expect_absence(struct slot *slot, const char *why)
{
    EXPECT(GPUD_TIMEOUT, why, gpud_capture_wait(slot->bench.capture, 0, &e));
    CHECK_EQUAL(slot->bench.driver.opened, 0);
    uint32_t opens = slot->bench.driver.opens;
    for (int i = 0; i < 3; i++) {
        EXPECT(GPUD_TIMEOUT, why, gpud_capture_wait(slot->bench.capture, GPUD_MSEC, &e));
        CHECK(!is_readable(slot, 0), "an event loop comes for nothing");
    }
    CHECK_EQUAL(slot->bench.driver.opens, opens);
}

/* Readable by itself; and then frames come again. */
static void expect_return(struct slot *slot, uint32_t epoch, uint64_t returns)
{
    CHECK(is_readable(slot, 30000), "an event loop is not told");
    WORKS(gpud_capture_wait(slot->bench.capture, 30 * GPUD_SEC, &e));
    struct gpud_frame *frame = bench_pass(&slot->bench, 7, 42);
    struct gpud_frame_info info = bench_info_of(frame);
    CHECK_EQUAL(info.epoch, epoch);
    CHECK(info.flags & GPUD_FRAME_DISCONTINUITY, "no discontinuity");
    gpud_frame_release(&frame);
    struct gpud_capture_info now = bench_info(&slot->bench);
    CHECK(!now.unplugged, "info does not say so");
    CHECK_EQUAL(now.returns, returns);
    CHECK(!is_readable(slot, 0), "an event loop comes for nothing");
}

static void test_same_node(bool use_gpu)
{
    struct slot slot = {.bench.use_gpu = use_gpu};
    begin(&slot);
    WORKS(gpud_capture_wait(slot.bench.capture, 0, &e)); /* it is there */
    gpud_capture_stop(slot.bench.capture);
    CHECK(!slot.bench.driver.streaming && slot.bench.driver.opened, "it goes on");
    EXPECT(GPUD_INVALID, "not configured",
           gpud_capture_acquire(slot.bench.capture, 0, &(struct gpud_frame *){NULL}, &e));
    fake_unplug(&slot.bench.driver, true); /* seen only by queries */
    EXPECT(GPUD_TIMEOUT, "there is no", gpud_capture_wait(slot.bench.capture, 0, &e));
    fake_unplug(&slot.bench.driver, false);
    CHECK(chmod(slot.node, 0600) == 0, "chmod");
    WORKS(gpud_capture_wait(slot.bench.capture, 0, &e));
    CHECK(!slot.bench.driver.streaming, "it streams without a request");
    WORKS(configure_format(slot.bench.capture, "UYVY", 320, 180, 0, 1, &e));
    EXPECT(GPUD_INVALID, "negative", gpud_capture_wait(slot.bench.capture, -1, &e));
    struct gpud_frame *held = bench_pass(&slot.bench, 0, 1);
    for (uint32_t i = 0; i < 5; i++) {
        unplug(&slot);
        expect_absence(&slot, "there is no");
        CHECK_EQUAL(gpud_capture_list_modes(slot.bench.capture, NULL, NULL, 0), 0);
        fake_unplug(&slot.bench.driver, false);
        make(slot.node);
        expect_return(&slot, i + 3, i + 2);
    }
    bench_check_plane(held, 0, 1);
    gpud_frame_release(&held);

    /* Destroyed while it is waited for. */
    unplug(&slot);
    expect_absence(&slot, "there is no");
    finish(&slot);
}

/* Without an event for the card's return, it is polled; also after a configure in vain. */
static void test_no_watches(void)
{
    struct slot slot = {0};
    no_watches = true;
    begin(&slot);
    unplug(&slot);
    EXPECT(GPUD_TIMEOUT, "there is no", gpud_capture_wait(slot.bench.capture, 0, &e));
    EXPECT(GPUD_NO_DEVICE, "there is no",
           configure_format(slot.bench.capture, "UYVY", 320, 180, 0, 1, &e));
    fake_unplug(&slot.bench.driver, false);
    make(slot.node);
    WORKS(gpud_capture_wait(slot.bench.capture, 30 * GPUD_SEC, &e));
    finish(&slot);
    no_watches = false;
}

/* The number is another one, and the old one is another card's. */
static void test_other_node(void)
{
    struct slot slot = {0};
    begin(&slot);
    unplug(&slot);
    expect_absence(&slot, "there is no");
    slot.bench.driver.node = slot.other;
    slot.bench.driver.other = slot.node;
    fake_unplug(&slot.bench.driver, false);
    make(slot.other);
    make(slot.node);
    expect_return(&slot, 2, 1);
    CHECK(strcmp(slot.bench.capture->node.path, slot.other) == 0, "at %s",
          slot.bench.capture->node.path);

    /* And back. */
    fake_unplug(&slot.bench.driver, true);
    unlink(slot.other);
    unplug(&slot);
    slot.bench.driver.other = NULL;
    expect_absence(&slot, "there is no");
    slot.bench.driver.node = slot.node;
    fake_unplug(&slot.bench.driver, false);
    make(slot.node);
    expect_return(&slot, 3, 2);
    finish(&slot);
}

/* Another card at the node that the user named is used, unless it lacks the format. */
static void test_other_card(void)
{
    struct slot slot = {0};
    struct gpud_frame *frame;
    begin(&slot);
    unplug(&slot);
    expect_absence(&slot, "there is no");
    slot.bench.driver.place = "PCI:0000:04:00.0";
    fake_unplug(&slot.bench.driver, false);
    make(slot.node);
    expect_return(&slot, 2, 1);

    unplug(&slot);
    expect_absence(&slot, "there is no");
    slot.bench.driver.field = V4L2_FIELD_SEQ_TB;
    fake_unplug(&slot.bench.driver, false);
    make(slot.node);
    EXPECT(GPUD_UNSUPPORTED, "one below the other", gpud_capture_wait(slot.bench.capture, 0, &e));
    EXPECT(GPUD_UNSUPPORTED, "one below the other",
           gpud_capture_acquire(slot.bench.capture, 0, &frame, &e));
    slot.bench.driver.field = V4L2_FIELD_NONE;
    WORKS(configure_format(slot.bench.capture, "UYVY", 320, 180, 0, 1, &e));
    frame = bench_pass(&slot.bench, 0, 3);
    gpud_frame_release(&frame);
    finish(&slot);
}

/* The node is there before the card can be used: udev sets permissions, firmware is loaded. */
static void test_not_ready(void)
{
    struct slot slot = {0};
    begin(&slot);
    unplug(&slot);
    expect_absence(&slot, "there is no");
    slot.bench.driver.open_error = EACCES;
    fake_unplug(&slot.bench.driver, false);
    make(slot.node);
    EXPECT(GPUD_TIMEOUT, "no permission", gpud_capture_wait(slot.bench.capture, 0, &e));
    slot.bench.driver.open_error = 0;
    CHECK(chmod(slot.node, 0660) == 0, "chmod");
    expect_return(&slot, 2, 1);

    unplug(&slot);
    expect_absence(&slot, "there is no");
    slot.bench.driver.fault =
        (struct fake_fault){.request = VIDIOC_STREAMON, .times = 2, .error = EIO};
    fake_unplug(&slot.bench.driver, false);
    make(slot.node);
    EXPECT(GPUD_TIMEOUT, "does not start", gpud_capture_wait(slot.bench.capture, 0, &e));
    CHECK_EQUAL(slot.bench.driver.opened, 0);
    expect_return(&slot, 3, 2);
    CHECK_EQUAL(slot.bench.driver.fault.times, 0);
    finish(&slot);
}

/* /dev/v4l/by-id goes with its last link. */
static void test_folder_of_links(void)
{
    struct slot slot = {0};
    char folder[64], node[80];
    begin(&slot);
    gpud_capture_destroy(&slot.bench.capture);
    snprintf(folder, sizeof(folder), "%s/by-id", slot.folder);
    snprintf(node, sizeof(node), "%s/card", folder);
    slot.bench.driver.node = node;
    slot.bench.driver.place = NULL;
    WORKS(bench_create(&slot.bench, &e));
    WORKS(configure_format(slot.bench.capture, "UYVY", 320, 180, 0, 1, &e));
    WORKS(gpud_capture_get_fd(slot.bench.capture, &slot.fd, &e));
    unplug(&slot);
    expect_absence(&slot, "there is no");
    CHECK(mkdir(folder, 0700) == 0, "mkdir");
    CHECK(is_readable(&slot, 0), "not told of the folder");
    expect_absence(&slot, "there is no");
    fake_unplug(&slot.bench.driver, false);
    make(node);
    expect_return(&slot, 2, 1);
    unlink(node);
    rmdir(folder);
    finish(&slot);
}

/* The card is back before its signal is. */
static void test_no_signal_yet(void)
{
    struct slot slot = {.bench.driver = {.digital = true, .tells = true, .needs_signal = true}};
    struct gpud_frame *frame;
    struct fake_driver *driver = &slot.bench.driver;
    driver->detected = driver->timings =
        (struct v4l2_bt_timings){.width = 320, .height = 180, .pixelclock = 1000};
    begin(&slot);
    unplug(&slot);
    expect_absence(&slot, "there is no");
    fake_unplug(driver, false);
    fake_signal(driver, 0, 0, false, ENOLINK);
    make(slot.node);
    WORKS(gpud_capture_wait(slot.bench.capture, 30 * GPUD_SEC, &e));
    EXPECT(GPUD_TIMEOUT, "connected", gpud_capture_acquire(slot.bench.capture, 0, &frame, &e));
    driver->detects = driver->events = 0;
    driver->detected = driver->timings;
    CHECK(is_readable(&slot, 30000), "an event loop is not told to look");
    while (!driver->streaming)
        EXPECT(GPUD_TIMEOUT, "", gpud_capture_acquire(slot.bench.capture, GPUD_SEC, &frame, &e));
    frame = bench_pass(&slot.bench, 0, 3);
    CHECK_EQUAL(bench_info_of(frame).epoch, 2);
    gpud_frame_release(&frame);
    CHECK(!is_readable(&slot, 0), "an event loop comes for nothing");
    finish(&slot);
}

struct visitor {
    struct slot *slot;
    void (*what)(struct slot *slot);
};

static void *visit(void *arg)
{
    const struct visitor *visitor = arg;
    visitor->what(visitor->slot);
    return NULL;
}

static void plug_in(struct slot *slot)
{
    fake_unplug(&slot->bench.driver, false);
    make(slot->node);
}

static void interrupt(struct slot *slot)
{
    gpud_capture_interrupt(slot->bench.capture, true);
}

/* One long wait is enough. */
static void test_threads(void)
{
    struct slot slot = {0};
    pthread_t thread;
    begin(&slot);
    for (uint32_t i = 0; i < 10; i++) {
        unplug(&slot);
        struct visitor plugger = {&slot, plug_in}, interrupter = {&slot, interrupt};
        CHECK(pthread_create(&thread, NULL, visit, &interrupter) == 0, "no thread");
        EXPECT(GPUD_AGAIN, "interrupted", gpud_capture_wait(slot.bench.capture, 60 * GPUD_SEC, &e));
        pthread_join(thread, NULL);
        gpud_capture_interrupt(slot.bench.capture, false);
        CHECK(pthread_create(&thread, NULL, visit, &plugger) == 0, "no thread");
        WORKS(gpud_capture_wait(slot.bench.capture, 60 * GPUD_SEC, &e));
        pthread_join(thread, NULL);
        CHECK(!bench_info(&slot.bench).unplugged, "still away");
        struct gpud_frame *frame = bench_pass(&slot.bench, i, 4);
        gpud_frame_release(&frame);
    }
    finish(&slot);
}

/* configure finds the card as well as wait does, also while that is under way. */
static void test_configure(bool waits)
{
    struct slot slot = {0};
    begin(&slot);
    unplug(&slot);
    if (waits)
        expect_absence(&slot, "there is no");
    EXPECT(GPUD_NO_DEVICE, "there is no",
           configure_format(slot.bench.capture, "UYVY", 320, 180, 0, 1, &e));
    slot.bench.driver.node = slot.other;
    fake_unplug(&slot.bench.driver, false);
    make(slot.other);
    WORKS(configure_format(slot.bench.capture, "UYVY", 640, 360, 0, 1, &e));
    CHECK_EQUAL(bench_info(&slot.bench).returns, 1);
    struct gpud_frame *frame = bench_pass(&slot.bench, 0, 3);
    gpud_frame_release(&frame);
    CHECK(!is_readable(&slot, 0), "an event loop comes for nothing");
    finish(&slot);
}

int main(void)
{
    test_same_node(false);
    test_same_node(true);
    test_no_watches();
    test_other_node();
    test_other_card();
    test_not_ready();
    test_folder_of_links();
    test_no_signal_yet();
    test_threads();
    test_configure(false);
    test_configure(true);
    puts("ok");
    return 0;
}
