/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "fake_driver.h"

#include "fake_input.h"

#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static struct fake_driver *driver; /* behind fake_system */

static const uint32_t one_area[] = {V4L2_PIX_FMT_UYVY, V4L2_PIX_FMT_MJPEG, V4L2_PIX_FMT_NV12,
                                    V4L2_PIX_FMT_SBGGR8, V4L2_PIX_FMT_BGR24};
static const uint32_t more_areas[] = {V4L2_PIX_FMT_UYVY, V4L2_PIX_FMT_NV12M, V4L2_PIX_FMT_NV12,
                                      V4L2_PIX_FMT_YUV420M};

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

static uint32_t type(void)
{
    return driver->multiplanar ? V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE : V4L2_BUF_TYPE_VIDEO_CAPTURE;
}

/* --- formats ------------------------------------------------------------------------------- */

/* The nearest that the driver has. */
static void round_format(struct gpud_v4l2_format *format)
{
    uint32_t width = driver->sizes == FAKE_SILENT ? 320 : format->width < 480 ? 320 : 640;
    uint32_t height = width == 320 ? 180 : 360;
    if (driver->sizes == FAKE_STEPWISE) {
        width = format->width > 640 ? 640 : (format->width + 15) & ~15u;
        height = format->height > 360 ? 360 : (format->height + 3) & ~3u;
    }
    if (driver->digital) {
        width = driver->timings.width;
        height = driver->timings.height;
        if (driver->field == V4L2_FIELD_ALTERNATE)
            height /= 2;
    }
    if (driver->substitutes)
        format->fourcc = V4L2_PIX_FMT_UYVY;
    struct gpud_v4l2_format made = {.fourcc = format->fourcc, .width = width, .height = height};
    made.field = driver->field ? driver->field : V4L2_FIELD_NONE;
    uint32_t bytes = made.fourcc == V4L2_PIX_FMT_UYVY    ? 2
                     : made.fourcc == V4L2_PIX_FMT_BGR24 ? 3
                                                         : 1;
    made.plane[0].stride = width * bytes + driver->padding;
    made.plane[0].size = made.plane[0].stride * height;
    if (made.fourcc == V4L2_PIX_FMT_NV12)
        made.plane[0].size += made.plane[0].stride * height / 2;
    bool two = made.fourcc == V4L2_PIX_FMT_NV12M;
    made.planes = two ? 2 : made.fourcc == V4L2_PIX_FMT_YUV420M ? 3 : 1;
    for (uint32_t i = 1; i < made.planes; i++) {
        made.plane[i].stride = (two ? width : width / 2) + driver->padding;
        made.plane[i].size = made.plane[i].stride * height / 2;
    }
    if (driver->multiplanar)
        made.plane[0].size += 128; /* room for a data_offset */
    *format = made;
}

static int format_call(unsigned long request_code, struct v4l2_format *raw)
{
    bool set = request_code == VIDIOC_S_FMT, ask = request_code == VIDIOC_TRY_FMT;
    if (raw->type != type() || (set && driver->count))
        return raw->type != type() ? EINVAL : EBUSY;
    bool extended =
        driver->multiplanar || raw->fmt.pix.priv == V4L2_PIX_FMT_PRIV_MAGIC || !(set || ask);
    struct v4l2_pix_format *one = &raw->fmt.pix;
    struct v4l2_pix_format_mplane *many = &raw->fmt.pix_mp;
    struct gpud_v4l2_format format = driver->format;
    if (set || ask) {
        format.fourcc = driver->multiplanar ? many->pixelformat : one->pixelformat;
        format.width = driver->multiplanar ? many->width : one->width;
        format.height = driver->multiplanar ? many->height : one->height;
        round_format(&format);
    }
    if (set)
        driver->format = format;
    memset(&raw->fmt, 0, sizeof(raw->fmt));
    if (driver->multiplanar) {
        many->pixelformat = format.fourcc;
        many->width = format.width;
        many->height = format.height;
        many->field = format.field;
        many->num_planes = (uint8_t)format.planes;
        many->colorspace = driver->colors.space;
        many->xfer_func = (uint8_t)driver->colors.transfer;
        many->ycbcr_enc = (uint8_t)driver->colors.encoding;
        many->quantization = (uint8_t)driver->colors.quantization;
        for (uint32_t i = 0; i < format.planes; i++) {
            many->plane_fmt[i].bytesperline = format.plane[i].stride;
            many->plane_fmt[i].sizeimage = format.plane[i].size;
        }
    } else {
        one->pixelformat = format.fourcc;
        one->width = format.width;
        one->height = format.height;
        one->field = format.field;
        one->colorspace = driver->colors.space;
        one->priv = extended ? V4L2_PIX_FMT_PRIV_MAGIC : 0;
        one->xfer_func = extended ? driver->colors.transfer : 0;
        one->ycbcr_enc = extended ? driver->colors.encoding : 0;
        one->quantization = extended ? driver->colors.quantization : 0;
        one->bytesperline = format.plane[0].stride;
        one->sizeimage = format.plane[0].size;
    }
    return 0;
}

