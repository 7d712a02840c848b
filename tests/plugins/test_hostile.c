/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sender that lies to gpudirectsrc: the pipeline ends in an error that says what is wrong, or
 * drops the link and waits for the next one; it never shows what is not there, and its memory does
 * not grow. */
#include "hostile.h"

#include "wire/socket.h"

#include <string.h>

static struct hostile hostile;

/* What the caps promise can be read, all of it. */
static void read_all(GstBuffer *buffer)
{
    GstCaps *caps = gst_pad_get_current_caps(hostile.src->sinkpad);
    GstVideoInfo info;
    GstVideoFrame frame;
    volatile guint8 sum = 0;

    fail_unless(gst_video_info_from_caps(&info, caps));
    gst_caps_unref(caps);
    fail_unless(gst_video_frame_map(&frame, &info, buffer, GST_MAP_READ));
    for (gint y = 0; y < info.height; y++)
        sum ^= ((guint8 *)GST_VIDEO_FRAME_PLANE_DATA(
            &frame, 0))[(gsize)y * (gsize)GST_VIDEO_FRAME_PLANE_STRIDE(&frame, 0)];
    gst_video_frame_unmap(&frame);
    gst_buffer_unref(buffer);
}

/* --- another layout under the same caps --------------------------------------------------- */

/* Until the receiver complains; buffers that come before must be what the caps say. Whether the
 * link is cut or the element notices, a frame of the new layout never comes. */
static void expect_no_small_frame(void)
{
    GError *error = NULL;
    GstMessage *message = NULL;
    GstBuffer *buffer;

    for (guint i = 0; i < 1000 && !message; i++) {
        while ((buffer = gst_harness_try_pull(hostile.src)))
            read_all(buffer);
        message = gst_bus_timed_pop_filtered(hostile.bus, 10 * GST_MSECOND,
                                             GST_MESSAGE_ERROR | GST_MESSAGE_WARNING);
    }
    fail_unless(message != NULL, "nobody noticed within 10 s");
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
        gst_message_parse_error(message, &error, NULL);
        fail_unless(g_error_matches(error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT), "%s",
                    error->message);
        fail_unless(strstr(error->message, "16x16") && strstr(error->message, "2048x1024"), "%s",
                    error->message);
        g_error_free(error);
    }
    gst_message_unref(message);
    while ((buffer = gst_harness_try_pull(hostile.src)))
        read_all(buffer);
}

/* Steps of a scripted sender that may be cut off at each. */
static void offer_smaller(void)
{
    struct gpud_message message;
    uint32_t entry;

    hostile_reshape(&hostile, 16, 16);
    raw_offer(&hostile.server, &message);
    hostile_say(&hostile, &message);
    if (!raw_receive(hostile.server.fd, &message, 3 * GPUD_SEC) ||
        message.type != GPUD_MESSAGE_ACCEPT)
        return;
    raw_adopt_page(&hostile.server, &message);
    hostile_serve(&hostile, RAW_SERVER_PAGE, RAW_SERVER_CANARY);
    if (!raw_receive(hostile.server.fd, &message, 3 * GPUD_SEC) ||
        message.type != GPUD_MESSAGE_READY)
        return;
    raw_publish(&hostile.server, &entry);
}

GST_START_TEST(test_smaller_layout_in_the_same_epoch)
{
    hostile_open(&hostile, NULL, 2048, 1024);
    hostile_serve(&hostile, -1, RAW_SERVER_STREAMING);
    read_all(ends_pull(hostile.src));
    offer_smaller();
    expect_no_small_frame();
    hostile_close(&hostile);
}
GST_END_TEST

/* Epoch 0 is no epoch that an honest sender has. */
GST_START_TEST(test_smaller_layout_after_a_reconnect)
{
    hostile_open(&hostile, NULL, 2048, 1024);
    hostile_serve(&hostile, -1, RAW_SERVER_STREAMING);
    read_all(ends_pull(hostile.src));
    raw_hang_up(&hostile.server);
    GError *lost = NULL;
    fail_unless_equals_int(hostile_complaint(&hostile, &lost), GST_MESSAGE_WARNING);
    g_error_free(lost);

    hostile.server.epoch = 0;
    hostile_serve(&hostile, -1, RAW_SERVER_HELLO);
    offer_smaller();
    expect_no_small_frame();
    hostile_close(&hostile);
}
GST_END_TEST

static Suite *hostile_suite(void)
{
    Suite *suite = suite_create("hostile");
    TCase *tc = tcase_create("hostile");

    suite_add_tcase(suite, tc);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, test_smaller_layout_in_the_same_epoch);
    tcase_add_test(tc, test_smaller_layout_after_a_reconnect);
    return suite;
}

int main(int argc, char **argv)
{
    ends_init_environment();
    gst_check_init(&argc, &argv);
    return gst_check_run_suite(hostile_suite(), "hostile", __FILE__);
}
