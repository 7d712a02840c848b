/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Limits the new names from peers, of fields, structures and regions, because GLib keeps each name
 * until the process ends.
 *
 * Each address has its own account, so that no sender can exhaust another's, for the life of the
 * process, so that restarting a pipeline does not renew it. A name that the process knows already
 * costs nothing. Thread-safe. */
#ifndef GPUD_GST_WIRE_NAMES_H
#define GPUD_GST_WIRE_NAMES_H

#include <glib.h>

#define NAMES_MAX 256

struct names;

/* The account of an address, which is never freed. NULL, here and in a struct unpack, means the
 * account that all others share. */
struct names *names_of(const gchar *address);

/* Whether a name may be used: it is known, or was charged to the account. */
gboolean names_take(struct names *names, const gchar *name);

/* How many names were refused. */
guint64 names_count_left_out(struct names *names);

#endif
