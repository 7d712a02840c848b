/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Captures from the kernel's test card: vivid_test SINGLE MULTI CONTIGUOUS, the nodes of a single-
 * and of a multi-planar vivid with error injection, and of one whose memory is contiguous (its
 * allocator is dma-contig); vgem makes the dma-bufs. Runs as root in tests/vm/guest; every frame is
 * checked by its content. */
#include "support/check.h"
#include "support/configure.h"
#include "support/vivid_picture.h"

#include <gpudirect/capture.h>

#include <dirent.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define MODES_MAX 1024
#define WAIT (20 * GPUD_SEC) /* the guest is emulated, and slow */

static struct gpud_context *context;
static const char *single, *multi, *contiguous;

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * GPUD_SEC + time.tv_nsec;
}

static void say(const char *what)
{
    static int64_t begin;
    if (!begin)
        begin = now();
    printf("%6.1f s  %s\n", (double)(now() - begin) / (double)GPUD_SEC, what);
    fflush(stdout);
}

/* --- the test card's knobs, by their names ------------------------------------------------- */

static void set_control(const char *node, const char *name, int value)
{
    int fd = open(node, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0, "%s", node);
    struct v4l2_queryctrl query = {.id = V4L2_CTRL_FLAG_NEXT_CTRL};
    while (ioctl(fd, VIDIOC_QUERYCTRL, &query) == 0 && strcmp((char *)query.name, name) != 0)
        query.id |= V4L2_CTRL_FLAG_NEXT_CTRL;
    CHECK(strcmp((char *)query.name, name) == 0, "%s has no control \"%s\"", node, name);
    struct v4l2_control control = {.id = query.id, .value = value};
    CHECK(ioctl(fd, VIDIOC_S_CTRL, &control) == 0, "%s = %d", name, value);
    close(fd);
}

/* --- capturing ----------------------------------------------------------------------------- */

static struct gpud_capture *create(const char *node, const char *device, const char *method)
{
    char address[64];
    struct gpud_capture *capture = NULL;
    struct gpud_capture_params params = GPUD_PARAMS_INIT(params);
    snprintf(address, sizeof(address), "v4l2://%s", node);
    params.address = address;
    params.device = device;
    params.method = method;
    WORKS(gpud_capture_create(context, &params, &capture, &e));
    return capture;
}

static struct gpud_capture *stream(const char *node, const char *device, const char *method,
                                   const char *format)
{
    struct gpud_capture *capture = create(node, device, method);
    WORKS(configure_format(capture, format, 320, 180, 60, 1, &e));
    return capture;
}

static struct gpud_capture_info info_of(struct gpud_capture *capture)
{
    struct gpud_capture_info info = GPUD_INFO_INIT(info);
    gpud_capture_get_info(capture, &info);
    return info;
}

static struct gpud_frame *acquire(struct gpud_capture *capture, struct gpud_frame_info *info)
{
    struct gpud_frame *frame = NULL;
    WORKS(gpud_capture_acquire(capture, WAIT, &frame, &e));
    gpud_frame_get_info(frame, info);
    return frame;
}

static uint64_t look_at(struct gpud_frame *frame)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    void *data;
    gpud_frame_get_info(frame, &info);
    WORKS(gpud_frame_map(frame, GPUD_READ, WAIT, &data, &e));
    check_bars(&info.layout, data);
    uint64_t hash = hash_picture(&info.layout, data);
    gpud_frame_unmap(frame);
    return hash;
}

/* That many good frames, at least 3, each stamped later than the one before. The counter in the
 * picture moves; where its period is not a whole number of jiffies, vivid may show, and number, two
 * frames in a row alike. */
