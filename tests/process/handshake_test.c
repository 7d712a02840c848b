/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Death and silence at every step of the handshake, on both sides: the survivor streams, or
 * connects to the next peer, and a silent peer is dropped at its deadline, with a reason. */
#include "actor.h"
#include "base/base.h"

#define ADDRESS_SILENT "silent"

/* --- a process that goes to a step and is killed there ---------------------------------------- */

static void die_as_client(const void *step)
{
    struct raw raw;
    raw_open(&raw, BACKGROUND_ADDRESS, *(const enum raw_step *)step);
    kill(getpid(), SIGKILL);
}

static void die_as_server(const void *step)
{
    struct raw_server server;
    raw_listen(&server, ADDRESS_SILENT);
    raw_serve(&server, -1, *(const enum raw_server_step *)step);
    kill(getpid(), SIGKILL);
}

/* Before its HELLO it is a newcomer, and afterwards a receiver; a failed send may also reveal its
 * death. */
static bool is_missed(void)
{
    static const char *const says[] = {"ended by a signal or killed", "vanished",
                                       "the peer closed the connection"};
    int64_t until = gpud_test_now() + 10 * GPUD_SEC;
    while (gpud_test_now() < until)
        for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++)
            if (raw_log_says(says[i], GPUD_MSEC))
                return true;
    return false;
}

static void client_dies(void)
{
    struct background background = {0};
    background_start(&background);
    for (enum raw_step step = 0; step < RAW_STEPS; step++)
        for (int turn = 0; turn < 3; turn++) {
            struct actor client;
            raw_log_clear();
            actor_fork(&client, die_as_client, &step);
            actor_await_end(&client, SIGKILL);
            if (!is_missed()) {
                raw_log_print();
                FAIL("a receiver that died when it was \"%s\" is not missed", raw_step_names[step]);
            }
            background_goes_on(&background);
        }
    background_stop(&background);
}

