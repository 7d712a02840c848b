/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* kill −9 while GPUs wait for each other: streams of both applications wait for words that the dead
 * process will never write. The survivor's stream still completes, exactly the incomplete frames
 * are flagged, it streams with the next peer, and neither descriptors nor threads nor a GPU's
 * memory leak. Then live peers that do not keep their promises. */
#include "actor.h"
#include "support/gpu.h"
#include "support/tally.h"

#include <sys/mman.h>

#define ADDRESS "kill-cuda"
#define AGAIN (10 * GPUD_SEC) /* a frame of, or a place for, the next peer */
#define FREED (5 * GPUD_SEC)  /* whatever a death holds up goes on by then */
#define STANDING_BY 3         /* victims that are opened while others die */

static struct {
    const char *here, *other, *route; /* devices, and the way between them */
    struct gpu gpu;
    struct gpu far; /* the other side's device, to look at its memory */
    size_t slack;   /* bytes that others may take on a device that is not ours alone */
    struct gpud_layout layout;
} scene;

/* --- the victim ------------------------------------------------------------------------------- */

/* It is killed while GPUs wait for each other: this program, started anew, sends or receives by
 * work on a stream alone. On order it holds that stream up, so that whatever it has promised by
 * then is never done. */

struct victim_orders {
    bool sends;
    bool rests; /* takes no more frames while the stream is held up */
    char device[32], route[32];
};

struct victim_board {
    struct victim_orders orders;
    /* By the test. */
    atomic_bool go;     /* everything is opened before, so that a start costs nothing later */
    atomic_bool hold;   /* the stream, from the next frame on, once */
    atomic_bool let_go; /* what is held */
    atomic_bool leave;
    /* By the victim. */
    atomic_ullong frames, last;
    atomic_ullong held_from; /* the first frame whose work is held up; 0: none is */
    atomic_ullong ends, lost, wrong;
    char reason[GPUD_REASON_MAX]; /* of the last loss */
};

struct victim {
    pid_t pid;
    struct victim_board *board;
};

static struct victim_board *own;

/* Between the wait for a frame and the work on it. */
static void hold_if_ordered(uint64_t number)
{
    if (!atomic_load(&own->hold) || atomic_load(&own->held_from))
        return;
    gpu_hold(&scene.gpu);
    atomic_store(&own->held_from, number);
}

static void let_go_if_ordered(void)
{
    if (atomic_load(&own->let_go))
        gpu_let_go(&scene.gpu);
}

/* Checked once, by the CPU, to show that the stream is good. */
static void check_first(struct gpud_frame *frame, uint64_t number)
{
    void *data;
    struct gpud_error error = {.reason = ""};
    if (gpud_frame_map(frame, GPUD_READ, 10 * GPUD_SEC, &data, &error) != GPUD_OK) {
        snprintf(own->reason, sizeof(own->reason), "%s", error.reason);
        atomic_fetch_add(&own->wrong, 1);
        return;
    }
    if (!gpu_is_picture(&scene.gpu, data, number))
        atomic_fetch_add(&own->wrong, 1);
    gpud_frame_unmap(frame);
}

static void play_receiver(struct gpud_context *context)
{
    struct gpud_receiver *receiver = NEW_RECEIVER(
        context, .address = ADDRESS, .device = own->orders.device, .route = own->orders.route);
    while (!atomic_load(&own->leave)) {
        struct gpud_frame *frame;
        struct gpud_error error = {.reason = ""};
        let_go_if_ordered();
        if (own->orders.rests && atomic_load(&own->held_from) && !atomic_load(&own->let_go)) {
            gpud_test_nap(1);
            continue;
        }
        enum gpud_status status = gpud_receiver_acquire(receiver, 20 * GPUD_MSEC, &frame, &error);
        if (status == GPUD_OK) {
            struct gpud_frame_info info = INFO(frame, frame);
            if (atomic_load(&own->frames) == 0)
                check_first(frame, info.offset);
            WORKS(gpud_frame_wait(frame, scene.gpu.stream, &e));
            hold_if_ordered(info.offset);
            gpu_take(&scene.gpu, frame, (unsigned)info.sequence);
            WORKS(gpud_frame_post(frame, scene.gpu.stream, &e));
            gpud_frame_release(&frame);
            atomic_store(&own->last, info.offset);
            atomic_fetch_add(&own->frames, 1);
        } else if (status == GPUD_CLOSED) {
            atomic_fetch_add(&own->ends, 1);
        } else if (status != GPUD_TIMEOUT) {
            snprintf(own->reason, sizeof(own->reason), "%s", error.reason);
            atomic_fetch_add(&own->lost, 1);
        }
    }
    gpu_let_go(&scene.gpu);
    gpud_receiver_destroy(&receiver);
}

