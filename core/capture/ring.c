/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The driver's buffers as slots of a ring, and what is told of each. */
#include "capture/internal.h"

#include "base/base.h"

#include <errno.h>
#include <linux/videodev2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* === ring_watch ============================================================================== */
/* A ring in its capture's epoll: its wake-up, and the driver's node while its state is
 * meaningful. */

void gpud_capture_ring_set_woken(struct gpud_capture_ring *ring, bool woken)
{
    uint64_t count = 1;
    if (woken && !ring->woken)
        ring->woken = write(ring->wake_fd, &count, sizeof(count)) == sizeof(count);
    else if (!woken && ring->woken)
        ring->woken = read(ring->wake_fd, &count, sizeof(count)) != sizeof(count);
}

/* Buffers that devices have finished with are queued by the next acquire, which is soon enough
 * while the driver still has buffers to fill. */
bool gpud_capture_ring_is_due(const struct gpud_capture_ring *ring)
{
    if (ring->watch_fd < 0)
        return false;
    bool low = __builtin_popcountll(ring->queued) < GPUD_CAPTURE_SPARE;
    /* Stopped but not replaced: the driver waits for frames that are released now. */
    bool due = ring->stopped ? ring->in_place && !ring->acquired : ring->returned && low;
    return ring->ended || ring->watch_error || due;
}

static int watch_node(struct gpud_capture_ring *ring, bool watch, uint32_t events)
{
    struct epoll_event event = {.events = events};
    if (watch == ring->node_watched && (!watch || events == ring->watched_events))
        return 0;
    int operation = !watch ? EPOLL_CTL_DEL : ring->node_watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(ring->watch_fd, operation, ring->node->fd, &event) < 0)
        return errno;
    ring->node_watched = watch;
    ring->watched_events = events;
    return 0;
}

/* poll() reports an error for a driver without a buffer, although nothing is wrong. While the
 * application holds all frames, only the errors count that poll() always reports. */
bool gpud_capture_ring_update_watch(struct gpud_capture_ring *ring)
{
    if (ring->watch_fd < 0)
        return true;
    gpud_lock_take(&ring->lock);
    bool watch = ring->streaming && !ring->ended && ring->queued;
    bool room = (uint32_t)__builtin_popcountll(ring->acquired) < ring->limit;
    gpud_lock_release(&ring->lock);

    /* Without that lock: the kernel asks the driver at once, which may wait. */
    int number = watch_node(ring, watch, room ? EPOLLIN | EPOLLPRI : 0);
    gpud_lock_take(&ring->lock);
    ring->watch_error = number;
    if (!ring->waiting)
        gpud_capture_ring_set_woken(ring, gpud_capture_ring_is_due(ring));
    gpud_lock_release(&ring->lock);
    return number == 0;
}

enum gpud_status gpud_capture_ring_watch(struct gpud_capture_ring *ring, int watch_fd,
                                         struct gpud_error *error)
{
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_ctl(watch_fd, EPOLL_CTL_ADD, ring->wake_fd, &event) < 0)
        return gpud_fail_errno(error, "%s cannot be watched for an event loop", ring->node->path);
    gpud_lock_take(&ring->driver_lock);
    gpud_lock_take(&ring->lock);
    ring->watch_fd = watch_fd;
    gpud_lock_release(&ring->lock);
    bool watched = gpud_capture_ring_update_watch(ring);
    int number = ring->watch_error;
    gpud_lock_release(&ring->driver_lock);
    if (watched)
        return GPUD_OK;
    gpud_capture_ring_unwatch(ring);
    errno = number;
    return gpud_fail_errno(error, "%s cannot be watched for an event loop", ring->node->path);
}

/* Explicitly, because an epoll keeps a descriptor as long as any process has the file open. */
void gpud_capture_ring_unwatch(struct gpud_capture_ring *ring)
{
    gpud_lock_take(&ring->driver_lock);
    if (ring->watch_fd >= 0) {
        watch_node(ring, false, 0);
        epoll_ctl(ring->watch_fd, EPOLL_CTL_DEL, ring->wake_fd, NULL);
        gpud_lock_take(&ring->lock);
        ring->watch_fd = -1;
        ring->watch_error = 0;
        gpud_lock_release(&ring->lock);
    }
    gpud_lock_release(&ring->driver_lock);
}

