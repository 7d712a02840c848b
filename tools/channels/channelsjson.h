/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The channels as JSON, and the words for their states. */
#ifndef GPUD_TOOLS_CHANNELS_CHANNELSJSON_H
#define GPUD_TOOLS_CHANNELS_CHANNELSJSON_H

#include <gpudirect/channel.h>

#include <json-glib/json-glib.h>

/* folders: from channels_ask(); pretty: indented, on several lines */
void channels_print_json(const GPtrArray *folders, bool pretty);

/* Members of the object that the builder is in. A sender that does not answer has none after the
 * reason. */
void channels_put_channel(JsonBuilder *builder, const struct gpud_channel_info *info);
void channels_put_receiver(JsonBuilder *builder, const struct gpud_link_info *link);

/* Adds an array "waiting" of struct channels_waiter. */
void channels_put_waiting(JsonBuilder *builder, const GPtrArray *waiters);

const char *channels_phase_name(enum gpud_link_phase phase);
const char *channels_policy_name(enum gpud_slow_receiver policy);

#endif
