/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pictures in a GPU's memory, between its vendor's elements in GStreamer and ours: what arrives is
 * what was sent, and what it costs. Runs with a driver in host memory, and as it is on a GPU. */
#include "ends.h"
#include "lines.h"

#include <glib/gstdio.h>
#include <string.h>

/* --- both ends in one process ------------------------------------------------------------- */

static void play(GstElement *pipeline, GstState state)
{
    fail_unless(gst_element_set_state(pipeline, state) != GST_STATE_CHANGE_FAILURE);
}

/* The uploader writes into the ring itself, and the receiver reads from it: there is no copy. */
TEST(test_lent)
{
    static const gchar *const caps[] = {CAPS_SMALL, CAPS_NV12, CAPS_I420, CAPS_BGRA};

    for (guint i = 0; i < G_N_ELEMENTS(caps); i++) {
        struct line sink, src;
        lines_run(UPLOAD " !", ON_GPU, ON_GPU " ! " TO_CPU, caps[i], &sink, &src);
        fail_unless_equals_uint64(line_stat(&sink, "copies-gpu"), 0);
        fail_unless_equals_uint64(line_stat(&sink, "copies-cpu"), 0);
        fail_unless_equals_uint64(line_stat(&src, "copies-gpu"), 0);
        fail_unless_equals_uint64(line_stat(&src, "copies-cpu"), 0);
        line_free(&src);
        line_free(&sink);
    }
}

/* Another element's memory of the GPU: one copy, by the GPU. */
TEST(test_foreign)
{
    struct line sink, src;

    lines_run(FOREIGN " !", ON_GPU, ON_GPU " ! " TO_CPU, CAPS_NV12, &sink, &src);
    fail_unless_equals_uint64(line_stat(&sink, "copies-gpu"), FRAMES);
    fail_unless_equals_uint64(line_stat(&sink, "copies-cpu"), 0);
    line_free(&src);
    line_free(&sink);
}

/* Memory of the CPU's goes up, memory of the GPU comes down, and neither end knows of the other. */
TEST(test_up_and_down)
{
    struct line sink, src;

    lines_run("", ON_GPU, ON_GPU " ! " TO_CPU, CAPS_NV12, &sink, &src);
    line_free(&src);
    line_free(&sink);
    lines_run(UPLOAD " !", ON_GPU, "", CAPS_NV12, &sink, &src);
    line_free(&src);
    line_free(&sink);
    lines_run("", "", ON_GPU " ! " TO_CPU, CAPS_NV12, &sink, &src);
    line_free(&src);
    line_free(&sink);
    lines_run(UPLOAD " !", ON_GPU, ON_GPU " ! capsfilter caps=video/x-raw", CAPS_NV12, &sink, &src);
    line_free(&src);
    line_free(&sink);
}

static void expect_on_gpu(struct line *line)
{
    g_autoptr(GstStructure) stats = NULL;

    g_object_get(line->end, "stats", &stats, NULL);
    const gchar *device = gst_structure_get_string(stats, "device");
    const gchar *reason = gst_structure_get_string(stats, "device-reason");
    fail_unless_equals_string(device, GPU_0);
    fail_unless(reason && g_str_has_prefix(reason, GPU_0 " is the "), "the reason is \"%s\"",
                reason);
}

/* `auto` follows the caps on both ends: nothing is copied, so both are on the GPU. */
TEST(test_auto)
{
    struct line sink, src;

    lines_run(UPLOAD " !", "", "! " ONLY_GPU " ! " TO_CPU, CAPS_NV12, &sink, &src);
    expect_on_gpu(&sink);
    expect_on_gpu(&src);
    fail_unless_equals_uint64(line_stat(&sink, "copies-gpu"), 0);
    fail_unless_equals_uint64(line_stat(&src, "copies-gpu"), 0);
    fail_unless_equals_uint64(line_stat(&src, "copies-cpu"), 0);
    line_free(&src);
    line_free(&sink);
}

/* Without a GPU in the caps `auto` stays where it was. */
TEST(test_auto_host)
{
    struct line sink, src;

    lines_run("", "", "! capsfilter caps=video/x-raw", CAPS_NV12, &sink, &src);
    fail_unless_equals_uint64(line_stat(&sink, "copies-gpu"), 0);
    line_free(&src);
    line_free(&sink);
}

