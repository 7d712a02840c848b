/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* One end of a stream, for cable_test.py, which runs it on one of two hosts and reads what it says:
 *
 *     cable-end send ADDRESS [key=FILE] [policy=block|newest|oldest] [rate=N] [frames=N] [size=WxH]
 *         [slots=N] [wait=N]
 *     cable-end receive ADDRESS [key=FILE] [slots=N] [policy=…]
 *
 * A sender waits for `wait` receivers and sends numbered pictures, `rate` a second or as fast as
 * they are taken, until there were `frames`; then the end of the stream, and ends once its input is
 * closed. A receiver checks every byte and takes pictures until the end of a stream. Each line
 * begins with what it is about, and the time of CLOCK_MONOTONIC in ns:
 *
 *     connected T             (sender) a receiver is there; (receiver) the first picture came
 *     lost T REASON           the connection ended
 *     refused T REASON        (receiver) it cannot connect, and why; once for each reason
 *     clock T yes|no PATH     (receiver) whether the ends share a clock, and the route
 *     sent T FRAMES DROPPED   (sender) all; DROPPED summed over its receivers
 *     seen T FRAMES WRONG REPEATED
 *                             (receiver) so far, every hundred pictures
 *     ended T FRAMES MISSING WRONG REPEATED DROPPED
 *                             (receiver) MISSING in the sequence, DROPPED as the sender reported */
/* clang-format on */
#include "support/check.h"
#include "support/make.h"
#include "support/media.h"
#include "support/peer.h"
#include "support/picture.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

static struct {
    const char *address, *key;
    enum gpud_slow_receiver policy;
    unsigned rate, slots, wait;
    uint64_t frames;
    uint32_t width, height;
} options = {.policy = GPUD_SLOW_BLOCK, .frames = UINT64_MAX, .width = 320, .height = 180};

#define SAY_LINE(what, format, ...) \
    printf(what " %" PRId64 " " format "\n", gpud_test_now(), __VA_ARGS__)

static void read_option(const char *text)
{
    static const char *const policies[] = {"block", "newest", "oldest"};
    static const enum gpud_slow_receiver values[] = {GPUD_SLOW_BLOCK, GPUD_SLOW_DROP_NEWEST,
                                                     GPUD_SLOW_DROP_OLDEST};
    const char *value = strchr(text, '=');
    CHECK(value, "%s: no option", text);
    value++;
    if (strncmp(text, "key=", 4) == 0)
        options.key = value;
    else if (strncmp(text, "rate=", 5) == 0)
        options.rate = (unsigned)atoi(value);
    else if (strncmp(text, "wait=", 5) == 0)
        options.wait = (unsigned)atoi(value);
    else if (strncmp(text, "slots=", 6) == 0)
        options.slots = (unsigned)atoi(value);
    else if (strncmp(text, "frames=", 7) == 0)
        options.frames = strtoull(value, NULL, 10);
    else if (strncmp(text, "size=", 5) == 0)
        CHECK(sscanf(value, "%ux%u", &options.width, &options.height) == 2, "%s", text);
    else if (strncmp(text, "policy=", 7) == 0) {
        size_t i = 0;
        while (i < 3 && strcmp(policies[i], value) != 0)
            i++;
        CHECK(i < 3, "%s: no policy", value);
        options.policy = values[i];
    } else {
        FAIL("%s: no option", text);
    }
}

/* === the sender ============================================================================== */

static void on_connect(void *user, const struct gpud_peer_info *peer)
{
    (void)user;
    SAY_LINE("connected", "%s", peer->host);
}

static void on_disconnect(void *user, const struct gpud_peer_info *peer)
{
    (void)user;
    SAY_LINE("lost", "%s", peer->host);
}

