/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "support/fake_driver.h"

#include "support/fake_input.h"

#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static struct fake_driver *driver; /* behind fake_system */

void fake_install(struct fake_driver *made)
{
    CHECK(!driver, "one fake driver at a time");
    driver = made;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->change, NULL);
    made->fd = -1;
    CHECK(pipe2(made->pipe, O_NONBLOCK | O_CLOEXEC) == 0, "no pipe");
    made->memfd = memfd_create("fake", MFD_CLOEXEC);
    CHECK(made->memfd >= 0, "no memfd");
    CHECK(ftruncate(made->memfd, (off_t)FAKE_BUFFERS * GPUD_PLANES_MAX * FAKE_AREA_MAX) == 0,
          "no memory");
    made->interval = (struct v4l2_fract){1, 30};
    fake_show(made);
}

void fake_remove(struct fake_driver *made)
{
    CHECK(driver == made, "not this one");
    CHECK(made->opened == 0, "the node is still open");
    close(made->pipe[0]);
    if (made->pipe[1] >= 0)
        close(made->pipe[1]);
    close(made->memfd);
    pthread_cond_destroy(&made->change);
    pthread_mutex_destroy(&made->lock);
    driver = NULL;
}

/* Without a writer the pipe hangs up; /proc lets it have one again. */
void fake_show(struct fake_driver *made)
{
    bool broken = made->unplugged || made->poll_error || !made->streaming ||
                  made->queue_length + made->done_length == 0;
    if (broken && made->pipe[1] >= 0) {
        close(made->pipe[1]);
        made->pipe[1] = -1;
    } else if (!broken && made->pipe[1] < 0) {
        char path[32];
        snprintf(path, sizeof(path), "/proc/self/fd/%d", made->pipe[0]);
        made->pipe[1] = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        CHECK(made->pipe[1] >= 0, "the pipe cannot be opened again");
    }
}

/* --- buffers ------------------------------------------------------------------------------- */

static int request(struct v4l2_requestbuffers *raw)
{
    uint32_t needed = raw->memory == V4L2_MEMORY_USERPTR ? V4L2_BUF_CAP_SUPPORTS_USERPTR
                      : raw->memory == V4L2_MEMORY_MMAP  ? V4L2_BUF_CAP_SUPPORTS_MMAP
                      : driver->takes_dmabufs            ? V4L2_BUF_CAP_SUPPORTS_DMABUF
                                                         : 0;
    raw->capabilities = driver->memories;
    if (raw->type != fake_type(driver) || !needed ||
        (driver->memories && !(driver->memories & needed)))
        return EINVAL;
    if (driver->streaming || (driver->count && driver->keeps_mapped && driver->mapped))
        return EBUSY;
    fake_detach(driver);
    memset(driver->buffers, 0, sizeof(driver->buffers));
    driver->queue_length = driver->done_length = 0;
    if (raw->count)
        raw->count = raw->count > driver->fewer + 1 ? raw->count - driver->fewer : 1;
    if (raw->count > FAKE_BUFFERS)
        raw->count = FAKE_BUFFERS;
    driver->count = raw->count;
    driver->memory = raw->memory;
    return 0;
}

uint32_t fake_area_offset(uint32_t index, uint32_t area)
{
    return (index * GPUD_PLANES_MAX + area) * FAKE_AREA_MAX;
}

/* As in videobuf2: what the driver made is a whole number of pages. */
static uint32_t area_length(uint32_t area)
{
    return (driver->format.plane[area].size + 4095) & ~4095u;
}

static void tell(uint32_t index, struct v4l2_buffer *raw)
{
    const struct fake_buffer *buffer = &driver->buffers[index];
    bool mmap_memory = driver->memory == V4L2_MEMORY_MMAP;
    raw->index = index;
    raw->flags = buffer->flags | driver->stamp;
    raw->sequence = buffer->sequence;
    raw->field = driver->buffer_field ? driver->buffer_field : driver->format.field;
    raw->timestamp.tv_sec = (time_t)(buffer->timestamp / 1000000000);
    raw->timestamp.tv_usec = (suseconds_t)(buffer->timestamp % 1000000000 / 1000);
    if (!driver->multiplanar) {
        raw->bytesused = buffer->bytesused[0];
        if (mmap_memory) {
            raw->length = area_length(0);
            raw->m.offset = fake_area_offset(index, 0);
        }
        return;
    }
    raw->length = driver->format.planes;
    for (uint32_t i = 0; i < driver->format.planes; i++) {
        raw->m.planes[i].bytesused = buffer->bytesused[i];
        raw->m.planes[i].data_offset = buffer->data_offset[i];
        if (mmap_memory) {
            raw->m.planes[i].length = area_length(i);
            raw->m.planes[i].m.mem_offset = fake_area_offset(index, i);
        }
    }
}

