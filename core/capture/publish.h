/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_CAPTURE_PUBLISH_H
#define GPUD_CAPTURE_PUBLISH_H

#include "capture/state.h"

/* What was detected. */
void gpud_capture_publish_signal(struct gpud_capture *capture);
void gpud_capture_count_change(struct gpud_capture *capture);
/* The format that the card is set to before the first configure. */
void gpud_capture_publish_card_format(struct gpud_capture *capture);

/* The card was unplugged, or has returned. */
void gpud_capture_publish_card(struct gpud_capture *capture);

/* A stream has begun in this format. */
void gpud_capture_publish(struct gpud_capture *capture, const struct gpud_v4l2_format *format,
                          uint32_t fps_num, uint32_t fps_den);
/* The stream has ended. */
void gpud_capture_unpublish(struct gpud_capture *capture);
/* The ring's method is known to work. */
void gpud_capture_publish_path(struct gpud_capture *capture);
/* What the driver says now of the colours and rate of what it captures. True: they changed. */
bool gpud_capture_publish_format(struct gpud_capture *capture);
/* With capture->lock held: what the driver says of its pictures beside their layout. */
void gpud_capture_note_format(struct gpud_capture *capture, const struct gpud_v4l2_format *format,
                              const struct gpud_hdr_metadata *hdr, uint32_t fps_num,
                              uint32_t fps_den);

/* The driver's rate, else the signal's. If *fps_num is not 0, the driver is asked for that rate. */
void gpud_capture_read_rate(struct gpud_capture *capture, uint32_t *fps_num, uint32_t *fps_den);
/* How long a frame of this rate lasts. */
void gpud_capture_set_duration(struct gpud_capture *capture, uint32_t fps_num, uint32_t fps_den);

#endif
