/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Death and silence at every step of the handshake, on both sides: who is left streams, or connects
 * to the next peer, and who says nothing is given up by its deadline, with a sentence. */
#include "../check.h"
#include "raw.h"
#include "steady.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>

extern char **environ;

#define ADDRESS_SILENT "silent"

/* --- a process that goes to a step and is killed there ---------------------------------------- */

static void scripted_main(int argc, char **argv)
{
    if (argc < 4)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(60);
    if (strcmp(argv[1], "--client") == 0) {
        struct raw raw;
        raw_open(&raw, argv[2], (enum raw_step)atoi(argv[3]));
    } else if (strcmp(argv[1], "--server") == 0) {
        struct raw_server server;
        raw_listen(&server, argv[2]);
        raw_serve(&server, -1, (enum raw_server_step)atoi(argv[3]));
    } else {
        return;
    }
    kill(getpid(), SIGKILL);
}

static pid_t start(const char *role, const char *address, int step)
{
    char number[12];
    pid_t pid;
    snprintf(number, sizeof(number), "%d", step);
    char *const argv[] = {"scripted", (char *)role, (char *)address, number, NULL};
    int failed = posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ);
    CHECK(failed == 0, "posix_spawn: %s", strerror(failed));
    return pid;
}

static void reap(pid_t pid, const char *what)
{
    int state;
    CHECK(waitpid(pid, &state, 0) == pid && WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL,
          "the scripted process did not come to \"%s\"", what);
}

static void client_dies(void)
{
    struct steady steady;
    steady_start(&steady);
    for (int step = 0; step < RAW_STEPS; step++)
        for (int turn = 0; turn < 3; turn++) {
            raw_log_clear();
            reap(start("--client", STEADY_ADDRESS, step), raw_step_names[step]);
            if (!raw_log_says("vanished", step >= RAW_ACCEPTED ? 100 * GPUD_MSEC : 2 * GPUD_SEC) &&
                !raw_log_says("the peer closed the connection", 2 * GPUD_SEC)) {
                raw_log_print();
                FAIL("a receiver that died when it was \"%s\" is not missed", raw_step_names[step]);
            }
            steady_alone(&steady);
        }
    steady_stop(&steady);
}

static void server_dies(void)
{
    struct baseline before = baseline_take();
    struct gpud_context *context = raw_context();
    struct gpud_receiver *receiver;
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    params.address = ADDRESS_SILENT;
    WORKS(gpud_receiver_create(context, &params, &receiver, &e));
    for (int step = 0; step < RAW_SERVER_STEPS; step++) {
        pid_t pid = start("--server", ADDRESS_SILENT, step);
        struct gpud_frame *frame;
        struct gpud_error error = {.reason = ""};
        enum gpud_status status;
        int64_t until = gpud_test_now() + 5 * GPUD_SEC;
        do {
            status = gpud_receiver_acquire(receiver, 20 * GPUD_MSEC, &frame, &error);
            if (status == GPUD_OK)
                gpud_frame_release(&frame);
            CHECK(gpud_test_now() < until,
                  "a sender that died when it was \"%s\" is not missed: %s",
                  raw_server_step_names[step], error.reason);
        } while (status == GPUD_TIMEOUT || status == GPUD_OK);
        CHECK(status == GPUD_PEER, "a crash at \"%s\" is told as \"%s\": %s",
              raw_server_step_names[step], gpud_status_string(status), error.reason);
        CHECK(strstr(error.reason, "vanished"), "\"%s\"", error.reason);
        reap(pid, raw_server_step_names[step]);

        /* The next one, a real one, on the same address. */
        struct peer_orders orders = {
            .sends = true, .address = ADDRESS_SILENT, .width = 64, .height = 64};
        struct peer peer;
        char path[200];
        snprintf(path, sizeof(path), "%s/gpudirect/" ADDRESS_SILENT, getenv("XDG_RUNTIME_DIR"));
        peer_start(&peer, &orders);
        until = gpud_test_now() + 2 * GPUD_SEC;
        while ((status = gpud_receiver_acquire(receiver, 20 * GPUD_MSEC, &frame, &error)) !=
               GPUD_OK)
            CHECK(gpud_test_now() < until, "no frame from the next sender within 2 s: %s",
                  error.reason);
        gpud_frame_release(&frame);
        atomic_store(&peer.board->leave, true);
        until = gpud_test_now() + 3 * GPUD_SEC;
        bool closed = false;
        while ((status = gpud_receiver_acquire(receiver, 20 * GPUD_MSEC, &frame, &error)) !=
               GPUD_PEER) {
            closed |= status == GPUD_CLOSED;
            if (status == GPUD_OK)
                gpud_frame_release(&frame);
            CHECK(gpud_test_now() < until, "no farewell: %s", error.reason);
        }
        CHECK(closed, "the end of the stream was lost on the way");
        PEER_FINISH(&peer);
        peer_forget(&peer);
    }
    gpud_receiver_destroy(&receiver);
    gpud_context_destroy(&context);
    BASELINE_CHECK(before);
}

