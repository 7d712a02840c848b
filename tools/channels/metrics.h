/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Channels and receivers as metrics: for the textfile collector of Prometheus' node_exporter, and
 * for Prometheus itself. */
#ifndef GPUD_TOOLS_CHANNELS_METRICS_H
#define GPUD_TOOLS_CHANNELS_METRICS_H

#include <gpudirect/channel.h>

#include <glib.h>
#include <stdbool.h>

#define METRICS_TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_OPENMETRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* A channel as the metrics have it. */
struct metrics_channel {
    struct gpud_channel_info info; /* where there is no sender, the address alone */
    bool is_there;
    bool expected;        /* a monitor's list has it */
    const char *gone_how; /* "died", "ended", "unknown"; "never": it was never there; NULL: else */
    double gone_s;        /* seconds since then */
    guint waiting;        /* receivers without a sender */
    /* For how many seconds its content has been so; NAN: unknown. */
    double frozen_s, black_s, silent_s;
};

/* folders: from channels_ask(); NULL: none. Returns struct metrics_channel: those that are there,
 * and those that receivers wait for. Valid as long as the folders. To be freed with
 * g_ptr_array_unref(). */
GPtrArray *metrics_collect(const GPtrArray *folders);

/* The entry of an address, added if it is missing. */
struct metrics_channel *metrics_find(GPtrArray *channels, const char *address);

/* openmetrics: OpenMetrics 1.0; else the text format 0.0.4, the only one that the textfile
 * collector and `promtool check metrics` read. Names and values are alike. */
GString *metrics_format(const GPtrArray *channels, bool openmetrics);

#endif
