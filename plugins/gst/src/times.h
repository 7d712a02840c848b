/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The times of gpudirectsrc's buffers, and how the sender's clock relates to the pipeline's. */
#ifndef GPUD_GST_SRC_TIMES_H
#define GPUD_GST_SRC_TIMES_H

#include "element/endpoint.h"
#include "src/input.h"
#include "src/latencies.h"
#include "wire/arrivals.h"
#include "wire/sharedmap.h"
#include "wire/timeline.h"
#include "wire/timing.h"

/* How the clock of the last sender, or of the capture card, relates to ours; for the stats. */
enum clock_relation { RELATION_NONE, RELATION_UNKNOWN, RELATION_SAME_HOST, RELATION_COMMON };

struct times {
    struct endpoint *endpoint;
    gint relation; /* atomic: enum clock_relation */
    gint64
        offset; /* atomic: what is added to the sender's running times, if clocks are not common */
    struct latencies *latencies; /* of frames, where the core does not count them */
    gchar sender_host[64];       /* the last sender's, "": this host; under the object lock */
    struct shared_part shared;   /* with the programme's other streams */
    /* The streaming thread's. */
    struct time_map map;
    struct timeline line;
    struct arrivals arrivals;
    gboolean same_clock;       /* the sender has this host's clock */
    gboolean waited;           /* acquiring the last frame had to wait */
    GstClockTime acquired_at;  /* when it was acquired, by CLOCK_MONOTONIC */
    GstClockTime stamped_at;   /* when it was stamped, in running time; NONE: not known */
    GstClockTime running;      /* when a frame was last asked whether it is past */
    GstClockTime stands_since; /* how long the clock has shown that time, by CLOCK_MONOTONIC */
};

/* The times of one frame of a link. */
struct times_frame {
    struct time_frame frame;
    struct time_now now;
    gint64 arrived; /* in running time; or TIMELINE_UNKNOWN */
};

void times_init(struct times *times, struct endpoint *endpoint);
void times_finish(struct times *times);

/* Before the element starts: its times are converted as those of other streams that share it. */
void times_share(struct times *times, struct shared_map *shared);

/* The current time by the pipeline's clock and by that of frames and events. */
void times_now(struct times *times, struct time_now *now);

/* Another sender is connected. */
void times_meet_sender(struct times *times, const struct gpud_peer_info *peer);

/* The frames are another sender's from here on, on the same time line. */
void times_switch_sender(struct times *times, const struct gpud_peer_info *peer);

/* A frame was acquired at that monotonic time; late_max: how late live ones may be. */
void times_note_acquired(struct times *times, GstClockTime now, gint64 late_max);
/* The frame is skipped. */
void times_note_skipped(struct times *times);

/* Learns about the sender's clock from the head of an event between frames. */
void times_learn_event(struct times *times, const struct wire_head *head,
                       const struct time_now *now);

/* Whether a live frame belongs before this pipeline's start. */
gboolean times_is_past(struct times *times, const struct gpud_frame_info *info,
                       const struct wire_head *head);

/* Whether a live frame may have waited for an unknown time, while the sender's clock is known only
 * from the arrival of frames. */
gboolean times_is_arrival_unknown(struct times *times, const struct gpud_frame_info *info,
                                  const struct wire_head *head);

/* Sets a buffer's times, which never go back. */
void times_stamp_linked(struct times *times, struct input *input,
                        const struct gpud_frame_info *info, const struct wire_head *head,
                        GstBuffer *buffer, struct times_frame *frame);

/* Called after that, and after events were pushed: learns about the clocks. Returns the frame's
 * lateness, or TIMELINE_UNKNOWN. */
gint64 times_learn(struct times *times, struct input *input, const struct wire_head *head,
                   const struct times_frame *frame, const GstBuffer *buffer);

/* Stamps a frame of a card. FALSE: its lateness is not known. */
gboolean times_stamp_captured(struct times *times, const struct gpud_frame_info *info,
                              GstBuffer *buffer, gint64 *late);

/* Another stream follows, or the pipeline was paused. */
void times_break(struct times *times);

/* Forgets everything: no buffer was pushed yet. */
void times_reset(struct times *times, gboolean card);

#endif
