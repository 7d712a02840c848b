/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The model as JSON, which the page shows, and as metrics. Units stand in the names; unknown values
 * are null. */
#ifndef GPUD_TOOLS_MONITOR_REPORT_H
#define GPUD_TOOLS_MONITOR_REPORT_H

#include "monitor/model.h"

/* Channels and receivers as they are, and the events after that number. */
GBytes *monitor_report_state(const struct monitor_model *model, uint64_t after);

/* The samples of all of them, oldest first, the newest of the time of the last state. */
GBytes *monitor_report_history(const struct monitor_model *model);

/* The text of /metrics: what the channels say, and those that are gone or expected. */
GBytes *monitor_report_metrics(const struct monitor_model *model, bool openmetrics);

#endif
