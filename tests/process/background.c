/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "background.h"

#include "support/check.h"

static void *stream(void *arg)
{
    struct steady *steady = arg;
    while (!atomic_load(&steady->stop)) {
        int64_t start = gpud_test_now();
        SEND_LENT(steady->sender, &steady->layout, atomic_fetch_add(&steady->number, 1) + 1);
        int64_t took = gpud_test_now() - start;
        if (took > atomic_load(&steady->worst))
            atomic_store(&steady->worst, took);
        gpud_test_nap(1);
    }
    return NULL;
}

void steady_start(struct steady *steady)
{
    memset(steady, 0, sizeof(*steady));
    steady->before = baseline_take();
    steady->context = raw_context();
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    params.address = STEADY_ADDRESS;
    WORKS(gpud_sender_create(steady->context, &params, &steady->sender, &e));
    WORKS(gpud_layout_init(&steady->layout, "NV12", 160, 91, 0, &e));
    WORKS(gpud_sender_configure(steady->sender, &steady->layout, "m", 1, &e));
    struct peer_orders orders = {.address = STEADY_ADDRESS};
    peer_start(&steady->honest, &orders);
    WORKS(gpud_sender_wait(steady->sender, 1, 10 * GPUD_SEC, &e));
    CHECK(pthread_create(&steady->thread, NULL, stream, steady) == 0, "no thread");
}

void steady_alone(struct steady *steady)
{
    struct gpud_sender_info info;
    PEER_UNTIL("only the honest receiver is connected", 10000,
               (gpud_sender_get_info(steady->sender, &info), info.receivers == 1));
    unsigned long long at = atomic_load(&steady->honest.board->frames);
    PEER_UNTIL("frames flow on", 10000, atomic_load(&steady->honest.board->frames) > at + 2);
    CHECK_EQUAL(atomic_load(&steady->honest.board->gaps), 0);
    CHECK_EQUAL(atomic_load(&steady->honest.board->lost), 0);
}

void steady_stop(struct steady *steady)
{
    atomic_store(&steady->stop, true);
    pthread_join(steady->thread, NULL);
    PEER_UNTIL("the last frame", 10000,
               atomic_load(&steady->honest.board->last_value) == atomic_load(&steady->number));
    PEER_FINISH(&steady->honest);
    const struct peer_board *board = steady->honest.board;
    CHECK(board->gaps == 0 && board->frames == steady->number,
          "the honest receiver has %llu of %llu frames", atomic_load(&board->frames),
          atomic_load(&steady->number));
    CHECK_EQUAL(board->lost, 0);
    peer_forget(&steady->honest);
    int64_t start = gpud_test_now();
    gpud_sender_destroy(&steady->sender);
    CHECK(gpud_test_now() - start < GPUD_SEC, "destroying the sender took %lld ms",
          (long long)(gpud_test_now() - start) / 1000000);
    gpud_context_destroy(&steady->context);
    BASELINE_CHECK(steady->before);
    SAY("  %llu frames undisturbed, the longest hand-over took %lld us",
        atomic_load(&steady->number), (long long)atomic_load(&steady->worst) / 1000);
}

void turned_out_at(const char *file, int line, struct raw *raw, const char *says)
{
    if (!raw_wait_hangup(raw->fd, 3 * GPUD_SEC)) {
        raw_log_print();
        FAIL("(%s:%d) still connected after the lie; \"%s\" was expected", file, line, says);
    }
    if (!raw_log_says(says, GPUD_SEC)) {
        raw_log_print();
        FAIL("(%s:%d) the log does not say \"%s\"", file, line, says);
    }
    raw_close(raw);
    raw_log_clear();
}

int steady_main(struct steady *steady, const struct steady_test *tests, size_t count, int argc,
                char **argv)
{
    peer_main(argc, argv);
    alarm(110);
    setenv("GPUDIRECT_LOG", "error", 0);
    runtime_make();
    steady_start(steady);
    for (size_t i = 0; i < count; i++) {
        if (argc > 1 && atoi(argv[1]) != (int)i)
            continue;
        SAY("%s", tests[i].says);
        tests[i].run();
        steady_alone(steady);
    }
    steady_stop(steady);
    runtime_done();
    return 0;
}