void gpud_capture_ring_end(struct gpud_capture_ring *ring)
{
    gpud_lock_take(&ring->driver_lock);
    gpud_lock_take(&ring->lock);
    ring->ended = true;
    gpud_lock_release(&ring->lock);
    gpud_capture_ring_update_watch(ring);
    gpud_lock_release(&ring->driver_lock);
}

/* === buffers ================================================================================= */
/* A ring's buffers: made by its method, mapped for the device that copies them, dropped. The ring
 * is also freed here, perhaps in the thread that releases the last frame. */

/* Frees the memory of one buffer. */
static void capture_buffer_drop(struct gpud_capture_buffer *buffer)
{
    for (uint32_t area = 0; area < GPUD_PLANES_MAX; area++)
        gpud_fd_close(&buffer->dmabuf[area]);
    gpud_memory_unref(&buffer->bounce);
    gpud_memory_unref(&buffer->memory);
}

static void drop_buffers(struct gpud_capture_ring *ring)
{
    for (uint32_t i = 0; i < ring->buffer_count; i++)
        capture_buffer_drop(&ring->buffers[i]);
    free(ring->buffers);
    ring->buffers = NULL;
    ring->buffer_count = 0;
}

/* Frees buffers that were never streamed into. */
/* The memory goes first: a driver may keep mapped buffers. */
static void capture_buffers_undo(struct gpud_capture_ring *ring)
{
    uint32_t none = 0;
    drop_buffers(ring);
    gpud_v4l2_request(ring->node, ring->method->memory, &none);
}

/* Creates ring->limit buffers and a few spare ones, by ring->method. On failure some may exist. */
static enum gpud_status capture_buffers_create(struct gpud_capture_ring *ring,
                                               struct gpud_error *error)
{
    uint32_t count = ring->limit + GPUD_CAPTURE_SPARE;
    if (gpud_v4l2_request(ring->node, ring->method->memory, &count) < 0)
        return errno == EBUSY
                   ? gpud_fail_native(error, GPUD_IO, "errno", EBUSY,
                                      "%s is in use by another program", ring->node->path)
                   : gpud_fail_errno(error, "the driver makes no buffers of this kind");
    if (count < 2 || count > GPUD_CAPTURE_BUFFERS_MAX)
        return gpud_fail(error, GPUD_IO, "the driver made %u buffers: 2 to %d can be used", count,
                         GPUD_CAPTURE_BUFFERS_MAX);
    ring->buffers = calloc(count, sizeof(*ring->buffers));
    if (!ring->buffers)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for %u buffers", count);
    ring->buffer_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_capture_buffer *buffer = &ring->buffers[i];
        buffer->ring = ring;
        buffer->raw.index = i;
        buffer->raw.memory = ring->method->memory;
        buffer->raw.planes = ring->placement.areas;
        for (uint32_t area = 0; area < GPUD_PLANES_MAX; area++)
            buffer->dmabuf[area] = -1;
    }
    return ring->method->setup(ring, error);
}

/* Maps a buffer's pages for the copying device. With a method of that kind, the CPU copies each
 * frame into pages that the device can read. */
static enum gpud_status show_to_device(struct gpud_capture_ring *ring,
                                       struct gpud_capture_buffer *buffer, struct gpud_error *error)
{
    struct gpud_memory *shown = buffer->memory;
    if (ring->method->by_cpu) {
        enum gpud_status status = gpud_memory_alloc_for(ring->host, ring->placement.layout.size,
                                                        GPUD_USAGE_LOCAL, &buffer->bounce, error);
        if (status != GPUD_OK)
            return status;
        shown = buffer->bounce;
    }
    enum gpud_status status = gpud_memory_view(shown, ring->device, &buffer->source, error);
    if (status == GPUD_OK && buffer->source->unpinned && !ring->method->by_cpu)
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s cannot register the driver's memory",
                         ring->device->info.name);
    return status;
}

/* For copied frames: makes each buffer accessible to the device that copies. */
static enum gpud_status capture_buffers_show(struct gpud_capture_ring *ring,
                                             struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < ring->buffer_count && status == GPUD_OK; i++)
        status = show_to_device(ring, &ring->buffers[i], error);
    return status;
}

