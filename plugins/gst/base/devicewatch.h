/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Watches capture cards, channels and targets by events of /dev and of the channels' directory
 * (inotify), and by the ends of processes (pidfd). Simultaneous events are reported together: a
 * card's node is created, and gets its owner and its mode, by separate events. */
#ifndef GPUD_GST_DEVICEWATCH_H
#define GPUD_GST_DEVICEWATCH_H

#include <glib.h>

struct device_watch;

enum device_change {
    DEVICE_CHANGE_WOKEN = 1 << 0, /* by device_watch_wake() */
    DEVICE_CHANGE_CARDS = 1 << 1,
    DEVICE_CHANGE_CHANNELS = 1 << 2, /* or targets */
};

/* directory: that of channels, which need not exist yet; or NULL. cards: capture cards are watched,
 * too. Returns NULL if nothing can be watched, and the log says why. */
struct device_watch *device_watch_new(const gchar *directory, gboolean cards);
void device_watch_free(struct device_watch *watch);

/* Ends the current wait, or the next one; from any thread. */
void device_watch_wake(struct device_watch *watch);

/* Watches the ends of these processes (pid_t), instead of the previous ones. FALSE: one of them
 * cannot be watched. */
gboolean device_watch_processes(struct device_watch *watch, const GArray *pids);

/* Waits for a change, for at most timeout ms (-1: for ever). gone: gets the nodes in /dev
 * ("video0") that were removed meanwhile, even if they exist again. 0: nothing happened. */
guint device_watch_wait(struct device_watch *watch, gint timeout, GPtrArray *gone);

#endif