static void give(struct gpud_sender *sender, struct gpud_frame *frame, uint64_t number)
{
    struct gpud_error error = {.reason = ""};
    WORKS(gpud_frame_wait(frame, scene.gpu.stream, &e));
    hold_if_ordered(number);
    gpu_fill(&scene.gpu, frame, number);
    WORKS(gpud_frame_post(frame, scene.gpu.stream, &e));
    struct gpud_frame_info info = INFO(frame, frame);
    info.offset = number;
    WORKS(gpud_frame_set_info(frame, &info, &e));
    enum gpud_status status = GPUD_TIMEOUT;
    while (status == GPUD_TIMEOUT && !atomic_load(&own->leave)) {
        let_go_if_ordered();
        status = gpud_sender_submit(sender, &frame, 20 * GPUD_MSEC, &error);
    }
    CHECK(status == GPUD_OK || status == GPUD_TIMEOUT, "frame %llu is not taken: %s",
          (unsigned long long)number, error.reason);
    gpud_frame_release(&frame); /* one that is left over when it is time to leave */
    atomic_store(&own->last, number);
    atomic_fetch_add(&own->frames, 1);
}

static void play_sender(struct gpud_context *context)
{
    struct gpud_sender *sender = NEW_SENDER(
        context, .address = ADDRESS, .device = own->orders.device, .route = own->orders.route);
    WORKS(gpud_sender_configure(sender, PICTURE(&scene.layout), &e));
    struct gpud_error error = {.reason = ""};
    for (uint64_t number = 1; !atomic_load(&own->leave);) {
        struct gpud_frame *frame;
        let_go_if_ordered();
        /* Without a receiver there is no limit to the frames that a stream accepts. */
        enum gpud_status status = gpud_sender_wait(sender, 1, 20 * GPUD_MSEC, &error);
        if (status == GPUD_OK)
            status = gpud_sender_acquire(sender, 20 * GPUD_MSEC, &frame, &error);
        CHECK(status == GPUD_OK || status == GPUD_TIMEOUT, "no slot is lent: %s", error.reason);
        if (status == GPUD_OK)
            give(sender, frame, number++);
    }
    gpu_let_go(&scene.gpu);
    gpud_sender_destroy(&sender);
}

static void victim_main(int argc, char **argv)
{
    own = peer_board_open("--victim", argc, argv, sizeof(*own));
    if (!own)
        return;
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_device *device = OPEN_DEVICE(context, own->orders.device);
    gpu_open(&scene.gpu, own->orders.device, scene.layout.size);
    while (!atomic_load(&own->go))
        gpud_test_nap(1);
    if (own->orders.sends)
        play_sender(context);
    else
        play_receiver(context);
    gpu_close(&scene.gpu);
    gpud_device_close(&device);
    gpud_context_destroy(&context);
    exit(0);
}

/* --- victims, opened ahead -------------------------------------------------------------------- */

static void victim_start(struct victim *victim, const struct victim_orders *orders)
{
    int fd;
    victim->board = peer_board_make(sizeof(*victim->board), &fd);
    victim->board->orders = *orders;
    victim->pid = peer_spawn("--victim", fd);
}

struct victims {
    struct victim_orders orders;
    struct victim victim[STANDING_BY];
    int started, used, wanted;
};

