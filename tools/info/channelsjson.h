/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The channels as JSON, and the words for their states. */
#ifndef GPUD_TOOLS_INFO_CHANNELSJSON_H
#define GPUD_TOOLS_INFO_CHANNELSJSON_H

#include <gpudirect/channel.h>

#include <glib.h>

/* folders: from info_ask_channels(); pretty: indented, on several lines */
void info_print_channels_json(const GPtrArray *folders, bool pretty);

const char *info_phase_name(enum gpud_link_phase phase);
const char *info_policy_name(enum gpud_slow_receiver policy);

#endif
