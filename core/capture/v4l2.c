/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "capture/internal.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static int kernel_open(const char *path, int flags)
{
    return open(path, flags);
}

static int kernel_ioctl(int fd, unsigned long request, void *argument)
{
    return ioctl(fd, request, argument);
}

static void kernel_bus(int fd, char *bus, size_t size)
{
    struct stat st;
    char path[64], target[256];
    bus[0] = '\0';
    if (fstat(fd, &st) < 0)
        return;
    snprintf(path, sizeof(path), "/sys/dev/char/%u:%u/device/subsystem", major(st.st_rdev),
             minor(st.st_rdev));
    ssize_t length = readlink(path, target, sizeof(target) - 1);
    if (length <= 0)
        return;
    target[length] = '\0';
    const char *last = strrchr(target, '/');
    gpud_print_n(bus, size, "%s", last ? last + 1 : target);
}

static uint32_t kernel_index(int fd)
{
    struct stat st;
    char path[64], text[16] = "";
    if (fstat(fd, &st) < 0)
        return 0;
    snprintf(path, sizeof(path), "/sys/dev/char/%u:%u/index", major(st.st_rdev), minor(st.st_rdev));
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, text, sizeof(text) - 1);
    if (file >= 0)
        close(file);
    return length > 0 ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

const struct gpud_v4l2_system gpud_v4l2_kernel = {
    .folder = "/dev",
    .open = kernel_open,
    .close = close,
    .ioctl = kernel_ioctl,
    .mmap = mmap,
    .ppoll = ppoll,
    .bus = kernel_bus,
    .index = kernel_index,
};

int gpud_v4l2_call(const struct gpud_v4l2 *node, unsigned long request, void *argument)
{
    int result;
    do {
        result = node->system->ioctl(node->fd, request, argument);
    } while (result < 0 && errno == EINTR);
    return result < 0 ? -1 : 0;
}

static bool multiplanar(const struct gpud_v4l2 *node)
{
    return node->type == V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE;
}

/* --- the node ------------------------------------------------------------------------------ */

static enum gpud_status open_failed(const struct gpud_v4l2 *node, struct gpud_error *error)
{
    int number = errno;
    switch (number) {
    case ENOENT:
        return gpud_fail_native(error, GPUD_NO_DEVICE, "errno", number,
                                "there is no %s: is the card there and its driver loaded?",
                                node->path);
    case EACCES:
    case EPERM:
        return gpud_fail_native(
            error, GPUD_NO_ACCESS, "errno", number,
            "no permission to open %s: is this user in the group that owns it (video)?",
            node->path);
    default:
        return gpud_fail_errno(error, "cannot open %s", node->path);
    }
}

enum gpud_status gpud_v4l2_open(struct gpud_v4l2 *node, struct gpud_error *error)
{
    node->fd = node->system->open(node->path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (node->fd < 0) {
        node->fd = -1;
        return open_failed(node, error);
    }

    enum gpud_status status;
    struct v4l2_capability capability = {0};
    if (gpud_v4l2_call(node, VIDIOC_QUERYCAP, &capability) < 0) {
        status = errno == ENOTTY || errno == EINVAL
                     ? gpud_fail(error, GPUD_NO_DEVICE, "%s is not a V4L2 node", node->path)
                     : gpud_fail_errno(error, "%s does not tell what it can do", node->path);
        goto fail;
    }
    uint32_t can = capability.capabilities & V4L2_CAP_DEVICE_CAPS ? capability.device_caps
                                                                  : capability.capabilities;
    if (can & V4L2_CAP_VIDEO_CAPTURE) {
        node->type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
    } else if (can & V4L2_CAP_VIDEO_CAPTURE_MPLANE) {
        node->type = V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE;
    } else {
        status = gpud_fail(error, GPUD_UNSUPPORTED,
                           "%s does not capture video: another node of the card may", node->path);
        goto fail;
    }
    if (!(can & V4L2_CAP_STREAMING)) {
        status = gpud_fail(error, GPUD_UNSUPPORTED,
                           "the driver of %s cannot stream, only be read from", node->path);
        goto fail;
    }
    gpud_print(node->driver, "%.*s", (int)sizeof(capability.driver),
               (const char *)capability.driver);
    gpud_print(node->card, "%.*s", (int)sizeof(capability.card), (const char *)capability.card);
    gpud_print(node->place, "%.*s", (int)sizeof(capability.bus_info),
               (const char *)capability.bus_info);
    node->system->bus(node->fd, node->bus, sizeof(node->bus));
    node->index = node->system->index(node->fd);
    gpud_text_clean(node->card, strlen(node->card)); /* the device's, perhaps cut */
    return GPUD_OK;
fail:
    gpud_v4l2_close(node);
    return status;
}

void gpud_v4l2_close(struct gpud_v4l2 *node)
{
    if (node->fd >= 0)
        node->system->close(node->fd);
    node->fd = -1;
}

bool gpud_v4l2_is_alive(const struct gpud_v4l2 *node)
{
    struct v4l2_capability capability;
    return gpud_v4l2_call(node, VIDIOC_QUERYCAP, &capability) == 0;
}

/* --- formats ------------------------------------------------------------------------------- */

int gpud_v4l2_call_format(const struct gpud_v4l2 *node, unsigned long request,
                          struct gpud_v4l2_format *format)
{
    struct v4l2_format raw = {.type = node->type};
    /* Both structs begin with the same: width, height, pixelformat, field. */
    struct v4l2_pix_format *one = &raw.fmt.pix;
    const struct v4l2_pix_format_mplane *many = &raw.fmt.pix_mp;
    one->width = format->width;
    one->height = format->height;
    one->pixelformat = format->fourcc;
    one->field = format->field;
    if (!multiplanar(node))
        one->priv = V4L2_PIX_FMT_PRIV_MAGIC;
    if (gpud_v4l2_call(node, request, &raw) < 0)
        return -1;

