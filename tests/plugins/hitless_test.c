/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sound and data of a main and a backup sender: each sample and each packet once, in order, however
 * long the two senders' blocks are, where they begin, and whatever ends one of the two. Each sample
 * is its own number. */
#include "ends.h"

#include <signal.h>
#include <string.h>

#define SOUND "audio/x-raw,format=S32LE,rate=48000,channels=1,layout=interleaved"
#define ANCILLARY "meta/x-st-2038,alignment=packet"
#define KLV "meta/x-klv,parsed=true"
#define MAIN 0
#define BACKUP 1

static struct {
    const gchar *caps;
    gchar *addresses[2], *more[2];
    GPid pids[2];
    EndsPipeline *pipeline;
    GstElement *src;
    /* Under the lock, as the streaming thread has them. */
    GMutex lock;
    gboolean begun;
    gboolean settled; /* what was sent before the receiver played is late, and catches up */
    guint64 next;     /* the next sample's or packet's number */
    guint64 units;
    GstClockTime ends_at; /* of sound: the last buffer */
    gchar wrong[160];
} scene;

static void note_wrong(const gchar *what, guint64 number)
{
    if (!scene.wrong[0])
        g_snprintf(scene.wrong, sizeof(scene.wrong),
                   "%s: number %" G_GUINT64_FORMAT " instead of %" G_GUINT64_FORMAT
                   " after %" G_GUINT64_FORMAT,
                   what, number, scene.next, scene.units);
}

static void take(GstElement *sink, GstBuffer *buffer, GstPad *pad, gpointer user)
{
    gboolean sound = g_str_equal(scene.caps, SOUND);
    GstMapInfo map;

    gst_buffer_map(buffer, &map, GST_MAP_READ);
    guint count = (guint)(map.size / sizeof(guint32));
    g_mutex_lock(&scene.lock);
    guint64 first = GST_BUFFER_OFFSET(buffer);
    if (scene.begun && first != scene.next)
        note_wrong("a step", first);
    if (scene.begun && GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DISCONT))
        note_wrong("a discontinuity, and nothing is missing", first);
    for (guint i = 0; i < count; i++)
        if (GUINT32_FROM_LE(((guint32 *)map.data)[i]) != (guint32)(first + i)) {
            note_wrong("other contents", first + i);
            break;
        }
    GstClockTime pts = GST_BUFFER_PTS(buffer), length = GST_BUFFER_DURATION(buffer);
    gint64 step = (gint64)(pts - scene.ends_at);
    if (scene.settled && ABS(step) > 2000) {
        g_autofree gchar *text = g_strdup_printf("a step of %" G_GINT64_FORMAT " ns", step);
        note_wrong(text, first);
    }
    if (sound && !scene.settled)
        scene.settled = ABS((gint64)(pts + gst_element_get_base_time(sink) -
                                     gst_util_uint64_scale(first, GST_SECOND, 48000))) <= 2000;
    if (sound && ABS((gint64)(length - gst_util_uint64_scale(count, GST_SECOND, 48000))) > 2)
        note_wrong("another duration", first);
    scene.ends_at = pts + length;
    scene.begun = TRUE;
    scene.next = first + count;
    scene.units += count;
    g_mutex_unlock(&scene.lock);
    gst_buffer_unmap(buffer, &map);
}

static gboolean is_settled(void)
{
    g_mutex_lock(&scene.lock);
    gboolean settled = scene.settled || !g_str_equal(scene.caps, SOUND);
    g_mutex_unlock(&scene.lock);
    return settled;
}

static guint64 units(void)
{
    g_mutex_lock(&scene.lock);
    fail_unless(!scene.wrong[0], "%s (main %s, backup %s)", scene.wrong, scene.more[MAIN],
                scene.more[BACKUP]);
    guint64 count = scene.units;
    g_mutex_unlock(&scene.lock);
    return count;
}

static void start(guint which)
{
    g_mutex_lock(&scene.lock);
    guint64 first = scene.begun ? scene.next : 0;
    g_mutex_unlock(&scene.lock);
    scene.pids[which] = ends_spawn_units(scene.addresses[which], scene.caps,
                                         "slots=64 slow-receiver=block", first, scene.more[which]);
}

/* Not the stats of a source in a programme, which has none itself. */
static guint64 count_of(guint which, const gchar *field)
{
    g_autoptr(GstStructure) stats = NULL, one = NULL;
    guint64 count = 0;

    g_object_get(scene.src, "stats", &stats, NULL);
    fail_unless(gst_structure_get(stats, which == MAIN ? "main" : "backup", GST_TYPE_STRUCTURE,
                                  &one, NULL) &&
                gst_structure_get_uint64(one, field, &count));
    return count;
}

static gboolean is_active(const gchar *name)
{
    g_autoptr(GstStructure) stats = NULL;

    g_object_get(scene.src, "stats", &stats, NULL);
    return g_strcmp0(gst_structure_get_string(stats, "active"), name) == 0;
}

static void await_units(guint64 more)
{
    guint64 wanted = units() + more;

    ENDS_UNTIL(60, units() >= wanted);
}

#define RECEIVER "slots=64 ! fakesink name=end sync=false async=false signal-handoffs=true"

