/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Blocks of sound between hosts pin no memory for large metas, at either end, until one comes. The
 * first one arrives with its frame, and so do those behind a change of format. */
#include "support/check.h"
#include "support/make.h"
#include "support/peer.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define SLOTS 8
#define LARGE 60000
#define PATIENCE (60 * GPUD_SEC)
#define METAS_KIB (SLOTS * 65536 / 1024) /* of all frames in flight */

/* What cards have pinned of this process, in KiB. */
static unsigned long pinned(void)
{
    char line[128];
    unsigned long size = 0;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status, "/proc/self/status: %m");
    while (fgets(line, sizeof(line), status))
        sscanf(line, "VmPin: %lu kB", &size);
    fclose(status);
    CHECK(size > 0, "nothing is pinned, or nothing says so");
    return size;
}

/* Of each format: blocks without large metas, one with, and one without again. */
#define BLOCKS 6
#define WITH_ONE 4

static void configure(struct gpud_sender *sender, uint32_t channels)
{
    struct gpud_media media = {
        .kind = GPUD_MEDIA_AUDIO,
        .audio = {.format = "F32LE", .rate = 48000, .channels = channels, .block = 480},
    };
    WORKS(gpud_sender_configure(sender, &media, &e));
}

static void send(struct gpud_sender *sender, unsigned number)
{
    static uint8_t large[LARGE];
    struct gpud_frame *frame = ACQUIRE_SLOT(sender, PATIENCE);
    struct gpud_frame_info info = INFO(frame, frame);
    memset(large, (int)number, sizeof(large));
    info.offset = number;
    info.large_meta = number % BLOCKS == WITH_ONE ? large : NULL;
    info.large_meta_size = info.large_meta ? LARGE : 0;
    WORKS(gpud_frame_set_info(frame, &info, &e));
    WORKS(gpud_sender_submit(sender, &frame, PATIENCE, &e));
}

/* Expects the block, and returns what is pinned while it is held. */
static unsigned long receive(struct gpud_receiver *receiver, unsigned number)
{
    struct gpud_frame *frame = ACQUIRE_FRAME(receiver, PATIENCE);
    struct gpud_frame_info info = INFO(frame, frame);
    bool has = number % BLOCKS == WITH_ONE;
    CHECK_EQUAL(info.offset, number);
    CHECK_EQUAL(info.large_meta_size, has ? LARGE : 0);
    for (unsigned i = 0; i < info.large_meta_size; i++)
        CHECK(((const uint8_t *)info.large_meta)[i] == number, "byte %u of block %u", i, number);
    gpud_frame_release(&frame);
    return pinned();
}

static int run_receiver(int sender)
{
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_receiver *receiver =
        NEW_RECEIVER(context, .address = peer_address("pinned"), .psk_file = peer_key(),
                     .device = "host", .slots = SLOTS);
    unsigned long before = receive(receiver, 0);
    for (unsigned i = 1; i < WITH_ONE; i++)
        CHECK_EQUAL(receive(receiver, i), before);
    CHECK(write(sender, "", 1) == 1, "write: %m"); /* now the first may be sent */
    unsigned long after = receive(receiver, WITH_ONE);
    SAY("the receiver has pinned %lu KiB, %lu with large metas", before, after);
    CHECK(after >= before + METAS_KIB / 2, "they pin %lu KiB", after - before);
    for (unsigned i = WITH_ONE + 1; i < 2 * BLOCKS; i++)
        receive(receiver, i);
    gpud_receiver_destroy(&receiver);
    gpud_context_destroy(&context);
    return 0;
}

int main(void)
{
    int status, pipes[2];
    char ignored;
    alarm(300);
    CHECK(pipe(pipes) == 0, "pipe: %m");
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(pipes[0]);
        return run_receiver(pipes[1]);
    }
    close(pipes[1]);
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_sender *sender =
        NEW_SENDER(context, .address = peer_address("pinned"), .psk_file = peer_key(),
                   .device = "host", .slots = SLOTS);
    configure(sender, 2);
    WORKS(gpud_sender_wait(sender, 1, PATIENCE, &e));
    unsigned long before = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (i == WITH_ONE) {
            CHECK(read(pipes[0], &ignored, 1) == 1, "the receiver has ended");
            before = pinned();
        }
        send(sender, i);
    }
    unsigned long after = pinned();
    SAY("the sender had pinned %lu KiB, and has %lu with large metas", before, after);
    CHECK(after >= before + METAS_KIB / 2, "large metas pin %lu KiB", after - before);
    configure(sender, 1);
    for (unsigned i = BLOCKS; i < 2 * BLOCKS; i++)
        send(sender, i);
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the receiver ended with %x", status);
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
    return 0;
}