static void play_sender(struct gpud_context *context)
{
    struct gpud_sender *sender =
        NEW_SENDER(context, .address = options.address, .psk_file = options.key,
                   .slow_receiver = options.policy, .slots = options.slots,
                   .on_connect = on_connect, .on_disconnect = on_disconnect);
    struct gpud_layout layout = LAYOUT("UYVY", options.width, options.height, 0);
    WORKS(gpud_sender_configure(sender, PICTURE_AT(&layout, options.rate ? options.rate : 25), &e));
    printf("ready\n");
    WORKS(gpud_sender_wait(sender, options.wait, 60 * GPUD_SEC, &e));
    int64_t next = gpud_test_now();
    for (uint64_t number = 1; number <= options.frames; number++) {
        SEND_LENT(sender, &layout, number);
        if (!options.rate)
            continue;
        next += GPUD_SEC / options.rate;
        int64_t left = (next - gpud_test_now()) / GPUD_MSEC;
        if (left > 0)
            gpud_test_nap(left);
    }
    WORKS(gpud_sender_send_eos(sender, &e));
    struct gpud_sender_info info = INFO(sender, sender);
    SAY_LINE("sent", "%" PRIu64 " %" PRIu64, info.frames, info.dropped);
    while (getchar() != EOF)
        ;
    gpud_sender_destroy(&sender);
}

/* === the receiver ============================================================================ */

static void on_event(void *user, enum gpud_event event, const void *data)
{
    const struct gpud_peer_info *peer = data;
    (void)user;
    if (event == GPUD_EVENT_CONNECTED)
        SAY_LINE("clock", "%s %s", peer->same_clock ? "yes" : "no", peer->path);
}

static void play_receiver(struct gpud_context *context)
{
    struct gpud_error error = {.reason = ""};
    char said[GPUD_REASON_MAX] = "";
    uint64_t frames = 0, last = 0, missing = 0, wrong = 0, repeated = 0, dropped = 0;
    struct gpud_receiver *receiver =
        NEW_RECEIVER(context, .address = options.address, .psk_file = options.key,
                     .slots = options.slots, .slow_receiver = options.policy, .on_event = on_event);
    printf("ready\n");
    for (;;) {
        struct gpud_frame *frame;
        enum gpud_status status = gpud_receiver_acquire(receiver, GPUD_SEC, &frame, &error);
        if (status == GPUD_CLOSED)
            break;
        if (status == GPUD_TIMEOUT)
            continue;
        if (status == GPUD_PEER) {
            SAY_LINE("lost", "%s", error.reason);
            last = 0; /* the next connection counts anew */
        } else if (status != GPUD_OK && strcmp(said, error.reason) != 0) {
            SAY_LINE("refused", "%s", error.reason);
            snprintf(said, sizeof(said), "%s", error.reason);
        }
        if (status != GPUD_OK)
            continue;
        struct gpud_frame_info info = INFO(frame, frame);
        uint32_t plane, row, byte;
        if (!last)
            SAY_LINE("connected", "%" PRIu64, info.offset);
        if (last && info.sequence <= last)
            repeated++;
        else if (last)
            missing += info.sequence - last - 1;
        last = info.sequence;
        dropped = info.dropped;
        wrong += !picture_check(&info.layout, MAP_FRAME(frame, GPUD_READ, 10 * GPUD_SEC),
                                info.offset, &plane, &row, &byte);
        gpud_frame_unmap(frame);
        gpud_frame_release(&frame);
        if (++frames % 100 == 0)
            SAY_LINE("seen", "%" PRIu64 " %" PRIu64 " %" PRIu64, frames, wrong, repeated);
    }
    SAY_LINE("ended", "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, frames, missing,
             wrong, repeated, dropped);
    gpud_receiver_destroy(&receiver);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3, "cable-end send|receive ADDRESS [OPTION=VALUE...]");
    bool sends = strcmp(argv[1], "send") == 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    options.address = argv[2];
    for (int i = 3; i < argc; i++)
        read_option(argv[i]);
    struct gpud_context *context = NEW_CONTEXT();
    if (sends)
        play_sender(context);
    else
        play_receiver(context);
    gpud_context_destroy(&context);
    return 0;
}
