/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whose memory a buffer is: pool buffers are sent without a copy, all others with one, and no
 * holder of buffers can stop the stream. */
#include "pipes.h"

static GstHarness *sink, *src;

static void setup(const gchar *sink_properties, const gchar *src_properties)
{
    sink = ends_sink(sink_properties);
    src = ends_src(src_properties);
    ends_start(sink, CAPS_SMALL);
}

static gpointer address_of(GstBuffer *buffer)
{
    GstMapInfo map;

    fail_unless(gst_buffer_map(buffer, &map, GST_MAP_READ));
    gst_buffer_unmap(buffer, &map);
    return map.data;
}

TEST(test_lent_buffers_are_not_copied)
{
    setup(NULL, NULL);
    GstBufferPool *pool = ends_pool(sink, CAPS_SMALL);
    for (guint i = 0; i < 100; i++) {
        GstBuffer *sent = ends_acquire(pool);
        ends_paint(sent, CAPS_SMALL, i);
        gpointer written = address_of(sent);
        fail_unless_equals_int(gst_harness_push(sink, sent), GST_FLOW_OK);
        g_autoptr(GstBuffer) got = ends_pull(src);
        ends_check_picture(got, CAPS_SMALL, i);
        /* Both ends are in this process: a route that moves nothing shows the very same bytes. */
        fail_unless(address_of(got) == written);
    }
    fail_unless_equals_uint64(ends_stat(sink, "copies-cpu"), 0);
    fail_unless_equals_uint64(ends_stat(src, "copies-cpu"), 0);
}

TEST(test_foreign_buffers_cost_one_copy)
{
    setup(NULL, NULL);
    for (guint i = 0; i < 20; i++)
        pass(sink, src, i);
    fail_unless_equals_uint64(ends_stat(sink, "copies-cpu"), 20);
    fail_unless_equals_uint64(ends_stat(src, "copies-cpu"), 0);
}

/* Planes in two blocks, with wider rows than the caps say. */
TEST(test_foreign_strides_and_blocks)
{
    const gchar *caps = "video/x-raw,format=NV12,width=64,height=16,framerate=25/1";
    gsize offset[GST_VIDEO_MAX_PLANES] = {100, 100 + 16 * 200};
    gint stride[GST_VIDEO_MAX_PLANES] = {200, 72};

    setup(NULL, NULL);
    gst_harness_set_src_caps_str(sink, caps);
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(buffer, gst_allocator_alloc(NULL, 100 + 16 * 200, NULL));
    gst_buffer_append_memory(buffer, gst_allocator_alloc(NULL, 8 * 72, NULL));
    gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, 64, 16,
                                   2, offset, stride);
    ends_paint(buffer, caps, 5);
    fail_unless_equals_int(gst_buffer_n_memory(buffer), 2);

    gst_harness_push(sink, buffer);
    g_autoptr(GstBuffer) got = ends_pull(src);
    ends_check_picture(got, caps, 5);
    fail_unless_equals_int(gst_buffer_get_video_meta(got)->stride[0], 64);
    fail_unless_equals_uint64(ends_stat(sink, "copies-cpu"), 1);
}

/* tee, videorate, imagefreeze: the same memory comes more than once. */
TEST(test_same_memory_twice)
{
    setup(NULL, NULL);
    GstBufferPool *pool = ends_pool(sink, CAPS_SMALL);
    g_autoptr(GstBuffer) sent = ends_acquire(pool);
    ends_paint(sent, CAPS_SMALL, 9);
    for (guint i = 0; i < 20; i++) {
        GstBuffer *again = i % 2 ? gst_buffer_ref(sent) : gst_buffer_copy(sent);
        if (i % 2 == 0)
            GST_BUFFER_PTS(again) = i * GST_SECOND;
        fail_unless_equals_int(gst_harness_push(sink, again), GST_FLOW_OK);
        g_autoptr(GstBuffer) got = ends_pull(src);
        ends_check_picture(got, CAPS_SMALL, 9);
        fail_unless(GST_BUFFER_PTS_IS_VALID(got) == (i % 2 == 0), "round %u", i);
    }
    fail_unless_equals_uint64(ends_stat(sink, "copies-cpu"), 0);
}

