/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Each of vivid's injected errors while frames are captured: errors_test NODE TIMES, each that many
 * times by each method. Runs as root in tests/vm/guest. What the driver said at each DQBUF is noted
 * below the capture, and what the capture says is held against that: no frame twice, every gap
 * counted, every picture right or flagged, an end that is told in time, and a stream after it. */
#include "capture/capture.h"

#include "device/device.h"
#include "support/check.h"
#include "support/configure.h"
#include "support/vivid_picture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <sys/ioctl.h>
#include <time.h>

#define WAIT (20 * GPUD_SEC) /* the guest is emulated, and slow */

static const char *node;
static struct gpud_context *context;

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * GPUD_SEC + time.tv_nsec;
}

static void set_control(const char *name, int value)
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

/* --- what the driver said ------------------------------------------------------------------- */

static struct {
    uint32_t sequence;                           /* of the last buffer since STREAMON */
    bool numbered, wrapped;                      /* there was one; its number went over 2^32 */
    uint64_t given, missing, flagged, nonsense;  /* buffers; numbers between them; marked as bad;
                                                    stamped far from now */
    uint64_t requests, queues, starts, dequeues; /* calls that failed */
} said;

static void note_buffer(const struct v4l2_buffer *raw)
{
    uint32_t step = raw->sequence - said.sequence;
    int64_t stamp = (int64_t)raw->timestamp.tv_sec * GPUD_SEC + raw->timestamp.tv_usec * 1000;
    if (said.numbered && step > 0)
        said.missing += step - 1;
    said.wrapped = said.wrapped || (said.numbered && raw->sequence < said.sequence);
    said.numbered = true;
    said.sequence = raw->sequence;
    said.given++;
    said.flagged += raw->flags & V4L2_BUF_FLAG_ERROR ? 1 : 0;
    said.nonsense += stamp < now() - 60 * GPUD_SEC || stamp > now() + 60 * GPUD_SEC;
}

static int noted_ioctl(int fd, unsigned long request, void *argument)
{
    int result = gpud_v4l2_kernel.ioctl(fd, request, argument), number = errno;
    bool failed = result < 0 && number != EAGAIN;
    if (request == VIDIOC_DQBUF && result == 0)
        note_buffer(argument);
    else if (request == VIDIOC_STREAMON && result == 0)
        said.numbered = said.wrapped = false;
    said.requests += request == VIDIOC_REQBUFS && failed;
    said.queues += request == VIDIOC_QBUF && failed;
    said.starts += request == VIDIOC_STREAMON && failed;
    said.dequeues += request == VIDIOC_DQBUF && failed;
    errno = number;
    return result;
}

/* --- one capture --------------------------------------------------------------------------- */

struct run {
    struct gpud_capture *capture;
    const char *method;
    uint64_t sequence, dropped; /* of the last frame */
    uint64_t frames, corrupted, untimed;
    struct gpud_frame *held; /* while an error is injected */
};

static struct gpud_capture_info info_of(const struct run *run)
{
    struct gpud_capture_info info = GPUD_INFO_INIT(info);
    gpud_capture_get_info(run->capture, &info);
    return info;
}

static void configure(struct run *run)
{
    WORKS(configure_format(run->capture, "UYVY", 320, 180, 60, 1, &e));
}

/* Every buffer is somewhere, and at one place. */
static void check_ring(struct gpud_capture_ring *ring)
{
    gpud_lock_take(&ring->driver_lock);
    gpud_lock_take(&ring->lock);
    CHECK(!(ring->queued & ring->to_queue) && !(ring->queued & ring->acquired) &&
              !(ring->to_queue & ring->acquired),
          "a buffer is at two places");
    uint32_t found = (uint32_t)__builtin_popcountll(ring->queued | ring->to_queue | ring->acquired);
    CHECK_EQUAL(found + ring->pending, ring->buffer_count);
    gpud_lock_release(&ring->lock);
    gpud_lock_release(&ring->driver_lock);
}

/* What the capture counted is what the driver said. */
static void check_counts(const struct run *run)
{
    struct gpud_capture_info info = info_of(run);
    CHECK_EQUAL(info.frames, run->frames);
    CHECK_EQUAL(info.corrupted, said.flagged);
    CHECK_EQUAL(run->corrupted, said.flagged);
    CHECK_EQUAL(info.dropped, said.missing + said.given - info.frames);
}

static void look_at(struct gpud_frame *frame, const struct gpud_frame_info *info)
{
    void *data;
    WORKS(gpud_frame_map(frame, GPUD_READ, WAIT, &data, &e));
    check_bars(&info->layout, data);
    gpud_frame_unmap(frame);
}

/* It shows what it did, whatever became of its driver. */
static void release_held(struct run *run)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    if (!run->held)
        return;
    gpud_frame_get_info(run->held, &info);
    look_at(run->held, &info);
    gpud_frame_release(&run->held);
}

