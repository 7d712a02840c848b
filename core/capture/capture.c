/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The public object. */
#include "capture/internal.h"

#include "base/base.h"
#include "capture/capture.h"
#include "topology/topology.h"

#include <errno.h>
#include <linux/videodev2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* === stream ================================================================================== */
/* A capture's stream: started, with the card set to its signal and to what is wanted; continued by
 * another method; ended. */

enum gpud_status gpud_capture_drop_ring(struct gpud_capture *capture, bool must,
                                        struct gpud_error *error)
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

/* Whether a missing signal is why the driver does not start. */
static bool lacks_signal(struct gpud_capture *capture, long number)
{
    struct gpud_input *source = &capture->signal.now;
    if (number == ENODEV || number == ENXIO ||
        (source->present && number != ENOLINK && number != ENOLCK))
        return false;
    if (source->present)
        gpud_print(source->reason,
                   "%s does not start without a signal: is a source connected, and on?",
                   capture->node.path);
    source->present = false;
    gpud_capture_publish_signal(capture);
    return true;
}

/* Streams by the best allowed method. *refused: the driver did not start, for the reason in *error,
 * which *refused gets too. */
static enum gpud_status stream(struct gpud_capture *capture, const struct gpud_placement *placement,
                               const struct gpud_capture_choice *choice, bool *refused,
                               struct gpud_error *error)
{
    enum gpud_status status =
        gpud_capture_ring_create(&capture->node, capture->device, capture->host, placement,
                                 capture->slots, choice, &capture->ring, error);
    *refused = false;
    if (status != GPUD_OK)
        return status;
    capture->stream.began = gpud_now();
    status = gpud_capture_ring_start(capture->ring, error);
    *refused = status != GPUD_OK;
    if (status == GPUD_OK && capture->watch_fd >= 0)
        status = gpud_capture_ring_watch(capture->ring, capture->watch_fd, error);
    if (status != GPUD_OK)
        gpud_capture_drop_ring(capture, true, NULL);
    return status;
}

static struct gpud_capture_choice choice_of(const struct gpud_capture *capture)
{
    return (struct gpud_capture_choice){
        .method = capture->method[0] ? capture->method : NULL,
        .direct = capture->direct,
    };
}

/* Only the buffers change: the card stays set up. */
enum gpud_status gpud_capture_fall_back(struct gpud_capture *capture, const struct gpud_error *why,
                                        struct gpud_error *error)
{
    const struct gpud_capture_ring *ring = capture->ring;
    struct gpud_placement placement = ring->placement;
    struct gpud_capture_choice choice = choice_of(capture);
    struct gpud_v4l2_format format;
    char reasons[GPUD_REASON_MAX];
    gpud_print(reasons, "%s%sv4l2-%s: %s", ring->fallback_reason,
               ring->fallback_reason[0] ? "; " : "", ring->method->name, why->reason);
    choice.below = ring->method;
    choice.reason = reasons;
    struct gpud_fraction rate = capture->info.media.picture.rate;
    bool refused;

    gpud_capture_unpublish(capture);
    enum gpud_status status = gpud_capture_drop_ring(capture, false, error);
    if (status == GPUD_OK && gpud_v4l2_get_format(&capture->node, &format) < 0)
        status = gpud_fail_errno(error, "%s does not tell its format", capture->node.path);
    if (status == GPUD_OK)
        status = stream(capture, &placement, &choice, &refused, error);
    if (status != GPUD_OK)
        return status;
    capture->count.numbered = false;
    capture->count.discontinuity = true;
    capture->count.epoch++; /* the memory is new */
    gpud_capture_publish(capture, &format, rate.num, rate.den);
    return GPUD_OK;
}

/* The configuration stands: frames come when there is a signal. */
static enum gpud_status defer_start(struct gpud_capture *capture,
                                    const struct gpud_placement *placement,
                                    const struct gpud_v4l2_format *format, uint32_t fps_num,
                                    uint32_t fps_den, struct gpud_error *error)
{
    struct gpud_hdr_metadata hdr = {0};
    if (!gpud_capture_arm(capture, GPUD_CAPTURE_LOOK, GPUD_CAPTURE_LOOK))
        return gpud_fail_errno(error, "%s cannot be waited for", capture->node.path);
    gpud_capture_unpublish(capture);
    gpud_lock_take(&capture->lock);
    capture->info.media.picture.layout = placement->layout;
    gpud_capture_note_format(capture, format, &hdr, fps_num, fps_den);
    gpud_lock_release(&capture->lock);
    return GPUD_OK;
}

enum gpud_status gpud_capture_begin(struct gpud_capture *capture, bool *deferred,
                                    struct gpud_error *error)
{
    struct gpud_placement placement;
    struct gpud_v4l2_format format = {0};
    struct gpud_error why;
    uint32_t fps_num = capture->wanted.mode.fps_num, fps_den = capture->wanted.mode.fps_den;
    bool refused = false;
    gpud_capture_disarm(capture);
    gpud_input_set(&capture->node, &capture->signal.now);
    enum gpud_status status = gpud_capture_negotiate(capture, &format, &placement, &why);
    if (status == GPUD_OK) {
        gpud_capture_read_rate(capture, &fps_num, &fps_den);
        struct gpud_capture_choice choice = choice_of(capture);
        status = stream(capture, &placement, &choice, &refused, &why);
    }
    capture->stream.alternate = format.field == V4L2_FIELD_ALTERNATE;
    *deferred = refused && lacks_signal(capture, why.native);
    if (*deferred)
        return defer_start(capture, &placement, &format, fps_num, fps_den, error);
    if (status != GPUD_OK) {
        if (error)
            *error = why;
        return status;
    }
    gpud_capture_set_duration(capture, fps_num, fps_den);
    gpud_capture_publish(capture, &format, fps_num, fps_den);
    capture->stream.said_full = capture->stream.said_clock = capture->count.numbered = false;
    capture->count.discontinuity = capture->count.epoch > 0;
    capture->count.epoch++;
    return GPUD_OK;
}

/* === capture ================================================================================= */
/* The public object: creating, configuring, and ending a capture. */

#define SCHEME "v4l2://"
#define SLOTS_DEFAULT 4
#define SLOTS_MAX 30 /* drivers have 32 buffers */

/* --- create and destroy -------------------------------------------------------------------- */

