/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Carries out the actions of the state machine. The outcome of each is the machine's next event. */
#include "capture/actions.h"

#include "capture/card.h"
#include "capture/publish.h"
#include "capture/ring_watch.h"
#include "capture/stream.h"
#include "capture/watch.h"

#include <errno.h>

#define NO_EVENT GPUD_CAPTURE_EVENTS

/* Ends the stream whatever the driver says. */
static void drop(struct gpud_capture *capture)
{
    gpud_capture_unpublish(capture);
    gpud_capture_drop_ring(capture, true, NULL);
    if (capture->state.card != GPUD_CARD_AWAITED) /* else the timer is for the card */
        gpud_capture_disarm(capture);
}

static enum gpud_capture_event release(struct gpud_capture *capture, struct gpud_error *why)
{
    gpud_capture_unpublish(capture);
    gpud_capture_disarm(capture);
    why->status = gpud_capture_drop_ring(capture, false, why);
    if (why->status != GPUD_OK)
        return GPUD_CAPTURE_ON_HELD;
    gpud_capture_select_input(capture);
    return NO_EVENT;
}

static enum gpud_capture_event start(struct gpud_capture *capture, struct gpud_error *why)
{
    bool deferred;
    why->status = gpud_capture_begin(capture, &deferred, why);
    return why->status != GPUD_OK ? GPUD_CAPTURE_ON_FAILED
           : deferred             ? GPUD_CAPTURE_ON_NO_SIGNAL
                                  : GPUD_CAPTURE_ON_STARTED;
}

static enum gpud_capture_event replace(struct gpud_capture *capture, struct gpud_error *why)
{
    if (gpud_capture_drop_ring(capture, false, NULL) != GPUD_OK)
        return GPUD_CAPTURE_ON_HELD;
    gpud_capture_select_input(capture);
    enum gpud_capture_event event = start(capture, why);
    if (why->status == GPUD_OK)
        gpud_capture_count_change(capture);
    return event;
}

static enum gpud_capture_event fall_back(struct gpud_capture *capture, struct gpud_error *why)
{
    struct gpud_error reason = *why;
    why->status = gpud_capture_fall_back(capture, &reason, why);
    return why->status == GPUD_OK ? GPUD_CAPTURE_ON_STARTED : GPUD_CAPTURE_ON_FAILED;
}

/* Event loops see that acquire has something to report. */
static void end(struct gpud_capture *capture, const struct gpud_error *why)
{
    capture->failure = *why;
    if (capture->ring)
        gpud_capture_ring_end(capture->ring);
    else /* a replacement was meant to follow, and failed */
        gpud_capture_arm(capture, 0, 0);
}

static enum gpud_capture_event reopen(struct gpud_capture *capture, struct gpud_error *why)
{
    drop(capture);
    why->status = gpud_capture_reopen(capture, why);
    return capture->node.fd >= 0 ? GPUD_CAPTURE_ON_RETURNED : GPUD_CAPTURE_ON_ABSENT;
}

/* A card that is there but not ready, for its firmware is loaded, is tried again. */
static enum gpud_capture_event try_return(struct gpud_capture *capture, struct gpud_error *why)
{
    bool watched = gpud_capture_watch_folders(capture); /* before the look: none is missed */
    why->status = gpud_capture_reopen(capture, why);
    bool opened = capture->node.fd >= 0;
    enum gpud_capture_event event = GPUD_CAPTURE_ON_RETURNED;
    if (why->status == GPUD_OK && capture->wanted.mode.format[0])
        event = start(capture, why);
    if (why->status == GPUD_OK)
        return event;
    if (opened && (why->status == GPUD_UNSUPPORTED || why->status == GPUD_INVALID))
        return GPUD_CAPTURE_ON_FAILED;
    if (opened || why->native != ENOENT || !watched)
        gpud_capture_arm(capture, GPUD_CAPTURE_LOOK, 0);
    return GPUD_CAPTURE_ON_ABSENT;
}

static void welcome(struct gpud_capture *capture, const struct gpud_error *why)
{
    gpud_capture_unwatch_folders(capture);
    if (capture->state.phase != GPUD_CAPTURE_DEFERRED) /* else the timer is for the signal now */
        gpud_capture_disarm(capture);
    if (capture->state.phase == GPUD_CAPTURE_FAILED)
        capture->failure = *why;
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
        return release(capture, why);
    case GPUD_CAPTURE_DO_DROP:
        drop(capture);
        break;
    case GPUD_CAPTURE_DO_REOPEN:
        return reopen(capture, why);
    case GPUD_CAPTURE_DO_START:
        return start(capture, why);
    case GPUD_CAPTURE_DO_REPLACE:
        return replace(capture, why);
    case GPUD_CAPTURE_DO_FALL_BACK:
        return fall_back(capture, why);
    case GPUD_CAPTURE_DO_SELECT:
        gpud_capture_drop_ring(capture, true, NULL);
        gpud_capture_select_input(capture);
        break;
    case GPUD_CAPTURE_DO_END:
        end(capture, why);
        break;
    case GPUD_CAPTURE_DO_PROBE:
        return gpud_v4l2_is_alive(&capture->node) ? NO_EVENT : GPUD_CAPTURE_ON_UNPLUGGED;
    case GPUD_CAPTURE_DO_WATCH:
        why->status = gpud_capture_watch_for_card(capture, why);
        return why->status == GPUD_OK ? GPUD_CAPTURE_ON_WATCHED : NO_EVENT;
    case GPUD_CAPTURE_DO_LET_GO:
        gpud_capture_drop_ring(capture, true, NULL);
        gpud_capture_close_node(capture);
        break;
    case GPUD_CAPTURE_DO_RETURN:
        return try_return(capture, why);
    case GPUD_CAPTURE_DO_WELCOME:
        welcome(capture, why);
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
        if (moved)
            gpud_capture_publish_card(capture);
    }
    if (now.status != GPUD_OK && error)
        *error = now;
    return now.status;
}
