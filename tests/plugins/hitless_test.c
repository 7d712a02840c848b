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
    const gchar *more[2];
    gchar *programmes[2], *addresses[2];
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

/* Not of a source in a programme, where no element is `src`. */
static guint64 count_of(guint which, const gchar *field)
{
    return ends_stat_in(scene.src, which == MAIN ? "main" : "backup", field);
}

/* Until that sender's units come, all of which are right. */
static void await_active(const gchar *name)
{
    ENDS_UNTIL(60, units() && ends_stat_is(scene.src, "active", name));
}

static void await_units(guint64 more)
{
    guint64 wanted = units() + more;

    ENDS_UNTIL(60, units() >= wanted);
}

/* The senders, each at a stream of that name. */
static void prepare(const gchar *caps, const gchar *main, const gchar *backup, const gchar *name)
{
    memset(&scene, 0, sizeof(scene));
    g_mutex_init(&scene.lock);
    scene.caps = caps;
    scene.more[MAIN] = main;
    scene.more[BACKUP] = backup;
    for (guint i = 0; i < 2; i++) {
        scene.programmes[i] = ends_address();
        scene.addresses[i] = g_strconcat(scene.programmes[i], "/", name, NULL);
    }
}

static void play(EndsPipeline *pipeline)
{
    scene.pipeline = pipeline;
    ends_on_buffer(pipeline, "end", G_CALLBACK(take), NULL);
    ends_play(pipeline);
}

static void open_scene(const gchar *caps, const gchar *main, const gchar *backup)
{
    prepare(caps, main, backup, "stream");
    start(MAIN);
    play(ends_pipeline("gpudirectsrc name=src address=%s backup-address=%s on-eos=wait slots=64 ! "
                       "fakesink name=end sync=false async=false",
                       scene.addresses[MAIN], scene.addresses[BACKUP]));
    scene.src = ends_in(scene.pipeline, "src");
    await_units(1);
    start(BACKUP);
    ENDS_UNTIL(60, units() > 0 && count_of(BACKUP, "frames") > 2 && is_settled());
}

static void close_scene(void)
{
    units();
    ends_fail_on_errors(scene.pipeline);
    ends_stop(scene.pipeline);
    for (guint i = 0; i < 2; i++) {
        if (scene.pids[i])
            ends_kill(scene.pids[i]);
        g_free(scene.addresses[i]);
        g_free(scene.programmes[i]);
    }
    g_mutex_clear(&scene.lock);
}

/* The main dies and comes back, then stops for a while, then the backup dies. */
static void lose_each(guint64 more)
{
    ends_kill(scene.pids[MAIN]);
    await_active("backup");
    await_units(more);
    start(MAIN);
    await_active("main");
    await_units(more);
    kill(scene.pids[MAIN], SIGSTOP);
    await_active("backup");
    await_units(more);
    kill(scene.pids[MAIN], SIGCONT);
    await_active("main");
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

    prepare(SOUND, "480 0", "1024 100", "sound");
    for (guint i = 0; i < 2; i++) {
        pictures[i] =
            ends_spawn_instants(scene.programmes[i], video, "slots=32 slow-receiver=block", 0);
        start(i);
    }
    play(ends_pipeline("gpudirectprogramsrc name=p address=%s backup-address=%s "
                       "p. ! queue ! audio/x-raw ! fakesink name=end sync=false async=false "
                       "p. ! queue ! video/x-raw ! fakesink sync=false async=false",
                       scene.programmes[MAIN], scene.programmes[BACKUP]));
    ENDS_UNTIL(60, units() > 48000);
    ends_kill(scene.pids[MAIN]);
    await_units(48000);
    scene.pids[MAIN] = 0;
    close_scene();
    for (guint i = 0; i < 2; i++)
        ends_kill(pictures[i]);
}

ENDS_MAIN(90)
