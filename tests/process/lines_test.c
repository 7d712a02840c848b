/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pictures that are handed over while another process writes them: row by row at a receiver that
 * asked for it, whole at one that did not, and what becomes of both when the writer stops, dies,
 * gives a frame up, or says nonsense about its lines. Argument: the device. */
#include "stream/sender/delivery.h"
#include "support/check.h"
#include "support/make.h"
#include "support/media.h"
#include "support/peer.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define WIDTH 320
#define HEIGHT 180
#define PATIENCE (20 * GPUD_SEC)

static int board_fd;
static const char *device = "host";
static char address[32]; /* several of these tests may run at once */

/* --- the writer, a process ------------------------------------------------------------------- */

enum order { NOTHING, LINES, RELEASE, CONFIGURE, DESTROY, LIE, MISUSE, LEAVE };

static struct board {
    atomic_uint order; /* by the reader; NOTHING again: it is done */
    atomic_uint lines; /* of the next frame, or the one under way */
    atomic_ullong number;
} * board;

struct writer {
    struct gpud_context *context;
    struct gpud_sender *sender;
    struct gpud_layout layout;
    struct gpud_frame *frame;
    uint8_t *data;
    uint64_t number;
    uint32_t lines;
};

static uint8_t value_of(uint64_t number, uint32_t row)
{
    return (uint8_t)(number * 37 + row * 3 + 1);
}

static void write_rows(struct writer *writer, uint32_t from, uint32_t to)
{
    const struct gpud_plane *plane = &writer->layout.plane[0];
    for (uint32_t row = from; row < to; row++)
        memset(writer->data + plane->offset + row * plane->stride, value_of(writer->number, row),
               plane->row_bytes);
}

static void begin_frame(struct writer *writer)
{
    writer->frame = ACQUIRE_SLOT(writer->sender, PATIENCE);
    writer->data = MAP_FRAME(writer->frame, GPUD_WRITE, PATIENCE);
    writer->number++;
    writer->lines = 0;
    atomic_store(&board->number, writer->number);
    if (strcmp(device, "host") == 0) {
        memset(writer->data, 0, writer->layout.size);
        return;
    }
    /* A map of a GPU's memory is written at its end: the rows are there, and announced later. */
    write_rows(writer, 0, HEIGHT);
    gpud_frame_unmap(writer->frame);
    writer->data = NULL;
}

static void write_lines(struct writer *writer, uint32_t lines)
{
    if (!writer->frame)
        begin_frame(writer);
    if (writer->data)
        write_rows(writer, writer->lines, lines);
    WORKS(gpud_sender_submit_lines(writer->sender, writer->frame, lines, PATIENCE, &e));
    writer->lines = lines;
    if (lines == HEIGHT)
        gpud_frame_release(&writer->frame);
}

static void configure(struct writer *writer)
{
    writer->layout = LAYOUT("UYVY", WIDTH, HEIGHT, 0);
    WORKS(gpud_sender_configure(writer->sender, PICTURE(&writer->layout), &e));
}

static void lie(struct writer *writer, uint32_t lines)
{
    struct gpud_sender *sender = writer->sender;
    for (uint32_t i = 0; i < sender->link_count; i++)
        for (uint32_t entry = 0; entry < GPUD_PAGE_ENTRIES; entry++)
            gpud_page_set_lines(&sender->links[i]->transport->page, entry, lines);
}

/* In the middle of a frame. */
static void misuse(struct writer *writer)
{
    struct gpud_sender *sender = writer->sender;
    struct gpud_frame *frame = writer->frame, *other = ACQUIRE_SLOT(sender, PATIENCE);
    EXPECT(GPUD_INVALID, "do not become fewer",
           gpud_sender_submit_lines(sender, frame, writer->lines - 1, 0, &e));
    EXPECT(GPUD_INVALID, "of a picture that has",
           gpud_sender_submit_lines(sender, frame, HEIGHT + 1, 0, &e));
    EXPECT(GPUD_INVALID, "the frame before", gpud_sender_submit_lines(sender, other, 1, 0, &e));
    EXPECT(GPUD_INVALID, "the frame before", gpud_sender_submit_keep(sender, other, 0, &e));
    EXPECT(GPUD_INVALID, "the frame before", gpud_sender_submit_keep(sender, frame, 0, &e));
    gpud_frame_release(&other);
    WORKS(gpud_sender_submit_lines(sender, frame, writer->lines, 0, &e));

    struct gpud_memory *memory = NEW_MEMORY(sender->device, writer->layout.size);
    WORKS(gpud_frame_wrap(memory, 0, &writer->layout, &other, &e));
    EXPECT(GPUD_INVALID, "the frame before", gpud_sender_submit_lines(sender, other, 1, 0, &e));
    write_lines(writer, HEIGHT);
    EXPECT(GPUD_INVALID, "that this sender lent",
           gpud_sender_submit_lines(sender, other, 1, 0, &e));
    gpud_frame_release(&other);
    gpud_memory_unref(&memory);

    other = ACQUIRE_SLOT(sender, PATIENCE);
    gpud_frame_ref(other); /* so that others may read it */
    EXPECT(GPUD_INVALID, "whole", gpud_sender_submit_lines(sender, other, 1, 0, &e));
    gpud_frame_release(&(struct gpud_frame *){other});
    gpud_frame_release(&other);
}

