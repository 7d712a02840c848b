/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The elements on two hosts, which tests/support/copies.h simulates with two processes: pictures
 * keep their times if both pipelines follow one clock, and only then is a latency reported, also to
 * the sender; otherwise running times continue, and the stats show that the rest is unknown. The
 * stats of both also say how the connection is encrypted. */
#include "base/plugin.h"
#include "sink/sink.h"
#include "src/src.h"
#include "support/check.h"
#include "support/copies.h"
#include "support/peer.h"

#include <gst/net/net.h>
#include <sys/wait.h>

#define CAPS "video/x-raw,format=GRAY8,width=16,height=16,framerate=50/1"
#define FRAMES 60 /* at least; and in their place, of those that have one, in a row: */
#define IN_PLACE 20
#define SENDER_HOST "192.0.2.1"
#define RECEIVER_HOST "192.0.2.2"
#define ENCRYPTION "TLS 1.3 AES-128-GCM"
#define PTP_0 "ptp:00-1B-19-FF-FE-00-00-01:0"
#define PTP_1 "ptp:00-1B-19-FF-FE-00-00-01:1"
#define STUDIO                       \
    {                                \
        REALTIME, .common = "studio" \
    }
#define TRUCK                       \
    {                               \
        REALTIME, .common = "truck" \
    }
#define GRANDMASTER G_GUINT64_CONSTANT(0x001b19fffe000001)

/* --- a PTP clock ---------------------------------------------------------------------------- */

/* By GStreamer's name for it, and of the same properties: its time is the machine's, an hour on. */
typedef struct {
    GstSystemClock parent;
    guint64 grandmaster;
    guint domain;
} FakePtpClock;

enum { PROP_GRANDMASTER = 1, PROP_DOMAIN };

static void fake_get(GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
    FakePtpClock *self = (FakePtpClock *)object;

    if (id == PROP_GRANDMASTER)
        g_value_set_uint64(value, self->grandmaster);
    else
        g_value_set_uint(value, self->domain);
}

static GstClockTime fake_time(GstClock *clock)
{
    return monotonic_now() + 3600 * GST_SECOND;
}

static void fake_class_init(gpointer klass, gpointer user)
{
    GObjectClass *object_class = G_OBJECT_CLASS(klass);

    object_class->get_property = fake_get;
    g_object_class_install_property(
        object_class, PROP_GRANDMASTER,
        g_param_spec_uint64("grandmaster-clock-id", "", "", 0, G_MAXUINT64, 0, G_PARAM_READABLE));
    g_object_class_install_property(
        object_class, PROP_DOMAIN,
        g_param_spec_uint("domain", "", "", 0, G_MAXUINT8, 0, G_PARAM_READABLE));
    GST_CLOCK_CLASS(klass)->get_internal_time = fake_time;
}

static void register_ptp_clock(void)
{
    g_type_register_static_simple(GST_TYPE_SYSTEM_CLOCK, "GstPtpClock", sizeof(GstSystemClockClass),
                                  fake_class_init, sizeof(FakePtpClock), NULL, 0);
}

/* --- scenes --------------------------------------------------------------------------------- */

enum which_clock { SYSTEM, REALTIME, PTP, NET };

struct end {
    enum which_clock clock;
    guint domain;
    const gchar *common; /* the property */
    gboolean late;       /* its grandmaster is found when half of the frames have come */
};

static const struct scene {
    const gchar *what;
    gboolean two_hosts;
    struct end sender, receiver;
    const gchar *relation, *sender_clock;
    gboolean exact; /* pictures keep their place in time */
} scenes[] = {
    {"one host, the system's clock", FALSE, {SYSTEM}, {SYSTEM}, "same host", "monotonic", TRUE},
    {"one host, one network clock", FALSE, {NET}, {NET}, "same host", "net:127.0.0.1:PORT", TRUE},
    {"one host, two clocks", FALSE, {REALTIME}, {PTP}, "same host", "unknown", FALSE},
    {"one grandmaster", TRUE, {PTP}, {PTP}, "common: " PTP_0, PTP_0, TRUE},
    {"a grandmaster found late", TRUE, {PTP, .late = TRUE}, {PTP}, "common: " PTP_0, PTP_0, TRUE},
    {"two domains", TRUE, {PTP, .domain = 1}, {PTP}, "unknown", PTP_1, FALSE},
    {"each its own", TRUE, {SYSTEM}, {SYSTEM}, "unknown", "monotonic", FALSE},
    {"each its own loopback", TRUE, {NET}, {NET}, "unknown", "net:127.0.0.1:PORT", FALSE},
    {"one clock, it is said", TRUE, STUDIO, STUDIO, "common: named:studio", "named:studio", TRUE},
    {"two clocks, it is said", TRUE, STUDIO, TRUCK, "unknown", "named:studio", FALSE},
};

