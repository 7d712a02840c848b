/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Setting a card up: its format, fields and rate, what they are then, and the ring for them. */
#include "capture/capture.h"

#include "base/clock.h"
#include "base/sized.h"
#include "capture/colorimetry.h"
#include "capture/method.h"

#include <errno.h>
#include <linux/videodev2.h>
#include <string.h>

/* --- the format ---------------------------------------------------------------------------- */

static enum gpud_status choose_format(struct gpud_capture *capture, const char *format,
                                      uint32_t *fourcc, struct gpud_error *error)
{
    if (!capture->fourcc) /* another signal changes nothing in it */
        capture->fourcc = gpud_capture_find_format(&capture->node, format);
    *fourcc = capture->fourcc;
    if (*fourcc)
        return GPUD_OK;
    if (gpud_format_fourcc(format, 0) == 0)
        return gpud_fail(error, GPUD_UNSUPPORTED, "\"%.16s\" is not a format that is captured here",
                         format);
    char offered[128];
    gpud_capture_name_formats(&capture->node, offered, sizeof(offered));
    return gpud_fail(error, GPUD_UNSUPPORTED, "%s does not offer %s; it has %s", capture->node.path,
                     format, offered);
}

static const char *scan_name(uint32_t field)
{
    switch (gpud_scan_of_field(field)) {
    case GPUD_SCAN_PROGRESSIVE:
        return "progressive pictures";
    case GPUD_SCAN_INTERLEAVED:
        return "interleaved fields";
    case GPUD_SCAN_ALTERNATE:
        return "single fields";
    case GPUD_SCAN_ANY:
        break;
    }
    return "two fields one below the other, which no frame can be";
}

/* Height and format.height: of both fields together and of what a buffer holds. */
static int ask(const struct gpud_v4l2 *node, uint32_t field, uint32_t width, uint32_t height,
               struct gpud_v4l2_format *format)
{
    *format = (struct gpud_v4l2_format){
        .fourcc = format->fourcc,
        .width = width,
        .height = field == V4L2_FIELD_ALTERNATE ? height / 2 : height,
        .field = field,
    };
    return gpud_v4l2_set_format(node, format);
}

static bool one_below_the_other(uint32_t field)
{
    return field == V4L2_FIELD_SEQ_TB || field == V4L2_FIELD_SEQ_BT;
}

/* A driver that may choose takes its signal's own fields. Single ones have a height of their own,
 * and where two lie one below the other it may have another way. */
static int ask_for_scan(const struct gpud_v4l2 *node, enum gpud_scan scan, uint32_t width,
                        uint32_t height, struct gpud_v4l2_format *format)
{
    uint32_t field = gpud_field_of_scan(scan);
    int result = ask(node, field, width, height, format);
    if (result == 0 && one_below_the_other(format->field) && scan == GPUD_SCAN_ANY)
        result = ask(node, V4L2_FIELD_INTERLACED, width, height, format);
    bool single = format->field == V4L2_FIELD_ALTERNATE && field != V4L2_FIELD_ALTERNATE;
    bool stuck = one_below_the_other(format->field);
    if (result == 0 && scan == GPUD_SCAN_ANY && (single || stuck))
        result = ask(node, V4L2_FIELD_ALTERNATE, width, height, format);
    return result;
}

static enum gpud_status refused(struct gpud_capture *capture, const char *name, uint32_t width,
                                uint32_t height, struct gpud_error *error)
{
    int number = errno;
    if (number == EBUSY)
        return gpud_fail_native(error, GPUD_IO, "errno", EBUSY, "%s is in use by another program",
                                capture->node.path);
    char offered[128];
    gpud_capture_name_formats(&capture->node, offered, sizeof(offered));
    errno = number;
    return gpud_fail_errno(error, "%s does not take the format %s %ux%u; it has %s",
                           capture->node.path, name, width, height, offered);
}

