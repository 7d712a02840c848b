/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The public object: made, configured, configured again, ended. */
#include "capture/capture.h"

#include "base/fd.h"
#include "base/sized.h"
#include "base/sysfs.h"
#include "capture/colorimetry.h"
#include "capture/method.h"
#include "topology/near.h"

#include <errno.h>
#include <limits.h>
#include <linux/videodev2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SCHEME "v4l2://"
#define SLOTS_DEFAULT 4
#define SLOTS_MAX 30 /* drivers have 32 buffers */

/* --- create and destroy -------------------------------------------------------------------- */

static enum gpud_status check_params(const struct gpud_capture_params *params,
                                     struct gpud_error *error)
{
    const char *address = params->address;
    if (!address || strncmp(address, SCHEME "/", sizeof(SCHEME "/") - 1) != 0)
        return gpud_fail(error, GPUD_INVALID,
                         "\"%s\" is not a capture address: write v4l2:///dev/video0",
                         address ? address : "");
    if (strlen(address) - strlen(SCHEME) >= sizeof(((struct gpud_v4l2 *)0)->path))
        return gpud_fail(error, GPUD_INVALID, "the capture address is too long");
    if (params->slots > SLOTS_MAX)
        return gpud_fail(error, GPUD_INVALID, "%u slots: up to %d are possible", params->slots,
                         SLOTS_MAX);
    if (!params->method)
        return GPUD_OK;
    for (size_t i = 0; gpud_capture_methods[i]; i++)
        if (strcmp(gpud_capture_methods[i]->name, params->method) == 0)
            return GPUD_OK;
    return gpud_fail(error, GPUD_INVALID,
                     "\"%s\" is not a capture method: use dmabuf, userptr or mmap", params->method);
}

static enum gpud_status read_params(struct gpud_capture_params *own,
                                    const struct gpud_capture_params *params,
                                    struct gpud_error *error)
{
    enum gpud_status status =
        gpud_sized_read(own, sizeof(*own), params, GPUD_END_OF(struct gpud_capture_params, address),
                        "gpud_capture_params", error);
    return status == GPUD_OK ? check_params(own, error) : status;
}

enum gpud_status gpud_capture_open(struct gpud_device *device, struct gpud_device *host,
                                   const struct gpud_capture_params *params,
                                   const struct gpud_v4l2_system *system,
                                   struct gpud_capture **capture, struct gpud_error *error)
{
    struct gpud_capture_params own;
    enum gpud_status status = read_params(&own, params, error);
    if (status != GPUD_OK)
        return status;
    params = &own;
    struct gpud_capture *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a capture");
    pthread_mutex_init(&made->lock, NULL);
    pthread_mutex_init(&made->node_lock, NULL);
    pthread_mutex_init(&made->interrupt_lock, NULL);
    made->context = host->context;
    made->device = gpud_device_ref(device);
    made->host = gpud_device_ref(host);
    made->slots = params->slots ? params->slots : SLOTS_DEFAULT;
    made->direct = params->require_direct;
    gpud_print(made->method, "%s", params->method ? params->method : "");
    gpud_print(made->info.path, "none");
    made->info.fps_den = 1;
    made->node.system = system;
    made->node.fd = -1;
    gpud_print(made->node.path, "%s", params->address + strlen(SCHEME));

    made->watch_fd = -1;
    made->interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made->interrupt_fd < 0)
        status = gpud_fail_errno(error, "cannot create an eventfd");
    if (status == GPUD_OK)
        status = gpud_v4l2_open(&made->node, error);
    if (status != GPUD_OK) {
        gpud_capture_destroy(&made);
        return status;
    }
    gpud_print(made->info.device, "%s", device->info.name);
    gpud_print(made->info.driver, "%s", made->node.driver);
    gpud_print(made->info.card, "%s", made->node.card);
    *capture = made;
    return GPUD_OK;
}

void gpud_capture_find_card(const char *node, char *pci, size_t size)
{
    char resolved[PATH_MAX], link[GPUD_SYSFS_PATH_MAX];
    const char *name = realpath(node, resolved) ? strrchr(resolved, '/') : strrchr(node, '/');
    gpud_print(link, "/sys/class/video4linux/%.64s/device", name + 1);
    gpud_sysfs_find_pci(pci, size, link);
}

