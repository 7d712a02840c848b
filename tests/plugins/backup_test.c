/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A source with a main and a backup sender: each instant once, whatever ends one of them; and, as
 * `backup_test everyday`, backups and standbys as they are used: on a tee beside a recorder,
 * paused, with senders that come late or are restarted, and ended at any moment. Groups are in
 * group_test.c. */
#include "ends.h"
#include "src/src.h"

#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define INTERVAL (40 * GST_MSECOND) /* of CAPS_SMALL */
#define RECORDER "queue ! matroskamux ! filesink location=%s"

static gboolean everyday, pure;

/* What a consumer has seen. Under the lock. */
struct view {
    GMutex lock;
    guint pictures, gaps, breaks; /* gaps: of their numbers; breaks: of numbers or times */
    guint disconts;               /* that are flagged so, behind the first one */
    guint64 last;
    gint64 step;            /* between the last picture's time and number */
    GstClockTime submitted; /* the last one, by CLOCK_MONOTONIC */
};

static struct {
    gchar *addresses[2];
    GPid pids[2];
    GstElement *pipeline, *src;
    gchar *directory, *file;
    struct view view;
    const gchar *senders; /* their properties */
    gint still;           /* atomic: what a picture shows may be older than its number */
} scene;

static void see(GstElement *sink, GstBuffer *buffer, GstPad *pad, gpointer user)
{
    struct view *view = user;
    guint64 number = GST_BUFFER_OFFSET(buffer);
    gint64 step = (gint64)GST_BUFFER_PTS(buffer) - (gint64)(number * INTERVAL);
    guint8 contents;

    gst_buffer_extract(buffer, 0, &contents, 1);
    g_mutex_lock(&view->lock);
    gboolean discont = GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DISCONT);
    if (view->pictures > 0 && number <= view->last)
        fail("picture %" G_GUINT64_FORMAT " after %" G_GUINT64_FORMAT, number, view->last);
    if (view->pictures > 0) {
        view->gaps += number != view->last + 1;
        view->breaks += number != view->last + 1 || step != view->step;
        view->disconts += discont;
    }
    if (view->pictures > 0 && number != view->last + 1 && !discont)
        fail("pictures are missing before %" G_GUINT64_FORMAT ", and nothing says so", number);
    if (contents != (guint8)number && !g_atomic_int_get(&scene.still))
        fail("picture %" G_GUINT64_FORMAT " is another one", number);
    view->pictures++;
    view->last = number;
    view->step = step;
    g_autoptr(GstCaps) kind = gst_caps_new_empty_simple("timestamp/x-gpudirect-submit");
    const GstReferenceTimestampMeta *meta = gst_buffer_get_reference_timestamp_meta(buffer, kind);
    fail_unless(meta != NULL);
    view->submitted = meta->timestamp;
    g_mutex_unlock(&view->lock);
}

static struct view look(void)
{
    g_mutex_lock(&scene.view.lock);
    struct view now = scene.view;
    g_mutex_unlock(&scene.view.lock);
    return now;
}

static void await(guint more)
{
    guint wanted = look().pictures + more;

    ENDS_UNTIL(20, look().pictures >= wanted, "no more pictures");
}

static gboolean is_active(const gchar *name)
{
    return ends_stat_is(scene.src, "active", name);
}

static guint64 count_of(guint which, const gchar *field)
{
    return ends_stat_in(scene.src, which ? "backup" : "main", field);
}

/* --- a scene: a receiver of two senders --------------------------------------------------- */

static void start_at(guint which, guint64 first)
{
    scene.pids[which] =
        ends_spawn_instants(scene.addresses[which], CAPS_SMALL, scene.senders, first);
}

static void start(guint which)
{
    struct view now = look();

    start_at(which, now.pictures ? now.last + 1 : 0);
}

static void end(guint which)
{
    if (scene.pids[which])
        ends_kill(scene.pids[which]);
    scene.pids[which] = 0;
}

/* Senders that wait for a slow receiver lose nothing on a slow machine. */
#define WAITS "slots=32 slow-receiver=block"
#define DROPS "slots=32"

static void make_file(void)
{
    scene.directory = g_dir_make_tmp("everyday-XXXXXX", NULL);
    scene.file = g_build_filename(scene.directory, "recording.mkv", NULL);
}