/* Sent memory belongs to the receivers: a writer gets its own copy. */
TEST(test_sent_memory_is_read_only)
{
    setup(NULL, NULL);
    GstBufferPool *pool = ends_pool(sink, CAPS_SMALL);
    g_autoptr(GstBuffer) sent = ends_acquire(pool);
    ends_paint(sent, CAPS_SMALL, 1);
    gst_harness_push(sink, gst_buffer_ref(sent));
    GstBuffer *got = ends_pull(src);
    fail_unless(GST_MEMORY_IS_READONLY(gst_buffer_peek_memory(got, 0)));

    ends_paint(sent, CAPS_SMALL, 2); /* on a copy */
    ends_check_picture(sent, CAPS_SMALL, 2);
    ends_check_picture(got, CAPS_SMALL, 1);
    got = gst_buffer_make_writable(got);
    ends_paint(got, CAPS_SMALL, 3);
    ends_check_picture(got, CAPS_SMALL, 3);
    gst_buffer_unref(got);
}

/* Upstream holds whatever it can get: it gets plain memory in the end, and the stream goes on. */
TEST(test_greedy_upstream)
{
    GstBuffer *held[10];

    setup(NULL, NULL);
    GstBufferPool *pool = ends_pool(sink, CAPS_SMALL);
    for (guint i = 0; i < G_N_ELEMENTS(held); i++)
        held[i] = ends_acquire(pool);
    for (guint round = 0; round < 3; round++)
        for (guint i = 0; i < G_N_ELEMENTS(held); i++) {
            if (round == 0)
                ends_paint(held[i], CAPS_SMALL, i);
            fail_unless_equals_int(gst_harness_push(sink, gst_buffer_ref(held[i])), GST_FLOW_OK);
            ends_take(src, CAPS_SMALL, i);
        }
    fail_unless_equals_uint64(ends_stat(sink, "copies-cpu"), 3 * (G_N_ELEMENTS(held) - 3));
    for (guint i = 0; i < G_N_ELEMENTS(held); i++)
        gst_buffer_unref(held[i]);

    /* All came back: slots are lent again. */
    for (guint i = 0; i < 3; i++)
        held[i] = ends_acquire(pool);
    guint64 copies = ends_stat(sink, "copies-cpu");
    for (guint i = 0; i < 3; i++) {
        gst_harness_push(sink, held[i]);
        drop(src, 1);
    }
    fail_unless_equals_uint64(ends_stat(sink, "copies-cpu"), copies);
}

/* Downstream holds more buffers than there are slots. */
TEST(test_greedy_downstream)
{
    GstBuffer *held[12];

    setup(NULL, NULL);
    for (guint i = 0; i < G_N_ELEMENTS(held); i++) {
        ends_push(sink, CAPS_SMALL, i);
        held[i] = ends_pull(src);
    }
    for (guint i = 0; i < G_N_ELEMENTS(held); i++) {
        ends_check_picture(held[i], CAPS_SMALL, i);
        gst_buffer_unref(held[i]);
    }
    fail_unless_equals_uint64(ends_stat(src, "copies-cpu"), G_N_ELEMENTS(held) - 3);
}

/* A live sender loses no picture to a receiver that holds all that it gets, whichever end has fewer
 * slots: there is always one for the next picture, and, where there are four or more, for the one
 * behind it. */
static const struct {
    guint sink, src, at_once;
} holds[] = {{6, 6, 2}, {6, 40, 2}, {40, 6, 2}, {4, 4, 2}, {3, 6, 1}, {3, 3, 1}, {2, 2, 1}};

