/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Receives frames with the core alone, no GStreamer:
 *
 *     cc embed.c $(pkg-config --cflags --libs gpudirect) -o embed
 *     ./embed demo host 100
 *
 * Prints one line for each format and for each frame; survives a sender that goes away and comes
 * back. It waits in an epoll loop of its own, beside whatever else an application waits for; one
 * that waits for frames alone calls gpud_receiver_acquire() with a timeout, and needs no loop. */
#include <gpudirect/gpudirect.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define NOTHING_S 10

static void on_event(void *user, enum gpud_event event, const void *data)
{
    if (event == GPUD_EVENT_CONNECTED) {
        const struct gpud_peer_info *peer = data;
        printf("connected to %s by %s\n", peer->name, peer->path);
    } else if (event == GPUD_EVENT_FORMAT) {
        const struct gpud_format_event *format = data;
        char text[GPUD_MEDIA_TEXT_MAX];
        if (gpud_media_to_string(&format->media, text, sizeof(text), NULL) == GPUD_OK)
            printf("format %s\n", text);
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
    printf("frame %" PRIu64 " pts %" PRIu64 " sum %" PRIu64 "%s\n", info.sequence, info.pts_ns, sum,
           info.flags & GPUD_FRAME_CORRUPTED ? " corrupted" : "");
    return 0;
}

/* All that is there now. GPUD_TIMEOUT: nothing more, until the descriptor says so. */
static enum gpud_status take_frames(struct gpud_receiver *receiver, long wanted, long *got,
                                    struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    while (*got < wanted && (status == GPUD_OK || status == GPUD_PEER)) {
        struct gpud_frame *frame;
        status = gpud_receiver_acquire(receiver, 0, &frame, error);
        if (status == GPUD_PEER)
            fprintf(stderr, "%s: waiting for the next sender\n", error->reason);
        if (status != GPUD_OK)
            continue;
        struct gpud_error why;
        if (use_frame(frame, &why) < 0)
            fprintf(stderr, "%s\n", why.reason);
        gpud_frame_release(&frame);
        ++*got;
    }
    return status;
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
    int loop = epoll_create1(EPOLL_CLOEXEC), fd = -1;
    struct epoll_event event = {.events = EPOLLIN};

    enum gpud_status status = gpud_context_create(NULL, &context, &error);
    if (status == GPUD_OK)
        status = gpud_receiver_create(context, &params, &receiver, &error);
    if (status == GPUD_OK)
        status = gpud_receiver_get_fd(receiver, &fd, &error);
    if (status == GPUD_OK && epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) < 0) {
        perror("epoll");
        return EXIT_FAILURE;
    }
    /* GPUD_CLOSED is the end of the stream; everything but GPUD_TIMEOUT an error. */
    bool waits = status == GPUD_OK;
    for (time_t last = time(NULL); waits && got < wanted && time(NULL) - last < NOTHING_S;) {
        long before = got;
        epoll_wait(loop, &event, 1, NOTHING_S * 1000); /* also to try to connect, now and then */
        status = take_frames(receiver, wanted, &got, &error);
        waits = status == GPUD_TIMEOUT;
        if (got > before)
            last = time(NULL);
    }
    if (got < wanted && status != GPUD_CLOSED)
        fprintf(stderr, "%s: %s\n", gpud_status_string(status), error.reason);
    gpud_receiver_destroy(&receiver);
    gpud_context_destroy(&context);
    close(loop);
    return got == wanted ? EXIT_SUCCESS : EXIT_FAILURE;
}