static int enum_format(struct v4l2_fmtdesc *raw)
{
    size_t count = driver->multiplanar ? sizeof(more_areas) / 4 : sizeof(one_area) / 4;
    if (raw->type != type() || raw->index >= count)
        return EINVAL;
    raw->pixelformat = (driver->multiplanar ? more_areas : one_area)[raw->index];
    raw->flags = raw->pixelformat == V4L2_PIX_FMT_MJPEG ? V4L2_FMT_FLAG_COMPRESSED : 0;
    return 0;
}

/* --- buffers ------------------------------------------------------------------------------- */

static int request(struct v4l2_requestbuffers *raw)
{
    uint32_t needed = raw->memory == V4L2_MEMORY_USERPTR ? V4L2_BUF_CAP_SUPPORTS_USERPTR
                      : raw->memory == V4L2_MEMORY_MMAP  ? V4L2_BUF_CAP_SUPPORTS_MMAP
                      : driver->takes_dmabufs            ? V4L2_BUF_CAP_SUPPORTS_DMABUF
                                                         : 0;
    raw->capabilities = driver->memories;
    if (raw->type != type() || !needed || (driver->memories && !(driver->memories & needed)))
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
    if (raw->type != type() || raw->index >= driver->count)
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
    if (raw->type != type() || raw->memory != driver->memory || !driver->streaming)
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
    if (raw->type != type())
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
        return 0;
    }
    case VIDIOC_ENUM_FMT:
        return enum_format(argument);
    case VIDIOC_ENUM_FRAMESIZES:
        return fake_enum_size(driver, argument);
    case VIDIOC_ENUM_FRAMEINTERVALS:
        return driver->sizes == FAKE_SILENT ? ENOTTY : fake_enum_interval(driver, argument);
    case VIDIOC_G_FMT:
    case VIDIOC_S_FMT:
    case VIDIOC_TRY_FMT:
        return format_call(request_code, argument);
    case VIDIOC_G_EXT_CTRLS:
        return fake_get_controls(driver, argument);
    case VIDIOC_G_PARM:
    case VIDIOC_S_PARM:
        return parameters(request_code == VIDIOC_S_PARM, argument);
    case VIDIOC_REQBUFS:
        return request(argument);
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
        CHECK(*(uint32_t *)argument == type(), "the wrong type");
        return stream(request_code == VIDIOC_STREAMON);
    default: {
        int answer = fake_input_call(driver, request_code, argument);
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

static int fake_ioctl(int fd, unsigned long request_code, void *argument)
{
    if (!driver || fd != driver->fd || !driver->opened) {
        errno = EBADF;
        return -1;
    }
    pthread_mutex_lock(&driver->lock);
    driver->calls++;
    driver->dequeues += request_code == VIDIOC_DQBUF;
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

static int fake_open(const char *path, int flags)
{
    errno = strcmp(path, "/dev/fake") != 0 || driver->unplugged ? ENOENT : driver->open_error;
    if (errno)
        return -1;
    driver->opened++;
    driver->fd = fcntl(driver->pipe[0], F_DUPFD_CLOEXEC, 0);
    CHECK(driver->fd >= 0, "no descriptor");
    return driver->fd;
}

static int fake_close(int fd)
{
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

const struct gpud_v4l2_system fake_system = {
    .open = fake_open,
    .close = fake_close,
    .ioctl = fake_ioctl,
    .mmap = fake_mmap,
    .ppoll = fake_ppoll,
    .bus = fake_bus,
};
