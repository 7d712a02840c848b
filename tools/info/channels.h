/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect-info --channels: senders and their receivers.
 *
 *     channels.c      prints text, once or every second
 *     channelsjson.c  prints JSON
 *     directories.c   asks them: this user's, one, those of a folder, or those of all users */
#ifndef GPUD_TOOLS_INFO_CHANNELS_H
#define GPUD_TOOLS_INFO_CHANNELS_H

#include <gpudirect/channel.h>

#include <glib.h>

struct info_channels_options {
    bool json, watch;    /* watch: every second until Ctrl-C */
    bool all_users;      /* root only */
    const char *address; /* NULL: not one alone */
    const char *folder;  /* absolute; NULL: the runtime directory */
};

/* Returns the exit status. */
int info_show_channels(const struct info_channels_options *options);

/* Of struct gpud_channel_list, one for each folder, this user's first; a folder of another user's
 * that cannot be read is left out. NULL: *error says why. To be freed with g_ptr_array_unref(). */
GPtrArray *info_ask_channels(const struct info_channels_options *options, struct gpud_error *error);

/* pretty: indented, on several lines */
void info_print_channels_json(const GPtrArray *lists, bool pretty);

const char *info_phase_name(enum gpud_link_phase phase);
const char *info_policy_name(enum gpud_slow_receiver policy);

#endif
