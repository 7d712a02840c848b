/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pictures that are handed over while another process writes them: row by row at a receiver that
 * asked for it, whole at one that did not, and what becomes of both when the writer stops, dies,
 * gives a frame up, or says nonsense about its lines. Where the frames are copied, the rows come in
 * steps. Arguments: the writer's device, the readers', the route, and `own` where the readers have
 * memory of their own. */
#include "actor.h"
#include "frame/frame.h"
#include "stream/receiver/receiver.h"
#include "stream/sender/sender.h"
#include "support/copies.h"

#define WIDTH 320
#define HEIGHT 180
#define PATIENCE (20 * GPUD_SEC)

static const char *from = "host", *to = "host", *route = "map";
static bool own;
static char name[32]; /* of the stream: several of these tests may run at once */

/* Whether frames are copied on their way. */
static bool has_steps(void)
{
    return own || strcmp(route, "map") != 0;
}

/* Rows that a GPU writes from, or reads into, host memory; in the order of a queue. */
struct pixels {
    struct gpud_device *host;
    struct gpud_queue *queue;
    struct gpud_memory *memory, *view; /* the second: as the GPU sees it; the first one's */
    struct gpud_layout layout;
};

static void open_pixels(struct pixels *pixels, struct gpud_context *context,
                        struct gpud_device *device, const struct gpud_layout *layout)
{
    pixels->layout = *layout;
    pixels->host = OPEN_DEVICE(context, "host");
    pixels->queue = NEW_QUEUE(device);
    pixels->memory = NEW_MEMORY(pixels->host, layout->size);
    WORKS(gpud_memory_view(pixels->memory, device, &pixels->view, &e));
}

static void close_pixels(struct pixels *pixels)
{
    gpud_queue_unref(&pixels->queue);
    gpud_memory_unref(&pixels->memory);
    gpud_device_close(&pixels->host);
}

static void copy_rows(struct pixels *pixels, struct gpud_frame *frame, bool into_frame,
                      struct gpud_rows rows)
{
    struct gpud_copy copy = {.to = pixels->view, .from = frame->memory};
    copy.from_offset = frame->offset;
    if (into_frame)
        copy = (struct gpud_copy){
            .to = frame->memory, .to_offset = frame->offset, .from = pixels->view};
    WORKS(gpud_rows_copy(pixels->queue, &copy, &pixels->layout, &pixels->layout, rows, &e));
    WORKS(gpud_queue_flush(pixels->queue, &e));
    WORKS(gpud_queue_finish(pixels->queue, gpud_deadline(PATIENCE), &e));
}

/* --- the writer, a process ------------------------------------------------------------------- */

static struct writer {
    struct gpud_context *context;
    struct gpud_sender *sender;
    struct gpud_layout layout;
    struct gpud_frame *frame;
    struct pixels pixels; /* of a GPU */
    uint8_t *data;
    uint64_t number;
    uint32_t lines;
} writer;

static uint8_t value_of(uint64_t number, uint32_t row)
{
    return (uint8_t)(number * 37 + row * 3 + 1);
}

static void begin_frame(void)
{
    writer.frame = ACQUIRE_SLOT(writer.sender, PATIENCE);
    writer.number++;
    writer.lines = 0;
    struct gpud_frame_info info = INFO(frame, writer.frame);
    info.offset = writer.number;
    WORKS(gpud_frame_set_info(writer.frame, &info, &e));
    if (strcmp(from, "host") == 0) {
        writer.data = MAP_FRAME(writer.frame, GPUD_WRITE, PATIENCE);
        memset(writer.data, 0, writer.layout.size);
        return;
    }
    if (!writer.pixels.queue)
        open_pixels(&writer.pixels, writer.context, writer.sender->device, &writer.layout);
    writer.data = writer.pixels.memory->host;
    WORKS(gpud_frame_order(writer.frame, writer.pixels.queue, gpud_deadline(PATIENCE), &e));
}

static unsigned write_lines(unsigned lines)
{
    if (!writer.frame)
        begin_frame();
    struct gpud_rows rows = {writer.lines, lines};
    const struct gpud_plane *plane = &writer.layout.plane[0];
    for (uint32_t row = rows.from; row < rows.to; row++)
        memset(writer.data + plane->offset + row * plane->stride, value_of(writer.number, row),
               plane->row_bytes);
    if (writer.pixels.queue && lines > writer.lines)
        copy_rows(&writer.pixels, writer.frame, true, rows);
    WORKS(gpud_sender_submit_lines(writer.sender, writer.frame, lines, PATIENCE, &e));
    writer.lines = lines;
    if (lines == HEIGHT)
        gpud_frame_release(&writer.frame);
    return (unsigned)writer.number;
}

