/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The public object, and what it does when a signal changes or ends, or a card is unplugged. */
#include "capture/internal.h"

#include "base/base.h"
#include "capture/capture.h"
#include "topology/topology.h"

#include <dirent.h>
#include <errno.h>
#include <linux/v4l2-controls.h>
#include <linux/videodev2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* === publish ================================================================================= */
/* What gpud_capture_get_info() reports: the signal, the path and the format, as they become
 * known. */

/* What was detected. */
static void publish_signal(struct gpud_capture *capture)
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

static void count_change(struct gpud_capture *capture)
{
    gpud_lock_take(&capture->lock);
    capture->info.signal_changes++;
    gpud_lock_release(&capture->lock);
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
static void note_format(struct gpud_capture *capture, const struct gpud_v4l2_format *format,
                        const struct gpud_hdr_metadata *hdr, uint32_t fps_num, uint32_t fps_den)
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

/* The driver's rate, else the signal's. If *fps_num is not 0, the driver is asked for that rate. */
static void read_rate(struct gpud_capture *capture, uint32_t *fps_num, uint32_t *fps_den)
{
    gpud_v4l2_rate(&capture->node, fps_num, fps_den);
    if (*fps_num)
        return;
    *fps_num = capture->signal.now.fps_num;
    *fps_den = capture->signal.now.fps_den;
}

/* How long a frame of this rate lasts. */
static void set_duration(struct gpud_capture *capture, uint32_t fps_num, uint32_t fps_den)
{
    uint32_t fields = capture->stream.alternate ? 2 : 1;
    capture->stream.frame_duration =
        fps_num ? (uint64_t)fps_den * UINT64_C(1000000000) / fps_num / fields : GPUD_TIME_NONE;
}

static bool get_compound(const struct gpud_v4l2 *node, uint32_t id, void *value, uint32_t size)
{
    struct v4l2_ext_control control = {.id = id, .size = size, .ptr = value};
    struct v4l2_ext_controls controls = {
        .which = V4L2_CTRL_WHICH_CUR_VAL, .count = 1, .controls = &control};
    return gpud_v4l2_call(node, VIDIOC_G_EXT_CTRLS, &controls) == 0;
}

/* Reads the signal's static metadata, if the driver has controls for it. */
static void read_hdr(const struct gpud_v4l2 *node, struct gpud_hdr_metadata *hdr)
{
    struct v4l2_ctrl_hdr10_cll_info light = {0};
    struct v4l2_ctrl_hdr10_mastering_display display = {0};
    *hdr = (struct gpud_hdr_metadata){0};
    if (get_compound(node, V4L2_CID_COLORIMETRY_HDR10_CLL_INFO, &light, sizeof(light)) &&
        light.max_content_light_level) {
        hdr->has_light_level = true;
        hdr->max_content_light = light.max_content_light_level;
        hdr->max_frame_average_light = light.max_pic_average_light_level;
    }
    if (!get_compound(node, V4L2_CID_COLORIMETRY_HDR10_MASTERING_DISPLAY, &display,
                      sizeof(display)) ||
        !display.max_display_mastering_luminance)
        return;
    hdr->has_display = true;
    for (unsigned i = 0; i < 3; i++) { /* V4L2: green, blue, red */
        hdr->display_x[i] = display.display_primaries_x[(i + 2) % 3];
        hdr->display_y[i] = display.display_primaries_y[(i + 2) % 3];
    }
    hdr->white_x = display.white_point_x;
    hdr->white_y = display.white_point_y;
    hdr->max_luminance = display.max_display_mastering_luminance;
    hdr->min_luminance = display.min_display_mastering_luminance;
}

/* What the driver says now of the colours and rate of what it captures. True: they changed. */
static bool publish_format(struct gpud_capture *capture)
{
    struct gpud_v4l2_format format;
    struct gpud_hdr_metadata hdr;
    uint32_t fps_num = 0, fps_den = 1;
    if (gpud_v4l2_get_format(&capture->node, &format) < 0)
        return false;
    read_hdr(&capture->node, &hdr);
    read_rate(capture, &fps_num, &fps_den);
    set_duration(capture, fps_num, fps_den);
    gpud_lock_take(&capture->lock);
    struct gpud_capture_info before = capture->info;
    note_format(capture, &format, &hdr, fps_num, fps_den);
    bool changed = memcmp(&before, &capture->info, sizeof(before)) != 0;
    gpud_lock_release(&capture->lock);
    return changed;
}

/* A stream has begun in this format. */
static void publish(struct gpud_capture *capture, const struct gpud_v4l2_format *format,
                    uint32_t fps_num, uint32_t fps_den)
{
    const struct gpud_capture_ring *ring = capture->ring;
    /* How buffers will be stamped, as the driver says in those it has. */
    struct gpud_v4l2_buffer raw = ring->buffers[0].raw;
    uint32_t stamps = gpud_v4l2_query(ring->node, &raw) == 0 ? raw.flags : 0;
    struct gpud_hdr_metadata hdr;
    read_hdr(&capture->node, &hdr);
    gpud_lock_take(&capture->lock);
    struct gpud_capture_info *info = &capture->info;
    gpud_print(info->driver, "%s", capture->node.driver);
    gpud_print(info->card, "%s", capture->node.card);
    info->media.picture.layout = ring->placement.layout;
    gpud_print(info->card_format, "%s", info->media.picture.layout.format);
    info->monotonic = (stamps & V4L2_BUF_FLAG_TIMESTAMP_MASK) == V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC;
    info->started_ns = (uint64_t)capture->stream.began;
    info->stamps_start = (stamps & V4L2_BUF_FLAG_TSTAMP_SRC_MASK) == V4L2_BUF_FLAG_TSTAMP_SRC_SOE;
    note_format(capture, format, &hdr, fps_num, fps_den);
    gpud_lock_release(&capture->lock);

    const struct gpud_log *log = &capture->context->log;
    gpud_log_info(log, "capture", "%s (%s): %s %ux%u by v4l2-%s, %u buffers", capture->node.path,
                  capture->node.card, ring->placement.layout.format, ring->placement.layout.width,
                  ring->placement.layout.height, ring->method->name, ring->buffer_count);
    if (ring->fallback_reason[0])
        gpud_log_warning(log, "capture", "%s: %s", capture->node.path, ring->fallback_reason);
    gpud_capture_publish_path(capture);
}

/* The stream has ended. */
static void unpublish(struct gpud_capture *capture)
{
    gpud_lock_take(&capture->lock);
    struct gpud_capture_info *info = &capture->info;
    gpud_print(info->path, "none");
    info->fallback_reason[0] = '\0';
    info->media = (struct gpud_media){.picture.rate.den = 1};
    info->monotonic = info->stamps_start = false;
    gpud_lock_release(&capture->lock);
}

/* === watch =================================================================================== */
/* One descriptor for event loops: an epoll of the interrupt's descriptor, the ring's wake-up, and
 * the driver's node while its state is meaningful. The node comes and goes, with configure and with
 * its buffers; the epoll stays. */

/* Adds this descriptor to the epoll, until it is closed; -1 adds nothing. False: errno. */
static bool watch_add(int watch_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return watch_fd < 0 || fd < 0 || epoll_ctl(watch_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void close_watched(struct gpud_capture *capture, int *fd)
{
    if (*fd >= 0 && capture->watch_fd >= 0)
        epoll_ctl(capture->watch_fd, EPOLL_CTL_DEL, *fd, NULL);
    gpud_fd_close(fd);
}

/* Arms timer_fd to expire after that long, and then at this interval (0: once). False: errno. */
static bool arm(struct gpud_capture *capture, int64_t after, int64_t every)
{
    struct itimerspec when = {.it_value = gpud_timespec(after > 0 ? after : 1),
                              .it_interval = gpud_timespec(every)};
    if (capture->timer_fd < 0) {
        capture->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        if (capture->timer_fd < 0 || !watch_add(capture->watch_fd, capture->timer_fd)) {
            int number = errno;
            gpud_fd_close(&capture->timer_fd);
            errno = number;
            return false;
        }
    }
    return timerfd_settime(capture->timer_fd, 0, &when, NULL) == 0;
}

/* Whether it has expired; clears it. */
static bool is_time(struct gpud_capture *capture)
{
    uint64_t count;
    return capture->timer_fd >= 0 &&
           read(capture->timer_fd, &count, sizeof(count)) == sizeof(count);
}

static void disarm(struct gpud_capture *capture)
{
    close_watched(capture, &capture->timer_fd);
}

enum gpud_status gpud_capture_get_fd(struct gpud_capture *capture, int *fd,
                                     struct gpud_error *error)
{
    if (capture->watch_fd >= 0) {
        *fd = capture->watch_fd;
        return GPUD_OK;
    }
    int made = epoll_create1(EPOLL_CLOEXEC);
    if (made < 0)
        return gpud_fail_errno(error, "cannot create an epoll descriptor");
    struct epoll_event event = {.events = EPOLLIN};
    enum gpud_status status = GPUD_OK;
    if (epoll_ctl(made, EPOLL_CTL_ADD, capture->interrupt.fd, &event) < 0)
        status = gpud_fail_errno(error, "cannot watch an eventfd");
    if (status == GPUD_OK &&
        !(watch_add(made, capture->card.nodes_fd) && watch_add(made, capture->timer_fd)))
        status = gpud_fail_errno(error, "cannot watch for %s", capture->card.home);
    if (status == GPUD_OK && capture->ring)
        status = gpud_capture_ring_watch(capture->ring, made, error);
    if (status != GPUD_OK) {
        gpud_fd_close(&made);
        return status;
    }
    *fd = capture->watch_fd = made;
    return GPUD_OK;
}

/* === card ==================================================================================== */
/* Sets up a card that was just opened, switches it to another input, and finds it again when it was
 * unplugged. Meanwhile its node is closed, because otherwise the kernel does not reuse the number,
 * and the folders in which nodes appear are watched.
 *
 * The card is identified by its place on its bus: a held frame in the driver's memory keeps the old
 * number in use, and the card returns with another one. A card whose node exists but cannot be used
 * yet (permissions, firmware) is tried again after a while. */

/* Limits a folder with more nodes than the kernel can number. */
#define NODES_MAX 4096

/* --- setting it up ------------------------------------------------------------------------- */

static void detect(struct gpud_capture *capture)
{
    struct gpud_v4l2 *node = &capture->node;
    int input = 0;
    struct v4l2_event_subscription wish = {.type = V4L2_EVENT_SOURCE_CHANGE};
    capture->signal.has_event = gpud_v4l2_call(node, VIDIOC_SUBSCRIBE_EVENT, &wish) == 0;
    /* The event's id is the input's number with some drivers, and 0 with others. */
    if (gpud_v4l2_call(node, VIDIOC_G_INPUT, &input) == 0 && input > 0) {
        wish = (struct v4l2_event_subscription){.type = V4L2_EVENT_SOURCE_CHANGE,
                                                .id = (uint32_t)input};
        capture->signal.has_event |= gpud_v4l2_call(node, VIDIOC_SUBSCRIBE_EVENT, &wish) == 0;
    }
    gpud_input_detect(node, &capture->signal.now);
    publish_signal(capture);

    struct gpud_v4l2_format format; /* that the card is set to before the first configure */
    bool known = gpud_v4l2_get_format(node, &format) == 0;
    const char *name = known ? gpud_capture_name_format(node, format.fourcc) : NULL;
    gpud_lock_take(&capture->lock);
    gpud_print(capture->info.card_format, "%s", name ? name : "");
    gpud_lock_release(&capture->lock);
    capture->wanted.fourcc = 0;
}

static enum gpud_status switch_input(struct gpud_capture *capture, int number,
                                     struct gpud_error *error)
{
    int set = number;
    if (gpud_v4l2_call(&capture->node, VIDIOC_S_INPUT, &set) == 0)
        return GPUD_OK;
    return gpud_fail_errno(error, "%s cannot be switched to its input %d%s", capture->node.path,
                           number, errno == EBUSY ? ", for another program holds it" : "");
}

/* Selects the input and sets the controls that were asked for; the card was just opened, and its
 * signal is detected then. */
static enum gpud_status set_up(struct gpud_capture *capture, struct gpud_error *error)
{
    int number, now = -1;
    enum gpud_status status = GPUD_OK;
    capture->wanted.next_input = -1; /* input is its name */
    if (capture->wanted.input[0])
        status = gpud_input_find(&capture->node, capture->wanted.input, &number, error);
    bool set = status == GPUD_OK && capture->wanted.input[0] &&
               (gpud_v4l2_call(&capture->node, VIDIOC_G_INPUT, &now) < 0 || now != number);
    if (set)
        status = switch_input(capture, number, error);
    gpud_lock_take(&capture->node_lock);
    if (status == GPUD_OK)
        status = gpud_controls_set(&capture->node, capture->wanted.controls.control,
                                   capture->wanted.controls.count, error);
    gpud_lock_release(&capture->node_lock);
    if (status == GPUD_OK)
        detect(capture);
    return status;
}

/* Switches to wanted.next_input, if there is one. No buffers may exist. If the driver refuses,
 * input_refused says why, and the card stays at the input that it has. */
static void select_input(struct gpud_capture *capture)
{
    struct gpud_error *why = &capture->wanted.input_refused;
    if (capture->wanted.next_input < 0)
        return;
    why->status = switch_input(capture, capture->wanted.next_input, why);
    capture->wanted.next_input = -1;
    if (why->status != GPUD_OK)
        gpud_log_warning(&capture->context->log, "capture", "%s", why->reason);
    detect(capture);
}

/* --- finding the card ---------------------------------------------------------------------- */

static bool is_same_card(const struct gpud_v4l2 *a, const struct gpud_v4l2 *b)
{
    return a->place[0] && strcmp(a->place, b->place) == 0 && strcmp(a->driver, b->driver) == 0 &&
           strcmp(a->card, b->card) == 0 && a->index == b->index;
}

/* Looks for the card at another node than the given one, which may be open; else *node is
 * unchanged. */
static void find_elsewhere(const struct gpud_capture *capture, struct gpud_v4l2 *node)
{
    const char *folder = node->system->folder;
    DIR *nodes = opendir(folder);
    const struct dirent *entry;
    for (unsigned i = 0; nodes && i < NODES_MAX && (entry = readdir(nodes)); i++) {
        struct gpud_v4l2 found = {.system = node->system, .fd = -1};
        if (strncmp(entry->d_name, "video", 5) != 0)
            continue;
        gpud_print(found.path, "%s/%s", folder, entry->d_name);
        if (strcmp(found.path, node->path) == 0 || gpud_v4l2_open(&found, NULL) != GPUD_OK)
            continue;
        if (is_same_card(&found, &capture->card.known)) {
            gpud_v4l2_close(node);
            *node = found;
            break;
        }
        gpud_v4l2_close(&found);
    }
    if (nodes)
        closedir(nodes);
}

/* Opens the card again, under any node, and sets it up: the same card, else whatever is at its
 * node. On failure the node may be open. */
static enum gpud_status reopen(struct gpud_capture *capture, struct gpud_error *error)
{
    gpud_lock_take(&capture->node_lock);
    struct gpud_v4l2 *node = &capture->node;
    gpud_v4l2_close(node);
    gpud_print(node->path, "%s", capture->card.home);
    enum gpud_status status = gpud_v4l2_open(node, error);
    bool other = status != GPUD_OK || !is_same_card(node, &capture->card.known);
    if (other && capture->card.known.place[0])
        find_elsewhere(capture, node);
    if (node->fd >= 0)
        status = GPUD_OK;
    gpud_lock_release(&capture->node_lock);
    if (status != GPUD_OK)
        return status;
    if (strcmp(node->path, capture->card.home) != 0)
        gpud_log_info(&capture->context->log, "capture", "the card of %s is at %s now",
                      capture->card.home, node->path);
    capture->card.known = *node;
    return set_up(capture, error);
}

/* --- watching ------------------------------------------------------------------------------ */

/* Watches the folders that exist now, before each look. A folder that udev makes may vanish with
 * its last link (/dev/v4l/by-id). Then the nearest existing parent reports when it comes back.
 * False: the user's watches are used up, and the card may return unnoticed. */
static bool watch_folders(const struct gpud_capture *capture)
{
    const uint32_t events = IN_CREATE | IN_MOVED_TO | IN_ATTRIB;
    char path[sizeof(capture->card.home)];
    gpud_print(path, "%s", capture->card.home);
    if (inotify_add_watch(capture->card.nodes_fd, capture->node.system->folder, events) < 0)
        return false;
    for (char *end; (end = strrchr(path, '/')) && end != path;) {
        *end = '\0';
        if (inotify_add_watch(capture->card.nodes_fd, path, events) >= 0)
            return true;
    }
    return false;
}

static void unwatch_folders(struct gpud_capture *capture)
{
    close_watched(capture, &capture->card.nodes_fd);
}

/* Begins to watch for nodes, and arms the timer for the first look. */
static enum gpud_status watch_for_card(struct gpud_capture *capture, struct gpud_error *error)
{
    capture->card.nodes_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (capture->card.nodes_fd < 0)
        gpud_log_warning(&capture->context->log, "capture",
                         "%s cannot be watched for (%s): it is looked for again and again",
                         capture->card.home, strerror(errno));
    if (watch_add(capture->watch_fd, capture->card.nodes_fd) && arm(capture, 0, 0))
        return GPUD_OK;
    enum gpud_status status = gpud_fail_errno(error, "cannot watch for %s", capture->card.home);
    unwatch_folders(capture);
    disarm(capture);
    return status;
}

/* === stream ================================================================================== */
/* A capture's stream: started, with the card set to its signal and to what is wanted; continued by
 * another method; ended. */

/* Held frames live on. GPUD_IO: the driver keeps its buffers, and the ring is still there. must:
 * the stream is over whatever the driver says; until it has its buffers back, `kept` is the ring.
 */
static enum gpud_status drop_ring(struct gpud_capture *capture, bool must, struct gpud_error *error)
{
    if (!capture->ring)
        return GPUD_OK;
    enum gpud_status status = gpud_capture_ring_stop(capture->ring, error);
    if (status != GPUD_OK && !must)
        return status;
    if (status == GPUD_OK)
        gpud_capture_ring_drop(capture->ring);
    else
        capture->kept = capture->ring;
    capture->ring = NULL;
    return GPUD_OK;
}

/* Before the node is closed: the driver frees its buffers when the last is unmapped. */
static void drop_kept(struct gpud_capture *capture)
{
    if (capture->kept)
        gpud_capture_ring_drop(capture->kept);
    capture->kept = NULL;
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

/* === machine ================================================================================= */

/* Bits of the states that a row is for, and its new state: one of these, or the same as before. */
enum {
    IDLE = 1 << GPUD_CAPTURE_IDLE,
    DEFERRED = 1 << GPUD_CAPTURE_DEFERRED,
    STREAMING = 1 << GPUD_CAPTURE_STREAMING,
    DRAINING = 1 << GPUD_CAPTURE_DRAINING,
    FAILED = 1 << GPUD_CAPTURE_FAILED,
    LIVE = DEFERRED | STREAMING | DRAINING,
    ANY = IDLE | LIVE | FAILED,
    PRESENT = 1 << GPUD_CARD_PRESENT,
    UNPLUGGED = 1 << GPUD_CARD_UNPLUGGED,
    AWAITED = 1 << GPUD_CARD_AWAITED,
    ABSENT = UNPLUGGED | AWAITED,
    SAME = 0,
};

struct row {
    enum gpud_capture_event event;
    unsigned phases, cards;
    unsigned phase, card;
    enum gpud_capture_action action;
};

#define ROW(event, phases, cards, phase, card, action)                                \
    {                                                                                 \
        GPUD_CAPTURE_ON_##event, phases, cards, phase, card, GPUD_CAPTURE_DO_##action \
    }

/* clang-format off */
static const struct row table[] = {
    /*  event          in phase         card             to phase   card       action */
    ROW(CONFIGURE,     ANY,             PRESENT,         IDLE,      SAME,      RELEASE),
    ROW(CONFIGURE,     IDLE | FAILED,   ABSENT,          IDLE,      SAME,      REOPEN),
    ROW(START,         IDLE,            PRESENT,         SAME,      SAME,      START),
    ROW(START,         IDLE | FAILED,   ABSENT,          SAME,      SAME,      REFUSE),
    ROW(INPUT,         IDLE | DEFERRED | FAILED, PRESENT, SAME,     SAME,      SELECT),
    ROW(INPUT,         STREAMING | DRAINING,     PRESENT, DRAINING, SAME,      REPLACE),
    ROW(INPUT,         IDLE | FAILED,   ABSENT,          SAME,      SAME,      REFUSE),
    ROW(STOP,          ANY,             PRESENT,         IDLE,      SAME,      DROP),
    ROW(STOP,          IDLE | FAILED,   ABSENT,          IDLE,      SAME,      DROP),
    ROW(WAIT,          IDLE | FAILED,   PRESENT,         SAME,      SAME,      PROBE),
    ROW(WAIT,          IDLE | FAILED,   UNPLUGGED,       SAME,      SAME,      WATCH),

    ROW(CHANGED,       STREAMING,       PRESENT,         DRAINING,  SAME,      REPLACE),
    ROW(RELEASED,      DRAINING,        PRESENT,         SAME,      SAME,      REPLACE),
    ROW(SIGNAL,        DEFERRED,        PRESENT,         SAME,      SAME,      START),
    ROW(METHOD_FAILED, STREAMING,       PRESENT,         SAME,      SAME,      FALL_BACK),
    ROW(DUE,           IDLE | FAILED,   AWAITED,         SAME,      SAME,      RETURN),

    ROW(FAILED,        IDLE,            PRESENT,         SAME,      SAME,      NOTHING),
    ROW(FAILED,        LIVE,            PRESENT,         FAILED,    SAME,      END),
    ROW(FAILED,        IDLE | FAILED,   AWAITED,         FAILED,    PRESENT,   WELCOME),
    ROW(UNPLUGGED,     IDLE | FAILED,   PRESENT,         SAME,      UNPLUGGED, NOTHING),
    ROW(UNPLUGGED,     LIVE,            PRESENT,         FAILED,    UNPLUGGED, END),

    ROW(HELD,          DRAINING,        PRESENT,         SAME,      SAME,      NOTHING),
    ROW(HELD,          IDLE | STREAMING, PRESENT,        FAILED,    SAME,      END),
    ROW(STARTED,       IDLE | LIVE,     PRESENT,         STREAMING, SAME,      NOTHING),
    ROW(STARTED,       IDLE | FAILED,   AWAITED,         STREAMING, PRESENT,   WELCOME),
    ROW(NO_SIGNAL,     IDLE | DEFERRED | DRAINING, PRESENT, DEFERRED, SAME,    NOTHING),
    ROW(NO_SIGNAL,     IDLE | FAILED,   AWAITED,         DEFERRED,  PRESENT,   WELCOME),
    ROW(WATCHED,       IDLE | FAILED,   UNPLUGGED,       SAME,      AWAITED,   LET_GO),
    ROW(RETURNED,      IDLE | FAILED,   ABSENT,          IDLE,      PRESENT,   WELCOME),
    ROW(ABSENT,        IDLE | FAILED,   AWAITED,         SAME,      SAME,      LET_GO),
};

/* clang-format on */

struct gpud_capture_step gpud_capture_next(struct gpud_capture_state state,
                                           enum gpud_capture_event event)
{
    struct gpud_capture_step step = {.state = state, .action = GPUD_CAPTURE_DO_NOTHING};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct row *row = &table[i];
        if (row->event != event || !(row->phases >> state.phase & 1) ||
            !(row->cards >> state.card & 1))
            continue;
        if (row->phase != SAME)
            step.state.phase = (enum gpud_capture_phase)__builtin_ctz(row->phase);
        if (row->card != SAME)
            step.state.card = (enum gpud_capture_card)__builtin_ctz(row->card);
        step.action = row->action;
        break;
    }
    return step;
}

/* === actions ================================================================================= */
/* Carries out the actions of the state machine. The outcome of each is the machine's next event. */

#define NO_EVENT GPUD_CAPTURE_EVENTS

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
    publish_signal(capture);
    return true;
}

/* Ends the stream whatever the driver says. */
static void end_stream(struct gpud_capture *capture)
{
    unpublish(capture);
    drop_ring(capture, true, NULL);
    if (capture->state.card != GPUD_CARD_AWAITED) /* else the timer is for the card */
        disarm(capture);
}

/* Sets the card to its signal and to what is wanted, and starts streaming. The ring is NULL, and is
 * again on failure. */
static enum gpud_capture_event start(struct gpud_capture *capture, struct gpud_error *why)
{
    struct gpud_placement placement;
    struct gpud_v4l2_format format = {0};
    uint32_t fps_num = capture->wanted.mode.fps_num, fps_den = capture->wanted.mode.fps_den;
    bool refused = false;
    disarm(capture);
    if (capture->kept) {
        why->status = gpud_capture_ring_stop(capture->kept, why);
        if (why->status != GPUD_OK)
            return GPUD_CAPTURE_ON_FAILED;
        drop_kept(capture);
    }
    gpud_input_set(&capture->node, &capture->signal.now);
    why->status = gpud_capture_negotiate(capture, &format, &placement, why);
    if (why->status == GPUD_OK) {
        read_rate(capture, &fps_num, &fps_den);
        struct gpud_capture_choice choice = choice_of(capture);
        why->status = stream(capture, &placement, &choice, &refused, why);
    }
    capture->stream.alternate = format.field == V4L2_FIELD_ALTERNATE;
    if (refused && lacks_signal(capture, why->native)) {
        /* The configuration stands: frames come when there is a signal, which the timer looks
         * for. */
        struct gpud_hdr_metadata hdr = {0};
        why->status = GPUD_OK;
        if (!arm(capture, GPUD_CAPTURE_LOOK, GPUD_CAPTURE_LOOK)) {
            gpud_fail_errno(why, "%s cannot be waited for", capture->node.path);
            return GPUD_CAPTURE_ON_FAILED;
        }
        unpublish(capture);
        gpud_lock_take(&capture->lock);
        capture->info.media.picture.layout = placement.layout;
        note_format(capture, &format, &hdr, fps_num, fps_den);
        gpud_lock_release(&capture->lock);
        return GPUD_CAPTURE_ON_NO_SIGNAL;
    }
    if (why->status != GPUD_OK)
        return GPUD_CAPTURE_ON_FAILED;
    set_duration(capture, fps_num, fps_den);
    publish(capture, &format, fps_num, fps_den);
    capture->stream.said_full = capture->stream.said_clock = capture->count.numbered = false;
    capture->count.discontinuity = capture->count.epoch > 0;
    capture->count.epoch++;
    return GPUD_CAPTURE_ON_STARTED;
}

static enum gpud_capture_event replace(struct gpud_capture *capture, struct gpud_error *why)
{
    if (drop_ring(capture, false, NULL) != GPUD_OK)
        return GPUD_CAPTURE_ON_HELD;
    select_input(capture);
    enum gpud_capture_event event = start(capture, why);
    if (why->status == GPUD_OK)
        count_change(capture);
    return event;
}

/* The ring's method turned out not to work, as why says: the stream goes on by the next one. Only
 * the buffers change: the card stays set up. On failure there is no ring, or one that has ended. */
static enum gpud_capture_event fall_back(struct gpud_capture *capture, struct gpud_error *why)
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

    unpublish(capture);
    why->status = drop_ring(capture, false, why);
    if (why->status == GPUD_OK && gpud_v4l2_get_format(&capture->node, &format) < 0)
        gpud_fail_errno(why, "%s does not tell its format", capture->node.path);
    if (why->status == GPUD_OK)
        why->status = stream(capture, &placement, &choice, &refused, why);
    if (why->status != GPUD_OK)
        return GPUD_CAPTURE_ON_FAILED;
    capture->count.numbered = false;
    capture->count.discontinuity = true;
    capture->count.epoch++; /* the memory is new */
    publish(capture, &format, rate.num, rate.den);
    return GPUD_CAPTURE_ON_STARTED;
}

/* A card that is there but not ready, for its firmware is loaded, is tried again. */
static enum gpud_capture_event try_return(struct gpud_capture *capture, struct gpud_error *why)
{
    bool watched = watch_folders(capture); /* before the look: none is missed */
    why->status = reopen(capture, why);
    bool opened = capture->node.fd >= 0;
    enum gpud_capture_event event = GPUD_CAPTURE_ON_RETURNED;
    if (why->status == GPUD_OK && capture->wanted.mode.format[0])
        event = start(capture, why);
    if (why->status == GPUD_OK)
        return event;
    if (opened && (why->status == GPUD_UNSUPPORTED || why->status == GPUD_INVALID))
        return GPUD_CAPTURE_ON_FAILED;
    if (opened || why->native != ENOENT || !watched)
        arm(capture, GPUD_CAPTURE_LOOK, 0);
    return GPUD_CAPTURE_ON_ABSENT;
}

static enum gpud_capture_event carry_out(struct gpud_capture *capture,
                                         enum gpud_capture_action action, struct gpud_error *why)
{
    switch (action) {
    case GPUD_CAPTURE_DO_NOTHING:
    case GPUD_CAPTURE_ACTIONS:
        break;
    case GPUD_CAPTURE_DO_REFUSE:
        gpud_fail(why, GPUD_NO_DEVICE, "%s is unplugged", capture->card.home);
        break;
    case GPUD_CAPTURE_DO_RELEASE:
        unpublish(capture);
        disarm(capture);
        why->status = drop_ring(capture, false, why);
        if (why->status != GPUD_OK)
            return GPUD_CAPTURE_ON_HELD;
        select_input(capture);
        break;
    case GPUD_CAPTURE_DO_DROP:
        end_stream(capture);
        break;
    case GPUD_CAPTURE_DO_REOPEN:
        end_stream(capture);
        drop_kept(capture);
        why->status = reopen(capture, why);
        return capture->node.fd >= 0 ? GPUD_CAPTURE_ON_RETURNED : GPUD_CAPTURE_ON_ABSENT;
    case GPUD_CAPTURE_DO_START:
        return start(capture, why);
    case GPUD_CAPTURE_DO_REPLACE:
        return replace(capture, why);
    case GPUD_CAPTURE_DO_FALL_BACK:
        return fall_back(capture, why);
    case GPUD_CAPTURE_DO_SELECT:
        drop_ring(capture, true, NULL);
        select_input(capture);
        break;
    case GPUD_CAPTURE_DO_END:
        /* Event loops see that acquire has something to report. */
        capture->failure = *why;
        if (capture->ring)
            gpud_capture_ring_end(capture->ring);
        else /* a replacement was meant to follow, and failed */
            arm(capture, 0, 0);
        break;
    case GPUD_CAPTURE_DO_PROBE:
        return gpud_v4l2_is_alive(&capture->node) ? NO_EVENT : GPUD_CAPTURE_ON_UNPLUGGED;
    case GPUD_CAPTURE_DO_WATCH:
        why->status = watch_for_card(capture, why);
        return why->status == GPUD_OK ? GPUD_CAPTURE_ON_WATCHED : NO_EVENT;
    case GPUD_CAPTURE_DO_LET_GO:
        drop_ring(capture, true, NULL);
        drop_kept(capture);
        gpud_lock_take(&capture->node_lock);
        gpud_v4l2_close(&capture->node);
        gpud_lock_release(&capture->node_lock);
        break;
    case GPUD_CAPTURE_DO_RETURN:
        return try_return(capture, why);
    case GPUD_CAPTURE_DO_WELCOME:
        unwatch_folders(capture);
        if (capture->state.phase != GPUD_CAPTURE_DEFERRED) /* else the timer is for the signal */
            disarm(capture);
        if (capture->state.phase == GPUD_CAPTURE_FAILED)
            capture->failure = *why;
        break;
    }
    return NO_EVENT;
}

enum gpud_status gpud_capture_report(struct gpud_capture *capture, enum gpud_capture_event event,
                                     const struct gpud_error *why, struct gpud_error *error)
{
    struct gpud_error now = {.status = GPUD_OK};
    if (why)
        now = *why;
    while (event != NO_EVENT) {
        if (event == GPUD_CAPTURE_ON_FAILED && now.status == GPUD_NO_DEVICE)
            event = GPUD_CAPTURE_ON_UNPLUGGED;
        struct gpud_capture_step step = gpud_capture_next(capture->state, event);
        bool moved = step.state.card != capture->state.card;
        capture->state = step.state;
        event = carry_out(capture, step.action, &now);
        if (!moved)
            continue;
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
    if (now.status != GPUD_OK && error)
        *error = now;
    return now.status;
}

/* === follow ================================================================================== */
/* Follows a change of the signal while frames are captured: sets the card, and goes on with the
 * same format in a new ring. */

/* Limits a driver that always has one more event. */
#define EVENTS_MAX 64

bool gpud_capture_follow(struct gpud_capture *capture, bool look)
{
    if (capture->state.phase == GPUD_CAPTURE_DRAINING) {
        gpud_capture_report(capture, GPUD_CAPTURE_ON_RELEASED, NULL, NULL);
        return true;
    }
    if (capture->state.phase != GPUD_CAPTURE_STREAMING || !look)
        return false;
    capture->signal.look_at = gpud_now() + GPUD_CAPTURE_LOOK;
    bool event = false;
    for (unsigned i = 0; i < EVENTS_MAX && capture->signal.has_event; i++) {
        struct v4l2_event taken = {0};
        if (gpud_v4l2_call(&capture->node, VIDIOC_DQEVENT, &taken) < 0)
            break;
        event |= taken.type == V4L2_EVENT_SOURCE_CHANGE;
    }
    /* A driver with an event for changes is asked without one only while the signal is lost. */
    if (!event && capture->signal.has_event && capture->signal.now.present)
        return false;
    struct gpud_input found, before = capture->signal.now;
    gpud_input_detect(&capture->node, &found);
    capture->signal.now = found;
    publish_signal(capture);
    if (!found.present)
        return false;
    if (!before.present)
        capture->count.discontinuity = true;
    bool moved = found.width != before.width || found.height != before.height ||
                 found.interlaced != before.interlaced;
    if (gpud_input_is_set(&capture->node, &found) && (!moved || capture->wanted.mode.width_min)) {
        /* If only colours or the rate changed, the next frame's epoch says so. */
        if (publish_format(capture)) {
            capture->count.epoch++;
            count_change(capture);
        }
        return false;
    }
    gpud_log_info(&capture->context->log, "capture", "%s has another signal: %ux%u",
                  capture->node.path, capture->signal.now.width, capture->signal.now.height);
    gpud_capture_report(capture, GPUD_CAPTURE_ON_CHANGED, NULL, NULL);
    return true;
}

enum gpud_status gpud_capture_await_signal(struct gpud_capture *capture, int64_t deadline,
                                           struct gpud_error *error)
{
    while (capture->state.phase == GPUD_CAPTURE_DEFERRED) {
        struct pollfd fds[] = {
            {.fd = capture->timer_fd, .events = POLLIN},
            {.fd = capture->interrupt.fd, .events = POLLIN},
        };
        struct timespec left = gpud_time_left(deadline);
        enum gpud_status status = GPUD_OK;
        ppoll(fds, 2, &left, NULL);
        if (atomic_load(&capture->interrupt.set))
            return gpud_fail(error, GPUD_AGAIN, "the capture was interrupted");
        if (is_time(capture)) {
            if (!gpud_v4l2_is_alive(&capture->node)) {
                struct gpud_error why;
                gpud_fail_native(&why, GPUD_NO_DEVICE, "errno", errno,
                                 "%s was unplugged, or its driver removed", capture->node.path);
                status = gpud_capture_report(capture, GPUD_CAPTURE_ON_FAILED, &why, error);
            } else {
                gpud_input_detect(&capture->node, &capture->signal.now);
                publish_signal(capture);
                if (capture->signal.now.present)
                    status = gpud_capture_report(capture, GPUD_CAPTURE_ON_SIGNAL, NULL, error);
            }
        }
        if (status != GPUD_OK)
            return status;
        if (capture->state.phase == GPUD_CAPTURE_DEFERRED && gpud_now() >= deadline)
            return gpud_fail(error, GPUD_TIMEOUT, "%s", capture->signal.now.reason);
    }
    return GPUD_OK;
}

/* === capture ================================================================================= */
/* The public object: creating, configuring, and ending a capture. */

#define SCHEME "v4l2://"
#define SLOTS_DEFAULT 4
#define SLOTS_MAX 30 /* drivers have 32 buffers */

/* --- the controls to set again ------------------------------------------------------------ */

/* Whether this is a valid list of controls. */
static enum gpud_status controls_check(const struct gpud_capture_control *controls, uint32_t count,
                                       struct gpud_error *error)
{
    if (count > GPUD_CAPTURE_CONTROLS_MAX || (count && !controls))
        return gpud_fail(error, GPUD_INVALID, "%u controls: up to %d are possible", count,
                         GPUD_CAPTURE_CONTROLS_MAX);
    for (uint32_t i = 0; i < count; i++)
        if (!controls[i].name || !controls[i].name[0])
            return gpud_fail(error, GPUD_INVALID, "control %u has no name", i);
    return GPUD_OK;
}

static void controls_drop(struct gpud_capture_control *control)
{
    free((char *)control->name);
    free((char *)control->text);
}

static void controls_clear(struct gpud_controls *kept)
{
    for (uint32_t i = 0; i < kept->count; i++)
        controls_drop(&kept->control[i]);
    kept->count = 0;
}

/* Copies; a later one of the same name replaces an earlier one. False: out of memory, or of room.
 */
static bool controls_keep(struct gpud_controls *kept, const struct gpud_capture_control *controls,
                          uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_capture_control copy = {.name = strdup(controls[i].name),
                                            .value = controls[i].value};
        copy.text = controls[i].text ? strdup(controls[i].text) : NULL;
        uint32_t place = 0;
        while (copy.name && place < kept->count &&
               strcmp(kept->control[place].name, copy.name) != 0)
            place++;
        if (!copy.name || (controls[i].text && !copy.text) || place == GPUD_CAPTURE_CONTROLS_MAX) {
            controls_drop(&copy);
            return false;
        }
        if (place < kept->count)
            controls_drop(&kept->control[place]);
        else
            kept->count++;
        kept->control[place] = copy;
    }
    return true;
}

/* --- create and destroy -------------------------------------------------------------------- */

static enum gpud_status capture_read_params(struct gpud_capture_params *own,
                                            const struct gpud_capture_params *params,
                                            struct gpud_error *error)
{
    enum gpud_status status =
        gpud_sized_read(own, sizeof(*own), params, GPUD_END_OF(struct gpud_capture_params, address),
                        "gpud_capture_params", error);
    if (status != GPUD_OK)
        return status;
    const char *address = own->address;
    if (!address || strncmp(address, SCHEME "/", sizeof(SCHEME "/") - 1) != 0)
        return gpud_fail(error, GPUD_INVALID,
                         "\"%s\" is not a capture address: write v4l2:///dev/video0",
                         address ? address : "");
    if (strlen(address) - strlen(SCHEME) >= sizeof(((struct gpud_v4l2 *)0)->path))
        return gpud_fail(error, GPUD_INVALID, "the capture address is too long");
    if (own->input && strlen(own->input) >= sizeof(((struct gpud_capture *)0)->wanted.input))
        return gpud_fail(error, GPUD_INVALID, "the input's name is too long: \"%.40s…\"",
                         own->input);
    status = controls_check(own->controls, own->control_count, error);
    if (status != GPUD_OK)
        return status;
    if (own->slots > SLOTS_MAX)
        return gpud_fail(error, GPUD_INVALID, "%u slots: up to %d are possible", own->slots,
                         SLOTS_MAX);
    if (!own->method)
        return GPUD_OK;
    for (size_t i = 0; gpud_capture_methods[i]; i++)
        if (strcmp(gpud_capture_methods[i]->name, own->method) == 0)
            return GPUD_OK;
    return gpud_fail(error, GPUD_INVALID,
                     "\"%s\" is not a capture method: use dmabuf, userptr or mmap", own->method);
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
    if (!controls_keep(&made->wanted.controls, params->controls, params->control_count))
        status = gpud_fail(error, GPUD_NO_MEMORY, "out of memory for controls");
    if (status == GPUD_OK)
        status = gpud_v4l2_open(&made->node, error);
    if (status == GPUD_OK)
        status = set_up(made, error);
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
    drop_ring(gone, true, NULL);
    drop_kept(gone);
    gpud_v4l2_close(&gone->node);
    unwatch_folders(gone);
    disarm(gone);
    controls_clear(&gone->wanted.controls);
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

static enum gpud_status set_mode(struct gpud_capture *capture, const struct gpud_capture_mode *mode,
                                 struct gpud_error *error)
{
    struct gpud_capture_mode wanted;
    enum gpud_status status =
        gpud_sized_read(&wanted, sizeof(wanted), mode,
                        GPUD_END_OF(struct gpud_capture_mode, fps_den), "gpud_capture_mode", error);
    if (status != GPUD_OK)
        return status;
    uint32_t width = wanted.width_min, height = wanted.height_min;
    bool own = width == 0 && height == 0;
    if (!memchr(wanted.format, '\0', sizeof(wanted.format)) || !wanted.format[0] ||
        (!own && (width < 1 || height < 1)) || width > GPUD_DIMENSION_MAX ||
        height > GPUD_DIMENSION_MAX)
        return gpud_fail(
            error, GPUD_INVALID, "a capture of %.*s %ux%u: a format and 1x1 to %dx%d are needed",
            (int)sizeof(wanted.format), wanted.format[0] ? wanted.format : "(no format)", width,
            height, GPUD_DIMENSION_MAX, GPUD_DIMENSION_MAX);
    if (wanted.fps_den < 1)
        return gpud_fail(error, GPUD_INVALID, "a rate of %u/%u frames a second", wanted.fps_num,
                         wanted.fps_den);
    if ((unsigned)wanted.scan > GPUD_SCAN_ALTERNATE)
        return gpud_fail(error, GPUD_INVALID, "%u is not a way to scan", (unsigned)wanted.scan);

    status = gpud_capture_report(capture, GPUD_CAPTURE_ON_CONFIGURE, NULL, error);
    if (status != GPUD_OK)
        return status;
    gpud_input_detect(&capture->node, &capture->signal.now);
    publish_signal(capture);
    const struct gpud_input *source = &capture->signal.now;
    /* A caller that asks for the signal's size also follows later changes of it. */
    if (width == source->width && height == source->height)
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
    enum gpud_status status = controls_check(controls, count, error);
    if (status != GPUD_OK)
        return status;
    gpud_lock_take(&capture->node_lock);
    if (capture->node.fd < 0)
        status = gpud_fail(error, GPUD_NO_DEVICE, "%s is unplugged", capture->card.home);
    else
        status = gpud_controls_set(&capture->node, controls, count, error);
    if (status == GPUD_OK && !controls_keep(&capture->wanted.controls, controls, count))
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

enum gpud_status gpud_capture_wait(struct gpud_capture *capture, int64_t timeout_ns,
                                   struct gpud_error *error)
{
    int64_t deadline = gpud_deadline(timeout_ns);
    if (timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
    /* Notices that it is unplugged. */
    gpud_capture_report(capture, GPUD_CAPTURE_ON_WAIT, NULL, NULL);
    while (capture->state.card != GPUD_CARD_PRESENT) {
        enum gpud_status status = gpud_capture_report(capture, GPUD_CAPTURE_ON_WAIT, NULL, error);
        if (status != GPUD_OK)
            return status;
        if (atomic_load(&capture->interrupt.set))
            return gpud_fail(error, GPUD_AGAIN, "the capture was interrupted");
        int nodes = capture->card.nodes_fd;
        char events[4096];
        bool due = is_time(capture); /* or a node appeared */
        while (nodes >= 0 && read(nodes, events, sizeof(events)) > 0)
            due = true;
        if (due)
            status =
                gpud_capture_report(capture, GPUD_CAPTURE_ON_DUE, NULL, &capture->card.absence);
        if (capture->state.card == GPUD_CARD_PRESENT) {
            if (status != GPUD_OK && error)
                *error = capture->card.absence;
            return status;
        }
        if (gpud_now() >= deadline)
            return gpud_fail(error, GPUD_TIMEOUT, "%s", capture->card.absence.reason);
        struct pollfd fds[] = {
            {.fd = capture->card.nodes_fd, .events = POLLIN},
            {.fd = capture->timer_fd, .events = POLLIN},
            {.fd = capture->interrupt.fd, .events = POLLIN},
        };
        struct timespec left = gpud_time_left(deadline);
        ppoll(fds, 3, &left, NULL);
    }
    return GPUD_OK;
}