static void open_scene(const gchar *senders, const gchar *properties)
{
    memset(&scene, 0, sizeof(scene));
    scene.senders = senders;
    for (guint i = 0; i < 2; i++)
        scene.addresses[i] = ends_address();
    make_file();
    g_autofree gchar *recorder = g_strdup_printf("t. ! " RECORDER, scene.file);
    scene.pipeline =
        ends_pipeline("gpudirectsrc name=src address=%s backup-address=%s slots=32 %s "
                      "add-reference-timestamp-meta=true ! tee name=t t. ! queue ! fakesink "
                      "name=view sync=false %s",
                      scene.addresses[0], scene.addresses[1], properties, everyday ? recorder : "");
    scene.src = ends_in(scene.pipeline, "src");
    ends_on_buffer(scene.pipeline, "view", G_CALLBACK(see), &scene.view);
    ends_play(scene.pipeline);
}

static void open_with_both(const gchar *senders, const gchar *properties)
{
    open_scene(senders, properties);
    start(0);
    await(3);
    start(1);
    ENDS_UNTIL(20, count_of(1, "frames") >= 3);
}

/* As after Ctrl-C of gst-launch -e. */
static void end_stream(void)
{
    gst_element_send_event(scene.pipeline, gst_event_new_eos());
    ends_wait_end(scene.pipeline, 20);
}

static void close_scene(void)
{
    gst_element_set_state(scene.pipeline, GST_STATE_NULL);
    ends_fail_on_errors(scene.pipeline);
    for (guint i = 0; i < 2; i++) {
        end(i);
        g_free(scene.addresses[i]);
    }
    gst_object_unref(scene.pipeline);
    g_remove(scene.file);
    g_rmdir(scene.directory);
    g_free(scene.file);
    g_free(scene.directory);
}

/* --- each instant once ---------------------------------------------------------------------- */

/* Both senders change their format, one after the other: each instant comes once. */
TEST(test_live_changes_of_caps, .only_if = &pure)
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
        /* The other one's frame is taken as well, later: what would be dropped is lost by a change.
         */
        for (guint i = 0; i < 2; i++)
            ENDS_UNTIL(20, ends_stat(sinks[i], "delivered") == number + 1);
    }
    for (guint i = 0; i < 2; i++)
        fail_unless_equals_uint64(ends_stat(sinks[i], "dropped-slow-receiver"), 0);
}

/* No instant is lost or repeated, and nothing shows where the senders change. */
static void close_in_step(void)
{
    struct view view = look();

    fail_unless_equals_int(view.breaks, 0);
    fail_unless_equals_int(view.disconts, 0);
    close_scene();
}

static void await_active(const gchar *name)
{
    ENDS_UNTIL(20, is_active(name), "the other sender is active");
}

static void check_message(const gchar *active)
{
    ends_expect_named(GST_ELEMENT_BUS(scene.pipeline), "gpudirect-switched", 20, "active", active);
}

TEST(test_main_is_killed, .only_if = &pure)
{
    open_with_both(WAITS, "");
    await_active("main");
    end(0);
    await_active("backup");
    await(5);
    check_message("backup");
    start(0);
    await_active("main");
    check_message("main");
    await(5);
    close_in_step();
}

TEST(test_backup_is_killed, .only_if = &pure)
{
    open_with_both(WAITS, "");
    end(1);
    await(10);
    start(1);
    ENDS_UNTIL(20, count_of(1, "frames") >= 10);
    await_active("main");
    close_in_step();
}

TEST(test_main_is_stopped, .only_if = &pure)
{
    open_with_both(WAITS, "");
    kill(scene.pids[0], SIGSTOP);
    await_active("backup");
    await(10);
    kill(scene.pids[0], SIGCONT);
    await_active("main");
    await(5);
    close_in_step();
}

static gboolean is_frozen(const gchar *name)
{
    g_autoptr(GstStructure) stats = NULL, one = NULL;
    gboolean frozen = FALSE;

    g_object_get(scene.src, "stats", &stats, NULL);
    fail_unless(gst_structure_get(stats, name, GST_TYPE_STRUCTURE, &one, NULL) &&
                gst_structure_get_boolean(one, "frozen", &frozen));
    return frozen;
}

