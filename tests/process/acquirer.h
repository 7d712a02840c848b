/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A receiver that acquires in a thread of its own, while the test plays its sender by hand. */
#ifndef GPUD_TESTS_ACQUIRER_H
#define GPUD_TESTS_ACQUIRER_H

#include "process.h"

#define ACQUIRE_TIMEOUT (50 * GPUD_MSEC)

struct acquirer {
    struct gpud_receiver *receiver;
    pthread_t thread;
    atomic_bool stop;
    atomic_ullong frames, formats;
    atomic_uint ends;           /* statuses that were neither OK nor a time-out */
    atomic_uint ends_of_stream; /* of them: GPUD_CLOSED */
    atomic_llong longest;       /* that an acquire of ACQUIRE_TIMEOUT took, since the test set it */
    pthread_mutex_t lock;
    enum gpud_status status; /* of the last end */
    char reason[GPUD_REASON_MAX];
};

/* Every frame is read, all of it. */
void acquirer_start(struct acquirer *acquirer, struct gpud_context *context, const char *address);
void acquirer_stop(struct acquirer *acquirer);

/* After `before` ends there is another, which says the text, and is told as the sender's fault or
 * its end. */
void acquirer_ended_at(int line, struct acquirer *acquirer, unsigned before, const char *says);

#endif
