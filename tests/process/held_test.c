/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Frames that outlive their receiver: they are unchanged until they are released, and their slots
 * are returned then; if the sender must reclaim a slot, the frame is flagged. */
#include "actor.h"
#include "support/picture.h"

#define HELD 3

static struct background background;

static bool is_whole(struct gpud_frame *frame)
{
    uint32_t plane, row, byte;
    struct gpud_frame_info info = INFO(frame, frame);
    void *data = MAP_FRAME(frame, GPUD_READ, GPUD_SEC);
    bool whole = picture_check(&info.layout, data, info.offset, &plane, &row, &byte);
    gpud_frame_unmap(frame);
    return whole;
}

static void held_past_the_receiver(void)
{
    for (int round = 0; round < 5; round++) {
        struct gpud_frame *frame[HELD];
        struct gpud_context *context = NEW_CONTEXT();
        struct gpud_receiver *receiver = NEW_RECEIVER(context, .address = BACKGROUND_ADDRESS);
        for (int i = 0; i < HELD; i++)
            frame[i] = ACQUIRE_FRAME(receiver, 5 * GPUD_SEC);
        gpud_receiver_destroy(&receiver);
        background_flows(&background, 100); /* every free slot is written several times */
        for (int i = 0; i < HELD; i++) {
            CHECK(is_whole(frame[i]), "a frame that is held was overwritten");
            CHECK(!(INFO(frame, frame[i]).flags & GPUD_FRAME_CORRUPTED),
                  "a frame that is whole is flagged");
        }
        for (int i = 0; i < HELD; i++)
            gpud_frame_release(&frame[i]);
        background_goes_on(&background);
        gpud_context_destroy(&context);
    }
}

/* Of four slots some are held, and frames wait in the others. */
static void counted(void)
{
    struct gpud_frame *frame[HELD];
    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    struct gpud_receiver *receiver = NEW_RECEIVER(context, .address = BACKGROUND_ADDRESS);
    CHECK_EQUAL(gpud_receiver_count_frames(receiver), 0);
    for (unsigned held = 0; held < HELD; held++) {
        frame[held] = ACQUIRE_FRAME(receiver, 5 * GPUD_SEC);
        PEER_UNTIL("the ring is full", 20000, gpud_receiver_count_frames(receiver) == 4 - 1 - held);
    }
    for (unsigned i = 0; i < HELD; i++)
        gpud_frame_release(&frame[i]);
    gpud_receiver_destroy(&receiver);
}

/* A stuck receiver's frames must not stop the stream: its sender ends the link, and the frames are
 * flagged. */
static void held_past_the_link(void)
{
    struct raw raw;
    uint32_t entry;
    struct gpud_descriptor descriptor;
    struct gpud_error error;
    raw_open(&raw, BACKGROUND_ADDRESS, RAW_STREAMING);
    PEER_UNTIL("a frame", 20000,
               gpud_page_claim(&raw.view, gpud_page_head(&raw.view), &entry, &descriptor, &error));
    CHECK(!gpud_page_is_taken_back(&raw.view), "taken back, and nothing happened");
    atomic_store(&raw.page->receiver.given_back[raw.view.returned % GPUD_PAGE_ENTRIES], UINT32_MAX);
    atomic_fetch_add(&raw.page->receiver.returned, 1);
    PEER_UNTIL("the end of the link", 20000, gpud_page_is_taken_back(&raw.view));
    TURNED_OUT(&raw, "gave back a frame it did not have");
}

int main(int argc, char **argv)
{
    static const struct background_test tests[] = {
        {"frames that wait are counted", counted},
        {"frames that are held when their receiver is destroyed", held_past_the_receiver},
        {"frames that are held when their link is ended", held_past_the_link},
    };
    return background_main(&background, tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
