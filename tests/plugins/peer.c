/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The other end in a process of its own, to be killed: runs the pipeline of its command line until
 * it ends. */
#include <gst/gst.h>

int main(int argc, char **argv)
{
    GError *error = NULL;

    gst_init(&argc, &argv);
    GstElement *pipeline = gst_parse_launchv((const gchar **)argv + 1, &error);
    if (!pipeline || error) {
        g_printerr("%s\n", error ? error->message : "no pipeline");
        return 2;
    }
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    /* No test waits longer. */
    GstMessage *message =
        gst_bus_timed_pop_filtered(bus, 60 * GST_SECOND, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
    int result = message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_EOS ? 0 : 1;
    g_clear_pointer(&message, gst_message_unref);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(pipeline);
    return result;
}
