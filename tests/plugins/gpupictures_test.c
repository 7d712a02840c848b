/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pictures in a GPU's memory, between its vendor's elements in GStreamer and ours: what arrives is
 * what was sent, and what it costs. Runs with a driver in host memory, and as it is on a GPU. */
#include "ends.h"
#include "lines.h"
#include "../support/count.h"

#include <glib/gstdio.h>
#include <string.h>

/* --- both ends in one process ------------------------------------------------------------- */

static GstHarness *sink, *src;

/* The uploader writes into the ring itself, and the receiver reads from it: there is no copy. */
TEST(test_lent)
{
    static const gchar *const caps[] = {CAPS_SMALL, CAPS_NV12, CAPS_I420, CAPS_BGRA};

    for (guint i = 0; i < G_N_ELEMENTS(caps); i++) {
        lines_run(UPLOAD " !", ON_GPU, ON_GPU " ! " TO_CPU, caps[i], &sink, &src);
        ends_check_copies(sink, 0, 0);
        ends_check_copies(src, 0, 0);
        ends_close(src);
        ends_close(sink);
    }
}

/* Another element's memory of the GPU: one copy, by the GPU. */
TEST(test_foreign)
{
    lines_run(FOREIGN " !", ON_GPU, ON_GPU " ! " TO_CPU, CAPS_NV12, &sink, &src);
    ends_check_copies(sink, FRAMES, 0);
}

/* Memory of the CPU's goes up, memory of the GPU comes down, and neither end knows of the other. */
TEST(test_up_and_down)
{
    static const gchar *const cases[][3] = {
        {"", ON_GPU, ON_GPU " ! " TO_CPU},
        {UPLOAD " !", ON_GPU, ""},
        {"", "", ON_GPU " ! " TO_CPU},
        {UPLOAD " !", ON_GPU, ON_GPU " ! capsfilter caps=video/x-raw"},
    };

    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        lines_run(cases[i][0], cases[i][1], cases[i][2], CAPS_NV12, &sink, &src);
        ends_close(src);
        ends_close(sink);
    }
}

static void expect_on_gpu(GstHarness *line)
{
    g_autofree gchar *reason = ends_stat_text(ends_element(line), "device-reason");

    ends_check_stat(ends_element(line), "device", GPU_0);
    fail_unless(g_str_has_prefix(reason, GPU_0 " is the "), "the reason is \"%s\"", reason);
}

/* `auto` follows the caps on both ends: nothing is copied, so both are on the GPU. */
TEST(test_auto)
{
    lines_run(UPLOAD " !", "", "! " ONLY_GPU " ! " TO_CPU, CAPS_NV12, &sink, &src);
    expect_on_gpu(sink);
    expect_on_gpu(src);
    fail_unless_equals_uint64(ends_stat(sink, "copies-gpu"), 0);
    ends_check_copies(src, 0, 0);
}

/* Without a GPU in the caps `auto` stays where it was. */
TEST(test_auto_host)
{
    lines_run("", "", "! capsfilter caps=video/x-raw", CAPS_NV12, &sink, &src);
    fail_unless_equals_uint64(ends_stat(sink, "copies-gpu"), 0);
}

/* One link's slots are foreign memory to the next: the GPU copies them on. */
TEST(test_relay)
{
    g_autofree gchar *one = ends_address(), *two = ends_address();
    src = line_new(RECEIVE " address=%s ! " TO_CPU, two);
    sink = line_new(UPLOAD " ! gpudirectsink name=end sync=false " ON_GPU " address=%s", one);
    g_autoptr(EndsPipeline) relay =
        ends_pipeline("gpudirectsrc address=%s " ON_GPU " ! gpudirectsink name=end "
                      "sync=false " ON_GPU " slow-receiver=block "
                      "wait-for-connection=true address=%s",
                      one, two);

    ends_play(relay);
    ends_start(sink, CAPS_NV12);
    lines_exchange(sink, src, CAPS_NV12, 0, FRAMES);
    fail_unless_equals_uint64(ends_stat_of(ends_in(relay, "end"), "copies-gpu"), FRAMES);
    fail_unless_equals_uint64(ends_stat_of(ends_in(relay, "end"), "copies-cpu"), 0);
}

/* --- changes ------------------------------------------------------------------------------ */

TEST(test_renegotiation)
{
    lines_run(UPLOAD " !", ON_GPU, ON_GPU " ! " TO_CPU, CAPS_NV12, &sink, &src);
    gst_harness_set_src_caps_str(sink, CAPS_I420);
    lines_exchange(sink, src, CAPS_I420, 20, 24);
    gst_harness_set_src_caps_str(sink, CAPS_NV12);
    lines_exchange(sink, src, CAPS_NV12, 30, 34);
    fail_unless_equals_uint64(ends_stat(sink, "copies-gpu"), 0);
}

/* System memory, then the GPU's, in one stream; the ring moves to the GPU and the receiver
 * follows it. */
