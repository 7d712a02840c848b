/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "acquirer.h"

static void *acquire(void *arg)
{
    struct acquirer *acquirer = arg;
    while (!atomic_load(&acquirer->stop)) {
        struct gpud_frame *frame;
        struct gpud_error error = {.reason = ""};
        int64_t start = gpud_test_now();
        enum gpud_status status =
            gpud_receiver_acquire(acquirer->receiver, ACQUIRE_TIMEOUT, &frame, &error);
        int64_t took = gpud_test_now() - start;
        if (took > atomic_load(&acquirer->longest))
            atomic_store(&acquirer->longest, took);
        if (status == GPUD_OK) {
            void *data = MAP_FRAME(frame, GPUD_READ, GPUD_SEC);
            struct gpud_frame_info info = INFO(frame, frame);
            volatile uint8_t sum = 0;
            for (uint64_t i = 0; i < info.layout.size; i += 64) /* every page is there to be read */
                sum = (uint8_t)(sum + ((uint8_t *)data)[i]);
            gpud_frame_release(&frame);
            atomic_fetch_add(&acquirer->frames, 1);
        }
        if (status == GPUD_OK || status == GPUD_TIMEOUT)
            continue;
        pthread_mutex_lock(&acquirer->lock);
        acquirer->status = status;
        snprintf(acquirer->reason, sizeof(acquirer->reason), "%s", error.reason);
        atomic_fetch_add(&acquirer->ends_of_stream, status == GPUD_CLOSED);
        atomic_fetch_add(&acquirer->ends, 1);
        pthread_mutex_unlock(&acquirer->lock);
    }
    return NULL;
}

static void on_event(void *user, enum gpud_event event, const void *data)
{
    struct acquirer *acquirer = user;
    if (event == GPUD_EVENT_FORMAT)
        atomic_fetch_add(&acquirer->formats, 1);
}

void acquirer_start(struct acquirer *acquirer, struct gpud_context *context, const char *address)
{
    memset(acquirer, 0, sizeof(*acquirer));
    pthread_mutex_init(&acquirer->lock, NULL);
    acquirer->receiver =
        NEW_RECEIVER(context, .address = address, .on_event = on_event, .user = acquirer);
    CHECK(pthread_create(&acquirer->thread, NULL, acquire, acquirer) == 0, "no thread");
}

void acquirer_stop(struct acquirer *acquirer)
{
    atomic_store(&acquirer->stop, true);
    pthread_join(acquirer->thread, NULL);
    gpud_receiver_destroy(&acquirer->receiver);
    pthread_mutex_destroy(&acquirer->lock);
}

void acquirer_ended_at(int line, struct acquirer *acquirer, unsigned before, const char *says)
{
    int64_t until = gpud_test_now() + 4 * GPUD_SEC;
    while (atomic_load(&acquirer->ends) <= before) {
        CHECK(gpud_test_now() < until, "(line %d) the end is not noticed; \"%s\" was expected",
              line, says);
        gpud_test_nap(1);
    }
    pthread_mutex_lock(&acquirer->lock);
    if (!strstr(acquirer->reason, says))
        FAIL("(line %d) \"%s\" does not say \"%s\"", line, acquirer->reason, says);
    CHECK(acquirer->status == GPUD_PEER || acquirer->status == GPUD_UNSUPPORTED,
          "(line %d) it is told as \"%s\"", line, gpud_status_string(acquirer->status));
    pthread_mutex_unlock(&acquirer->lock);
}