static void buffers_destroy(struct gpud_capture_ring *ring)
{
    for (uint32_t i = 0; i < ring->frame_count; i++) {
        gpud_queue_unref(&ring->frames[i].queue);
        if (!ring->in_place)
            gpud_memory_unref(&ring->frames[i].memory);
    }
    free(ring->frames);
    drop_buffers(ring);
    gpud_fd_close(&ring->wake_fd);
    gpud_device_close(&ring->device);
    gpud_device_close(&ring->host);
    pthread_cond_destroy(&ring->complete);
    gpud_lock_destroy(&ring->lock);
    gpud_lock_destroy(&ring->driver_lock);
    free(ring);
}

void gpud_capture_ring_unref(struct gpud_capture_ring *ring)
{
    if (atomic_fetch_sub_explicit(&ring->references, 1, memory_order_acq_rel) == 1)
        buffers_destroy(ring);
}

/* === ring ==================================================================================== */
/* A ring's life with its driver: created by the first method that works, started, stopped. */

/* --- methods ------------------------------------------------------------------------------- */

static enum gpud_status try_method(struct gpud_capture_ring *ring,
                                   const struct gpud_capture_method *method, uint32_t capabilities,
                                   bool direct, struct gpud_error *error)
{
    if (capabilities && !(capabilities & method->capability))
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s", method->refusal);
    ring->method = method;
    ring->in_place = ring->device == ring->host || method->on_device;
    if (direct && !ring->in_place)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "each frame would be copied, and a direct path is required");
    enum gpud_status status = capture_buffers_create(ring, error);
    if (status == GPUD_OK && method->canary)
        status = gpud_capture_ring_set_canaries(ring, error);
    if (status == GPUD_OK && !ring->in_place)
        status = capture_buffers_show(ring, error);
    for (uint32_t i = 0; i < ring->buffer_count && status == GPUD_OK; i++)
        if (gpud_capture_ring_queue(ring, i) < 0)
            status = gpud_fail_errno(error, "the driver refuses the buffer");
    if (status != GPUD_OK) {
        capture_buffers_undo(ring);
        return status;
    }
    ring->proven = !method->canary;
    ring->queued = ring->buffer_count == 64 ? UINT64_MAX : (UINT64_C(1) << ring->buffer_count) - 1;
    return GPUD_OK;
}

/* Whether to try a method. */
static bool ring_is_wanted(const struct gpud_capture_ring *ring,
                           const struct gpud_capture_choice *choice,
                           const struct gpud_capture_method *method)
{
    bool host = ring->device == ring->host;
    if (choice->method)
        return strcmp(choice->method, method->name) == 0 && !(host && method->by_cpu);
    return !(host && (method->by_name || method->by_cpu));
}

static void ring_add_reason(char *reasons, size_t size, const char *method, const char *reason)
{
    size_t used = strlen(reasons);
    gpud_print_n(reasons + used, size - used, "%sv4l2-%s: %s", used ? "; " : "", method, reason);
}

static enum gpud_status try_methods(struct gpud_capture_ring *ring,
                                    const struct gpud_capture_choice *choice,
                                    struct gpud_error *error)
{
    uint32_t capabilities = gpud_v4l2_memories(ring->node);
    char reasons[sizeof(ring->fallback_reason)] = "";
    struct gpud_error why = {.status = GPUD_UNSUPPORTED};
    bool below = !choice->below;
    if (choice->below)
        gpud_print(reasons, "%s", choice->reason);
    for (size_t i = 0; gpud_capture_methods[i]; i++) {
        const struct gpud_capture_method *method = gpud_capture_methods[i];
        if (below && ring_is_wanted(ring, choice, method)) {
            if (try_method(ring, method, capabilities, choice->direct, &why) == GPUD_OK) {
                gpud_print(ring->fallback_reason, "%s", reasons);
                return GPUD_OK;
            }
            ring_add_reason(reasons, sizeof(reasons), method->name, why.reason);
        }
        below |= method == choice->below;
    }
    return gpud_fail_native(error, why.status, why.origin, why.native, "%s", reasons);
}

/* --- frames -------------------------------------------------------------------------------- */