TEST(test_greedy_downstream_of_a_live_sender, .times = G_N_ELEMENTS(holds))
{
    g_autofree gchar *to = g_strdup_printf("slots=%u slow-receiver=drop-oldest", holds[__i__].sink);
    g_autofree gchar *from = g_strdup_printf("slots=%u start=oldest", holds[__i__].src);
    guint at_once = holds[__i__].at_once, sent = 0;
    GPtrArray *held = g_ptr_array_new_with_free_func((GDestroyNotify)gst_buffer_unref);

    setup(to, from);
    for (guint round = 0; round < 25; round++) {
        for (guint i = 0; i < at_once; i++)
            ends_push(sink, CAPS_SMALL, sent++);
        while (held->len < sent)
            g_ptr_array_add(held, ends_pull(src));
        ENDS_UNTIL(ENDS_WAIT, ends_stat(src, "frames") == sent);
    }
    fail_unless_equals_uint64(ends_stat(sink, "dropped-slow-receiver"), 0);
    for (guint i = 0; i < held->len; i++)
        ends_check_picture(held->pdata[i], CAPS_SMALL, i);
    g_ptr_array_unref(held);
}

/* A file's sender with fewer slots than its receiver: the stream continues through a queue that
 * begins when it holds more pictures than there are slots. */
TEST(test_queue_with_a_threshold_and_few_slots)
{
    g_autoptr(EndsPipeline) receiver =
        pipe_play("gpudirectsrc address=%s ! queue min-threshold-buffers=5 ! fakesink sync=false",
                  ends_own());
    g_autoptr(EndsPipeline) sender = pipe_play("videotestsrc num-buffers=60 ! " CAPS_SMALL
                                               " ! gpudirectsink sync=false slots=3 address=%s",
                                               ends_own());

    expect_end(receiver);
}

#define CAPS_FAST "video/x-raw,format=UYVY,width=64,height=16,framerate=50/1"
#define LATE " videotestsrc is-live=true ! " CAPS_FAST " ! queue min-threshold-time=200000000 ! "
#define ROOM "max-size-buffers=0 max-size-bytes=0 max-size-time=3000000000"

/* What follows "gpudirectsrc name=in address=… slots=…". */
static const struct {
    const gchar *receive;
    guint sink_slots, src_slots;
    const gchar *needs; /* an element that may not be installed */
    guint at_first;     /* lost before the latency is known, which a late branch delays */
} holders[] = {
    {"! queue ! fakesink sync=true" LATE "fakesink sync=true", 6, 6},
    {"! queue ! fakesink sync=true" LATE "fakesink sync=true", 6, 40},
    {"! queue ! fakesink sync=true" LATE "fakesink sync=true", 40, 40},
    {"! fakesink sync=true" LATE "fakesink sync=true", 6, 6, .at_first = 6},
    {"! tee name=t ! queue ! fakesink sync=true t. ! queue min-threshold-time=200000000 ! "
     "fakesink sync=true",
     6, 6},
    {"! queue min-threshold-time=300000000 ! fakesink sync=true", 6, 6},
    {"! fakesink sync=true ts-offset=60000000", 6, 6},
    {"! fakesink sync=true ts-offset=100000000", 6, 6},
    {"! fakesink sync=true ts-offset=500000000", 6, 6},
    {"! queue " ROOM
     " ! jpegenc ! splitmuxsink name=s muxer-factory=matroskamux async-finalize=true "
     "location=/dev/null audiotestsrc is-live=true num-buffers=40 ! queue " ROOM
     " min-threshold-time=400000000 ! audioconvert ! vorbisenc ! s.audio_0",
     6, 6, "vorbisenc"},
    {"! queue ! fakesink sync=true gpudirectsrc latency=300 address=ADDRESS ! fakesink sync=true",
     6, 6},
};

/* Until EOS, doing what every application does with a LATENCY message. */
static void play(GstElement *pipeline)
{
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    gint64 until = g_get_monotonic_time() + ENDS_WAIT * G_TIME_SPAN_SECOND;

    while (g_get_monotonic_time() < until) {
        g_autoptr(GstMessage) message =
            gst_bus_timed_pop_filtered(bus, GST_SECOND / 10, GST_MESSAGE_ANY);
        if (!message)
            continue;
        fail_unless(GST_MESSAGE_TYPE(message) != GST_MESSAGE_ERROR, "%" GST_PTR_FORMAT, message);
        if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_LATENCY)
            gst_bin_recalculate_latency(GST_BIN(pipeline));
        if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ELEMENT &&
            gst_message_has_name(message, "gpudirect-stream-ended"))
            return;
    }
    fail("the stream does not end");
}