static enum gpud_status capture_check_params(const struct gpud_capture_params *params,
                                             struct gpud_error *error)
{
    const char *address = params->address;
    if (!address || strncmp(address, SCHEME "/", sizeof(SCHEME "/") - 1) != 0)
        return gpud_fail(error, GPUD_INVALID,
                         "\"%s\" is not a capture address: write v4l2:///dev/video0",
                         address ? address : "");
    if (strlen(address) - strlen(SCHEME) >= sizeof(((struct gpud_v4l2 *)0)->path))
        return gpud_fail(error, GPUD_INVALID, "the capture address is too long");
    if (params->input && strlen(params->input) >= sizeof(((struct gpud_capture *)0)->wanted.input))
        return gpud_fail(error, GPUD_INVALID, "the input's name is too long: \"%.40s…\"",
                         params->input);
    enum gpud_status status = gpud_controls_check(params->controls, params->control_count, error);
    if (status != GPUD_OK)
        return status;
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

static enum gpud_status capture_read_params(struct gpud_capture_params *own,
                                            const struct gpud_capture_params *params,
                                            struct gpud_error *error)
{
    enum gpud_status status =
        gpud_sized_read(own, sizeof(*own), params, GPUD_END_OF(struct gpud_capture_params, address),
                        "gpud_capture_params", error);
    return status == GPUD_OK ? capture_check_params(own, error) : status;
}

enum gpud_status gpud_capture_open(struct gpud_device *device, struct gpud_device *host,
                                   const struct gpud_capture_params *params,
                                   const struct gpud_v4l2_system *system,
                                   struct gpud_capture **capture, struct gpud_error *error)
{
    struct gpud_capture_params own;
    enum gpud_status status = capture_read_params(&own, params, error);
    if (status != GPUD_OK)
        return status;
    params = &own;
    struct gpud_capture *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a capture");
    gpud_lock_init(&made->lock, GPUD_RANK_CAPTURE_INFO);
    gpud_lock_init(&made->node_lock, GPUD_RANK_CAPTURE_NODE);
    gpud_lock_init(&made->interrupt.lock, GPUD_RANK_CAPTURE_INTERRUPT);
    made->context = host->context;
    made->device = gpud_device_ref(device);
    made->host = gpud_device_ref(host);
    made->slots = params->slots ? params->slots : SLOTS_DEFAULT;
    made->direct = params->require_direct;
    gpud_print(made->method, "%s", params->method ? params->method : "");
    gpud_print(made->info.path, "none");
    made->info.media.picture.rate.den = 1;
    made->node.system = system;
    made->node.fd = -1;
    gpud_print(made->node.path, "%s", params->address + strlen(SCHEME));
    gpud_print(made->card.home, "%s", made->node.path);
    gpud_print(made->wanted.input, "%s", params->input ? params->input : "");

    made->watch_fd = made->card.nodes_fd = made->timer_fd = made->wanted.next_input = -1;
    made->interrupt.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made->interrupt.fd < 0)
        status = gpud_fail_errno(error, "cannot create an eventfd");
    if (!gpud_controls_keep(&made->wanted.controls, params->controls, params->control_count))
        status = gpud_fail(error, GPUD_NO_MEMORY, "out of memory for controls");
    if (status == GPUD_OK)
        status = gpud_v4l2_open(&made->node, error);
    if (status == GPUD_OK)
        status = gpud_capture_set_up(made, error);
    if (status != GPUD_OK) {
        gpud_capture_destroy(&made);
        return status;
    }
    made->card.known = made->node;
    gpud_print(made->info.device, "%s", device->info.name);
    gpud_input_set(&made->node, &made->signal.now);
    gpud_print(made->info.driver, "%s", made->node.driver);
    gpud_print(made->info.card, "%s", made->node.card);
    *capture = made;
    return GPUD_OK;
}

