/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A source with a main and a backup sender: each instant once, whatever ends one of them. */
#include "ends.h"
#include "src/src.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define INTERVAL (40 * GST_MSECOND)

static struct {
    gchar *addresses[2];
    GPid pids[2];
    GstHarness *src;
    GstElement *end; /* the source itself */
    GstBus *bus;
    guint64 last; /* the last picture's number */
    guint pictures;
    gint64 step; /* between the pictures' numbers and their times */
} scene;

static void start(guint which)
{
    scene.pids[which] =
        ends_spawn_instants(scene.addresses[which], CAPS_SMALL, "slots=32 slow-receiver=block",
                            scene.pictures ? scene.last + 1 : 0);
}

static void check_active(const gchar *wanted)
{
    ends_check_stat(scene.end, "active", wanted);
}

static gboolean is_active(const gchar *name)
{
    return ends_stat_is(scene.end, "active", name);
}

static gboolean has_frames(const gchar *name, guint64 count)
{
    return ends_stat_in(scene.end, name, "frames") >= count;
}

/* The next picture: none is lost, repeated or out of step. */
static void take(void)
{
    g_autoptr(GstBuffer) buffer = ends_pull(scene.src);
    guint64 number = GST_BUFFER_OFFSET(buffer);
    gint64 step = (gint64)GST_BUFFER_PTS(buffer) - (gint64)(number * INTERVAL);

    if (scene.pictures > 0) {
        fail_unless_equals_uint64(number, scene.last + 1);
        fail_unless_equals_int64(step, scene.step);
        fail_if(GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DISCONT), "picture %u",
                scene.pictures);
    }
    scene.last = number;
    scene.step = step;
    scene.pictures++;
}

static void take_some(guint count)
{
    while (count-- > 0)
        take();
}

