/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Targets whose writer announces the rows of a frame before the frame is whole. */
#include "target_ends.h"

#define ROWS 48
#define SHORT (20 * GPUD_MSEC)

static void open_ends(struct ends *ends, enum gpud_target_pace pace)
{
    start_with(ends, pace, NULL);
    writer_close(&ends->writer);
    gpud_target_destroy(&ends->target);
    ends->params.by_lines = true;
    make_target(ends);
    writer_open(&ends->writer, ends->target);
}

static void write_rows(struct ends *ends, uint32_t rows)
{
    struct writer *writer = &ends->writer;
    writer_fill(writer, writer->number % writer->slots, writer->number,
                rows * (uint64_t)ends->layout.plane[0].stride);
    writer_announce(writer, rows);
}

static void mark(struct ends *ends)
{
    struct writer *writer = &ends->writer;
    writer_mark(writer, writer->number % writer->slots, writer->number + 1);
    writer->number++;
}

/* Where the CPU reads the rows itself. */
static void check_rows(struct ends *ends, const struct gpud_frame *frame, uint32_t rows)
{
    struct gpud_frame_info info = info_of(frame);
    size_t size = (size_t)rows * ends->layout.plane[0].stride;
    unsigned char expected[64 * 2 * ROWS];
    CHECK(!(info.flags & GPUD_FRAME_CORRUPTED), "corrupted");
    CHECK(ends->layout.size == sizeof(expected), "the layout has gaps");
    writer_draw(expected, sizeof(expected), ends->writer.number);
    if (ends->writer.on_host)
        CHECK(memcmp((const char *)info.native + info.memory_offset, expected, size) == 0,
              "not the first %u rows", rows);
}

static void test_rows(enum gpud_target_pace pace)
{
    struct ends ends;
    struct gpud_frame *none = NULL;
    void *data;
    SAY("rows, with a %s writer", pace == GPUD_TARGET_PACED ? "polite" : "free-running");
    open_ends(&ends, pace);
    for (uint32_t number = 0; number < 3 * SLOTS; number++) {
        writer_announce(&ends.writer, 0);
        EXPECT(GPUD_TIMEOUT, "", gpud_target_acquire(ends.target, 0, &none, &e));
        write_rows(&ends, 5);
        struct gpud_frame *frame = take(&ends);
        CHECK_EQUAL(info_of(frame).offset, number);
        WORKS(gpud_frame_wait_lines(frame, 5, 0, &e));
        check_rows(&ends, frame, 5);
        EXPECT(GPUD_TIMEOUT, "5 of frame", gpud_frame_wait_lines(frame, 6, SHORT, &e));
        EXPECT(GPUD_TIMEOUT, "5 of frame", gpud_frame_map(frame, GPUD_READ, SHORT, &data, &e));
        EXPECT(GPUD_TIMEOUT, "", gpud_target_acquire(ends.target, 0, &none, &e));
        write_rows(&ends, 30);
        WORKS(gpud_frame_wait_lines(frame, 30, LONG, &e));
        check_rows(&ends, frame, 30);
        if (number % 3 == 2) /* enough of it: it is not handed out again */
            gpud_frame_release(&frame);
        write_rows(&ends, ROWS);
        if (frame)
            WORKS(gpud_frame_wait_lines(frame, ROWS, LONG, &e));
        mark(&ends);
        if (frame) {
            check_picture(&ends, frame, number);
            WORKS(gpud_frame_wait_lines(frame, ROWS, LONG, &e));
            gpud_frame_release(&frame);
        }
        see_all(&ends);
        EXPECT(GPUD_TIMEOUT, "", gpud_target_acquire(ends.target, 0, &none, &e));
        /* One that comes without rows. */
        if (number % 4 == 3) {
            writer_write(&ends.writer);
            frame = take(&ends);
            CHECK_EQUAL(info_of(frame).offset, ++number);
            WORKS(gpud_frame_wait_lines(frame, 1, LONG, &e));
            check_picture(&ends, frame, number);
            gpud_frame_release(&frame);
        }
    }
    CHECK_EQUAL(info_now(&ends).dropped, 0);
    CHECK_EQUAL(info_now(&ends).corrupted, 0);
    end(&ends);
}

