/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* An end of a pipeline that uses the C library alone. ends.py calls it, and says when and what. */
#include <gpudirect/gpudirect.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT (60 * INT64_C(1000000000))

struct end {
    struct gpud_context *context;
    struct gpud_sender *sender;
    struct gpud_receiver *receiver;
    struct gpud_frame *held; /* the last one that was received */
    bool by_lines;
    struct gpud_error error;
};

/* Each gives GPUD_OK, or a failure that end_reason() explains. */
struct end *end_new(const char *address, const char *psk_file, int policy, bool sends,
                    bool by_lines);
const char *end_reason(const struct end *end);
int end_configure(struct end *end, const char *media);
uint32_t end_receivers(struct end *end);
int end_switch(struct end *end, const char *address, const char *psk_file);
bool end_receives_from(struct end *end, const char *address);
int end_push(struct end *end, const void *data, size_t size, bool is_block, uint64_t number,
             uint64_t pts, uint64_t duration, uint32_t flags, uint32_t rows);
int end_stop(struct end *end);
int end_take(struct end *end, void *data, size_t *size, uint64_t *pts, uint32_t *flags);
uint64_t end_dropped(struct end *end);
void end_free(struct end *end);

struct end *end_new(const char *address, const char *psk_file, int policy, bool sends,
                    bool by_lines)
{
    struct end *end = calloc(1, sizeof(*end));
    struct gpud_sender_params sending = GPUD_PARAMS_INIT(sending);
    struct gpud_receiver_params receiving = GPUD_PARAMS_INIT(receiving);

    if (!end)
        abort();
    sending.address = receiving.address = address;
    sending.psk_file = receiving.psk_file = psk_file;
    sending.slow_receiver = (enum gpud_slow_receiver)policy;
    receiving.by_lines = end->by_lines = by_lines;
    if (gpud_context_create(NULL, &end->context, &end->error) == GPUD_OK && sends)
        gpud_sender_create(end->context, &sending, &end->sender, &end->error);
    else if (end->context)
        gpud_receiver_create(end->context, &receiving, &end->receiver, &end->error);
    return end;
}

const char *end_reason(const struct end *end)
{
    return end->error.reason;
}

int end_configure(struct end *end, const char *text)
{
    struct gpud_media media;
    enum gpud_status status = gpud_media_from_string(&media, text, &end->error);

    return status ? status : gpud_sender_configure(end->sender, &media, &end->error);
}

uint32_t end_receivers(struct end *end)
{
    struct gpud_sender_info info = GPUD_INFO_INIT(info);

    gpud_sender_get_info(end->sender, &info);
    return info.receivers;
}

int end_switch(struct end *end, const char *address, const char *psk_file)
{
    struct gpud_switch_params params = GPUD_PARAMS_INIT(params);

    params.address = address;
    params.psk_file = psk_file;
    return gpud_receiver_switch(end->receiver, &params, &end->error);
}

bool end_receives_from(struct end *end, const char *address)
{
    struct gpud_receiver_info info = GPUD_INFO_INIT(info);

    gpud_receiver_get_info(end->receiver, &info);
    return strcmp(info.address, address) == 0;
}

int end_push(struct end *end, const void *data, size_t size, bool is_block, uint64_t number,
             uint64_t pts, uint64_t duration, uint32_t flags, uint32_t rows)
{
    struct gpud_error *error = &end->error;
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    struct gpud_frame *frame = NULL;
    void *to;
    enum gpud_status status = gpud_sender_acquire(end->sender, TIMEOUT, &frame, error);

    if (!status && is_block)
        status = gpud_frame_set_size(frame, size, error);
    if (!status) {
        info.pts_ns = pts;
        info.dts_ns = GPUD_TIME_NONE;
        info.duration_ns = duration;
        info.offset = number;
        info.flags = flags;
        status = gpud_frame_set_info(frame, &info, error);
    }
    if (!status)
        status = gpud_frame_map(frame, GPUD_WRITE, TIMEOUT, &to, error);
    if (!status) {
        size_t half = rows / 2 * (rows ? size / rows : 0);
        memcpy(to, data, half);
        if (half > 0)
            status = gpud_sender_submit_lines(end->sender, frame, rows / 2, TIMEOUT, error);
        memcpy((char *)to + half, (const char *)data + half, size - half);
        gpud_frame_unmap(frame);
    }
    if (!status)
        status = rows ? gpud_sender_submit_lines(end->sender, frame, rows, TIMEOUT, error)
                      : gpud_sender_submit(end->sender, &frame, TIMEOUT, error);
    gpud_frame_release(&frame);
    return status;
}

int end_stop(struct end *end)
{
    return gpud_sender_send_eos(end->sender, &end->error);
}

int end_take(struct end *end, void *data, size_t *size, uint64_t *pts, uint32_t *flags)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    struct gpud_frame *frame = NULL;
    void *from;
    enum gpud_status status = gpud_receiver_acquire(end->receiver, TIMEOUT, &frame, &end->error);

    if (status)
        return status;
    gpud_frame_get_info(frame, &info);
    if (end->by_lines)
        status = gpud_frame_wait_lines(frame, info.layout.height, TIMEOUT, &end->error);
    if (!status)
        status = gpud_frame_map(frame, GPUD_READ, TIMEOUT, &from, &end->error);
    if (!status) {
        *size = info.bytes < *size ? info.bytes : *size;
        *pts = info.pts_ns;
        *flags = info.flags;
        memcpy(data, from, *size);
        gpud_frame_unmap(frame);
    }
    gpud_frame_release(&end->held);
    end->held = frame;
    return status;
}

uint64_t end_dropped(struct end *end)
{
    struct gpud_sender_info sender = GPUD_INFO_INIT(sender);
    struct gpud_receiver_info receiver = GPUD_INFO_INIT(receiver);

    if (end->sender)
        gpud_sender_get_info(end->sender, &sender);
    else
        gpud_receiver_get_info(end->receiver, &receiver);
    return sender.dropped + receiver.dropped;
}

void end_free(struct end *end)
{
    gpud_frame_release(&end->held);
    gpud_receiver_destroy(&end->receiver);
    gpud_sender_destroy(&end->sender);
    gpud_context_destroy(&end->context);
    free(end);
}