struct board {
    guint scene;
    gint port;
    atomic_bool leave, half;
    gchar clock[CLOCK_NAME_MAX], receiver_host[64];
    gchar encrypted[64], client_host[64]; /* of the sender's only client */
    guint64 latency;                      /* 0: the sender has none in its stats */
};

static GstClock *make_clock(const struct end *end, gint port)
{
    GstClock *clock;

    switch (end->clock) {
    case PTP:
        clock = g_object_new(g_type_from_name("GstPtpClock"), NULL);
        ((FakePtpClock *)clock)->grandmaster = end->late ? GST_PTP_CLOCK_ID_NONE : GRANDMASTER;
        ((FakePtpClock *)clock)->domain = end->domain;
        return clock;
    case NET:
        clock = gst_net_client_clock_new(NULL, "127.0.0.1", port, 0);
        CHECK(gst_clock_wait_for_sync(clock, 30 * GST_SECOND), "not in step within 30 s");
        return clock;
    default:
        return g_object_new(
            GST_TYPE_SYSTEM_CLOCK, "clock-type",
            end->clock == REALTIME ? GST_CLOCK_TYPE_REALTIME : GST_CLOCK_TYPE_MONOTONIC, NULL);
    }
}

static GstElement *make_pipeline(const gchar *text, const struct end *end, gint port,
                                 const gchar *name, GstElement **element)
{
    GError *error = NULL;
    GstElement *pipeline = gst_parse_launch(text, &error);
    GstClock *clock = make_clock(end, port);

    CHECK(pipeline && !error, "%s", error ? error->message : "no pipeline");
    gst_pipeline_use_clock(GST_PIPELINE(pipeline), clock);
    gst_object_unref(clock);
    *element = gst_bin_get_by_name(GST_BIN(pipeline), name);
    g_object_set(*element, "common-clock", end->common, NULL);
    return pipeline;
}

static void probe_pad(GstElement *element, const gchar *name, GstPadProbeCallback call,
                      gpointer user)
{
    g_autoptr(GstPad) pad = gst_element_get_static_pad(element, name);

    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, call, user, NULL);
}

static gchar *stat_text(GstElement *element, const gchar *field)
{
    g_autoptr(GstStructure) stats = NULL;

    g_object_get(element, "stats", &stats, NULL);
    CHECK(gst_structure_has_field_typed(stats, field, G_TYPE_STRING), "no %s in the stats", field);
    return g_strdup(gst_structure_get_string(stats, field));
}

/* --- the sender ----------------------------------------------------------------------------- */

/* What the clock shows when the picture is due, for the receiver to compare. */
static GstPadProbeReturn add_time(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    GstElement *sink = user;
    GstBuffer *buffer = gst_buffer_make_writable(GST_PAD_PROBE_INFO_BUFFER(info));
    g_autoptr(GstCaps) caps = gst_caps_new_empty_simple("timestamp/x-test");

    gst_buffer_add_reference_timestamp_meta(
        buffer, caps, gst_element_get_base_time(sink) + GST_BUFFER_PTS(buffer),
        GST_CLOCK_TIME_NONE);
    GST_PAD_PROBE_INFO_DATA(info) = buffer;
    return GST_PAD_PROBE_OK;
}

static void note_client(GstElement *sink, guint64 id, GstStructure *peer, struct board *board)
{
    g_strlcpy(board->receiver_host, gst_structure_get_string(peer, "host"),
              sizeof(board->receiver_host));
}

static guint64 get_latency(GstElement *sink)
{
    g_autoptr(GstStructure) stats = NULL;
    guint64 latency = 0;

    g_object_get(sink, "stats", &stats, NULL);
    CHECK(gst_structure_get_uint64(stats, "latency", &latency) == (latency > 0), "a latency of 0");
    return latency;
}

static void note_encryption(GstElement *sink, struct board *board)
{
    g_autoptr(GstStructure) stats = NULL;

    g_object_get(sink, "stats", &stats, NULL);
    const GValue *clients = gst_structure_get_value(stats, "clients");
    CHECK(clients && GST_VALUE_HOLDS_LIST(clients), "no list of clients");
    CHECK_EQUAL(gst_value_list_get_size(clients), 1);
    const GstStructure *client = gst_value_get_structure(gst_value_list_get_value(clients, 0));
    g_strlcpy(board->encrypted, gst_structure_get_string(client, "encrypted"),
              sizeof(board->encrypted));
    g_strlcpy(board->client_host, gst_structure_get_string(client, "host"),
              sizeof(board->client_host));
}