/* How many pictures one turn loses. */
static guint64 lose(guint i)
{
    g_autofree gchar *to =
        g_strdup_printf("gpudirectsrc name=in on-eos=wait address=ADDRESS slots=%u %s",
                        holders[i].src_slots, holders[i].receive);
    g_autoptr(EndsPipeline) receiver = pipe_play_line(to);
    g_autoptr(EndsPipeline) sender = pipe_play(
        "videotestsrc is-live=true num-buffers=80 ! " CAPS_FAST
        " ! gpudirectsink name=out async=false wait-for-connection=true address=%s slots=%u",
        ends_own(), holders[i].sink_slots);

    play(receiver);
    return pipe_stat(sender, "out", "dropped-slow-receiver");
}

/* A machine that does other things may lose some in one turn, but not in each. */
TEST(test_pipelines_that_hold, .times = G_N_ELEMENTS(holders))
{
    g_autoptr(GstElementFactory) needed =
        gst_element_factory_find(holders[__i__].needs ? holders[__i__].needs : "fakesink");
    guint64 lost = G_MAXUINT64;

    for (guint turn = 0; needed && turn < 5 && lost > holders[__i__].at_first; turn++)
        lost = lose((guint)__i__);
    fail_unless(!needed || lost <= holders[__i__].at_first,
                "%" G_GUINT64_FORMAT " pictures are lost", lost);
}

/* The credit belongs to the memory, not to the buffer. */
TEST(test_memory_outlives_its_buffer)
{
    setup(NULL, NULL);
    for (guint i = 0; i < 12; i++) {
        gst_harness_push(sink, ends_picture(CAPS_SMALL, i));
        GstBuffer *got = ends_pull(src);
        g_autoptr(GstBuffer) copy = gst_buffer_copy(got);
        gst_buffer_unref(got);
        ends_check_picture(copy, CAPS_SMALL, i);
    }
    fail_unless_equals_uint64(ends_stat(src, "copies-cpu"), 0);
}

/* In the steady state nothing is allocated: a slot is the same buffer and memory each time. */
TEST(test_objects_are_kept)
{
    GHashTable *buffers = g_hash_table_new(NULL, NULL), *memories = g_hash_table_new(NULL, NULL);

    setup(NULL, NULL);
    for (guint i = 0; i < 50; i++) {
        gst_harness_push(sink, ends_picture(CAPS_SMALL, i));
        g_autoptr(GstBuffer) got = ends_pull(src);
        g_hash_table_add(buffers, got);
        g_hash_table_add(memories, gst_buffer_peek_memory(got, 0));
    }
    fail_unless(g_hash_table_size(buffers) <= 8, "%u buffers", g_hash_table_size(buffers));
    fail_unless(g_hash_table_size(memories) <= 8, "%u memories", g_hash_table_size(memories));
    g_hash_table_unref(buffers);
    g_hash_table_unref(memories);
}

TEST(test_buffers_held_after_stop)
{
    GstBuffer *held[3];

    setup(NULL, NULL);
    GstBufferPool *pool = ends_pool(sink, CAPS_SMALL);
    for (guint i = 0; i < G_N_ELEMENTS(held); i++) {
        gst_harness_push(sink, ends_picture(CAPS_SMALL, i));
        held[i] = ends_pull(src);
    }
    g_autoptr(GstBuffer) lent = ends_acquire(pool);
    ends_paint(lent, CAPS_SMALL, 77);
    ends_close(src);
    ends_close(sink);

    for (guint i = 0; i < G_N_ELEMENTS(held); i++) {
        ends_check_picture(held[i], CAPS_SMALL, i);
        gst_buffer_unref(held[i]);
    }
    ends_check_picture(lent, CAPS_SMALL, 77);
    g_autoptr(GstBuffer) late = ends_acquire(pool); /* the sink is gone: plain memory */
    ends_paint(late, CAPS_SMALL, 1);
}

