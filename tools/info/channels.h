/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect-info --channels: senders and their receivers.
 *
 *     channels.c      prints text, once or every second
 *     channelsjson.c  prints JSON
 *     directories.c   asks channels: this user's, one, a folder's, or all users' */
#ifndef GPUD_TOOLS_INFO_CHANNELS_H
#define GPUD_TOOLS_INFO_CHANNELS_H

#include "directories.h"

/* Returns the exit status. */
int info_show_channels(const struct info_channels_options *options);

#endif