enum gpud_status gpud_capture_create(struct gpud_context *context,
                                     const struct gpud_capture_params *params,
                                     struct gpud_capture **capture, struct gpud_error *error)
{
    struct gpud_capture_params own;
    struct gpud_device *device = NULL, *host = NULL;
    enum gpud_status status = capture_read_params(&own, params, error);
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

void gpud_capture_destroy(struct gpud_capture **capture)
{
    if (!capture || !*capture)
        return;
    struct gpud_capture *gone = *capture;
    *capture = NULL;
    gpud_capture_drop_ring(gone, true, NULL);
    gpud_v4l2_close(&gone->node);
    gpud_capture_unwatch_folders(gone);
    gpud_capture_disarm(gone);
    gpud_controls_clear(&gone->wanted.controls);
    gpud_fd_close(&gone->watch_fd);
    gpud_fd_close(&gone->interrupt.fd);
    gpud_device_close(&gone->device);
    gpud_device_close(&gone->host);
    gpud_lock_destroy(&gone->interrupt.lock);
    gpud_lock_destroy(&gone->node_lock);
    gpud_lock_destroy(&gone->lock);
    free(gone);
}

/* --- from any thread ----------------------------------------------------------------------- */

void gpud_capture_get_info(struct gpud_capture *capture, struct gpud_capture_info *info)
{
    gpud_lock_take(&capture->lock);
    gpud_sized_copy(info, info->size, &capture->info, sizeof(capture->info));
    gpud_lock_release(&capture->lock);
}

void gpud_capture_interrupt(struct gpud_capture *capture, bool interrupted)
{
    /* Set before the eventfd is written, cleared after it is drained: when it is readable, it is
     * set. */
    uint64_t count = 1;
    ssize_t done = 0;
    gpud_lock_take(&capture->interrupt.lock);
    if (interrupted && !atomic_exchange(&capture->interrupt.set, true))
        done = write(capture->interrupt.fd, &count, sizeof(count));
    else if (!interrupted && atomic_load(&capture->interrupt.set))
        done = read(capture->interrupt.fd, &count, sizeof(count));
    atomic_store(&capture->interrupt.set, interrupted);
    gpud_lock_release(&capture->interrupt.lock);
    (void)done; /* cannot fail: an eventfd of 0 takes 1, and one of 1 returns it */
}

/* === configure =============================================================================== */
/* The calls that set up a card: its mode, its input and its controls. */

void gpud_capture_stop(struct gpud_capture *capture)
{
    gpud_capture_report(capture, GPUD_CAPTURE_ON_STOP, NULL, NULL);
    capture->wanted.mode.format[0] = '\0';
}

static enum gpud_status check_mode(const struct gpud_capture_mode *mode, struct gpud_error *error)
{
    uint32_t width = mode->width_min, height = mode->height_min;
    bool own = width == 0 && height == 0;
    if (!memchr(mode->format, '\0', sizeof(mode->format)) || !mode->format[0] ||
        (!own && (width < 1 || height < 1)) || width > GPUD_DIMENSION_MAX ||
        height > GPUD_DIMENSION_MAX)
        return gpud_fail(error, GPUD_INVALID,
                         "a capture of %.*s %ux%u: a format and 1x1 to %dx%d are needed",
                         (int)sizeof(mode->format), mode->format[0] ? mode->format : "(no format)",
                         width, height, GPUD_DIMENSION_MAX, GPUD_DIMENSION_MAX);
    if (mode->fps_den < 1)
        return gpud_fail(error, GPUD_INVALID, "a rate of %u/%u frames a second", mode->fps_num,
                         mode->fps_den);
    if ((unsigned)mode->scan > GPUD_SCAN_ALTERNATE)
        return gpud_fail(error, GPUD_INVALID, "%u is not a way to scan", (unsigned)mode->scan);
    return GPUD_OK;
}

static enum gpud_status set_mode(struct gpud_capture *capture, const struct gpud_capture_mode *mode,
                                 struct gpud_error *error)
{
    struct gpud_capture_mode wanted;
    enum gpud_status status =
        gpud_sized_read(&wanted, sizeof(wanted), mode,
                        GPUD_END_OF(struct gpud_capture_mode, fps_den), "gpud_capture_mode", error);
    if (status == GPUD_OK)
        status = check_mode(&wanted, error);
    if (status == GPUD_OK)
        status = gpud_capture_report(capture, GPUD_CAPTURE_ON_CONFIGURE, NULL, error);
    if (status != GPUD_OK)
        return status;
    gpud_input_detect(&capture->node, &capture->signal.now);
    gpud_capture_publish_signal(capture);
    const struct gpud_input *source = &capture->signal.now;
    /* A caller that asks for the signal's size also follows later changes of it. */
    if (wanted.width_min == source->width && wanted.height_min == source->height)
        wanted.width_min = wanted.height_min = 0;
    capture->wanted.mode = wanted;
    capture->wanted.fourcc = 0;
    capture->wanted.scales = wanted.width_min && source->width;
    capture->wanted.interlaced = source->interlaced;
    return gpud_capture_report(capture, GPUD_CAPTURE_ON_START, NULL, error);
}

static enum gpud_status set_input(struct gpud_capture *capture, const char *input,
                                  struct gpud_error *error)
{
    int number, now = -1;
    if (strlen(input) >= sizeof(capture->wanted.input))
        return gpud_fail(error, GPUD_INVALID,
                         "\"%.31s…\" is too long for an input's number or name", input);
    if (capture->state.card != GPUD_CARD_PRESENT)
        return gpud_fail(error, GPUD_NO_DEVICE, "%s is unplugged", capture->card.home);
    enum gpud_status status = gpud_input_find(&capture->node, input, &number, error);
    if (status != GPUD_OK)
        return status;
    capture->wanted.next_input = -1; /* one asked for before, while frames were held */
    if (gpud_v4l2_call(&capture->node, VIDIOC_G_INPUT, &now) < 0 || now != number) {
        capture->wanted.next_input = number;
        capture->wanted.input_refused.status = GPUD_OK;
        status = gpud_capture_report(capture, GPUD_CAPTURE_ON_INPUT, NULL, error);
        if (status == GPUD_OK && capture->wanted.input_refused.status != GPUD_OK) {
            status = capture->wanted.input_refused.status;
            if (error)
                *error = capture->wanted.input_refused;
        }
    }
    if (status == GPUD_OK)
        gpud_print(capture->wanted.input, "%s", input);
    return status;
}

static enum gpud_status set_controls(struct gpud_capture *capture,
                                     const struct gpud_capture_control *controls, uint32_t count,
                                     struct gpud_error *error)
{
    enum gpud_status status = gpud_controls_check(controls, count, error);
    if (status != GPUD_OK)
        return status;
    gpud_lock_take(&capture->node_lock);
    if (capture->node.fd < 0)
        status = gpud_fail(error, GPUD_NO_DEVICE, "%s is unplugged", capture->card.home);
    else
        status = gpud_controls_set(&capture->node, controls, count, error);
    if (status == GPUD_OK && !gpud_controls_keep(&capture->wanted.controls, controls, count))
        status = gpud_fail(error, GPUD_NO_MEMORY, "no room for more controls");
    gpud_lock_release(&capture->node_lock);
    return status;
}

enum gpud_status gpud_capture_configure(struct gpud_capture *capture,
                                        const struct gpud_capture_config *config,
                                        struct gpud_error *error)
{
    struct gpud_capture_config own;
    enum gpud_status status =
        gpud_sized_read(&own, sizeof(own), config, GPUD_END_OF(struct gpud_capture_config, mode),
                        "gpud_capture_config", error);
    if (status != GPUD_OK)
        return status;
    if (!own.input && !own.controls && !own.mode)
        return gpud_fail(error, GPUD_INVALID, "an input, controls or a mode are needed");
    if (own.input)
        status = set_input(capture, own.input, error);
    if (status == GPUD_OK && own.controls)
        status = set_controls(capture, own.controls, own.control_count, error);
    if (status == GPUD_OK && own.mode)
        status = set_mode(capture, own.mode, error);
    return status;
}

/* === wait ==================================================================================== */
/* Waits for a card that was unplugged. */

/* Whether a node appeared, or it is time to try again; clears both. */
static bool wait_is_due(struct gpud_capture *capture)
{
    char events[4096];
    bool due = gpud_capture_is_time(capture);
    while (capture->card.nodes_fd >= 0 && read(capture->card.nodes_fd, events, sizeof(events)) > 0)
        due = true;
    return due;
}

static void sleep_until_due(const struct gpud_capture *capture, int64_t deadline)
{
    struct pollfd fds[] = {
        {.fd = capture->card.nodes_fd, .events = POLLIN},
        {.fd = capture->timer_fd, .events = POLLIN},
        {.fd = capture->interrupt.fd, .events = POLLIN},
    };
    struct timespec left = gpud_time_left(deadline);
    ppoll(fds, 3, &left, NULL);
}

enum gpud_status gpud_capture_wait(struct gpud_capture *capture, int64_t timeout_ns,
                                   struct gpud_error *error)
{
    int64_t deadline = gpud_deadline(timeout_ns);
    if (timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
    gpud_capture_report(capture, GPUD_CAPTURE_ON_WAIT, NULL,
                        NULL); /* notices that it is unplugged */
    while (capture->state.card != GPUD_CARD_PRESENT) {
        enum gpud_status status = gpud_capture_report(capture, GPUD_CAPTURE_ON_WAIT, NULL, error);
        if (status != GPUD_OK)
            return status;
        if (atomic_load(&capture->interrupt.set))
            return gpud_fail(error, GPUD_AGAIN, "the capture was interrupted");
        if (wait_is_due(capture))
            status =
                gpud_capture_report(capture, GPUD_CAPTURE_ON_DUE, NULL, &capture->card.absence);
        if (capture->state.card == GPUD_CARD_PRESENT) {
            if (status != GPUD_OK && error)
                *error = capture->card.absence;
            return status;
        }
        if (gpud_now() >= deadline)
            return gpud_fail(error, GPUD_TIMEOUT, "%s", capture->card.absence.reason);
        sleep_until_due(capture, deadline);
    }
    return GPUD_OK;
}

/* === feed ==================================================================================== */
/* Moves buffers between a ring and its driver, and decides what to wait for. */

/* With lock held: a buffer was returned. by_device: only the waiting thread can queue it, which can
 * wait for the next frame while the driver has enough buffers, so that most waits for a frame are
 * not woken for every returned one. */
static void capture_ring_wake(struct gpud_capture_ring *ring, bool by_device)
{
    uint32_t queued = (uint32_t)__builtin_popcountll(ring->queued);
    bool low = queued < GPUD_CAPTURE_SPARE || 2 * queued < ring->buffer_count;
    if ((ring->waiting && (ring->blind || (by_device && low))) || gpud_capture_ring_is_due(ring))
        gpud_capture_ring_set_woken(ring, true);
}

static struct gpud_capture_wait capture_ring_wait_begin(struct gpud_capture_ring *ring)
{
    gpud_lock_take(&ring->lock);
    struct gpud_capture_wait wait = {
        .fed = ring->queued,
        .back = ring->to_queue,
        .out = ring->acquired || ring->pending,
    };
    ring->waiting = true;
    ring->blind = !wait.fed;
    gpud_capture_ring_set_woken(ring, false);
    gpud_lock_release(&ring->lock);
    return wait;
}

static void capture_ring_wait_end(struct gpud_capture_ring *ring)
{
    gpud_lock_take(&ring->lock);
    ring->waiting = false;
    gpud_capture_ring_set_woken(ring, gpud_capture_ring_is_due(ring));
    bool watched = ring->watch_fd >= 0;
    gpud_lock_release(&ring->lock);
    if (!watched)
        return;
    gpud_lock_take(&ring->driver_lock);
    gpud_capture_ring_update_watch(ring);
    gpud_lock_release(&ring->driver_lock);
}

/* With the lock held. */
static bool feed_has_room(const struct gpud_capture_ring *ring)
{
    return (uint32_t)__builtin_popcountll(ring->acquired) < ring->limit;
}

/* Whether another frame can be acquired; the answer stays true until one is. */
static bool capture_ring_has_room(struct gpud_capture_ring *ring)
{
    gpud_lock_take(&ring->lock);
    bool room = feed_has_room(ring);
    gpud_lock_release(&ring->lock);
    return room;
}

/* Records a dequeued buffer. False: the driver did not have it. *room: as has_room(). */
static bool capture_ring_dequeued(struct gpud_capture_ring *ring, uint32_t index, bool *room)
{
    gpud_lock_take(&ring->lock);
    bool right = index < ring->buffer_count && ring->queued >> index & 1;
    if (right)
        ring->queued &= ~gpud_capture_bit(index);
    *room = feed_has_room(ring);
    gpud_lock_release(&ring->lock);
    return right;
}

/* Gives a dequeued buffer back unseen. */
static void capture_ring_drop(struct gpud_capture_ring *ring, uint32_t index)
{
    gpud_lock_take(&ring->lock);
    ring->to_queue |= gpud_capture_bit(index);
    gpud_lock_release(&ring->lock);
}

/* --- returned buffers ---------------------------------------------------------------------- */

int gpud_capture_ring_queue(struct gpud_capture_ring *ring, uint32_t index)
{
    return gpud_v4l2_queue(ring->node, &ring->buffers[index].raw);
}

/* Whether capture_ring_requeue() has a buffer to queue, or an event loop's epoll to update. If
 * not, a thread need not wait for another that is in a call to the driver. */
static bool capture_ring_has_back(struct gpud_capture_ring *ring)
{
    gpud_lock_take(&ring->lock);
    bool back = ring->to_queue || ring->watch_fd >= 0;
    gpud_lock_release(&ring->lock);
    return back;
}

/* The driver refused these. True: it has no buffer, and none can come back. */
static bool feed_take_back(struct gpud_capture_ring *ring, uint64_t refused)
{
    gpud_lock_take(&ring->lock);
    ring->queued &= ~refused;
    ring->to_queue |= refused; /* tried again with the next one */
    bool starved = !ring->queued && !ring->pending && !(ring->in_place && ring->acquired);
    ring->returned |= starved; /* the next acquire says so */
    gpud_lock_release(&ring->lock);
    return starved;
}

/* Queues returned buffers. GPUD_IO: the driver accepts none and has none. */
static enum gpud_status capture_ring_requeue(struct gpud_capture_ring *ring,
                                             struct gpud_error *error)
{
    gpud_lock_take(&ring->driver_lock);
    if (!ring->streaming) {
        gpud_lock_release(&ring->driver_lock);
        return GPUD_OK;
    }
    gpud_lock_take(&ring->lock);
    uint64_t back = ring->to_queue;
    ring->to_queue = 0;
    ring->returned = false;
    ring->queued |=
        back; /* before the call: another thread may dequeue it before this one goes on */
    gpud_lock_release(&ring->lock);

