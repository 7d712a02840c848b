/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A receiver's deadline for its HELLO begins when the connection is established: over a network,
 * when it has proved that it has the key, which may take longer than the deadline. Here the channel
 * of a Unix socket takes that long. */
#include "actor.h"
#include "wire/unix/unix.h"

#define PROOF (3 * GPUD_SEC) /* a HELLO has 2 s */

static struct background background;
static struct gpud_channel_ops ops;
static _Atomic int64_t stands_at; /* the connection that was accepted last */

typeof(gpud_listener_accept) __real_gpud_listener_accept, __wrap_gpud_listener_accept;

enum gpud_status __wrap_gpud_listener_accept(struct gpud_listener *listener,
                                             struct gpud_channel **channel, struct gpud_peer *peer,
                                             struct gpud_error *error)
{
    enum gpud_status status = __real_gpud_listener_accept(listener, channel, peer, error);
    if (status == GPUD_OK && atomic_load(&stands_at)) {
        atomic_store(&(*channel)->connected, false);
        atomic_store(&stands_at, gpud_test_now() + PROOF);
    }
    return status;
}

static enum gpud_status receive(struct gpud_channel *channel, struct gpud_message *message,
                                struct gpud_error *error)
{
    if (atomic_load(&channel->connected))
        return gpud_unix_channel_ops.receive(channel, message, error);
    if (gpud_test_now() >= atomic_load(&stands_at))
        atomic_store(&channel->connected, true);
    return gpud_fail(error, GPUD_AGAIN, "nothing is received by the call that finds it out");
}

static void slow_proof(void)
{
    struct raw raw;
    atomic_store(&stands_at, 1);
    raw_open(&raw, BACKGROUND_ADDRESS, RAW_CONNECTED);
    PEER_UNTIL("the proof", 30000,
               atomic_load(&stands_at) > 1 && gpud_test_now() >= atomic_load(&stands_at));
    raw_to(&raw, RAW_CONNECTED, RAW_STREAMING);
    CHECK(!raw_log_says("sent nothing", 0), "turned away before it could say anything");
    raw_close(&raw);
    atomic_store(&stands_at, 0);
}

int main(int argc, char **argv)
{
    static const struct background_test tests[] = {
        {"a proof that takes longer than a HELLO may", slow_proof},
    };
    ops = gpud_unix_channel_ops;
    ops.receive = receive;
    gpud_unix_channel = &ops;
    return background_main(&background, tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