enum gpud_status gpud_capture_create(struct gpud_context *context,
                                     const struct gpud_capture_params *params,
                                     struct gpud_capture **capture, struct gpud_error *error)
{
    struct gpud_capture_params own;
    struct gpud_device *device = NULL, *host = NULL;
    enum gpud_status status = read_params(&own, params, error);
    char reason[GPUD_REASON_MAX] = "", pci[GPUD_SYSFS_PCI_MAX] = "";
    if (status == GPUD_OK) {
        const char *node = own.address + strlen(SCHEME);
        gpud_capture_find_card(node, pci, sizeof(pci));
        status = gpud_device_open_near(context, own.device, pci, node, &device, reason, error);
    }
    if (status == GPUD_OK)
        status = gpud_device_open(context, "host", &host, error);
    if (status == GPUD_OK)
        status = gpud_capture_open(device, host, &own, &gpud_v4l2_kernel, capture, error);
    if (status == GPUD_OK)
        gpud_print((*capture)->info.device_reason, "%s", reason);
    gpud_device_close(&device);
    gpud_device_close(&host);
    return status;
}

/* Held frames live on. GPUD_IO: the driver keeps its buffers, and the ring is still there. must:
 * drop it whatever the driver says. */
static enum gpud_status drop_ring(struct gpud_capture *capture, bool must, struct gpud_error *error)
{
    if (!capture->ring)
        return GPUD_OK;
    enum gpud_status status = gpud_capture_ring_stop(capture->ring, error);
    if (status != GPUD_OK && !must)
        return status;
    gpud_capture_ring_unwatch(capture->ring);
    gpud_capture_ring_unref(capture->ring);
    capture->ring = NULL;
    return GPUD_OK;
}

void gpud_capture_destroy(struct gpud_capture **capture)
{
    if (!capture || !*capture)
        return;
    struct gpud_capture *gone = *capture;
    *capture = NULL;
    drop_ring(gone, true, NULL);
    gpud_v4l2_close(&gone->node);
    gpud_fd_close(&gone->watch_fd);
    gpud_fd_close(&gone->interrupt_fd);
    gpud_device_close(&gone->device);
    gpud_device_close(&gone->host);
    pthread_mutex_destroy(&gone->interrupt_lock);
    pthread_mutex_destroy(&gone->node_lock);
    pthread_mutex_destroy(&gone->lock);
    free(gone);
}

/* --- configure ----------------------------------------------------------------------------- */

static enum gpud_status choose_format(struct gpud_capture *capture, const char *format,
                                      uint32_t *fourcc, struct gpud_error *error)
{
    for (size_t i = 0; (*fourcc = gpud_format_fourcc(format, i)); i++)
        if (gpud_capture_offers(&capture->node, *fourcc))
            return GPUD_OK;
    if (gpud_format_fourcc(format, 0) == 0)
        return gpud_fail(error, GPUD_UNSUPPORTED, "\"%.16s\" is not a format that is captured here",
                         format);
    char offered[128];
    gpud_capture_name_formats(&capture->node, offered, sizeof(offered));
    return gpud_fail(error, GPUD_UNSUPPORTED, "%s does not offer %s; it has %s", capture->node.path,
                     format, offered);
}

/* A frame must be a whole picture. Its two fields may be interleaved in it. */
static enum gpud_status check_field(const struct gpud_capture *capture, uint32_t field,
                                    struct gpud_error *error)
{
    if (field != V4L2_FIELD_ALTERNATE && field != V4L2_FIELD_SEQ_TB && field != V4L2_FIELD_SEQ_BT)
        return GPUD_OK;
    return gpud_fail(
        error, GPUD_UNSUPPORTED,
        "%s delivers the fields of its interlaced signal one by one: set the source to progressive",
        capture->node.path);
}

static enum gpud_status set_format(struct gpud_capture *capture, const char *name, uint32_t width,
                                   uint32_t height, struct gpud_placement *placement,
                                   struct gpud_colorimetry *colorimetry, struct gpud_error *error)
{
    struct gpud_v4l2_format format = {.width = width, .height = height};
    enum gpud_status status = choose_format(capture, name, &format.fourcc, error);
    if (status != GPUD_OK)
        return status;
    if (gpud_v4l2_set_format(&capture->node, &format) < 0) {
        capture->gone = errno == ENODEV;
        if (errno == EBUSY)
            return gpud_fail_native(error, GPUD_IO, "errno", EBUSY,
                                    "%s is in use by another program", capture->node.path);
        return gpud_fail_errno(error, "%s does not take the format %s %ux%u", capture->node.path,
                               name, width, height);
    }
    status = check_field(capture, format.field, error);
    if (status == GPUD_OK)
        status = gpud_format_place(&format, placement, error);
    if (status == GPUD_OK && strcmp(placement->layout.format, name) != 0)
        status = gpud_fail(error, GPUD_UNSUPPORTED, "%s offers %s, but gives %s instead",
                           capture->node.path, name, placement->layout.format);
    if (status == GPUD_OK)
        gpud_capture_read_colors(&format, colorimetry);
    return status;
}

