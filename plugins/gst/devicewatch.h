/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Notices that capture cards, channels or targets have come, gone or changed: events of /dev and
 * of the directory of channels (inotify), and the ends of processes (pidfd). What came at once is
 * told at once: a card's node is made, gets its owner and its mode by separate events. */
#ifndef GPUD_GST_DEVICEWATCH_H
#define GPUD_GST_DEVICEWATCH_H

#include <glib.h>

struct device_watch;

enum device_change {
    DEVICE_CHANGE_STOP = 1 << 0,
    DEVICE_CHANGE_CARDS = 1 << 1,
    DEVICE_CHANGE_CHANNELS = 1 << 2, /* or targets */
};

/* directory: of channels, which need not exist yet; NULL: there is none. NULL: nothing can be
 * followed, and the log says why. */
struct device_watch *device_watch_new(const gchar *directory);
void device_watch_free(struct device_watch *watch);

/* Ends waiting; from any thread. */
void device_watch_stop(struct device_watch *watch);

/* From now on the ends of these processes (pid_t) are told, instead of those before. FALSE: that of
 * one of them cannot be. */
gboolean device_watch_processes(struct device_watch *watch, const GArray *pids);

/* Waits until something happened, for so many ms at most (-1: for ever). gone: the nodes in /dev
 * ("video0") that went meanwhile are added, even if they are there again. 0: nothing happened. */
guint device_watch_wait(struct device_watch *watch, gint timeout, GPtrArray *gone);

#endif
