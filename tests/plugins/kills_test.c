/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Senders of a programme are killed under a source that has a main and a backup: no instant is lost
 * or repeated. Beside it a source of the main alone shows what the backup costs. A table says how
 * often, and how long the longest gap was; a slow machine fails nothing.
 *     kills_test [kills of each kind [device]] */
#include "pipes.h"

#include "support/tally.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#define MAIN 0
#define BACKUP 1
/* Instants by which the added latency is judged. */
#define COMPARED 60

static guint rounds = 2;
static const gchar *device = "host";

static const struct format {
    const gchar *caps;
    guint num, den;
    gdouble rate;
} formats[] = {
    {"video/x-raw,format=UYVY,width=64,height=16,framerate=50/1", 50, 1, 50},
    {"video/x-raw,format=UYVY,width=64,height=16,framerate=30000/1001,"
     "interlace-mode=interleaved,field-order=top-field-first",
     30000, 1001, 59.94},
};

/* A source, and what it hands on. Under the lock of the scene. */
struct receiver {
    GstElement *pipeline, *src;
    struct tally tally;
    guint behind[8]; /* of the pair: how often the source alone was so many instants ahead */
};

static struct {
    const struct format *format;
    gchar *addresses[2];
    GPid pids[2];
    GMutex lock;
    struct receiver pair, alone;
} scene;

static void take(GstElement *sink, GstBuffer *buffer, GstPad *pad, gpointer user)
{
    struct receiver *receiver = user;
    guint64 instant = GST_BUFFER_OFFSET(buffer);
    gint64 now = g_get_monotonic_time() * 1000;
    gint64 due =
        (gint64)gst_util_uint64_scale(instant, GST_SECOND * scene.format->den, scene.format->num);
    guint8 contents = 0;

    gst_buffer_extract(buffer, 0, &contents, 1);
    g_mutex_lock(&scene.lock);
    if (receiver == &scene.pair) {
        guint64 last = scene.alone.tally.last, ahead = last > instant ? last - instant : 0;
        receiver->behind[MIN(ahead, G_N_ELEMENTS(receiver->behind) - 1)]++;
        fail_unless(contents == (guint8)instant,
                    "instant %" G_GUINT64_FORMAT " has the contents %u", instant, contents);
        fail_unless(instant != receiver->tally.last + 1 ||
                        !GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DISCONT),
                    "a discontinuity at instant %" G_GUINT64_FORMAT ", and none is missing",
                    instant);
    }
    tally_take(&receiver->tally, instant, due, now);
    g_mutex_unlock(&scene.lock);
}

static struct receiver look(const struct receiver *receiver)
{
    g_autoptr(GMutexLocker) locked = g_mutex_locker_new(&scene.lock);

    return *receiver;
}

/* properties: "" or those of a backup */
static void open_receiver(struct receiver *receiver, const gchar *properties)
{
    receiver->pipeline =
        ends_pipeline("gpudirectsrc name=src address=%s %s device=%s slots=32 "
                      "on-eos=wait ! fakesink name=end sync=false async=false signal-handoffs=true",
                      scene.addresses[MAIN], properties, device);
    receiver->src = pipe_part(receiver->pipeline, "src");
    g_signal_connect(pipe_part(receiver->pipeline, "end"), "handoff", G_CALLBACK(take), receiver);
    gst_element_set_state(receiver->pipeline, GST_STATE_PLAYING);
}

static void close_receiver(struct receiver *receiver)
{
    ends_fail_on_errors(receiver->pipeline);
    ends_stop(receiver->pipeline);
}

/* Of the main or the backup. */
static guint64 count_of(guint which, const gchar *field)
{
    g_autoptr(GstStructure) stats = NULL, one = NULL;
    guint64 count = 0;

    g_object_get(scene.pair.src, "stats", &stats, NULL);
    fail_unless(gst_structure_get(stats, which == MAIN ? "main" : "backup", GST_TYPE_STRUCTURE,
                                  &one, NULL) &&
                gst_structure_get_uint64(one, field, &count));
    return count;
}

static gboolean is_main_active(void)
{
    g_autofree gchar *active = stats_text(scene.pair.src, "active");

    return g_strcmp0(active, "main") == 0;
}

/* For a failure. */
static gchar *describe(void)
{
    g_autoptr(GstStructure) stats = NULL;

    g_object_get(scene.pair.src, "stats", &stats, NULL);
    return gst_structure_to_string(stats);
}

static void await_instants(guint more)
{
    guint64 wanted = look(&scene.pair).tally.last + more;

    ENDS_UNTIL(60, look(&scene.pair).tally.last >= wanted, "the instants do not go on: %s",
               describe());
}

