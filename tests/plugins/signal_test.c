/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Loss of signal: what a receiver shows and reports while no pictures arrive. */
#include "pipes.h"

#define PICTURE_TIME (40 * GST_MSECOND) /* of CAPS_SMALL */

/* The next word about the signal must be this one, with that in its reason. */
static void wait_signal(GstHarness *src, GstBus *bus, gboolean wanted, const gchar *says)
{
    g_autoptr(GstMessage) message = NULL;
    gboolean signal, now;

    do {
        g_clear_pointer(&message, gst_message_unref);
        message = ends_wait_message(bus, GST_MESSAGE_ELEMENT, 10);
        fail_unless(message != NULL, "no word about the signal within 10 s");
    } while (!gst_message_has_name(message, "gpudirect-signal"));
    const GstStructure *said = gst_message_get_structure(message);
    fail_unless(gst_structure_get_boolean(said, "signal", &signal));
    fail_unless_equals_int(signal, wanted);
    g_object_get(ends_element(src), "signal", &now, NULL);
    fail_unless_equals_int(now, wanted);
    const gchar *reason = gst_structure_get_string(said, "reason");
    fail_unless(!says || strstr(reason, says) != NULL, "%s", reason);
}

static void count_notify(GObject *object, GParamSpec *pspec, gpointer count)
{
    g_atomic_int_inc((gint *)count);
}

static GstHarness *open_sink(const gchar *caps)
{
    GstHarness *sink = ends_sink(NULL);

    ends_start(sink, caps);
    return sink;
}

static void send(GstHarness *sink, const gchar *caps, guint seed)
{
    GstBuffer *buffer = ends_picture(caps, seed);

    GST_BUFFER_PTS(buffer) = seed * PICTURE_TIME;
    fail_unless_equals_int(gst_harness_push(sink, buffer), GST_FLOW_OK);
}

static GstClockTime pull_picture(GstHarness *src, const gchar *caps, guint seed)
{
    g_autoptr(GstBuffer) buffer = ends_pull(src);
    GstClockTime pts = GST_BUFFER_PTS(buffer);

    ends_check_picture(buffer, caps, seed);
    return pts;
}

/* Property, notify and message report that pictures arrive, stop, arrive again, and end. */
TEST(test_signal_is_told)
{
    g_autoptr(GstHarness) src = ends_src("on-eos=wait");
    g_autoptr(GstBus) bus = ends_bus(src);
    gint notified = 0;
    gboolean signal;

    g_signal_connect(ends_element(src), "notify::signal", G_CALLBACK(count_notify), &notified);
    g_object_get(ends_element(src), "signal", &signal, NULL);
    fail_if(signal);
    GstHarness *sink = open_sink(CAPS_SMALL);
    send(sink, CAPS_SMALL, 0);
    wait_signal(src, bus, TRUE, NULL);

    /* It is there, and sends nothing. */
    wait_signal(src, bus, FALSE, "sends nothing");
    send(sink, CAPS_SMALL, 1);
    wait_signal(src, bus, TRUE, NULL);

    /* It goes without a word. */
    ends_close(sink);
    wait_signal(src, bus, FALSE, "sender");

    /* The next one ends its stream. */
    sink = open_sink(CAPS_SMALL);
    send(sink, CAPS_SMALL, 2);
    wait_signal(src, bus, TRUE, NULL);
    gst_harness_push_event(sink, gst_event_new_eos());
    wait_signal(src, bus, FALSE, "ended");
    fail_unless_equals_int(g_atomic_int_get(&notified), 6);
    fail_unless_equals_uint64(ends_stat(src, "stood-in"), 0);
}

