/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ring of a main or a backup sender moves from the host to a GPU and back, because its upstream
 * sends other memory with device=auto: a source with a backup loses and repeats nothing, and a
 * sender that stands by does not get the address. Runs with a driver in host memory, and as it is
 * on a GPU. */
#include "lines.h"
#include "pipes.h"

#define INTERVAL (40 * GST_MSECOND)

static struct {
    GstHarness *sinks[2], *uploads[2], *src;
    gboolean on_gpu[2];
    guint number; /* of the last picture */
} scene;

static void send(guint which)
{
    GstBuffer *picture = ends_picture(CAPS_NV12, scene.number);

    if (scene.on_gpu[which])
        picture = gst_harness_push_and_pull(scene.uploads[which], picture);
    picture = gst_buffer_make_writable(picture);
    GST_BUFFER_PTS(picture) = scene.number * INTERVAL;
    GST_BUFFER_DURATION(picture) = INTERVAL;
    GST_BUFFER_OFFSET(picture) = scene.number;
    fail_unless_equals_int(gst_harness_push(scene.sinks[which], picture), GST_FLOW_OK);
}

/* The next instant, of both, comes once, and is followed by no other. */
static void exchange(void)
{
    scene.number++;
    send(0);
    send(1);
    g_autoptr(GstBuffer) got = ends_pull(scene.src);
    fail_unless_equals_uint64(GST_BUFFER_OFFSET(got), scene.number);
    fail_unless_equals_int(GST_BUFFER_FLAG_IS_SET(got, GST_BUFFER_FLAG_DISCONT), scene.number == 1);
    ends_check_picture(got, CAPS_NV12, scene.number);
}

static void move(guint which, gboolean to_gpu)
{
    scene.on_gpu[which] = to_gpu;
    gst_harness_set_src_caps_str(scene.sinks[which], to_gpu ? GPU_NV12 : CAPS_NV12);
    exchange();
    g_autofree gchar *is = stats_text(ends_element(scene.sinks[which]), "device");
    fail_unless(!to_gpu || g_strcmp0(is, GPU_0) == 0, "it is on %s", is);
}

static GstHarness *open_uploader(void)
{
    GstHarness *upload = line_new(UPLOAD);

    gst_harness_set_src_caps_str(upload, CAPS_NV12);
    return upload;
}

/* A sink that goes on without receivers: what it sends while it moves is lost to it. */
static GstHarness *open_sink(const gchar *address, const gchar *more)
{
    return line_new("gpudirectsink name=end sync=false wait-for-connection=false address=%s %s",
                    address, more);
}

static void open_pair(void)
{
    g_autofree gchar *backup = ends_address();

    memset(&scene, 0, sizeof(scene));
    scene.src = line_new("gpudirectsrc name=end address=%s backup-address=%s"
                         " ! capsfilter caps=video/x-raw",
                         ends_own(), backup);
    for (guint i = 0; i < 2; i++) {
        scene.sinks[i] = open_sink(i ? backup : ends_own(), "slow-receiver=block");
        scene.uploads[i] = open_uploader();
        ends_start(scene.sinks[i], CAPS_NV12);
    }
    exchange();
    exchange();
}

static void exchange_until_clients(guint which)
{
    guint clients = 0;

    for (guint left = 500; clients == 0 && left > 0; left--) {
        exchange();
        g_object_get(ends_element(scene.sinks[which]), "num-clients", &clients, NULL);
    }
    fail_unless(clients > 0, "the receiver does not come back");
}

/* There and back, before the other one moves. */
TEST(test_pair)
{
    open_pair();
    for (guint i = 0; i < 4; i++) {
        move(i / 2, i % 2 == 0);
        exchange_until_clients(i / 2);
        exchange();
    }
    fail_unless(ends_stat(scene.sinks[0], "frames") > 0);
}

/* One moves, and while its receiver is still away the other one, too, which waits for it. */
TEST(test_pair_in_turn)
{
    open_pair();
    for (guint i = 0; i < 6; i++) {
        move(0, i % 2 == 0);
        exchange_until_clients(0);
        move(1, i % 2 == 0);
        exchange_until_clients(1);
    }
}

/* Another sink waits for the address all the time, and does not get it. */
TEST(test_standby)
{
    GstHarness *src =
        line_new("gpudirectsrc name=end address=%s ! capsfilter caps=video/x-raw", ends_own());
    GstHarness *sink = line_new("gpudirectsink name=end sync=false address=%s", ends_own());
    GstHarness *upload = open_uploader();
    GstHarness *standby = open_sink(ends_own(), "standby=true");

    gst_harness_set_src_caps_str(standby, CAPS_NV12);
    ends_start(sink, CAPS_NV12);
    for (guint i = 0; i < 12; i++) {
        gboolean on_gpu = i / 3 % 2;

        if (i % 3 == 0)
            gst_harness_set_src_caps_str(sink, on_gpu ? GPU_NV12 : CAPS_NV12);
        GstBuffer *picture = ends_picture(CAPS_NV12, i);
        if (on_gpu)
            picture = gst_harness_push_and_pull(upload, picture);
        fail_unless_equals_int(gst_harness_push(sink, picture), GST_FLOW_OK);
        ends_take(src, CAPS_NV12, i);
        gst_harness_push(standby, ends_picture(CAPS_NV12, 77));
        fail_unless(stats_flag(ends_element(standby), "stands-by"),
                    "it got the address before picture %u", i);
    }
    ends_close(sink);
    ENDS_UNTIL(
        10,
        (gst_harness_push(standby, ends_picture(CAPS_NV12, 78)), ends_stat(standby, "frames") > 0),
        "the address was not taken over");
}

int main(int argc, char **argv)
{
    ends_init_environment();
    if (lines_count_gpus(&argc, &argv) == 0)
        return 77;
    gst_check_init(&argc, &argv);
    return ends_run_tests(60);
}