static int check_buffer(const struct v4l2_buffer *raw)
{
    if (raw->type != fake_type(driver) || raw->index >= driver->count)
        return EINVAL;
    if (driver->multiplanar && (!raw->m.planes || raw->length < driver->format.planes))
        return EINVAL;
    return 0;
}

static int queue(struct v4l2_buffer *raw)
{
    int error = check_buffer(raw);
    if (error)
        return error;
    struct fake_buffer *buffer = &driver->buffers[raw->index];
    if (raw->memory != driver->memory || buffer->queued || buffer->done)
        return EINVAL;
    for (uint32_t i = 0; i < driver->format.planes; i++) {
        if (driver->memory == V4L2_MEMORY_USERPTR) {
            uint32_t length = driver->multiplanar ? raw->m.planes[i].length : raw->length;
            unsigned long address =
                driver->multiplanar ? raw->m.planes[i].m.userptr : raw->m.userptr;
            if (length < driver->format.plane[i].size || address % 4096)
                return EINVAL;
            buffer->area[i] = (unsigned char *)address;
        } else if (driver->memory == V4L2_MEMORY_DMABUF) {
            uint32_t length = driver->multiplanar ? raw->m.planes[i].length : raw->length;
            int fd = driver->multiplanar ? raw->m.planes[i].m.fd : raw->m.fd;
            error = fake_attach(driver, raw->index, i, fd, length);
            if (error)
                return error;
        }
    }
    buffer->queued = true;
    driver->queue[driver->queue_length++] = raw->index;
    fake_show(driver);
    tell(raw->index, raw);
    return 0;
}

static int dequeue(struct v4l2_buffer *raw)
{
    char one;
    if (raw->type != fake_type(driver) || raw->memory != driver->memory || !driver->streaming)
        return EINVAL;
    if (read(driver->pipe[0], &one, 1) != 1)
        return EAGAIN;
    uint32_t index = driver->done[0];
    memmove(driver->done, driver->done + 1, --driver->done_length * sizeof(driver->done[0]));
    driver->buffers[index].done = false;
    fake_show(driver);
    tell(index, raw);
    raw->index += driver->lies_index;
    return 0;
}

static int stream(bool on)
{
    driver->streaming = on;
    driver->poll_error = driver->poll_error && on; /* as in videobuf2 */
    fake_show(driver);
    if (on)
        return 0;
    for (char one; read(driver->pipe[0], &one, 1) > 0;)
        ;
    driver->queue_length = driver->done_length = 0;
    for (uint32_t i = 0; i < driver->count; i++)
        driver->buffers[i].queued = driver->buffers[i].done = false;
    return 0;
}

static int parameters(bool set, struct v4l2_streamparm *raw)
{
    if (raw->type != fake_type(driver))
        return EINVAL;
    if (set)
        driver->interval = raw->parm.capture.timeperframe;
    raw->parm.capture.capability = V4L2_CAP_TIMEPERFRAME;
    raw->parm.capture.timeperframe = driver->interval;
    return 0;
}

/* --- the system calls ---------------------------------------------------------------------- */