static struct victims victims_of(bool sends, int wanted)
{
    struct victims victims = {.orders = {.sends = sends}, .wanted = wanted};
    snprintf(victims.orders.device, sizeof(victims.orders.device), "%s", scene.other);
    snprintf(victims.orders.route, sizeof(victims.orders.route), "%s", scene.route);
    return victims;
}

static struct victim *victims_next(struct victims *victims)
{
    while (victims->started < victims->wanted && victims->started < victims->used + STANDING_BY)
        victim_start(&victims->victim[victims->started++ % STANDING_BY], &victims->orders);
    struct victim *victim = &victims->victim[victims->used++ % STANDING_BY];
    atomic_store(&victim->board->go, true);
    return victim;
}

/* What is left of one that was killed, or has left: nothing may have been wrong. */
static void victims_check(struct victim *victim)
{
    const struct victim_board *board = victim->board;
    CHECK(board->wrong == 0, "the peer's first picture is wrong: %s", board->reason);
    CHECK(board->ends == 0, "the peer got an EOS that was not sent");
    munmap(victim->board, sizeof(*victim->board));
}

/* It leaves in order. */
static void victims_finish(struct victim *victim)
{
    atomic_store(&victim->board->leave, true);
    spawned_await_end(victim->pid, 0);
    victims_check(victim);
}

/* --- this side receives ----------------------------------------------------------------------- */

struct seen {
    uint64_t number;
    bool whole;  /* the sender's device had finished it while the sender was alive */
    bool broken; /* and this one it never can */
    struct gpud_frame *frame;
};

struct input {
    struct gpud_context *context;
    struct gpud_receiver *receiver;
    struct seen seen[GPU_PLACES];
    unsigned count;
    unsigned room; /* frames that are kept, from the next one on */
    bool broken;   /* whatever comes now is */
    uint64_t whole, corrupted;
};

static void input_open(struct input *input, struct gpud_context *context)
{
    *input = (struct input){.context = context};
    input->receiver =
        NEW_RECEIVER(context, .address = ADDRESS, .device = scene.here, .route = scene.route);
}

static void input_close(struct input *input)
{
    gpud_receiver_destroy(&input->receiver);
    gpud_context_destroy(&input->context);
}

/* Everything by the stream: the frame goes back before the device has so much as looked at it. */
static void input_take(struct input *input, struct gpud_frame *frame)
{
    struct gpud_frame_info info = INFO(frame, frame);
    struct seen *seen = &input->seen[input->count % GPU_PLACES];
    gpud_frame_release(&seen->frame); /* of a round so long that its place is needed again */
    *seen = (struct seen){.number = info.offset, .broken = input->broken};
    WORKS(gpud_frame_wait(frame, scene.gpu.stream, &e));
    gpu_take(&scene.gpu, frame, input->count++);
    WORKS(gpud_frame_post(frame, scene.gpu.stream, &e));
    if (input->room) {
        input->room--;
        seen->frame = frame;
    } else {
        gpud_frame_release(&frame);
    }
}

static struct gpud_frame *next_frame(struct input *input, const char *what)
{
    struct gpud_frame *frame;
    struct gpud_error error = {.reason = ""};
    int64_t until = gpud_test_now() + AGAIN;
    enum gpud_status status;
    while ((status = gpud_receiver_acquire(input->receiver, 100 * GPUD_MSEC, &frame, &error)) !=
           GPUD_OK)
        CHECK(status == GPUD_TIMEOUT && gpud_test_now() < until, "no %s: %s: %s", what,
              gpud_status_string(status), error.reason);
    return frame;
}

/* Takes frames until one comes that the sender's device does not finish. What came before it is
 * whole, and the device says so. Without `hold`: some frames, whole up to a point. */