    uint64_t refused = 0;
    int number = 0;
    for (uint64_t left = back; left; left &= left - 1) {
        uint32_t index = (uint32_t)__builtin_ctzll(left);
        if (gpud_capture_ring_queue(ring, index) < 0) {
            refused |= gpud_capture_bit(index);
            number = errno;
        }
    }

    bool starved = refused && feed_take_back(ring, refused);
    enum gpud_status status = GPUD_OK;
    bool watched = gpud_capture_ring_update_watch(ring);
    errno = watched ? number : ring->watch_error;
    if (!watched)
        status = gpud_fail_errno(error, "%s cannot be watched for an event loop", ring->node->path);
    else if (starved)
        status = gpud_fail_errno(error, "the driver of %s takes none of its buffers back",
                                 ring->node->path);
    else if (refused)
        gpud_log_debug(ring->log, "capture", "%s refused a buffer (%s): it is offered again",
                       ring->node->path, strerror(number));
    gpud_lock_release(&ring->driver_lock); /* the node may be gone after this */
    return status;
}

/* === frames ================================================================================== */
/* Turns a dequeued buffer into a frame, in place or by a copy of the device into a slot; and takes
 * frames back. Nothing here allocates. */

/* --- both ---------------------------------------------------------------------------------- */

static struct gpud_frame *acquire_slot(struct gpud_capture_ring *ring, uint32_t slot)
{
    struct gpud_frame *frame = &ring->frames[slot];
    gpud_lock_take(&ring->lock);
    ring->acquired |= gpud_capture_bit(slot);
    gpud_lock_release(&ring->lock);
    atomic_fetch_add_explicit(&ring->references, 1, memory_order_relaxed);
    frame->access = 0;
    return frame;
}

/* The device has finished with a buffer. Runs in a thread of the device's driver, so it must not
 * call the capture driver: the next acquiring or releasing thread queues the buffer. */
static void frames_on_complete(void *arg, enum gpud_status status)
{
    struct gpud_capture_buffer *buffer = arg;
    struct gpud_capture_ring *ring = buffer->ring;
    gpud_lock_take(&ring->lock);
    ring->pending--;
    ring->to_queue |= gpud_capture_bit(buffer->raw.index);
    ring->failed |= status != GPUD_OK;
    ring->returned = true;
    capture_ring_wake(ring, true);
    pthread_cond_signal(&ring->complete);
    gpud_lock_release(&ring->lock);
}

/* --- in place ------------------------------------------------------------------------------ */

static struct gpud_capture_buffer *buffer_of(const struct gpud_frame *frame)
{
    struct gpud_capture_ring *ring = frame->owner;
    return &ring->buffers[frame->slot];
}

static struct gpud_frame *acquire_in_place(struct gpud_capture_ring *ring, uint32_t index)
{
    ring->buffers[index].posted = false;
    return acquire_slot(ring, index);
}

/* Whether queues have been given work on the buffer since it was acquired. All of it comes before
 * everything on the frame's own queue. */
static bool is_used(const struct gpud_frame *frame)
{
    return frame->queue && (buffer_of(frame)->posted || frame->access);
}

static enum gpud_status wait_in_place(struct gpud_frame *frame, struct gpud_queue *queue,
                                      struct gpud_error *error)
{
    return is_used(frame) ? gpud_frame_join_wait(frame, queue, error) : GPUD_OK;
}

static enum gpud_status post_in_place(struct gpud_frame *frame, struct gpud_queue *queue,
                                      struct gpud_error *error)
{
    enum gpud_status status = gpud_frame_join_post(frame, queue, error);
    if (status == GPUD_OK)
        buffer_of(frame)->posted = true;
    return status;
}

/* Returns the buffer to the driver when the queue has finished with it. */
static void queue_when_complete(struct gpud_capture_ring *ring, struct gpud_frame *frame)
{
    struct gpud_capture_buffer *buffer = buffer_of(frame);
    struct gpud_error why;
    if (gpud_queue_on_complete(frame->queue, frames_on_complete, buffer, &why) != GPUD_OK) {
        /* A buffer whose work never ends does not come back. */
        if (gpud_queue_finish(frame->queue, gpud_deadline(GPUD_SEC), &why) == GPUD_OK)
            frames_on_complete(buffer, GPUD_OK);
        else
            gpud_log_error(ring->log, "capture", "a buffer of the driver's is lost: %s",
                           why.reason);
    }
    gpud_queue_flush(frame->queue, NULL);
}

/* After the stop the driver fills no buffer, and no other thread waits for the queue. */
static void finish_after_stop(struct gpud_capture_ring *ring, struct gpud_frame *frame)
{
    struct gpud_error why;
    if (gpud_queue_finish(frame->queue, gpud_deadline(GPUD_CAPTURE_STOP_TIMEOUT), &why) == GPUD_OK)
        return;
    gpud_log_error(ring->log, "capture", "work on a frame never ends: its memory is not freed: %s",
                   why.reason);
    atomic_fetch_add(&ring->references, 1); /* leaked on purpose */
}

static void release_in_place(struct gpud_frame *frame)
{
    struct gpud_capture_ring *ring = frame->owner;
    bool used = is_used(frame);
    gpud_lock_take(&ring->lock);
    bool pending = used && !ring->stopped;
    ring->acquired &= ~gpud_capture_bit(frame->slot);
    if (pending)
        ring->pending++;
    else
        ring->to_queue |= gpud_capture_bit(frame->slot);
    capture_ring_wake(ring, false);
    gpud_lock_release(&ring->lock);
    if (pending)
        queue_when_complete(ring, frame);
    else if (used)
        finish_after_stop(ring, frame);
    /* Now rather than at the next acquire: until then the driver might run out of buffers. */
    if (!pending || capture_ring_has_back(ring))
        capture_ring_requeue(ring, NULL);
    gpud_capture_ring_unref(ring);
}

/* The driver has written the bytes before it returns the buffer, so neither the CPU nor a queue
 * waits for them; only for later work of the application's queues or maps. */
const struct gpud_frame_owner_ops gpud_capture_in_place_ops = {
    .release = release_in_place,
    .wait = wait_in_place,
    .wait_host = gpud_frame_wait_host_complete,
    .post = post_in_place,
    .is_poisoned = gpud_frame_is_never_poisoned,
};

/* --- copied -------------------------------------------------------------------------------- */

static enum gpud_status frames_enqueue(const struct gpud_capture_buffer *buffer,
                                       const struct gpud_v4l2_buffer *dequeued,
                                       const struct gpud_frame *slot, struct gpud_error *error)
{
    const struct gpud_placement *placement = &buffer->ring->placement;
    struct gpud_queue *queue = slot->queue;
    struct gpud_memory *to = slot->memory;
    bool shifted = false;
    for (uint32_t i = 0; i < placement->areas; i++)
        shifted |= dequeued->plane[i].data_offset != 0;
    if (!shifted)
        return gpud_queue_copy(queue,
                               &(struct gpud_copy){
                                   .to = to,
                                   .from = buffer->source,
                                   .row_bytes = placement->layout.size,
                                   .rows = 1,
                               },
                               error);
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < placement->layout.planes && status == GPUD_OK; i++) {
        const struct gpud_plane *plane = &placement->layout.plane[i];
        status = gpud_queue_copy(
            queue,
            &(struct gpud_copy){
                .to = to,
                .from = buffer->source,
                .to_offset = plane->offset,
                .from_offset = plane->offset + dequeued->plane[placement->area_of[i]].data_offset,
                .to_stride = plane->stride,
                .from_stride = plane->stride,
                .row_bytes = plane->row_bytes,
                .rows = plane->rows,
            },
            error);
    }
    return status;
}

static enum gpud_status acquire_copied(struct gpud_capture_ring *ring,
                                       const struct gpud_v4l2_buffer *dequeued,
                                       struct gpud_frame **frame, struct gpud_error *error)
{
    struct gpud_capture_buffer *buffer = &ring->buffers[dequeued->index];
    gpud_lock_take(&ring->lock);
    uint32_t slot = (uint32_t)__builtin_ctzll(~ring->acquired);
    bool failed = ring->failed;
    ring->pending++;
    gpud_lock_release(&ring->lock);

