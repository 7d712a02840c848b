/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc device=auto before elements that take anything: frames arrive where the sender has
 * them, and elements that need memory of the CPU are unaffected. Runs with a driver in host memory,
 * and as it is on a GPU. */
#include "ends.h"
#include "lines.h"

#include <string.h>

static GstHarness *sink, *src;

static void expect_place(const gchar *device, const gchar *path)
{
    ends_check_stat(ends_element(src), "device", device);
    if (path)
        ends_check_stat(ends_element(src), "active-path", path);
}

static gboolean is_cuda(GstBuffer *buffer)
{
    return gst_memory_is_type(gst_buffer_peek_memory(buffer, 0), GPU_MEMORY);
}

/* "": the user named the device, and there is nothing to tell. */
static void expect_reason(GstHarness *end, const gchar *says)
{
    g_autofree gchar *is = ends_stat_text(ends_element(end), "device-reason");

    fail_unless(says[0] ? strstr(is, says) != NULL : !is[0], "the reason is \"%s\", not \"%s\"", is,
                says);
}

/* Pictures through a pair; whether they come in CUDA memory. The CPU reads them either way. */
static void exchange(guint from, guint to, gboolean cuda)
{
    for (guint i = from; i < to; i++) {
        ends_push(sink, CAPS_NV12, i);
        g_autoptr(GstBuffer) got = ends_pull(src);
        fail_unless_equals_int(is_cuda(got), cuda);
        ends_check_picture(got, CAPS_NV12, i);
    }
}

static void open_src(const gchar *behind)
{
    src = line_new("gpudirectsrc name=end address=%s %s", ends_own(), behind);
}

static void open_sink(const gchar *device)
{
    sink = line_new("gpudirectsink name=end sync=false address=%s device=%s", ends_own(), device);
    ends_start(sink, CAPS_NV12);
}

#define HOST "host: the elements downstream prefer no GPU's memory"
static const struct {
    const gchar *sender, *behind; /* the receiver */
    const gchar *device, *path;
    gboolean cuda;
    const gchar *says;
} cases[] = {
    {"cuda:0", "", "cuda:0", "map", TRUE, "cuda:0: the sender has its frames there"},
    {"cuda:0", "! queue", "cuda:0", "map", TRUE, "cuda:0: the sender has its frames there"},
    {"cuda:0", "! videoconvert", "cuda:0", "map", TRUE, "cuda:0: the sender has its frames there"},
    {"host", "", "host", "map", FALSE, HOST},
    {"auto", "! queue", "host", "map", FALSE, HOST},
    {"cuda:0", "! capsfilter caps=video/x-raw", "host", "staged", FALSE, HOST},
    {"cuda:0", "! videoconvert ! capsfilter caps=video/x-raw", "host", "staged", FALSE, HOST},
    {"cuda:0", "device=host", "host", "staged", FALSE, ""},
    {"host", "device=cuda:0", "cuda:0", "staged", TRUE, ""},
    {"cuda:0", "device=cuda:0 ! videoconvert ! capsfilter caps=video/x-raw", "cuda:0", "map", FALSE,
     ""},
    {"cuda:1", "", "cuda:1", "map", TRUE, "cuda:1: the sender has its frames there"},
};

static guint gpus;

TEST(test_place, .times = G_N_ELEMENTS(cases))
{
    if (gpus < 2 && strcmp(cases[__i__].sender, "cuda:1") == 0)
        return;
    open_src(cases[__i__].behind);
    gst_harness_add_propose_allocation_meta(src, GST_VIDEO_META_API_TYPE, NULL);
    open_sink(cases[__i__].sender);
    exchange(0, FRAMES, cases[__i__].cuda);
    expect_place(cases[__i__].device, cases[__i__].path);
    expect_reason(src, cases[__i__].says);
    expect_reason(sink, strcmp(cases[__i__].sender, "auto") == 0
                            ? "host: the elements upstream prefer no GPU's memory"
                            : "");
    fail_unless_equals_uint64(ends_stat(src, "frames"), FRAMES);
    if (strcmp(cases[__i__].path, "map") == 0)
        ends_check_copies(src, 0, 0);
}