/* In place the frames are the buffers; else slots, each with memory of its own. */
static enum gpud_status make_frames(struct gpud_capture_ring *ring, struct gpud_error *error)
{
    uint32_t count = ring->in_place ? ring->buffer_count : ring->limit;
    ring->frames = calloc(count, sizeof(*ring->frames));
    if (!ring->frames)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for %u frames", count);
    ring->frame_count = count;
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < count && status == GPUD_OK; i++) {
        struct gpud_frame *frame = &ring->frames[i];
        frame->ops = ring->in_place ? &gpud_capture_in_place_ops : &gpud_capture_copied_ops;
        frame->owner = ring;
        frame->slot = i;
        frame->memory = ring->in_place ? ring->buffers[i].memory : NULL;
        if (!frame->memory || !frame->memory->host) /* else the CPU needs no queue to map it */
            status = gpud_queue_create(ring->device, &frame->queue, error);
        if (status == GPUD_OK && !ring->in_place)
            status = gpud_memory_alloc_for(ring->device, ring->placement.layout.size,
                                           GPUD_USAGE_LOCAL, &frame->memory, error);
    }
    uint32_t most = count > GPUD_CAPTURE_SPARE ? count - GPUD_CAPTURE_SPARE : 1;
    if (ring->in_place && ring->limit > most)
        ring->limit = most;
    return status;
}

/* --- creating and stopping ----------------------------------------------------------------- */

enum gpud_status gpud_capture_ring_create(struct gpud_v4l2 *node, struct gpud_device *device,
                                          struct gpud_device *host,
                                          const struct gpud_placement *placement, uint32_t slots,
                                          const struct gpud_capture_choice *choice,
                                          struct gpud_capture_ring **ring, struct gpud_error *error)
{
    struct gpud_capture_ring *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a ring");
    atomic_init(&made->references, 1);
    made->log = &host->context->log;
    made->node = node;
    made->device = gpud_device_ref(device);
    made->host = gpud_device_ref(host);
    made->placement = *placement;
    made->limit = slots;
    made->watch_fd = -1;
    gpud_lock_init(&made->driver_lock, GPUD_RANK_CAPTURE_DRIVER);
    gpud_lock_init(&made->lock, GPUD_RANK_CAPTURE_RING);
    gpud_cond_init(&made->complete);

    enum gpud_status status = GPUD_OK;
    made->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made->wake_fd < 0)
        status = gpud_fail_errno(error, "cannot create an eventfd");
    if (status == GPUD_OK)
        status = try_methods(made, choice, error);
    if (status == GPUD_OK)
        status = make_frames(made, error);
    if (status != GPUD_OK) {
        if (made->buffer_count)
            capture_buffers_undo(made);
        gpud_capture_ring_unref(made);
        return status;
    }
    *ring = made;
    return GPUD_OK;
}

enum gpud_status gpud_capture_ring_start(struct gpud_capture_ring *ring, struct gpud_error *error)
{
    if (gpud_v4l2_stream(ring->node, true) < 0)
        return gpud_fail_errno(error, "the driver of %s does not start%s", ring->node->path,
                               errno == ENOSPC ? ": the bus has no bandwidth left" : "");
    ring->streaming = true;
    return GPUD_OK;
}

/* How many buffers devices still work on after a while. Their memory must stay. */
static uint32_t wait_for_devices(struct gpud_capture_ring *ring)
{
    int64_t until = gpud_deadline(GPUD_CAPTURE_STOP_TIMEOUT);
    gpud_lock_take(&ring->lock);
    ring->stopped = true; /* what is released from now on waits by itself */
    while (ring->pending && gpud_lock_wait_until(&ring->lock, &ring->complete, until))
        ;
    uint32_t stuck = ring->pending;
    gpud_lock_release(&ring->lock);
    return stuck;
}

enum gpud_status gpud_capture_ring_stop(struct gpud_capture_ring *ring, struct gpud_error *error)
{
    gpud_lock_take(&ring->driver_lock);
    ring->streaming = false;
    gpud_capture_ring_update_watch(ring);
    gpud_v4l2_stream(ring->node, false);
    gpud_lock_take(&ring->lock);
    ring->queued = 0;
    gpud_lock_release(&ring->lock);
    gpud_lock_release(&ring->driver_lock);

    uint32_t stuck = wait_for_devices(ring);
    if (stuck) {
        gpud_log_error(ring->log, "capture",
                       "%s does not finish with %u buffers: their memory is not freed",
                       ring->device->info.name, stuck);
        atomic_fetch_add(&ring->references, 1); /* leaked on purpose */
    }

