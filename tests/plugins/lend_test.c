/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A driver upstream that writes pictures into dma-bufs which it is given: into slots of the ring,
 * without a copy, where the kernel makes dma-bufs of them; else into others, with one. Card and
 * kernel are the test's own. */
#include "base/plugin.h"
#include "lendcard.h"
#include "pipes.h"
#include "sink/sink.h"
#include "src/src.h"

#include <gst/allocators/gstdmabuf.h>
#include <unistd.h>

static GstElement *start(const gchar *card, const gchar *rest)
{
    return pipe_play("lendcard %s ! %s gpudirectsink name=sink address=%s sync=false "
                     "slow-receiver=block",
                     card, rest, ends_own());
}

static guint64 copies(GstElement *pipeline)
{
    return pipe_stat(pipeline, "sink", "copies-cpu");
}

static gboolean lends(GstElement *pipeline)
{
    return stats_flag(pipe_part(pipeline, "sink"), "lends-dmabufs");
}

/* Whole, and of one moment. Returns its number. */
static guint64 check_picture(GstBuffer *buffer)
{
    GstMapInfo map;
    guint64 number = GST_BUFFER_OFFSET(buffer);

    fail_unless(gst_buffer_map(buffer, &map, GST_MAP_READ));
    for (gsize i = 0; i < map.size; i++)
        fail_unless(map.data[i] == (guint8)number,
                    "byte %" G_GSIZE_FORMAT " of frame %" G_GUINT64_FORMAT " is %u", i, number,
                    map.data[i]);
    gst_buffer_unmap(buffer, &map);
    return number;
}

/* The next ones, none of which is missing. */
static void pull(GstHarness *src, guint64 begin, guint count)
{
    for (guint i = 0; i < count; i++) {
        g_autoptr(GstBuffer) buffer = ends_pull(src);
        fail_unless_equals_uint64(check_picture(buffer), begin + i);
    }
}

TEST(test_straight)
{
    GstHarness *src = ends_src(NULL);
    g_autoptr(EndsPipeline) pipeline = start("num-buffers=200", "identity !");

    pull(src, 0, 200);
    fail_unless(lends(pipeline));
    fail_unless_equals_uint64(copies(pipeline), 0);
    fail_unless(g_atomic_int_get(&syncs) >= 400, "caches are not kept right");
}

static gboolean takes_size(GstBufferPool *pool, GstCaps *caps, guint size)
{
    GstStructure *config = gst_buffer_pool_get_config(pool);

    gst_buffer_pool_config_set_params(config, caps, size, 4, 0);
    return gst_buffer_pool_set_config(pool, config);
}

/* What the driver says of its pictures: whole pages are no other picture, padded rows are. */
TEST(test_sizes)
{
    GstHarness *src = ends_src(NULL);
    g_autoptr(EndsPipeline) pipeline = start("num-buffers=10", "");
    g_autoptr(GstPad) pad = gst_element_get_static_pad(pipe_part(pipeline, "sink"), "sink");
    g_autoptr(GstBufferPool) pool = NULL;

    pull(src, 0, 10);
    g_autoptr(GstCaps) caps = gst_caps_from_string(WIDE);
    g_autoptr(GstQuery) query = gst_query_new_allocation(caps, TRUE);
    fail_unless(gst_pad_query(pad, query));
    gst_query_parse_nth_allocation_pool(query, 0, &pool, NULL, NULL, NULL);
    gsize page = (gsize)getpagesize();
    fail_unless(takes_size(pool, caps, 128 * 64));
    fail_unless(takes_size(pool, caps, (guint)((128 * 64 + page - 1) / page * page)));
    fail_if(takes_size(pool, caps, 132 * 64));
}

/* The kernel cannot export the ring as dma-bufs: pictures are copied once, with a warning. */
TEST(test_copied)
{
    no_ring = TRUE;
    GstHarness *src = ends_src(NULL);
    GstElement *pipeline = start("num-buffers=50", "");
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);

    expect_told(bus, GST_MESSAGE_WARNING, "copied once");
    pull(src, 0, 50);
    fail_if(lends(pipeline));
    fail_unless_equals_uint64(copies(pipeline), 50);
    ends_stop(pipeline);
    ends_close(src);
    no_ring = FALSE;
}

/* Another format while the driver holds slots of the ring before. */
TEST(test_other_format)
{
    GstHarness *src = ends_src(NULL);
    g_autoptr(EndsPipeline) pipeline = start("num-buffers=100 change-at=50", "");

    pull(src, 0, 100);
    fail_unless(lends(pipeline));
    fail_unless_equals_uint64(copies(pipeline), 0);
}

/* No receiver at first; then late ones connect and leave, while the driver holds slots. */
TEST(test_late)
{
    g_autoptr(EndsPipeline) pipeline = start("", "identity sleep-time=2000 !");
    guint64 next = 0;

    for (guint round = 0; round < 3; round++) {
        g_autoptr(GstHarness) src = ends_src(NULL);
        for (guint i = 0; i < 20; i++) {
            g_autoptr(GstBuffer) buffer = ends_pull(src);
            guint64 number = check_picture(buffer);
            fail_unless(number >= next && (i == 0 || number == next),
                        "%" G_GUINT64_FORMAT " after %" G_GUINT64_FORMAT, number, next);
            next = number + 1;
        }
    }
    fail_unless(lends(pipeline));
}

/* More pictures are under way than the ring has slots: other dma-bufs stand in. */
TEST(test_exhausted)
{
    g_autoptr(EndsPipeline) pipeline =
        start("num-buffers=60",
              "queue name=queue max-size-buffers=30 max-size-bytes=0 max-size-time=0 !");
    guint waiting = 0;

    ENDS_UNTIL(ENDS_WAIT,
               (g_object_get(pipe_part(pipeline, "queue"), "current-level-buffers", &waiting, NULL),
                waiting == 30),
               "the queue is never full");
    GstHarness *src = ends_src(NULL);
    pull(src, 0, 60);
    fail_unless(lends(pipeline));
    fail_unless(copies(pipeline) > 0 && copies(pipeline) < 60);
}

/* No element upstream imports: slots have no dma-bufs, and cost none. */
TEST(test_unwanted)
{
    GstHarness *sink = ends_sink(NULL);

    ends_src(NULL);

    ends_start(sink, CAPS_SMALL);
    GstBufferPool *pool = ends_pool(sink, CAPS_SMALL);
    g_autoptr(GstBuffer) buffer = ends_acquire(pool);
    fail_if(gst_is_dmabuf_memory(gst_buffer_peek_memory(buffer, 0)));
    fail_unless_equals_int(dmabuf_count, 0);
}

int main(int argc, char **argv)
{
    ends_init_environment();
    gst_check_init(&argc, &argv);
    gpud_gst_context_init();
    if (!GST_ELEMENT_REGISTER(gpudirectsink, NULL) || !GST_ELEMENT_REGISTER(gpudirectsrc, NULL) ||
        !lendcard_register())
        return 1;
    return ends_run_tests(60);
}