static void input_take_to_the_gap(struct input *input, struct victim_board *board, bool hold)
{
    unsigned wanted = 2 + tally_random_below(20);
    for (unsigned i = 0; i < wanted; i++) {
        input->room = i + 1 == wanted; /* one that is whole */
        input_take(input, next_frame(input, "frame from this sender"));
    }
    struct gpud_frame *first = NULL;
    atomic_store(&board->hold, hold);
    while (hold && !first) {
        struct gpud_frame *frame = next_frame(input, "frame from the sender that is held up");
        struct gpud_frame_info info = INFO(frame, frame);
        unsigned long long from = atomic_load(&board->held_from);
        if (from && info.offset >= from)
            first = frame;
        else
            input_take(input, frame);
    }
    gpu_mark(&scene.gpu);
    PEER_UNTIL("the end of what the sender had finished", 10000, gpu_passed(&scene.gpu));
    for (unsigned i = 0; i < input->count && i < GPU_PLACES; i++)
        input->seen[i].whole = true;
    input->broken = hold;
    input->room = 1;
    if (first)
        input_take(input, first);
}

/* A frame that was kept over the death: whole, or flagged, and the CPU is told the same. */
static void check_kept(struct input *input, unsigned place)
{
    struct seen *seen = &input->seen[place];
    struct gpud_error error = {.reason = ""};
    void *data;
    bool flagged = INFO(frame, seen->frame).flags & GPUD_FRAME_CORRUPTED;
    CHECK(!(flagged && seen->whole), "frame %llu is whole, and flagged as corrupted",
          (unsigned long long)seen->number);
    CHECK(flagged || !seen->broken, "frame %llu was never finished, and is not flagged",
          (unsigned long long)seen->number);
    enum gpud_status status = gpud_frame_map(seen->frame, GPUD_READ, 10 * GPUD_SEC, &data, &error);
    if (flagged) {
        CHECK(status == GPUD_PEER, "a corrupted frame maps with \"%s\": %s",
              gpud_status_string(status), error.reason);
        WORKS(gpud_frame_map(seen->frame, GPUD_READ, 10 * GPUD_SEC, &data, &e));
        input->corrupted++;
    } else {
        CHECK(status == GPUD_OK, "frame %llu: %s", (unsigned long long)seen->number, error.reason);
        CHECK(gpu_is_picture(&scene.gpu, data, seen->number),
              "frame %llu is not whole, and not flagged", (unsigned long long)seen->number);
        CHECK(gpu_holds(&scene.gpu, place, seen->number),
              "the stream got another frame %llu than the CPU", (unsigned long long)seen->number);
        input->whole++;
    }
    gpud_frame_release(&seen->frame);
}

/* Looks at all that was taken since the last time, and lets go of what was kept: it must be whole,
 * or flagged, as it is due. The stream must be idle. */
static void input_check(struct input *input)
{
    for (unsigned i = 0; i < input->count && i < GPU_PLACES; i++) {
        struct seen *seen = &input->seen[i];
        CHECK(!seen->whole || gpu_holds(&scene.gpu, i, seen->number),
              "frame %llu was whole, and the stream read something else",
              (unsigned long long)seen->number);
        if (seen->frame)
            check_kept(input, i);
    }
    input->count = input->room = 0;
    input->broken = false;
    CHECK(gpu_works(&scene.gpu), "the context is of no use any more");
}

/* To the end of the link, which tells its reason. */
static void input_take_to_the_end(struct input *input, struct gpud_error *error)
{
    int64_t until = gpud_test_now() + FREED + GPUD_SEC;
    enum gpud_status status;
    do {
        struct gpud_frame *frame;
        status = gpud_receiver_acquire(input->receiver, 50 * GPUD_MSEC, &frame, error);
        if (status == GPUD_OK)
            input_take(input, frame);
        CHECK(gpud_test_now() < until, "the end of the link is not noticed");
    } while (status == GPUD_OK || status == GPUD_TIMEOUT);
    CHECK(status == GPUD_PEER, "the end of the link is told as \"%s\": %s",
          gpud_status_string(status), error->reason);
}

/* --- this side sends -------------------------------------------------------------------------- */

struct output {
    struct gpud_context *context;
    struct gpud_sender *sender;
    struct gpud_frame *pending; /* written, and not taken yet */
    uint64_t number;
    int64_t longest; /* that a frame took */
};

