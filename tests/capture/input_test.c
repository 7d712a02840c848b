/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The signal at the input: found and set at the start, followed while frames are captured, lost and
 * found again; its fields. */
#include "bench.h"

#include <errno.h>

/* A source of 640x360 at a card that is still set to 320x180. */
static void begin(struct bench *bench, bool tells)
{
    bench->driver.digital = true;
    bench->driver.tells = tells;
    bench->driver.timings = (struct v4l2_bt_timings){.width = 320, .height = 180, .pixelclock = 1};
    bench_prepare(bench);
    fake_signal(&bench->driver, 640, 360, false, 0);
    bench->driver.events = 0;
    WORKS(bench_create(bench, &e));
}

static void stream(struct bench *bench)
{
    struct gpud_capture_mode mode = {.size = sizeof(mode), .format = "UYVY", .fps_den = 1};
    WORKS(configure_mode(bench->capture, &mode, &e));
}

static void expect_size(struct bench *bench, uint32_t sequence, uint32_t width, uint32_t height,
                        uint32_t epoch)
{
    struct gpud_frame *frame = bench_pass(bench, sequence, (unsigned char)sequence);
    struct gpud_frame_info info = bench_info_of(frame);
    CHECK(info.layout.width == width && info.layout.height == height, "%ux%u", info.layout.width,
          info.layout.height);
    CHECK_EQUAL(info.epoch, epoch);
    gpud_frame_release(&frame);
}

static void expect_nothing(struct bench *bench, const char *why)
{
    struct gpud_frame *frame;
    EXPECT(GPUD_TIMEOUT, why, gpud_capture_acquire(bench->capture, 10 * GPUD_MSEC, &frame, &e));
}

static void test_start(void)
{
    struct bench bench = {0};
    begin(&bench, true);
    struct gpud_capture_info info = bench_info(&bench);
    CHECK(info.signal && info.signal_width == 640 && info.signal_height == 360, "%ux%u",
          info.signal_width, info.signal_height);
    stream(&bench);
    info = bench_info(&bench);
    CHECK_EQUAL(bench.driver.timings.width, 640);
    CHECK_EQUAL(info.media.picture.layout.width, 640);
    CHECK_EQUAL(info.media.picture.scan, GPUD_SCAN_PROGRESSIVE);
    CHECK(info.media.picture.pixel_aspect.num == 1 && info.media.picture.pixel_aspect.den == 1,
          "%u/%u", info.media.picture.pixel_aspect.num, info.media.picture.pixel_aspect.den);
    expect_size(&bench, 0, 640, 360, 1);
    bench_close(&bench);
}

