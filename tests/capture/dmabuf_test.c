/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Dma-bufs: a card that writes the GPU's memory by itself, and every reason for which it is not
 * given it, or not believed. */
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>

/* A frame arrives and is taken; its bytes are in the GPU's memory. */
static struct gpud_frame *pass(struct bench *bench, uint32_t sequence, unsigned char byte)
{
    struct gpud_frame *frame = bench_pass(bench, sequence, byte);
    const unsigned char *bytes = fake_gpu_bytes(bench_info_of(frame).memory);
    CHECK_EQUAL(bytes[1000], byte);
    return frame;
}

static void check_path(struct bench *bench, const char *path, const char *reason)
{
    struct gpud_capture_info info = bench_info(bench);
    CHECK(strcmp(info.path, path) == 0, "%s, not %s (%s)", info.path, path, info.fallback_reason);
    CHECK(reason[0] ? strstr(info.fallback_reason, reason) != NULL : !info.fallback_reason[0],
          "the reason is \"%s\"", info.fallback_reason);
}

/* Ready to stream, with what the caller has set up. */
static void stream(struct bench *bench)
{
    WORKS(bench_create(bench, &e));
    WORKS(configure_format(bench->capture, "UYVY", 320, 180, 0, 1, &e));
}

static void prepare(struct bench *bench)
{
    bench->use_gpu = true;
    bench->driver.takes_dmabufs = true;
    bench_prepare(bench);
}

static unsigned count_descriptors(void)
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* --- it works ------------------------------------------------------------------------------ */

static void test_direct(bool required)
{
    struct bench bench = {.direct = required};
    prepare(&bench);
    stream(&bench);
    CHECK_EQUAL(bench.driver.memory, V4L2_MEMORY_DMABUF);
    check_path(&bench, "none", ""); /* until it is seen that the card writes there */
    uint32_t flushes = bench.gpu.flushes;
    for (uint32_t i = 0; i < 30; i++) {
        struct gpud_frame *frame = pass(&bench, i, (unsigned char)(3 * i));
        check_path(&bench, "v4l2-dmabuf", "");
        CHECK_EQUAL(bench.gpu.flushes, flushes + i + 1);
        gpud_frame_release(&frame);
        CHECK_EQUAL(fake_queued(&bench.driver), 6);
    }
    struct gpud_capture_info info = bench_info(&bench);
    CHECK_EQUAL(info.frames, 30);
    CHECK_EQUAL(info.dropped + info.copies_cpu + info.copies_gpu, 0);

    /* A frame that outlives the capture. */
    struct gpud_frame *held = pass(&bench, 30, 77);
    gpud_capture_destroy(&bench.capture);
    CHECK_EQUAL(fake_gpu_bytes(bench_info_of(held).memory)[500], 77);
    gpud_frame_release(&held);
    bench_close(&bench);
}

/* The picture of a frame that is not whole proves nothing. */
static void test_not_whole(void)
{
    struct bench bench = {0};
    prepare(&bench);
    stream(&bench);
    struct fake_word word = {.flags = V4L2_BUF_FLAG_ERROR};
    CHECK(fake_frame_with(&bench.driver, 0, 5, &word), "no buffer");
    struct gpud_frame *frame = bench_acquire(&bench);
    CHECK(bench_info_of(frame).flags & GPUD_FRAME_CORRUPTED, "not flagged");
    check_path(&bench, "none", "");
    gpud_frame_release(&frame);
    frame = pass(&bench, 1, 6);
    check_path(&bench, "v4l2-dmabuf", "");
    gpud_frame_release(&frame);
    bench_close(&bench);
}

/* --- it is refused, and the next method is taken ------------------------------------------- */

static void expect_refused(struct bench *bench, const char *reason)
{
    stream(bench);
    check_path(bench, "v4l2-userptr", reason);
    CHECK(strncmp(bench_info(bench).fallback_reason, "v4l2-dmabuf: ", 13) == 0, "\"%s\"",
          bench_info(bench).fallback_reason);
    struct gpud_frame *frame = pass(bench, 0, 99);
    gpud_frame_release(&frame);
    CHECK_EQUAL(bench_info(bench).copies_gpu, 1);
    gpud_capture_destroy(&bench->capture);

    /* There is no fallback if this method, or no copies, was requested. */
    bench->method = "dmabuf";
    WORKS(bench_create(bench, &e));
    EXPECT(GPUD_UNSUPPORTED, reason, configure_format(bench->capture, "UYVY", 320, 180, 0, 1, &e));
    CHECK_EQUAL(bench->driver.count, 0);
    gpud_capture_destroy(&bench->capture);
    bench->method = NULL;
    bench->direct = true;
    WORKS(bench_create(bench, &e));
    EXPECT(GPUD_UNSUPPORTED, "v4l2-userptr: each frame would be copied",
           configure_format(bench->capture, "UYVY", 320, 180, 0, 1, &e));
    bench_close(bench);
}

