/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "source.h"

#include <string.h>

/* One that is shown, and the newest one behind it. */
#define SLOTS 2

static void on_event(void *user, enum gpud_event event, const void *data)
{
    struct source *source = user;
    const struct gpud_format_event *format = data;
    if (event != GPUD_EVENT_FORMAT)
        return;
    source->media = format->media;
    memcpy(source->device, format->device, sizeof(source->device));
    source->formats++;
}

bool source_open(struct source *source, const struct source_options *options,
                 struct gpud_error *error)
{
    *source = (struct source){0};
    struct gpud_context_params context = GPUD_PARAMS_INIT(context);
    if (gpud_context_create(&context, &source->context, error) != GPUD_OK)
        return false;
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    params.address = options->address;
    params.access = options->access;
    params.psk_file = options->psk_file;
    params.name = "gpudirect-view";
    params.slots = SLOTS;
    params.slow_receiver = GPUD_SLOW_DROP_OLDEST;
    params.busy_poll_ns = -1;
    params.on_event = on_event;
    params.user = source;
    if (gpud_receiver_create(source->context, &params, &source->receiver, error) == GPUD_OK)
        return true;
    gpud_context_destroy(&source->context);
    return false;
}

void source_close(struct source *source)
{
    gpud_receiver_destroy(&source->receiver);
    gpud_context_destroy(&source->context);
}

enum gpud_status source_acquire(struct source *source, int64_t timeout_ns,
                                struct gpud_frame **frame, struct gpud_error *error)
{
    enum gpud_status status = gpud_receiver_acquire(source->receiver, timeout_ns, frame, error);
    if (status != GPUD_OK)
        return status;
    source->frames++;
    struct gpud_frame *newer;
    while (gpud_receiver_count_frames(source->receiver) > 0 &&
           gpud_receiver_acquire(source->receiver, 0, &newer, NULL) == GPUD_OK) {
        gpud_frame_release(frame);
        *frame = newer;
        source->frames++;
        source->skipped++;
    }
    return GPUD_OK;
}