static bool stamps_monotonic(const struct gpud_capture_ring *ring)
{
    struct gpud_v4l2_buffer raw = ring->buffers[0].raw;
    return gpud_v4l2_query(ring->node, &raw) == 0 &&
           (raw.flags & V4L2_BUF_FLAG_TIMESTAMP_MASK) == V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC;
}

void gpud_capture_publish_path(struct gpud_capture *capture)
{
    const struct gpud_capture_ring *ring = capture->ring;
    pthread_mutex_lock(&capture->lock);
    if (ring->proven)
        gpud_print(capture->info.path, "v4l2-%s", ring->method->name);
    gpud_print(capture->info.fallback_reason, "%s", ring->fallback_reason);
    pthread_mutex_unlock(&capture->lock);
    if (ring->proven)
        gpud_log_info(&capture->context->log, "capture", "%s: frames arrive by v4l2-%s",
                      capture->node.path, ring->method->name);
}

/* The new configuration, as get_info tells it. */
static void publish(struct gpud_capture *capture, uint32_t fps_num, uint32_t fps_den,
                    const struct gpud_colorimetry *colorimetry)
{
    const struct gpud_capture_ring *ring = capture->ring;
    bool monotonic = stamps_monotonic(ring);
    struct gpud_hdr_metadata hdr;
    gpud_capture_read_hdr(&capture->node, &hdr);
    pthread_mutex_lock(&capture->lock);
    struct gpud_capture_info *info = &capture->info;
    gpud_print(info->driver, "%s", capture->node.driver);
    gpud_print(info->card, "%s", capture->node.card);
    info->layout = ring->placement.layout;
    info->fps_num = fps_num;
    info->fps_den = fps_den;
    info->monotonic = monotonic;
    info->colorimetry = *colorimetry;
    info->hdr = hdr;
    pthread_mutex_unlock(&capture->lock);

    const struct gpud_log *log = &capture->context->log;
    gpud_log_info(log, "capture", "%s (%s): %s %ux%u by v4l2-%s, %u buffers", capture->node.path,
                  capture->node.card, ring->placement.layout.format, ring->placement.layout.width,
                  ring->placement.layout.height, ring->method->name, ring->buffer_count);
    if (ring->fallback_reason[0])
        gpud_log_warning(log, "capture", "%s: %s", capture->node.path, ring->fallback_reason);
    gpud_capture_publish_path(capture);
}

static void unpublish(struct gpud_capture *capture)
{
    pthread_mutex_lock(&capture->lock);
    gpud_print(capture->info.path, "none");
    capture->info.fallback_reason[0] = '\0';
    memset(&capture->info.layout, 0, sizeof(capture->info.layout));
    capture->info.fps_num = 0;
    capture->info.fps_den = 1;
    capture->info.monotonic = false;
    memset(&capture->info.colorimetry, 0, sizeof(capture->info.colorimetry));
    memset(&capture->info.hdr, 0, sizeof(capture->info.hdr));
    pthread_mutex_unlock(&capture->lock);
}

/* Ends what was, and opens the node again if the card was unplugged. */
static enum gpud_status start_over(struct gpud_capture *capture, struct gpud_error *error)
{
    unpublish(capture);
    bool open = !capture->gone && capture->node.fd >= 0;
    enum gpud_status status = drop_ring(capture, !open, &capture->failure);
    if (status == GPUD_OK)
        capture->failure.status = GPUD_OK; /* of a stream that is no more */
    else
        gpud_capture_ring_end(capture->ring);
    if (status != GPUD_OK && error)
        *error = capture->failure;
    if (open)
        return status;
    pthread_mutex_lock(&capture->node_lock);
    gpud_v4l2_close(&capture->node);
    status = gpud_v4l2_open(&capture->node, error);
    pthread_mutex_unlock(&capture->node_lock);
    capture->gone = status != GPUD_OK;
    return status;
}

