/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is in a stream: whether its picture moves and is lit, and how loud its sound is. Of pictures
 * it looks at one a second, at the size of the pages' thumbnails; noise counts as movement. */
#ifndef GPUD_TOOLS_MONITOR_CONTENT_H
#define GPUD_TOOLS_MONITOR_CONTENT_H

#include <glib.h>
#include <gpudirect/gpudirect.h>

/* Times by g_get_monotonic_time(); 0: not yet. All zeros: nothing was seen. */
struct monitor_content {
    gint64 seen;       /* the newest frame */
    gint64 moved, lit; /* of a picture: when it last was another one, and not black */
    gint64 loud;       /* of sound: when it was last above -60 dBFS */
    guint64 digest;    /* of the newest picture */
};

/* rgb: pixels of three bytes. */
void monitor_content_look(struct monitor_content *content, const guint8 *rgb, gsize size);

/* A frame of sound, which stays the caller's. peaks: raised to the largest sample of each of the
 * audio's channels, where 1 is full scale. */
enum gpud_status monitor_content_listen(struct monitor_content *content, struct gpud_frame *frame,
                                        const struct gpud_audio *audio, double *peaks,
                                        struct gpud_error *error);

/* For how long it has been so, in seconds. NAN: it is no such stream, or not known now. */
struct monitor_content_ages {
    double frozen_s, black_s, silent_s;
};
struct monitor_content_ages monitor_content_find_ages(const struct monitor_content *content);

#endif
