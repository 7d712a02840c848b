/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Elements that write into a buffer which they mapped for reading, as rgb2bayer does: with a ring
 * on a device that changes only the CPU's copy. The picture still arrives, and the application gets
 * one warning. */
#include "pipes.h"

static const gchar *device;
static gboolean bayer; /* there is a rgb2bayer */

static GstHarness *sink, *src;
static GstBus *bus;

/* before: elements, and " ! ", or nothing. */
static void open_stage(const gchar *before)
{
    g_autofree gchar *launch =
        g_strdup_printf("%s gpudirectsink name=end address=%s slots=4 sync=false "
                        "slow-receiver=block wait-for-connection=true device=%s",
                        before, ends_own(), device);

    sink = gst_harness_new_parse(launch);
    ends_keep(sink);
    gst_harness_use_systemclock(sink);
    bus = ends_bus(sink);
    gst_harness_play(sink);
    src = ends_src(NULL);
}

static guint count_warnings(void)
{
    GstMessage *message;
    guint count = 0;

    for (; (message = gst_bus_pop_filtered(bus, GST_MESSAGE_WARNING | GST_MESSAGE_ERROR));
         count++) {
        g_autofree gchar *text = text_of(message);
        fail_unless(strstr(text, "mapped for reading") != NULL, "%s", text);
        gst_message_unref(message);
    }
    gst_element_set_bus(sink->element, NULL);
    gst_object_unref(bus);
    return count;
}

#define CAPS_ARGB "video/x-raw,format=ARGB,width=64,height=16,framerate=25/1"
#define FRAMES 10

/* The same pictures with and without a link in between. */
TEST(test_rgb2bayer, .only_if = &bayer)
{
    g_autoptr(GstHarness) alone = gst_harness_new_parse("rgb2bayer");
    open_stage("rgb2bayer !");
    gst_harness_set_src_caps_str(alone, CAPS_ARGB);
    gst_harness_set_src_caps_str(sink, CAPS_ARGB);
    for (guint i = 0; i < FRAMES; i++) {
        GstMapInfo map;
        GstBuffer *picture = ends_picture(CAPS_ARGB, i);
        gst_harness_push(alone, gst_buffer_ref(picture));
        fail_unless_equals_int(gst_harness_push(sink, picture), GST_FLOW_OK);
        g_autoptr(GstBuffer) wanted = gst_harness_pull(alone), got = ends_pull(src);
        fail_unless(gst_buffer_map(wanted, &map, GST_MAP_READ));
        fail_unless(gst_buffer_memcmp(got, 0, map.data, map.size) == 0, "picture %u differs", i);
        gst_buffer_unmap(wanted, &map);
    }
    fail_unless_equals_int(count_warnings(), 1);
}

/* GstVideoFrame's own functions write nothing here: what a picture is made of is. */
static void scribble(GstBuffer *buffer, guint seed)
{
    g_autoptr(GstBuffer) picture = ends_picture(CAPS_SMALL, seed);
    GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);
    GstMapInfo from, to;

    fail_unless(gst_buffer_map(picture, &from, GST_MAP_READ));
    fail_unless(gst_buffer_map(buffer, &to, GST_MAP_READ));
    for (guint row = 0; row < 16; row++)
        memcpy(to.data + meta->offset[0] + row * (gsize)meta->stride[0], from.data + row * 128,
               128);
    gst_buffer_unmap(buffer, &to);
    gst_buffer_unmap(picture, &from);
}

/* A slot that has a picture already is written to as well, from the first frame on; reading alone
 * causes no warning. */
TEST(test_second_thoughts_and_reading, .times = 2)
{
    open_stage("");
    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    GstBufferPool *pool = ends_pool(sink, CAPS_SMALL);
    for (guint i = 0; i < FRAMES; i++) {
        GstBuffer *lent = ends_acquire(pool);
        ends_paint(lent, CAPS_SMALL, i);
        if (__i__)
            scribble(lent, i + 100);
        else
            ends_check_picture(lent, CAPS_SMALL, i);
        gst_harness_push(sink, lent);
        ends_take(src, CAPS_SMALL, __i__ ? i + 100 : i);
    }
    fail_unless_equals_int(count_warnings(), __i__);
}

int main(int argc, char **argv)
{
    device = argc > 1 ? argv[1] : "cuda:0";
    ends_init_environment();
    gst_check_init(&argc, &argv);
    g_autoptr(GstElementFactory) factory = gst_element_factory_find("rgb2bayer");
    bayer = factory != NULL;
    if (!bayer)
        g_print("no rgb2bayer here (gstreamer1.0-plugins-bad)\n");
    return ends_run_tests(60);
}