static void open_scene(const gchar *caps, const gchar *main, const gchar *backup)
{
    memset(&scene, 0, sizeof(scene));
    g_mutex_init(&scene.lock);
    scene.caps = caps;
    scene.more[MAIN] = g_strdup(main);
    scene.more[BACKUP] = g_strdup(backup);
    for (guint i = 0; i < 2; i++) {
        g_autofree gchar *name = ends_address();
        scene.addresses[i] = g_strconcat(name, "/stream", NULL);
    }
    start(MAIN);
    scene.pipeline =
        ends_pipeline("gpudirectsrc name=src address=%s backup-address=%s on-eos=wait " RECEIVER,
                      scene.addresses[MAIN], scene.addresses[BACKUP]);
    scene.src = gst_bin_get_by_name(GST_BIN(scene.pipeline), "src");
    g_autoptr(GstElement) end = gst_bin_get_by_name(GST_BIN(scene.pipeline), "end");
    g_signal_connect(end, "handoff", G_CALLBACK(take), NULL);
    gst_element_set_state(scene.pipeline, GST_STATE_PLAYING);
    await_units(1);
    start(BACKUP);
    ENDS_UNTIL(60, units() > 0 && count_of(BACKUP, "frames") > 2 && is_settled());
}

static void close_scene(void)
{
    units();
    ends_fail_on_errors(scene.pipeline);
    gst_object_unref(scene.src);
    ends_stop(scene.pipeline);
    for (guint i = 0; i < 2; i++) {
        if (scene.pids[i])
            ends_kill(scene.pids[i]);
        g_free(scene.addresses[i]);
        g_free(scene.more[i]);
    }
    g_mutex_clear(&scene.lock);
}

/* The main dies and comes back, then stops for a while, then the backup dies. */
static void lose_each(guint64 more)
{
    ends_kill(scene.pids[MAIN]);
    ENDS_UNTIL(60, units() && is_active("backup"));
    await_units(more);
    start(MAIN);
    ENDS_UNTIL(60, units() && is_active("main"));
    await_units(more);
    kill(scene.pids[MAIN], SIGSTOP);
    ENDS_UNTIL(60, units() && is_active("backup"));
    await_units(more);
    kill(scene.pids[MAIN], SIGCONT);
    ENDS_UNTIL(60, units() && is_active("main"));
    await_units(more);
    ends_kill(scene.pids[BACKUP]);
    await_units(more);
    start(BACKUP);
    await_units(more);
}

/* Blocks of a tenth of a second, of 10 and 20 ms, and what audiotestsrc makes: samples of a block,
 * and of its first one. */
static const gchar *const blocks[][2] = {
    {"4800 0", "2400 0"},   {"2400 0", "4800 1100"}, {"480 0", "480 0"},   {"480 0", "480 240"},
    {"1024 0", "1024 511"}, {"960 7", "1024 0"},     {"4800 13", "480 0"}, {"480 0", "4800 13"},
};

TEST(test_sound, .times = G_N_ELEMENTS(blocks))
{
    open_scene(SOUND, blocks[__i__][0], blocks[__i__][1]);
    await_units(24000);
    lose_each(7200);
    close_scene();
}

/* Four packets of each time; and one at a time, irregularly. */
TEST(test_packets, .times = 2)
{
    static const gchar *const packets[] = {"4", "1"};

    open_scene(__i__ ? KLV : ANCILLARY, packets[__i__], packets[__i__]);
    await_units(60);
    lose_each(20);
    close_scene();
}

/* The sound of a programme. */
TEST(test_programme)
{
    static const gchar video[] = "video/x-raw,format=UYVY,width=64,height=16,framerate=25/1";
    GPid pictures[2];

    memset(&scene, 0, sizeof(scene));
    g_mutex_init(&scene.lock);
    scene.caps = SOUND;
    g_autofree gchar *name = ends_address(), *spare = ends_address();
    const gchar *names[] = {name, spare};
    for (guint i = 0; i < 2; i++) {
        scene.more[i] = g_strdup(i ? "1024 100" : "480 0");
        scene.addresses[i] = g_strconcat(names[i], "/sound", NULL);
        pictures[i] = ends_spawn_instants(names[i], video, "slots=32 slow-receiver=block", 0);
        start(i);
    }
    scene.pipeline = ends_pipeline("gpudirectprogramsrc name=p address=%s backup-address=%s "
                                   "p. ! queue ! audio/x-raw ! fakesink name=end sync=false "
                                   "async=false signal-handoffs=true "
                                   "p. ! queue ! video/x-raw ! fakesink sync=false async=false",
                                   name, spare);
    g_autoptr(GstElement) end = gst_bin_get_by_name(GST_BIN(scene.pipeline), "end");
    g_signal_connect(end, "handoff", G_CALLBACK(take), NULL);
    gst_element_set_state(scene.pipeline, GST_STATE_PLAYING);
    ENDS_UNTIL(60, units() > 48000);
    ends_kill(scene.pids[MAIN]);
    await_units(48000);
    units();
    ends_fail_on_errors(scene.pipeline);
    ends_stop(scene.pipeline);
    ends_kill(scene.pids[BACKUP]);
    for (guint i = 0; i < 2; i++) {
        ends_kill(pictures[i]);
        g_free(scene.addresses[i]);
        g_free(scene.more[i]);
    }
    g_mutex_clear(&scene.lock);
}

ENDS_MAIN(90)
