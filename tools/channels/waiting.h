/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Receivers that wait for a sender, by the notes that they leave (core/wire/wire.h describes
 * them). */
#ifndef GPUD_TOOLS_CHANNELS_WAITING_H
#define GPUD_TOOLS_CHANNELS_WAITING_H

#include <glib.h>

struct channels_waiter {
    char *address; /* as a sender's in a list of channels */
    char *name;    /* of the receiver */
    gint64 pid;    /* 0: of another container */
    gint64 since;  /* as g_get_real_time() */
};

/* Those in a folder, as struct channels_waiter; without a monitor's thumbnails. address: that one
 * alone; NULL: all. To be freed with g_ptr_array_unref(). */
GPtrArray *channels_read_waiting(const char *folder, const char *address);

#endif
