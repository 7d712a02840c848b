/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "background.h"

static void *stream(void *arg)
{
    struct background *background = arg;
    while (!atomic_load(&background->stop)) {
        if (atomic_load(&background->configure)) {
            WORKS(gpud_sender_configure(background->sender, PICTURE(&background->layout), &e));
            atomic_store(&background->configure, false);
        }
        int64_t start = gpud_test_now();
        SEND_LENT(background->sender, &background->layout,
                  atomic_fetch_add(&background->number, 1) + 1);
        int64_t took = gpud_test_now() - start;
        if (took > atomic_load(&background->worst))
            atomic_store(&background->worst, took);
        gpud_test_nap(1);
    }
    return NULL;
}

void background_start(struct background *background)
{
    background->before = baseline_take();
    background->context = raw_context();
    background->sender = NEW_SENDER(background->context, .address = BACKGROUND_ADDRESS,
                                    .device = background->device);
    if (!background->layout.size)
        background->layout = LAYOUT("NV12", 160, 91, 0);
    WORKS(gpud_sender_configure(background->sender, PICTURE_AT(&background->layout, 25), &e));
    struct peer_orders orders = {.address = BACKGROUND_ADDRESS};
    peer_start(&background->honest, &orders);
    WORKS(gpud_sender_wait(background->sender, 1, 10 * GPUD_SEC, &e));
    CHECK(pthread_create(&background->thread, NULL, stream, background) == 0, "no thread");
}

void background_configure(struct background *background)
{
    atomic_store(&background->configure, true);
    PEER_UNTIL("a new epoch", 10000, !atomic_load(&background->configure));
}

void background_flows(struct background *background, unsigned frames)
{
    unsigned long long at = atomic_load(&background->honest.board->frames);
    PEER_UNTIL("frames flow on", 20000,
               atomic_load(&background->honest.board->frames) > at + frames);
}

void background_goes_on(struct background *background)
{
    PEER_UNTIL("only the honest receiver is connected", 20000,
               INFO(sender, background->sender).receivers == 1);
    background_flows(background, 2);
    CHECK_EQUAL(atomic_load(&background->honest.board->gaps), 0);
    CHECK_EQUAL(atomic_load(&background->honest.board->lost), 0);
}

void background_stop(struct background *background)
{
    atomic_store(&background->stop, true);
    pthread_join(background->thread, NULL);
    PEER_UNTIL("the last frame", 10000,
               atomic_load(&background->honest.board->last_value) ==
                   atomic_load(&background->number));
    PEER_FINISH(&background->honest);
    const struct peer_board *board = background->honest.board;
    CHECK(board->gaps == 0 && board->frames == background->number,
          "the honest receiver has %llu of %llu frames", atomic_load(&board->frames),
          atomic_load(&background->number));
    CHECK_EQUAL(board->lost, 0);
    peer_forget(&background->honest);
    int64_t start = gpud_test_now();
    gpud_sender_destroy(&background->sender);
    CHECK(gpud_test_now() - start < GPUD_SEC, "destroying the sender took %lld ms",
          (long long)(gpud_test_now() - start) / 1000000);
    gpud_context_destroy(&background->context);
    if (!background->device) /* what a driver opens once stays open */
        BASELINE_CHECK(background->before);
    SAY("  %llu frames undisturbed, the longest hand-over took %lld us",
        atomic_load(&background->number), (long long)atomic_load(&background->worst) / 1000);
}

void hang_up_heard(struct raw *raw)
{
    raw_close(raw);
    CHECK(raw_log_says("vanished", GPUD_SEC), "a hang-up is not noticed");
    raw_log_clear();
}

void turned_out_at(const char *file, int line, struct raw *raw, const char *says, int64_t patience)
{
    if (!raw_wait_hangup(raw->fd, patience)) {
        raw_log_print();
        FAIL("(%s:%d) still connected after the lie; \"%s\" was expected", file, line, says);
    }
    if (!raw_log_says(says, patience / 3)) {
        raw_log_print();
        FAIL("(%s:%d) the log does not say \"%s\"", file, line, says);
    }
    raw_close(raw);
    raw_log_clear();
}

int background_main(struct background *background, const struct background_test *tests,
                    size_t count, int argc, char **argv)
{
    peer_main(argc, argv);
    test_begin(110);
    background_start(background);
    for (size_t i = 0; i < count; i++) {
        if (argc > 1 && atoi(argv[1]) != (int)i)
            continue;
        SAY("%s", tests[i].says);
        tests[i].run();
        background_goes_on(background);
        raw_log_clear();
    }
    background_stop(background);
    return runtime_done();
}