/* Slots of an older epoch are still buffers like any other. */
TEST(test_pool_of_old_caps)
{
    const gchar *faster = "video/x-raw,format=UYVY,width=64,height=16,framerate=50/1";

    setup(NULL, NULL);
    GstBufferPool *pool = ends_pool(sink, CAPS_SMALL);
    GstBuffer *old = ends_acquire(pool);
    ends_paint(old, CAPS_SMALL, 1);
    gst_harness_set_src_caps_str(sink, faster);
    fail_unless_equals_int(gst_harness_push(sink, old), GST_FLOW_OK);
    ends_take(src, faster, 1);
    fail_unless_equals_uint64(ends_stat(sink, "copies-cpu"), 1);
    gst_buffer_unref(ends_acquire(pool));
}

TEST(test_drop_newest)
{
    setup("slow-receiver=drop-newest", NULL);
    gst_pad_set_active(src->sinkpad, TRUE);
    /* Nothing pulls, and the harness keeps what comes: the source copies out, slowly. */
    for (guint i = 0; i < 200; i++)
        ends_push(sink, CAPS_SMALL, i);
    fail_unless(ends_stat(sink, "dropped-slow-receiver") > 0);
    fail_unless_equals_uint64(ends_stat(sink, "frames"), 200);
}

static guint64 dropped_by(GstBus *bus)
{
    g_autoptr(GstMessage) message = ends_wait_message(bus, GST_MESSAGE_QOS, 5);
    GstFormat format;
    guint64 processed, dropped;

    fail_unless(message != NULL, "no QoS message");
    gst_message_parse_qos_stats(message, &format, &processed, &dropped);
    fail_unless_equals_int(format, GST_FORMAT_BUFFERS);
    return dropped;
}

/* Both ends say how many pictures were lost, and agree. */
TEST(test_drops_are_reported)
{
    setup("slow-receiver=drop-newest", "start=oldest");
    g_autoptr(GstBus) sink_bus = ends_bus(sink), src_bus = ends_bus(src);
    pass(sink, src, 0);
    gst_element_set_state(src->element, GST_STATE_PAUSED);
    for (guint i = 0; i < 63; i++)
        ends_push(sink, CAPS_SMALL, i);
    fail_unless(dropped_by(sink_bus) > 0);
    guint64 dropped = ends_stat(sink, "dropped-slow-receiver");
    fail_unless(dropped > 40);

    gst_element_set_state(src->element, GST_STATE_PLAYING);
    drop(src, 63 - (guint)dropped);
    gst_harness_push(sink, ends_picture(CAPS_SMALL, 99));
    g_autoptr(GstBuffer) next = ends_pull(src);
    ends_check_picture(next, CAPS_SMALL, 99);
    fail_unless(GST_BUFFER_FLAG_IS_SET(next, GST_BUFFER_FLAG_DISCONT));
    fail_unless_equals_uint64(dropped_by(src_bus), dropped);
    fail_unless_equals_uint64(ends_stat(src, "dropped"), dropped);
}

/* Upstream takes slots in one thread while the sink submits in another. */
TEST(test_lending_across_a_queue)
{
    g_autoptr(EndsPipeline) receiver =
        pipe_play("gpudirectsrc address=%s ! fakesink sync=false", ends_own());
    g_autoptr(EndsPipeline) sender =
        pipe_play("videotestsrc num-buffers=300 ! " CAPS_SMALL
                  " ! queue ! gpudirectsink name=s sync=false slots=8 address=%s",
                  ends_own());

    expect_end(receiver);
    guint64 copies = pipe_stat(sender, "s", "copies-cpu");
    fail_unless_equals_uint64(pipe_stat(sender, "s", "frames"), 300);
    /* The queue may hold more pictures than there are slots; most are lent all the same. */
    fail_unless(copies < 250, "%" G_GUINT64_FORMAT " copies", copies);
}

ENDS_MAIN(30)