/* A picture that stands still gives way to one that moves, at once and without a step. */
TEST(test_main_freezes, .only_if = &pure)
{
    open_with_both(WAITS, "freeze-timeout=400000000");
    g_atomic_int_set(&scene.still, TRUE);
    kill(scene.pids[0], SIGUSR1);
    await_active("backup");
    /* A late main makes the backup active before it is seen to stand still. */
    ENDS_UNTIL(20, is_frozen("main") && !is_frozen("backup") && is_active("backup"));
    await(10);
    await_active("backup");
    kill(scene.pids[1], SIGUSR1);
    ENDS_UNTIL(20, is_frozen("backup") && is_active("main")); /* none moves: the preferred one */
    kill(scene.pids[1], SIGUSR2);
    await_active("backup");
    end(1); /* better than none */
    await_active("main");
    start(1);
    await_active("backup");
    kill(scene.pids[0], SIGUSR2);
    ENDS_UNTIL(20, is_active("main") && !is_frozen("main"));
    await(5);
    close_in_step();
}

/* Without the timeout a still picture counts like any other. */
TEST(test_main_may_stand_still, .only_if = &pure)
{
    open_with_both(WAITS, "");
    g_atomic_int_set(&scene.still, TRUE);
    kill(scene.pids[0], SIGUSR1);
    await(30);
    await_active("main");
    fail_if(is_frozen("main"));
    close_in_step();
}

/* Each picture of the backup is in the middle between two of the main's: one sender is passed on,
 * and a warning says why the other one cannot replace it without a step. */
TEST(test_half_a_frame_apart, .only_if = &pure)
{
    g_autofree gchar *spare = ends_address(),
                     *properties = g_strdup_printf("backup-address=%s slots=32", spare);
    GstHarness *src = ends_src(properties);
    g_autoptr(GstBus) bus = ends_bus(src);
    GPid senders[2] = {ends_spawn_instants(ends_own(), CAPS_SMALL, WAITS, 0)};
    guint64 last = 0;
    gint64 step = 0;
    guint both = 0; /* pictures after so many of the backup */

    scene.src = ends_element(src);
    for (guint i = 0; both < 25; i++) {
        g_autoptr(GstBuffer) buffer = ends_pull(src);
        guint64 number = GST_BUFFER_OFFSET(buffer);
        gint64 apart = (gint64)GST_BUFFER_PTS(buffer) - (gint64)(number * INTERVAL);
        if (i > 0) {
            fail_unless_equals_uint64(number, last + 1);
            fail_unless_equals_int64(apart, step);
            fail_if(GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DISCONT), "picture %u", i);
        }
        last = number;
        step = apart;
        if (i == 2) {
            g_setenv("GPUDIRECT_TEST_LATE", "20000000", TRUE);
            senders[1] = ends_spawn_instants(spare, CAPS_SMALL, WAITS, last + 1);
            g_unsetenv("GPUDIRECT_TEST_LATE");
        }
        fail_unless(i < 500, "the backup sends nothing");
        both += count_of(1, "frames") >= 25;
    }
    g_autoptr(GError) warning = ends_wait_error(bus, GST_MESSAGE_WARNING, 30);
    fail_unless(strstr(warning->message, "not in step") && strstr(warning->message, "come between"),
                "\"%s\"", warning->message);
    await_active("main");
    for (guint i = 0; i < 2; i++)
        ends_kill(senders[i]);
}

static void end_of_sender(guint which)
{
    kill(scene.pids[which], SIGTERM);
    waitpid(scene.pids[which], NULL, 0);
    scene.pids[which] = 0;
}

/* The stream ends when both senders have ended, not before. */
TEST(test_ends_of_streams, .only_if = &pure)
{
    open_with_both(WAITS, "");
    end_of_sender(0);
    await_active("backup");
    await(10);
    end_of_sender(1);
    ends_wait_end(scene.pipeline, 20);
    close_in_step();
}