static void obey(struct writer *writer, enum order order)
{
    uint32_t lines = atomic_load(&board->lines);
    if (order == LINES)
        write_lines(writer, lines);
    if (order == RELEASE)
        gpud_frame_release(&writer->frame);
    if (order == CONFIGURE)
        configure(writer);
    if (order == CONFIGURE && writer->frame)
        EXPECT(GPUD_INVALID, "",
               gpud_sender_submit_lines(writer->sender, writer->frame, HEIGHT, 0, &e));
    if (order == CONFIGURE)
        gpud_frame_release(&writer->frame);
    if (order == DESTROY) {
        gpud_sender_destroy(&writer->sender);
        gpud_frame_release(&writer->frame);
    }
    if (order == LIE)
        lie(writer, lines);
    if (order == MISUSE)
        misuse(writer);
}

static void write_frames(void)
{
    struct writer writer = {.context = NEW_CONTEXT()};
    writer.sender = NEW_SENDER(writer.context, .address = address, .device = device);
    configure(&writer);
    WORKS(gpud_sender_wait(writer.sender, 2, PATIENCE, &e));
    for (enum order order = NOTHING; order != LEAVE;) {
        order = atomic_load(&board->order);
        if (order == NOTHING) {
            gpud_test_nap(1);
            continue;
        }
        obey(&writer, order);
        atomic_store(&board->order, NOTHING);
    }
    gpud_frame_release(&writer.frame);
    gpud_sender_destroy(&writer.sender);
    gpud_context_destroy(&writer.context);
    _exit(0);
}

/* --- the readers ------------------------------------------------------------------------------ */

static struct readers {
    struct gpud_context *context;
    struct gpud_receiver *early, *whole;
    pid_t pid;
} readers;

/* Without a wait for the writer. */
static void ask(enum order order, uint32_t lines)
{
    atomic_store(&board->lines, lines);
    atomic_store(&board->order, order);
}

static void await_order(void)
{
    PEER_UNTIL("the writer", 20000, atomic_load(&board->order) == NOTHING);
}

static void tell(enum order order, uint32_t lines)
{
    ask(order, lines);
    await_order();
}

static void start_writer(void)
{
    memset(board, 0, sizeof(*board));
    readers.pid = fork();
    CHECK(readers.pid >= 0, "no process");
    if (readers.pid != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    char fd[16];
    snprintf(fd, sizeof(fd), "%d", board_fd);
    /* Anew: a driver that was used before a fork() is of no use after it. */
    execl("/proc/self/exe", "process-lines", device, address, fd, NULL);
    _exit(1);
}

static void end_writer(bool kill_it)
{
    int ended;
    if (kill_it)
        kill(readers.pid, SIGKILL);
    else
        tell(LEAVE, 0);
    CHECK(waitpid(readers.pid, &ended, 0) == readers.pid, "no writer");
    CHECK(kill_it || ended == 0, "the writer failed: %d", ended);
}

static enum gpud_status try(struct gpud_receiver *receiver, int64_t timeout,
                            struct gpud_frame **frame)
{
    struct gpud_error error = {0};
    return gpud_receiver_acquire(receiver, timeout, frame, &error);
}

/* Neither has a frame; both take their turns until they are connected. */
static void connect_both(void)
{
    struct gpud_frame *frame = NULL;
    for (int64_t end = gpud_test_now() + PATIENCE;;) {
        try(readers.early, 5 * GPUD_MSEC, &frame);
        try(readers.whole, 5 * GPUD_MSEC, &frame);
        CHECK(!frame, "a frame that was not sent");
        if (INFO(receiver, readers.early).connected && INFO(receiver, readers.whole).connected)
            return;
        CHECK(gpud_test_now() < end, "no connection");
    }
}

static void check_rows(struct gpud_frame *frame, const uint8_t *data, uint32_t rows)
{
    const struct gpud_plane *plane =
        &((struct gpud_layout)LAYOUT("UYVY", WIDTH, HEIGHT, 0)).plane[0];
    uint64_t number = atomic_load(&board->number);
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t at = 0; at < plane->row_bytes; at++)
            CHECK(data[plane->offset + row * plane->stride + at] == value_of(number, row),
                  "byte %u of row %u of %u, frame %llu", at, row, rows, (unsigned long long)number);
}

