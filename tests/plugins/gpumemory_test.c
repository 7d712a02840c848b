/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a buffer in a GPU's memory is and costs, whose memory it may be, and on which GPU. Runs with
 * a driver in host memory, and as it is on a GPU. */
#include "ends.h"
#include "lines.h"

#include <string.h>

#define SINK "gpudirectsink name=end sync=false " ON_GPU " address=%s"

static gboolean two_gpus;
static GstHarness *sink, *src;

/* --- what a buffer is --------------------------------------------------------------------- */

/* A pair whose sending end takes system memory and whose receiving end gives the GPU's. */
static void open_pair(const gchar *src_properties)
{
    g_autofree gchar *address = ends_address();

    src = line_new("gpudirectsrc name=end address=%s " ON_GPU " %s", address, src_properties);
    sink = line_new(SINK, address);
    ends_start(sink, CAPS_NV12);
}

static GstBuffer *send_one(guint seed)
{
    ends_push(sink, CAPS_NV12, seed);
    GstBuffer *got = ends_pull(src);

    fail_unless_equals_int(gst_buffer_n_memory(got), 1);
    fail_unless(gst_memory_is_type(gst_buffer_peek_memory(got, 0), GPU_MEMORY));
    return got;
}

TEST(test_buffer)
{
    open_pair("");
    g_autoptr(GstBuffer) got = send_one(1);
    GstMemory *memory = gst_buffer_peek_memory(got, 0);
    GstVideoMeta *meta = gst_buffer_get_video_meta(got);

    const GstVideoInfo *info = lines_vendor_check(memory);
    fail_unless(meta != NULL);
    for (guint i = 0; i < meta->n_planes; i++) {
        fail_unless_equals_int(meta->stride[i], info->stride[i]);
        fail_unless_equals_uint64(meta->offset[i], info->offset[i]);
    }
    fail_unless(GST_MEMORY_IS_READONLY(memory));
    ends_check_picture(got, CAPS_NV12, 1);
}

/* A picture that is not mapped costs nothing. */
TEST(test_unmapped)
{
    open_pair("");
    gst_buffer_unref(send_one(0)); /* a new link is tried out first */
    guint64 waits = ends_stat(src, "device-waits");
    for (guint i = 1; i < FRAMES; i++)
        gst_buffer_unref(send_one(i));
    fail_unless_equals_uint64(ends_stat(src, "frames"), FRAMES);
    fail_unless_equals_uint64(ends_stat(src, "device-waits"), waits);
    ends_check_copies(src, 0, 0);
}

/* A copy is such memory, of the same layout; a part is plain memory. */
TEST(test_copy)
{
    open_pair("");
    GstBuffer *got = send_one(3);
    g_autoptr(GstBuffer) copy = gst_buffer_copy_deep(got);
    gst_buffer_unref(got);
    gst_buffer_unref(send_one(4));
    fail_unless(gst_memory_is_type(gst_buffer_peek_memory(copy, 0), GPU_MEMORY));
    ends_check_picture(copy, CAPS_NV12, 3);
    ends_paint(copy, CAPS_NV12, 5);
    ends_check_picture(copy, CAPS_NV12, 5);
    g_autoptr(GstBuffer) again = gst_buffer_copy_deep(copy);
    ends_check_picture(again, CAPS_NV12, 5);
    g_autoptr(GstBuffer) part = gst_buffer_copy_region(again, GST_BUFFER_COPY_MEMORY, 16, 64);
    fail_unless_equals_int(gst_buffer_get_size(part), 64);
}

/* Downstream keeps everything: it gets copies, and the stream goes on. */
TEST(test_hoarding)
{
    GstBuffer *kept[FRAMES];

    open_pair("slots=3");
    for (guint i = 0; i < FRAMES; i++)
        kept[i] = send_one(i);
    for (guint i = 0; i < FRAMES; i++) {
        ends_check_picture(kept[i], CAPS_NV12, i);
        gst_buffer_unref(kept[i]);
    }
    fail_unless(ends_stat(src, "copies-gpu") >= FRAMES - 3);
    fail_unless_equals_uint64(ends_stat(src, "copies-cpu"), 0);
}