TEST(test_switch_by_hand, .only_if = &pure)
{
    gint preferred;

    open_with_both(WAITS, "");
    g_signal_emit_by_name(scene.src, "switch");
    await_active("backup");
    check_message("backup");
    g_object_get(scene.src, "preferred", &preferred, NULL);
    fail_unless_equals_int(preferred, 1);
    g_object_set(scene.src, "preferred", 0, NULL);
    await_active("main");
    await(5);
    close_in_step();
}

/* A pause of the receiver; both senders die, and one comes back. */
TEST(test_both_are_killed, .only_if = &pure)
{
    open_with_both(WAITS, "");
    end(0);
    await_active("backup");
    end(1);
    ends_expect(GST_ELEMENT_BUS(scene.pipeline), GST_MESSAGE_WARNING, 10, "backup:");
    fail_unless_equals_int(look().breaks + look().disconts, 0);
    start(1);
    await(1);
    struct view now = look();
    fail_unless_equals_int(now.disconts, 1);
    await(5);
    fail_unless(look().disconts == 1 && look().breaks == now.breaks);
    await_active("backup");
    close_scene();
}

/* Two live senders without a common clock: one at a time. */
TEST(test_no_common_clock, .only_if = &pure)
{
    g_autofree gchar *spare = ends_address(),
                     *properties = g_strdup_printf("backup-address=%s", spare);
    GstHarness *src = ends_src(properties);
    g_autoptr(GstBus) bus = ends_bus(src);
    g_autoptr(GstClock) clock =
        g_object_new(GST_TYPE_SYSTEM_CLOCK, "clock-type", GST_CLOCK_TYPE_REALTIME, NULL);
    scene.src = ends_element(src);
    EndsPipeline *senders[2];
    for (guint i = 0; i < 2; i++) {
        senders[i] =
            ends_pipeline("videotestsrc is-live=true ! " CAPS_SMALL " ! gpudirectsink address=%s",
                          i ? spare : ends_own());
        if (i == 1)
            gst_pipeline_use_clock(GST_PIPELINE(senders[i]), clock);
        ends_play(senders[i]);
    }
    ends_expect(bus, GST_MESSAGE_WARNING, 10, "no common clock");
    ENDS_UNTIL(10, count_of(1, "frames") >= 5 && count_of(0, "frames") >= 5);
    await_active("main");
    ends_stop(senders[0]);
    await_active("backup");
    ends_drop(src);
    ends_skip(src, 1);
    ends_stop(senders[1]);
}

TEST(test_refused, .only_if = &pure)
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

TEST(test_uri, .only_if = &pure)
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
TEST(test_programme, .only_if = &pure)
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

/* The time by which frames are matched. */
TEST(test_match, .only_if = &pure)
{
    const struct pair_clock unknown = {0}, ptp = {TRUE, TRUE, 0, 7}, both = {TRUE, TRUE, 1, 7},
                            other = {TRUE, TRUE, 0, 8}, mono = {TRUE, TRUE, 1, 0},
                            there = {TRUE, TRUE, 2, 0}, none = {TRUE, TRUE, 0, 0},
                            file = {TRUE, FALSE, 1, 0}, its = {TRUE, FALSE, 2, 0};
    const struct {
        const struct pair_clock *a, *b;
        enum pair_match wanted;
    } cases[] = {
        {&unknown, &unknown, PAIR_MATCH_NONE},   {&ptp, &unknown, PAIR_MATCH_CLOCK},
        {&mono, &unknown, PAIR_MATCH_MONOTONIC}, {&ptp, &ptp, PAIR_MATCH_CLOCK},
        {&both, &both, PAIR_MATCH_CLOCK},        {&both, &mono, PAIR_MATCH_MONOTONIC},
        {&mono, &mono, PAIR_MATCH_MONOTONIC},    {&mono, &there, PAIR_MATCH_APART},
        {&both, &there, PAIR_MATCH_APART},       {&ptp, &other, PAIR_MATCH_APART},
        {&ptp, &none, PAIR_MATCH_APART},         {&none, &none, PAIR_MATCH_PTS},
        {&file, &its, PAIR_MATCH_PTS},           {&file, &mono, PAIR_MATCH_MONOTONIC},
    };

    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        fail_unless_equals_int(pair_match_of(cases[i].a, cases[i].b), cases[i].wanted);
        fail_unless_equals_int(pair_match_of(cases[i].b, cases[i].a), cases[i].wanted);
    }
}