static void check_early_rows(struct gpud_frame *frame, uint32_t rows)
{
    struct gpud_frame_info info = INFO(frame, frame);
    CHECK(!(info.flags & GPUD_FRAME_CORRUPTED), "corrupted");
    if (strcmp(device, "host") == 0)
        check_rows(frame, (const uint8_t *)info.native + info.memory_offset, rows);
}

static void check_whole(struct gpud_frame **frame)
{
    check_rows(*frame, MAP_FRAME(*frame, GPUD_READ, PATIENCE), HEIGHT);
    gpud_frame_unmap(*frame);
    CHECK(!(INFO(frame, *frame).flags & GPUD_FRAME_CORRUPTED), "corrupted");
    gpud_frame_release(frame);
}

static void check_lost(struct gpud_frame **frame, uint32_t lines)
{
    void *data;
    EXPECT(GPUD_PEER, "incomplete", gpud_frame_wait_lines(*frame, lines, PATIENCE, &e));
    CHECK(INFO(frame, *frame).flags & GPUD_FRAME_CORRUPTED, "not flagged");
    EXPECT(GPUD_PEER, "incomplete", gpud_frame_map(*frame, GPUD_READ, PATIENCE, &data, &e));
    EXPECT(GPUD_PEER, "incomplete", gpud_frame_wait_lines(*frame, lines, PATIENCE, &e));
    gpud_frame_release(frame);
}

/* A frame of which the writer has written so much. */
static struct gpud_frame *early_frame(uint32_t lines)
{
    ask(LINES, lines);
    struct gpud_frame *frame = ACQUIRE_FRAME(readers.early, PATIENCE);
    await_order();
    return frame;
}

static void check_none_whole(void)
{
    struct gpud_frame *frame;
    CHECK_EQUAL(try(readers.whole, 30 * GPUD_MSEC, &frame), GPUD_TIMEOUT);
}

/* --- cases ------------------------------------------------------------------------------------ */

static void by_lines(void)
{
    void *data;
    for (int i = 0; i < 12; i++) {
        struct gpud_frame *frame = early_frame(i % 2 ? 0 : 10), *whole;
        if (i % 2 == 0) {
            WORKS(gpud_frame_wait_lines(frame, 10, 0, &e));
            check_early_rows(frame, 10);
        }
        EXPECT(GPUD_TIMEOUT, "", gpud_frame_wait_lines(frame, 11, 5 * GPUD_MSEC, &e));
        EXPECT(GPUD_TIMEOUT, "", gpud_frame_map(frame, GPUD_READ, 5 * GPUD_MSEC, &data, &e));
        EXPECT(GPUD_INVALID, "lines", gpud_frame_wait_lines(frame, 0, 0, &e));
        EXPECT(GPUD_INVALID, "lines", gpud_frame_wait_lines(frame, HEIGHT + 1, 0, &e));
        check_none_whole();
        for (uint32_t lines = 60; lines < HEIGHT; lines += 60) {
            ask(LINES, lines);
            WORKS(gpud_frame_wait_lines(frame, lines, PATIENCE, &e));
            check_early_rows(frame, lines);
            await_order();
        }
        check_none_whole();
        if (i % 3 == 2) /* enough of it */
            gpud_frame_release(&frame);
        tell(LINES, HEIGHT);
        if (frame) {
            WORKS(gpud_frame_wait_lines(frame, HEIGHT, PATIENCE, &e));
            check_early_rows(frame, HEIGHT);
            check_whole(&frame);
        }
        whole = ACQUIRE_FRAME(readers.whole, PATIENCE);
        WORKS(gpud_frame_wait_lines(whole, 1, PATIENCE, &e));
        check_whole(&whole);
    }
}

static void whole_at_once(void)
{
    struct gpud_frame *frame = early_frame(HEIGHT);
    WORKS(gpud_frame_wait_lines(frame, HEIGHT, PATIENCE, &e));
    check_whole(&frame);
    frame = ACQUIRE_FRAME(readers.whole, PATIENCE);
    check_whole(&frame);
}

static void misused(void)
{
    struct gpud_frame *frame = early_frame(90);
    tell(MISUSE, 0);
    check_whole(&frame);
    frame = ACQUIRE_FRAME(readers.whole, PATIENCE);
    check_whole(&frame);
}

static void stopped(void)
{
    struct gpud_frame *frame = early_frame(90);
    kill(readers.pid, SIGSTOP);
    EXPECT(GPUD_TIMEOUT, "not yet", gpud_frame_wait_lines(frame, 91, 100 * GPUD_MSEC, &e));
    WORKS(gpud_frame_wait_lines(frame, 90, 0, &e));
    kill(readers.pid, SIGCONT);
    ask(LINES, HEIGHT);
    check_whole(&frame);
    frame = ACQUIRE_FRAME(readers.whole, PATIENCE);
    await_order();
    check_whole(&frame);
}

