/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Addresses on which somebody sends now. */
#ifndef GPUD_GST_CHANNELS_H
#define GPUD_GST_CHANNELS_H

#include <glib.h>

/* The bare names of the live senders in the user's runtime directory; free with
 * g_list_free_full(list, g_free). */
GList *channels_list(void);

#endif
