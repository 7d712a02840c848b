/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* kill −9 while GPUs wait for each other: streams of both applications wait for words that the dead
 * process will never write. The survivor's stream still completes, exactly the incomplete frames
 * are flagged, it streams with the next peer, and neither descriptors nor threads nor a GPU's
 * memory leak. Then live peers that do not keep their promises. */
#include "support/check.h"
#include "support/make.h"
#include "support/peer.h"
#include "support/raw.h"
#include "survivor.h"

#include <signal.h>

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
        input_take_some(&input);
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
        output_send_until(&output, &board->frames, 1 + random_below(20),
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
    victim_finish(victim);
    victims_check(victim);
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
    victim_finish(victim);
    victims_check(victim);
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
    victim_finish(victim);
    victims_check(victim);
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
    victim_main(argc, argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    scene.here = "cuda:0";
    scene.other = argc > 2 ? argv[2] : "cuda:0";
    scene.route = argc > 3 ? argv[3] : strcmp(scene.here, scene.other) ? "peer" : "map";
    test_alarm(rounds <= 20 ? 115 : 880);
    setenv("GPUDIRECT_LOG", "error", 0);
    runtime_make();
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
    victim_layout(&scene.layout);
    gpu_open(&scene.gpu, scene.here, scene.layout.size);
    gpu_open(&scene.far, scene.other, scene.layout.size);

    SAY("%s by %s: once, for what a driver keeps", scene.other, scene.route);
    size_t used = gpu_used(&scene.gpu), far_used = gpu_used(&scene.far);
    all(1);
    struct baseline before = baseline_take();
    all(rounds);
    SAY("a sender that lives, and whose device does not finish what it announced");
    lying_sender();
    SAY("a receiver that lives, and whose device does not finish with what it gave back");
    lying_receiver();
    SAY("a receiver that is stopped while its device still reads, the newest frames are dropped");
    stopped_receiver();
    BASELINE_CHECK(before);
    memory_is_back(&scene.gpu, used, scene.here);
    memory_is_back(&scene.far, far_used, scene.other);
    gpu_close(&scene.far);
    gpu_close(&scene.gpu);
    runtime_done();
    return 0;
}
