/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* From the address to the first frame: opening, what the driver offers, formats, the ladder of
 * methods. */
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <unistd.h>

static void test_addresses(void)
{
    struct bench bench = {0};
    bench_prepare(&bench);
    struct gpud_capture *capture = NULL;
    struct gpud_capture_params params = {0};
    EXPECT(GPUD_INVALID, "GPUD_PARAMS_INIT",
           gpud_capture_create(bench.context, &params, &capture, &e));
    params.size = sizeof(params);
    EXPECT(GPUD_INVALID, "v4l2:///dev/video0",
           gpud_capture_create(bench.context, &params, &capture, &e));
    params.address = "/dev/video0";
    EXPECT(GPUD_INVALID, "v4l2:///dev/video0",
           gpud_capture_create(bench.context, &params, &capture, &e));
    params.address = "v4l2:///dev/null";
    EXPECT(GPUD_NO_DEVICE, "not a V4L2 node",
           gpud_capture_create(bench.context, &params, &capture, &e));
    params.address = "v4l2:///dev/there-is-no-such-node";
    EXPECT(GPUD_NO_DEVICE, "there is no",
           gpud_capture_create(bench.context, &params, &capture, &e));
    params.slots = 31;
    EXPECT(GPUD_INVALID, "31 slots", gpud_capture_create(bench.context, &params, &capture, &e));
    params.slots = 0;
    params.method = "magic";
    EXPECT(GPUD_INVALID, "userptr or mmap",
           gpud_capture_create(bench.context, &params, &capture, &e));
    params.method = NULL;
    params.device = "nonsense:0";
    EXPECT(GPUD_INVALID, "nonsense", gpud_capture_create(bench.context, &params, &capture, &e));

    bench.driver.open_error = EACCES;
    EXPECT(GPUD_NO_ACCESS, "group", bench_create(&bench, &e));
    bench.driver.open_error = 0;
    bench.driver.capabilities = V4L2_CAP_VIDEO_OUTPUT | V4L2_CAP_STREAMING;
    EXPECT(GPUD_UNSUPPORTED, "does not capture", bench_create(&bench, &e));
    bench.driver.capabilities = V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_READWRITE;
    EXPECT(GPUD_UNSUPPORTED, "cannot stream", bench_create(&bench, &e));
    bench.driver.capabilities = 0;
    WORKS(bench_create(&bench, &e));

    struct gpud_capture_info info = bench_info(&bench);
    CHECK(strcmp(info.path, "none") == 0 && strcmp(info.driver, "fake") == 0, "%s %s", info.path,
          info.driver);
    CHECK_EQUAL(strlen(info.card), 32);
    CHECK(info.card[30] == 'x' && info.card[31] == '?', "%s", info.card);
    struct gpud_frame *frame;
    EXPECT(GPUD_INVALID, "not configured", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    bench_close(&bench);
}

static void test_modes(void)
{
    struct gpud_capture_mode modes[8] = {GPUD_INFO_INIT(modes[0])};
    struct bench bench = {0};
    bench_open(&bench);
    /* UYVY, NV12, BGR, two sizes each; the compressed and the packed one are not for us. */
    CHECK_EQUAL(gpud_capture_list_modes(bench.capture, NULL, modes, 8), 6);
    CHECK(strcmp(modes[0].format, "UYVY") == 0 && strcmp(modes[3].format, "NV12") == 0, "%s %s",
          modes[0].format, modes[3].format);
    CHECK_EQUAL(modes[1].width_min, 640);
    CHECK_EQUAL(modes[1].width_max, 640);
    CHECK_EQUAL(modes[1].width_step, 0);
    CHECK_EQUAL(modes[0].fps_num, 60);
    CHECK_EQUAL(modes[0].fps_den, 1);
    CHECK_EQUAL(modes[1].fps_num, 60);
    CHECK_EQUAL(modes[1].fps_den, 2);
    struct gpud_capture_mode few[2] = {GPUD_INFO_INIT(few[0])};
    CHECK_EQUAL(gpud_capture_list_modes(bench.capture, NULL, few, 1), 6);
    CHECK(few[0].format[0] && !few[1].format[0], "wrote past max");

    bench.driver.sizes = FAKE_STEPWISE;
    CHECK_EQUAL(gpud_capture_list_modes(bench.capture, NULL, modes, 8), 3);
    CHECK_EQUAL(modes[0].width_min, 64);
    CHECK_EQUAL(modes[0].width_max, 640);
    CHECK_EQUAL(modes[0].width_step, 16);
    CHECK_EQUAL(modes[0].height_step, 4);
    CHECK_EQUAL(modes[0].fps_num, 120);

    bench.driver.sizes = FAKE_SILENT;
    WORKS(configure_format(bench.capture, "UYVY", 1920, 1080, 0, 1, &e));
    CHECK_EQUAL(gpud_capture_list_modes(bench.capture, NULL, modes, 8), 3);
    CHECK_EQUAL(modes[0].width_min, 320);
    CHECK_EQUAL(modes[0].height_max, 180);
    CHECK_EQUAL(modes[0].fps_num, 30);
    bench_close(&bench);

    struct bench multi = {.driver = {.multiplanar = true}};
    bench_open(&multi);
    /* NV12 has two fourccs there; only the simpler one is listed. */
    CHECK_EQUAL(gpud_capture_list_modes(multi.capture, NULL, modes, 8), 6);
    CHECK(strcmp(modes[2].format, "NV12") == 0 && strcmp(modes[4].format, "I420") == 0, "%s %s",
          modes[2].format, modes[4].format);
    bench_close(&multi);
}

/* A program of another release has another size of mode. */
static void test_sizes(void)
{
    struct {
        struct gpud_capture_mode mode;
        char newer[8];
    } modes[3] = {0};
    struct gpud_capture_info info;
    struct bench bench = {0};
    bench_open(&bench);
    modes[0].mode.size = sizeof(modes[0]);
    memset(modes[0].newer, 0xee, sizeof(modes[0].newer));
    gpud_capture_list_modes(bench.capture, NULL, &modes[0].mode, 2);
    CHECK(modes[0].newer[0] == 0, "what is not known is not 0");
    CHECK(modes[1].mode.width_min == 640 && strcmp(modes[1].mode.format, "UYVY") == 0,
          "the second mode is %s %u", modes[1].mode.format, modes[1].mode.width_min);
    CHECK(modes[2].mode.size == 0, "wrote past max");
    modes[0].mode.size = offsetof(struct gpud_capture_mode, width_min);
    modes[0].mode.width_min = 5;
    gpud_capture_list_modes(bench.capture, NULL, &modes[0].mode, 1);
    CHECK_EQUAL(modes[0].mode.width_min, 5);

    memset(&info, 0xee, sizeof(info));
    info.size = offsetof(struct gpud_capture_info, driver);
    gpud_capture_get_info(bench.capture, &info);
    CHECK(strcmp(info.path, "none") == 0 && (unsigned char)info.driver[0] == 0xee,
          "\"%.32s\" and \"%.32s\"", info.path, info.driver);
    bench_close(&bench);
}

static void *list(void *arg)
{
    struct gpud_capture_mode modes[8] = {GPUD_INFO_INIT(modes[0])};
    gpud_capture_list_modes(arg, NULL, modes, 8);
    return NULL;
}

static void *configure_again(void *arg)
{
    WORKS(configure_format(arg, "UYVY", 320, 180, 0, 1, &e));
    return NULL;
}

/* The driver's formats are queried while the node is closed and reopened. */
static void test_asked_meanwhile(void)
{
    struct bench bench = {0};
    bench_stream(&bench);
    pthread_t asking, configuring;
    struct gpud_frame *frame;
    bench.driver.stop_at = VIDIOC_ENUM_FRAMESIZES;
    CHECK(pthread_create(&asking, NULL, list, bench.capture) == 0, "no thread");
    fake_await_stop(&bench.driver);
    fake_unplug(&bench.driver, true);
    EXPECT(GPUD_NO_DEVICE, "unplugged", gpud_capture_acquire(bench.capture, GPUD_SEC, &frame, &e));
    fake_unplug(&bench.driver, false);
    CHECK(pthread_create(&configuring, NULL, configure_again, bench.capture) == 0, "no thread");
    usleep(100000); /* for code that does not wait: the fake driver's close() checks */
    fake_go_on(&bench.driver);
    pthread_join(asking, NULL);
    pthread_join(configuring, NULL);
    frame = bench_pass(&bench, 0, 9);
    gpud_frame_release(&frame);
    bench_close(&bench);
}

static void test_formats(void)
{
    struct bench bench = {.driver = {.padding = 64}};
    bench_open(&bench);
    EXPECT(GPUD_UNSUPPORTED, "JPEG", configure_format(bench.capture, "JPEG", 320, 180, 0, 1, &e));
    EXPECT(GPUD_UNSUPPORTED, "UYVY, NV12, BGR",
           configure_format(bench.capture, "v210", 320, 180, 0, 1, &e));
    EXPECT(GPUD_INVALID, "0x180", configure_format(bench.capture, "UYVY", 0, 180, 0, 1, &e));
    EXPECT(GPUD_INVALID, "25/0", configure_format(bench.capture, "UYVY", 320, 180, 25, 0, &e));
    EXPECT(GPUD_INVALID, "no format", configure_format(bench.capture, NULL, 320, 180, 0, 1, &e));

    /* The driver rounds, and says so. */
    WORKS(configure_format(bench.capture, "NV12", 650, 400, 30000, 1001, &e));
    struct gpud_capture_info info = bench_info(&bench);
    CHECK_EQUAL(info.media.picture.layout.width, 640);
    CHECK_EQUAL(info.media.picture.layout.height, 360);
    CHECK_EQUAL(info.media.picture.layout.plane[0].stride, 704);
    CHECK_EQUAL(info.media.picture.layout.plane[1].offset, 704 * 360);
    CHECK_EQUAL(info.media.picture.rate.num, 30000);
    CHECK_EQUAL(info.media.picture.rate.den, 1001);
    CHECK(info.monotonic, "the driver stamps with the monotonic clock");
    struct gpud_frame *frame = bench_pass(&bench, 0, 7);
    CHECK_EQUAL(bench_info_of(frame).duration_ns, 33366666);
    gpud_frame_release(&frame);

    bench.driver.field = V4L2_FIELD_SEQ_TB;
    EXPECT(GPUD_UNSUPPORTED, "progressive",
           configure_format(bench.capture, "UYVY", 320, 180, 0, 1, &e));
    bench.driver.field = V4L2_FIELD_INTERLACED;
    WORKS(configure_format(bench.capture, "UYVY", 320, 180, 0, 1, &e));
    bench.driver.substitutes = true;
    EXPECT(GPUD_UNSUPPORTED, "gives UYVY instead",
           configure_format(bench.capture, "BGR", 320, 180, 0, 1, &e));
    CHECK(strcmp(bench_info(&bench).path, "none") == 0, "still %s", bench_info(&bench).path);
    EXPECT(GPUD_INVALID, "not configured", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    bench_close(&bench);
}

static void check_path(struct bench *bench, const char *path, const char *reason)
{
    struct gpud_capture_info info = bench_info(bench);
    CHECK(strcmp(info.path, path) == 0, "%s, not %s (%s)", info.path, path, info.fallback_reason);
    CHECK(reason[0] ? strstr(info.fallback_reason, reason) != NULL : !info.fallback_reason[0],
          "the reason is \"%s\"", info.fallback_reason);
    struct gpud_frame *frame = bench_pass(bench, 3, 99);
    gpud_frame_release(&frame);
    CHECK_EQUAL(fake_queued(&bench->driver), 6);
}

static void test_ladder(void)
{
    struct bench best = {0};
    bench_stream(&best);
    check_path(&best, "v4l2-userptr", "");
    CHECK_EQUAL(best.driver.memory, V4L2_MEMORY_USERPTR);
    bench_close(&best);

    struct bench refused = {.driver.fault = {VIDIOC_QBUF, V4L2_MEMORY_USERPTR, 0, 1, EINVAL}};
    bench_stream(&refused);
    check_path(&refused, "v4l2-mmap",
               "v4l2-userptr: the driver refuses the buffer: Invalid argument");
    bench_close(&refused);

    /* The third buffer may be the one that does not fit. */
    struct bench late = {.driver.fault = {VIDIOC_QBUF, V4L2_MEMORY_USERPTR, 2, 1, EFAULT}};
    bench_stream(&late);
    check_path(&late, "v4l2-mmap", "Bad address");
    bench_close(&late);

    struct bench no_requests = {
        .driver.fault = {VIDIOC_REQBUFS, V4L2_MEMORY_USERPTR, 0, 1, EINVAL}};
    bench_stream(&no_requests);
    check_path(&no_requests, "v4l2-mmap", "v4l2-userptr: the driver makes no buffers");
    bench_close(&no_requests);

    struct bench incapable = {.driver.memories = V4L2_BUF_CAP_SUPPORTS_MMAP};
    bench_stream(&incapable);
    check_path(&incapable, "v4l2-mmap", "v4l2-userptr: the driver does not take user pointers");
    bench_close(&incapable);

    struct bench forced = {.method = "mmap"};
    bench_stream(&forced);
    check_path(&forced, "v4l2-mmap", "");
    bench_close(&forced);

    struct bench stubborn = {.method = "userptr", .driver.memories = V4L2_BUF_CAP_SUPPORTS_MMAP};
    bench_open(&stubborn);
    EXPECT(GPUD_UNSUPPORTED, "does not take user pointers",
           configure_format(stubborn.capture, "UYVY", 320, 180, 0, 1, &e));
    bench_close(&stubborn);

    struct bench hopeless = {.driver.fault = {VIDIOC_QBUF, 0, 0, 2, EIO}};
    bench_open(&hopeless);
    EXPECT(GPUD_IO,
           "; v4l2-mmap: ", configure_format(hopeless.capture, "UYVY", 320, 180, 0, 1, &e));
    CHECK_EQUAL(hopeless.driver.count, 0);
    WORKS(configure_format(hopeless.capture, "UYVY", 320, 180, 0, 1, &e));
    check_path(&hopeless, "v4l2-userptr", "");
    bench_close(&hopeless);

    struct bench no_start = {.driver.fault = {VIDIOC_STREAMON, 0, 0, 1, ENOSPC}};
    bench_open(&no_start);
    EXPECT(GPUD_NO_MEMORY, "no bandwidth",
           configure_format(no_start.capture, "UYVY", 320, 180, 0, 1, &e));
    CHECK_EQUAL(no_start.driver.count, 0);
    bench_close(&no_start);
}

/* Areas of their own, with a header before the first: one memory all the same. */
static void test_areas(const char *method)
{
    struct bench bench = {.method = method, .driver.multiplanar = true};
    bench_open(&bench);
    WORKS(configure_format(bench.capture, "I420", 320, 180, 0, 1, &e));
    struct fake_word word = {.data_offset = 128};
    for (uint32_t i = 0; i < 20; i++) {
        CHECK(fake_frame_with(&bench.driver, i, (unsigned char)(10 * i), &word), "no buffer");
        struct gpud_frame *frame = bench_acquire(&bench);
        struct gpud_frame_info info = bench_info_of(frame);
        CHECK_EQUAL(info.layout.plane[0].offset, 128);
        CHECK_EQUAL(info.layout.plane[1].offset, 61440); /* 320 · 180 + 128, whole pages */
        CHECK_EQUAL(info.flags, 0);
        for (uint32_t plane = 0; plane < 3; plane++)
            bench_check_plane(frame, plane, (unsigned char)(10 * i + plane));
        gpud_frame_release(&frame);
    }
    bench_close(&bench);
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

static int only_known(enum gpud_status status, const struct gpud_error *error)
{
    CHECK(status == GPUD_OK || error->reason[0], "%s without a sentence",
          gpud_status_string(status));
    return status == GPUD_OK;
}

/* Every call to the driver fails once, in turn: a typed error or a way around it, and nothing left
 * behind. */
static void test_every_call_fails(bool use_gpu, bool multiplanar, const char *method,
                                  int error_number)
{
    unsigned before = count_descriptors();
    bool reached = true;
    uint32_t n = 0;
    for (; reached; n++) {
        struct bench bench = {
            .use_gpu = use_gpu, .method = method, .driver.multiplanar = multiplanar};
        bench.driver.takes_dmabufs = use_gpu;
        bench.driver.fault = (struct fake_fault){0, 0, n, 1, error_number};
        bench_prepare(&bench);
        struct gpud_error error = {.reason = ""};
        if (only_known(bench_create(&bench, &error), &error) &&
            only_known(configure_format(bench.capture, "NV12", 320, 180, 25, 1, &error), &error)) {
            for (uint32_t i = 0; i < 3; i++) {
                struct gpud_frame *frame;
                fake_frame(&bench.driver, i, (unsigned char)i);
                if (!only_known(gpud_capture_acquire(bench.capture, 0, &frame, &error), &error))
                    break;
                bench_check_plane(frame, 0, (unsigned char)i);
                gpud_frame_release(&frame);
            }
        }
        gpud_capture_destroy(&bench.capture);
        reached = bench.driver.fault.times == 0;
        bench_close(&bench);
    }
    CHECK(n > 20, "only %u calls", n);
    CHECK_EQUAL(count_descriptors(), before);
}

int main(void)
{
    test_addresses();
    test_modes();
    test_sizes();
    test_asked_meanwhile();
    test_formats();
    test_ladder();
    test_areas("userptr");
    test_areas("mmap");
    for (int i = 0; i < 8; i++)
        test_every_call_fails(i & 1, i & 2, i & 4 ? "mmap" : NULL, i & 1 ? EIO : ENODEV);
    puts("ok");
    return 0;
}
