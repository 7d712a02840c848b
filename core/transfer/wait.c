/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How calls sleep, and what wakes them. */
#include "transfer/wait.h"

#include "base/fd.h"

#include <poll.h>
#include <unistd.h>

enum gpud_status gpud_transfer_await(int fd, int interrupt, int64_t deadline)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = interrupt, .events = POLLIN}};
    for (;;) {
        struct timespec left = gpud_time_left(deadline);
        int ready = ppoll(fds, 2, &left, NULL);
        if (ready > 0)
            return fds[1].revents ? GPUD_AGAIN : GPUD_OK;
        if (gpud_now() >= deadline) /* else a signal interrupted it */
            return GPUD_TIMEOUT;
    }
}

void gpud_transfer_set_interrupt(int interrupt, bool interrupted)
{
    uint64_t ignored;
    if (interrupted)
        gpud_event_raise(interrupt);
    else if (read(interrupt, &ignored, sizeof(ignored)) < 0)
        return; /* was not set */
}

enum gpud_status gpud_connection_wait_locked(struct gpud_connection *connection, int64_t deadline,
                                             struct gpud_error *error)
{
    if (atomic_load(&connection->transfer->interrupted))
        return gpud_fail(error, GPUD_AGAIN, "interrupted");
    if (gpud_now() >= deadline)
        return gpud_fail(error, GPUD_TIMEOUT, "the deadline is over");
    gpud_lock_wait_until(&connection->lock, &connection->changed, deadline);
    return GPUD_OK;
}
