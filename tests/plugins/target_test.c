/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc address=target:NAME: pictures of a third-party writer that reads only the file, in a
 * pipeline that starts, stops and changes its format. */
#include "pipes.h"
#include "targetline.h"

#define CAPS_LARGE "video/x-raw,format=UYVY,width=128,height=32,framerate=25/1"

TEST(test_start_and_stop)
{
    struct line line;
    struct writer writer;

    line_make(&line, "start-stop", CAPS_SMALL);
    for (guint i = 0; i < 20; i++) {
        line_play(&line);
        writer_open(&writer, line.file, -1);
        for (guint k = 0; k < 10; k++) {
            writer_write(&writer, CAPS_SMALL);
            line_expect(&line, CAPS_SMALL, k);
        }
        fail_unless_equals_uint64(pipe_stat(line.pipeline, "src", "frames"), 10);
        g_autofree gchar *path = stats_text(pipe_part(line.pipeline, "src"), "active-path");
        fail_unless_equals_string(path, "target-host");
        line_stop(&line);
        writer_write(&writer, CAPS_SMALL); /* which is not received */
        writer_close(&writer);
    }
    line_free(&line);
}

TEST(test_caps_change)
{
    struct line line;
    struct writer small, large;

    line_make(&line, "caps", CAPS_SMALL);
    line_play(&line);
    writer_open(&small, line.file, -1);
    writer_write(&small, CAPS_SMALL);
    line_expect(&line, CAPS_SMALL, 0);
    gst_util_set_object_arg(G_OBJECT(line.filter), "caps", CAPS_LARGE);
    writer_write(&small, CAPS_SMALL); /* between two frames the source asks downstream */
    writer_open(&large, line.file, small.file);
    g_autoptr(GstBuffer) last = g_async_queue_try_pop(line.buffers);
    for (guint k = 0; k < 5; k++) {
        writer_write(&small, CAPS_SMALL); /* it does not know yet */
        writer_write(&large, CAPS_LARGE);
        line_expect(&line, CAPS_LARGE, k);
    }
    line_stop(&line);
    writer_close(&small);
    writer_close(&large);
    line_free(&line);
}

TEST(test_lies)
{
    struct line line;
    struct writer writer, honest;

    line_make(&line, "lies", CAPS_SMALL);
    line_play(&line);
    writer_open(&writer, line.file, -1);
    writer_write(&writer, CAPS_SMALL);
    line_expect(&line, CAPS_SMALL, 0);
    writer_mark(&writer, 1, 4711);
    expect_told(line.bus, GST_MESSAGE_WARNING, "belongs to slot");
    writer_open(&honest, line.file, writer.file);
    for (guint k = 0; k < 5; k++) {
        writer_write(&honest, CAPS_SMALL);
        line_expect(&line, CAPS_SMALL, k);
    }
    line_stop(&line);
    writer_close(&writer);
    writer_close(&honest);
    line_free(&line);
}

static void expect_error(const gchar *name, const gchar *caps, const gchar *wanted)
{
    struct line line;

    line_make(&line, name, caps);
    gst_element_set_state(line.pipeline, GST_STATE_PLAYING);
    expect_told(line.bus, GST_MESSAGE_ERROR, wanted);
    line_free(&line);
}

TEST(test_refusals)
{
    static const gchar *const names[] = {"", "..", ".a", "a/b", "../x", "a=b", "%2e"};
    struct line line;

    for (guint i = 0; i < G_N_ELEMENTS(names); i++)
        expect_error(names[i], CAPS_SMALL, "is not a target name");
    expect_error("open", "ANY", "put a capsfilter");
    expect_error("open", "video/x-raw,format=UYVY", "put a capsfilter");
    line_make(&line, "taken", CAPS_SMALL);
    line_play(&line);
    struct writer writer;
    writer_open(&writer, line.file, -1);
    expect_error("taken", CAPS_SMALL, "another target has the name");
    writer_write(&writer, CAPS_SMALL);
    line_expect(&line, CAPS_SMALL, 0);
    line_stop(&line);
    writer_close(&writer);
    line_free(&line);

    g_autoptr(EndsPipeline) sink = gst_element_factory_make("gpudirectsink", NULL);
    g_autoptr(GstBus) bus = gst_bus_new();
    gst_element_set_bus(sink, bus);
    g_object_set(sink, "address", "target:cam1", NULL);
    fail_unless(gst_element_set_state(sink, GST_STATE_PAUSED) == GST_STATE_CHANGE_FAILURE);
    g_autoptr(GstMessage) message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
    fail_unless(message != NULL);
}

ENDS_MAIN(60)