static int dispatch(unsigned long request_code, void *argument)
{
    switch (request_code) {
    case VIDIOC_QUERYCAP: {
        struct v4l2_capability *raw = argument;
        uint32_t video =
            driver->multiplanar ? V4L2_CAP_VIDEO_CAPTURE_MPLANE : V4L2_CAP_VIDEO_CAPTURE;
        raw->device_caps = driver->capabilities ? driver->capabilities : video | V4L2_CAP_STREAMING;
        raw->capabilities = raw->device_caps | V4L2_CAP_DEVICE_CAPS | V4L2_CAP_VIDEO_OUTPUT;
        memcpy(raw->driver, "fake", 5);
        /* No room for the NUL, and cut within a character, as names of USB devices are. */
        memset(raw->card, 'x', sizeof(raw->card));
        raw->card[sizeof(raw->card) - 1] = 0xc3;
        snprintf((char *)raw->bus_info, sizeof(raw->bus_info), "%s",
                 driver->place ? driver->place : "");
        return 0;
    }
    case VIDIOC_ENUM_FMT:
        driver->format_calls++;
        return fake_enum_format(driver, argument);
    case VIDIOC_ENUM_FRAMESIZES:
        driver->size_lists += ((struct v4l2_frmsizeenum *)argument)->index == 0;
        return fake_enum_size(driver, argument);
    case VIDIOC_ENUM_FRAMEINTERVALS:
        return driver->sizes == FAKE_SILENT ? ENOTTY : fake_enum_interval(driver, argument);
    case VIDIOC_G_FMT:
    case VIDIOC_S_FMT:
    case VIDIOC_TRY_FMT:
        return fake_format_call(driver, request_code, argument);
    case VIDIOC_G_EXT_CTRLS:
        return fake_get_controls(driver, argument);
    case VIDIOC_G_PARM:
    case VIDIOC_S_PARM:
        return parameters(request_code == VIDIOC_S_PARM, argument);
    case VIDIOC_REQBUFS:
        return request(argument);
    case VIDIOC_CREATE_BUFS:
        CHECK(((struct v4l2_create_buffers *)argument)->count == 0, "it makes none");
        ((struct v4l2_create_buffers *)argument)->capabilities = driver->memories;
        return driver->memories ? 0 : ENOTTY; /* older drivers do not have it */
    case VIDIOC_QUERYBUF: {
        int error = check_buffer(argument);
        if (!error)
            tell(((struct v4l2_buffer *)argument)->index, argument);
        return error;
    }
    case VIDIOC_QBUF:
        return queue(argument);
    case VIDIOC_DQBUF:
        return dequeue(argument);
    case VIDIOC_STREAMON:
    case VIDIOC_STREAMOFF:
        CHECK(*(uint32_t *)argument == fake_type(driver), "the wrong type");
        if (request_code == VIDIOC_STREAMON && driver->needs_signal && driver->detects)
            return driver->detects;
        return stream(request_code == VIDIOC_STREAMON);
    default: {
        int answer = fake_control_call(driver, request_code, argument);
        if (answer < 0)
            answer = fake_input_call(driver, request_code, argument);
        return answer < 0 ? ENOTTY : answer;
    }
    }
}

/* With the lock held. */
static void stop_here(unsigned long request_code)
{
    if (driver->stop_at != request_code)
        return;
    driver->stop_at = 0;
    driver->stopped = true;
    pthread_cond_broadcast(&driver->change);
    while (driver->stopped)
        pthread_cond_wait(&driver->change, &driver->lock);
}

static int other_ioctl(unsigned long request_code, void *argument)
{
    if (request_code == VIDIOC_QUERYCAP) {
        struct v4l2_capability *raw = argument;
        raw->capabilities = V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_STREAMING;
        memcpy(raw->bus_info, "elsewhere", 10);
        return 0;
    }
    errno = ENOTTY;
    return -1;
}

/* What another program would notice. */
static bool changes_something(unsigned long request_code)
{
    static const unsigned long changes[] = {
        VIDIOC_S_FMT,    VIDIOC_S_PARM,  VIDIOC_S_STD,     VIDIOC_S_INPUT, VIDIOC_S_DV_TIMINGS,
        VIDIOC_STREAMON, VIDIOC_REQBUFS, VIDIOC_STREAMOFF, VIDIOC_QBUF,    VIDIOC_DQBUF,
    };
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
        if (request_code == changes[i])
            return true;
    return false;
}