    enum gpud_status status =
        failed ? gpud_fail(error, GPUD_IO, "a copy on %s failed: start the capture again",
                           ring->device->info.name)
               : GPUD_OK;
    if (status == GPUD_OK) {
        if (buffer->bounce)
            memcpy(buffer->bounce->host, buffer->memory->host, ring->placement.layout.size);
        status = frames_enqueue(buffer, dequeued, &ring->frames[slot], error);
    }
    if (status == GPUD_OK)
        status =
            gpud_queue_on_complete(ring->frames[slot].queue, frames_on_complete, buffer, error);
    if (status != GPUD_OK) {
        /* Enqueued work may still read the buffer; if it never ends, the buffer does not come
         * back. */
        if (gpud_queue_finish(ring->frames[slot].queue, gpud_deadline(GPUD_SEC), NULL) == GPUD_OK)
            frames_on_complete(buffer, status);
        return status;
    }
    *frame = acquire_slot(ring, slot);
    status = gpud_queue_flush((*frame)->queue, error);
    if (status != GPUD_OK)
        gpud_frame_release(frame); /* on_complete() returns the buffer */
    return status;
}

static void release_copied(struct gpud_frame *frame)
{
    struct gpud_capture_ring *ring = frame->owner;
    gpud_lock_take(&ring->lock);
    ring->acquired &= ~gpud_capture_bit(
        frame->slot); /* the queue's work on the slot comes before the next copy */
    capture_ring_wake(ring, false);
    gpud_lock_release(&ring->lock);
    if (capture_ring_has_back(ring))
        capture_ring_requeue(ring, NULL);
    gpud_capture_ring_unref(ring);
}

const struct gpud_frame_owner_ops gpud_capture_copied_ops = {
    .release = release_copied,
    .wait = gpud_frame_join_wait,
    .wait_host = gpud_frame_wait_host_complete, /* after everything on the frame's queue */
    .post = gpud_frame_join_post,
    .is_poisoned = gpud_frame_is_never_poisoned,
};

/* The frame of a dequeued buffer, the caller's; info is not filled. data_offset: where the
 * driver says that each area's picture begins. On failure the buffer comes back by itself. */
static enum gpud_status capture_ring_acquire(struct gpud_capture_ring *ring,
                                             const struct gpud_v4l2_buffer *dequeued,
                                             struct gpud_frame **frame, struct gpud_error *error)
{
    if (!ring->in_place)
        return acquire_copied(ring, dequeued, frame, error);
    *frame = acquire_in_place(ring, dequeued->index);
    return GPUD_OK;
}

/* === canary ================================================================================== */
/* The canary: a driver may accept a buffer's memory and write elsewhere without an error (AMD's
 * exporter moves its memory when a device attaches). Each buffer gets a pattern before its first
 * capture; a frame that still has all of it was never written. */

#define SPOT 16 /* bytes */
#define ROWS 5  /* that start with a spot, from the first row to the last */
#define SPOTS (ROWS * GPUD_PLANES_MAX)

/* The time for the copy engine to fetch a few bytes. */
#define LOOK_TIMEOUT (2 * GPUD_SEC)

static void paint(unsigned char *spot, uint32_t number)
{
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15) * (number + 1);
    for (uint32_t i = 0; i < SPOT; i++) {
        state ^= state >> 29;
        state *= UINT64_C(0xbf58476d1ce4e5b9);
        spot[i] = (unsigned char)(state >> 40);
    }
}

