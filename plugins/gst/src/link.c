/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Frames of a sender. */
#include "src/src.h"

#include "base/plugin.h"

struct link_input {
    struct input parent; /* first */
    struct gpud_receiver *receiver;
};

static enum gpud_status link_open(const struct input_params *params, struct input **input,
                                  struct gpud_error *error)
{
    struct gpud_receiver_params receiver = GPUD_PARAMS_INIT(receiver);
    struct gpud_context *context = gpud_gst_context_get(error);
    if (!context)
        return error->status;
    receiver.address = params->address;
    receiver.name = params->name;
    receiver.device = params->device;
    receiver.slots = params->slots_set ? params->slots : 0;
    receiver.picture_slots = params->slots;
    receiver.slow_receiver = params->slow_receiver;
    receiver.require_direct = params->require_direct;
    receiver.access = params->access;
    receiver.psk_file = params->psk_file;
    receiver.max_frame_size = params->max_frame_size;
    receiver.busy_poll_ns = params->busy_poll ? params->busy_poll * GPUD_USEC : -1;
    receiver.on_event = params->on_event;
    receiver.user = params->user;

    struct link_input *link = g_new0(struct link_input, 1);
    enum gpud_status status = gpud_receiver_create(context, &receiver, &link->receiver, error);
    if (status != GPUD_OK) {
        g_free(link);
        return status;
    }
    link->parent.ops = &link_input_ops;
    *input = &link->parent;
    return GPUD_OK;
}

static void link_close(struct input *input)
{
    struct link_input *link = (struct link_input *)input;

    gpud_receiver_destroy(&link->receiver);
    g_free(link);
}

static enum gpud_status link_acquire(struct input *input, gint64 timeout, struct gpud_frame **frame,
                                     struct gpud_error *error)
{
    return gpud_receiver_acquire(((struct link_input *)input)->receiver, timeout, frame, error);
}

static guint link_count_frames(struct input *input)
{
    return gpud_receiver_count_frames(((struct link_input *)input)->receiver);
}

static void link_set_latency(struct input *input, guint64 latency)
{
    gpud_receiver_set_latency(((struct link_input *)input)->receiver, latency);
}

static void link_interrupt(struct input *input, gboolean interrupted)
{
    gpud_receiver_interrupt(((struct link_input *)input)->receiver, interrupted);
}

static void link_want_slots(struct input *input, guint slots)
{
    gpud_receiver_set_slots(((struct link_input *)input)->receiver, slots);
}

static void link_get_info(struct input *input, struct input_info *info)
{
    struct gpud_receiver_info from = GPUD_INFO_INIT(from);

    gpud_receiver_get_info(((struct link_input *)input)->receiver, &from);
    *info = (struct input_info){
        .connected = from.connected,
        .frames = from.frames,
        .dropped = from.dropped,
        .corrupted = from.corrupted,
        .connects = from.connects,
        .disconnects = from.disconnects,
        .copies_cpu = from.copies_cpu,
        .copies_gpu = from.copies_gpu,
        .waits_cpu = from.waits_cpu,
        .waits_device = from.waits_device,
        .kicks = from.kicks,
        .latency_p50 = from.latency_p50_ns,
        .latency_p99 = from.latency_p99_ns,
        .latency_max = from.latency_max_ns,
        .slots = from.slots,
        .slots_max = from.slots_max,
    };
    g_strlcpy(info->path, from.path, sizeof(info->path));
    g_strlcpy(info->fallback_reason, from.fallback_reason, sizeof(info->fallback_reason));
}

const struct input_ops link_input_ops = {
    .kind = INPUT_LINK,
    .what = "the sender",
    .open = link_open,
    .close = link_close,
    .acquire = link_acquire,
    .count_frames = link_count_frames,
    .set_latency = link_set_latency,
    .interrupt = link_interrupt,
    .want_slots = link_want_slots,
    .get_info = link_get_info,
};