static void pass_frames(struct gpud_capture *capture, unsigned count)
{
    uint64_t first_hash = 0, last_hash = 0, last_pts = 0, last_sequence = 0;
    for (unsigned i = 0; i < count; i++) {
        struct gpud_frame_info info = GPUD_INFO_INIT(info);
        struct gpud_frame *frame = acquire(capture, &info);
        last_hash = look_at(frame);
        if (i == 0)
            first_hash = last_hash;
        CHECK(info.sequence > last_sequence, "sequence %llu after %llu",
              (unsigned long long)info.sequence, (unsigned long long)last_sequence);
        int64_t age = now() - (int64_t)info.pts_ns;
        CHECK(info.pts_ns > last_pts && info.pts_ns != GPUD_TIME_NONE, "pts %llu after %llu",
              (unsigned long long)info.pts_ns, (unsigned long long)last_pts);
        CHECK(age > -GPUD_SEC && age < 30 * GPUD_SEC, "a pts that is %lld ms old",
              (long long)(age / GPUD_MSEC));
        CHECK(!(info.flags & GPUD_FRAME_CORRUPTED), "corrupted");
        last_pts = info.pts_ns;
        last_sequence = info.sequence;
        gpud_frame_release(&frame);
    }
    CHECK(last_hash != first_hash, "the picture stands still");
}

static void expect_path(struct gpud_capture *capture, const char *path, const char *reason)
{
    struct gpud_capture_info info = info_of(capture);
    CHECK(strcmp(info.path, path) == 0, "the path is %s (%s)", info.path, info.fallback_reason);
    CHECK(strstr(info.fallback_reason, reason), "the reason is \"%s\"", info.fallback_reason);
}

/* --- the tests ----------------------------------------------------------------------------- */

static void test_modes(void)
{
    static struct gpud_capture_mode modes[MODES_MAX] = {GPUD_INFO_INIT(modes[0])};
    struct gpud_capture *capture = create(single, "host", NULL);
    struct gpud_capture_info info = info_of(capture);
    CHECK(strcmp(info.driver, "vivid") == 0 && strcmp(info.card, "vivid") == 0, "%s", info.driver);
    size_t count = gpud_capture_list_modes(capture, NULL, modes, MODES_MAX);
    CHECK(count > 100 && count < MODES_MAX, "%zu modes", count);
    unsigned uyvy = 0;
    for (size_t i = 0; i < count; i++) {
        bool small = strcmp(modes[i].format, "UYVY") == 0 && modes[i].width_min == 320;
        uyvy += strcmp(modes[i].format, "UYVY") == 0;
        CHECK(modes[i].width_min == modes[i].width_max && modes[i].width_step == 0,
              "a webcam has discrete sizes");
        CHECK(!small ||
                  (modes[i].height_min == 180 && modes[i].fps_num == 60 && modes[i].fps_den == 1),
              "%u/%u", modes[i].fps_num, modes[i].fps_den);
    }
    CHECK(uyvy >= 5, "%u sizes of UYVY", uyvy);
    gpud_capture_destroy(&capture);
}

/* Every format that both sides know, by both methods; reconfigured on the way, never opened anew.
 */
static unsigned test_formats(const char *node, const char *method)
{
    static struct gpud_capture_mode modes[MODES_MAX] = {GPUD_INFO_INIT(modes[0])};
    struct gpud_capture *capture = create(node, NULL, method);
    size_t count = gpud_capture_list_modes(capture, NULL, modes, MODES_MAX);
    unsigned formats = 0;
    for (size_t i = 0; i < count; i++) {
        if (modes[i].width_min != 320)
            continue;
        WORKS(configure_format(capture, modes[i].format, 320, 180, 60, 1, &e));
        struct gpud_capture_info info = info_of(capture);
        CHECK_EQUAL(info.media.picture.layout.width, 320);
        CHECK_EQUAL(info.media.picture.rate.num, 60);
        CHECK(info.monotonic, "vivid stamps with the monotonic clock");
        pass_frames(capture, 3);
        formats++;
    }
    struct gpud_capture_info info = info_of(capture);
    CHECK_EQUAL(info.frames, 3 * formats);
    CHECK_EQUAL(info.copies_cpu + info.copies_gpu + info.corrupted, 0);
    gpud_capture_destroy(&capture);
    return formats;
}

/* --- dma-bufs ------------------------------------------------------------------------------ */

/* Every format; those of several areas need a dma-buf of each, which vgem's memory does not have.
 */
