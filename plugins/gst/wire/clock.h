/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pipelines' clocks, and the names by which pipelines of other processes, and of other hosts, know
 * that theirs is the same:
 *
 *     ptp:00-1B-19-FF-FE-00-00-01:0   GstPtpClock: the grandmaster that it follows, and the domain
 *     net:10.0.0.1:5637               GstNetClientClock: the provider's address
 *     ntp:ntp.example.org:123         GstNtpClock: the server's
 *     named:studio                    any, by the user's word (the property common-clock)
 *
 * A clock that follows no other yet has no name, nor has any other: the system's is one host's
 * alone, and so is that of a sound card. */
#ifndef GPUD_GST_WIRE_CLOCK_H
#define GPUD_GST_WIRE_CLOCK_H

#include <gst/gst.h>

enum clock_kind {
    CLOCK_KIND_OTHER,
    CLOCK_KIND_MONOTONIC, /* its times are CLOCK_MONOTONIC's */
    CLOCK_KIND_PTP,
    CLOCK_KIND_NET,
    CLOCK_KIND_NTP,
};

/* NULL: OTHER. */
enum clock_kind clock_kind_of(GstClock *clock);

#define CLOCK_NAME_MAX 128

struct clock_name {
    gchar text[CLOCK_NAME_MAX]; /* for people; "": it has none */
    guint64 id;                 /* made of the text; 0: it has none */
    gboolean local;             /* on another host the same name is another clock's */
};

/* The name of a clock of this kind, as it is now; common: the user's word, or NULL. */
void clock_name_take(struct clock_name *name, GstClock *clock, enum clock_kind kind,
                     const gchar *common);

/* The same for an element's, which may have none. */
void clock_name_of(struct clock_name *name, GstElement *element, enum clock_kind kind,
                   const gchar *common);

/* "monotonic", the name, or "unknown". */
const gchar *clock_name_text(const struct clock_name *name, enum clock_kind kind);

void clock_name_set_ptp(struct clock_name *name, guint64 grandmaster, guint domain);
void clock_name_set_server(struct clock_name *name, const gchar *scheme, const gchar *address,
                           gint port);

#endif