static enum gpud_status set_format(struct gpud_capture *capture, struct gpud_v4l2_format *format,
                                   struct gpud_placement *placement, struct gpud_error *error)
{
    const struct gpud_capture_mode *wanted = &capture->wanted;
    const char *name = wanted->format;
    /* Where another input has no size of its own, the pictures stay as large as they are. */
    const struct gpud_layout *last = &capture->info.layout; /* written by this thread alone */
    bool own = capture->source.width && capture->source.height;
    bool asked = wanted->width_min && (capture->scales || !own);
    uint32_t width = asked ? wanted->width_min : own ? capture->source.width : last->width;
    uint32_t height = asked ? wanted->height_min
                      : own ? capture->source.height
                            : last->height * (capture->alternate ? 2 : 1);
    if (!width || !height)
        return gpud_fail(error, GPUD_INVALID,
                         "%s has no signal with a size of its own: ask for one of its sizes",
                         capture->node.path);
    enum gpud_status status = choose_format(capture, name, &format->fourcc, error);
    if (status != GPUD_OK)
        return status;
    /* Of a signal of the other kind the card makes what it makes. */
    enum gpud_scan asked_scan =
        capture->source.interlaced == capture->interlaced ? wanted->scan : GPUD_SCAN_ANY;
    if (ask_for_scan(&capture->node, asked_scan, width, height, format) < 0)
        return refused(capture, name, width, height, error);
    gpud_v4l2_reset_compose(&capture->node);
    enum gpud_scan scan = gpud_scan_of_field(format->field);
    if (scan == GPUD_SCAN_ANY || (asked_scan != GPUD_SCAN_ANY && scan != asked_scan))
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s makes %s of its signal%s", capture->node.path,
                         scan_name(format->field),
                         scan == GPUD_SCAN_ANY ? ": set the source to progressive"
                                               : ": ask for these");
    status = gpud_format_place(format, placement, error);
    const char *opaque = status == GPUD_OK ? gpud_format_opaque(placement->layout.format) : NULL;
    if (opaque && strcmp(opaque, name) == 0) /* its alpha is nothing to go by */
        gpud_print(placement->layout.format, "%s", opaque);
    else if (gpud_format_has_alpha(name) && !gpud_controls_set_alpha(&capture->controls))
        gpud_controls_make_opaque(&capture->node);
    if (status == GPUD_OK && strcmp(placement->layout.format, name) != 0)
        status = gpud_fail(error, GPUD_UNSUPPORTED, "%s offers %s, but gives %s instead",
                           capture->node.path, name, placement->layout.format);
    return status;
}

/* --- what get_info tells ------------------------------------------------------------------- */

/* How buffers will be stamped, by the driver's word for those that it has; 0: it does not say. */
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

/* What the driver says of its pictures beside their layout. With the lock held. */
static void note_format(struct gpud_capture *capture, const struct gpud_v4l2_format *format,
                        const struct gpud_hdr_metadata *hdr, uint32_t fps_num, uint32_t fps_den)
{
    struct gpud_capture_info *info = &capture->info;
    gpud_capture_read_colors(format, &info->colorimetry);
    info->hdr = *hdr;
    info->fps_num = fps_num;
    info->fps_den = fps_den;
    info->scan = gpud_scan_of_field(format->field);
    info->bottom_first =
        format->field == V4L2_FIELD_INTERLACED_BT ||
        (format->field != V4L2_FIELD_INTERLACED_TB && capture->source.bottom_first);
    gpud_input_aspect(&capture->source, format, &info->aspect_x, &info->aspect_y);
}

/* The driver's rate, else the signal's. */
static void read_rate(struct gpud_capture *capture, uint32_t *fps_num, uint32_t *fps_den)
{
    gpud_v4l2_rate(&capture->node, fps_num, fps_den);
    if (*fps_num)
        return;
    *fps_num = capture->source.fps_num;
    *fps_den = capture->source.fps_den;
}

static void set_duration(struct gpud_capture *capture, uint32_t fps_num, uint32_t fps_den)
{
    uint32_t fields = capture->alternate ? 2 : 1;
    capture->frame_duration =
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
    read_rate(capture, &fps_num, &fps_den);
    set_duration(capture, fps_num, fps_den);
    gpud_lock_take(&capture->lock);
    struct gpud_capture_info before = capture->info;
    note_format(capture, &format, &hdr, fps_num, fps_den);
    bool changed = memcmp(&before, &capture->info, sizeof(before)) != 0;
    gpud_lock_release(&capture->lock);
    return changed;
}