static void test_follow(bool use_gpu)
{
    struct bench bench = {.use_gpu = use_gpu};
    begin(&bench, true);
    stream(&bench);
    expect_size(&bench, 0, 640, 360, 1);
    struct gpud_frame *held = bench_pass(&bench, 1, 9);
    for (uint32_t i = 0; i < 50; i++) {
        bool large = i % 2;
        fake_signal(&bench.driver, large ? 640 : 320, large ? 360 : 180, false, 0);
        expect_nothing(&bench, "signal"); /* and follows */
        expect_size(&bench, i, large ? 640 : 320, large ? 360 : 180, i + 2);
        CHECK_EQUAL(bench_info(&bench).signal_changes, i + 1);
    }
    bench_check_plane(held, 0, 9); /* of the first signal */
    gpud_frame_release(&held);

    /* The same again is no change. */
    fake_signal(&bench.driver, 640, 360, false, 0);
    expect_nothing(&bench, "signal");
    expect_size(&bench, 50, 640, 360, 51);

    /* A format that the card has not at the new size ends the stream, with the reason. */
    bench.driver.fault = (struct fake_fault){.request = VIDIOC_S_FMT, .times = 1, .error = EINVAL};
    fake_signal(&bench.driver, 320, 180, false, 0);
    struct gpud_frame *frame;
    EXPECT(GPUD_IO, "does not take", gpud_capture_acquire(bench.capture, GPUD_SEC, &frame, &e));
    EXPECT(GPUD_IO, "does not take", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    stream(&bench);
    bench_close(&bench);
}

/* A request for progressive pictures only reflects that the signal was progressive. */
static void test_follow_scan(void)
{
    struct bench bench = {0};
    begin(&bench, true);
    struct gpud_capture_mode mode = {
        .size = sizeof(mode), .format = "UYVY", .fps_den = 1, .scan = GPUD_SCAN_PROGRESSIVE};
    WORKS(configure_mode(bench.capture, &mode, &e));
    expect_size(&bench, 0, 640, 360, 1);
    bench.driver.field = V4L2_FIELD_INTERLACED;
    fake_signal(&bench.driver, 640, 360, true, 0);
    expect_nothing(&bench, "signal");
    CHECK_EQUAL(bench_info(&bench).media.picture.scan, GPUD_SCAN_INTERLEAVED);
    expect_size(&bench, 1, 640, 360, 2);
    bench.driver.field = V4L2_FIELD_NONE;
    fake_signal(&bench.driver, 640, 360, false, 0);
    expect_nothing(&bench, "signal");
    CHECK_EQUAL(bench_info(&bench).media.picture.scan, GPUD_SCAN_PROGRESSIVE);
    expect_size(&bench, 2, 640, 360, 3);
    bench_close(&bench);
}

/* By an event loop, or by polling. */
static void test_without_a_wait(bool watched)
{
    struct bench bench = {0};
    struct gpud_frame *frame;
    int fd;
    begin(&bench, true);
    if (watched)
        WORKS(gpud_capture_get_fd(bench.capture, &fd, &e));
    stream(&bench);
    expect_size(&bench, 0, 640, 360, 1);
    fake_signal(&bench.driver, 320, 180, false, 0);
    if (!watched)
        bench.capture->signal.look_at = 0; /* half a second later */
    EXPECT(GPUD_TIMEOUT, "signal", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    expect_size(&bench, 1, 320, 180, 2);
    bench_close(&bench);
}

/* A driver may stop its queue for another signal, and shows an error until it is streamed off. */
static void test_errors(void)
{
    struct bench bench = {0};
    struct gpud_frame *frame;
    begin(&bench, true);
    stream(&bench);
    expect_size(&bench, 0, 640, 360, 1);
    fake_signal(&bench.driver, 320, 180, false, 0);
    fake_fail_poll(&bench.driver);
    expect_nothing(&bench, "signal");
    expect_size(&bench, 1, 320, 180, 2);

    /* An event alone explains no error. */
    fake_signal(&bench.driver, 320, 180, false, 0);
    fake_fail_poll(&bench.driver);
    EXPECT(GPUD_IO, "failed", gpud_capture_acquire(bench.capture, 30 * GPUD_SEC, &frame, &e));
    stream(&bench);
    expect_size(&bench, 2, 320, 180, 3);
    fake_unplug(&bench.driver, true);
    EXPECT(GPUD_NO_DEVICE, "unplugged",
           gpud_capture_acquire(bench.capture, 30 * GPUD_SEC, &frame, &e));
    fake_unplug(&bench.driver, false);
    bench_close(&bench);
}

static bool is_readable(int fd)
{
    struct pollfd loop = {.fd = fd, .events = POLLIN};
    return poll(&loop, 1, 0) == 1;
}

/* A driver that keeps buffers while they are mapped: the next signal waits for them, without
 * spinning. */
static void test_held(void)
{
    struct bench bench = {.method = "mmap", .driver = {.keeps_mapped = true}};
    int fd;
    begin(&bench, true);
    WORKS(gpud_capture_get_fd(bench.capture, &fd, &e));
    stream(&bench);
    struct gpud_frame *held = bench_pass(&bench, 0, 1);
    bench.driver.mapped = 1;
    fake_signal(&bench.driver, 320, 180, false, 0);
    uint32_t polls = bench.driver.polls;
    expect_nothing(&bench, "release");
    CHECK_EQUAL(bench.driver.polls - polls, 2); /* the event, and then until the deadline */
    CHECK(!is_readable(fd), "an event loop is told to come, for nothing");
    bench_check_plane(held, 0, 1);
    bench.driver.mapped = 0;
    gpud_frame_release(&held);
    CHECK(is_readable(fd), "the descriptor is not ready for the released frame");
    expect_nothing(&bench, "signal");
    expect_size(&bench, 1, 320, 180, 2);
    bench_close(&bench);
}

static void test_loss(bool tells)
{
    static const struct {
        int number;
        const char *text;
    } losses[] = {{ENOLINK, "connected"}, {ENOLCK, "lock"}, {ERANGE, "beyond"}, {EIO, "no signal"}};
    struct bench bench = {0};
    begin(&bench, tells);
    stream(&bench);
    expect_size(&bench, 0, 640, 360, 1);
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t dropped = bench_info(&bench).dropped;
        fake_signal(&bench.driver, 0, 0, false, losses[i].number);
        bench.capture->signal.look_at = bench.capture->stream.last_frame = 0; /* a second later */
        expect_nothing(&bench, losses[i].text);
        CHECK(!bench_info(&bench).signal &&
                  strstr(bench_info(&bench).signal_reason, losses[i].text),
              "%s", bench_info(&bench).signal_reason);
        /* What the card shows instead is no picture. */
        CHECK(fake_frame(&bench.driver, 10 + 3 * i, 0x55), "no buffer");
        expect_nothing(&bench, losses[i].text);

        fake_signal(&bench.driver, 640, 360, false, 0);
        bench.capture->signal.look_at = 0;
        expect_nothing(&bench, "is there a signal?");
        CHECK(bench_info(&bench).signal, "it is there again");
        struct gpud_frame *frame = bench_pass(&bench, 11 + 3 * i, 7);
        CHECK(bench_info_of(frame).flags & GPUD_FRAME_DISCONTINUITY, "no discontinuity");
        CHECK(bench_info(&bench).dropped > dropped, "the noise counts as dropped");
        gpud_frame_release(&frame);
    }
    bench_close(&bench);
}

static void test_standards(void)
{
    static const struct {
        v4l2_std_id standard;
        struct v4l2_fract aspect; /* V4L2's: height by width */
        bool bottom_first;
        uint32_t x, y;
    } known[] = {
        {V4L2_STD_PAL, {54, 59}, false, 59, 54},
        {V4L2_STD_NTSC_M, {11, 10}, true, 10, 11},
    };
    for (size_t i = 0; i < 2; i++) {
        struct bench bench = {.driver = {.standard = known[i].standard,
                                         .aspect = known[i].aspect,
                                         .field = V4L2_FIELD_INTERLACED}};
        bench_open(&bench);
        struct gpud_capture_info info = bench_info(&bench);
        CHECK_EQUAL(info.signal_height, i ? 480 : 576);
        WORKS(configure_format(bench.capture, "UYVY", 320, 180, 0, 1, &e));
        info = bench_info(&bench);
        CHECK_EQUAL(info.media.picture.scan, GPUD_SCAN_INTERLEAVED);
        CHECK_EQUAL(info.media.picture.field_order == GPUD_FIELD_ORDER_BOTTOM_FIRST,
                    known[i].bottom_first);
        /* The card scales 720 to 320 and 576 (480) to 180. */
        uint64_t x = 720ull * 180 * known[i].x, y = (i ? 480ull : 576ull) * 320 * known[i].y;
        CHECK(info.media.picture.pixel_aspect.num * y == info.media.picture.pixel_aspect.den * x,
              "%u/%u", info.media.picture.pixel_aspect.num, info.media.picture.pixel_aspect.den);
        struct gpud_frame *frame = bench_pass(&bench, 0, 1);
        uint32_t order = known[i].bottom_first ? 0 : GPUD_FRAME_TOP_FIRST;
        CHECK_EQUAL(bench_info_of(frame).flags, GPUD_FRAME_INTERLACED | order);
        gpud_frame_release(&frame);
        /* A buffer has the last word. */
        bench.driver.buffer_field = V4L2_FIELD_INTERLACED_TB;
        frame = bench_pass(&bench, 1, 1);
        CHECK_EQUAL(bench_info_of(frame).flags, GPUD_FRAME_INTERLACED | GPUD_FRAME_TOP_FIRST);
        gpud_frame_release(&frame);
        bench.driver.buffer_field = V4L2_FIELD_INTERLACED_BT;
        frame = bench_pass(&bench, 2, 1);
        CHECK_EQUAL(bench_info_of(frame).flags, GPUD_FRAME_INTERLACED);
        gpud_frame_release(&frame);
        bench_close(&bench);
    }
}

static void check_field(struct bench *bench, uint32_t field, uint32_t number, uint64_t sequence,
                        uint32_t flags)
{
    bench->driver.buffer_field = field;
    struct gpud_frame *frame = bench_pass(bench, number, 1);
    struct gpud_frame_info info = bench_info_of(frame);
    CHECK_EQUAL(info.sequence, sequence);
    CHECK_EQUAL(info.flags, flags);
    CHECK_EQUAL(info.offset, number);
    CHECK_EQUAL(info.duration_ns, 16683333);
    gpud_frame_release(&frame);
}

/* 1080i and its like: each buffer is one field, and both fields of a picture have one number. */
static void test_fields(void)
{
    struct bench bench = {.driver = {.field = V4L2_FIELD_ALTERNATE}};
    begin(&bench, true);
    fake_signal(&bench.driver, 640, 360, true, 0);
    bench.driver.interval = (struct v4l2_fract){1001, 30000};
    stream(&bench);
    struct gpud_capture_info info = bench_info(&bench);
    CHECK_EQUAL(info.media.picture.scan, GPUD_SCAN_ALTERNATE);
    CHECK_EQUAL(info.media.picture.layout.height, 180);
    CHECK(info.media.picture.rate.num == 30000 && info.media.picture.rate.den == 1001, "%u/%u",
          info.media.picture.rate.num, info.media.picture.rate.den);
    uint32_t both = GPUD_FRAME_INTERLACED | GPUD_FRAME_TOP_FIRST;
    check_field(&bench, V4L2_FIELD_TOP, 0, 1, both | GPUD_FRAME_TOP_FIELD);
    check_field(&bench, V4L2_FIELD_BOTTOM, 0, 2, both | GPUD_FRAME_BOTTOM_FIELD);
    check_field(&bench, V4L2_FIELD_TOP, 1, 3, both | GPUD_FRAME_TOP_FIELD);
    /* One field is missing, then a picture and a field. */
    check_field(&bench, V4L2_FIELD_TOP, 2, 5,
                both | GPUD_FRAME_TOP_FIELD | GPUD_FRAME_DISCONTINUITY);
    check_field(&bench, V4L2_FIELD_BOTTOM, 4, 10,
                both | GPUD_FRAME_BOTTOM_FIELD | GPUD_FRAME_DISCONTINUITY);
    CHECK_EQUAL(bench_info(&bench).dropped, 5);

    struct gpud_capture_mode mode = {.size = sizeof(mode), .format = "UYVY", .fps_den = 1};
    mode.scan = GPUD_SCAN_INTERLEAVED;
    EXPECT(GPUD_UNSUPPORTED, "single fields", configure_mode(bench.capture, &mode, &e));
    bench_close(&bench);
}

/* --- no signal at the start ---------------------------------------------------------------- */

static bool will_be_readable(int fd)
{
    struct pollfd loop = {.fd = fd, .events = POLLIN};
    return poll(&loop, 1, 30000) == 1;
}

static void begin_without(struct bench *bench, int why)
{
    bench->driver.needs_signal = true;
    begin(bench, true);
    fake_signal(&bench->driver, 0, 0, false, why);
    stream(bench);
    CHECK(!bench_info(bench).signal, "there is no signal");
    CHECK_EQUAL(bench_info(bench).media.picture.layout.width, 640); /* what the card is set to */
}

/* A driver that does not start then is configured all the same, and streams the signal that comes.
 */
static void test_late_signal(int why, const char *text, bool watched)
{
    struct bench bench = {0};
    struct gpud_frame *frame;
    int fd = -1;
    if (watched) {
        bench.driver.needs_signal = true;
        begin(&bench, true);
        WORKS(gpud_capture_get_fd(bench.capture, &fd, &e));
        fake_signal(&bench.driver, 0, 0, false, why);
        stream(&bench);
    } else {
        begin_without(&bench, why);
    }
    expect_nothing(&bench, text);
    EXPECT(GPUD_TIMEOUT, text, gpud_capture_acquire(bench.capture, 0, &frame, &e));
    gpud_capture_interrupt(bench.capture, true);
    EXPECT(GPUD_AGAIN, "", gpud_capture_acquire(bench.capture, GPUD_SEC, &frame, &e));
    gpud_capture_interrupt(bench.capture, false);
    fake_signal(&bench.driver, 320, 180, false, 0);
    if (watched)
        CHECK(will_be_readable(fd), "an event loop is not told to look");
    while (!bench.driver.streaming)
        EXPECT(GPUD_TIMEOUT, "", gpud_capture_acquire(bench.capture, GPUD_SEC, &frame, &e));
    CHECK(bench_info(&bench).signal, "there is a signal");
    expect_size(&bench, 0, 320, 180, 1);
    if (watched)
        CHECK(!is_readable(fd), "an event loop comes for nothing");

    /* It goes just when another one was to be followed. */
    fake_signal(&bench.driver, 640, 360, false, 0);
    bench.driver.fault =
        (struct fake_fault){.request = VIDIOC_STREAMON, .times = 2, .error = ENOLINK};
    expect_nothing(&bench, "does not start without a signal");
    while (!bench.driver.streaming)
        EXPECT(GPUD_TIMEOUT, "", gpud_capture_acquire(bench.capture, GPUD_SEC, &frame, &e));
    CHECK_EQUAL(bench.driver.fault.times, 0);
    expect_size(&bench, 1, 640, 360, 2);
    bench_close(&bench);
}

static void test_no_signal_ends(void)
{
    struct bench bench = {0};
    struct gpud_frame *frame;
    begin_without(&bench, ENOLINK);
    fake_unplug(&bench.driver, true);
    EXPECT(GPUD_NO_DEVICE, "unplugged",
           gpud_capture_acquire(bench.capture, 30 * GPUD_SEC, &frame, &e));
    CHECK(bench_info(&bench).unplugged, "info does not say so");
    fake_unplug(&bench.driver, false);
    bench_close(&bench);

    /* Where it is there, it is no excuse for an error. */
    bench = (struct bench){0};
    begin(&bench, true);
    bench.driver.fault = (struct fake_fault){.request = VIDIOC_STREAMON, .times = 1, .error = EIO};
    struct gpud_capture_mode mode = {.size = sizeof(mode), .format = "UYVY", .fps_den = 1};
    EXPECT(GPUD_IO, "does not start", configure_mode(bench.capture, &mode, &e));
    EXPECT(GPUD_INVALID, "not configured", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    bench_close(&bench);
}

int main(void)
{
    test_late_signal(ENOLINK, "connected", false);
    test_late_signal(ENOLCK, "lock", true);
    test_no_signal_ends();
    test_start();
    test_follow(false);
    test_follow(true);
    test_follow_scan();
    test_without_a_wait(false);
    test_without_a_wait(true);
    test_errors();
    test_held();
    test_loss(true);
    test_loss(false);
    test_standards();
    test_fields();
    puts("ok");
    return 0;
}
