/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* New names that peers bring, of fields, structures and regions: GLib keeps each of them until the
 * process ends, so they are rationed.
 *
 * Each address has an account of its own, so that no sender can use up another's, and keeps it for
 * the life of the process, so that restarting a pipeline opens no new one. A name that this process
 * knows costs nothing. Thread-safe. */
#ifndef GPUD_GST_WIRE_NAMES_H
#define GPUD_GST_WIRE_NAMES_H

#include <glib.h>

#define NAMES_MAX 256

struct names;

/* The account of an address, which is never freed. NULL, here and in a struct unpack, stands for
 * the one that all others share. */
struct names *names_of(const gchar *address);

/* Whether a name may be used: it is known, or the account pays for it. */
gboolean names_take(struct names *names, const gchar *name);

/* How many times the account could not pay. */
guint64 names_count_left_out(struct names *names);

#endif