static void play_sender(struct board *board)
{
    const struct scene *scene = &scenes[board->scene];
    GstElement *sink;

    if (scene->two_hosts) {
        copies_install_hosts(SENDER_HOST, RECEIVER_HOST);
        copies_set_encryption(ENCRYPTION);
    }
    GstElement *pipeline = make_pipeline("videotestsrc is-live=true ! " CAPS
                                         " ! gpudirectsink name=sink async=false address=hosts",
                                         &scene->sender, board->port, "sink", &sink);
    probe_pad(sink, "sink", add_time, sink);
    g_signal_connect(sink, "client-connected", G_CALLBACK(note_client), board);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    while (!atomic_load(&board->leave)) {
        GstClock *clock = gst_pipeline_get_clock(GST_PIPELINE(pipeline));
        if (scene->sender.late && atomic_load(&board->half))
            ((FakePtpClock *)clock)->grandmaster = GRANDMASTER;
        gst_object_unref(clock);
        g_usleep(10000);
    }
    if (strcmp(scene->relation, "unknown") != 0) /* of the last frame, not of each */
        PEER_UNTIL("a latency", 30000, get_latency(sink) > 0);
    board->latency = get_latency(sink);
    note_encryption(sink, board);
    gchar *clock = stat_text(sink, "clock");
    g_strlcpy(board->clock, clock, sizeof(board->clock));
    gst_element_set_state(pipeline, GST_STATE_NULL);
    exit(0);
}

/* --- the receiver --------------------------------------------------------------------------- */

struct seen {
    GstElement *src;
    guint frames, in_place; /* atomic */
    guint back, submit_times;
    GstClockTime last;
    gint64 off;  /* the last one, from the place in time that the sender's clock gives it */
    gint64 late; /* behind the clock: the most that one was, either way */
};

static GstClockTime time_meta(GstBuffer *buffer, const gchar *name)
{
    g_autoptr(GstCaps) caps = gst_caps_new_empty_simple(name);
    GstReferenceTimestampMeta *meta = gst_buffer_get_reference_timestamp_meta(buffer, caps);

    return meta ? meta->timestamp : GST_CLOCK_TIME_NONE;
}

static GstPadProbeReturn see_frame(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    struct seen *seen = user;
    GstBuffer *buffer = GST_PAD_PROBE_INFO_BUFFER(info);
    guint at = g_atomic_int_get(&seen->frames);
    GstClockTime pts = GST_BUFFER_PTS(buffer), there = time_meta(buffer, "timestamp/x-test");

    seen->back += at > 0 && pts < seen->last;
    seen->last = pts;
    seen->submit_times +=
        GST_CLOCK_TIME_IS_VALID(time_meta(buffer, "timestamp/x-gpudirect-submit"));
    seen->off = (gint64)(pts + gst_element_get_base_time(seen->src) - there);
    gint64 late = GST_CLOCK_DIFF(pts, gst_element_get_current_running_time(seen->src));
    seen->late = MAX(seen->late, ABS(late));
    g_atomic_int_set(&seen->in_place, seen->off == 0 ? seen->in_place + 1 : 0);
    g_atomic_int_set(&seen->frames, at + 1);
    return GST_PAD_PROBE_OK;
}