/* The offset of a spot, and its bytes; 0: the picture is too small for it. */
static uint32_t place(const struct gpud_layout *layout, uint32_t number, uint64_t *offset)
{
    const struct gpud_plane *plane = &layout->plane[number / ROWS];
    uint32_t row = number % ROWS;
    if (number / ROWS >= layout->planes || plane->rows < ROWS)
        return 0;
    *offset = plane->offset + (uint64_t)plane->stride * (row * (plane->rows - 1) / (ROWS - 1));
    return plane->row_bytes < SPOT ? (uint32_t)plane->row_bytes : SPOT;
}

static enum gpud_status canary_map(struct gpud_memory *memory, struct gpud_queue *queue,
                                   uint64_t offset, uint32_t size, unsigned access, void **data,
                                   struct gpud_error *error)
{
    if (!memory->host)
        return gpud_queue_map(queue, memory, offset, size, access, gpud_deadline(LOOK_TIMEOUT),
                              data, error);
    *data = (char *)memory->host + offset;
    return gpud_memory_begin_access(memory, access, error);
}

static enum gpud_status canary_unmap(struct gpud_memory *memory, struct gpud_queue *queue,
                                     void *data, unsigned access, struct gpud_error *error)
{
    if (!memory->host)
        return gpud_queue_unmap(queue, memory, data, error);
    gpud_memory_end_access(memory, access);
    return GPUD_OK;
}

static enum gpud_status canary_set(const struct gpud_capture_ring *ring, struct gpud_memory *memory,
                                   struct gpud_queue *queue, struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    for (uint32_t number = 0; number < SPOTS && status == GPUD_OK; number++) {
        uint64_t offset;
        unsigned char spot[SPOT];
        void *data;
        uint32_t size = place(&ring->placement.layout, number, &offset);
        if (!size)
            continue;
        paint(spot, number);
        status = canary_map(memory, queue, offset, size, GPUD_WRITE, &data, error);
        if (status != GPUD_OK)
            return status;
        memcpy(data, spot, size);
        status = canary_unmap(memory, queue, data, GPUD_WRITE, error);
    }
    if (status == GPUD_OK && queue)
        status = gpud_queue_finish(queue, gpud_deadline(LOOK_TIMEOUT), error);
    return status;
}

enum gpud_status gpud_capture_ring_set_canaries(struct gpud_capture_ring *ring,
                                                struct gpud_error *error)
{
    struct gpud_queue *queue = NULL;
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < ring->buffer_count && status == GPUD_OK; i++) {
        struct gpud_memory *memory = ring->buffers[i].memory;
        if (!queue && !memory->host)
            status = gpud_queue_create(memory->device, &queue, error);
        if (status == GPUD_OK)
            status = canary_set(ring, memory, queue, error);
        ring->unproven |= UINT64_C(1) << i;
    }
    gpud_queue_unref(&queue);
    return status;
}

