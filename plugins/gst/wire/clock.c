/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/clock.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <string.h>

/* --- names -------------------------------------------------------------------------------- */

/* FNV-1a. It need not resist attacks: a peer that lies could as well claim the name. */
static guint64 hash(const gchar *text)
{
    guint64 hash = G_GUINT64_CONSTANT(14695981039346656037);

    for (; *text; text++)
        hash = (hash ^ (guint8)*text) * G_GUINT64_CONSTANT(1099511628211);
    return MAX(hash, 1);
}

static gboolean is_local_v4(struct in_addr address)
{
    guint32 bits = ntohl(address.s_addr);

    return bits >> 24 == 127 || bits >> 16 == 0xa9fe || bits == INADDR_ANY;
}

/* Loopback and link-local addresses: 169.254.1.1 is a different machine on each link. */
static gboolean is_local(const gchar *address)
{
    struct in_addr v4;
    struct in6_addr v6;
    gchar plain[INET6_ADDRSTRLEN];

    g_strlcpy(plain, address, sizeof(plain));
    plain[strcspn(plain, "%")] = '\0'; /* an interface's name */
    if (inet_aton(plain, &v4))
        return is_local_v4(v4);
    if (inet_pton(AF_INET6, plain, &v6) != 1)
        return g_ascii_strncasecmp(address, "localhost", strlen("localhost")) == 0;
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
        memcpy(&v4, &v6.s6_addr[12], sizeof(v4));
        return is_local_v4(v4);
    }
    return IN6_IS_ADDR_LOOPBACK(&v6) || IN6_IS_ADDR_UNSPECIFIED(&v6) || IN6_IS_ADDR_LINKLOCAL(&v6);
}

/* Sets no name if it is too long. */
G_GNUC_PRINTF(3, 4)
static void set_name(struct clock_name *name, gboolean local, const gchar *format, ...)
{
    va_list args;

    memset(name, 0, sizeof(*name));
    va_start(args, format);
    gint length = g_vsnprintf(name->text, sizeof(name->text), format, args);
    va_end(args);
    if (length < (gint)sizeof(name->text)) {
        name->id = hash(name->text);
        name->local = local;
    } else {
        name->text[0] = '\0';
    }
}

void clock_name_set_ptp(struct clock_name *name, guint64 grandmaster, guint domain)
{
    guint byte[8];

    for (guint i = 0; i < 8; i++)
        byte[i] = (guint)(grandmaster >> (56 - 8 * i) & 0xff);
    set_name(name, FALSE, "ptp:%02X-%02X-%02X-%02X-%02X-%02X-%02X-%02X:%u", byte[0], byte[1],
             byte[2], byte[3], byte[4], byte[5], byte[6], byte[7], domain);
}

void clock_name_set_server(struct clock_name *name, const gchar *scheme, const gchar *address,
                           gint port)
{
    if (address && address[0])
        set_name(name, is_local(address), "%s:%s:%d", scheme, address, port);
    else
        memset(name, 0, sizeof(*name));
}

/* --- clocks ------------------------------------------------------------------------------- */

/* The application changed its times, or slaved it to another clock. */
static gboolean is_calibrated(GstClock *clock)
{
    GstClockTime internal, external, numerator, denominator;

    gst_clock_get_calibration(clock, &internal, &external, &numerator, &denominator);
    return internal != external || numerator != denominator;
}

static gboolean is_monotonic(GstClock *clock)
{
    GstClockType type;

    /* Audio and network clocks derive from GstSystemClock, and are no system clocks. */
    if (G_OBJECT_TYPE(clock) != GST_TYPE_SYSTEM_CLOCK)
        return FALSE;
    g_object_get(clock, "clock-type", &type, NULL);
    return type == GST_CLOCK_TYPE_MONOTONIC && !is_calibrated(clock);
}

/* Looks the type up by name, to avoid linking its library: if a clock exists, so does its type. */
static gboolean is_a(GstClock *clock, const gchar *type)
{
    GType known = g_type_from_name(type);

    return known && g_type_is_a(G_OBJECT_TYPE(clock), known);
}

enum clock_kind clock_kind_of(GstClock *clock)
{
    if (!clock)
        return CLOCK_KIND_OTHER;
    if (is_monotonic(clock))
        return CLOCK_KIND_MONOTONIC;
    if (is_a(clock, "GstPtpClock"))
        return CLOCK_KIND_PTP;
    if (is_a(clock, "GstNtpClock")) /* derives from the next one */
        return CLOCK_KIND_NTP;
    return is_a(clock, "GstNetClientClock") ? CLOCK_KIND_NET : CLOCK_KIND_OTHER;
}

#define NO_GRANDMASTER G_MAXUINT64

static void take_ptp(struct clock_name *name, GstClock *clock)
{
    guint64 grandmaster = NO_GRANDMASTER;
    guint domain = 0;

    g_object_get(clock, "grandmaster-clock-id", &grandmaster, "domain", &domain, NULL);
    if (grandmaster != NO_GRANDMASTER)
        clock_name_set_ptp(name, grandmaster, domain);
}

static void take_server(struct clock_name *name, GstClock *clock, const gchar *scheme)
{
    gchar *address = NULL;
    gint port = 0;

    g_object_get(clock, "address", &address, "port", &port, NULL);
    clock_name_set_server(name, scheme, address, port);
    g_free(address);
}

void clock_name_take(struct clock_name *name, GstClock *clock, enum clock_kind kind,
                     const gchar *common)
{
    memset(name, 0, sizeof(*name));
    if (common && common[0])
        set_name(name, FALSE, "named:%s", common);
    else if (kind < CLOCK_KIND_PTP || !gst_clock_is_synced(clock) || is_calibrated(clock))
        return;
    else if (kind == CLOCK_KIND_PTP)
        take_ptp(name, clock);
    else
        take_server(name, clock, kind == CLOCK_KIND_NTP ? "ntp" : "net");
}

void clock_name_of(struct clock_name *name, GstElement *element, enum clock_kind kind,
                   const gchar *common)
{
    /* Most clocks have no name, which saves a query per frame. */
    GstClock *clock = kind >= CLOCK_KIND_PTP || common ? gst_element_get_clock(element) : NULL;

    memset(name, 0, sizeof(*name));
    if (clock)
        clock_name_take(name, clock, kind, common);
    gst_clear_object(&clock);
}

const gchar *clock_name_text(const struct clock_name *name, enum clock_kind kind)
{
    if (name->text[0])
        return name->text;
    return kind == CLOCK_KIND_MONOTONIC ? "monotonic" : "unknown";
}
