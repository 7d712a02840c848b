/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_CAPTURE_ARRIVAL_H
#define GPUD_CAPTURE_ARRIVAL_H

#include "capture/state.h"

enum gpud_arrival_action {
    GPUD_ARRIVAL_ACQUIRE,
    GPUD_ARRIVAL_NO_SIGNAL, /* drop it: noise, or the card's substitute picture */
    GPUD_ARRIVAL_OVERRUN,   /* drop it: the application holds all frames */
};

/* A dequeued buffer, and what to do with it. */
struct gpud_arrival {
    enum gpud_arrival_action action;
    int64_t time;
    uint64_t pts;
    bool at_start;    /* pts is the start of exposure */
    uint64_t missing; /* frames that the driver dropped before this one */
    uint32_t flags;   /* enum gpud_frame_flags */
};

/* room: a frame can be acquired. An impossible data_offset in *raw is made 0. */
struct gpud_arrival gpud_capture_judge(struct gpud_capture *capture, struct gpud_v4l2_buffer *raw,
                                       bool room);

/* Counts it for get_info. acquired: the application gets it; else it was dropped. */
void gpud_capture_count(struct gpud_capture *capture, const struct gpud_arrival *arrival,
                        bool acquired);

/* Fills the frame's info. */
void gpud_capture_describe(struct gpud_capture *capture, const struct gpud_v4l2_buffer *raw,
                           const struct gpud_arrival *arrival, struct gpud_frame *frame);

#endif