/* --- silence ---------------------------------------------------------------------------------- */

static void client_is_silent(void)
{
    static const struct {
        enum raw_step step;
        const char *says;
        int seconds;
    } silences[] = {
        {RAW_CONNECTED, "said nothing for 2 s", 2},
        {RAW_OFFERED, "did not answer the offer of a route for 5 s", 5},
        {RAW_ACCEPTED, "did not confirm the test of the link for 5 s", 5},
        {RAW_CANARY_GOT, "did not confirm the test of the link for 5 s", 5},
    };
    struct steady steady;
    struct raw raw[4];
    steady_start(&steady);
    raw_log_clear();
    int64_t start_at = gpud_test_now();
    for (int i = 0; i < 4; i++)
        raw_open(&raw[i], STEADY_ADDRESS, silences[i].step);
    for (int i = 0; i < 4; i++) {
        CHECK(raw_wait_hangup(raw[i].fd, silences[i].seconds * GPUD_SEC + GPUD_SEC),
              "silent at \"%s\" for ever", raw_step_names[silences[i].step]);
        int64_t took = gpud_test_now() - start_at;
        CHECK(took > silences[i].seconds * GPUD_SEC - 100 * GPUD_MSEC, "turned out after %lld ms",
              (long long)(took / GPUD_MSEC));
        if (!raw_log_says(silences[i].says, GPUD_SEC)) {
            raw_log_print();
            FAIL("the log does not say \"%s\"", silences[i].says);
        }
        raw_close(&raw[i]);
    }
    steady_alone(&steady);
    steady_stop(&steady);
}

static void server_is_silent(enum raw_server_step step, int64_t longest, const char *says)
{
    struct baseline before = baseline_take();
    struct gpud_context *context = raw_context();
    struct gpud_receiver *receiver;
    struct raw_server server;
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    params.address = ADDRESS_SILENT;
    raw_listen(&server, ADDRESS_SILENT);
    WORKS(gpud_receiver_create(context, &params, &receiver, &e));
    struct gpud_frame *frame;
    struct gpud_error error = {.reason = ""};
    enum gpud_status status = GPUD_TIMEOUT;
    int64_t start_at = gpud_test_now();
    int at = -1;
    while (status == GPUD_TIMEOUT) {
        status = gpud_receiver_acquire(receiver, 20 * GPUD_MSEC, &frame, &error);
        if (at < (int)step) {
            raw_serve(&server, at, (enum raw_server_step)(at + 1));
            at++;
        }
        CHECK(gpud_test_now() - start_at < longest, "silent at \"%s\" for ever",
              raw_server_step_names[step]);
    }
    CHECK(status == GPUD_PEER, "%s: %s", gpud_status_string(status), error.reason);
    CHECK(strstr(error.reason, says), "\"%s\" does not say \"%s\"", error.reason, says);
    gpud_receiver_destroy(&receiver);
    raw_server_close(&server);
    gpud_context_destroy(&context);
    BASELINE_CHECK(before);
}

int main(int argc, char **argv)
{
    peer_main(argc, argv);
    scripted_main(argc, argv);
    alarm(100);
    setenv("GPUDIRECT_LOG", "error", 0);
    runtime_make();
    SAY("a receiver dies at each step");
    client_dies();
    SAY("a sender dies at each step");
    server_dies();
    SAY("a receiver is silent at each step");
    client_is_silent();
    SAY("a sender is silent at each step");
    server_is_silent(RAW_SERVER_ACCEPTED, 3 * GPUD_SEC, "does not answer");
    server_is_silent(RAW_SERVER_PAGE, 7 * GPUD_SEC, "does not answer");
    runtime_done();
    return 0;
}