/* It stays to be reaped. */
static bool has_ended(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

static void server_dies(void)
{
    struct baseline before = baseline_take();
    struct gpud_context *context = raw_context();
    struct gpud_receiver *receiver = NEW_RECEIVER(context, .address = ADDRESS_SILENT);
    for (enum raw_server_step step = 0; step < RAW_SERVER_STEPS; step++) {
        struct actor dying;
        actor_fork(&dying, die_as_server, &step);
        struct gpud_frame *frame;
        struct gpud_error error = {.reason = ""};
        enum gpud_status status;
        bool unmet = false;
        int64_t until = gpud_test_now() + 20 * GPUD_SEC;
        do {
            bool gone = step == RAW_SERVER_ACCEPTED && has_ended(dying.pid);
            status = gpud_receiver_acquire(receiver, 20 * GPUD_MSEC, &frame, &error);
            if (status == GPUD_OK)
                gpud_frame_release(&frame);
            /* A sender that dies before the receiver's HELLO counts as absent. */
            unmet = gone && status == GPUD_TIMEOUT && strstr(error.reason, "no sender listens");
            CHECK(gpud_test_now() < until,
                  "a sender that died when it was \"%s\" is not missed: %s",
                  raw_server_step_names[step], error.reason);
        } while (!unmet && (status == GPUD_TIMEOUT || status == GPUD_OK));
        CHECK(unmet || status == GPUD_PEER, "a crash at \"%s\" is told as \"%s\": %s",
              raw_server_step_names[step], gpud_status_string(status), error.reason);
        CHECK(unmet || strstr(error.reason, "vanished") ||
                  strstr(error.reason, "ended by a signal or killed"),
              "\"%s\"", error.reason);
        actor_await_end(&dying, SIGKILL);

        /* The next one, a real one, on the same address. */
        struct peer_orders orders = {
            .sends = true, .address = ADDRESS_SILENT, .width = 64, .height = 64};
        struct peer peer;
        peer_start(&peer, &orders);
        until = gpud_test_now() + 20 * GPUD_SEC;
        while ((status = gpud_receiver_acquire(receiver, 20 * GPUD_MSEC, &frame, &error)) !=
               GPUD_OK)
            CHECK(gpud_test_now() < until, "no frame from the next sender within 20 s: %s",
                  error.reason);
        gpud_frame_release(&frame);
        atomic_store(&peer.board->leave, true);
        until = gpud_test_now() + 20 * GPUD_SEC;
        bool closed = false;
        while ((status = gpud_receiver_acquire(receiver, 20 * GPUD_MSEC, &frame, &error)) !=
               GPUD_PEER) {
            closed |= status == GPUD_CLOSED;
            if (status == GPUD_OK)
                gpud_frame_release(&frame);
            CHECK(gpud_test_now() < until, "no goodbye: %s", error.reason);
        }
        CHECK(closed, "the end of the stream was lost on the way");
        PEER_LEAVE(&peer);
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
        {RAW_CONNECTED, "sent nothing for 2 s", 2},
        {RAW_OFFERED, "did not answer the offer of a route for 5 s", 5},
        {RAW_ACCEPTED, "did not confirm the test of the link for 5 s", 5},
        {RAW_CANARY_GOT, "did not confirm the test of the link for 5 s", 5},
    };
    struct background background = {0};
    struct raw raw[4];
    background_start(&background);
    raw_log_clear();
    int64_t start_at = gpud_test_now();
    for (int i = 0; i < 4; i++)
        raw_open(&raw[i], BACKGROUND_ADDRESS, silences[i].step);
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
    background_goes_on(&background);
    background_stop(&background);
}

static void server_is_silent(enum raw_server_step step, int64_t longest, const char *says)
{
    struct baseline before = baseline_take();
    struct gpud_context *context = raw_context();
    struct raw_server server;
    raw_listen(&server, ADDRESS_SILENT);
    struct gpud_receiver *receiver = NEW_RECEIVER(context, .address = ADDRESS_SILENT);
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

/* A HELLO is answered with the ring to map, which must not contain pictures that were sent
 * earlier. */
static void earlier_pictures(void)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = raw_context();
    struct gpud_message message;
    struct raw raw;
    AUTO(gpud_sender_destroy)
    struct gpud_sender *sender = NEW_SENDER(context, .address = ADDRESS_SILENT);
    struct gpud_layout layout = CONFIGURE(sender, "GRAY8", 64, 64);
    /* A receiver takes frames until every slot was written, and then leaves. */
    struct gpud_receiver *receiver =
        NEW_RECEIVER(context, .address = ADDRESS_SILENT, .slow_receiver = GPUD_SLOW_DROP_OLDEST);
    struct gpud_frame *frame;
    PEER_UNTIL("the receiver streams", 20000,
               gpud_receiver_acquire(receiver, 20 * GPUD_MSEC, &frame, NULL) == GPUD_TIMEOUT &&
                   gpud_sender_wait(sender, 1, 0, NULL) == GPUD_OK);
    struct gpud_frame *lent[8];
    unsigned count = 0; /* all that there are */
    while (count < 8 && gpud_sender_acquire(sender, 0, &lent[count], NULL) == GPUD_OK)
        count++;
    CHECK(count > 2, "only %u slots are lent", count);
    for (unsigned i = 0; i < count; i++) {
        void *data = MAP_FRAME(lent[i], GPUD_WRITE, GPUD_SEC);
        memset(data, 0xa5, layout.size);
        gpud_frame_unmap(lent[i]);
        if (i % 2) /* read-only from then on, until it is released */
            WORKS(gpud_sender_submit_keep(sender, lent[i], GPUD_SEC, &e));
        else
            WORKS(gpud_sender_submit(sender, &lent[i], GPUD_SEC, &e));
        gpud_frame_release(&lent[i]);
    }
    gpud_receiver_destroy(&receiver);
    PEER_UNTIL("the receiver is gone", 20000, INFO(sender, sender).disconnects == 1);

    raw_open(&raw, ADDRESS_SILENT, RAW_HELLO_GOT);
    CHECK(raw_receive(raw.fd, &message, 5 * GPUD_SEC) && message.type == GPUD_MESSAGE_OFFER,
          "no offer");
    const struct gpud_ring_description *ring = &message.offer.ring;
    CHECK(ring->memories > 0, "no ring is shared");
    for (uint32_t i = 0; i < ring->memories; i++) {
        uint64_t size = ring->slot_size * ring->slots_per_memory;
        void *mapped;
        WORKS(gpud_memfd_map(ring->handle[i].fd, size, false, &mapped, &e));
        const uint8_t *bytes = mapped;
        for (uint64_t at = 0; at < size; at++)
            CHECK(bytes[at] == 0, "a newcomer sees a picture of before in memory %u at %llu", i,
                  (unsigned long long)at);
        gpud_memory_unmap_pages(mapped, size);
    }
    gpud_message_close(&message);
    raw_close(&raw);
}

/* After a refusal, the reason is not that there is no sender. */
static void refusal_is_remembered(void)
{
    struct gpud_frame *frame;
    struct gpud_error why = {.reason = ""};
    enum gpud_status status;
    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    AUTO(gpud_sender_destroy)
    struct gpud_sender *sender = NEW_SENDER(context, .address = "refuses");
    struct gpud_layout layout = LAYOUT("UYVY", 64, 64, 1);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    /* By a route which the host cannot. */
    AUTO(gpud_receiver_destroy)
    struct gpud_receiver *receiver =
        NEW_RECEIVER(context, .address = "refuses", .route = "directgma");
    int64_t until = gpud_test_now() + 20 * GPUD_SEC;
    while ((status = gpud_receiver_acquire(receiver, 10 * GPUD_MSEC, &frame, &why)) == GPUD_TIMEOUT)
        CHECK(gpud_test_now() < until, "no refusal within 20 s: %s", why.reason);
    CHECK(status == GPUD_UNSUPPORTED, "\"%s\": %s", gpud_status_string(status), why.reason);
    EXPECT(GPUD_TIMEOUT, "refused", gpud_receiver_acquire(receiver, GPUD_MSEC, &frame, &e));
}

int main(int argc, char **argv)
{
    peer_main(argc, argv);
    test_begin(100);
    CASE("pictures of before", earlier_pictures());
    CASE("a refusal is remembered", refusal_is_remembered());
    CASE("a receiver dies at each step", client_dies());
    CASE("a sender dies at each step", server_dies());
    CASE("a receiver is silent at each step", client_is_silent());
    SAY("a sender is silent at each step");
    server_is_silent(RAW_SERVER_ACCEPTED, 3 * GPUD_SEC, "does not answer");
    server_is_silent(RAW_SERVER_PAGE, 7 * GPUD_SEC, "does not answer");
    return runtime_done();
}
