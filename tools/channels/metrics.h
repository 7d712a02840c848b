/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Channels and receivers as metrics: for the textfile collector of Prometheus' node_exporter, and
 * for Prometheus itself. */
#ifndef GPUD_TOOLS_CHANNELS_METRICS_H
#define GPUD_TOOLS_CHANNELS_METRICS_H

#include <glib.h>
#include <stdbool.h>

#define METRICS_TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_OPENMETRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* folders: from channels_ask(). openmetrics: OpenMetrics 1.0; else the text format 0.0.4, the only
 * one that the textfile collector and `promtool check metrics` read. Names and values are alike. */
GString *channels_format_metrics(const GPtrArray *folders, bool openmetrics);

#endif