static void output_open(struct output *output, struct gpud_context *context,
                        enum gpud_slow_receiver policy)
{
    *output = (struct output){.context = context};
    output->sender = NEW_SENDER(context, .address = ADDRESS, .device = scene.here,
                                .route = scene.route, .slow_receiver = policy);
    WORKS(gpud_sender_configure(output->sender, PICTURE(&scene.layout), &e));
}

static void output_close(struct output *output)
{
    gpud_frame_release(&output->pending);
    gpud_sender_destroy(&output->sender);
    gpud_context_destroy(&output->context);
}

/* false: no slot or no place within the time; the next call goes on from there. */
static bool output_send(struct output *output, int64_t timeout)
{
    struct gpud_error error = {.reason = ""};
    int64_t start = gpud_test_now();
    enum gpud_status status = GPUD_OK;
    if (!output->pending) {
        status = gpud_sender_acquire(output->sender, timeout, &output->pending, &error);
        CHECK(status == GPUD_OK || status == GPUD_TIMEOUT, "no slot is lent: %s", error.reason);
        if (status != GPUD_OK)
            return false;
        WORKS(gpud_frame_wait(output->pending, scene.gpu.stream, &e));
        gpu_fill(&scene.gpu, output->pending, ++output->number);
        WORKS(gpud_frame_post(output->pending, scene.gpu.stream, &e));
        struct gpud_frame_info info = INFO(frame, output->pending);
        info.offset = output->number;
        WORKS(gpud_frame_set_info(output->pending, &info, &e));
    }
    status = gpud_sender_submit(output->sender, &output->pending, timeout, &error);
    CHECK(status == GPUD_OK || status == GPUD_TIMEOUT, "frame %llu is not taken: %s",
          (unsigned long long)output->number, error.reason);
    int64_t took = gpud_test_now() - start;
    output->longest = took > output->longest ? took : output->longest;
    return status == GPUD_OK;
}

/* Until a word of the board has come so far. */
static void output_send_until(struct output *output, atomic_ullong *word, unsigned long long wanted,
                              const char *what)
{
    int64_t until = gpud_test_now() + AGAIN;
    while (atomic_load(word) < wanted) {
        output_send(output, 50 * GPUD_MSEC);
        gpud_test_nap(1);
        CHECK(gpud_test_now() < until, "%s: not within %d s", what, (int)(AGAIN / GPUD_SEC));
    }
}

/* Until the receiver, whose device is held up, has all that it may have. Whether ours waits for it
 * with work of the application's behind. */
static bool output_send_until_stuck(struct output *output, struct victim_board *board)
{
    int64_t until = gpud_test_now() + AGAIN;
    atomic_store(&board->hold, true);
    for (unsigned in_vain = 0; in_vain < 2;) {
        in_vain = output_send(output, 100 * GPUD_MSEC) ? 0 : in_vain + 1;
        if (!atomic_load(&board->held_from))
            in_vain = 0;
        CHECK(gpud_test_now() < until,
              "a receiver whose device is stalled does not block the sender");
    }
    return !gpu_is_idle(&scene.gpu);
}

static long long ms_since(int64_t start)
{
    return (gpud_test_now() - start) / GPUD_MSEC;
}

/* --- deaths ----------------------------------------------------------------------------------- */