/* Starts it: from here on it has every instant that comes. */
static void start_and_await(guint which)
{
    g_autofree gchar *properties =
        g_strdup_printf("slots=32 slow-receiver=block device=%s", device);
    guint64 last = look(&scene.pair).tally.last, connects = count_of(which, "connects");

    scene.pids[which] = ends_spawn_instants(scene.addresses[which], scene.format->caps, properties,
                                            last ? last + 1 : 0);
    ENDS_UNTIL(60, count_of(which, "connects") > connects, "a sender does not come: %s",
               describe());
    guint64 frames = count_of(which, "frames");
    ENDS_UNTIL(60, count_of(which, "frames") > frames, "a sender does not send: %s", describe());
}

static void kill_one(guint which)
{
    ends_kill(scene.pids[which]);
    start_and_await(which);
    guint more = tally_random_below(5);
    await_instants(more);
    if (more == 4)
        ENDS_UNTIL(60, is_main_active(), "the main one is not taken again: %s", describe());
}

static void report(const gchar *what, guint times)
{
    guint64 switches = ends_stat_of(scene.pair.src, "switches");

    g_mutex_lock(&scene.lock);
    tally_print(&scene.pair.tally, scene.format->rate, what, times, switches);
    g_mutex_unlock(&scene.lock);
    struct receiver now = look(&scene.pair);
    fail_unless_equals_uint64(now.tally.lost, 0);
    fail_unless_equals_uint64(now.tally.repeated, 0);
}

/* With both senders there, what the source alone has is handed on at most one frame later: by how
 * many instants the other source is ahead, in most cases. */
static void compare(void)
{
    guint64 all = 0, ahead = 0;

    await_instants(5);
    g_mutex_lock(&scene.lock);
    memset(scene.pair.behind, 0, sizeof(scene.pair.behind));
    g_mutex_unlock(&scene.lock);
    await_instants(COMPARED);
    struct receiver now = look(&scene.pair);
    for (guint i = 0; i < G_N_ELEMENTS(now.behind); i++) {
        all += now.behind[i];
        ahead += i > 1 ? now.behind[i] : 0;
    }
    g_print("%6.2f  a source of the main alone is 0 instants ahead %u times, 1: %u, more: %u\n",
            scene.format->rate, now.behind[0], now.behind[1], (guint)ahead);
    fail_unless(2 * ahead < all);
    fail_unless(look(&scene.alone).tally.last > 0);
}

static const struct {
    const gchar *what;
    gint which;       /* -1: both in turn */
    gboolean stopped; /* first, as a process that a debugger or the system holds */
} cases[] = {
    {"kill -9 of the main", MAIN, FALSE},
    {"kill -9 of the backup", BACKUP, FALSE},
    {"kill -9 of both in turn", -1, FALSE},
    {"SIGSTOP, then kill -9", -1, TRUE},
};

TEST(test_kills, .times = G_N_ELEMENTS(formats))
{
    memset(&scene, 0, sizeof(scene));
    scene.format = &formats[__i__];
    for (guint i = 0; i < 2; i++)
        scene.addresses[i] = ends_address();
    g_autofree gchar *backup = g_strdup_printf("backup-address=%s", scene.addresses[BACKUP]);
    open_receiver(&scene.pair, backup);
    start_and_await(MAIN);
    start_and_await(BACKUP);
    open_receiver(&scene.alone, "");
    ENDS_UNTIL(60, look(&scene.alone).tally.last > 0);
    compare();
    close_receiver(&scene.alone);
    tally_print_header();
    for (guint c = 0; c < G_N_ELEMENTS(cases); c++) {
        guint times = cases[c].stopped ? 1 + rounds / 10 : rounds;
        for (guint i = 0; i < times; i++) {
            guint which = cases[c].which < 0 ? i % 2 : (guint)cases[c].which;
            if (cases[c].stopped) {
                kill(scene.pids[which], SIGSTOP);
                await_instants(5);
            }
            kill_one(which);
        }
        report(cases[c].what, times);
    }
    close_receiver(&scene.pair);
    for (guint i = 0; i < 2; i++) {
        ends_kill(scene.pids[i]);
        g_free(scene.addresses[i]);
    }
}

int main(int argc, char **argv)
{
    ends_init_environment();
    gst_check_init(&argc, &argv);
    rounds = argc > 1 ? (guint)atoi(argv[1]) : rounds;
    device = argc > 2 ? argv[2] : device;
    return ends_run_tests(rounds < 20 ? 120 : 7200);
}