/* The last picture goes on, a picture's time apart, until the next sender's. */
TEST(test_freeze)
{
    GstHarness *src = ends_src("on-disconnect=freeze on-eos=wait");
    GstHarness *sink = open_sink(CAPS_SMALL);
    GstClockTime last = GST_CLOCK_TIME_NONE;

    for (guint i = 0; i < 5; i++) {
        send(sink, CAPS_SMALL, i);
        last = pull_picture(src, CAPS_SMALL, i);
    }
    ends_close(sink);
    for (guint i = 0; i < 10; i++) {
        g_autoptr(GstBuffer) buffer = ends_pull(src);
        ends_check_picture(buffer, CAPS_SMALL, 4);
        fail_unless(GST_BUFFER_PTS(buffer) >= last + PICTURE_TIME,
                    "%" GST_TIME_FORMAT " after %" GST_TIME_FORMAT,
                    GST_TIME_ARGS(GST_BUFFER_PTS(buffer)), GST_TIME_ARGS(last));
        fail_unless_equals_uint64(GST_BUFFER_DURATION(buffer), PICTURE_TIME);
        last = GST_BUFFER_PTS(buffer);
        /* Writing into one does not change later ones. */
        buffer = gst_buffer_make_writable(buffer);
        ends_paint(buffer, CAPS_SMALL, 77);
    }
    fail_unless(ends_stat(src, "stood-in") >= 10);
    fail_unless_equals_uint64(ends_stat(src, "frames"), 5);

    sink = open_sink(CAPS_SMALL);
    send(sink, CAPS_SMALL, 9);
    gboolean fresh = FALSE;
    for (guint i = 0; i < 500 && !fresh; i++) {
        g_autoptr(GstBuffer) buffer = ends_pull(src);
        fresh = GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DISCONT);
        ends_check_picture(buffer, CAPS_SMALL, fresh ? 9 : 4);
        fail_unless(GST_BUFFER_PTS(buffer) > last, "back from %" GST_TIME_FORMAT,
                    GST_TIME_ARGS(last));
        last = GST_BUFFER_PTS(buffer);
    }
    fail_unless(fresh, "the next sender's picture did not come");
}

/* A sender that stands still has all of its slots, but one until it is seen to. */
TEST(test_freeze_gives_the_slot_back)
{
    GstHarness *src = ends_src("on-disconnect=freeze slots=2");
    g_autoptr(GstHarness) sink = open_sink(CAPS_SMALL);

    send(sink, CAPS_SMALL, 1);
    while (ends_stat(src, "stood-in") == 0)
        drop(src, 1);
    for (guint i = 2; i < 12; i++) {
        send(sink, CAPS_SMALL, i);
        while (ends_stat(src, "frames") < i)
            drop(src, 1);
    }
}

TEST(test_black)
{
    static const gchar *const formats[] = {"UYVY", "I420", "NV12", "BGRA"};

    for (guint f = 0; f < G_N_ELEMENTS(formats); f++) {
        g_autofree gchar *caps =
            g_strdup_printf("video/x-raw,format=%s,width=66,height=18,framerate=25/1", formats[f]);
        g_autoptr(GstHarness) src = ends_src("on-disconnect=black");
        GstHarness *sink = open_sink(caps);

        send(sink, caps, 3);
        pull_picture(src, caps, 3);
        ends_close(sink);
        for (guint i = 0; i < 3; i++) {
            g_autoptr(GstBuffer) buffer = ends_pull(src);
            ends_check_black(buffer, caps);
        }
    }
}

#define CAPS_LARGE "video/x-raw,format=UYVY,width=320,height=240,framerate=25/1"

/* Counts the buffers behind caps of CAPS_LARGE's size; each has the size that its caps say. */
static GstPadProbeReturn watch_sizes(GstPad *pad, GstPadProbeInfo *info, gpointer large)
{
    g_autoptr(GstCaps) caps = gst_pad_get_current_caps(pad);
    GstVideoInfo video;

    fail_unless(caps && gst_video_info_from_caps(&video, caps));
    if (video.width != 320)
        return GST_PAD_PROBE_OK;
    fail_unless_equals_uint64(gst_buffer_get_size(GST_PAD_PROBE_INFO_BUFFER(info)), video.size);
    g_atomic_int_inc((gint *)large);
    return GST_PAD_PROBE_OK;
}

static const gchar *const replacing[] = {"freeze", "black"};