static void test_dmabuf(const char *node, unsigned *direct, unsigned *refused)
{
    static struct gpud_capture_mode modes[MODES_MAX] = {GPUD_INFO_INIT(modes[0])};
    struct gpud_capture *capture = create(node, "host", "dmabuf");
    size_t count = gpud_capture_list_modes(capture, NULL, modes, MODES_MAX);
    *direct = *refused = 0;
    for (size_t i = 0; i < count; i++) {
        struct gpud_error error = {.reason = ""};
        if (modes[i].width_min != 320)
            continue;
        if (configure_format(capture, modes[i].format, 320, 180, 60, 1, &error) != GPUD_OK) {
            CHECK(strstr(error.reason, "v4l2-dmabuf: ") &&
                      strstr(error.reason, "V4L2 cannot say so"),
                  "%s", error.reason);
            *refused += 1;
            continue;
        }
        expect_path(capture, "none", "");
        pass_frames(capture, 3);
        expect_path(capture, "v4l2-dmabuf", "");
        *direct += 1;
    }
    struct gpud_capture_info info = info_of(capture);
    CHECK_EQUAL(info.frames, 3 * *direct);
    CHECK_EQUAL(info.copies_cpu + info.copies_gpu + info.corrupted, 0);
    gpud_capture_destroy(&capture);
}

static void write_to(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s", path);
    close(fd);
}

/* A card that takes contiguous memory alone: vgem's pages are not, unless the kernel makes huge
 * ones of them. */
