/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pipelines' clocks, and the names by which pipelines in other processes and on other hosts
 * recognise the same clock:
 *
 *     ptp:00-1B-19-FF-FE-00-00-01:0   GstPtpClock: the grandmaster that it follows, and the domain
 *     net:10.0.0.1:5637               GstNetClientClock: the provider's address
 *     ntp:ntp.example.org:123         GstNtpClock: the server's
 *     named:studio                    any, as the user says (the property common-clock)
 *
 * A clock that is not synchronised yet has no name, nor has any other kind: the system's clock and
 * a sound card's are local to one host. */
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
    gchar text[CLOCK_NAME_MAX]; /* readable; "": it has none */
    guint64 id;                 /* a hash of the text; 0: it has none */
    gboolean local;             /* the same name on another host means another clock */
};

/* The current name of a clock of this kind; common: the user's name for it, or NULL. */
void clock_name_take(struct clock_name *name, GstClock *clock, enum clock_kind kind,
                     const gchar *common);

/* The same for an element's clock, which may be missing. */
void clock_name_of(struct clock_name *name, GstElement *element, enum clock_kind kind,
                   const gchar *common);

/* "monotonic", the name, or "unknown". */
const gchar *clock_name_text(const struct clock_name *name, enum clock_kind kind);

void clock_name_set_ptp(struct clock_name *name, guint64 grandmaster, guint domain);
void clock_name_set_server(struct clock_name *name, const gchar *scheme, const gchar *address,
                           gint port);

#endif
