/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "device/gpu/events.h"

void gpud_events_init(struct gpud_events *events, const struct gpud_gpu_driver *driver)
{
    events->driver = driver;
    events->count = 0;
    gpud_lock_init(&events->lock, GPUD_RANK_EVENTS);
}

void gpud_events_finish(struct gpud_events *events)
{
    while (events->count)
        events->driver->event_destroy(events->kept[--events->count]);
    gpud_lock_destroy(&events->lock);
}

void *gpud_events_take(struct gpud_events *events, int *result)
{
    void *event = NULL;
    gpud_lock_take(&events->lock);
    if (events->count)
        event = events->kept[--events->count];
    gpud_lock_release(&events->lock);
    if (!event && (*result = events->driver->event_create(&event, GPUD_GPU_EVENT_DISABLE_TIMING)))
        return NULL;
    return event;
}

void gpud_events_put(struct gpud_events *events, void *event)
{
    gpud_lock_take(&events->lock);
    bool kept = events->count < GPUD_EVENTS_KEPT;
    if (kept)
        events->kept[events->count++] = event;
    gpud_lock_release(&events->lock);
    if (!kept)
        events->driver->event_destroy(event);
}
