/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "src/feed.h"

#include <string.h>

void feed_init(struct feed *feed, feed_open_input open_input, void *user)
{
    feed->open_input = open_input;
    feed->user = user;
    g_mutex_init(&feed->lock);
    g_cond_init(&feed->flushed);
}

void feed_finish(struct feed *feed)
{
    g_mutex_clear(&feed->lock);
    g_cond_clear(&feed->flushed);
    g_free(feed->device);
}

/* --- counting ----------------------------------------------------------------------------- */

static void add_counters(struct input_info *info, const struct input_info *more)
{
    info->frames += more->frames;
    info->dropped += more->dropped;
    info->corrupted += more->corrupted;
    info->connects += more->connects;
    info->disconnects += more->disconnects;
    info->copies_cpu += more->copies_cpu;
    info->copies_gpu += more->copies_gpu;
    info->waits_cpu += more->waits_cpu;
    info->waits_device += more->waits_device;
    info->kicks += more->kicks;
}

void feed_get_info(struct feed *feed, struct input_info *info)
{
    memset(info, 0, sizeof(*info));
    g_strlcpy(info->path, "none", sizeof(info->path));
    g_mutex_lock(&feed->lock);
    if (feed->input)
        feed->input->ops->get_info(feed->input, info);
    g_strlcpy(info->device, feed->device ? feed->device : "none", sizeof(info->device));
    add_counters(info, &feed->past);
    g_mutex_unlock(&feed->lock);
}

void feed_count_anew(struct feed *feed)
{
    struct input_info info;

    g_mutex_lock(&feed->lock);
    feed->input->ops->get_info(feed->input, &info);
    memset(&feed->past, 0, sizeof(feed->past));
    feed->past.frames = -info.frames;
    feed->past.dropped = -info.dropped;
    feed->past.corrupted = -info.corrupted;
    feed->past.connects = 1 - info.connects;
    feed->past.disconnects = -info.disconnects;
    feed->past.copies_cpu = -info.copies_cpu;
    feed->past.copies_gpu = -info.copies_gpu;
    feed->interrupted = FALSE;
    feed->input->ops->interrupt(feed->input, FALSE);
    g_mutex_unlock(&feed->lock);
    feed->dropped_seen = info.dropped;
    __atomic_store_n(&feed->skipped, 0, __ATOMIC_RELAXED);
}

guint64 feed_count_lost(struct feed *feed, guint64 dropped)
{
    guint64 lost = dropped > feed->dropped_seen ? dropped - feed->dropped_seen : 0;

    feed->dropped_seen = dropped;
    return lost;
}

static void ask_for_slots(struct feed *feed)
{
    if (feed->input && feed->slots_wanted && feed->input->ops->want_slots)
        feed->input->ops->want_slots(feed->input, feed->slots_wanted);
}

/* --- opening and closing ------------------------------------------------------------------ */

gboolean feed_open(struct feed *feed, const gchar *device, struct gpud_error *error)
{
    struct input *input;

    if (feed->open_input(feed->user, device, &input, error) != GPUD_OK)
        return FALSE;
    g_mutex_lock(&feed->lock);
    feed->input = input;
    feed->device = g_strdup(device);
    feed->interrupted = FALSE;
    __atomic_store_n(&feed->skipped, 0, __ATOMIC_RELAXED);
    memset(&feed->past, 0, sizeof(feed->past));
    g_mutex_unlock(&feed->lock);
    return TRUE;
}

void feed_close(struct feed *feed)
{
    g_mutex_lock(&feed->lock);
    struct input *input = g_steal_pointer(&feed->input);
    g_clear_pointer(&feed->device, g_free);
    feed->slots_wanted = 0;
    memset(&feed->past, 0, sizeof(feed->past));
    g_mutex_unlock(&feed->lock);
    feed->dropped_seen = 0;
    if (input)
        input->ops->close(input);
}

gboolean feed_replace(struct feed *feed, const gchar *device, struct gpud_error *error)
{
    gchar *chosen = g_strdup(device ? device : feed->device);
    struct input_info counted;
    struct input *input;
    enum gpud_status status = feed->open_input(feed->user, chosen, &input, error);

    if (status != GPUD_OK) {
        g_free(chosen);
        return FALSE;
    }
    g_mutex_lock(&feed->lock);
    struct input *old = feed->input;
    old->ops->get_info(old, &counted);
    counted.disconnects += counted.connected;
    add_counters(&feed->past, &counted);
    feed->input = input;
    ask_for_slots(feed);
    g_free(feed->device);
    feed->device = chosen;
    input->ops->interrupt(input, feed->interrupted);
    g_mutex_unlock(&feed->lock);
    old->ops->close(old);
    feed->dropped_seen = 0; /* the new one counts from 0 */
    return TRUE;
}

/* --- interrupting ------------------------------------------------------------------------- */

void feed_set_group(struct feed *feed, const gchar *name, GstElement *element)
{
    struct group_member *joined = name ? group_join(name, element) : NULL;

    g_mutex_lock(&feed->lock);
    struct group_member *left = feed->group;
    feed->group = joined;
    g_mutex_unlock(&feed->lock);
    if (left)
        group_leave(left);
}

gboolean feed_get_group_counts(struct feed *feed, guint64 *dropped, guint64 *missed)
{
    g_mutex_lock(&feed->lock);
    gboolean joined = feed->group != NULL;
    if (joined)
        group_get_counts(feed->group, dropped, missed);
    g_mutex_unlock(&feed->lock);
    return joined;
}

void feed_add_stats(struct feed *feed, GstStructure *stats)
{
    g_mutex_lock(&feed->lock);
    if (feed->input && feed->input->ops->add_stats)
        feed->input->ops->add_stats(feed->input, stats);
    g_mutex_unlock(&feed->lock);
}

void feed_interrupt(struct feed *feed, gboolean interrupted)
{
    g_mutex_lock(&feed->lock);
    feed->interrupted = interrupted;
    if (feed->input)
        feed->input->ops->interrupt(feed->input, interrupted);
    if (feed->group)
        group_interrupt(feed->group, interrupted);
    g_mutex_unlock(&feed->lock);
}

void feed_want_slots(struct feed *feed, guint slots)
{
    g_mutex_lock(&feed->lock);
    gboolean changed = feed->slots_wanted != slots;
    feed->slots_wanted = slots;
    if (changed)
        ask_for_slots(feed);
    g_mutex_unlock(&feed->lock);
}

void feed_resume(struct feed *feed)
{
    g_mutex_lock(&feed->lock);
    feed->input->ops->interrupt(feed->input, feed->interrupted);
    g_mutex_unlock(&feed->lock);
}

void feed_set_flushing(struct feed *feed, gboolean flushing)
{
    g_mutex_lock(&feed->lock);
    g_atomic_int_set(&feed->flushing, flushing);
    g_cond_broadcast(&feed->flushed);
    g_mutex_unlock(&feed->lock);
    feed_interrupt(feed, flushing);
}

gboolean feed_sleep_until(struct feed *feed, gint64 time)
{
    g_mutex_lock(&feed->lock);
    while (!feed_is_flushing(feed) && g_cond_wait_until(&feed->flushed, &feed->lock, time))
        ;
    gboolean flushing = feed_is_flushing(feed);
    g_mutex_unlock(&feed->lock);
    return flushing;
}
