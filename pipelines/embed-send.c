/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sends 1080i25 with the core alone, no GStreamer; what the pictures are is said once, in full:
 *
 *     cc embed-send.c $(pkg-config --cflags --libs gpudirect) -o embed-send
 *     ./embed-send demo 250        beside: ./embed demo, or gpudirectsrc address=demo */
#include <gpudirect/gpudirect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CAPS                                                              \
    "video/x-raw, format=UYVY, width=1920, height=1080, framerate=25/1, " \
    "interlace-mode=interleaved, colorimetry=bt709, pixel-aspect-ratio=1/1"

static enum gpud_status send_one(struct gpud_sender *sender, uint64_t number, struct gpud_error *e)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    struct gpud_frame *frame = NULL;
    void *data;
    enum gpud_status status = gpud_sender_acquire(sender, GPUD_SEC, &frame, e);
    if (status == GPUD_OK &&
        (status = gpud_frame_map(frame, GPUD_WRITE, GPUD_SEC, &data, e)) == GPUD_OK) {
        gpud_frame_get_info(frame, &info);
        memset(data, (int)(number & 0xff), (size_t)info.layout.size);
        gpud_frame_unmap(frame);
        info.pts_ns = number * GPUD_SEC / 25;
        info.flags = GPUD_FRAME_INTERLACED | GPUD_FRAME_TOP_FIRST;
        gpud_frame_set_info(frame, &info, NULL);
        status = gpud_sender_submit(sender, &frame, GPUD_SEC, e);
    }
    gpud_frame_release(&frame);
    return status;
}

int main(int argc, char **argv)
{
    struct gpud_context *context = NULL;
    struct gpud_sender *sender = NULL;
    struct gpud_media media;
    struct gpud_error error = {.reason = ""};
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    params.address = argc > 1 ? argv[1] : "demo";
    uint64_t frames = argc > 2 ? strtoull(argv[2], NULL, 10) : 250;
    bool good = gpud_media_from_string(&media, CAPS, &error) == GPUD_OK &&
                gpud_context_create(NULL, &context, &error) == GPUD_OK &&
                gpud_sender_create(context, &params, &sender, &error) == GPUD_OK &&
                gpud_sender_configure(sender, &media, &error) == GPUD_OK;
    for (uint64_t i = 0; i < frames && good; i++) {
        good = send_one(sender, i, &error) == GPUD_OK;
        nanosleep(&(struct timespec){.tv_nsec = 40000000}, NULL);
    }
    if (!good)
        fprintf(stderr, "%s: %s\n", gpud_status_string(error.status), error.reason);
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