static void configure(void)
{
    writer.layout = CONFIGURE(writer.sender, "UYVY", WIDTH, HEIGHT);
}

static unsigned release(unsigned unused)
{
    gpud_frame_release(&writer.frame);
    return (unsigned)writer.number;
}

static unsigned configure_anew(unsigned unused)
{
    configure();
    if (writer.frame)
        EXPECT(GPUD_INVALID, "",
               gpud_sender_submit_lines(writer.sender, writer.frame, HEIGHT, 0, &e));
    gpud_frame_release(&writer.frame);
    return (unsigned)writer.number;
}

static unsigned destroy(unsigned unused)
{
    gpud_sender_destroy(&writer.sender);
    gpud_frame_release(&writer.frame);
    return (unsigned)writer.number;
}

static unsigned lie(unsigned lines)
{
    struct gpud_sender *sender = writer.sender;
    /* Under the lock: a reader that has seen the first one leaves, and its link's transport goes.
     */
    gpud_sender_lock(sender);
    for (uint32_t i = 0; i < sender->link_count; i++)
        for (uint32_t entry = 0; sender->links[i]->transport && entry < GPUD_PAGE_ENTRIES; entry++)
            gpud_page_set_lines(&sender->links[i]->transport->page, entry, lines);
    gpud_sender_unlock(sender);
    return (unsigned)writer.number;
}

/* In the middle of a frame. */
static unsigned misuse(unsigned unused)
{
    struct gpud_sender *sender = writer.sender;
    struct gpud_frame *frame = writer.frame, *other = ACQUIRE_SLOT(sender, PATIENCE);
    EXPECT(GPUD_INVALID, "do not become fewer",
           gpud_sender_submit_lines(sender, frame, writer.lines - 1, 0, &e));
    EXPECT(GPUD_INVALID, "of a picture that has",
           gpud_sender_submit_lines(sender, frame, HEIGHT + 1, 0, &e));
    EXPECT(GPUD_INVALID, "the frame before", gpud_sender_submit_lines(sender, other, 1, 0, &e));
    EXPECT(GPUD_INVALID, "the frame before", gpud_sender_submit_keep(sender, other, 0, &e));
    EXPECT(GPUD_INVALID, "the frame before", gpud_sender_submit_keep(sender, frame, 0, &e));
    gpud_frame_release(&other);
    EXPECT(GPUD_INVALID, "no frame", gpud_sender_submit(sender, &other, 0, &e));
    EXPECT(GPUD_INVALID, "no frame", gpud_sender_submit_keep(sender, NULL, 0, &e));
    EXPECT(GPUD_INVALID, "no frame", gpud_sender_submit_lines(sender, NULL, 1, 0, &e));
    WORKS(gpud_sender_submit_lines(sender, frame, writer.lines, 0, &e));

    struct gpud_memory *memory = NEW_MEMORY(sender->device, writer.layout.size);
    WORKS(gpud_frame_wrap(memory, 0, &writer.layout, &other, &e));
    EXPECT(GPUD_INVALID, "the frame before", gpud_sender_submit_lines(sender, other, 1, 0, &e));
    write_lines(HEIGHT);
    EXPECT(GPUD_INVALID, "that this sender lent",
           gpud_sender_submit_lines(sender, other, 1, 0, &e));
    gpud_frame_release(&other);
    gpud_memory_unref(&memory);

    other = ACQUIRE_SLOT(sender, PATIENCE);
    gpud_frame_ref(other); /* so that others may read it */
    EXPECT(GPUD_INVALID, "whole", gpud_sender_submit_lines(sender, other, 1, 0, &e));
    gpud_frame_release(&(struct gpud_frame *){other});
    gpud_frame_release(&other);
    return (unsigned)writer.number;
}

/* What a network card would do. */
static void use_network(void)
{
    if (strncmp(route, "rdma", 4) == 0 && !peer_key())
        copies_install();
}

static void find_way(void)
{
    static char words[3][32];
    const char *line = hear();
    CHECK(line && sscanf(line, "%31s %31s %31s %31s", words[0], words[1], words[2], name) == 4,
          "no way");
    from = words[0];
    to = words[1];
    route = words[2];
    test_alarm(peer_key() ? 600 : 110);
    use_network();
}