TEST(test_move)
{
    src = line_new("gpudirectsrc name=end address=%s ! capsfilter caps=video/x-raw", ends_own());
    sink = line_new("gpudirectsink name=end sync=false address=%s", ends_own());
    GstHarness *upload = line_new(UPLOAD);

    ends_start(sink, CAPS_NV12);
    lines_exchange(sink, src, CAPS_NV12, 0, 3);
    gst_harness_set_src_caps_str(sink, GPU_NV12);
    gst_harness_set_src_caps_str(upload, CAPS_NV12);
    for (guint i = 3; i < 9; i++) {
        GstBuffer *on_gpu = gst_harness_push_and_pull(upload, ends_picture(CAPS_NV12, i));
        fail_unless_equals_int(gst_harness_push(sink, on_gpu), GST_FLOW_OK);
        ends_take(src, CAPS_NV12, i);
    }
    gst_harness_set_src_caps_str(sink, CAPS_NV12);
    lines_exchange(sink, src, CAPS_NV12, 9, 12);
}

TEST(test_states)
{
    for (guint i = 0; i < 15; i++) {
        lines_run(UPLOAD " !", ON_GPU, ON_GPU " ! " TO_CPU, CAPS_NV12, &sink, &src);
        gst_element_set_state(sink->element, GST_STATE_NULL);
        gst_element_set_state(src->element, GST_STATE_NULL);
        ends_close(src);
        ends_close(sink);
    }
}

/* The same elements, up and down again, with pictures on their way. */
TEST(test_up_down)
{
    g_autoptr(EndsPipeline) sender =
        ends_pipeline("videotestsrc is-live=true ! " CAPS_NV12 " ! " UPLOAD
                      " ! gpudirectsink address=%s sync=false " ON_GPU,
                      ends_own());
    g_autoptr(EndsPipeline) receiver =
        ends_pipeline("gpudirectsrc address=%s " ON_GPU " ! fakesink sync=false", ends_own());

    for (guint i = 0; i < 20; i++) {
        ends_play(receiver);
        ends_play(sender);
        g_usleep(i % 4 * 20000);
        fail_if(gst_element_set_state(i % 2 ? sender : receiver, GST_STATE_NULL) ==
                GST_STATE_CHANGE_FAILURE);
        g_usleep(i % 3 * 10000);
    }
}

/* --- two processes ------------------------------------------------------------------------ */

TEST(test_from_process)
{
    src = line_new(RECEIVE " address=%s ! " TO_CPU, ends_own());
    GstHarness *reference =
        line_new("videotestsrc num-buffers=%d ! capsfilter caps=" CAPS_NV12, FRAMES);
    GPid peer = ends_spawn("videotestsrc num-buffers=%d ! " CAPS_NV12 " ! " UPLOAD
                           " ! gpudirectsink sync=false " ON_GPU " address=%s",
                           FRAMES, ends_own());

    for (guint i = 0; i < FRAMES; i++) {
        g_autoptr(GstBuffer) wanted = ends_pull(reference), got = ends_pull(src);
        line_compare(wanted, got, CAPS_NV12);
    }
    fail_unless_equals_uint64(ends_stat(src, "copies-gpu"), 0);
    line_reap(peer);
}

TEST(test_to_process)
{
    g_autofree gchar *file = g_build_filename(g_getenv("XDG_RUNTIME_DIR"), "received.raw", NULL);
    sink =
        line_new(UPLOAD " ! gpudirectsink name=end sync=false " ON_GPU " address=%s", ends_own());
    GPid peer = ends_spawn("gpudirectsrc " ON_GPU " address=%s ! " TO_CPU
                           " ! videoconvert ! filesink location=%s",
                           ends_own(), file);
    g_autofree gchar *content = NULL;
    gsize size;

    ends_start(sink, CAPS_I420);
    for (guint i = 0; i < FRAMES; i++)
        ends_push(sink, CAPS_I420, i);
    gst_harness_push_event(sink, gst_event_new_eos());
    line_reap(peer);
    fail_unless_equals_uint64(ends_stat(sink, "copies-gpu"), 0);
    fail_unless(g_file_get_contents(file, &content, &size, NULL));
    fail_unless_equals_uint64(size % FRAMES, 0);
    for (guint i = 0; i < FRAMES; i++) {
        gsize one = size / FRAMES;
        g_autoptr(GstBuffer) got = gst_buffer_new_memdup(content + i * one, one);
        ends_check_picture(got, CAPS_I420, i);
    }
    ends_close(sink);
    g_remove(file);
}

/* Shared mappings of this process: ring pages, and what the driver maps for others. */
static guint count_mappings(void)
{
    g_autofree gchar *maps = NULL;
    guint count = 0;

    fail_unless(g_file_get_contents("/proc/self/maps", &maps, NULL, NULL));
    for (const gchar *at = maps; (at = strstr(at, "/memfd:")); at++)
        count++;
    return count;
}

