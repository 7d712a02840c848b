/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sticky events reach receivers that connect late, and what the sink says itself. */
#include "ends.h"

static GstHarness *sink, *src;

static void setup(const gchar *properties)
{
    sink = ends_sink(properties ? properties : "wait-for-connection=false");
    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
}

static void say(GstEventType type, const gchar *name, gint number)
{
    GstStructure *structure = gst_structure_new(name, "number", G_TYPE_INT, number, NULL);

    fail_unless(gst_harness_push_event(sink, gst_event_new_custom(type, structure)));
}

static void stick(const gchar *name, gint number)
{
    say(GST_EVENT_CUSTOM_DOWNSTREAM_STICKY, name, number);
}

static void frame(void)
{
    gst_harness_push(sink, ends_picture(CAPS_SMALL, 1));
    ends_skip(src, 1);
}

/* A receiver comes, and gets a frame. */
static void join(void)
{
    src = ends_src(NULL);
    ends_wait_clients(sink, 1);
    frame();
}

/* The number that sticks to the pad downstream by this name, or -1. */
static gint stuck(const gchar *name)
{
    GstEvent *event;
    gint number = -1;

    for (guint i = 0;
         (event = gst_pad_get_sticky_event(src->sinkpad, GST_EVENT_CUSTOM_DOWNSTREAM_STICKY, i));
         i++) {
        if (gst_event_has_name(event, name))
            fail_unless(gst_structure_get_int(gst_event_get_structure(event), "number", &number));
        gst_event_unref(event);
    }
    return number;
}

static guint count_events(GstEventType type)
{
    GstEvent *event;
    guint count = 0;

    while ((event = gst_harness_try_pull_event(src))) {
        count += GST_EVENT_TYPE(event) == type;
        gst_event_unref(event);
    }
    return count;
}

TEST(test_late_receiver_gets_the_last_of_each_name)
{
    setup(NULL);
    stick("cue", 1);
    stick("on-air", 2);
    stick("cue", 3);
    say(GST_EVENT_CUSTOM_DOWNSTREAM, "once", 4);
    join();
    fail_unless_equals_int(stuck("cue"), 3);
    fail_unless_equals_int(stuck("on-air"), 2);
    fail_unless_equals_int(count_events(GST_EVENT_CUSTOM_DOWNSTREAM_STICKY), 2);

    /* And the one after it what was said since. */
    ends_close(src);
    ends_wait_clients(sink, 0);
    stick("on-air", 5);
    join();
    fail_unless_equals_int(stuck("cue"), 3);
    fail_unless_equals_int(stuck("on-air"), 5);
    fail_unless_equals_int(count_events(GST_EVENT_CUSTOM_DOWNSTREAM), 0);
}

TEST(test_present_receiver_gets_each)
{
    setup(NULL);
    join();
    for (gint i = 0; i < 3; i++) {
        stick("cue", i);
        frame();
        fail_unless_equals_int(stuck("cue"), i);
    }
    fail_unless_equals_int(count_events(GST_EVENT_CUSTOM_DOWNSTREAM_STICKY), 3);
}

#define NAMES 100

/* Those of the names cue-0, cue-1, … that stick, each with its own number. */
static guint count_stuck(void)
{
    guint count = 0;

    for (gint i = 0; i < NAMES; i++) {
        g_autofree gchar *name = g_strdup_printf("cue-%d", i);
        gint number = stuck(name);
        fail_unless(number == -1 || number == i);
        count += number >= 0;
    }
    return count;
}

/* Each name holds memory on both sides, for as long as the stream lasts. */
TEST(test_names_are_bounded)
{
    setup(NULL);
    join();
    for (gint i = 0; i < NAMES; i++) {
        g_autofree gchar *name = g_strdup_printf("cue-%d", i);
        stick(name, i);
    }
    frame();
    fail_unless_equals_int(count_stuck(), 64);

    ends_close(src);
    ends_wait_clients(sink, 0);
    join();
    fail_unless_equals_int(count_stuck(), 13);
    fail_unless_equals_int(stuck("cue-0"), 0);
}

static void say_title(GstTagScope scope, const gchar *title)
{
    GstTagList *tags = gst_tag_list_new(GST_TAG_TITLE, title, NULL);

    gst_tag_list_set_scope(tags, scope);
    fail_unless(gst_harness_push_event(sink, gst_event_new_tag(tags)));
}

static void expect_title(GstTagScope scope, const gchar *wanted)
{
    GstEvent *event;
    gboolean found = FALSE;

    for (guint i = 0; (event = gst_pad_get_sticky_event(src->sinkpad, GST_EVENT_TAG, i)); i++) {
        GstTagList *tags;
        gchar *title;
        gst_event_parse_tag(event, &tags);
        if (gst_tag_list_get_scope(tags) == scope) {
            found = TRUE;
            fail_unless(gst_tag_list_get_string(tags, GST_TAG_TITLE, &title));
            fail_unless_equals_string(title, wanted);
            g_free(title);
        }
        gst_event_unref(event);
    }
    fail_unless(found, "no tags with the title \"%s\"", wanted);
}