/* A buffer may outlive the element that made it. */
TEST(test_outlive)
{
    open_pair("");
    g_autoptr(GstBuffer) got = send_one(6);
    ends_close(src);
    ends_close(sink);
    ends_check_picture(got, CAPS_NV12, 6);
}

/* The proposed pool: memory of the GPU that the CPU may write, too, and that is sent without a
 * copy; when it is exhausted, more of the GPU's memory stands in. */
TEST(test_pool)
{
    src = line_new("gpudirectsrc name=end address=%s " ON_GPU, ends_own());
    sink = line_new("gpudirectsink name=end sync=false " ON_GPU " slots=3 address=%s", ends_own());
    GstBuffer *lent[6];

    ends_start(sink, GPU_NV12);
    GstBufferPool *pool = ends_pool(sink, GPU_NV12);
    fail_unless(G_TYPE_CHECK_INSTANCE_TYPE(pool, GPU_TYPE_POOL));
    for (guint i = 0; i < G_N_ELEMENTS(lent); i++) {
        lent[i] = ends_acquire(pool);
        fail_unless(gst_memory_is_type(gst_buffer_peek_memory(lent[i], 0), GPU_MEMORY));
        ends_paint(lent[i], CAPS_NV12, i);
        ends_check_picture(lent[i], CAPS_NV12, i);
    }
    for (guint i = 0; i < G_N_ELEMENTS(lent); i++) {
        fail_unless_equals_int(gst_harness_push(sink, lent[i]), GST_FLOW_OK);
        ends_take(src, CAPS_NV12, i);
    }
    ends_check_copies(sink, G_N_ELEMENTS(lent) - 2, 0);
}

/* A number that stays with a memory as long as it lives; 0: it has none yet. */
static guint mark_of(GstBuffer *buffer, guint mark)
{
    GstMiniObject *memory = GST_MINI_OBJECT_CAST(gst_buffer_peek_memory(buffer, 0));
    GQuark quark = g_quark_from_static_string("test-mark");
    guint known = GPOINTER_TO_UINT(gst_mini_object_get_qdata(memory, quark));

    if (!known)
        gst_mini_object_set_qdata(memory, quark, GUINT_TO_POINTER(mark), NULL);
    return known;
}

/* What stands in while no slot is free is used again, as slots are: by the sink's pool, … */
TEST(test_stand_ins_of_the_pool_come_again)
{
    sink = line_new("gpudirectsink name=end sync=false " ON_GPU " slots=3 "
                    "wait-for-connection=false address=again");
    GstBuffer *lent[6];
    guint fresh = 0;

    gst_harness_set_src_caps_str(sink, GPU_NV12);
    GstBufferPool *pool = ends_pool(sink, GPU_NV12);
    for (guint round = 0; round < 4; round++) {
        for (guint i = 0; i < G_N_ELEMENTS(lent); i++) {
            lent[i] = ends_acquire(pool);
            fresh += mark_of(lent[i], 1) == 0;
            ends_paint(lent[i], CAPS_NV12, round * 10 + i);
            if (round % 2) { /* as an element does that writes a time: the memory is copied, too */
                GstBuffer *copy = gst_buffer_copy(lent[i]);
                fresh += mark_of(copy, 1) == 0;
                gst_buffer_unref(lent[i]);
                lent[i] = copy;
            }
        }
        for (guint i = 0; i < G_N_ELEMENTS(lent); i++)
            fail_unless_equals_int(gst_harness_push(sink, lent[i]), GST_FLOW_OK);
    }
    /* The slots, what the first round needed beside the two that are lent at once, and copies. */
    fail_unless(fresh <= 3 + G_N_ELEMENTS(lent) - 2 + G_N_ELEMENTS(lent), "%u memories", fresh);
}

