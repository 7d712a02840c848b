/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Waits for a card that was unplugged. */
#include "base/clock.h"
#include "capture/actions.h"
#include "capture/watch.h"

#include <unistd.h>

/* Whether a node appeared, or it is time to try again; clears both. */
static bool is_due(struct gpud_capture *capture)
{
    char events[4096];
    bool due = gpud_capture_is_time(capture);
    while (capture->card.nodes_fd >= 0 && read(capture->card.nodes_fd, events, sizeof(events)) > 0)
        due = true;
    return due;
}

static void sleep_until_due(const struct gpud_capture *capture, int64_t deadline)
{
    struct pollfd fds[] = {
        {.fd = capture->card.nodes_fd, .events = POLLIN},
        {.fd = capture->timer_fd, .events = POLLIN},
        {.fd = capture->interrupt.fd, .events = POLLIN},
    };
    struct timespec left = gpud_time_left(deadline);
    ppoll(fds, 3, &left, NULL);
}

enum gpud_status gpud_capture_wait(struct gpud_capture *capture, int64_t timeout_ns,
                                   struct gpud_error *error)
{
    int64_t deadline = gpud_deadline(timeout_ns);
    if (timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
    gpud_capture_report(capture, GPUD_CAPTURE_ON_WAIT, NULL,
                        NULL); /* notices that it is unplugged */
    while (capture->state.card != GPUD_CARD_PRESENT) {
        enum gpud_status status = gpud_capture_report(capture, GPUD_CAPTURE_ON_WAIT, NULL, error);
        if (status != GPUD_OK)
            return status;
        if (atomic_load(&capture->interrupt.set))
            return gpud_fail(error, GPUD_AGAIN, "the capture was interrupted");
        if (is_due(capture))
            status =
                gpud_capture_report(capture, GPUD_CAPTURE_ON_DUE, NULL, &capture->card.absence);
        if (capture->state.card == GPUD_CARD_PRESENT) {
            if (status != GPUD_OK && error)
                *error = capture->card.absence;
            return status;
        }
        if (gpud_now() >= deadline)
            return gpud_fail(error, GPUD_TIMEOUT, "%s", capture->card.absence.reason);
        sleep_until_due(capture, deadline);
    }
    return GPUD_OK;
}