static void test_refusals(void)
{
    struct bench none = {.use_gpu = true,
                         .driver.memories =
                             V4L2_BUF_CAP_SUPPORTS_MMAP | V4L2_BUF_CAP_SUPPORTS_USERPTR};
    bench_prepare(&none);
    expect_refused(&none, "the driver does not take dma-bufs");

    struct bench incapable = {0};
    prepare(&incapable);
    incapable.gpu.no_dmabufs = true;
    expect_refused(&incapable, "this driver makes no dma-bufs");

    struct bench unordered = {0};
    prepare(&unordered);
    unordered.gpu.no_flush = true;
    expect_refused(&unordered, "this GPU cannot flush");

    struct bench shifted = {0};
    prepare(&shifted);
    shifted.gpu.dmabuf_offset = 4096;
    expect_refused(&shifted, "begins at byte 4096");

    struct bench small = {0};
    prepare(&small);
    small.gpu.dmabuf_missing = 8192;
    expect_refused(&small, "gives a dma-buf of 110592 bytes where the picture has 115200");
}

/* An exporter that takes every device for one on the PCI bus is shown to no other. */
static void test_bus(void)
{
    struct bench platform = {.driver.bus = "platform"};
    prepare(&platform);
    platform.gpu.device->dmabuf_pci_only = true;
    expect_refused(&platform, "on the PCI bus alone, and this one is on platform");

    struct bench unknown = {.driver.bus = ""};
    prepare(&unknown);
    unknown.gpu.device->dmabuf_pci_only = true;
    expect_refused(&unknown, "a bus that the system does not name");

    struct bench other = {.driver.bus = "usb"};
    prepare(&other);
    stream(&other); /* another exporter does not mind */
    CHECK_EQUAL(other.driver.memory, V4L2_MEMORY_DMABUF);
    bench_close(&other);

    struct bench pci = {.driver.bus = "pci"};
    prepare(&pci);
    pci.gpu.device->dmabuf_pci_only = true;
    stream(&pci);
    CHECK_EQUAL(pci.driver.memory, V4L2_MEMORY_DMABUF);
    bench_close(&pci);
}

/* The driver may be the one that says no, at whichever buffer. */
static void test_driver_refuses(void)
{
    for (uint32_t after = 0; after < 6; after++) {
        struct bench bench = {.driver.fault = {VIDIOC_QBUF, V4L2_MEMORY_DMABUF, after, 1, EINVAL}};
        prepare(&bench);
        stream(&bench);
        check_path(&bench, "v4l2-userptr",
                   "v4l2-dmabuf: the driver refuses the buffer: Invalid argument");
        struct gpud_frame *frame = pass(&bench, 0, 99);
        gpud_frame_release(&frame);
        bench_close(&bench);
    }

    /* Areas of their own need dma-bufs of their own, which this GPU does not make. */
    struct bench areas = {.driver.multiplanar = true};
    prepare(&areas);
    WORKS(bench_create(&areas, &e));
    WORKS(configure_format(areas.capture, "I420", 320, 180, 0, 1, &e));
    check_path(&areas, "v4l2-userptr", "v4l2-dmabuf: no dma-buf begins in the middle");
    bench_close(&areas);
}

/* --- it is not believed -------------------------------------------------------------------- */

/* From the buffer on that the driver writes elsewhere, the next method carries the stream; frames
 * of those before it were good, and are not touched. */