/* One link's slots are foreign memory to the next: the GPU copies them on. */
TEST(test_relay)
{
    g_autofree gchar *one = ends_address(), *two = ends_address();
    struct line src = line_new(RECEIVE " address=%s ! " TO_CPU, two);
    struct line sink =
        line_new(UPLOAD " ! gpudirectsink name=end sync=false " ON_GPU " address=%s", one);
    g_autofree gchar *text =
        g_strdup_printf("gpudirectsrc address=%s " ON_GPU " ! gpudirectsink name=end "
                        "sync=false " ON_GPU " slow-receiver=block "
                        "wait-for-connection=true address=%s",
                        one, two);
    GstElement *relay = gst_parse_launch(text, NULL);

    play(relay, GST_STATE_PLAYING);
    gst_harness_set_src_caps_str(sink.harness, CAPS_NV12);
    line_wait_clients(&sink, 1);
    lines_exchange(&sink, &src, CAPS_NV12, 0, FRAMES);
    struct line between = {.end = gst_bin_get_by_name(GST_BIN(relay), "end")};
    fail_unless_equals_uint64(line_stat(&between, "copies-gpu"), FRAMES);
    fail_unless_equals_uint64(line_stat(&between, "copies-cpu"), 0);
    gst_object_unref(between.end);
    play(relay, GST_STATE_NULL);
    gst_object_unref(relay);
    line_free(&src);
    line_free(&sink);
}

/* --- changes ------------------------------------------------------------------------------ */

TEST(test_renegotiation)
{
    struct line sink, src;

    lines_run(UPLOAD " !", ON_GPU, ON_GPU " ! " TO_CPU, CAPS_NV12, &sink, &src);
    gst_harness_set_src_caps_str(sink.harness, CAPS_I420);
    lines_exchange(&sink, &src, CAPS_I420, 20, 24);
    gst_harness_set_src_caps_str(sink.harness, CAPS_NV12);
    lines_exchange(&sink, &src, CAPS_NV12, 30, 34);
    fail_unless_equals_uint64(line_stat(&sink, "copies-gpu"), 0);
    line_free(&src);
    line_free(&sink);
}

/* System memory, then the GPU's, in one stream; the ring moves to the GPU and the receiver
 * follows it. */
TEST(test_move)
{
    g_autofree gchar *address = ends_address();
    struct line src =
        line_new("gpudirectsrc name=end address=%s ! capsfilter caps=video/x-raw", address);
    struct line sink = line_new("gpudirectsink name=end sync=false address=%s", address);
    struct line upload = line_new(UPLOAD);

    gst_harness_set_src_caps_str(sink.harness, CAPS_NV12);
    line_wait_clients(&sink, 1);
    lines_exchange(&sink, &src, CAPS_NV12, 0, 3);
    gst_harness_set_src_caps_str(sink.harness, GPU_NV12);
    gst_harness_set_src_caps_str(upload.harness, CAPS_NV12);
    for (guint i = 3; i < 9; i++) {
        GstBuffer *on_gpu = gst_harness_push_and_pull(upload.harness, ends_picture(CAPS_NV12, i));
        fail_unless_equals_int(gst_harness_push(sink.harness, on_gpu), GST_FLOW_OK);
        g_autoptr(GstBuffer) got = ends_pull(src.harness);
        ends_check_picture(got, CAPS_NV12, i);
    }
    gst_harness_set_src_caps_str(sink.harness, CAPS_NV12);
    lines_exchange(&sink, &src, CAPS_NV12, 9, 12);
    line_free(&upload);
    line_free(&src);
    line_free(&sink);
}

TEST(test_states)
{
    for (guint i = 0; i < 15; i++) {
        struct line sink, src;
        lines_run(UPLOAD " !", ON_GPU, ON_GPU " ! " TO_CPU, CAPS_NV12, &sink, &src);
        gst_element_set_state(sink.harness->element, GST_STATE_NULL);
        gst_element_set_state(src.harness->element, GST_STATE_NULL);
        line_free(&src);
        line_free(&sink);
    }
}

/* The same elements, up and down again, with pictures on their way. */
TEST(test_up_down)
{
    g_autofree gchar *address = ends_address();
    g_autofree gchar *send = g_strdup_printf("videotestsrc is-live=true ! " CAPS_NV12 " ! " UPLOAD
                                             " ! gpudirectsink address=%s sync=false " ON_GPU,
                                             address);
    gchar *receive =
        g_strdup_printf("gpudirectsrc address=%s " ON_GPU " ! fakesink sync=false", address);
    GstElement *sender = gst_parse_launch(send, NULL);
    g_autoptr(GstElement) receiver = gst_parse_launch(receive, NULL);

    for (guint i = 0; i < 20; i++) {
        play(receiver, GST_STATE_PLAYING);
        play(sender, GST_STATE_PLAYING);
        g_usleep(i % 4 * 20000);
        play(i % 2 ? sender : receiver, GST_STATE_NULL);
        g_usleep(i % 3 * 10000);
    }
    play(sender, GST_STATE_NULL);
    play(receiver, GST_STATE_NULL);
    gst_object_unref(sender);
    g_free(receive);
}

/* --- two processes ------------------------------------------------------------------------ */