/* The writer releases the frame, or changes the format. */
static void given_up(enum order how)
{
    struct gpud_frame *frame = early_frame(90);
    uint64_t before = INFO(frame, frame).sequence;
    tell(how, 0);
    check_lost(&frame, 91);
    if (how == CONFIGURE) { /* which the receivers answer */
        ask(LINES, HEIGHT);
        for (int64_t end = gpud_test_now() + PATIENCE; !frame && gpud_test_now() < end;) {
            struct gpud_frame *other = NULL;
            try(readers.early, 5 * GPUD_MSEC, &frame);
            if (try(readers.whole, 5 * GPUD_MSEC, &other) == GPUD_OK)
                check_whole(&other);
        }
        CHECK(frame, "no frame after the change");
        await_order();
        check_whole(&frame);
        connect_both();
        return;
    }
    check_none_whole();
    frame = early_frame(HEIGHT);
    CHECK_EQUAL(INFO(frame, frame).sequence, before + 1);
    check_whole(&frame);
    frame = ACQUIRE_FRAME(readers.whole, PATIENCE);
    CHECK_EQUAL(INFO(frame, frame).sequence, before + 1);
    check_whole(&frame);
}

static void ended(struct gpud_receiver *receiver)
{
    struct gpud_frame *frame;
    enum gpud_status status = GPUD_TIMEOUT;
    for (int64_t end = gpud_test_now() + PATIENCE; status == GPUD_TIMEOUT;) {
        CHECK(gpud_test_now() < end, "the link does not end");
        status = try(receiver, 20 * GPUD_MSEC, &frame);
    }
    CHECK_EQUAL(status, GPUD_PEER);
}

static void next_writer(void)
{
    ended(readers.early);
    ended(readers.whole);
    start_writer();
    connect_both();
    whole_at_once();
}

static void killed(void)
{
    struct gpud_frame *frame = early_frame(90);
    end_writer(true);
    WORKS(gpud_frame_wait_lines(frame, 90, PATIENCE, &e));
    check_lost(&frame, 91);
    next_writer();
}

static void destroyed(void)
{
    struct gpud_frame *frame = early_frame(90);
    tell(DESTROY, 0);
    check_lost(&frame, 91);
    end_writer(false);
    next_writer();
}

static void lied_to(uint32_t lines)
{
    struct gpud_frame *frame = early_frame(90);
    WORKS(gpud_frame_wait_lines(frame, 90, PATIENCE, &e));
    tell(LIE, lines);
    EXPECT(GPUD_PEER, "valid lines", gpud_frame_wait_lines(frame, 91, PATIENCE, &e));
    check_lost(&frame, 91);
    ended(readers.early);
    end_writer(true);
    ended(readers.whole);
    start_writer();
    connect_both();
    whole_at_once();
}

int main(int argc, char **argv)
{
    test_alarm(110);
    if (argc > 1)
        device = argv[1];
    snprintf(address, sizeof(address), "lines-%d", (int)getpid());
    board_fd = argc > 3 ? atoi(argv[3]) : memfd_create("board", 0);
    CHECK(argc > 3 || ftruncate(board_fd, sizeof(*board)) == 0, "no board");
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, board_fd, 0);
    CHECK(board != MAP_FAILED, "no board");
    if (argc > 3) {
        snprintf(address, sizeof(address), "%s", argv[2]);
        write_frames();
    }
    start_writer();
    readers.context = NEW_CONTEXT();
    readers.early =
        NEW_RECEIVER(readers.context, .address = address, .device = device, .by_lines = true);
    readers.whole = NEW_RECEIVER(readers.context, .address = address, .device = device);
    connect_both();
    CHECK(!INFO(receiver, readers.early).whole_reason[0], "whole, as %s",
          INFO(receiver, readers.early).whole_reason);
    CHECK(INFO(receiver, readers.whole).whole_reason[0], "no reason");
    SAY("by lines");
    by_lines();
    whole_at_once();
    SAY("misuse");
    misused();
    SAY("a writer that is stopped");
    stopped();
    SAY("a frame that is given up");
    given_up(RELEASE);
    given_up(CONFIGURE);
    SAY("a writer that is killed, or leaves");
    killed();
    destroyed();
    SAY("lines that are none");
    lied_to(HEIGHT + 1);
    lied_to(10);
    end_writer(false);
    gpud_receiver_destroy(&readers.early);
    gpud_receiver_destroy(&readers.whole);
    gpud_context_destroy(&readers.context);
    return 0;
}