/* Takes pictures until the condition holds. */
#define TAKE_UNTIL(condition)                                                    \
    do {                                                                         \
        gboolean holds_ = FALSE;                                                 \
        for (guint left_ = 500; !(holds_ = !!(condition)) && left_ > 0; left_--) \
            take();                                                              \
        fail_unless(holds_ &&#condition);                                        \
    } while (0)

/* A receiver, whose senders do not send yet. */
static void open_receiver(const gchar *properties)
{
    memset(&scene, 0, sizeof(scene));
    for (guint i = 0; i < 2; i++)
        scene.addresses[i] = ends_address();
    g_autofree gchar *all = g_strdup_printf("backup-address=%s %s", scene.addresses[1], properties);
    scene.src = ends_src_at(scene.addresses[0], all);
    scene.end = ends_element(scene.src);
    scene.bus = ends_bus(scene.src);
}

static void open_scene(const gchar *properties)
{
    open_receiver(properties);
    start(0);
    take_some(3);
    start(1);
    TAKE_UNTIL(has_frames("backup", 3));
}

static void close_scene(void)
{
    for (guint i = 0; i < 2; i++) {
        if (scene.pids[i])
            ends_kill(scene.pids[i]);
        g_free(scene.addresses[i]);
    }
    gst_object_unref(scene.bus);
}

static void check_message(const gchar *active)
{
    for (guint i = 0; i < 100; i++) {
        g_autoptr(GstMessage) message = ends_wait_message(scene.bus, GST_MESSAGE_ELEMENT, 5);
        fail_unless(message != NULL, "no message says that %s is active", active);
        if (!gst_message_has_name(message, "gpudirect-switched"))
            continue;
        fail_unless_equals_string(
            gst_structure_get_string(gst_message_get_structure(message), "active"), active);
        return;
    }
}

/* Both senders change their format, one after the other: each instant comes once. */
TEST(test_live_changes_of_caps)
{
    GstHarness *sinks[2];
    g_autofree gchar *main = ends_address(), *backup = ends_address();
    g_autofree gchar *properties = g_strdup_printf("start=oldest backup-address=%s", backup);
    GstHarness *src = ends_src_at(main, properties);
    GstClockTime base = gst_element_get_base_time(src->element);

    for (guint i = 0; i < 2; i++) {
        sinks[i] = ends_sink_at(i == 0 ? main : backup, "slow-receiver=drop-oldest");
        gst_element_set_base_time(sinks[i]->element, base);
        ends_start(sinks[i], CAPS_SMALL);
    }
    for (guint number = 0; number < 200; number++) {
        g_autofree gchar *caps = g_strdup_printf(
            "video/x-raw,format=UYVY,width=%u,height=16,framerate=25/1", 64 + number / 2 % 3 * 2);

        for (guint i = 0; i < 2; i++) {
            GstBuffer *buffer = ends_picture(caps, number);
            GST_BUFFER_PTS(buffer) = number * INTERVAL;
            GST_BUFFER_DURATION(buffer) = INTERVAL;
            gst_harness_set_src_caps_str(sinks[i], caps);
            fail_unless_equals_int(gst_harness_push(sinks[i], buffer), GST_FLOW_OK);
        }
        ends_take(src, caps, number);
    }
    for (guint i = 0; i < 2; i++)
        fail_unless_equals_uint64(ends_stat(sinks[i], "dropped-slow-receiver"), 0);
}

TEST(test_main_is_killed)
{
    open_scene("slots=32");
    check_active("main");
    ends_kill(scene.pids[0]);
    TAKE_UNTIL(is_active("backup"));
    take_some(5);
    check_message("backup");
    start(0);
    TAKE_UNTIL(is_active("main"));
    check_message("main");
    take_some(5);
    close_scene();
}

TEST(test_backup_is_killed)
{
    open_scene("slots=32");
    ends_kill(scene.pids[1]);
    take_some(10);
    start(1);
    TAKE_UNTIL(has_frames("backup", 10));
    check_active("main");
    close_scene();
}

TEST(test_main_is_stopped)
{
    open_scene("slots=32");
    kill(scene.pids[0], SIGSTOP);
    TAKE_UNTIL(is_active("backup"));
    take_some(10);
    kill(scene.pids[0], SIGCONT);
    TAKE_UNTIL(is_active("main"));
    take_some(5);
    close_scene();
}

static gboolean is_frozen(const gchar *name)
{
    g_autoptr(GstStructure) stats = NULL, one = NULL;
    gboolean frozen = FALSE;

    g_object_get(scene.end, "stats", &stats, NULL);
    fail_unless(gst_structure_get(stats, name, GST_TYPE_STRUCTURE, &one, NULL) &&
                gst_structure_get_boolean(one, "frozen", &frozen));
    return frozen;
}

/* A picture that stands still gives way to one that moves, at once and without a step. */
TEST(test_main_freezes)
{
    open_scene("slots=32 freeze-timeout=400000000");
    kill(scene.pids[0], SIGUSR1);
    TAKE_UNTIL(is_active("backup"));
    fail_unless(is_frozen("main") && !is_frozen("backup"));
    take_some(10);
    check_active("backup");
    kill(scene.pids[1], SIGUSR1);
    TAKE_UNTIL(is_frozen("backup") && is_active("main")); /* none moves: the preferred one */
    kill(scene.pids[1], SIGUSR2);
    TAKE_UNTIL(is_active("backup"));
    ends_kill(scene.pids[1]); /* better than none */
    TAKE_UNTIL(is_active("main"));
    start(1);
    TAKE_UNTIL(is_active("backup"));
    kill(scene.pids[0], SIGUSR2);
    TAKE_UNTIL(is_active("main") && !is_frozen("main"));
    take_some(5);
    close_scene();
}

/* Without the timeout a still picture counts like any other. */
TEST(test_main_may_stand_still)
{
    open_scene("slots=32");
    kill(scene.pids[0], SIGUSR1);
    take_some(30);
    check_active("main");
    fail_if(is_frozen("main"));
    close_scene();
}

/* Each picture of the backup is in the middle between two of the main's: one sender is passed on,
 * and a warning says why the other one cannot replace it without a step. */
TEST(test_half_a_frame_apart)
{
    open_receiver("slots=32");
    start(0);
    take_some(3);
    g_setenv("GPUDIRECT_TEST_LATE", "20000000", TRUE);
    start(1);
    g_unsetenv("GPUDIRECT_TEST_LATE");
    TAKE_UNTIL(has_frames("backup", 25));
    take_some(25);
    g_autoptr(GError) warning = ends_wait_error(scene.bus, GST_MESSAGE_WARNING, 30);
    fail_unless(strstr(warning->message, "not in step") && strstr(warning->message, "come between"),
                "\"%s\"", warning->message);
    check_active("main");
    close_scene();
}

/* The stream ends when both senders have ended, not before. */
TEST(test_ends_of_streams)
{
    open_scene("slots=32");
    for (guint i = 0; i < 2; i++) {
        kill(scene.pids[i], SIGTERM);
        waitpid(scene.pids[i], NULL, 0);
        scene.pids[i] = 0;
        if (i == 0) {
            TAKE_UNTIL(is_active("backup"));
            take_some(10);
        }
    }
    for (guint i = 0; i < 500 && !gst_harness_try_pull_event(scene.src); i++)
        g_usleep(10000);
    ends_wait_event(scene.src, GST_EVENT_EOS);
    close_scene();
}

TEST(test_switch_by_hand)
{
    open_scene("slots=32");
    gint preferred;

    g_signal_emit_by_name(scene.end, "switch");
    TAKE_UNTIL(is_active("backup"));
    check_message("backup");
    g_object_get(scene.end, "preferred", &preferred, NULL);
    fail_unless_equals_int(preferred, 1);
    g_object_set(scene.end, "preferred", 0, NULL);
    TAKE_UNTIL(is_active("main"));
    take_some(5);
    close_scene();
}

/* A pause of the receiver; both senders die, and one comes back. */
TEST(test_both_are_killed)
{
    open_scene("slots=32");
    ends_kill(scene.pids[0]);
    TAKE_UNTIL(is_active("backup"));
    ends_kill(scene.pids[1]);
    ends_drop(scene.src);
    ends_expect(scene.bus, GST_MESSAGE_WARNING, 10, "backup:");
    ends_drop(scene.src);
    start(1);
    scene.pids[0] = 0;
    GstBuffer *buffer = ends_pull(scene.src);
    fail_unless(GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DISCONT));
    gst_buffer_unref(buffer);
    scene.pictures = 0;
    take_some(5);
    check_active("backup");
    close_scene();
}