static void kill_senders(int rounds)
{
    struct input input;
    struct gpud_error error = {.reason = ""};
    struct victims victims = victims_of(true, rounds);
    long long worst = 0;
    int outstanding = 0;
    struct gpud_context *context = NEW_CONTEXT();
    input_open(&input, context);
    for (int round = 0; round < rounds; round++) {
        struct victim *victim = victims_next(&victims);
        bool hold = round % 4 != 3; /* else in the middle of whatever it does */
        input_take_to_the_gap(&input, victim->board, hold);
        input.room = tally_random_below(2); /* of four one must be left to come and go */
        for (unsigned more = tally_random_below(3); more; more--)
            input_take(&input, next_frame(&input, "another frame from this sender"));
        CHECK(!(hold && gpu_is_idle(&scene.gpu)), "nothing waits for the one that is killed");
        outstanding += hold;
        int64_t killed = gpud_test_now();
        spawned_kill(victim->pid);
        input_take_to_the_end(&input, &error);
        CHECK(gpu_ends(&scene.gpu, FREED / GPUD_MSEC),
              "round %d: the stream still waits for the dead", round);
        worst = ms_since(killed) > worst ? ms_since(killed) : worst;
        input_check(&input);
        victims_check(victim);
    }
    struct gpud_receiver_info info = INFO(receiver, input.receiver);
    CHECK_EQUAL(info.connects, rounds);
    CHECK_EQUAL(info.disconnects, rounds);
    CHECK(outstanding == 0 || input.corrupted > 0, "no frame of the dead was ever flagged");
    input_close(&input);
    SAY("  %d senders killed, %d with our stream waiting for theirs; of the frames kept %llu were "
        "whole, %llu flagged; all was over at most %lld ms after the death",
        rounds, outstanding, (unsigned long long)input.whole, (unsigned long long)input.corrupted,
        worst);
}

static void kill_receivers(int rounds, enum gpud_slow_receiver policy)
{
    struct output output;
    struct victims victims = victims_of(false, rounds);
    bool blocks = policy == GPUD_SLOW_BLOCK;
    long long worst = 0;
    int held = 0, outstanding = 0;
    struct gpud_context *context = NEW_CONTEXT();
    output_open(&output, context, policy);
    for (int round = 0; round < rounds; round++) {
        struct victim *victim = victims_next(&victims);
        struct victim_board *board = victim->board;
        output_send_until(&output, &board->frames, 1 + tally_random_below(20),
                          "frames at the next receiver");
        if (round % 4 != 3 && blocks) {
            outstanding += output_send_until_stuck(&output, board);
            held++;
        } else if (round % 4 != 3) {
            atomic_store(&board->hold, true);
            output_send_until(&output, &board->held_from, 1, "a receiver that is held up");
            for (int i = 0; i < 6; i++)
                output_send(&output, 50 * GPUD_MSEC);
        }
        int64_t killed = gpud_test_now();
        spawned_kill(victim->pid);
        for (int i = 0; i < 8; i++) /* at once, before the death is noticed */
            CHECK(output_send(&output, FREED), "round %d: the dead hold the sender up", round);
        CHECK(gpu_ends(&scene.gpu, FREED / GPUD_MSEC),
              "round %d: the stream still waits for the dead", round);
        worst = ms_since(killed) > worst ? ms_since(killed) : worst;
        CHECK(gpu_works(&scene.gpu), "the context is of no use any more");
        victims_check(victim);
    }
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    PEER_UNTIL("the last death is noticed", 10000,
               (gpud_sender_get_info(output.sender, &info), info.disconnects >= (uint64_t)rounds));
    CHECK_EQUAL(info.connects, rounds);
    CHECK_EQUAL(info.disconnects, rounds);
    CHECK_EQUAL(info.refused, 0);
    CHECK(rounds == 0 || strcmp(info.path, scene.route) == 0, "the route was %s", info.path);
    output_close(&output);
    CHECK(held == 0 || outstanding > 0, "our stream never waited for one that was killed");
    SAY("  %d receivers killed, %d with our stream waiting for theirs; eight frames more were sent "
        "at most %lld ms after the death",
        rounds, outstanding, worst);
}

/* --- live peers that do not keep their promises ----------------------------------------------- */