/* … and by a source whose slots downstream keeps. */
TEST(test_copies_for_hoarders_come_again)
{
    GstBuffer *kept[2];
    guint fresh = 0;

    open_pair("slots=3");
    for (guint i = 0; i < G_N_ELEMENTS(kept); i++)
        kept[i] = send_one(i);
    for (guint i = 0; i < FRAMES; i++) {
        g_autoptr(GstBuffer) copy = send_one(i + 2);
        fresh += mark_of(copy, i + 1) == 0;
        fail_unless(gst_buffer_is_writable(copy));
        ends_check_picture(copy, CAPS_NV12, i + 2);
        if (i % 2) /* its previous user may have resized and overwritten it */
            gst_buffer_resize(copy, 16, 64);
        else
            ends_paint(copy, CAPS_NV12, 200);
    }
    fail_unless_equals_uint64(ends_stat(src, "copies-gpu"), FRAMES);
    fail_unless_equals_int(fresh, 1);
    for (guint i = 0; i < G_N_ELEMENTS(kept); i++) {
        ends_check_picture(kept[i], CAPS_NV12, i);
        gst_buffer_unref(kept[i]);
    }
}

#define ROW 322 /* of CAPS_NV12's first plane */

/* Maps it so, and copies its first row from or to these bytes. */
static void map_row(GstBuffer *buffer, GstMapFlags access, guint8 *row)
{
    GstMapInfo map;

    fail_unless(gst_buffer_map(buffer, &map, access));
    if (access == GST_MAP_READ)
        memcpy(row, map.data, ROW);
    else
        memcpy(map.data, row, ROW);
    gst_buffer_unmap(buffer, &map);
}

/* A picture that is mapped for writing only, and written in part, keeps the rest: like memory of
 * the CPU, and GStreamer's own of a GPU. */
TEST(test_written_in_part, .times = 2)
{
    const gchar *caps = __i__ ? GPU_NV12 : CAPS_NV12;
    sink = line_new(SINK, ends_own());
    guint8 wanted[ROW], written[ROW], got[ROW];

    gst_harness_set_src_caps_str(sink, caps);
    GstBufferPool *pool = ends_pool(sink, caps);
    GstBuffer *one = ends_acquire(pool), *other = ends_acquire(pool);
    ends_paint(one, CAPS_NV12, 1);
    ends_paint(other, CAPS_NV12, 2);
    map_row(one, GST_MAP_READ, wanted);

    /* Pages that pictures are shown in are used again: the last one held the other picture. */
    ends_check_picture(other, CAPS_NV12, 2);
    memset(written, 0x55, ROW);
    map_row(one, GST_MAP_WRITE, written);
    map_row(one, GST_MAP_READ, got);
    fail_unless(memcmp(got, written, ROW) == 0, "it is not as written");
    map_row(one, GST_MAP_READWRITE, wanted);
    ends_check_picture(one, CAPS_NV12, 1);

    if (__i__) { /* a copy is made by the GPU, and is a slot no more */
        g_autoptr(GstBuffer) copy = gst_buffer_copy_deep(one);
        memset(written, 0x77, ROW);
        map_row(copy, GST_MAP_WRITE, written);
        map_row(copy, GST_MAP_READWRITE, wanted);
        ends_check_picture(copy, CAPS_NV12, 1);
    }
    gst_buffer_unref(one);
    gst_buffer_unref(other);
}

/* --- contexts and devices ----------------------------------------------------------------- */

/* An application's own context: the GPU copies where our pool is not of that context; pictures are
 * right. */
TEST(test_own_context)
{
    g_autoptr(GstObject) own = lines_vendor_context();
    src = line_new(RECEIVE " address=%s ! " TO_CPU, ends_own());
    sink = line_new(UPLOAD " ! " SINK, ends_own());

    g_autoptr(GstContext) context = lines_vendor_share(own);
    gst_element_set_state(sink->element, GST_STATE_NULL);
    gst_element_set_context(sink->element, context);
    gst_harness_play(sink);
    ends_start(sink, CAPS_NV12);
    lines_exchange(sink, src, CAPS_NV12, 0, FRAMES);
    ends_check_copies(sink, GPU_SHARES_POOLS ? 0 : FRAMES, 0);
}

