/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Shows the channel in a window until that is closed. */
#ifndef GPUD_VIEW_WINDOW_H
#define GPUD_VIEW_WINDOW_H

#include "source.h"

struct window_options {
    const char *address;
    bool full_screen;
    bool one_picture;    /* quit when it is shown */
    int64_t patience_ns; /* how long to wait for the first picture; negative: without an end */
};

/* False: error says why there is no window, or, with GPUD_TIMEOUT, no picture in time. */
bool window_run(struct source *source, const struct window_options *options,
                struct gpud_error *error);

#endif
