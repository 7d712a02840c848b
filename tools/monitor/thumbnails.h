/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* An image a second of each channel that a page shows: its picture, or the levels of its sound; and
 * what is in those that are watched. */
#ifndef GPUD_TOOLS_MONITOR_THUMBNAILS_H
#define GPUD_TOOLS_MONITOR_THUMBNAILS_H

#include "monitor/content.h"

#include <glib.h>
#include <gpudirect/gpudirect.h>

struct monitor_thumbnails;

/* psk_file: for channels over a network; NULL: none. NULL: *error says why. */
struct monitor_thumbnails *monitor_thumbnails_new(const char *psk_file, struct gpud_error *error);
void monitor_thumbnails_free(struct monitor_thumbnails *thumbnails);

/* The newest image of a channel, and its media type (IANA); NULL: *reason says why there is none,
 * to be freed with g_free(). The first call connects a receiver, which leaves some seconds after
 * the last one. Main thread. */
GBytes *monitor_thumbnails_get(struct monitor_thumbnails *thumbnails, const char *address,
                               const char **type, char **reason);

/* What is in a channel, which is looked at like one that a page shows. false: not known yet. */
bool monitor_thumbnails_watch(struct monitor_thumbnails *thumbnails, const char *address,
                              struct monitor_content *content);

#endif