TEST(test_from_process)
{
    g_autofree gchar *address = ends_address();
    struct line src = line_new(RECEIVE " address=%s ! " TO_CPU, address);
    g_autofree gchar *text = g_strdup_printf("videotestsrc num-buffers=%d ! " CAPS_NV12 " ! " UPLOAD
                                             " ! gpudirectsink sync=false " ON_GPU " address=%s",
                                             FRAMES, address);
    struct line reference =
        line_new("videotestsrc num-buffers=%d ! capsfilter caps=" CAPS_NV12, FRAMES);
    GPid peer = line_spawn(text);

    for (guint i = 0; i < FRAMES; i++) {
        g_autoptr(GstBuffer) wanted = ends_pull(reference.harness), got = ends_pull(src.harness);
        line_compare(wanted, got, CAPS_NV12);
    }
    fail_unless_equals_uint64(line_stat(&src, "copies-gpu"), 0);
    line_reap(peer);
    line_free(&reference);
    line_free(&src);
}

TEST(test_to_process)
{
    g_autofree gchar *address = ends_address();
    g_autofree gchar *file = g_build_filename(g_getenv("XDG_RUNTIME_DIR"), "received.raw", NULL);
    g_autofree gchar *text = g_strdup_printf("gpudirectsrc " ON_GPU " address=%s ! " TO_CPU
                                             " ! videoconvert ! filesink location=%s",
                                             address, file);
    struct line sink =
        line_new(UPLOAD " ! gpudirectsink name=end sync=false " ON_GPU " address=%s", address);
    GPid peer = line_spawn(text);
    g_autofree gchar *content = NULL;
    gsize size;

    gst_harness_set_src_caps_str(sink.harness, CAPS_I420);
    line_wait_clients(&sink, 1);
    for (guint i = 0; i < FRAMES; i++)
        fail_unless_equals_int(gst_harness_push(sink.harness, ends_picture(CAPS_I420, i)),
                               GST_FLOW_OK);
    gst_harness_push_event(sink.harness, gst_event_new_eos());
    line_reap(peer);
    fail_unless_equals_uint64(line_stat(&sink, "copies-gpu"), 0);
    fail_unless(g_file_get_contents(file, &content, &size, NULL));
    fail_unless_equals_uint64(size % FRAMES, 0);
    for (guint i = 0; i < FRAMES; i++) {
        gsize one = size / FRAMES;
        g_autoptr(GstBuffer) got = gst_buffer_new_memdup(content + i * one, one);
        ends_check_picture(got, CAPS_I420, i);
    }
    line_free(&sink);
    g_remove(file);
}

static guint count_entries(const gchar *path)
{
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    guint count = 0;

    while (g_dir_read_name(dir))
        count++;
    return count;
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
        g_autofree gchar *address = ends_address();
        g_autofree gchar *receive =
            g_strdup_printf("gpudirectsrc " ON_GPU " address=%s ! fakesink", address);
        struct line sink =
            line_new(UPLOAD " ! gpudirectsink name=end " ON_GPU " address=%s", address);
        GPid peer = line_spawn(receive);
        gst_harness_set_src_caps_str(sink.harness, CAPS_NV12);
        line_wait_clients(&sink, 1);
        for (guint i = 0; i < FRAMES; i++)
            gst_harness_push(sink.harness, ends_picture(CAPS_NV12, i));
        gst_harness_push_event(sink.harness, gst_event_new_eos());
        line_reap(peer);
        line_wait_clients(&sink, 0);
        line_free(&sink);
        now = (struct left){count_entries("/proc/self/fd"), count_mappings(),
                            lines_vendor_free_memory(context)};
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
        struct line sink, src;
        gchar *after =
            g_strdup_printf(ON_GPU " on-disconnect=%s ! " ONLY_GPU " ! " TO_CPU, modes[m]);
        GstBuffer *buffer = NULL;

        lines_run(UPLOAD " !", ON_GPU, after, CAPS_I420, &sink, &src);
        line_free(&sink);
        while (line_stat(&src, "stood-in") < 3) {
            gst_clear_buffer(&buffer);
            buffer = ends_pull(src.harness);
        }
        if (m == 0)
            ends_check_picture(buffer, CAPS_I420, FRAMES - 1);
        else
            ends_check_black(buffer, CAPS_I420);
        gst_buffer_unref(buffer);
        line_free(&src);
        g_free(after);
    }
}

/* An element asks its neighbour for caps while it starts: here the neighbour sets a property. */
static gboolean set_slots(GstPad *pad, GstObject *parent, GstQuery *query)
{
    g_autoptr(GstPad) peer = gst_pad_get_peer(pad);
    GstElement *element = gst_pad_get_parent_element(peer);

    if (GST_QUERY_TYPE(query) == GST_QUERY_CAPS)
        g_object_set(element, "slots", 1, NULL);
    gst_object_unref(element);
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