/* The tags of the stream, and those of all that it belongs to, hold at once. */
TEST(test_tags_of_both_scopes)
{
    setup(NULL);
    say_title(GST_TAG_SCOPE_STREAM, "Kamera 1");
    say_title(GST_TAG_SCOPE_GLOBAL, "Galopprennen");
    join();
    expect_title(GST_TAG_SCOPE_STREAM, "Kamera 1");
    expect_title(GST_TAG_SCOPE_GLOBAL, "Galopprennen");
}

/* Only receivers at another host are told that there is another address. */
TEST(test_another_address)
{
    gboolean is_local = !g_getenv("GPUD_TEST_ADDRESS");
    g_autofree gchar *another = ends_address();

    setup(NULL);
    join();
    fail_unless_equals_int(count_events(GST_EVENT_CUSTOM_DOWNSTREAM), 0);
    ends_sink_at(another, NULL);
    frame();
    frame();
    fail_unless_equals_int(count_events(GST_EVENT_CUSTOM_DOWNSTREAM), is_local ? 0 : 1);
}

/* A receiver that waits gets what is said before a file's first frame. */
TEST(test_events_before_the_first_frame)
{
    setup("");
    say(GST_EVENT_CUSTOM_DOWNSTREAM, "first", 1);
    say(GST_EVENT_CUSTOM_DOWNSTREAM, "second", 2);
    src = ends_src(NULL);
    frame();
    for (gint i = 1; i <= 2; i++) {
        g_autoptr(GstEvent) event = ends_wait_event(src, GST_EVENT_CUSTOM_DOWNSTREAM);
        gint number;
        fail_unless(gst_structure_get_int(gst_event_get_structure(event), "number", &number));
        fail_unless_equals_int(number, i);
    }
    fail_unless_equals_int(count_events(GST_EVENT_CUSTOM_DOWNSTREAM), 0);
}

TEST(test_tags_with_several_values)
{
    setup(NULL);
    join();
    gst_harness_push_event(
        sink, gst_event_new_tag(gst_tag_list_new(GST_TAG_ARTIST, "Grete", GST_TAG_ARTIST, "Hans",
                                                 GST_TAG_TITLE, "one", GST_TAG_BITRATE, 5u, NULL)));
    frame();
    g_autoptr(GstEvent) event = ends_wait_event(src, GST_EVENT_TAG);
    g_autofree gchar *second = NULL, *title = NULL;
    GstTagList *tags;

    gst_event_parse_tag(event, &tags);
    fail_unless_equals_int(gst_tag_list_get_tag_size(tags, GST_TAG_ARTIST), 2);
    fail_unless(gst_tag_list_get_string_index(tags, GST_TAG_ARTIST, 1, &second));
    fail_unless_equals_string(second, "Hans");
    fail_unless(gst_tag_list_get_string(tags, GST_TAG_TITLE, &title));
    fail_unless_equals_string(title, "one");
}

/* Times are running times, and so are durations. */
TEST(test_durations_at_double_speed)
{
    GstSegment segment;

    setup(NULL);
    src = ends_src(NULL);
    ends_wait_clients(sink, 1);
    gst_segment_init(&segment, GST_FORMAT_TIME);
    segment.rate = 2.0;
    gst_harness_push_event(sink, gst_event_new_segment(&segment));
    for (guint i = 0; i < 2; i++) {
        GstBuffer *buffer = ends_picture(CAPS_SMALL, i);
        GST_BUFFER_PTS(buffer) = i * 40 * GST_MSECOND;
        GST_BUFFER_DURATION(buffer) = 40 * GST_MSECOND;
        gst_harness_push(sink, buffer);
        buffer = ends_pull(src);
        fail_unless_equals_uint64(GST_BUFFER_DURATION(buffer), 20 * GST_MSECOND);
        gst_buffer_unref(buffer);
    }
}

/* What was dropped since the last message, of which one comes every 32 frames, is said at the end.
 */
TEST(test_drops_before_the_end_are_reported)
{
    guint64 dropped = 0;

    setup("slow-receiver=drop-newest");
    g_autoptr(GstBus) bus = ends_bus(sink);
    join();
    gst_element_set_state(src->element, GST_STATE_PAUSED);
    for (guint i = 0; i < 20; i++)
        gst_harness_push(sink, ends_picture(CAPS_SMALL, i));
    gst_harness_push_event(sink, gst_event_new_eos());
    g_autoptr(GstMessage) message = ends_wait_message(bus, GST_MESSAGE_QOS, 5);
    fail_unless(message != NULL, "no QoS message");
    gst_message_parse_qos_stats(message, NULL, NULL, &dropped);
    fail_unless(dropped > 0);
    fail_unless_equals_uint64(dropped, ends_stat(sink, "dropped-slow-receiver"));
}

ENDS_MAIN(60)