/* Two live senders without a common clock: one at a time. */
TEST(test_no_common_clock)
{
    open_receiver("");
    g_autoptr(GstClock) clock =
        g_object_new(GST_TYPE_SYSTEM_CLOCK, "clock-type", GST_CLOCK_TYPE_REALTIME, NULL);
    EndsPipeline *senders[2];
    for (guint i = 0; i < 2; i++) {
        senders[i] =
            ends_pipeline("videotestsrc is-live=true ! " CAPS_SMALL " ! gpudirectsink address=%s",
                          scene.addresses[i]);
        if (i == 1)
            gst_pipeline_use_clock(GST_PIPELINE(senders[i]), clock);
        ends_play(senders[i]);
    }
    ends_expect(scene.bus, GST_MESSAGE_WARNING, 10, "no common clock");
    ENDS_UNTIL(10, has_frames("backup", 5) && has_frames("main", 5));
    ENDS_UNTIL(10, is_active("main"));
    ends_stop(senders[0]);
    ENDS_UNTIL(10, is_active("backup"));
    ends_drop(scene.src);
    ends_skip(scene.src, 1);
    ends_stop(senders[1]);
    close_scene();
}

TEST(test_refused)
{
    static const gchar *const cases[][3] = {
        {"cam1", "cam1", "the same as address"},
        {"cam1", "target:cam1", "senders'"},
        {"target:cam1", "cam1", "senders'"},
        {"cam1", "cam/1/2", ""},
        {"cam1", "\"\" freeze-timeout=1000000", "needs a second sender"},
        {"cam1", "cam1b freeze-timeout=1000000 device=opencl:0", ""},
    };

    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(EndsPipeline) pipeline = ends_pipeline(
            "gpudirectsrc address=%s backup-address=%s ! fakesink", cases[i][0], cases[i][1]);
        gst_element_set_state(pipeline, GST_STATE_PLAYING);
        ends_expect(GST_ELEMENT_BUS(pipeline), GST_MESSAGE_ERROR, 5, cases[i][2]);
    }
}