static void publish(struct gpud_capture *capture, const struct gpud_v4l2_format *format,
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
    info->layout = ring->placement.layout;
    gpud_print(info->card_format, "%s", info->layout.format);
    info->monotonic = (stamps & V4L2_BUF_FLAG_TIMESTAMP_MASK) == V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC;
    info->started = (uint64_t)capture->began;
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

static void unpublish(struct gpud_capture *capture)
{
    gpud_lock_take(&capture->lock);
    struct gpud_capture_info *info = &capture->info;
    gpud_print(info->path, "none");
    info->fallback_reason[0] = '\0';
    memset(&info->layout, 0, sizeof(info->layout));
    info->fps_num = 0;
    info->fps_den = 1;
    info->monotonic = info->stamps_start = false;
    memset(&info->colorimetry, 0, sizeof(info->colorimetry));
    memset(&info->hdr, 0, sizeof(info->hdr));
    info->scan = GPUD_SCAN_ANY;
    info->aspect_x = info->aspect_y = 0;
    gpud_lock_release(&capture->lock);
}

/* --- beginning ----------------------------------------------------------------------------- */

/* Whether that is why the driver does not start. */
static bool lacks_signal(struct gpud_capture *capture, long number)
{
    struct gpud_input *source = &capture->source;
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

/* Streams by the best of the methods that may be taken. *refused: to start, by an error that is in
 * *error, too. */
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
    capture->began = gpud_now();
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

/* Only the buffers become others: the card stays set up as it is. */
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
    uint32_t fps_num = capture->info.fps_num, fps_den = capture->info.fps_den;
    bool refused;

    unpublish(capture);
    enum gpud_status status = gpud_capture_drop_ring(capture, false, error);
    if (status == GPUD_OK && gpud_v4l2_get_format(&capture->node, &format) < 0)
        status = gpud_fail_errno(error, "%s does not tell its format", capture->node.path);
    if (status == GPUD_OK)
        status = stream(capture, &placement, &choice, &refused, error);
    if (status != GPUD_OK)
        return status;
    capture->numbered = capture->poll_failed = false;
    capture->discontinuity = true;
    capture->epoch++; /* other memory */
    publish(capture, &format, fps_num, fps_den);
    return GPUD_OK;
}

/* It is configured all the same: frames come when there is a signal. */
static enum gpud_status stay_unstarted(struct gpud_capture *capture,
                                       const struct gpud_placement *placement,
                                       const struct gpud_v4l2_format *format, uint32_t fps_num,
                                       uint32_t fps_den, struct gpud_error *error)
{
    struct gpud_hdr_metadata hdr = {0};
    if (!gpud_capture_arm(capture, GPUD_CAPTURE_LOOK, GPUD_CAPTURE_LOOK))
        return gpud_fail_errno(error, "%s cannot be waited for", capture->node.path);
    unpublish(capture);
    gpud_lock_take(&capture->lock);
    capture->info.layout = placement->layout;
    note_format(capture, format, &hdr, fps_num, fps_den);
    gpud_lock_release(&capture->lock);
    capture->unstarted = true;
    return GPUD_OK;
}

enum gpud_status gpud_capture_begin(struct gpud_capture *capture, struct gpud_error *error)
{
    struct gpud_placement placement;
    struct gpud_v4l2_format format = {0};
    struct gpud_error why;
    uint32_t fps_num = capture->wanted.fps_num, fps_den = capture->wanted.fps_den;
    bool refused = false;
    capture->unstarted = capture->changed = false;
    gpud_input_set(&capture->node, &capture->source);
    enum gpud_status status = set_format(capture, &format, &placement, &why);
    if (status == GPUD_OK) {
        read_rate(capture, &fps_num, &fps_den);
        struct gpud_capture_choice choice = choice_of(capture);
        status = stream(capture, &placement, &choice, &refused, &why);
    }
    capture->alternate = format.field == V4L2_FIELD_ALTERNATE;
    if (refused && lacks_signal(capture, why.native))
        return stay_unstarted(capture, &placement, &format, fps_num, fps_den, error);
    if (status != GPUD_OK) {
        if (error)
            *error = why;
        return status;
    }
    set_duration(capture, fps_num, fps_den);
    publish(capture, &format, fps_num, fps_den);
    capture->poll_failed = capture->said_full = capture->said_clock = capture->numbered = false;
    capture->discontinuity = capture->epoch > 0;
    capture->epoch++;
    return GPUD_OK;
}

/* Ends what was, and opens the node again if the card was unplugged. */
static enum gpud_status start_over(struct gpud_capture *capture, struct gpud_error *error)
{
    unpublish(capture);
    capture->unstarted = false;
    gpud_capture_disarm(capture);
    bool open = !capture->gone && capture->node.fd >= 0;
    enum gpud_status status = gpud_capture_drop_ring(capture, !open, &capture->failure);
    if (status == GPUD_OK)
        capture->failure.status = GPUD_OK; /* of a stream that is no more */
    else
        gpud_capture_ring_end(capture->ring);
    if (status != GPUD_OK && error)
        *error = capture->failure;
    if (open)
        return status;
    status = gpud_capture_reopen(capture, error);
    if (capture->node.fd >= 0)
        gpud_capture_note_return(capture);
    else
        gpud_capture_note_gone(capture);
    return status;
}

void gpud_capture_stop(struct gpud_capture *capture)
{
    unpublish(capture);
    gpud_capture_drop_ring(capture, true, NULL);
    if (!capture->waits)
        gpud_capture_disarm(capture);
    capture->unstarted = capture->changed = false;
    capture->failure.status = GPUD_OK;
    capture->wanted.format[0] = '\0';
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
                         (int)sizeof(mode->format), mode->format, width, height, GPUD_DIMENSION_MAX,
                         GPUD_DIMENSION_MAX);
    if (mode->fps_den < 1)
        return gpud_fail(error, GPUD_INVALID, "a rate of %u/%u frames a second", mode->fps_num,
                         mode->fps_den);
    if ((unsigned)mode->scan > GPUD_SCAN_ALTERNATE)
        return gpud_fail(error, GPUD_INVALID, "%u is not a way to scan", (unsigned)mode->scan);
    return GPUD_OK;
}

