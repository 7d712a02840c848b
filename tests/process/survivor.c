/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "survivor.h"

#include "support/check.h"
#include "support/make.h"
#include "support/media.h"
#include "support/peer.h"

struct scene scene;

unsigned random_below(unsigned limit)
{
    static uint32_t state = 12345;
    state = state * 1664525 + 1013904223;
    return (state >> 8) % limit;
}

/* --- victims, opened ahead -------------------------------------------------------------------- */

struct victims victims_of(bool sends, int wanted)
{
    struct victims victims = {.orders = {.sends = sends, .address = SURVIVOR_ADDRESS},
                              .wanted = wanted};
    snprintf(victims.orders.device, sizeof(victims.orders.device), "%s", scene.other);
    snprintf(victims.orders.route, sizeof(victims.orders.route), "%s", scene.route);
    return victims;
}

struct victim *victims_next(struct victims *victims)
{
    while (victims->started < victims->wanted && victims->started < victims->used + STANDING_BY)
        victim_start(&victims->victim[victims->started++ % STANDING_BY], &victims->orders);
    struct victim *victim = &victims->victim[victims->used++ % STANDING_BY];
    atomic_store(&victim->board->go, true);
    return victim;
}

void victims_check(struct victim *victim)
{
    const struct victim_board *board = victim->board;
    CHECK(board->wrong == 0, "the peer's first picture is wrong: %s", board->reason);
    CHECK(board->ends == 0, "the peer got an EOS that was not sent");
    victim_forget(victim);
}

/* --- this side receives ----------------------------------------------------------------------- */

void input_open(struct input *input, struct gpud_context *context)
{
    *input = (struct input){.context = context};
    input->receiver = NEW_RECEIVER(context, .address = SURVIVOR_ADDRESS, .device = scene.here,
                                   .route = scene.route);
}

void input_close(struct input *input)
{
    gpud_receiver_destroy(&input->receiver);
    gpud_context_destroy(&input->context);
}

void input_take(struct input *input, struct gpud_frame *frame)
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

void input_take_to_the_gap(struct input *input, struct victim_board *board, bool hold)
{
    unsigned wanted = 2 + random_below(20);
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

void input_take_some(struct input *input)
{
    input->room = random_below(2); /* of four one must be left to come and go */
    for (unsigned more = random_below(3); more; more--)
        input_take(input, next_frame(input, "another frame from this sender"));
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

void input_check(struct input *input)
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

void input_take_to_the_end(struct input *input, struct gpud_error *error)
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

void output_open(struct output *output, struct gpud_context *context,
                 enum gpud_slow_receiver policy)
{
    *output = (struct output){.context = context};
    output->sender = NEW_SENDER(context, .address = SURVIVOR_ADDRESS, .device = scene.here,
                                .route = scene.route, .slow_receiver = policy);
    WORKS(gpud_sender_configure(output->sender, PICTURE(&scene.layout), &e));
}

void output_close(struct output *output)
{
    gpud_frame_release(&output->pending);
    gpud_sender_destroy(&output->sender);
    gpud_context_destroy(&output->context);
}

bool output_send(struct output *output, int64_t timeout)
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

void output_send_until(struct output *output, atomic_ullong *word, unsigned long long wanted,
                       const char *what)
{
    int64_t until = gpud_test_now() + AGAIN;
    while (atomic_load(word) < wanted) {
        output_send(output, 50 * GPUD_MSEC);
        gpud_test_nap(1);
        CHECK(gpud_test_now() < until, "%s: not within %d s", what, (int)(AGAIN / GPUD_SEC));
    }
}

bool output_send_until_stuck(struct output *output, struct victim_board *board)
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