/* Of the next sender, or of one that goes on in it. */
TEST(test_stall_in_another_format, .times = 2 * G_N_ELEMENTS(replacing))
{
    gboolean next_sender = __i__ % 2 == 1;
    g_autofree gchar *properties = g_strdup_printf("on-disconnect=%s %s", replacing[__i__ / 2],
                                                   next_sender ? "on-eos=wait" : "");
    gint large = 0; /* atomic */
    g_autoptr(GstHarness) src = ends_src(properties);
    GstHarness *sink = open_sink(CAPS_SMALL);

    gst_pad_add_probe(src->sinkpad, GST_PAD_PROBE_TYPE_BUFFER, watch_sizes, &large, NULL);
    send(sink, CAPS_SMALL, 1);
    pull_picture(src, CAPS_SMALL, 1);
    if (next_sender) {
        gst_harness_push_event(sink, gst_event_new_eos());
        ENDS_UNTIL(ENDS_WAIT, ends_stat(src, "stood-in") >= 2);
        ends_close(sink);
        open_sink(CAPS_LARGE);
    } else {
        gst_harness_set_src_caps_str(sink, CAPS_LARGE);
    }
    /* With caps of another size that has no picture yet, stand-ins are of that size, and black. */
    ENDS_UNTIL(ENDS_WAIT, g_atomic_int_get(&large) >= 5);
    GstBuffer *last = ends_pull(src), *next;
    for (; (next = gst_harness_try_pull(src)); last = next)
        gst_buffer_unref(last);
    ends_check_black(last, CAPS_LARGE);
    gst_buffer_unref(last);
}

/* A picture that is repeated is cropped as before. */
TEST(test_freeze_keeps_the_crop)
{
    g_autoptr(GstHarness) src = ends_src("on-disconnect=freeze");
    GstHarness *sink = open_sink(CAPS_SMALL);
    GstBuffer *cropped = ends_picture(CAPS_SMALL, 1);
    GstVideoCropMeta *crop = gst_buffer_add_video_crop_meta(cropped);

    crop->x = 2;
    crop->y = 4;
    crop->width = 32;
    crop->height = 8;
    fail_unless_equals_int(gst_harness_push(sink, cropped), GST_FLOW_OK);
    drop(src, 1);
    for (guint i = 0; i < 3; i++) {
        g_autoptr(GstBuffer) again = ends_pull(src);
        const GstVideoCropMeta *kept = gst_buffer_get_video_crop_meta(again);
        fail_unless(kept != NULL, "stand-in %u has no crop meta", i);
        fail_unless(kept->x == 2 && kept->y == 4 && kept->width == 32 && kept->height == 8);
    }
}

/* While stand-ins come, the element can be paused, played and stopped at any time. */
TEST(test_states_meanwhile)
{
    GstHarness *src = ends_src("on-disconnect=freeze");
    GstHarness *sink = open_sink(CAPS_SMALL);

    send(sink, CAPS_SMALL, 1);
    pull_picture(src, CAPS_SMALL, 1);
    ends_close(sink);
    pull_picture(src, CAPS_SMALL, 1);
    for (guint i = 0; i < 5; i++) {
        gst_element_set_state(src->element, GST_STATE_PAUSED);
        while (gst_harness_buffers_in_queue(src))
            gst_buffer_unref(gst_harness_pull(src));
        gst_element_set_state(src->element, GST_STATE_PLAYING);
        pull_picture(src, CAPS_SMALL, 1);
    }
    /* Another end asked for, by the application. */
    gst_element_send_event(ends_element(src), gst_event_new_eos());
    gst_event_unref(ends_wait_event(src, GST_EVENT_EOS));
}

/* The next info says all of these, and to gst-launch-1.0, too, the last one. Its text. */
static gchar *expect_info(GstHarness *harness, const gchar *one, const gchar *other)
{
    g_autoptr(GstBus) bus = ends_bus(harness);
    g_autoptr(GstMessage) message = ends_wait_message(bus, GST_MESSAGE_INFO, 20);
    g_autoptr(GError) info = NULL;
    g_autofree gchar *text = NULL;

    fail_unless(message != NULL, "nothing was said within 20 s");
    gst_message_parse_info(message, &info, &text);
    fail_unless(strstr(info->message, one) && strstr(info->message, other), "%s", info->message);
    fail_unless(strstr(text, other) != NULL, "%s", text);
    return g_steal_pointer(&text);
}

/* The message after a second without a sender names the path, and the active channels; of another
 * host it names the place, and not what is sent on this one. */
TEST(test_waiting_is_told)
{
    g_autofree gchar *address = ends_address(), *other = ends_address();
    g_autofree gchar *path =
        g_strdup_printf("%s/gpudirect/%s", g_getenv("XDG_RUNTIME_DIR"), address);
    g_autofree gchar *sending = g_strdup_printf("sending now: %s", other);

    ends_sink_at(other, NULL);
    g_free(expect_info(ends_src_at(address, NULL), path, sending));

    const gchar *there = "tcp://127.0.0.1:1/cam1";
    g_autofree gchar *text = expect_info(ends_src_at(there, NULL), "Waiting for a sender", there);
    /* On a busy machine it is not refused yet. */
    fail_unless(strstr(text, "no sender listens on") || strstr(text, "has not answered yet"), "%s",
                text);
    fail_unless(strstr(text, other) == NULL && strstr(text, "now") == NULL, "%s", text);
    fail_unless(g_str_has_suffix(text, "?"), "%s", text);
}

