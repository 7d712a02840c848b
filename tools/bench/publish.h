/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* --report: tools/report runs this program again and again, and draws what it measures. */
#ifndef GPUD_TOOLS_BENCH_PUBLISH_H
#define GPUD_TOOLS_BENCH_PUBLISH_H

#include "options.h"

/* Becomes that program. Returns, with an exit status, only if it cannot. */
int bench_publish(const struct bench_options *options);

#endif