/* The second GPU's elements share its context with a sink that is there. */
TEST(test_second_gpu, .only_if = &two_gpus)
{
    lines_run(UPLOADER_1 " ! " ONLY_GPU " !", "device=" GPU_1, "device=" GPU_1 " ! " TO_CPU,
              CAPS_NV12, &sink, &src);
    fail_unless_equals_uint64(ends_stat(sink, "copies-gpu"), 0);
}

/* `auto` follows upstream to the second GPU: the receiver there needs no copy of its own. */
TEST(test_auto_second_gpu, .only_if = &two_gpus)
{
    lines_run(UPLOADER_1 " ! " ONLY_GPU " !", "", "device=" GPU_1 " ! " TO_CPU, CAPS_NV12, &sink,
              &src);
    fail_unless_equals_uint64(ends_stat(sink, "copies-cpu"), 0);
    g_autofree gchar *path = ends_text(ends_element(src), "active-path");
    fail_unless_equals_string(path, "map");
}

/* Memory of the second GPU into a ring on the first: by the GPUs, or an error says what to do. */
TEST(test_across, .only_if = &two_gpus)
{
    src = line_new(RECEIVE " address=%s ! " TO_CPU, ends_own());
    sink = line_new(UPLOADER_1 " ! " ONLY_GPU " ! " SINK, ends_own());
    g_autoptr(GstBus) bus = ends_bus(sink);

    ends_start(sink, CAPS_NV12);
    if (gst_harness_push(sink, ends_picture(CAPS_NV12, 1)) == GST_FLOW_OK) {
        ends_take(src, CAPS_NV12, 1);
        lines_exchange(sink, src, CAPS_NV12, 2, FRAMES);
    } else {
        g_autoptr(GError) error = ends_wait_error(bus, GST_MESSAGE_ERROR, 5);
        fail_unless(strstr(error->message, "GPU") || strstr(error->message, GPU_0), "%s",
                    error->message);
    }
}

/* Caps may promise what a buffer does not hold: an error says so, and what to do. */
TEST(test_other_memory)
{
    line_new("gpudirectsrc name=end address=%s " ON_GPU, ends_own());
    sink = line_new(SINK, ends_own());
    g_autoptr(GstBus) bus = ends_bus(sink);

    ends_start(sink, GPU_NV12);
    fail_unless_equals_int(gst_harness_push(sink, ends_picture(CAPS_NV12, 1)), GST_FLOW_ERROR);
    g_autoptr(GError) error = ends_wait_error(bus, GST_MESSAGE_ERROR, 5);
    g_auto(GStrv) uploader = g_strsplit(UPLOADER, " ", 2);
    fail_unless(strstr(error->message, uploader[0]), "the error is \"%s\"", error->message);
}

/* With a device of another kind, the vendor's memory is not offered. */
TEST(test_not_offered)
{
    static const gchar *const device[] = {"host", "auto", GPU_0};

    for (guint i = 0; i < G_N_ELEMENTS(device); i++) {
        sink = line_new("gpudirectsink name=end address=offer device=%s", device[i]);
        g_autoptr(GstCaps) caps = gst_pad_peer_query_caps(sink->srcpad, NULL);
        g_autoptr(GstCaps) on_gpu = gst_caps_from_string(CAPS_GPU);
        fail_unless_equals_int(gst_caps_can_intersect(caps, on_gpu), i > 0);
        ends_close(sink);
    }
}

int main(int argc, char **argv)
{
    ends_init_environment();
    guint gpus = lines_count_gpus(&argc, &argv);
    if (gpus == 0)
        return 77;
    two_gpus = gpus > 1;
    gst_check_init(&argc, &argv);
    return ends_run_tests(120);
}
