/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Keeps unused events, because creating one costs more than launching a copy. */
#ifndef GPUD_DEVICE_GPU_EVENTS_H
#define GPUD_DEVICE_GPU_EVENTS_H

#include "device/gpu/driver.h"

#define GPUD_EVENTS_KEPT 64

struct gpud_events {
    const struct gpud_gpu_driver *driver;
    struct gpud_lock lock;
    void *kept[GPUD_EVENTS_KEPT];
    unsigned count;
};

void gpud_events_init(struct gpud_events *events, const struct gpud_gpu_driver *driver);
void gpud_events_finish(struct gpud_events *events);

/* NULL and *result: the driver cannot create one. */
void *gpud_events_take(struct gpud_events *events, int *result);

/* In any state. */
void gpud_events_put(struct gpud_events *events, void *event);

#endif