/* A live pipeline with a sink on each of two networks: one host, by two addresses. */
TEST(test_two_networks, .only_if = &pure)
{
    g_autofree gchar *first = ends_host(0), *second = ends_host(1);
    g_autoptr(EndsPipeline) sender =
        ends_pipeline("videotestsrc is-live=true ! " CAPS_SMALL " ! tee name=t "
                      "t. ! queue ! gpudirectsink address=tcp://%s/main "
                      "t. ! queue ! gpudirectsink address=tcp://%s/backup",
                      first, second);
    g_autoptr(EndsPipeline) receiver = ends_pipeline("gpudirectsrc name=src address=tcp://%s/main "
                                                     "backup-address=tcp://%s/backup ! fakesink",
                                                     first, second);

    ends_play(sender);
    ends_play(receiver);
    ENDS_UNTIL(20, ends_stat_is(ends_in(receiver, "src"), "matched-by", "monotonic"),
               "they are not matched");
}

/* --- a recording -------------------------------------------------------------------------- */

static void count_recorded(GstElement *sink, GstBuffer *buffer, GstPad *pad, gpointer user)
{
    struct view *view = user;
    guint8 contents;

    gst_buffer_extract(buffer, 0, &contents, 1);
    if (view->pictures > 0 && contents != (guint8)(view->last + 1))
        view->breaks++;
    view->last = contents;
    view->pictures++;
}

/* Plays the file to its end: how many pictures it has, and how often one is missing. */
static void read_recording(struct view *recorded)
{
    g_autoptr(EndsPipeline) player = ends_pipeline("filesrc location=%s ! matroskademux ! fakesink "
                                                   "name=end sync=false",
                                                   scene.file);

    memset(recorded, 0, sizeof(*recorded));
    ends_on_buffer(player, "end", G_CALLBACK(count_recorded), recorded);
    ends_play(player);
    ends_wait_end(player, 20);
}

/* After a pause times that would go back catch up first. */
static void await_steps(void)
{
    guint gaps = look().gaps, breaks, tries = 0;

    do {
        breaks = look().breaks;
        await(10);
        fail_unless_equals_int(look().gaps, gaps);
    } while (look().breaks > breaks && tries++ < 10);
    fail_unless_equals_int(look().breaks, breaks);
}

/* --- a source with a backup --------------------------------------------------------------- */

/* A supervisor restarts each at once: neither the view nor the recording lacks a picture. */
TEST(test_backup_beside_recorder, .only_if = &everyday)
{
    struct view recorded;

    open_with_both(WAITS, "");
    for (guint i = 0; i < 2; i++) {
        guint64 connects = count_of(i, "connects");
        end(i);
        start(i);
        ENDS_UNTIL(20, count_of(i, "connects") > connects);
        await(5);
    }
    end_stream();
    fail_unless_equals_int(look().breaks, 0);
    read_recording(&recorded);
    fail_unless_equals_int(recorded.breaks, 0);
    fail_unless_equals_int(recorded.pictures, look().pictures);
    fail_unless_equals_int((guint8)recorded.last, (guint8)look().last);
    close_scene();
}

/* With both restarted some pictures were never sent. Then it goes on as before. */
TEST(test_both_restarted, .only_if = &everyday)
{
    open_with_both(WAITS, "");
    end(0);
    end(1);
    start_at(0, 0);
    start_at(1, 0);
    ENDS_UNTIL(20, count_of(0, "connects") >= 2 && count_of(1, "connects") >= 2);
    await(1);
    ENDS_UNTIL(20, is_active("main"));
    guint breaks = look().breaks;
    fail_unless(breaks == 1 || breaks == 2, "%u breaks", breaks);
    await(10);
    fail_unless_equals_int(look().breaks, breaks);
    end_stream();
    close_scene();
}

static void pause_for(guint seconds)
{
    fail_unless(gst_element_set_state(scene.pipeline, GST_STATE_PAUSED) !=
                GST_STATE_CHANGE_FAILURE);
    gst_element_get_state(scene.pipeline, NULL, NULL, 5 * GST_SECOND);
    g_usleep(seconds * G_USEC_PER_SEC);
}