static struct gpud_frame *take(struct run *run)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    struct gpud_frame *frame = NULL;
    WORKS(gpud_capture_acquire(run->capture, WAIT, &frame, &e));
    gpud_frame_get_info(frame, &info);
    CHECK(info.sequence > run->sequence, "frame %llu after %llu", (unsigned long long)info.sequence,
          (unsigned long long)run->sequence);
    CHECK_EQUAL(info.sequence - run->sequence - 1, info.dropped - run->dropped);
    if (info.flags & GPUD_FRAME_CORRUPTED)
        run->corrupted++;
    else
        look_at(frame, &info);
    if (info.pts_ns == GPUD_TIME_NONE)
        run->untimed++;
    else
        CHECK(llabs(now() - (int64_t)info.pts_ns) < 30 * GPUD_SEC, "a pts of %lld ms from now",
              (long long)((int64_t)info.pts_ns - now()) / GPUD_MSEC);
    run->frames++;
    run->sequence = info.sequence;
    run->dropped = info.dropped;
    check_ring(run->capture->ring);
    return frame;
}

static void pass(struct run *run, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct gpud_frame *frame = take(run);
        gpud_frame_release(&frame);
    }
    check_counts(run);
}

static void pass_until(struct run *run, const uint64_t *counter, uint64_t value)
{
    int64_t deadline = now() + WAIT;
    while (*counter < value) {
        CHECK(now() < deadline, "what was injected does not come");
        pass(run, 1);
    }
}

/* From now on no frame comes; those that had come before may be taken. */
static void expect_end(struct run *run, enum gpud_status status, const char *text)
{
    struct gpud_frame *frame = NULL;
    struct gpud_error error = {.reason = ""};
    enum gpud_status got;
    int64_t deadline = now() + WAIT;
    while ((got = gpud_capture_acquire(run->capture, WAIT, &frame, &error)) == GPUD_OK) {
        CHECK(now() < deadline, "frames come on and on");
        run->frames++;
        gpud_frame_release(&frame);
    }
    CHECK(got == status && strstr(error.reason, text), "%s: %s", gpud_status_string(got),
          error.reason);
    EXPECT(status, text, gpud_capture_acquire(run->capture, 0, &frame, &e));
}

static void resume(struct run *run)
{
    configure(run);
    struct gpud_capture_info info = info_of(run);
    run->dropped = info.dropped;
    run->sequence = run->frames + run->dropped;
    pass(run, 3);
}

/* --- the errors ---------------------------------------------------------------------------- */

static void wrap_sequence(struct run *run)
{
    set_control("Wrap Sequence Number", 1);
    configure(run);
    int64_t deadline = now() + 2 * WAIT;
    while (!said.wrapped) {
        CHECK(now() < deadline, "the number does not wrap");
        pass(run, 4);
    }
    set_control("Wrap Sequence Number", 0);
    configure(run);
    pass(run, 2);
}

/* Stamps of 2038 and of 292 years: the flag says that they are the monotonic clock's. */
static void wrap_timestamp(struct run *run)
{
    for (int how = 1; how <= 2; how++) {
        uint64_t untimed = run->untimed;
        set_control("Wrap Timestamp", how);
        configure(run);
        pass(run, 3);
        CHECK(said.nonsense > 0, "the stamps are right");
        CHECK_EQUAL(run->untimed - untimed, 3);
        CHECK(!info_of(run).monotonic, "such stamps are believed");
    }
    uint64_t untimed = run->untimed;
    set_control("Wrap Timestamp", 0);
    configure(run);
    pass(run, 3);
    CHECK(info_of(run).monotonic && run->untimed == untimed, "right stamps are not believed");
}

static void drop(struct run *run)
{
    uint64_t missing = said.missing;
    set_control("Percentage of Dropped Buffers", 60);
    pass_until(run, &said.missing, missing + 5);
    set_control("Percentage of Dropped Buffers", 100);
    struct gpud_frame *frame = NULL;
    struct gpud_error error = {.reason = ""};
    enum gpud_status status;
    int64_t deadline = now() + WAIT;
    while ((status = gpud_capture_acquire(run->capture, GPUD_SEC / 4, &frame, &error)) == GPUD_OK) {
        CHECK(now() < deadline, "frames come although all are dropped");
        struct gpud_frame_info info = GPUD_INFO_INIT(info);
        gpud_frame_get_info(frame, &info);
        run->frames++;
        run->sequence = info.sequence;
        run->dropped = info.dropped;
        gpud_frame_release(&frame);
    }
    CHECK(status == GPUD_TIMEOUT && strstr(error.reason, "is there a signal?"), "%s", error.reason);
    missing = said.missing;
    set_control("Percentage of Dropped Buffers", 0);
    pass(run, 3);
    CHECK(said.missing >= missing + 10, "a quarter of a second has no gap");
}

static void flag_buffer(struct run *run)
{
    uint64_t flagged = said.flagged;
    set_control("Inject V4L2_BUF_FLAG_ERROR", 1);
    pass_until(run, &said.flagged, flagged + 1);
    pass(run, 3);
    CHECK_EQUAL(said.flagged, flagged + 1);
}

