/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A network that loses every request to connect: a new one is sent again and again until the
 * deadline, so that two losses in a row do not cost all of it. */
#include "fake_cm.h"

#include "base/clock.h"
#include "support/check.h"
#include "wire/channel.h"

#include <poll.h>

/* Of one attempt: at 0, 1.5 and 3 s of its 5 s. */
#define REQUESTS 3
/* A machine that stood still for so long may have skipped a request. */
#define STALL GPUD_SEC
#define ATTEMPTS 10

/* Whether the machine ran all the time. */
static bool attempt(void)
{
    struct gpud_address address;
    struct gpud_channel *channel;
    struct gpud_message message;
    struct gpud_error error;
    enum gpud_status status;
    int64_t looked = gpud_now(), stall = 0;
    fake_cm.requests = 0;
    WORKS(gpud_address_resolve("rdma://192.0.2.7:7174/cam1", &address, &e));
    WORKS(gpud_channel_connect(&address, &(struct gpud_access_rule){0}, &channel, &e));
    while ((status = gpud_channel_receive(channel, &message, &error)) == GPUD_AGAIN) {
        struct pollfd ready = {.fd = channel->fd, .events = POLLIN};
        poll(&ready, 1, 100);
        stall = gpud_now() - looked > stall ? gpud_now() - looked : stall;
        looked = gpud_now();
    }
    gpud_channel_unref(&channel);
    CHECK(status == GPUD_CLOSED && strstr(error.reason, "did not answer within 5 s"),
          "it ended: %s", error.reason);
    CHECK(!fake_cm.ids && !fake_cm.events && !fake_card.pairs, "requests are left");
    if (stall < STALL)
        CHECK(fake_cm.requests >= REQUESTS, "%u requests were sent", fake_cm.requests);
    return stall < STALL;
}

int main(void)
{
    alarm(110);
    fake_card_reset();
    for (int i = 0; i < ATTEMPTS; i++)
        if (attempt())
            return 0;
    SKIP("the machine stands still for more than %d s again and again", (int)(STALL / GPUD_SEC));
}