/* Checks that a complete frame really arrived in its buffer, if that is not proven yet. */
static enum gpud_status capture_ring_prove(struct gpud_capture_ring *ring, uint32_t index,
                                           struct gpud_error *error)
{
    struct gpud_memory *memory = ring->buffers[index].memory;
    struct gpud_queue *queue = ring->frames[index].queue;
    bool looked = false, written = false;
    for (uint32_t number = 0; number < SPOTS && !written; number++) {
        uint64_t offset;
        unsigned char spot[SPOT];
        void *data;
        uint32_t size = place(&ring->placement.layout, number, &offset);
        if (!size)
            continue;
        paint(spot, number);
        enum gpud_status status = canary_map(memory, queue, offset, size, GPUD_READ, &data, error);
        if (status != GPUD_OK)
            return status;
        looked = true;
        written = memcmp(data, spot, size) != 0;
        status = canary_unmap(memory, queue, data, GPUD_READ, error);
        if (status != GPUD_OK)
            return status;
    }
    if (looked && !written)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the driver took the memory of %s and wrote elsewhere",
                         ring->device->info.name);
    ring->unproven &= ~(UINT64_C(1) << index);
    ring->proven = true;
    return GPUD_OK;
}

/* === acquire ================================================================================= */
/* Waits for frames. Checks everything that the driver reports about them. */

/* A wait looks at the driver again after this long, even if poll() reports nothing. */
#define SLICE (500 * GPUD_MSEC)

/* --- when the driver fails ----------------------------------------------------------------- */

static enum gpud_status dequeue_failed(struct gpud_capture *capture, struct gpud_error *error)
{
    struct gpud_error why;
    int number = errno;
    const char *path = capture->node.path;
    if (number == ENODEV || number == ENXIO)
        gpud_fail_native(&why, GPUD_NO_DEVICE, "errno", number,
                         "%s was unplugged, or its driver removed", path);
    else if (number == EIO)
        gpud_fail_native(&why, GPUD_IO, "errno", number,
                         "the driver of %s failed: start the capture again; the kernel's log "
                         "(dmesg) may say why",
                         path);
    else
        gpud_fail_errno(&why, "the driver of %s gives no frames any more: start the capture again",
                        path);
    return gpud_capture_report(capture, GPUD_CAPTURE_ON_FAILED, &why, error);
}

/* poll() reports an error, but no buffer of the driver explains it. */
static enum gpud_status explain_poll(struct gpud_capture *capture, struct gpud_error *error)
{
    if (gpud_v4l2_is_alive(&capture->node))
        errno = EIO;
    return dequeue_failed(capture, error);
}

/* --- waiting ------------------------------------------------------------------------------- */

/* What poll() saw, and is not handled yet. */
struct news {
    bool event;  /* or a look at the signal is due */
    bool failed; /* the next dequeue shall explain it */
};

/* Makes the card's writes into a device's memory visible, and checks that they arrived there.
 * flags: in an incomplete frame the canary may remain. */
static bool check_memory(struct gpud_capture *capture, uint32_t index, uint32_t flags,
                         struct gpud_error *why)
{
    struct gpud_capture_ring *ring = capture->ring;
    bool proven = ring->proven;
    if (ring->method->on_device &&
        gpud_memory_flush_remote(ring->buffers[index].memory, why) != GPUD_OK)
        return false;
    if (!(ring->unproven >> index & 1) || flags & GPUD_FRAME_CORRUPTED)
        return true;
    if (capture_ring_prove(ring, index, why) != GPUD_OK)
        return false;
    if (!proven)
        gpud_capture_publish_path(capture);
    return true;
}

static void acquire_drop(struct gpud_capture *capture, uint32_t index,
                         const struct gpud_arrival *arrival)
{
    bool full = arrival->action == GPUD_ARRIVAL_OVERRUN;
    capture_ring_drop(capture->ring, index);
    gpud_capture_count(capture, arrival, false);
    capture->count.discontinuity = true;
    if (full && !capture->stream.said_full)
        gpud_log_warning(&capture->context->log, "capture",
                         "frames of %s are dropped, because the application holds all %u",
                         capture->node.path, capture->ring->limit);
    capture->stream.said_full |= full;
}

/* Dequeues one buffer, if the driver has one. *frame stays NULL if it gives no frame; *idle: no
 * buffer was dropped either. */
static enum gpud_status dequeue(struct gpud_capture *capture, struct news *news,
                                struct gpud_frame **frame, bool *idle, struct gpud_error *error)
{
    struct gpud_capture_ring *ring = capture->ring;
    struct gpud_v4l2_buffer raw = {.memory = ring->method->memory};
    *idle = false;
    if (gpud_v4l2_dequeue(&capture->node, &raw) < 0) {
        if (errno != EAGAIN)
            return dequeue_failed(capture, error);
        if (news->failed)
            return explain_poll(capture, error);
        *idle = true;
        return GPUD_OK;
    }
    news->failed = false;
    bool room;
    if (!capture_ring_dequeued(ring, raw.index, &room)) {
        struct gpud_error why;
        gpud_fail(&why, GPUD_IO,
                  "the driver of %s gave buffer %u, which it did not have: start the capture again",
                  capture->node.path, raw.index);
        return gpud_capture_report(capture, GPUD_CAPTURE_ON_FAILED, &why, error);
    }

    struct gpud_arrival arrival = gpud_capture_judge(capture, &raw, room);
    if (arrival.action != GPUD_ARRIVAL_ACQUIRE) {
        acquire_drop(capture, raw.index, &arrival);
        return GPUD_OK;
    }
    struct gpud_error why;
    struct gpud_frame *taken;
    if (!check_memory(capture, raw.index, arrival.flags, &why)) {
        gpud_capture_count(capture, &arrival, false);
        capture_ring_drop(ring, raw.index);
        return gpud_capture_report(capture, GPUD_CAPTURE_ON_METHOD_FAILED, &why, error);
    }
    if (capture_ring_acquire(ring, &raw, &taken, &why) != GPUD_OK)
        return gpud_capture_report(capture, GPUD_CAPTURE_ON_FAILED, &why, error);
    gpud_capture_count(capture, &arrival, true);
    gpud_capture_describe(capture, &raw, &arrival, taken);
    capture->count.discontinuity = false;
    capture->stream.last_frame = arrival.time;
    *frame = taken;
    return GPUD_OK;
}

/* poll() reports an error for a driver without a buffer, which is not a failure, so it is not
 * polled then. False: another event came, and the driver need not be asked for a frame. */
