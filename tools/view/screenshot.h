/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A frame as a new PNG file in the current folder, named after the channel and the time. */
#ifndef GPUD_VIEW_SCREENSHOT_H
#define GPUD_VIEW_SCREENSHOT_H

#include "gstpicture.h"

/* What became of it, as a sentence to be freed with g_free(). */
char *screenshot_take(struct picture *picture, GstVideoFrame *mapped, const char *address);

#endif