TEST(test_uri)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GstElement) src = gst_element_make_from_uri(
        GST_URI_SRC, "gpudirect://cam1?backup-address=cam1b&preferred=backup", NULL, &error);
    g_autofree gchar *backup = NULL;
    gint preferred = 0;

    fail_unless(src != NULL, "%s", error ? error->message : "");
    if (g_object_class_find_property(G_OBJECT_GET_CLASS(src), "backup-address"))
        g_object_get(src, "backup-address", &backup, "preferred", &preferred, NULL);
    fail_unless_equals_string(backup, "cam1b");
    fail_unless_equals_int(preferred, 1);
}

static void check_backup(const GValue *child, gpointer count)
{
    g_autofree gchar *address = ends_text(g_value_get_object(child), "address"),
                     *backup = ends_text(g_value_get_object(child), "backup-address");

    fail_unless_equals_string(backup,
                              g_str_has_suffix(address, "/sound") ? "spare/sound" : "spare");
    ++*(guint *)count;
}

static guint check_backups(GstElement *programme)
{
    GstIterator *children = gst_bin_iterate_elements(GST_BIN(programme));
    guint count = 0;

    gst_iterator_foreach(children, check_backup, &count);
    gst_iterator_free(children);
    return count;
}

/* Each stream of a programme has the backup of its name. */
TEST(test_programme)
{
    g_autofree gchar *sound = g_strdup_printf("%s/sound", ends_own());
    GstHarness *picture_sink = ends_sink("wait-for-connection=false");
    GstHarness *sound_sink = ends_sink_at(sound, "wait-for-connection=false");

    gst_harness_set_src_caps_str(picture_sink, CAPS_SMALL);
    gst_harness_set_src_caps_str(
        sound_sink, "audio/x-raw,format=S16LE,rate=48000,channels=2,layout=interleaved");
    g_autoptr(EndsPipeline) programme =
        ends_pipeline("gpudirectprogramsrc address=%s backup-address=spare", ends_own());
    ends_play(programme);
    ENDS_UNTIL(10, check_backups(programme) == 2);
}

/* --- the time by which frames are matched --------------------------------------------------- */

TEST(test_match)
{
    const struct pair_clock unknown = {0}, ptp = {TRUE, TRUE, FALSE, 7},
                            both = {TRUE, TRUE, TRUE, 7}, other = {TRUE, TRUE, FALSE, 8},
                            mono = {TRUE, TRUE, TRUE, 0}, none = {TRUE, TRUE, FALSE, 0},
                            file = {TRUE, FALSE, TRUE, 0};
    const struct {
        const struct pair_clock *a, *b;
        gboolean here;
        enum pair_match wanted;
    } cases[] = {
        {&unknown, &unknown, TRUE, PAIR_MATCH_NONE},    {&ptp, &unknown, FALSE, PAIR_MATCH_CLOCK},
        {&mono, &unknown, FALSE, PAIR_MATCH_MONOTONIC}, {&ptp, &ptp, FALSE, PAIR_MATCH_CLOCK},
        {&both, &both, TRUE, PAIR_MATCH_CLOCK},         {&both, &mono, TRUE, PAIR_MATCH_MONOTONIC},
        {&both, &mono, FALSE, PAIR_MATCH_APART},        {&ptp, &other, TRUE, PAIR_MATCH_APART},
        {&ptp, &none, TRUE, PAIR_MATCH_APART},          {&none, &none, FALSE, PAIR_MATCH_PTS},
        {&file, &file, FALSE, PAIR_MATCH_PTS},          {&file, &mono, TRUE, PAIR_MATCH_MONOTONIC},
    };

    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        fail_unless_equals_int(pair_match_of(cases[i].a, cases[i].b, cases[i].here),
                               cases[i].wanted);
        fail_unless_equals_int(pair_match_of(cases[i].b, cases[i].a, cases[i].here),
                               cases[i].wanted);
    }
    fail_unless(pair_addresses_share_host("cam1", "unix:/run/x"));
    fail_unless(pair_addresses_share_host("rdma://10.0.0.1:7174/a", "rdma://10.0.0.1:7175/b"));
    fail_if(pair_addresses_share_host("rdma://10.0.0.1:7174/a", "rdma://10.0.0.11:7174/a"));
    fail_if(pair_addresses_share_host("cam1", "rdma://10.0.0.1:7174/a"));
}

ENDS_MAIN(60)