static void refuse_buffers(struct run *run)
{
    uint64_t refused = said.requests;
    set_control("Inject VIDIOC_REQBUFS Error", 1);
    EXPECT(GPUD_IO, "the driver makes no buffers of this kind",
           configure_format(run->capture, "UYVY", 320, 180, 60, 1, &e));
    CHECK_EQUAL(said.requests, refused + 1);
    EXPECT(GPUD_INVALID, "not configured",
           gpud_capture_acquire(run->capture, 0, &(struct gpud_frame *){NULL}, &e));
    configure(run);
    pass(run, 3);
}

static void refuse_queueing(struct run *run)
{
    uint64_t refused = said.queues;
    set_control("Inject VIDIOC_QBUF Error", 1);
    pass_until(run, &said.queues, refused + 1);
    pass(run, 12);
    CHECK_EQUAL(said.queues, refused + 1);
}

static void refuse_start(struct run *run)
{
    uint64_t refused = said.starts;
    set_control("Inject VIDIOC_STREAMON Error", 1);
    EXPECT(GPUD_IO, "does not start", configure_format(run->capture, "UYVY", 320, 180, 60, 1, &e));
    CHECK_EQUAL(said.starts, refused + 1);
    configure(run);
    pass(run, 3);
}

static void fail(struct run *run)
{
    set_control("Inject Fatal Streaming Error", 1);
    expect_end(run, GPUD_IO, "start the capture again");
    resume(run);
}

/* The card is back when nothing of its node is open any more: a mapped buffer is. */
static void disconnect(struct run *run)
{
    set_control("Disconnect", 1);
    expect_end(run, GPUD_NO_DEVICE, "unplugged");
    if (strcmp(run->method, "mmap") == 0) {
        EXPECT(GPUD_NO_DEVICE, "No such device",
               configure_format(run->capture, "UYVY", 320, 180, 60, 1, &e));
        release_held(run);
    }
    resume(run);
}

/* --- all of them --------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*inject)(struct run *run);
} errors[] = {
    {"Wrap Sequence Number", wrap_sequence},
    {"Wrap Timestamp", wrap_timestamp},
    {"Percentage of Dropped Buffers", drop},
    {"Inject V4L2_BUF_FLAG_ERROR", flag_buffer},
    {"Inject VIDIOC_REQBUFS Error", refuse_buffers},
    {"Inject VIDIOC_QBUF Error", refuse_queueing},
    {"Inject VIDIOC_STREAMON Error", refuse_start},
    {"Inject Fatal Streaming Error", fail},
    {"Disconnect", disconnect},
};

/* Descriptors, and mappings of the card's or of a dma-buf's memory. */
static unsigned count_open(void)
{
    char line[512];
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    FILE *maps = fopen("/proc/self/maps", "re");
    while (fgets(line, sizeof(line), maps))
        count += strstr(line, "/dev/") || strstr(line, "dmabuf");
    fclose(maps);
    return count;
}

static void test_method(const char *method, unsigned times)
{
    char address[64];
    struct gpud_v4l2_system system = gpud_v4l2_kernel;
    struct gpud_device *host = NULL;
    struct gpud_capture_params params = GPUD_PARAMS_INIT(params);
    struct run run = {.method = method};
    snprintf(address, sizeof(address), "v4l2://%s", node);
    system.ioctl = noted_ioctl;
    params.address = address;
    params.method = method;
    WORKS(gpud_device_open(context, "host", &host, &e));
    unsigned open_before = count_open();
    memset(&said, 0, sizeof(said));
    WORKS(gpud_capture_open(host, host, &params, &system, &run.capture, &e));
    configure(&run);
    pass(&run, 3);
    for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        int64_t begin = now();
        for (unsigned round = 0; round < times; round++) {
            run.held = take(&run);
            errors[i].inject(&run);
            release_held(&run);
            pass(&run, 1);
        }
        printf("%-7s  %-30s %u times, %.1f s\n", method, errors[i].name, times,
               (double)(now() - begin) / (double)GPUD_SEC);
        fflush(stdout);
    }
    printf("%-7s  %llu frames, %llu dropped, %llu corrupted: as the driver says\n", method,
           (unsigned long long)run.frames, (unsigned long long)run.dropped,
           (unsigned long long)run.corrupted);
    gpud_capture_destroy(&run.capture);
    CHECK_EQUAL(count_open(), open_before);
    gpud_device_close(&host);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3 && atoi(argv[2]) > 0, "usage: errors_test NODE TIMES");
    node = argv[1];
    WORKS(gpud_context_create(NULL, &context, &e));
    test_method("userptr", (unsigned)atoi(argv[2]));
    test_method("mmap", (unsigned)atoi(argv[2]));
    test_method("dmabuf", (unsigned)atoi(argv[2]));
    gpud_context_destroy(&context);
    puts("ok");
    return 0;
}