static void test_contiguous(void)
{
    struct gpud_capture *capture = stream(contiguous, "host", NULL, "UYVY");
    expect_path(capture, "v4l2-mmap", "v4l2-userptr: the driver does not take user pointers");
    pass_frames(capture, 6);
    gpud_capture_destroy(&capture);

    capture = create(contiguous, "host", "dmabuf");
    EXPECT(GPUD_IO, "v4l2-dmabuf: the driver refuses the buffer: Bad address",
           configure_format(capture, "UYVY", 320, 180, 60, 1, &e));
    write_to("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "force");
    WORKS(configure_format(capture, "UYVY", 320, 180, 60, 1, &e));
    pass_frames(capture, 6);
    expect_path(capture, "v4l2-dmabuf", "");
    struct gpud_capture_info info = info_of(capture);
    CHECK_EQUAL(info.copies_cpu + info.copies_gpu, 0);
    gpud_capture_destroy(&capture);
    write_to("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "never");
}

static bool test_device(const char *name, const char *node, const char *method, const char *format)
{
    struct gpud_device *device = NULL;
    struct gpud_error error;
    if (gpud_device_open(context, name, &device, &error) != GPUD_OK) {
        printf("no %s: %s\n", name, error.reason);
        return false;
    }
    struct gpud_capture *capture = stream(node, name, method, format);
    pass_frames(capture, 6);
    struct gpud_capture_info info = info_of(capture);
    CHECK_EQUAL(info.copies_gpu, 6);
    CHECK_EQUAL(info.copies_cpu, 0);

    /* The last one is held beyond the end. */
    struct gpud_frame_info frame_info = GPUD_INFO_INIT(frame_info);
    struct gpud_frame *frame = acquire(capture, &frame_info);
    gpud_capture_destroy(&capture);
    look_at(frame);
    gpud_frame_release(&frame);
    gpud_device_close(&device);
    return true;
}

static void test_drops(void)
{
    set_control(single, "Percentage of Dropped Buffers", 40);
    struct gpud_capture *capture = stream(single, "host", NULL, "UYVY");
    uint64_t last = 0, gaps = 0;
    for (unsigned i = 0; i < 40; i++) {
        struct gpud_frame_info info = GPUD_INFO_INIT(info);
        struct gpud_frame *frame = acquire(capture, &info);
        uint64_t missing = last ? info.sequence - last - 1 : 0;
        CHECK(info.sequence > last, "not in order");
        CHECK(!(info.flags & GPUD_FRAME_DISCONTINUITY) == !missing, "%llu missing, flags %x",
              (unsigned long long)missing, info.flags);
        gaps += missing;
        CHECK_EQUAL(info.dropped, gaps);
        last = info.sequence;
        gpud_frame_release(&frame);
    }
    CHECK(gaps >= 5, "40 %% of the frames are dropped, but only %llu are missing",
          (unsigned long long)gaps);
    CHECK_EQUAL(info_of(capture).dropped, gaps);
    gpud_capture_destroy(&capture);
    set_control(single, "Percentage of Dropped Buffers", 0);
}

/* vivid then counts from 2^32 − 128. */
static void test_wrap(void)
{
    set_control(single, "Wrap Sequence Number", 1);
    struct gpud_capture *capture = stream(single, "host", NULL, "UYVY");
    uint64_t sequence = 0;
    while (sequence < 140) {
        struct gpud_frame_info info = GPUD_INFO_INIT(info);
        struct gpud_frame *frame = acquire(capture, &info);
        CHECK(info.sequence > sequence && info.sequence < sequence + 1000, "%llu after %llu",
              (unsigned long long)info.sequence, (unsigned long long)sequence);
        sequence = info.sequence;
        gpud_frame_release(&frame);
    }
    struct gpud_capture_info info = info_of(capture);
    CHECK_EQUAL(info.frames + info.dropped, sequence);
    gpud_capture_destroy(&capture);
    set_control(single, "Wrap Sequence Number", 0);
}

static void test_flagged(void)
{
    struct gpud_capture *capture = stream(single, "host", NULL, "UYVY");
    pass_frames(capture, 3);
    set_control(single, "Inject V4L2_BUF_FLAG_ERROR", 1);
    unsigned corrupted = 0;
    for (unsigned i = 0; i < 12; i++) {
        struct gpud_frame_info info = GPUD_INFO_INIT(info);
        struct gpud_frame *frame = acquire(capture, &info);
        corrupted += (info.flags & GPUD_FRAME_CORRUPTED) != 0;
        gpud_frame_release(&frame);
    }
    CHECK_EQUAL(corrupted, 1);
    CHECK_EQUAL(info_of(capture).corrupted, 1);
    pass_frames(capture, 3);

    /* A refused buffer is offered again. */
    set_control(single, "Inject VIDIOC_QBUF Error", 1);
    pass_frames(capture, 20);
    gpud_capture_destroy(&capture);
}

static void test_refusals(void)
{
    set_control(single, "Inject VIDIOC_QBUF Error", 1);
    struct gpud_capture *capture = stream(single, "host", NULL, "UYVY");
    expect_path(capture, "v4l2-mmap", "v4l2-userptr: the driver refuses the buffer");
    pass_frames(capture, 3);
    gpud_capture_destroy(&capture);

    set_control(single, "Inject VIDIOC_REQBUFS Error", 1);
    capture = stream(single, "host", NULL, "UYVY");
    expect_path(capture, "v4l2-mmap", "v4l2-userptr: the driver makes no buffers");
    pass_frames(capture, 3);

    set_control(single, "Inject VIDIOC_STREAMON Error", 1);
    EXPECT(GPUD_IO, "does not start", configure_format(capture, "UYVY", 320, 180, 60, 1, &e));
    WORKS(configure_format(capture, "UYVY", 320, 180, 60, 1, &e));
    expect_path(capture, "v4l2-userptr", "");
    pass_frames(capture, 3);
    EXPECT(GPUD_UNSUPPORTED, "UYVY", configure_format(capture, "v210", 320, 180, 60, 1, &e));
    gpud_capture_destroy(&capture);
}

/* From now on no frame comes; those that had come before may be taken. */
static void expect_end(struct gpud_capture *capture, enum gpud_status status, const char *text)
{
    struct gpud_frame *frame;
    struct gpud_error error = {.reason = ""};
    enum gpud_status got;
    int64_t begin = now();
    while ((got = gpud_capture_acquire(capture, WAIT, &frame, &error)) == GPUD_OK)
        gpud_frame_release(&frame);
    CHECK(got == status && strstr(error.reason, text), "%s: %s", gpud_status_string(got),
          error.reason);
    CHECK(now() - begin < WAIT, "noticed too late");
    EXPECT(status, text, gpud_capture_acquire(capture, 0, &frame, &e));
}

static void test_ends(const char *method)
{
    struct gpud_capture *capture = stream(single, "host", method, "NV12");
    pass_frames(capture, 3);
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    struct gpud_frame *held = acquire(capture, &info);
    set_control(single, "Inject Fatal Streaming Error", 1);
    expect_end(capture, GPUD_IO, "start the capture again");
    look_at(held);
    WORKS(configure_format(capture, "UYVY", 320, 180, 60, 1, &e));
    pass_frames(capture, 3);

    set_control(single, "Disconnect", 1);
    expect_end(capture, GPUD_NO_DEVICE, "unplugged");
    look_at(held);
    gpud_frame_release(&held);
    WORKS(configure_format(capture, "UYVY", 320, 180, 60, 1, &e));
    pass_frames(capture, 3);
    gpud_capture_destroy(&capture);
}

static void test_held(const char *method)
{
    struct gpud_capture *capture = stream(single, "host", method, "UYVY");
    struct gpud_frame *held[4], *frame;
    uint64_t hashes[4];
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    for (unsigned i = 0; i < 4; i++) {
        held[i] = acquire(capture, &info);
        hashes[i] = look_at(held[i]);
    }
    EXPECT(GPUD_TIMEOUT, "holds all 4", gpud_capture_acquire(capture, GPUD_SEC, &frame, &e));
    uint64_t last = info.sequence;
    CHECK(info_of(capture).dropped > 0, "a second without a place drops frames");

    gpud_frame_release(&held[0]);
    frame = acquire(capture, &info);
    CHECK(info.sequence > last + 1 && info.flags & GPUD_FRAME_DISCONTINUITY, "no gap");
    gpud_frame_release(&frame);

    /* Another format while frames of the old one are held, then the end: they stay what they were.
     */
    WORKS(configure_format(capture, "NV12", 640, 360, 30, 1, &e));
    pass_frames(capture, 3);
    CHECK_EQUAL(look_at(held[1]), hashes[1]);
    gpud_frame_release(&held[1]);
    pass_frames(capture, 3);
    gpud_capture_destroy(&capture);
    for (unsigned i = 2; i < 4; i++) {
        CHECK_EQUAL(look_at(held[i]), hashes[i]);
        gpud_frame_release(&held[i]);
    }
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

int main(int argc, char **argv)
{
    unsigned direct, refused;
    CHECK(argc == 4, "usage: vivid_test SINGLE MULTI CONTIGUOUS");
    single = argv[1];
    multi = argv[2];
    contiguous = argv[3];
    WORKS(gpud_context_create(NULL, &context, &e));
    unsigned before = count_descriptors();
    test_modes();
    say("modes");
    CHECK(test_formats(single, "userptr") >= 20, "few formats");
    say("every format by userptr");
    CHECK(test_formats(single, "mmap") >= 20, "few formats");
    say("every format by mmap");
    CHECK(test_formats(multi, "userptr") >= 20, "few formats");
    say("every multi-planar format by userptr");
    CHECK(test_formats(multi, "mmap") >= 20, "few formats");
    say("every multi-planar format by mmap");
    test_dmabuf(single, &direct, &refused);
    CHECK(direct >= 20 && refused == 0, "%u formats, %u refused", direct, refused);
    say("every format by dmabuf");
    test_dmabuf(multi, &direct, &refused);
    CHECK(direct >= 15 && refused > 0, "%u formats, %u refused", direct, refused);
    say("every multi-planar format by dmabuf");
    test_contiguous();
    say("contiguous memory");
    test_drops();
    test_wrap();
    test_flagged();
    say("drops, wrap, errors");
    test_refusals();
    test_ends("userptr");
    test_ends("mmap");
    test_ends("dmabuf");
    say("refusals and ends");
    test_held("userptr");
    test_held("mmap");
    test_held("dmabuf");
    say("held frames");
    CHECK_EQUAL(count_descriptors(), before);
    bool opencl = test_device("opencl:0", single, "userptr", "UYVY") &&
                  test_device("opencl:0", single, "mmap", "NV12") &&
                  test_device("opencl:0", multi, "userptr", "I420") &&
                  test_device("opencl:0", multi, "mmap", "NV16");
    say(opencl ? "opencl:0" : "opencl:0 SKIPPED");
    gpud_context_destroy(&context);
    puts("ok");
    return 0;
}