/* A file's sender says so, too. */
TEST(test_waiting_sink_is_told)
{
    GstHarness *sink = ends_sink(NULL);

    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    GThread *thread = push_aside(sink);
    g_free(expect_info(sink, ends_own(), "first receiver"));
    gst_element_set_state(sink->element, GST_STATE_NULL);
    g_thread_join(thread);
}

static GMutex log_lock;
static GString *logged[GST_LEVEL_COUNT];

static void log_line(GstDebugCategory *category, GstDebugLevel level, const gchar *file,
                     const gchar *function, gint line, GObject *object, GstDebugMessage *message,
                     gpointer user)
{
    if (!g_str_has_prefix(gst_debug_category_get_name(category), "gpudirect"))
        return;
    g_mutex_lock(&log_lock);
    g_string_append_printf(logged[level], "%s: %s\n", gst_debug_category_get_name(category),
                           gst_debug_message_get(message));
    g_mutex_unlock(&log_lock);
}

static guint count_lines(GstDebugLevel level, const gchar *part)
{
    guint count = 0;

    g_mutex_lock(&log_lock);
    for (const gchar *at = logged[level]->str; (at = strstr(at, part)); at++)
        count++;
    g_mutex_unlock(&log_lock);
    return count;
}

static void check_logged(GstDebugLevel level, const gchar *part, guint at_least)
{
    ENDS_UNTIL(5, count_lines(level, part) >= at_least, "\"%s\" stands %u times in\n%s", part,
               count_lines(level, part), logged[level]->str);
}

/* Level 4: addresses, routes, epochs, connects and disconnects, with reasons. 5: negotiated
 * settings. 6: frames. */
TEST(test_levels_of_the_log)
{
    for (guint i = 0; i < GST_LEVEL_COUNT; i++)
        logged[i] = g_string_new(NULL);
    gst_debug_set_threshold_from_string("gpudirect*:6", FALSE);
    gst_debug_remove_log_function(gst_debug_log_default);
    gst_debug_add_log_function(log_line, NULL, NULL);

    GstHarness *src = ends_src("on-eos=wait");
    GstHarness *sink = open_sink(CAPS_SMALL);
    for (guint i = 0; i < 5; i++) {
        send(sink, CAPS_SMALL, i);
        pull_picture(src, CAPS_SMALL, i);
    }
    gst_harness_push_event(sink, gst_event_new_eos());
    check_logged(GST_LEVEL_INFO, "ended its stream", 1);
    ends_close(sink);
    check_logged(GST_LEVEL_INFO, "the link to", 1);
    ends_close(src);

    const gchar *told[] = {"sending on /",
                           "receiving from /",
                           "epoch 1: 64x16 UYVY, 2048 bytes a frame\n",
                           "epoch 1: 64x16 UYVY, 2048 bytes a frame, by map",
                           "connected by map",
                           "connected to",
                           "the stream ends after 5 frames",
                           "said goodbye: the sender stopped"};
    for (guint i = 0; i < G_N_ELEMENTS(told); i++)
        check_logged(GST_LEVEL_INFO, told[i], 1);
    check_logged(GST_LEVEL_DEBUG, "gpudirectsink: slots of 2048 bytes on the host", 1);
    check_logged(GST_LEVEL_DEBUG, "gpudirectsrc: the sender's format", 1);
    check_logged(GST_LEVEL_LOG, "gpudirectsink: no slot: buffer", 5);
    check_logged(GST_LEVEL_LOG, "gpudirectsrc: a slot: buffer", 5);
    /* What happens once a frame stands on no lower level. */
    fail_unless(count_lines(GST_LEVEL_INFO, "\n") < 30, "%s", logged[GST_LEVEL_INFO]->str);

    gst_debug_remove_log_function(log_line);
    for (guint i = 0; i < GST_LEVEL_COUNT; i++)
        g_string_free(logged[i], TRUE);
}

ENDS_MAIN(60)
