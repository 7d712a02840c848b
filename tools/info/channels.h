/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect-info --channels: this user's senders and their receivers.
 *
 *     channels.c      asks them, once or every second, and prints text
 *     channelsjson.c  prints JSON */
#ifndef GPUD_TOOLS_INFO_CHANNELS_H
#define GPUD_TOOLS_INFO_CHANNELS_H

#include <gpudirect/channel.h>

/* Returns the exit status. watch: every second until Ctrl-C. */
int info_show_channels(bool json, bool watch);

/* pretty: indented, on several lines */
void info_print_channels_json(const struct gpud_channels *channels, bool pretty);

/* The receivers of a channel; to be freed with g_free(). */
struct gpud_link_info *info_channel_links(const struct gpud_channels *channels, size_t index,
                                          size_t *count);

const char *info_phase_name(enum gpud_link_phase phase);
const char *info_policy_name(enum gpud_slow_receiver policy);

#endif