/* Streams by the best of the methods that may be taken. */
static enum gpud_status begin(struct gpud_capture *capture, const struct gpud_placement *placement,
                              const struct gpud_capture_choice *choice, struct gpud_error *error)
{
    enum gpud_status status =
        gpud_capture_ring_create(&capture->node, capture->device, capture->host, placement,
                                 capture->slots, choice, &capture->ring, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_capture_ring_start(capture->ring, error);
    if (status == GPUD_OK && capture->watch_fd >= 0)
        status = gpud_capture_ring_watch(capture->ring, capture->watch_fd, error);
    if (status != GPUD_OK)
        drop_ring(capture, true, NULL);
    return status;
}

static struct gpud_capture_choice choice_of(const struct gpud_capture *capture)
{
    return (struct gpud_capture_choice){
        .method = capture->method[0] ? capture->method : NULL,
        .direct = capture->direct,
    };
}

enum gpud_status gpud_capture_fall_back(struct gpud_capture *capture, const struct gpud_error *why,
                                        struct gpud_error *error)
{
    const struct gpud_capture_ring *ring = capture->ring;
    struct gpud_placement placement = ring->placement;
    struct gpud_capture_choice choice = choice_of(capture);
    char reasons[GPUD_REASON_MAX];
    gpud_print(reasons, "%s%sv4l2-%s: %s", ring->fallback_reason,
               ring->fallback_reason[0] ? "; " : "", ring->method->name, why->reason);
    choice.below = ring->method;
    choice.reason = reasons;
    uint32_t fps_num = capture->info.fps_num, fps_den = capture->info.fps_den;
    struct gpud_colorimetry colorimetry = capture->info.colorimetry;

    unpublish(capture);
    enum gpud_status status = drop_ring(capture, false, error);
    if (status == GPUD_OK)
        status = begin(capture, &placement, &choice, error);
    if (status != GPUD_OK)
        return status;
    capture->numbered = capture->poll_failed = false;
    capture->discontinuity = true;
    capture->epoch++; /* other memory */
    publish(capture, fps_num, fps_den, &colorimetry);
    return GPUD_OK;
}

enum gpud_status gpud_capture_configure(struct gpud_capture *capture, const char *format,
                                        uint32_t width, uint32_t height, uint32_t fps_num,
                                        uint32_t fps_den, struct gpud_error *error)
{
    if (!format || width < 1 || height < 1 || width > GPUD_DIMENSION_MAX ||
        height > GPUD_DIMENSION_MAX)
        return gpud_fail(
            error, GPUD_INVALID, "a capture of %s %ux%u: a format and 1x1 to %dx%d are needed",
            format ? format : "(no format)", width, height, GPUD_DIMENSION_MAX, GPUD_DIMENSION_MAX);
    if (fps_den < 1)
        return gpud_fail(error, GPUD_INVALID, "a rate of %u/%u frames a second", fps_num, fps_den);

    struct gpud_placement placement;
    struct gpud_colorimetry colorimetry;
    enum gpud_status status = start_over(capture, error);
    if (status == GPUD_OK)
        status = set_format(capture, format, width, height, &placement, &colorimetry, error);
    if (status == GPUD_OK) {
        gpud_v4l2_rate(&capture->node, &fps_num, &fps_den);
        struct gpud_capture_choice choice = choice_of(capture);
        status = begin(capture, &placement, &choice, error);
    }
    if (status != GPUD_OK)
        return status;

    publish(capture, fps_num, fps_den, &colorimetry);
    capture->frame_duration =
        fps_num ? (uint64_t)fps_den * UINT64_C(1000000000) / fps_num : GPUD_TIME_NONE;
    capture->failure = (struct gpud_error){.status = GPUD_OK};
    capture->poll_failed = capture->said_full = capture->said_clock = capture->numbered = false;
    capture->discontinuity = capture->epoch > 0;
    capture->epoch++;
    return GPUD_OK;
}

/* --- from any thread ----------------------------------------------------------------------- */

void gpud_capture_get_info(struct gpud_capture *capture, struct gpud_capture_info *info)
{
    pthread_mutex_lock(&capture->lock);
    gpud_sized_copy(info, info->size, &capture->info, sizeof(capture->info));
    pthread_mutex_unlock(&capture->lock);
}

void gpud_capture_interrupt(struct gpud_capture *capture, bool interrupted)
{
    /* Set first, written second, and drained before it is cleared: whoever sees it readable sees it
     * set. */
    uint64_t count = 1;
    ssize_t done = 0;
    pthread_mutex_lock(&capture->interrupt_lock);
    if (interrupted && !atomic_exchange(&capture->interrupted, true))
        done = write(capture->interrupt_fd, &count, sizeof(count));
    else if (!interrupted && atomic_load(&capture->interrupted))
        done = read(capture->interrupt_fd, &count, sizeof(count));
    atomic_store(&capture->interrupted, interrupted);
    pthread_mutex_unlock(&capture->interrupt_lock);
    (void)done; /* an eventfd of 0 takes 1, and one of 1 gives it */
}