static void play_writer(void)
{
    static const struct command commands[] = {
        {"lines", write_lines}, {"release", release}, {"configure", configure_anew},
        {"destroy", destroy},   {"lie", lie},         {"misuse", misuse},
        {NULL, NULL},
    };
    find_way();
    writer.context = NEW_CONTEXT();
    writer.sender = NEW_SENDER(writer.context, .address = peer_address(name),
                               .psk_file = peer_key(), .device = from, .route = route);
    configure();
    WORKS(gpud_sender_wait(writer.sender, 2, PATIENCE, &e));
    obey(commands);
    gpud_frame_release(&writer.frame);
    close_pixels(&writer.pixels);
    gpud_sender_destroy(&writer.sender);
    gpud_context_destroy(&writer.context);
}

/* --- the readers ------------------------------------------------------------------------------ */

static struct readers {
    struct gpud_context *context;
    struct gpud_receiver *early, *whole;
    struct gpud_device *device; /* own: for their memory */
    struct pixels pixels;       /* of a GPU */
    struct actor writer;
    uint64_t number; /* of the frame that the writer has begun, as it said last */
} readers;

/* Without a wait for the writer. */
static void ask(const char *order, unsigned lines)
{
    actor_tell(&readers.writer, "%s %u", order, lines);
}

static void await_order(void)
{
    readers.number = actor_await_done(&readers.writer);
}

static void tell(const char *order, unsigned lines)
{
    ask(order, lines);
    await_order();
}

static void start_writer(void)
{
    readers.number = 0;
    actor_start(&readers.writer, "writer");
    actor_tell(&readers.writer, "%s %s %s %s", from, to, route, name);
}

static enum gpud_status try(struct gpud_receiver *receiver, int64_t timeout,
                            struct gpud_frame **frame)
{
    struct gpud_error error = {0};
    return gpud_receiver_acquire(receiver, timeout, frame, &error);
}

static enum gpud_status alloc(void *user, const struct gpud_layout *layout, uint32_t slot,
                              struct gpud_memory **memory, struct gpud_error *error)
{
    return gpud_memory_alloc(user, layout->size, GPUD_MEMORY_PLAIN, memory, error);
}

static struct gpud_receiver *new_early(void)
{
    return NEW_RECEIVER(readers.context, .address = peer_address(name), .psk_file = peer_key(),
                        .device = to, .route = route, .by_lines = true, .alloc = own ? alloc : NULL,
                        .user = readers.device);
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
    uint64_t number = INFO(frame, frame).offset;
    CHECK(number >= readers.number, "frame %llu, an old one", (unsigned long long)number);
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t at = 0; at < plane->row_bytes; at++)
            CHECK(data[plane->offset + row * plane->stride + at] == value_of(number, row),
                  "byte %u of row %u of %u, frame %llu", at, row, rows, (unsigned long long)number);
}

static void check_early_rows(struct gpud_frame *frame, uint32_t rows)
{
    struct gpud_frame_info info = INFO(frame, frame);
    CHECK(!(info.flags & GPUD_FRAME_CORRUPTED), "corrupted");
    if (strcmp(to, "host") == 0) {
        check_rows(frame, (const uint8_t *)info.native + info.memory_offset, rows);
        return;
    }
    if (!readers.pixels.queue)
        open_pixels(&readers.pixels, readers.context, frame->memory->device, &info.layout);
    copy_rows(&readers.pixels, frame, false, (struct gpud_rows){0, rows});
    check_rows(frame, readers.pixels.memory->host, rows);
}

static void check_whole(struct gpud_frame **frame)
{
    check_rows(*frame, MAP_FRAME(*frame, GPUD_READ, PATIENCE), HEIGHT);
    gpud_frame_unmap(*frame);
    CHECK(!(INFO(frame, *frame).flags & GPUD_FRAME_CORRUPTED), "corrupted");
    gpud_frame_release(frame);
}