/* What was captured during the pause is not shown after it, and nothing is shown twice. */
TEST(test_paused, .only_if = &everyday)
{
    open_with_both(DROPS, "");
    for (guint i = 0; i < 2; i++) {
        pause_for(2);
        struct view before = look();
        GstClockTime resumed_at = (GstClockTime)g_get_monotonic_time() * GST_USECOND;
        ends_play(scene.pipeline);
        await(1);
        fail_unless(look().submitted >= resumed_at, "a picture of the pause");
        fail_unless(look().last > before.last + 10);
        await_steps();
        guint breaks = look().breaks;
        end(i); /* it goes on with the other one */
        start(i);
        ENDS_UNTIL(20, count_of(i, "connects") >= 2);
        await(5);
        fail_unless_equals_int(look().breaks, breaks);
    }
    end_stream();
    close_scene();
}

/* Both die in a pause, and one of them is back after it. */
TEST(test_lost_in_pause, .only_if = &everyday)
{
    open_with_both(DROPS, "");
    pause_for(1);
    end(0);
    end(1);
    ends_play(scene.pipeline);
    start(1);
    ENDS_UNTIL(20, count_of(1, "connects") >= 2);
    await(5);
    fail_unless(is_active("backup"));
    end_stream();
    close_scene();
}

static void await_info(void)
{
    for (guint i = 0; i < 100; i++) {
        g_autoptr(GError) error =
            ends_wait_error(GST_ELEMENT_BUS(scene.pipeline), GST_MESSAGE_INFO, 20);
        if (strstr(error->message, scene.addresses[0]))
            return;
    }
    fail("nothing says that a sender is waited for");
}

TEST(test_nobody_at_first, .only_if = &everyday)
{
    open_scene(WAITS, "");
    await_info();
    start(1);
    await(5);
    fail_unless(is_active("backup"));
    start(0);
    ENDS_UNTIL(20, is_active("main"));
    await(5);
    fail_unless_equals_int(look().breaks, 0);
    end_stream();
    close_scene();
}

/* What happens to the senders, and to the pipeline, before its end. */
static const struct {
    gboolean senders;
    int signals[2];
    gboolean waits; /* until the pipeline has said that it has none */
    gboolean restarts, pauses;
} moments[] = {
    {FALSE},
    {FALSE, .waits = TRUE},
    {FALSE, .pauses = TRUE},
    {TRUE},
    {TRUE, {SIGKILL, SIGKILL}},
    {TRUE, {SIGKILL, SIGKILL}, .waits = TRUE},
    {TRUE, {SIGSTOP, SIGSTOP}},
    {TRUE, {SIGTERM}},
    {TRUE, {SIGKILL}},
    {TRUE, {SIGKILL, SIGKILL}, .restarts = TRUE},
    {TRUE, .pauses = TRUE},
};

/* Ended at any moment, by EOS or at once. */
TEST(test_ended, .times = 2 * G_N_ELEMENTS(moments), .only_if = &everyday)
{
    guint moment = (guint)__i__ / 2;
    gboolean by_state = __i__ % 2;

    if (moments[moment].senders)
        open_with_both(DROPS, "");
    else
        open_scene(DROPS, "");
    for (guint i = 0; i < 2; i++)
        if (moments[moment].signals[i] == SIGKILL)
            end(i);
        else if (moments[moment].signals[i])
            kill(scene.pids[i], moments[moment].signals[i]);
    if (moments[moment].waits && moments[moment].senders)
        ends_expect(GST_ELEMENT_BUS(scene.pipeline), GST_MESSAGE_WARNING, 20, "main:");
    else if (moments[moment].waits)
        await_info();
    for (guint i = 0; i < 2 && moments[moment].restarts; i++)
        start(i);
    if (moments[moment].pauses) {
        pause_for(1);
        ends_play(scene.pipeline);
    }
    if (!by_state)
        end_stream();
    close_scene();
}

/* --- a sink that stands by ---------------------------------------------------------------- */

