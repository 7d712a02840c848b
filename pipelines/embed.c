/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Receives frames with the core alone, no GStreamer:
 *
 *     cc embed.c $(pkg-config --cflags --libs gpudirect) -o embed
 *     ./embed demo host 100
 *
 * Prints one line for each format and for each frame; survives a sender that goes away and comes
 * back. */
#include <gpudirect/gpudirect.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void on_event(void *user, enum gpud_event event, const void *data)
{
    if (event == GPUD_EVENT_CONNECTED) {
        const struct gpud_peer_info *peer = data;
        printf("connected to %s by %s\n", peer->name, peer->path);
    } else if (event == GPUD_EVENT_FORMAT) {
        const struct gpud_format_event *format = data;
        printf("format %s %ux%u\n", format->layout.format, format->layout.width,
               format->layout.height);
    }
}

/* What the application does with a frame; here it adds up the first plane. */
static int use_frame(struct gpud_frame *frame, struct gpud_error *error)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    void *data;
    if (gpud_frame_map(frame, GPUD_READ, 2 * GPUD_SEC, &data, error) != GPUD_OK)
        return -1;
    gpud_frame_get_info(frame, &info);
    const struct gpud_plane *plane = &info.layout.plane[0];
    uint64_t sum = 0;
    for (uint32_t y = 0; y < plane->rows; y++) {
        const uint8_t *row = (const uint8_t *)data + plane->offset + (uint64_t)y * plane->stride;
        for (uint32_t x = 0; x < plane->row_bytes; x++)
            sum += row[x];
    }
    gpud_frame_unmap(frame);
    printf("frame %" PRIu64 " pts %" PRIu64 " sum %" PRIu64 "%s\n", info.sequence, info.pts, sum,
           info.flags & GPUD_FRAME_CORRUPTED ? " corrupted" : "");
    return 0;
}

int main(int argc, char **argv)
{
    struct gpud_context *context = NULL;
    struct gpud_receiver *receiver = NULL;
    struct gpud_error error;
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    params.address = argc > 1 ? argv[1] : "demo";
    params.device = argc > 2 ? argv[2] : "auto";
    params.on_event = on_event;
    long wanted = argc > 3 ? strtol(argv[3], NULL, 10) : 100, got = 0;

    enum gpud_status status = gpud_context_create(NULL, &context, &error);
    if (status == GPUD_OK)
        status = gpud_receiver_create(context, &params, &receiver, &error);
    while (status == GPUD_OK && got < wanted) {
        struct gpud_frame *frame;
        status = gpud_receiver_acquire(receiver, 10 * GPUD_SEC, &frame, &error);
        if (status == GPUD_PEER) {
            fprintf(stderr, "%s: waiting for the next sender\n", error.reason);
            status = GPUD_OK;
            continue;
        }
        if (status != GPUD_OK)
            break; /* GPUD_CLOSED is the end of the stream; everything else an error */
        if (use_frame(frame, &error) < 0)
            fprintf(stderr, "%s\n", error.reason);
        gpud_frame_release(&frame);
        got++;
    }
    if (status != GPUD_OK && status != GPUD_CLOSED)
        fprintf(stderr, "%s: %s\n", gpud_status_string(status), error.reason);
    gpud_receiver_destroy(&receiver);
    gpud_context_destroy(&context);
    return got == wanted ? EXIT_SUCCESS : EXIT_FAILURE;
}
