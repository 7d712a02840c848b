/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The current input: opened, replaced, counted and interrupted. */
#ifndef GPUD_GST_SRC_FEED_H
#define GPUD_GST_SRC_FEED_H

#include "src/group.h"
#include "src/input.h"

/* Opens an input on a device. */
typedef enum gpud_status (*feed_open_input)(void *user, const gchar *device, struct input **input,
                                            struct gpud_error *error);

struct feed {
    feed_open_input open_input;
    void *user;
    /* NULL: it is closed. Replaced by the streaming thread, and between states; other threads hold
     * the lock to use it. */
    struct input *input;
    struct group_member *group; /* NULL: none; under the lock */
    gchar *device;              /* the device that it was opened on; under the lock */

    GMutex lock;
    GCond flushed;
    struct input_info past; /* under the lock: the counts of the inputs before this one */
    gboolean interrupted;   /* under the lock: acquire must not wait */
    guint slots_wanted;     /* under the lock; 0: as many as the input was opened with */
    gint flushing;          /* atomic: create() must return from any wait */
    guint64 skipped;        /* relaxed atomic: acquired frames that are not shown */
    guint64 dropped_seen;   /* the streaming thread's: this input's count, up to the last frame */
};

void feed_init(struct feed *feed, feed_open_input open_input, void *user);
void feed_finish(struct feed *feed);

/* Opens the input on a device and counts from 0. FALSE: *error says why not. */
gboolean feed_open(struct feed *feed, const gchar *device, struct gpud_error *error);
void feed_close(struct feed *feed);

/* Replaces the input by a new one; the old one's link ends, and its frames stay valid. device NULL:
 * the same as before. FALSE: *error says why, and the old input remains. */
gboolean feed_replace(struct feed *feed, const gchar *device, struct gpud_error *error);

/* Restarts the element's counts from 0, while the input's continue. */
void feed_count_anew(struct feed *feed);

/* The counts of this input and of those before it; from any thread. */
void feed_get_info(struct feed *feed, struct input_info *info);

/* What only this kind of input counts; from any thread. */
void feed_add_stats(struct feed *feed, GstStructure *stats);

/* How many frames were lost since the last one, from this frame's count of dropped ones. */
guint64 feed_count_lost(struct feed *feed, guint64 dropped);

/* Joins a group of sources; name NULL: leaves it. */
void feed_set_group(struct feed *feed, const gchar *name, GstElement *element);

/* As group_get_counts(). FALSE: there is no group. From any thread. */
gboolean feed_get_group_counts(struct feed *feed, guint64 *dropped, guint64 *missed);

/* Makes acquire and waiting for the group return at once, until FALSE is set. From any thread. */
void feed_interrupt(struct feed *feed, gboolean interrupted);

/* Asks the sender for so many slots, now and whenever the input is replaced. From any thread. */
void feed_want_slots(struct feed *feed, guint slots);

/* After the element interrupted its own acquire: lets it wait again, unless another thread has
 * interrupted it, too. */
void feed_resume(struct feed *feed);

/* Makes create() return from any wait, or lets it wait again. From any thread. */
void feed_set_flushing(struct feed *feed, gboolean flushing);

static inline gboolean feed_is_flushing(struct feed *feed)
{
    return g_atomic_int_get(&feed->flushing);
}

/* Sleeps until that time, in monotonic µs. TRUE: it is flushing now. */
gboolean feed_sleep_until(struct feed *feed, gint64 time);

#endif
