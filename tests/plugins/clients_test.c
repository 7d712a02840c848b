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
    g_autofree gchar *address = ends_address();
    g_autoptr(EndsPipeline) sender = ends_pipeline(
        "videotestsrc is-live=true ! " CAPS_SMALL " ! gpudirectsink address=%s %s", address, key);
    g_autoptr(EndsPipeline) receiver =
        ends_pipeline("gpudirectsrc address=%s %s ! fakesink sync=false", address, key);

    gst_object_set_name(GST_OBJECT(sender), "studio1");
    gst_element_set_state(sender, GST_STATE_PLAYING);
    gst_element_set_state(receiver, GST_STATE_PLAYING);
    check_names(address, "studio1", program_invocation_short_name);
    gst_element_set_state(receiver, GST_STATE_NULL);
    gst_element_set_state(sender, GST_STATE_NULL);
    gst_object_set_name(GST_OBJECT(sender), "pipeline7");
    gst_object_set_name(GST_OBJECT(receiver), "pipeline-of-studio2");
    gst_element_set_state(sender, GST_STATE_PLAYING);
    gst_element_set_state(receiver, GST_STATE_PLAYING);
    check_names(address, program_invocation_short_name, "pipeline-of-studio2");
}

struct gate {
    GMutex lock;
    GCond changed;
    gboolean inside, open, gone;
};

static void gate_set(struct gate *gate, gboolean *what)
{
    g_mutex_lock(&gate->lock);
    *what = TRUE;
    g_cond_broadcast(&gate->changed);
    g_mutex_unlock(&gate->lock);
}

static gboolean gate_wait(struct gate *gate, const gboolean *what, gint64 microseconds)
{
    gint64 deadline = g_get_monotonic_time() + microseconds;

    g_mutex_lock(&gate->lock);
    while (!*what && g_cond_wait_until(&gate->changed, &gate->lock, deadline))
        ;
    gboolean set = *what;
    g_mutex_unlock(&gate->lock);
    return set;
}

static void stand_at(struct gate *gate)
{
    gate_set(gate, &gate->inside);
    fail_unless(gate_wait(gate, &gate->open, 10 * G_TIME_SPAN_SECOND));
}

static void stand_in_handler(GstElement *element, guint64 id, GstStructure *peer, gpointer gate)
{
    stand_at(gate);
}

static void element_gone(gpointer gate, GObject *element)
{
    gate_set(gate, &((struct gate *)gate)->gone);
}

/* A handler that runs longer than the pipeline lives is not waited for. */
TEST(test_signal_handler_outlives_the_bin)
{
    GstHarness *sink = ends_sink(NULL);
    GstElement *element = ends_element(sink);
    struct gate gate = {.inside = FALSE};

    g_signal_connect(element, "client-connected", G_CALLBACK(stand_in_handler), &gate);
    g_object_weak_ref(G_OBJECT(element), element_gone, &gate);
    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    GstHarness *src = ends_src(NULL);
    fail_unless(gate_wait(&gate, &gate.inside, 5 * G_TIME_SPAN_SECOND));
    ends_close(sink);
    ends_close(src);
    fail_if(gate.gone);
    gate_set(&gate, &gate.open);
    fail_unless(gate_wait(&gate, &gate.gone, 5 * G_TIME_SPAN_SECOND));
}

static GstBusSyncReply stand_in_message(GstBus *bus, GstMessage *message, gpointer gate)
{
    if (gst_message_has_name(message, "gpudirect-client-connected"))
        stand_at(gate);
    return GST_BUS_PASS;
}

static gpointer stop(gpointer element)
{
    struct gate *gate = g_object_get_data(element, "gate");

    gst_element_set_state(element, GST_STATE_NULL);
    gate_set(gate, &gate->gone);
    return NULL;
}

/* A message that is being posted uses the bin, which nothing else keeps alive: stopping waits. */
TEST(test_stop_waits_for_a_message)
{
    g_autofree gchar *address = ends_address();
    g_autoptr(GstHarness) sink = ends_sink_at(address, NULL);
    g_autoptr(GstBus) bus = ends_bus(sink);
    struct gate gate = {.inside = FALSE};

    gst_bus_set_sync_handler(bus, stand_in_message, &gate, NULL);
    g_object_set_data(G_OBJECT(sink->element), "gate", &gate);
    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    ends_src_at(address, NULL);
    fail_unless(gate_wait(&gate, &gate.inside, 5 * G_TIME_SPAN_SECOND));
    GThread *thread = g_thread_new("stop", stop, sink->element);
    fail_if(gate_wait(&gate, &gate.gone, G_TIME_SPAN_SECOND / 4));
    gate_set(&gate, &gate.open);
    g_thread_join(thread);
}

ENDS_MAIN(60)
