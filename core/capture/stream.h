/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_CAPTURE_STREAM_H
#define GPUD_CAPTURE_STREAM_H

#include "capture/state.h"

/* Sets the card to its signal and to what is wanted, and starts streaming. The ring is NULL, and is
 * again on failure. *deferred: the driver does not start without a signal; there is no ring, and
 * the timer is armed to look for one. */
enum gpud_status gpud_capture_begin(struct gpud_capture *capture, bool *deferred,
                                    struct gpud_error *error);

/* The ring's method turned out not to work, as why says: the stream goes on by the next one. On
 * failure there is no ring, or one that has ended. */
enum gpud_status gpud_capture_fall_back(struct gpud_capture *capture, const struct gpud_error *why,
                                        struct gpud_error *error);

/* Held frames live on. GPUD_IO: the driver keeps its buffers, and the ring is still there. must:
 * drop it whatever the driver says. */
enum gpud_status gpud_capture_drop_ring(struct gpud_capture *capture, bool must,
                                        struct gpud_error *error);

#endif