static void take_whole(void)
{
    struct gpud_frame *frame = ACQUIRE_FRAME(readers.whole, PATIENCE);
    check_whole(&frame);
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
    ask("lines", lines);
    struct gpud_frame *frame = ACQUIRE_FRAME(readers.early, PATIENCE);
    await_order();
    if (lines > 0 && has_steps()) /* until the devices are done */
        WORKS(gpud_frame_wait_lines(frame, lines, PATIENCE, &e));
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
        uint32_t first = has_steps() ? 30 : 10;
        struct gpud_frame *frame = early_frame(i % 2 ? 0 : first), *whole;
        if (i % 2 == 0) {
            WORKS(gpud_frame_wait_lines(frame, first, 0, &e));
            check_early_rows(frame, first);
        }
        EXPECT(GPUD_TIMEOUT, "", gpud_frame_wait_lines(frame, first + 1, 5 * GPUD_MSEC, &e));
        EXPECT(GPUD_TIMEOUT, "", gpud_frame_map(frame, GPUD_READ, 5 * GPUD_MSEC, &data, &e));
        EXPECT(GPUD_INVALID, "lines", gpud_frame_wait_lines(frame, 0, 0, &e));
        EXPECT(GPUD_INVALID, "lines", gpud_frame_wait_lines(frame, HEIGHT + 1, 0, &e));
        check_none_whole();
        for (uint32_t lines = 60; lines < HEIGHT; lines += 60) {
            ask("lines", lines);
            WORKS(gpud_frame_wait_lines(frame, lines, PATIENCE, &e));
            check_early_rows(frame, lines);
            await_order();
        }
        check_none_whole();
        if (i % 3 == 2) /* enough of it */
            gpud_frame_release(&frame);
        tell("lines", HEIGHT);
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

/* Every row is announced by itself. */
static void row_by_row(void)
{
    struct gpud_frame *frame = early_frame(0);
    const struct gpud_rx_frame *rx = (const struct gpud_rx_frame *)frame;
    const _Atomic uint32_t *word = &rx->session->view.page->sender.lines[rx->entry];
    uint32_t seen = 0, steps = 0;
    for (uint32_t lines = 1; lines <= HEIGHT; lines++) {
        tell("lines", lines);
        struct gpud_error error;
        gpud_frame_wait_lines(frame, lines, 0, &error); /* there, or not yet */
        uint32_t now = rx->session->uploads ? rx->uploaded : atomic_load(word);
        steps += now != seen;
        seen = now;
        if (seen == 0)
            continue;
        WORKS(gpud_frame_wait_lines(frame, seen, PATIENCE, &e));
        check_early_rows(frame, seen);
    }
    WORKS(gpud_frame_wait_lines(frame, HEIGHT, PATIENCE, &e));
    if (has_steps())
        CHECK(steps <= GPUD_LINES_STEPS, "%u steps", steps);
    check_whole(&frame);
    take_whole();
}

/* The last row is waited for while the others are still written. */
static void waited_for_at_once(void)
{
    struct gpud_frame *frame = early_frame(0);
    for (uint32_t lines = 20; lines <= HEIGHT; lines += 20) {
        ask("lines", lines);
        if (lines == HEIGHT)
            WORKS(gpud_frame_wait_lines(frame, HEIGHT, PATIENCE, &e));
        else
            EXPECT(GPUD_TIMEOUT, "", gpud_frame_wait_lines(frame, HEIGHT, 5 * GPUD_MSEC, &e));
        await_order();
    }
    check_early_rows(frame, HEIGHT);
    check_whole(&frame);
    take_whole();
}

static void whole_at_once(void)
{
    struct gpud_frame *frame = early_frame(HEIGHT);
    WORKS(gpud_frame_wait_lines(frame, HEIGHT, PATIENCE, &e));
    check_whole(&frame);
    take_whole();
}

static void misused(void)
{
    struct gpud_frame *frame = early_frame(90);
    tell("misuse", 0);
    check_whole(&frame);
    take_whole();
}

static void stopped(void)
{
    struct gpud_frame *frame = early_frame(90);
    kill(readers.writer.pid, SIGSTOP);
    EXPECT(GPUD_TIMEOUT, "not yet", gpud_frame_wait_lines(frame, 91, 100 * GPUD_MSEC, &e));
    WORKS(gpud_frame_wait_lines(frame, 90, 0, &e));
    kill(readers.writer.pid, SIGCONT);
    ask("lines", HEIGHT);
    check_whole(&frame);
    frame = ACQUIRE_FRAME(readers.whole, PATIENCE);
    await_order();
    check_whole(&frame);
}

/* Whether the receiver has, or had before, the frame with this sequence; drops earlier ones. */
static bool takes(struct gpud_receiver *receiver, uint64_t sequence, bool before)
{
    AUTO(gpud_frame_release) struct gpud_frame *frame = NULL;
    if (before || try(receiver, 5 * GPUD_MSEC, &frame) != GPUD_OK)
        return before;
    bool latest = INFO(frame, frame).sequence == sequence;
    if (latest)
        check_whole(&frame);
    return latest;
}

/* A receiver answers a change of format, or connects, in its own time. Sends whole frames until
 * both have the same one, after which none is on its way. */
static void send_until_both_follow(uint64_t sequence)
{
    for (int64_t end = gpud_test_now() + PATIENCE; gpud_test_now() < end;) {
        bool early = false, whole = false;
        ask("lines", HEIGHT);
        sequence++;
        for (int tries = 0; tries < 20 || !actor_has_line(&readers.writer); tries++) {
            early = takes(readers.early, sequence, early);
            whole = takes(readers.whole, sequence, whole);
            if (early && whole) {
                await_order();
                return;
            }
            CHECK(gpud_test_now() < end, "no frame that both have");
        }
        await_order();
    }
    CHECK(false, "no frame that both have");
}

/* The writer releases the frame, or changes the format. */
static void given_up(const char *how)
{
    struct gpud_frame *frame = early_frame(90);
    uint64_t before = INFO(frame, frame).sequence;
    tell(how, 0);
    check_lost(&frame, 91);
    if (strcmp(how, "configure") == 0) {
        send_until_both_follow(before);
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
    actor_kill(&readers.writer);
    WORKS(gpud_frame_wait_lines(frame, 90, PATIENCE, &e));
    check_lost(&frame, 91);
    next_writer();
}

static void destroyed(void)
{
    struct gpud_frame *frame = early_frame(90);
    tell("destroy", 0);
    check_lost(&frame, 91);
    actor_finish(&readers.writer);
    next_writer();
}

/* The reader leaves, and keeps the frame for a while. */
static void kept(void)
{
    struct gpud_frame *frame = early_frame(90), *whole;
    struct gpud_error error;
    gpud_receiver_destroy(&readers.early);
    WORKS(gpud_frame_wait_lines(frame, 90, PATIENCE, &e));
    check_early_rows(frame, 90);
    gpud_frame_wait_lines(frame, 150, 20 * GPUD_MSEC, &error); /* not to come, or not there */
    tell("lines", 150);
    gpud_frame_release(&frame);
    tell("lines", HEIGHT);
    whole = ACQUIRE_FRAME(readers.whole, PATIENCE);
    uint64_t sequence = INFO(frame, whole).sequence;
    check_whole(&whole);
    readers.early = new_early();
    send_until_both_follow(sequence);
}

static void lied_to(uint32_t lines)
{
    struct gpud_frame *frame = early_frame(90);
    WORKS(gpud_frame_wait_lines(frame, 90, PATIENCE, &e));
    tell("lie", lines);
    EXPECT(GPUD_PEER, "valid lines", gpud_frame_wait_lines(frame, 91, PATIENCE, &e));
    check_lost(&frame, 91);
    ended(readers.early);
    actor_kill(&readers.writer);
    ended(readers.whole);
    start_writer();
    connect_both();
    whole_at_once();
}

int main(int argc, char **argv)
{
    actor_main(argc, argv, "writer", play_writer);
    test_alarm(peer_key() ? 600 : 110);
    if (argc > 3) {
        from = argv[1];
        to = argv[2];
        route = argv[3];
        own = argc > 4 && strcmp(argv[4], "own") == 0;
    }
    use_network();
    snprintf(name, sizeof(name), "lines-%d", (int)getpid());
    start_writer();
    readers.context = NEW_CONTEXT();
    if (own)
        readers.device = OPEN_DEVICE(readers.context, to);
    readers.early = new_early();
    readers.whole = NEW_RECEIVER(readers.context, .address = peer_address(name),
                                 .psk_file = peer_key(), .device = to, .route = route);
    connect_both();
    CHECK(strcmp(INFO(receiver, readers.early).path, route) == 0, "by %s",
          INFO(receiver, readers.early).path);
    CHECK(!INFO(receiver, readers.early).whole_reason[0], "whole, as %s",
          INFO(receiver, readers.early).whole_reason);
    CHECK(INFO(receiver, readers.whole).whole_reason[0], "no reason");
    SAY("by lines");
    by_lines();
    row_by_row();
    waited_for_at_once();
    whole_at_once();
    CASE("misuse", misused());
    CASE("a writer that is stopped", stopped());
    SAY("a frame that is given up");
    given_up("release");
    given_up("configure");
    SAY("a writer that is killed, or leaves");
    killed();
    destroyed();
    CASE("a reader that leaves", kept());
    SAY("lines that are none");
    lied_to(HEIGHT + 1);
    lied_to(10);
    actor_finish(&readers.writer);
    gpud_receiver_destroy(&readers.early);
    gpud_receiver_destroy(&readers.whole);
    close_pixels(&readers.pixels);
    gpud_device_close(&readers.device);
    gpud_context_destroy(&readers.context);
    return 0;
}