/* A sink that stops has given everything of its links back: descriptors, mappings, GPU memory. */
TEST(test_nothing_is_left_open)
{
    struct left {
        guint fds, mappings;
        guint64 memory;
    } first = {0}, now;

    GstObject *context = lines_vendor_context(); /* for the questions, and all the while */
    for (guint round = 0; round < 4; round++) {
        sink = line_new(UPLOAD " ! gpudirectsink name=end " ON_GPU " address=%s", ends_own());
        GPid peer = ends_spawn("gpudirectsrc " ON_GPU " address=%s ! fakesink", ends_own());
        ends_start(sink, CAPS_NV12);
        for (guint i = 0; i < FRAMES; i++)
            gst_harness_push(sink, ends_picture(CAPS_NV12, i));
        gst_harness_push_event(sink, gst_event_new_eos());
        line_reap(peer);
        ends_wait_clients(sink, 0);
        ends_close(sink);
        now = (struct left){count_fds(), count_mappings(), lines_vendor_free_memory(context)};
        if (round == 0)
            first = now; /* what lives as long as the process is there by now */
        fail_unless(now.fds <= first.fds && now.mappings <= first.mappings &&
                        now.memory >= first.memory,
                    "%u descriptors, %u mappings, %" G_GUINT64_FORMAT " bytes free; before %u, %u, "
                    "%" G_GUINT64_FORMAT,
                    now.fds, now.mappings, now.memory, first.fds, first.mappings, first.memory);
    }
    gst_object_unref(context);
}

/* While the sender is gone, in memory of the GPU as before. */
TEST(test_stand_ins)
{
    static const gchar *const modes[] = {"freeze", "black"};

    for (guint m = 0; m < G_N_ELEMENTS(modes); m++) {
        g_autofree gchar *after =
            g_strdup_printf(ON_GPU " on-disconnect=%s ! " ONLY_GPU " ! " TO_CPU, modes[m]);
        GstBuffer *buffer = NULL;

        lines_run(UPLOAD " !", ON_GPU, after, CAPS_I420, &sink, &src);
        ends_close(sink);
        while (ends_stat(src, "stood-in") < 3) {
            gst_clear_buffer(&buffer);
            buffer = ends_pull(src);
        }
        if (m == 0)
            ends_check_picture(buffer, CAPS_I420, FRAMES - 1);
        else
            ends_check_black(buffer, CAPS_I420);
        gst_buffer_unref(buffer);
        ends_close(src);
    }
}

/* An element asks its neighbour for caps while it starts: here the neighbour sets a property. */
static gboolean set_slots(GstPad *pad, GstObject *parent, GstQuery *query)
{
    g_autoptr(GstPad) peer = gst_pad_get_peer(pad);
    g_autoptr(GstElement) element = gst_pad_get_parent_element(peer);

    if (GST_QUERY_TYPE(query) == GST_QUERY_CAPS)
        g_object_set(element, "slots", 1, NULL);
    return gst_pad_query_default(pad, parent, query);
}

/* What an element starts with was checked, and stays so. */
TEST(test_set_while_it_starts, .times = 2)
{
    g_autoptr(GstElement) element =
        gst_element_factory_make(__i__ ? "gpudirectsrc" : "gpudirectsink", NULL);
    g_autoptr(GstPad) pad = gst_element_get_static_pad(element, __i__ ? "src" : "sink");
    g_autoptr(GstPad) peer = gst_pad_new("peer", __i__ ? GST_PAD_SINK : GST_PAD_SRC);
    g_autoptr(GstBus) bus = gst_bus_new();
    guint slots;

    gst_element_set_bus(element, bus);
    g_object_set(element, "address", "starts", "slots", 5, NULL);
    fail_unless_equals_int(__i__ ? gst_pad_link(pad, peer) : gst_pad_link(peer, pad),
                           GST_PAD_LINK_OK);
    gst_pad_set_query_function(peer, set_slots);
    gst_pad_set_active(peer, TRUE);
    fail_unless(gst_element_set_state(element, GST_STATE_PAUSED) != GST_STATE_CHANGE_FAILURE);
    g_object_get(element, "slots", &slots, NULL);
    fail_unless_equals_int(slots, 5);
    g_autoptr(GstMessage) message = ends_wait_message(bus, GST_MESSAGE_WARNING, 5);
    fail_unless(message != NULL, "there was no warning that it was too late");
    gst_element_set_state(element, GST_STATE_NULL);
    g_object_set(element, "slots", 3, NULL);
    g_object_get(element, "slots", &slots, NULL);
    fail_unless_equals_int(slots, 3);
}

int main(int argc, char **argv)
{
    ends_init_environment();
    if (lines_count_gpus(&argc, &argv) == 0)
        return 77;
    gst_check_init(&argc, &argv);
    return ends_run_tests(120);
}