static void check_stats(const struct scene *scene, const struct seen *seen, gint port)
{
    g_autofree gchar *relation = stat_text(seen->src, "clock"),
                     *host = stat_text(seen->src, "sender-host"),
                     *encrypted = stat_text(seen->src, "encrypted");
    g_autoptr(GstStructure) stats = NULL;
    guint64 p50 = 0, max = 0;

    g_object_get(seen->src, "stats", &stats, NULL);
    CHECK(strcmp(relation, scene->relation) == 0, "the clock is \"%s\"", relation);
    CHECK(strcmp(host, scene->two_hosts ? SENDER_HOST : "") == 0, "the sender is on \"%s\"", host);
    CHECK(strcmp(encrypted, scene->two_hosts ? ENCRYPTION : "") == 0, "encrypted: \"%s\"",
          encrypted);
    gboolean known = gst_structure_get_uint64(stats, "latency-p50", &p50);
    CHECK_EQUAL(known, strcmp(scene->relation, "unknown") != 0);
    CHECK_EQUAL(gst_structure_has_field(stats, "latency-p99"), known);
    CHECK_EQUAL(gst_structure_get_uint64(stats, "latency-max", &max), known);
    if (known)
        CHECK(p50 > 0 && p50 <= max && max < 60 * GST_SECOND,
              "a latency of %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT " ns", p50, max);
    guint frames = g_atomic_int_get(&seen->frames); /* of which one is seen just now */
    CHECK(scene->two_hosts ? seen->submit_times == 0 : seen->submit_times + 1 >= frames,
          "%u of %u frames have a time of submit", seen->submit_times, frames);
}

static void check_sender(const struct scene *scene, const struct board *board)
{
    g_autofree gchar *port = g_strdup_printf("%d", board->port);
    GString *clock = g_string_new(scene->sender_clock);

    g_string_replace(clock, "PORT", port, 0);
    CHECK(strcmp(board->clock, clock->str) == 0, "the sender's clock is \"%s\"", board->clock);
    CHECK(strcmp(board->receiver_host, scene->two_hosts ? RECEIVER_HOST : "") == 0,
          "the receiver is on \"%s\"", board->receiver_host);
    CHECK(strcmp(board->client_host, board->receiver_host) == 0 &&
              strcmp(board->encrypted, scene->two_hosts ? ENCRYPTION : "") == 0,
          "the client on \"%s\" is encrypted: \"%s\"", board->client_host, board->encrypted);
    CHECK(strcmp(scene->relation, "unknown") == 0 ? board->latency == 0
                                                  : board->latency < 60 * GST_SECOND,
          "the sender has a latency of %" G_GUINT64_FORMAT " ns", board->latency);
    g_string_free(clock, TRUE);
}

static void play_scene(guint number, gint port)
{
    static gboolean other_host;
    const struct scene *scene = &scenes[number];
    struct seen seen = {.frames = 0};
    int fd, state;
    struct board *board = peer_board_make(sizeof(*board), &fd);

    SAY("%s", scene->what);
    if (scene->two_hosts && !other_host) { /* from here on for good */
        copies_install_hosts(RECEIVER_HOST, SENDER_HOST);
        copies_set_encryption(ENCRYPTION);
        other_host = TRUE;
    }
    board->scene = number;
    board->port = port;
    g_autoptr(GstElement) pipeline =
        make_pipeline("gpudirectsrc name=src address=hosts add-reference-timestamp-meta=true ! "
                      "fakesink sync=false",
                      &scene->receiver, port, "src", &seen.src);
    g_autofree gchar *before = stat_text(seen.src, "clock");
    CHECK(strcmp(before, "none") == 0, "without a sender the clock is \"%s\"", before);
    probe_pad(seen.src, "src", see_frame, &seen);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    pid_t pid = peer_spawn("--sender", fd);
    PEER_UNTIL("half of the frames", 30000, g_atomic_int_get(&seen.frames) >= FRAMES / 2);
    atomic_store(&board->half, true);
    PEER_UNTIL("frames", 30000, g_atomic_int_get(&seen.frames) >= FRAMES);
    if (scene->exact)
        PEER_UNTIL("frames in their place", 30000, g_atomic_int_get(&seen.in_place) >= IN_PLACE);
    check_stats(scene, &seen, port);
    atomic_store(&board->leave, true);
    CHECK(waitpid(pid, &state, 0) == pid && WIFEXITED(state) && WEXITSTATUS(state) == 0,
          "the sender failed");
    check_sender(scene, board);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    CHECK_EQUAL(seen.back, 0);
    CHECK(seen.late < 20 * (gint64)GST_SECOND, "a frame is %" G_GINT64_FORMAT " ns off the clock",
          seen.late); /* be it a busy machine's */
    gst_object_unref(seen.src);
}

int main(int argc, char **argv)
{
    struct board *board = peer_board_open("--sender", argc, argv, sizeof(*board));
    gint port;

    alarm(150);
    if (!board)
        runtime_make();
    gst_init(NULL, NULL);
    register_ptp_clock();
    gpud_gst_context_init();
    CHECK(GST_ELEMENT_REGISTER(gpudirectsink, NULL) && GST_ELEMENT_REGISTER(gpudirectsrc, NULL),
          "no elements");
    if (board)
        play_sender(board);
    g_autoptr(GstClock) clock = g_object_new(GST_TYPE_SYSTEM_CLOCK, NULL);
    GstNetTimeProvider *provider = gst_net_time_provider_new(clock, "127.0.0.1", 0);
    CHECK(provider, "no provider of time on 127.0.0.1");
    g_object_get(provider, "port", &port, NULL);
    for (guint i = 0; i < G_N_ELEMENTS(scenes); i++)
        play_scene(i, port);
    gst_object_unref(provider);
    runtime_done();
    return 0;
}
