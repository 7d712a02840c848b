/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The cases of route.h for media that are no pictures: to a route a frame is bytes. */
#include "route.h"

#include "frame/media/media.h"
#include "support/make.h"
#include "support/media.h"

static const struct gpud_media sorts[] = {
    {.kind = GPUD_MEDIA_AUDIO,
     .audio = {.format = "S24LE", .rate = 48000, .channels = 2, .positions = 3, .block = 961}},
    {.kind = GPUD_MEDIA_ANCILLARY, .data = {.type = "meta/x-st-2038", .max_size = 8191}},
    {.kind = GPUD_MEDIA_DATA, .data = {.type = "application/x-lidar", .max_size = 1}},
    {.kind = GPUD_MEDIA_DATA,
     .data = {.type = "meta/x-klv", .max_size = 65536},
     .extra = "parsed=(boolean)true"},
#ifdef GPUD_TEST_MEDIA /* in tests/toy */
    {.kind = GPUD_MEDIA_DATA + 1, .data = {.type = "toy/x-points", .max_size = 100}},
#endif
};
#define SORTS (sizeof(sorts) / sizeof(sorts[0]))
#define FRAMES 5

/* A block with a part of a sample is refused. */
static void check_part(struct scene *scene, const struct gpud_media *media)
{
    struct gpud_frame *frame;
    if (gpud_media_get_unit(media) == 1)
        return;
    WORKS(gpud_sender_acquire(scene->sender, 20 * GPUD_SEC, &frame, &e));
    WORKS(gpud_frame_set_size(frame, gpud_media_get_unit(media) + 1, &e));
    EXPECT(GPUD_INVALID, "a multiple of",
           gpud_sender_submit(scene->sender, &frame, 20 * GPUD_SEC, &e));
    gpud_frame_release(&frame);
}

/* Blocks of every size, the largest first. Returns the bytes of all. */
static uint64_t send_all(struct scene *scene)
{
    uint64_t sent = 0;
    for (size_t i = 0; i < SORTS; i++) {
        WORKS(gpud_sender_configure(scene->sender, &sorts[i], &e));
        WORKS(gpud_media_get_layout(&sorts[i], &scene->layout, &e));
        CHECK(scene->layout.size == media_size(&sorts[i]), "a layout of %llu bytes",
              (unsigned long long)scene->layout.size);
        WORKS(gpud_sender_wait(scene->sender, 1, 30 * GPUD_SEC, &e));
        check_part(scene, &sorts[i]);
        for (unsigned frame = 0; frame < FRAMES; frame++) {
            uint64_t unit = gpud_media_get_unit(&sorts[i]), units = scene->layout.size / unit;
            uint64_t bytes = unit * (1 + (units - 1) * (FRAMES - 1 - frame) / (FRAMES - 1));
            SEND_BLOCK(scene->sender, &scene->layout, bytes, ++scene->number);
            sent += bytes;
        }
    }
    WORKS(gpud_sender_send_eos(scene->sender, &e));
    return sent;
}

static void check_notes(const struct peer_board *board)
{
    unsigned formats = 0;
    for (unsigned i = 0; i < board->notes; i++) {
        const struct peer_note *note = &board->note[i];
        if (note->event != GPUD_EVENT_FORMAT)
            continue;
        CHECK_EQUAL(note->kind, sorts[formats].kind);
        CHECK_EQUAL(note->value, media_size(&sorts[formats]));
        formats++;
    }
    CHECK_EQUAL(formats, SORTS);
}

/* Blocks of sound and of data, one kind after the other in one stream; every byte is checked. */
void test_media(const struct way *way)
{
    AUTO(scene_close) struct scene scene;
    scene_open(&scene, way, GPUD_SLOW_BLOCK);
    if (strcmp(way->path, "migrate") == 0) { /* inside one process alone */
        struct inside inside;
        WORKS(gpud_sender_configure(scene.sender, &sorts[0], &e));
        inside_start(&scene, &inside);
        uint64_t sent = send_all(&scene);
        inside_finish(&inside);
        CHECK_EQUAL(inside.frames, SORTS * FRAMES);
        CHECK_EQUAL(inside.bytes, sent);
        CHECK_EQUAL(inside.wrong, 0);
    } else {
        AUTO(peer_forget) struct peer peer;
        struct peer_orders orders = scene_orders(&scene);
        orders.leave_after = 1;
        peer_start(&peer, &orders);
        uint64_t sent = send_all(&scene);
        PEER_UNTIL("the end of the stream", 20000, atomic_load(&peer.board->ends) == 1);
        PEER_FINISH(&peer);
        CHECK_EQUAL(peer.board->frames, SORTS * FRAMES);
        CHECK_EQUAL(peer.board->bytes, sent);
        CHECK_EQUAL(peer.board->gaps, 0);
        CHECK(strcmp(peer.board->info.path, way->path) == 0, "the route is %s",
              peer.board->info.path);
        check_notes(peer.board);
    }
}

/* Pictures that are handed over while they are written, to a receiver that asked for it and to one
 * that did not: each is whole where it is read as a whole. */
void test_lines(const struct way *way)
{
    AUTO(scene_close) struct scene scene;
    AUTO(peer_forget) struct peer early;
    AUTO(peer_forget) struct peer whole;
    scene_open(&scene, way, GPUD_SLOW_BLOCK);
    scene_format(&scene, "UYVY", 320, 180);
    struct peer_orders orders = scene_orders(&scene);
    orders.leave_after = 1;
    peer_start(&whole, &orders);
    orders.by_lines = true;
    peer_start(&early, &orders);
    WORKS(gpud_sender_wait(scene.sender, 2, 20 * GPUD_SEC, &e));
    for (unsigned i = 0; i < FRAMES; i++) {
        struct gpud_frame *frame = ACQUIRE_SLOT(scene.sender, 10 * GPUD_SEC);
        frame_write(frame, &scene.layout, ++scene.number);
        for (uint32_t rows = 0; rows <= 180; rows += 45)
            WORKS(gpud_sender_submit_lines(scene.sender, frame, rows, 10 * GPUD_SEC, &e));
        gpud_frame_release(&frame);
    }
    WORKS(gpud_sender_send_eos(scene.sender, &e));
    struct peer *peers[] = {&early, &whole};
    for (int i = 0; i < 2; i++) {
        struct peer_board *board = peers[i]->board;
        PEER_UNTIL("the end of the stream", 20000, atomic_load(&board->ends) == 1);
        PEER_FINISH(peers[i]);
        CHECK_EQUAL(board->frames, FRAMES);
        CHECK_EQUAL(board->gaps, 0);
        CHECK(strcmp(board->info.path, way->path) == 0, "the route is %s", board->info.path);
        bool by_lines = i == 0 && strcmp(way->path, "directgma") != 0;
        CHECK(!board->info.whole_reason[0] == by_lines, "by %s: \"%s\"", way->path,
              board->info.whole_reason);
    }
}