static void test_elsewhere(uint32_t from)
{
    struct bench bench = {.driver.writes_elsewhere = true, .driver.elsewhere_from = from};
    struct gpud_frame *held = NULL;
    int fd;
    prepare(&bench);
    stream(&bench);
    WORKS(gpud_capture_get_fd(bench.capture, &fd, &e));
    struct pollfd watch = {.fd = fd, .events = POLLIN};
    for (uint32_t i = 0; i < from; i++) {
        gpud_frame_release(&held);
        held = pass(&bench, i, (unsigned char)(10 + i));
        check_path(&bench, "v4l2-dmabuf", "");
    }
    struct gpud_frame *frame = NULL;
    CHECK(fake_frame(&bench.driver, from, 50), "the driver has no buffer");
    EXPECT(GPUD_TIMEOUT, "no frame", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    check_path(&bench, "v4l2-userptr",
               "v4l2-dmabuf: the driver took the memory of fake:0 and wrote elsewhere");
    CHECK_EQUAL(bench_info(&bench).dropped, 1);
    CHECK(poll(&watch, 1, 0) == 0, "an event loop is woken for nothing");
    for (uint32_t i = 0; i < 10; i++) {
        CHECK(fake_frame(&bench.driver, i, (unsigned char)(100 + i)), "no buffer");
        CHECK(poll(&watch, 1, 0) == 1, "an event loop sees no frame");
        frame = bench_acquire(&bench);
        CHECK(!(bench_info_of(frame).flags & GPUD_FRAME_DISCONTINUITY) == (i > 0), "frame %u", i);
        CHECK_EQUAL(bench_info_of(frame).epoch, 2);
        bench_check_plane(frame, 0, (unsigned char)(100 + i));
        gpud_frame_release(&frame);
    }
    CHECK_EQUAL(bench_info(&bench).copies_gpu, 10);
    if (held)
        CHECK_EQUAL(fake_gpu_bytes(bench_info_of(held).memory)[9], 9 + from);
    gpud_frame_release(&held);
    bench_close(&bench);
}

/* Where no other method may be taken the stream ends, and says why. */
static void test_elsewhere_alone(bool required)
{
    struct bench bench = {
        .method = required ? NULL : "dmabuf", .direct = required, .driver.writes_elsewhere = true};
    struct gpud_frame *frame = NULL;
    struct pollfd loop = {.events = POLLIN};
    prepare(&bench);
    stream(&bench);
    WORKS(gpud_capture_get_fd(bench.capture, &loop.fd, &e));
    CHECK(fake_frame(&bench.driver, 0, 50), "the driver has no buffer");
    EXPECT(GPUD_UNSUPPORTED, "wrote elsewhere",
           gpud_capture_acquire(bench.capture, GPUD_SEC, &frame, &e));
    CHECK(poll(&loop, 1, 0) == 1, "an event loop is not told of the end");
    EXPECT(GPUD_UNSUPPORTED, "wrote elsewhere", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    CHECK(poll(&loop, 1, 0) == 1, "an event loop is told of the end once only");
    CHECK_EQUAL(bench.driver.count, 0);
    check_path(&bench, "none", "");
    bench.driver.writes_elsewhere = false;
    WORKS(configure_format(bench.capture, "UYVY", 320, 180, 0, 1, &e));
    CHECK(poll(&loop, 1, 0) == 0, "an event loop is told of what is over");
    frame = pass(&bench, 0, 51);
    check_path(&bench, "v4l2-dmabuf", "");
    gpud_frame_release(&frame);
    bench_close(&bench);
}

/* --- the rungs below ----------------------------------------------------------------------- */

/* Nothing can be pinned for this GPU: the CPU carries the frames, which is counted and said. */
static void test_by_cpu(void)
{
    struct bench bench = {0};
    prepare(&bench);
    bench.gpu.no_dmabufs = bench.gpu.no_pins = true;
    stream(&bench);
    check_path(&bench, "v4l2-mmap", "v4l2-userptr: fake:0 cannot register the driver's memory");
    check_path(&bench, "v4l2-mmap", "v4l2-mmap: fake:0 cannot register the driver's memory");
    struct gpud_frame *frame = pass(&bench, 0, 8);
    gpud_frame_release(&frame);
    CHECK_EQUAL(bench_info(&bench).copies_cpu, 1);
    CHECK_EQUAL(bench_info(&bench).copies_gpu, 1);
    bench_close(&bench);
}

/* On the host all methods copy as little, and dma-bufs cost a bracket around each access. */
static void test_host(void)
{
    struct bench bench = {.direct = true, .driver.takes_dmabufs = true};
    bench_stream(&bench);
    check_path(&bench, "v4l2-userptr", "");
    bench_close(&bench);
}

int main(void)
{
    unsigned before = count_descriptors();
    test_direct(false);
    test_direct(true);
    test_not_whole();
    test_refusals();
    test_bus();
    test_driver_refuses();
    for (uint32_t from = 0; from < 6; from++)
        test_elsewhere(from);
    test_elsewhere_alone(false);
    test_elsewhere_alone(true);
    test_by_cpu();
    test_host();
    CHECK_EQUAL(count_descriptors(), before);
    puts("ok");
    return 0;
}