static void lying_sender(void)
{
    struct input input;
    struct gpud_error error = {.reason = ""};
    struct victims victims = victims_of(true, 1);
    input_open(&input, raw_context());
    struct victim *victim = victims_next(&victims);
    input_take_to_the_gap(&input, victim->board, true);
    int64_t start = gpud_test_now();
    input_take_to_the_end(&input, &error);
    CHECK(strstr(error.reason, "did not finish it within"), "\"%s\"", error.reason);
    CHECK(ms_since(start) > 1000, "given up after %lld ms", ms_since(start));
    CHECK(gpu_ends(&scene.gpu, FREED / GPUD_MSEC), "the stream still waits for a broken word");
    long long took = ms_since(start);
    input_check(&input);
    CHECK(input.corrupted > 0, "no frame was flagged");
    /* It comes to its senses. */
    atomic_store(&victim->board->let_go, true);
    unsigned long long before = atomic_load(&victim->board->last);
    struct gpud_frame *frame = NULL;
    int64_t until = gpud_test_now() + 3 * AGAIN;
    while (!frame) {
        enum gpud_status status =
            gpud_receiver_acquire(input.receiver, 100 * GPUD_MSEC, &frame, &error);
        CHECK(status != GPUD_CLOSED && gpud_test_now() < until, "not streaming again: %s: %s",
              gpud_status_string(status), error.reason);
        if (status != GPUD_OK)
            continue;
        struct gpud_frame_info info = INFO(frame, frame);
        if (info.offset <= before)
            gpud_frame_release(&frame);
    }
    input.room = 1;
    input_take(&input, frame);
    PEER_UNTIL("a frame of the sender that keeps its word again", 10000, gpu_is_idle(&scene.gpu));
    input.whole = 0;
    input_check(&input);
    CHECK(input.whole == 1, "it is flagged");
    input_close(&input);
    victims_finish(victim);
    SAY("  let go of after %lld ms", took);
}

static void lying_receiver(void)
{
    struct output output;
    struct victims victims = victims_of(false, 1);
    victims.orders.rests = true; /* or it would wait for us, and say that it is our fault */
    raw_log_clear();
    output_open(&output, raw_context(), GPUD_SLOW_BLOCK);
    struct victim *victim = victims_next(&victims);
    struct victim_board *board = victim->board;
    output_send_until(&output, &board->frames, 3, "frames at the receiver");
    atomic_store(&board->hold, true);
    output_send_until(&output, &board->held_from, 1, "a receiver that is held up");
    int64_t start = gpud_test_now();
    /* Only sending checks for that. */
    while (!raw_log_says("its device did not finish with them within", 0)) {
        output_send(&output, 50 * GPUD_MSEC);
        if (gpud_test_now() - start > AGAIN) {
            raw_log_print();
            FAIL("a receiver that does not keep its word is not thrown out");
        }
    }
    long long took = ms_since(start);
    CHECK(took > 1000, "thrown out after %lld ms", took);
    CHECK(output_send(&output, FREED), "the sender is held up by one that is gone");
    CHECK(gpu_ends(&scene.gpu, FREED / GPUD_MSEC), "the stream still waits for a broken word");
    atomic_store(&board->let_go, true);
    PEER_UNTIL("the receiver hears of it", 20000, atomic_load(&board->lost) > 0);
    output_send_until(&output, &board->frames, atomic_load(&board->frames) + 20,
                      "frames at the receiver that keeps its word again");
    CHECK(gpu_ends(&scene.gpu, FREED / GPUD_MSEC), "the stream still waits");
    CHECK(gpu_works(&scene.gpu), "the context is of no use any more");
    victims_finish(victim);
    output_close(&output);
    SAY("  thrown out after %lld ms", took);
}

static void stopped_receiver(void)
{
    struct output output;
    struct victims victims = victims_of(false, 1);
    struct gpud_context *context = NEW_CONTEXT();
    output_open(&output, context, GPUD_SLOW_DROP_NEWEST);
    struct victim *victim = victims_next(&victims);
    struct victim_board *board = victim->board;
    output_send_until(&output, &board->frames, 3, "frames at the receiver");
    atomic_store(&board->hold, true);
    output_send_until(&output, &board->held_from, 1, "a receiver that is held up");
    output_send_until(&output, &board->last, board->held_from, "what it gives back all the same");
    kill(victim->pid, SIGSTOP);
    output.longest = 0;
    unsigned sent = 0;
    for (int64_t until = gpud_test_now() + 4 * GPUD_SEC; gpud_test_now() < until; sent++) {
        CHECK(output_send(&output, 2 * GPUD_SEC),
              "the sender is held up by a receiver that may not");
        CHECK(gpu_ends(&scene.gpu, 1000), "our stream waits for a receiver that may not block");
        gpud_test_nap(2);
    }
    /* A receiver that blocks the sender does so for at least 3 s. */
    CHECK(output.longest < 5 * GPUD_SEC / 2, "a frame took %lld ms",
          (long long)(output.longest / GPUD_MSEC));
    kill(victim->pid, SIGCONT);
    atomic_store(&board->let_go, true);
    output_send_until(&output, &board->frames, atomic_load(&board->frames) + 20,
                      "frames at the receiver that goes on");
    struct gpud_sender_info info = INFO(sender, output.sender);
    CHECK(info.dropped > 0, "a receiver that stood still lost nothing of %u frames", sent);
    CHECK_EQUAL(info.disconnects, 0);
    victims_finish(victim);
    output_close(&output);
    SAY("  %u frames went on, the longest hand-over took %lld us", sent,
        (long long)(output.longest / 1000));
}