static int fake_ioctl(int fd, unsigned long request_code, void *argument)
{
    if (driver && driver->other_fd && fd == driver->other_fd)
        return other_ioctl(request_code, argument);
    if (!driver || fd != driver->fd || !driver->opened) {
        errno = EBADF;
        return -1;
    }
    pthread_mutex_lock(&driver->lock);
    driver->calls++;
    driver->dequeues += request_code == VIDIOC_DQBUF;
    driver->changes += changes_something(request_code);
    driver->inside++;
    stop_here(request_code);
    driver->inside--;
    int error = driver->unplugged ? ENODEV
                : fake_fault_hits(driver, request_code, argument)
                    ? driver->fault.error
                    : dispatch(request_code, argument);
    pthread_mutex_unlock(&driver->lock);
    errno = error;
    return error ? -1 : 0;
}

static int open_node(const char *path)
{
    if (driver->other && strcmp(path, driver->other) == 0) {
        CHECK(!driver->other_fd, "opened twice");
        driver->other_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        return driver->other_fd;
    }
    const char *node = driver->node ? driver->node : "/dev/fake";
    errno = strcmp(path, node) != 0 || driver->unplugged ? ENOENT : driver->open_error;
    if (errno)
        return -1;
    driver->opened++;
    driver->opens++;
    driver->fd = fcntl(driver->pipe[0], F_DUPFD_CLOEXEC, 0);
    CHECK(driver->fd >= 0, "no descriptor");
    return driver->fd;
}

static int fake_open(const char *path, int flags)
{
    pthread_mutex_lock(&driver->lock);
    int fd = open_node(path), number = errno;
    pthread_mutex_unlock(&driver->lock);
    errno = number;
    return fd;
}

static int fake_close(int fd)
{
    if (driver->other_fd && fd == driver->other_fd) {
        driver->other_fd = 0;
        return close(fd);
    }
    pthread_mutex_lock(&driver->lock);
    CHECK(fd == driver->fd && driver->opened == 1, "closed twice");
    /* The number may be another file's by the time that the call takes effect. */
    CHECK(driver->inside == 0, "closed while another thread calls the driver");
    pthread_mutex_unlock(&driver->lock);
    stream(false);
    fake_detach(driver);
    driver->count = 0;
    driver->opened = 0;
    driver->fd = -1;
    return close(fd);
}

static void *fake_mmap(void *address, size_t length, int protection, int flags, int fd,
                       off_t offset)
{
    uint32_t place = (uint32_t)(offset / FAKE_AREA_MAX);
    uint32_t index = place / GPUD_PLANES_MAX, area = place % GPUD_PLANES_MAX;
    if (fd != driver->fd || driver->memory != V4L2_MEMORY_MMAP || index >= driver->count ||
        offset % FAKE_AREA_MAX || area >= driver->format.planes || length > area_length(area) ||
        !(flags & MAP_SHARED)) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    if (fake_fault_hits(driver, 1, NULL)) {
        errno = driver->fault.error;
        return MAP_FAILED;
    }
    driver->mapped++;
    return mmap(address, length, protection, flags, driver->memfd, offset);
}

/* An event shows at once; as in v4l2_poll(), so does one where there is no device any more. */
static int fake_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                      const sigset_t *mask)
{
    pthread_mutex_lock(&driver->lock);
    driver->polls++;
    for (nfds_t i = 0; i < count; i++)
        driver->polled += fds[i].fd >= 0;
    bool told =
        (driver->events || driver->unplugged) && fds[0].fd == driver->fd && fds[0].events & POLLPRI;
    pthread_mutex_unlock(&driver->lock);
    int ready = ppoll(fds, count, told ? &(struct timespec){0} : timeout, mask);
    if (!told || ready < 0)
        return ready;
    fds[0].revents |= POLLPRI;
    return ready + 1;
}

static void fake_bus(int fd, char *bus, size_t size)
{
    snprintf(bus, size, "%s", driver->bus ? driver->bus : "pci");
}

static uint32_t fake_index(int fd)
{
    return 0;
}

const struct gpud_v4l2_system fake_system = {
    .folder = "/nowhere",
    .open = fake_open,
    .close = fake_close,
    .ioctl = fake_ioctl,
    .mmap = fake_mmap,
    .ppoll = fake_ppoll,
    .bus = fake_bus,
    .index = fake_index,
};
