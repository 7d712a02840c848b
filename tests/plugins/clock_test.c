/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The names of clocks: two with the same name show the same time, so clocks that could differ have
 * different names, or none. GStreamer's own network clocks are tested. */
#include "support/check.h"
#include "wire/codec.h"

#include <gst/net/net.h>

static void expect(const struct clock_name *name, const gchar *text, gboolean local)
{
    CHECK(strcmp(name->text, text) == 0, "\"%s\" where \"%s\" is right", name->text, text);
    CHECK((name->id != 0) == (text[0] != '\0'), "the id of \"%s\"", text);
    CHECK(name->local == local, "%s is %s", text, name->local ? "local" : "not local");
}

/* --- made of parts -------------------------------------------------------------------------- */

static void grandmasters(void)
{
    static const struct {
        guint64 grandmaster;
        guint domain;
        const gchar *text;
    } clocks[] = {
        {G_GUINT64_CONSTANT(0x001b19fffe000001), 0, "ptp:00-1B-19-FF-FE-00-00-01:0"},
        {G_GUINT64_CONSTANT(0x001b19fffe000001), 127, "ptp:00-1B-19-FF-FE-00-00-01:127"},
        {G_GUINT64_CONSTANT(0x001b19fffe000002), 0, "ptp:00-1B-19-FF-FE-00-00-02:0"},
        {0, 255, "ptp:00-00-00-00-00-00-00-00:255"},
    };
    struct clock_name name[G_N_ELEMENTS(clocks)];

    for (guint i = 0; i < G_N_ELEMENTS(clocks); i++) {
        clock_name_set_ptp(&name[i], clocks[i].grandmaster, clocks[i].domain);
        expect(&name[i], clocks[i].text, FALSE);
        for (guint k = 0; k < i; k++)
            CHECK(name[i].id != name[k].id, "%s and %s are one", name[i].text, name[k].text);
    }
}

static void servers(void)
{
    static const struct {
        const gchar *address;
        gboolean local;
    } servers[] = {
        {"10.0.0.1", FALSE},
        {"192.0.2.7", FALSE},
        {"time.example.org", FALSE},
        {"2001:db8::1", FALSE},
        {"127.0.0.1", TRUE},
        {"127.1", TRUE},
        {"0.0.0.0", TRUE},
        {"169.254.3.4", TRUE},
        {"::1", TRUE},
        {"::", TRUE},
        {"fe80::1", TRUE},
        {"fe80::1%eth0", TRUE},
        {"localhost", TRUE},
        {"LocalHost.localdomain", TRUE},
        {"::ffff:127.0.0.1", TRUE},
        {"::ffff:10.0.0.1", FALSE},
    };
    struct clock_name name, other;

    for (guint i = 0; i < G_N_ELEMENTS(servers); i++) {
        g_autofree gchar *text = g_strdup_printf("net:%s:5637", servers[i].address);
        clock_name_set_server(&name, "net", servers[i].address, 5637);
        expect(&name, text, servers[i].local);
        clock_name_set_server(&other, "net", servers[i].address, 5638);
        CHECK(other.id != name.id, "another port is another clock");
        clock_name_set_server(&other, "ntp", servers[i].address, 5637);
        CHECK(other.id != name.id, "a clock of another kind is another clock");
    }
    clock_name_set_server(&name, "net", "", 1);
    expect(&name, "", FALSE);
    clock_name_set_server(&name, "net", NULL, 1);
    expect(&name, "", FALSE);
    g_autofree gchar *endless = g_strnfill(CLOCK_NAME_MAX, 'a');
    clock_name_set_server(&name, "net", endless, 1); /* cut, two might be the same */
    expect(&name, "", FALSE);
}

/* --- of clocks ------------------------------------------------------------------------------ */

static void expect_clock(GstClock *clock, const gchar *common, enum clock_kind kind,
                         const gchar *text)
{
    struct clock_name name;

    CHECK_EQUAL(clock_kind_of(clock), kind);
    clock_name_take(&name, clock, kind, common);
    expect(&name, text, strstr(text, "127.0.0.1") != NULL);
    CHECK(strcmp(clock_name_text(&name, kind), text[0]                        ? text
                                               : kind == CLOCK_KIND_MONOTONIC ? "monotonic"
                                                                              : "unknown") == 0,
          "it is said to be %s", clock_name_text(&name, kind));
}

