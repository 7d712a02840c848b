/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The channels of running senders, with their caps. */
#ifndef GPUD_GST_CHANNELS_H
#define GPUD_GST_CHANNELS_H

#include <gst/gst.h>

struct channel {
    gchar *address, *program; /* program: NULL where it is not known */
    gint64 pid;               /* 0: not known */
    GstCaps *caps;            /* NULL: it has no format yet, or did not answer */
    gboolean answered;
    gboolean ended; /* its stream is over, and it may begin another */
};

/* Queries all channels of the user, or those in a folder ("unix:/folder/"; NULL: all), for at most
 * timeout ns; free with g_ptr_array_unref(). *directory (may be NULL): the directory of bare names,
 * or the folder, or NULL; g_free it. */
GPtrArray *channels_ask(const gchar *folder, gint64 timeout, gchar **directory);

#endif