/* --- all of it -------------------------------------------------------------------------------- */

static void memory_is_back(const struct gpu *gpu, size_t before, const char *name)
{
    size_t now = 0;
    for (int64_t until = gpud_test_now() + FREED; gpud_test_now() < until; gpud_test_nap(10)) {
        now = gpu_used(gpu);
        if (now <= before + scene.slack)
            return;
    }
    FAIL("memory of %s leaks: %zu bytes were in use, %zu are", name, before, now);
}

static void all(int rounds)
{
    SAY("senders that are killed");
    kill_senders(rounds);
    SAY("receivers that are killed, the sender blocks for slow ones");
    kill_receivers(rounds - rounds / 4, GPUD_SLOW_BLOCK);
    SAY("receivers that are killed, the oldest frames are dropped");
    kill_receivers(rounds / 4, GPUD_SLOW_DROP_OLDEST);
}

/* kill_cuda_test [rounds [device of the other side [route]]]; rounds: deaths of either side. */
int main(int argc, char **argv)
{
    scene.layout = LAYOUT("UYVY", 640, 361, 0);
    victim_main(argc, argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    scene.here = "cuda:0";
    scene.other = argc > 2 ? argv[2] : "cuda:0";
    scene.route = argc > 3 ? argv[3] : strcmp(scene.here, scene.other) ? "peer" : "map";
    test_begin(rounds <= 20 ? 115 : 880);
    struct gpud_device *device;
    struct gpud_error error = {.reason = ""};
    struct gpud_context *context = NEW_CONTEXT();
    const char *names[] = {scene.here, scene.other};
    for (int i = 0; i < 2; i++) {
        enum gpud_status status = gpud_device_open(context, names[i], &device, &error);
        if (status == GPUD_NO_DEVICE) {
            gpud_context_destroy(&context);
            runtime_done();
            SKIP("%s", error.reason);
        }
        CHECK(status == GPUD_OK, "%s: %s", names[i], error.reason);
        gpud_device_close(&device);
    }
    gpud_context_destroy(&context);
    /* With the fake driver's own account, no other process uses its memory. */
    scene.slack = getenv("GPUD_FAKE_CUDA_ACCOUNT") ? 0 : (size_t)64 << 20;
    gpu_open(&scene.gpu, scene.here, scene.layout.size);
    gpu_open(&scene.far, scene.other, scene.layout.size);

    SAY("%s by %s: once, for what a driver keeps", scene.other, scene.route);
    size_t used = gpu_used(&scene.gpu), far_used = gpu_used(&scene.far);
    all(1);
    struct baseline before = baseline_take();
    all(rounds);
    CASE("a sender that lives, and whose device does not finish what it announced", lying_sender());
    SAY("a receiver that lives, and whose device does not finish with what it gave back");
    lying_receiver();
    SAY("a receiver that is stopped while its device still reads, the newest frames are dropped");
    stopped_receiver();
    BASELINE_CHECK(before);
    memory_is_back(&scene.gpu, used, scene.here);
    memory_is_back(&scene.far, far_used, scene.other);
    gpu_close(&scene.far);
    gpu_close(&scene.gpu);
    return runtime_done();
}