static void test_not_asked(void)
{
    struct ends ends;
    struct gpud_frame *none = NULL;
    SAY("a target that did not ask");
    start(&ends);
    write_rows(&ends, 10);
    EXPECT(GPUD_TIMEOUT, "", gpud_target_acquire(ends.target, SHORT, &none, &e));
    write_rows(&ends, ROWS);
    EXPECT(GPUD_TIMEOUT, "", gpud_target_acquire(ends.target, SHORT, &none, &e));
    mark(&ends);
    expect(&ends, 0, GPUD_FRAME_DISCONTINUITY, 0);
    end(&ends);
}

static void test_silent(void)
{
    struct ends ends;
    void *data;
    SAY("a writer that stops in mid-frame, and one that starts again");
    open_ends(&ends, GPUD_TARGET_PACED);
    write_rows(&ends, 10);
    struct gpud_frame *frame = take(&ends);
    EXPECT(GPUD_TIMEOUT, "10 of", gpud_frame_wait_lines(frame, ROWS, SHORT, &e));
    CHECK(!is_corrupted(frame), "a writer that waits tears nothing");
    CHECK_EQUAL(atomic_load(ends.writer.next), 0);
    write_rows(&ends, 3); /* the number in `next` once more */
    EXPECT(GPUD_PEER, "incomplete", gpud_frame_wait_lines(frame, ROWS, LONG, &e));
    CHECK(is_corrupted(frame), "not flagged");
    write_rows(&ends, 40);
    EXPECT(GPUD_PEER, "incomplete", gpud_frame_map(frame, GPUD_READ, LONG, &data, &e));
    gpud_frame_release(&frame);
    mark(&ends);
    write_rows(&ends, 7);
    frame = take(&ends);
    CHECK_EQUAL(info_of(frame).offset, 1);
    mark(&ends);
    gpud_frame_release(&frame);
    end(&ends);
}

static void test_lapped(void)
{
    struct ends ends;
    SAY("a frame that its writer overwrites");
    open_ends(&ends, GPUD_TARGET_FREE_RUNNING);
    write_rows(&ends, 10);
    struct gpud_frame *frame = take(&ends);
    for (int i = 0; i < SLOTS + 1; i++)
        writer_write(&ends.writer);
    see_all(&ends);
    EXPECT(GPUD_PEER, "overwritten", gpud_frame_wait_lines(frame, 11, LONG, &e));
    CHECK(is_corrupted(frame), "not flagged");
    gpud_frame_release(&frame);
    frame = take(&ends);
    CHECK_EQUAL(info_of(frame).offset, SLOTS);
    gpud_frame_release(&frame);
    end(&ends);
}

static void test_lies(bool held)
{
    struct ends ends;
    struct gpud_frame *frame = NULL;
    SAY("more rows than a frame has, %s", held ? "of a held one" : "of the next one");
    open_ends(&ends, GPUD_TARGET_FREE_RUNNING);
    if (held) {
        write_rows(&ends, 10);
        frame = take(&ends);
        writer_announce(&ends.writer, ROWS + 1);
        EXPECT(GPUD_PEER, "more rows", gpud_frame_wait_lines(frame, ROWS, LONG, &e));
        CHECK(is_corrupted(frame), "not flagged");
        gpud_frame_release(&frame);
    }
    writer_announce(&ends.writer, UINT32_MAX);
    EXPECT(GPUD_PEER, "more rows", gpud_target_acquire(ends.target, LONG, &frame, &e));
    EXPECT(GPUD_PEER, "more rows", gpud_target_acquire(ends.target, LONG, &frame, &e));
    end(&ends);
}

static void everything(void)
{
    test_rows(GPUD_TARGET_FREE_RUNNING);
    test_rows(GPUD_TARGET_PACED);
    test_not_asked();
    test_silent();
    test_lapped();
    test_lies(false);
    test_lies(true);
}

int main(int argc, char **argv)
{
    test_alarm(55);
    return run_twice(argc, argv, everything);
}