static bool wait_for_news(const struct gpud_capture *capture, struct gpud_capture_wait wait,
                          int64_t deadline, struct news *news)
{
    short events = capture->signal.has_event ? POLLIN | POLLPRI : POLLIN;
    struct pollfd fds[] = {
        {.fd = wait.fed ? capture->node.fd : -1, .events = events},
        {.fd = wait.out ? capture->ring->wake_fd : -1, .events = POLLIN},
        {.fd = capture->interrupt.fd, .events = POLLIN},
    };
    int64_t left = deadline - gpud_now();
    struct timespec slice = gpud_timespec(left < SLICE ? left : SLICE);
    int count = capture->node.system->ppoll(fds, 3, &slice, NULL);
    if (count < 0)
        return false; /* a Unix signal: the caller looks again */
    bool event = fds[0].revents & POLLPRI;
    bool failed = fds[0].revents & (POLLERR | POLLHUP | POLLNVAL);
    news->event |= event;
    news->failed = failed;
    /* A changed video signal may be the cause of the failure, and the next frame may belong to it,
     * so the change is handled first. */
    return !event && (fds[0].revents & POLLIN || failed || count == 0);
}

/* Whether to check the signal although poll() reported nothing: while it is lost, and while no
 * frame comes if the driver has no event for it or the caller does not poll. */
static bool is_look_due(const struct gpud_capture *capture, bool wait, bool idle)
{
    int64_t now = gpud_now();
    if (now < capture->signal.look_at)
        return false;
    if (!capture->signal.now.present)
        return true;
    bool silent = now - capture->stream.last_frame > SLICE || (capture->signal.has_event && !wait);
    return idle && silent;
}

/* Whether something must be handled before GPUD_TIMEOUT is returned. An event loop that sees an
 * error or an event must not get GPUD_TIMEOUT forever. */
static bool has_news(const struct gpud_capture *capture, bool polled, bool idle, struct news *news)
{
    if (idle && !polled && capture->watch_fd >= 0)
        wait_for_news(capture, capture_ring_wait_begin(capture->ring), 0, news);
    return news->event || (idle && news->failed);
}

static enum gpud_status no_frame(struct gpud_capture *capture, bool held, struct gpud_error *error)
{
    struct gpud_capture_ring *ring = capture->ring;
    if (held)
        return gpud_fail(error, GPUD_TIMEOUT,
                         "the driver of %s waits for the frames that are held, for its signal has "
                         "changed: release them",
                         capture->node.path);
    if (!capture->signal.now.present)
        return gpud_fail(error, GPUD_TIMEOUT, "%s", capture->signal.now.reason);
    if (capture_ring_has_room(ring))
        return gpud_fail(error, GPUD_TIMEOUT,
                         "no frame from %s by the deadline: is there a signal?",
                         capture->node.path);
    return gpud_fail(error, GPUD_TIMEOUT, "the application holds all %u frames of %s: release one",
                     ring->limit, capture->node.path);
}

static enum gpud_status requeue(struct gpud_capture *capture, struct gpud_error *error)
{
    struct gpud_error why;
    return capture_ring_requeue(capture->ring, &why) == GPUD_OK
               ? GPUD_OK
               : gpud_capture_report(capture, GPUD_CAPTURE_ON_FAILED, &why, error);
}

/* Sleeps until the node, a returned buffer, an interrupt or the deadline. *ask: whether to ask the
 * driver for a frame. */
static enum gpud_status await_news(struct gpud_capture *capture, int64_t deadline,
                                   struct news *news, bool *ask, struct gpud_error *error)
{
    struct gpud_capture_wait begun = capture_ring_wait_begin(capture->ring);
    enum gpud_status status = begun.back ? requeue(capture, error) : GPUD_OK;
    if (status == GPUD_OK)
        *ask = wait_for_news(capture, begun, deadline, news);
    return status;
}

/* Whether frames can come, or why not. */
static enum gpud_status check_phase(const struct gpud_capture *capture, struct gpud_error *error)
{
    if (capture->state.phase == GPUD_CAPTURE_IDLE)
        return gpud_fail(error, GPUD_INVALID,
                         "the capture is not configured: it has no format to stream");
    if (capture->state.phase != GPUD_CAPTURE_FAILED)
        return GPUD_OK;
    if (error)
        *error = capture->failure;
    return capture->failure.status;
}

/* A frame costs one poll, one DQBUF and, for returned buffers, one QBUF; without a wait no poll. */
static enum gpud_status acquire_frame(struct gpud_capture *capture, bool wait, int64_t deadline,
                                      struct gpud_frame **frame, struct gpud_error *error)
{
    struct news news = {0};
    for (bool last = false;;) {
        enum gpud_status status = check_phase(capture, error);
        if (status != GPUD_OK)
            return status;
        if (atomic_load(&capture->interrupt.set))
            return gpud_fail(error, GPUD_AGAIN, "the capture was interrupted");
        if (gpud_capture_follow(capture, news.event))
            news.failed = false; /* it may have been the old ring's */
        news.event = false;
        if (capture->state.phase == GPUD_CAPTURE_FAILED)
            continue;
        if (capture->state.phase == GPUD_CAPTURE_DEFERRED) {
            status = gpud_capture_await_signal(capture, deadline, error);
            if (status != GPUD_OK)
                return status;
            continue;
        }
        bool held = capture->state.phase == GPUD_CAPTURE_DRAINING, idle = true, ask = true;
        bool sleep = wait && (held || !news.failed);
        /* Else an event loop that always finds a frame would miss a change of the signal. */
        bool peek = !sleep && !held && capture->watch_fd >= 0 && !news.failed;
        struct gpud_capture_ring *ring = capture->ring; /* a dequeue may replace it */
        if (capture_ring_has_back(ring))
            status = requeue(capture, error);
        if (status == GPUD_OK && (sleep || peek))
            status = await_news(capture, sleep ? deadline : 0, &news, &ask, error);
        if (status == GPUD_OK && ask && !held)
            status = dequeue(capture, &news, frame, &idle, error);
        if (status != GPUD_OK || *frame)
            return status;
        news.event |= is_look_due(capture, wait, idle);
        if (capture->ring != ring || gpud_now() < deadline)
            continue;
        if (last || held || !has_news(capture, peek, idle, &news))
            return no_frame(capture, held, error);
        last = true;
    }
}

enum gpud_status gpud_capture_acquire(struct gpud_capture *capture, int64_t timeout_ns,
                                      struct gpud_frame **frame, struct gpud_error *error)
{
    if (timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
    struct gpud_frame *found = NULL;
    enum gpud_status status =
        acquire_frame(capture, timeout_ns > 0, gpud_deadline(timeout_ns), &found, error);
    if (status == GPUD_OK)
        *frame = found;
    if (capture->ring)
        capture_ring_wait_end(capture->ring);
    return status;
}