static void system_clocks(void)
{
    g_autoptr(GstClock) monotonic = g_object_new(GST_TYPE_SYSTEM_CLOCK, NULL);
    g_autoptr(GstClock) realtime =
        g_object_new(GST_TYPE_SYSTEM_CLOCK, "clock-type", GST_CLOCK_TYPE_REALTIME, NULL);

    expect_clock(monotonic, NULL, CLOCK_KIND_MONOTONIC, "");
    expect_clock(realtime, NULL, CLOCK_KIND_OTHER, "");
    expect_clock(realtime, "", CLOCK_KIND_OTHER, "");
    expect_clock(realtime, "chrony", CLOCK_KIND_OTHER, "named:chrony");
    expect_clock(monotonic, "chrony", CLOCK_KIND_MONOTONIC, "named:chrony");
    gst_clock_set_calibration(monotonic, 0, GST_SECOND, 1, 1);
    expect_clock(monotonic, NULL, CLOCK_KIND_OTHER, "");
    CHECK_EQUAL(clock_kind_of(NULL), CLOCK_KIND_OTHER);
}

/* On the loopback, in this process. */
static void network_clocks(void)
{
    g_autoptr(GstClock) source = g_object_new(GST_TYPE_SYSTEM_CLOCK, NULL);
    g_autoptr(GstNetTimeProvider) provider = gst_net_time_provider_new(source, "127.0.0.1", 0);
    gint port;

    CHECK(provider, "no provider of time on 127.0.0.1");
    g_object_get(provider, "port", &port, NULL);
    GstClock *clock = gst_net_client_clock_new(NULL, "127.0.0.1", port, 0);
    g_autofree gchar *text = g_strdup_printf("net:127.0.0.1:%d", port);
    CHECK(gst_clock_wait_for_sync(clock, 30 * GST_SECOND), "not in step within 30 s");
    expect_clock(clock, NULL, CLOCK_KIND_NET, text);
    expect_clock(clock, "studio", CLOCK_KIND_NET, "named:studio");
    gst_clock_set_calibration(clock, 0, GST_SECOND, 1, 1);
    expect_clock(clock, NULL, CLOCK_KIND_NET, "");
    gst_object_unref(clock);

    /* One that is not synchronised, because no server answers on port 1. */
    clock = gst_net_client_clock_new(NULL, "127.0.0.1", 1, 0);
    expect_clock(clock, NULL, CLOCK_KIND_NET, "");
    gst_object_unref(clock);
    clock = gst_ntp_clock_new(NULL, "127.0.0.1", 1, 0);
    expect_clock(clock, NULL, CLOCK_KIND_NTP, "");
    GST_OBJECT_FLAG_UNSET(clock, GST_CLOCK_FLAG_NEEDS_STARTUP_SYNC);
    expect_clock(clock, NULL, CLOCK_KIND_NTP, "ntp:127.0.0.1:1");
    gst_object_unref(clock);
}

/* A PTP clock needs a network with a grandmaster; what is read of it is there, and of that type. */
static void ptp_clocks(void)
{
    GObjectClass *klass = g_type_class_ref(GST_TYPE_PTP_CLOCK);
    GParamSpec *grandmaster = g_object_class_find_property(klass, "grandmaster-clock-id");
    GParamSpec *domain = g_object_class_find_property(klass, "domain");

    CHECK(strcmp(g_type_name(GST_TYPE_PTP_CLOCK), "GstPtpClock") == 0, "its name");
    CHECK(grandmaster && grandmaster->value_type == G_TYPE_UINT64, "no grandmaster-clock-id");
    CHECK(domain && domain->value_type == G_TYPE_UINT, "no domain");
    CHECK(GST_PTP_CLOCK_ID_NONE == G_MAXUINT64, "GStreamer has another number for no grandmaster");
    g_type_class_unref(klass);
}

int main(int argc, char **argv)
{
    /* No plugin is needed, and what others' leak is not to be found here. */
    setenv("GST_REGISTRY", "/nonexistent", 1);
    setenv("GST_PLUGIN_PATH", "", 1);
    setenv("GST_PLUGIN_SYSTEM_PATH_1_0", "", 1);
    gst_init(&argc, &argv);
    SAY("names of grandmasters and servers");
    grandmasters();
    servers();
    SAY("the system's clocks");
    system_clocks();
    SAY("network clocks");
    network_clocks();
    SAY("PTP clocks");
    ptp_clocks();
    return 0;
}