/* A pipeline that stands by for the sender pids[0], with a recorder beside. */
static GstHarness *open_standby(const gchar *source, gboolean queued)
{
    memset(&scene, 0, sizeof(scene));
    make_file();
    scene.pids[0] = ends_spawn_instants(ends_own(), CAPS_SMALL, "standby=true", 0);
    GstHarness *src = ends_src("on-eos=wait");
    ends_skip(src, 1);
    scene.pipeline =
        ends_pipeline("%s ! " CAPS_SMALL " ! tee name=t t. ! %s gpudirectsink name=src address=%s "
                      "standby=true async=%s t. ! " RECORDER,
                      source, queued ? "queue !" : "identity !", ends_own(),
                      queued ? "true" : "false", scene.file);
    scene.src = ends_in(scene.pipeline, "src");
    ends_play(scene.pipeline);
    ENDS_UNTIL(20, ends_stat_true(scene.src, "stands-by"));
    return src;
}

/* The recording has each picture of the source, however the sink waits and takes over: behind a
 * queue, and in the thread of a live source. */
TEST(test_standby_beside_recorder, .times = 3, .only_if = &everyday)
{
    struct view recorded;
    gboolean live = __i__ > 0;
    g_autofree gchar *source =
        g_strdup_printf("videotestsrc num-buffers=100 is-live=%s", live ? "true" : "false");
    GstHarness *src = open_standby(source, __i__ < 2);

    if (live) {
        ends_skip(src, 5);
        end(0);
        ends_drop(src);
        ends_skip(src, 5);
        fail_if(ends_stat_true(scene.src, "stands-by"));
    }
    ends_wait_end(scene.pipeline, 30);
    read_recording(&recorded);
    fail_unless_equals_int(recorded.pictures, 100);
    close_scene();
}

TEST(test_standby_paused, .only_if = &everyday)
{
    GstHarness *src = open_standby("videotestsrc is-live=true", TRUE);

    pause_for(2);
    ends_skip(src, 5);
    ends_play(scene.pipeline);
    fail_unless(ends_stat_true(scene.src, "stands-by"));
    pause_for(1);
    end(0);
    ends_drop(src);
    ends_play(scene.pipeline);
    ends_skip(src, 5);
    fail_if(ends_stat_true(scene.src, "stands-by"));
    pause_for(1); /* the receiver stays */
    ends_drop(src);
    ends_play(scene.pipeline);
    ends_skip(src, 5);
    fail_unless_equals_uint64(ends_stat(src, "reconnects"), 1);
    close_scene();
}

/* Stopped while it waits, by EOS or at once; the first sender and its receiver notice nothing. */
TEST(test_standby_stopped, .times = 4, .only_if = &everyday)
{
    GstHarness *src =
        open_standby(__i__ < 2 ? "videotestsrc is-live=true" : "videotestsrc is-live=false", TRUE);

    if (__i__ % 2)
        end_stream();
    gst_element_set_state(scene.pipeline, GST_STATE_NULL);
    ends_drop(src);
    ends_skip(src, 3);
    fail_unless_equals_uint64(ends_stat(src, "reconnects"), 0);
    ends_play(scene.pipeline); /* once more */
    ENDS_UNTIL(20, ends_stat_true(scene.src, "stands-by"));
    close_scene();
}

/* The first one is restarted at once: one of the two has the address, the other one stands by, and
 * the receiver goes on. */
TEST(test_first_restarted, .times = 3, .only_if = &everyday)
{
    GstHarness *src = open_standby("videotestsrc is-live=true", TRUE);

    end(0);
    scene.pids[0] = ends_spawn_instants(ends_own(), CAPS_SMALL, "standby=true", 0);
    ENDS_UNTIL(20, ends_stat(src, "reconnects") == 1);
    ends_drop(src);
    ends_skip(src, 5);
    gboolean waits = ends_stat_true(scene.src, "stands-by");
    if (waits)
        end(0);
    else
        gst_element_set_state(scene.pipeline, GST_STATE_NULL);
    ENDS_UNTIL(20, ends_stat(src, "reconnects") == 2);
    ends_drop(src);
    ends_skip(src, 5);
    close_scene();
}

int main(int argc, char **argv)
{
    everyday = argc > 1 && g_str_equal(argv[1], "everyday");
    pure = !everyday;
    ends_init_environment();
    gst_check_init(&argc, &argv);
    return ends_run_tests(120);
}
