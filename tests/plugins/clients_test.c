/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sink's signals and messages about receivers that connect and disconnect. */
#include "ends.h"

#include <errno.h>
#include <gpudirect/channel.h>

static void count_client(GstElement *element, guint64 id, GstStructure *peer, gint *count)
{
    guint64 same;
    gchar *path;

    fail_unless(
        gst_structure_get(peer, "id", G_TYPE_UINT64, &same, "path", G_TYPE_STRING, &path, NULL));
    fail_unless(id == same);
    g_free(path);
    /* A handler may call anything. */
    g_object_get(element, "active-path", &path, NULL);
    g_free(path);
    g_atomic_int_inc(count);
}

TEST(test_client_signals)
{
    g_autoptr(GstHarness) sink = ends_sink(NULL);
    gint connected = 0, disconnected = 0;

    g_signal_connect(ends_element(sink), "client-connected", G_CALLBACK(count_client), &connected);
    g_signal_connect(ends_element(sink), "client-disconnected", G_CALLBACK(count_client),
                     &disconnected);
    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    for (guint round = 1; round <= 5; round++) {
        GstHarness *src = ends_src(NULL);
        ends_wait_clients(sink, 1);
        ends_close(src);
        ends_wait_clients(sink, 0);
        ENDS_UNTIL(5, g_atomic_int_get(&disconnected) >= (gint)round);
        fail_unless_equals_int(g_atomic_int_get(&connected), round);
        fail_unless_equals_int(g_atomic_int_get(&disconnected), round);
    }
}

/* The channel's sender and its receiver in the list of channels, once both are there. */
static void check_names(const gchar *address, const gchar *sender, const gchar *receiver)
{
    struct gpud_channel_info info = GPUD_INFO_INIT(info);
    struct gpud_channel_list *list;
    struct gpud_error error;
    uint32_t count;

    /* By its address it would be asked over the network, which takes a key. */
    const gchar *where = g_getenv("GPUD_TEST_ADDRESS") ? NULL : address;

    for (guint tries = 0; tries < 1000; tries++) {
        fail_unless(gpud_channel_list_create(where, GPUD_SEC, &list, &count, NULL, &error) ==
                        GPUD_OK,
                    "%s", error.reason);
        gboolean there = count == 1 &&
                         gpud_channel_list_get_info(list, 0, &info, &error) == GPUD_OK &&
                         info.links == 1;
        if (there) {
            fail_unless_equals_string(info.name, sender);
            fail_unless_equals_string(info.link[0]->name, receiver);
        }
        gpud_channel_list_destroy(&list);
        if (there)
            return;
        g_usleep(10000);
    }
    fail("the receiver is not listed");
}

/* Senders and receivers have the name that the application gave to their pipeline, else that of the
 * program: GStreamer's own says nothing. */
TEST(test_names_of_pipelines)
{
    const gchar *file = g_getenv("GPUD_TEST_KEY"); /* between hosts */
    g_autofree gchar *key = file ? g_strconcat("psk-file=", file, NULL) : g_strdup("");
    const gchar *address = ends_own();
    g_autoptr(EndsPipeline) sender = ends_pipeline(
        "videotestsrc is-live=true ! " CAPS_SMALL " ! gpudirectsink address=%s %s", address, key);
    g_autoptr(EndsPipeline) receiver =
        ends_pipeline("gpudirectsrc address=%s %s ! fakesink sync=false", address, key);

    gst_object_set_name(GST_OBJECT(sender), "studio1");
    ends_play(sender);
    ends_play(receiver);
    check_names(address, "studio1", program_invocation_short_name);
    gst_element_set_state(receiver, GST_STATE_NULL);
    gst_element_set_state(sender, GST_STATE_NULL);
    gst_object_set_name(GST_OBJECT(sender), "pipeline7");
    gst_object_set_name(GST_OBJECT(receiver), "pipeline-of-studio2");
    ends_play(sender);
    ends_play(receiver);
    check_names(address, program_invocation_short_name, "pipeline-of-studio2");
}

static gint inside, open, gone; /* atomic */

/* In a call from the sink, until the test lets it go on. */
static void stand(void)
{
    g_atomic_int_set(&inside, TRUE);
    ENDS_UNTIL(10, g_atomic_int_get(&open));
}

static void stand_in_handler(GstElement *element, guint64 id, GstStructure *peer, gpointer user)
{
    stand();
}

static void element_gone(gpointer user, GObject *element)
{
    g_atomic_int_set(&gone, TRUE);
}

/* A handler that runs longer than the pipeline lives is not waited for. */
TEST(test_signal_handler_outlives_the_bin)
{
    GstHarness *sink = ends_sink(NULL);
    GstElement *element = ends_element(sink);

    inside = open = gone = FALSE;
    g_signal_connect(element, "client-connected", G_CALLBACK(stand_in_handler), NULL);
    g_object_weak_ref(G_OBJECT(element), element_gone, NULL);
    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    GstHarness *src = ends_src(NULL);
    ENDS_UNTIL(5, g_atomic_int_get(&inside));
    ends_close(sink);
    ends_close(src);
    fail_if(g_atomic_int_get(&gone));
    g_atomic_int_set(&open, TRUE);
    ENDS_UNTIL(5, g_atomic_int_get(&gone));
}

static GstBusSyncReply stand_in_message(GstBus *bus, GstMessage *message, gpointer user)
{
    if (gst_message_has_name(message, "gpudirect-client-connected"))
        stand();
    return GST_BUS_PASS;
}

static gpointer stop(gpointer element)
{
    gst_element_set_state(element, GST_STATE_NULL);
    g_atomic_int_set(&gone, TRUE);
    return NULL;
}

/* A message that is being posted uses the bin, which nothing else keeps alive: stopping waits. */
TEST(test_stop_waits_for_a_message)
{
    g_autofree gchar *address = ends_address();
    g_autoptr(GstHarness) sink = ends_sink_at(address, NULL);
    g_autoptr(GstBus) bus = ends_bus(sink);

    inside = open = gone = FALSE;
    gst_bus_set_sync_handler(bus, stand_in_message, NULL, NULL);
    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    ends_src_at(address, NULL);
    ENDS_UNTIL(5, g_atomic_int_get(&inside));
    GThread *thread = g_thread_new("stop", stop, sink->element);
    g_usleep(G_USEC_PER_SEC / 4);
    fail_if(g_atomic_int_get(&gone), "stopping does not wait");
    g_atomic_int_set(&open, TRUE);
    g_thread_join(thread);
}

ENDS_MAIN(60)
