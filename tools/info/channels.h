/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect-info --channels: senders and their receivers.
 * What is asked, and the JSON, is in tools/channels, which gpudirect-monitor shares. */
#ifndef GPUD_TOOLS_INFO_CHANNELS_H
#define GPUD_TOOLS_INFO_CHANNELS_H

#include "channels/ask.h"

struct info_channels_options {
    struct channels_scope scope;
    bool json, metrics, watch; /* watch: every second until Ctrl-C */
};

/* Returns the exit status. */
int info_show_channels(const struct info_channels_options *options);

#endif