    /* A driver may keep mapped buffers, so unused ones are unmapped first. */
    gpud_lock_take(&ring->lock);
    uint64_t in_use = stuck ? UINT64_MAX : ring->in_place ? ring->acquired : 0;
    gpud_lock_release(&ring->lock);
    for (uint32_t i = 0; i < ring->buffer_count; i++)
        if (!(in_use >> i & 1))
            capture_buffer_drop(&ring->buffers[i]);
    uint32_t none = 0;
    if (gpud_v4l2_request(ring->node, ring->method->memory, &none) < 0 && errno == EBUSY)
        return gpud_fail_native(
            error, GPUD_IO, "errno", EBUSY,
            "the driver of %s waits for the frames that are still held: release them first",
            ring->node->path);
    return GPUD_OK;
}

/* === publish ================================================================================= */
/* What gpud_capture_get_info() reports: the signal, the path and the format, as they become
 * known. */

void gpud_capture_publish_signal(struct gpud_capture *capture)
{
    const struct gpud_input *source = &capture->signal.now;
    gpud_lock_take(&capture->lock);
    bool was = capture->info.signal;
    capture->info.signal = source->present;
    gpud_print(capture->info.signal_reason, "%s", source->reason);
    capture->info.signal_width = source->width;
    capture->info.signal_height = source->height;
    gpud_print(capture->info.input, "%s", source->name);
    gpud_lock_release(&capture->lock);
    if (was && !source->present)
        gpud_log_warning(&capture->context->log, "capture", "%s", source->reason);
}

void gpud_capture_count_change(struct gpud_capture *capture)
{
    gpud_lock_take(&capture->lock);
    capture->info.signal_changes++;
    gpud_lock_release(&capture->lock);
}

void gpud_capture_publish_card_format(struct gpud_capture *capture)
{
    struct gpud_v4l2_format format;
    bool known = gpud_v4l2_get_format(&capture->node, &format) == 0;
    const char *name = known ? gpud_capture_name_format(&capture->node, format.fourcc) : NULL;
    gpud_lock_take(&capture->lock);
    gpud_print(capture->info.card_format, "%s", name ? name : "");
    gpud_lock_release(&capture->lock);
}

void gpud_capture_publish_card(struct gpud_capture *capture)
{
    gpud_lock_take(&capture->lock);
    struct gpud_capture_info *info = &capture->info;
    bool was = info->unplugged;
    info->unplugged = capture->state.card != GPUD_CARD_PRESENT;
    if (was && !info->unplugged) {
        info->returns++;
        gpud_print(info->driver, "%s", capture->node.driver);
        gpud_print(info->card, "%s", capture->node.card);
    }
    gpud_lock_release(&capture->lock);
}

/* How buffers will be stamped, as the driver says in those it has; 0: it does not say. */
static uint32_t stamp_flags(const struct gpud_capture_ring *ring)
{
    struct gpud_v4l2_buffer raw = ring->buffers[0].raw;
    return gpud_v4l2_query(ring->node, &raw) == 0 ? raw.flags : 0;
}

void gpud_capture_publish_path(struct gpud_capture *capture)
{
    const struct gpud_capture_ring *ring = capture->ring;
    gpud_lock_take(&capture->lock);
    if (ring->proven)
        gpud_print(capture->info.path, "v4l2-%s", ring->method->name);
    gpud_print(capture->info.fallback_reason, "%s", ring->fallback_reason);
    gpud_lock_release(&capture->lock);
    if (ring->proven)
        gpud_log_info(&capture->context->log, "capture", "%s: frames arrive by v4l2-%s",
                      capture->node.path, ring->method->name);
}

/* What the driver says about its pictures besides their layout. With the lock held. */
void gpud_capture_note_format(struct gpud_capture *capture, const struct gpud_v4l2_format *format,
                              const struct gpud_hdr_metadata *hdr, uint32_t fps_num,
                              uint32_t fps_den)
{
    struct gpud_picture *picture = &capture->info.media.picture;
    bool bottom_first =
        format->field == V4L2_FIELD_INTERLACED_BT ||
        (format->field != V4L2_FIELD_INTERLACED_TB && capture->signal.now.bottom_first);
    gpud_capture_read_colors(format, &picture->colorimetry);
    picture->hdr = *hdr;
    picture->rate = (struct gpud_fraction){fps_num, fps_den};
    picture->scan = gpud_scan_of_field(format->field);
    picture->field_order = picture->scan != GPUD_SCAN_INTERLEAVED ? GPUD_FIELD_ORDER_UNKNOWN
                           : bottom_first                         ? GPUD_FIELD_ORDER_BOTTOM_FIRST
                                                                  : GPUD_FIELD_ORDER_TOP_FIRST;
    gpud_input_aspect(&capture->signal.now, format, &picture->pixel_aspect.num,
                      &picture->pixel_aspect.den);
}