enum gpud_status gpud_capture_configure_mode(struct gpud_capture *capture,
                                             const struct gpud_capture_mode *mode,
                                             struct gpud_error *error)
{
    struct gpud_capture_mode wanted;
    enum gpud_status status =
        gpud_sized_read(&wanted, sizeof(wanted), mode,
                        GPUD_END_OF(struct gpud_capture_mode, fps_den), "gpud_capture_mode", error);
    if (status == GPUD_OK)
        status = check_mode(&wanted, error);
    if (status == GPUD_OK)
        status = start_over(capture, error);
    if (status != GPUD_OK)
        return status;
    gpud_input_detect(&capture->node, &capture->source);
    gpud_capture_publish_signal(capture);
    const struct gpud_input *source = &capture->source;
    /* Who asks for the signal's size gets that of the next one, too. */
    if (wanted.width_min == source->width && wanted.height_min == source->height)
        wanted.width_min = wanted.height_min = 0;
    capture->wanted = wanted;
    capture->fourcc = 0;
    capture->scales = wanted.width_min && source->width;
    capture->interlaced = source->interlaced;
    status = gpud_capture_begin(capture, error);
    if (status == GPUD_NO_DEVICE)
        gpud_capture_note_gone(capture);
    return status;
}

enum gpud_status gpud_capture_configure(struct gpud_capture *capture, const char *format,
                                        uint32_t width, uint32_t height, uint32_t fps_num,
                                        uint32_t fps_den, struct gpud_error *error)
{
    struct gpud_capture_mode mode = {
        .size = sizeof(mode),
        .width_min = width,
        .height_min = height,
        .fps_num = fps_num,
        .fps_den = fps_den,
    };
    if (!format || width < 1 || height < 1 || width > GPUD_DIMENSION_MAX ||
        height > GPUD_DIMENSION_MAX)
        return gpud_fail(
            error, GPUD_INVALID, "a capture of %s %ux%u: a format and 1x1 to %dx%d are needed",
            format ? format : "(no format)", width, height, GPUD_DIMENSION_MAX, GPUD_DIMENSION_MAX);
    if (strlen(format) >= sizeof(mode.format))
        return gpud_fail(error, GPUD_UNSUPPORTED, "\"%.16s\" is not a format that is captured here",
                         format);
    gpud_print(mode.format, "%s", format);
    return gpud_capture_configure_mode(capture, &mode, error);
}
