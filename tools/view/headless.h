/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The channel's next frame as a PNG file, without a display. */
#ifndef GPUD_VIEW_HEADLESS_H
#define GPUD_VIEW_HEADLESS_H

#include "source.h"

/* GPUD_TIMEOUT: no frame came in time; error says why. */
enum gpud_status headless_save(struct source *source, const char *file, int64_t timeout_ns,
                               struct gpud_error *error);

#endif