/* The driver's rate, else the signal's. */
void gpud_capture_read_rate(struct gpud_capture *capture, uint32_t *fps_num, uint32_t *fps_den)
{
    gpud_v4l2_rate(&capture->node, fps_num, fps_den);
    if (*fps_num)
        return;
    *fps_num = capture->signal.now.fps_num;
    *fps_den = capture->signal.now.fps_den;
}

void gpud_capture_set_duration(struct gpud_capture *capture, uint32_t fps_num, uint32_t fps_den)
{
    uint32_t fields = capture->stream.alternate ? 2 : 1;
    capture->stream.frame_duration =
        fps_num ? (uint64_t)fps_den * UINT64_C(1000000000) / fps_num / fields : GPUD_TIME_NONE;
}

bool gpud_capture_publish_format(struct gpud_capture *capture)
{
    struct gpud_v4l2_format format;
    struct gpud_hdr_metadata hdr;
    uint32_t fps_num = 0, fps_den = 1;
    if (gpud_v4l2_get_format(&capture->node, &format) < 0)
        return false;
    gpud_capture_read_hdr(&capture->node, &hdr);
    gpud_capture_read_rate(capture, &fps_num, &fps_den);
    gpud_capture_set_duration(capture, fps_num, fps_den);
    gpud_lock_take(&capture->lock);
    struct gpud_capture_info before = capture->info;
    gpud_capture_note_format(capture, &format, &hdr, fps_num, fps_den);
    bool changed = memcmp(&before, &capture->info, sizeof(before)) != 0;
    gpud_lock_release(&capture->lock);
    return changed;
}

void gpud_capture_publish(struct gpud_capture *capture, const struct gpud_v4l2_format *format,
                          uint32_t fps_num, uint32_t fps_den)
{
    const struct gpud_capture_ring *ring = capture->ring;
    uint32_t stamps = stamp_flags(ring);
    struct gpud_hdr_metadata hdr;
    gpud_capture_read_hdr(&capture->node, &hdr);
    gpud_lock_take(&capture->lock);
    struct gpud_capture_info *info = &capture->info;
    gpud_print(info->driver, "%s", capture->node.driver);
    gpud_print(info->card, "%s", capture->node.card);
    info->media.picture.layout = ring->placement.layout;
    gpud_print(info->card_format, "%s", info->media.picture.layout.format);
    info->monotonic = (stamps & V4L2_BUF_FLAG_TIMESTAMP_MASK) == V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC;
    info->started_ns = (uint64_t)capture->stream.began;
    info->stamps_start = (stamps & V4L2_BUF_FLAG_TSTAMP_SRC_MASK) == V4L2_BUF_FLAG_TSTAMP_SRC_SOE;
    gpud_capture_note_format(capture, format, &hdr, fps_num, fps_den);
    gpud_lock_release(&capture->lock);

    const struct gpud_log *log = &capture->context->log;
    gpud_log_info(log, "capture", "%s (%s): %s %ux%u by v4l2-%s, %u buffers", capture->node.path,
                  capture->node.card, ring->placement.layout.format, ring->placement.layout.width,
                  ring->placement.layout.height, ring->method->name, ring->buffer_count);
    if (ring->fallback_reason[0])
        gpud_log_warning(log, "capture", "%s: %s", capture->node.path, ring->fallback_reason);
    gpud_capture_publish_path(capture);
}

void gpud_capture_unpublish(struct gpud_capture *capture)
{
    gpud_lock_take(&capture->lock);
    struct gpud_capture_info *info = &capture->info;
    gpud_print(info->path, "none");
    info->fallback_reason[0] = '\0';
    info->media = (struct gpud_media){.picture.rate.den = 1};
    info->monotonic = info->stamps_start = false;
    gpud_lock_release(&capture->lock);
}
