/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Another signal at the input while frames are captured: it is set, and the same format goes on in
 * a new ring. */
#include "capture/capture.h"

#include "base/clock.h"

#include <string.h>

/* How often a driver without an event is asked, and any while there is no signal. */
#define LOOK (500 * GPUD_MSEC)

void gpud_capture_publish_signal(struct gpud_capture *capture)
{
    const struct gpud_input *source = &capture->source;
    pthread_mutex_lock(&capture->lock);
    bool was = capture->info.signal;
    capture->info.signal = source->present;
    gpud_print(capture->info.signal_reason, "%s", source->reason);
    capture->info.signal_width = source->width;
    capture->info.signal_height = source->height;
    pthread_mutex_unlock(&capture->lock);
    if (was && !source->present)
        gpud_log_warning(&capture->context->log, "capture", "%s", source->reason);
}

static void count_change(struct gpud_capture *capture)
{
    pthread_mutex_lock(&capture->lock);
    capture->info.signal_changes++;
    pthread_mutex_unlock(&capture->lock);
}

/* Whether another configuration is needed. Where only colours or the rate changed the next frame
 * says so by its epoch. */
static bool look(struct gpud_capture *capture)
{
    struct gpud_input found;
    bool was_present = capture->source.present;
    gpud_input_detect(&capture->node, &found);
    bool moved = found.width != capture->source.width || found.height != capture->source.height ||
                 found.interlaced != capture->source.interlaced;
    capture->source = found;
    gpud_capture_publish_signal(capture);
    if (!found.present)
        return false;
    if (!was_present)
        capture->discontinuity = true;
    if (!gpud_input_is_set(&capture->node, &found) || (moved && !capture->wanted.width_min))
        return true;
    if (gpud_capture_publish_format(capture)) {
        capture->epoch++;
        count_change(capture);
    }
    return false;
}

enum gpud_status gpud_capture_follow(struct gpud_capture *capture, bool *held,
                                     struct gpud_error *error)
{
    *held = false;
    if (!capture->changed) {
        capture->look_at = gpud_now() + LOOK;
        bool told = capture->tells && gpud_input_take_events(&capture->node);
        if (!told && capture->tells && capture->source.present)
            return GPUD_OK;
        capture->changed = look(capture);
    }
    if (!capture->changed)
        return GPUD_OK;
    gpud_log_info(&capture->context->log, "capture", "%s has another signal: %ux%u",
                  capture->node.path, capture->source.width, capture->source.height);
    enum gpud_status status = gpud_capture_drop_ring(capture, false, error);
    *held = status == GPUD_IO;
    if (status == GPUD_OK)
        status = gpud_capture_begin(capture, error);
    if (status == GPUD_OK)
        count_change(capture);
    return status;
}