/* One branch that takes memory of the CPU alone decides for all. */
TEST(test_tee)
{
    for (guint i = 0; i < 2; i++) {
        src = line_new("gpudirectsrc name=end address=%s ! tee name=t  t. ! queue ! fakesink "
                       "sync=false async=false %s t. ! queue",
                       ends_own(),
                       i ? "t. ! queue ! video/x-raw ! fakesink sync=false async=false" : "");
        open_sink("cuda:0");
        exchange(0, FRAMES, i == 0);
        expect_place(i ? "host" : "cuda:0", NULL);
        ends_close(src);
        ends_close(sink);
    }
}

/* Senders that come one after the other, each somewhere else. */
TEST(test_senders_in_turn)
{
    static const gchar *const device[] = {"cuda:0", "host", "cuda:0", "host"};
    open_src("");
    for (guint i = 0; i < G_N_ELEMENTS(device); i++) {
        open_sink(device[i]);
        exchange(10 * i, 10 * i + 5, i % 2 == 0);
        expect_place(device[i], "map");
        ends_close(sink);
    }
    fail_unless_equals_uint64(ends_stat(src, "connects"), G_N_ELEMENTS(device));
    fail_unless_equals_uint64(ends_stat(src, "frames"), 5 * G_N_ELEMENTS(device));
}

/* A sender on the host that takes no detour refuses a receiver on a GPU before it says anything of
 * its frames: the receiver comes back from the host. */
TEST(test_sender_that_refuses_the_gpu)
{
    open_src("");
    open_sink("cuda:0");
    exchange(0, 3, TRUE);
    ends_close(sink);
    open_sink("host require-direct=true");
    exchange(3, 6, FALSE);
    expect_place("host", "map");
}

static gpointer push_four(gpointer user)
{
    for (guint i = 0; i < 4; i++)
        ends_push(sink, CAPS_NV12, i);
    return NULL;
}

/* A sender that waits for its receiver loses no frame to the move. */
TEST(test_no_frame_is_lost)
{
    sink = line_new("gpudirectsink name=end sync=false device=cuda:0 address=%s", ends_own());
    gst_harness_set_src_caps_str(sink, CAPS_NV12);
    GThread *thread = g_thread_new("push", push_four, NULL);
    open_src("");
    for (guint i = 0; i < 4; i++) {
        g_autoptr(GstBuffer) got = ends_pull(src);
        fail_unless(is_cuda(got));
        ends_check_picture(got, CAPS_NV12, i);
    }
    g_thread_join(thread);
    fail_unless_equals_uint64(ends_stat(sink, "connects"), 1);
    fail_unless_equals_uint64(ends_stat(sink, "dropped-slow-receiver"), 0);
}

/* Elements that accept any memory, and read no GstVideoMeta, get the caps' default layout. */
TEST(test_plain_bytes)
{
    open_src("");
    open_sink("cuda:0");
    g_autoptr(GstCaps) caps = gst_caps_from_string(CAPS_NV12);
    GstVideoInfo info;
    gst_video_info_from_caps(&info, caps);
    for (guint i = 0; i < FRAMES; i++) {
        g_autoptr(GstBuffer) sent = ends_picture(CAPS_NV12, i);
        GstMapInfo want, have;
        gst_buffer_ref(sent);
        fail_unless_equals_int(gst_harness_push(sink, sent), GST_FLOW_OK);
        g_autoptr(GstBuffer) got = ends_pull(src);
        fail_unless(gst_buffer_map(sent, &want, GST_MAP_READ));
        fail_unless(gst_buffer_map(got, &have, GST_MAP_READ));
        fail_unless(have.size >= want.size);
        for (guint y = 0; y < 34; y++)
            fail_unless(memcmp(want.data + y * (guint)info.stride[0],
                               have.data + y * (guint)info.stride[0], 322) == 0,
                        "row %u", y);
        gst_buffer_unmap(got, &have);
        gst_buffer_unmap(sent, &want);
    }
    fail_unless_equals_uint64(ends_stat(src, "copies-cpu"), 0);
}

int main(int argc, char **argv)
{
    ends_init_environment();
    gpus = lines_count_gpus(&argc, &argv);
    if (gpus == 0)
        return 77;
    gst_check_init(&argc, &argv);
    return ends_run_tests(120);
}
