/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One conversion of times for all streams of a sender's pipeline, so that picture and sound keep
 * their times to each other. If the two pipelines share a clock, each stream computes the same
 * conversion. Otherwise it is measured, and depends on the stream: so one of them measures, and the
 * others use its result. If that one stops, another one continues from there.
 *
 * In the same way they share a delay: if one of them is so late that it is put at its arrival (see
 * timeline.h), the others are put later by as much. */
#ifndef GPUD_GST_WIRE_SHAREDMAP_H
#define GPUD_GST_WIRE_SHAREDMAP_H

#include "wire/timeline.h"
#include "wire/timing.h"

struct shared_map;

struct shared_map *shared_map_new(void);
struct shared_map *shared_map_ref(struct shared_map *shared);
void shared_map_unref(struct shared_map *shared);

/* One stream's part. */
struct shared_part {
    struct shared_map *map; /* NULL: the stream is alone */
    gint64 process;         /* that sends it, as the system says: only a run of its own is shared */
};

/* As time_map_update(). From any thread. */
void shared_map_update(const struct shared_part *part, struct time_map *map,
                       const struct wire_head *head, const struct time_frame *frame,
                       const struct time_now *now);

/* The same on a copy of the stream's map, from which no other one learns. */
void shared_map_try(const struct shared_part *part, struct time_map *copy,
                    const struct wire_head *head, const struct time_frame *frame,
                    const struct time_now *now);

/* Puts the stream's last frame where it belongs beside the frames of the others. Returns its
 * running time. */
GstClockTime shared_map_delay(const struct shared_part *part, const struct wire_head *head,
                              const struct time_now *now, struct timeline *line);

/* What the stream has measured no longer holds. */
void shared_map_leave(const struct shared_part *part);

#endif