    struct gpud_v4l2_format got = {
        .fourcc = one->pixelformat,
        .width = one->width,
        .height = one->height,
        .field = one->field,
    };
    if (!multiplanar(node)) {
        got.colorspace = one->colorspace;
        if (one->priv == V4L2_PIX_FMT_PRIV_MAGIC) { /* else the extended fields are not valid */
            got.transfer = one->xfer_func;
            got.encoding = one->ycbcr_enc;
            got.quantization = one->quantization;
        }
        got.planes = 1;
        got.plane[0].stride = one->bytesperline;
        got.plane[0].size = one->sizeimage;
        *format = got;
        return 0;
    }
    if (many->num_planes < 1 || many->num_planes > GPUD_PLANES_MAX) {
        errno = EPROTO;
        return -1;
    }
    got.colorspace = many->colorspace;
    got.transfer = many->xfer_func;
    got.encoding = many->ycbcr_enc;
    got.quantization = many->quantization;
    got.planes = many->num_planes;
    for (uint32_t i = 0; i < got.planes; i++) {
        got.plane[i].stride = many->plane_fmt[i].bytesperline;
        got.plane[i].size = many->plane_fmt[i].sizeimage;
    }
    *format = got;
    return 0;
}

int gpud_v4l2_get_format(const struct gpud_v4l2 *node, struct gpud_v4l2_format *format)
{
    *format = (struct gpud_v4l2_format){0};
    return gpud_v4l2_call_format(node, VIDIOC_G_FMT, format);
}

void gpud_v4l2_rate(const struct gpud_v4l2 *node, uint32_t *num, uint32_t *den)
{
    struct v4l2_streamparm raw = {.type = node->type};
    struct v4l2_captureparm *capture = &raw.parm.capture;
    bool known = gpud_v4l2_call(node, VIDIOC_G_PARM, &raw) == 0;
    if (known && *num && capture->capability & V4L2_CAP_TIMEPERFRAME) {
        capture->timeperframe = (struct v4l2_fract){.numerator = *den, .denominator = *num};
        known = gpud_v4l2_call(node, VIDIOC_S_PARM, &raw) == 0;
    }
    known = known && capture->timeperframe.numerator && capture->timeperframe.denominator;
    *num = known ? capture->timeperframe.denominator : 0;
    *den = known ? capture->timeperframe.numerator : 1;
}

/* --- buffers ------------------------------------------------------------------------------- */

static int buffer_call(const struct gpud_v4l2 *node, unsigned long request,
                       struct gpud_v4l2_buffer *buffer)
{
    struct v4l2_plane *only = buffer->plane;
    struct v4l2_buffer raw = {.index = buffer->index, .type = node->type, .memory = buffer->memory};
    if (multiplanar(node)) {
        raw.m.planes = buffer->plane;
        raw.length = buffer->planes ? buffer->planes : GPUD_PLANES_MAX;
    } else {
        raw.length = only->length;
        raw.m.userptr = only->m.userptr; /* the widest of the union, for any of it */
    }
    if (gpud_v4l2_call(node, request, &raw) < 0)
        return -1;
    buffer->index = raw.index;
    buffer->memory = raw.memory;
    buffer->flags = raw.flags;
    buffer->sequence = raw.sequence;
    buffer->field = raw.field;
    buffer->timestamp = (uint64_t)raw.timestamp.tv_sec * UINT64_C(1000000000) +
                        (uint64_t)raw.timestamp.tv_usec * 1000;
    buffer->planes = 1;
    if (multiplanar(node))
        buffer->planes = raw.length < GPUD_PLANES_MAX ? raw.length : GPUD_PLANES_MAX;
    else
        *only = (struct v4l2_plane){
            .length = raw.length, .bytesused = raw.bytesused, .m.userptr = raw.m.userptr};
    return 0;
}

int gpud_v4l2_query(const struct gpud_v4l2 *node, struct gpud_v4l2_buffer *buffer)
{
    return buffer_call(node, VIDIOC_QUERYBUF, buffer);
}

int gpud_v4l2_queue(const struct gpud_v4l2 *node, const struct gpud_v4l2_buffer *buffer)
{
    struct gpud_v4l2_buffer own = *buffer; /* the driver writes into it */
    return buffer_call(node, VIDIOC_QBUF, &own);
}

int gpud_v4l2_dequeue(const struct gpud_v4l2 *node, struct gpud_v4l2_buffer *buffer)
{
    return buffer_call(node, VIDIOC_DQBUF, buffer);
}
