/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc on a capture card: run in the guest, where the kernel's test card is /dev/video0. */
#include <gst/gst.h>
#include <gst/video/video.h>
#include <string.h>

static int failures;

static void check(gboolean good, const gchar *what)
{
    g_print("%s: %s\n", good ? "ok" : "FAILED", what);
    failures += !good;
}

struct watch {
    GstElement *src;
    guint frames;
    GstClockTime last;
    gboolean ordered, on_time, has_meta;
};

static void on_frame(GstElement *sink, GstBuffer *buffer, GstPad *pad, struct watch *watch)
{
    GstClockTime pts = GST_BUFFER_PTS(buffer);
    GstClockTime now = gst_element_get_current_running_time(watch->src);

    if (watch->frames++ > 0 && pts <= watch->last)
        watch->ordered = FALSE;
    watch->last = pts;
    if (pts > now || now - pts > GST_SECOND)
        watch->on_time = FALSE;
    if (!gst_buffer_get_video_meta(buffer))
        watch->has_meta = FALSE;
}

/* Runs until 20 frames came; returns the message that ended it. */
static GstMessageType run_with(const gchar *properties, const gchar *filter, gint *width,
                               gchar **path)
{
    gchar *launch =
        g_strdup_printf("gpudirectsrc name=src address=v4l2:///dev/video0 num-buffers=20 %s ! %s ! "
                        "fakesink name=sink signal-handoffs=true",
                        properties, filter);
    GstElement *pipeline = gst_parse_launch(launch, NULL);
    GstElement *sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
    struct watch watch = {gst_bin_get_by_name(GST_BIN(pipeline), "src"), 0, 0, TRUE, TRUE, TRUE};
    GstBus *bus = gst_element_get_bus(pipeline);

    g_signal_connect(sink, "handoff", G_CALLBACK(on_frame), &watch);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    GstMessage *message =
        gst_bus_timed_pop_filtered(bus, 30 * GST_SECOND, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
    GstMessageType type = message ? GST_MESSAGE_TYPE(message) : GST_MESSAGE_UNKNOWN;
    g_print("# %s: %s after %u frames\n", filter, gst_message_type_get_name(type), watch.frames);
    if (type == GST_MESSAGE_EOS) {
        GstPad *pad = gst_element_get_static_pad(sink, "sink");
        GstCaps *caps = gst_pad_get_current_caps(pad);
        gst_structure_get_int(gst_caps_get_structure(caps, 0), "width", width);
        g_object_get(watch.src, "active-path", path, NULL);
        check(watch.frames == 20, "20 frames came");
        check(watch.ordered, "each later than the one before");
        check(watch.on_time, "stamped with the time of their capture");
        check(watch.has_meta, "with their real strides");
        gst_caps_unref(caps);
        gst_object_unref(pad);
    }
    if (type == GST_MESSAGE_ERROR) {
        GError *error;
        gchar *debug;
        gst_message_parse_error(message, &error, &debug);
        *path = g_strdup_printf("%s; %s", error->message, debug);
        g_error_free(error);
        g_free(debug);
    }
    gst_element_set_state(pipeline, GST_STATE_NULL);
    g_clear_pointer(&message, gst_message_unref);
    gst_object_unref(watch.src);
    gst_object_unref(sink);
    gst_object_unref(bus);
    gst_object_unref(pipeline);
    g_free(launch);
    return type;
}

static GstMessageType run(const gchar *filter, gint *width, gchar **path)
{
    return run_with("", filter, width, path);
}

/* Each way of getting at the card's buffers, and what is said where it is none. */
static void check_io_modes(void)
{
    static const gchar *const modes[] = {"mmap", "userptr", "dmabuf"};
    const gchar *filter = "video/x-raw,format=UYVY,width=320,height=180";
    gchar *path = NULL;
    gint width = 0;

    for (guint i = 0; i < G_N_ELEMENTS(modes); i++) {
        gchar *properties = g_strdup_printf("io-mode=%s require-direct=true", modes[i]);
        gchar *wanted = g_strdup_printf("v4l2-%s", modes[i]);
        check(run_with(properties, filter, &width, &path) == GST_MESSAGE_EOS, properties);
        check(g_strcmp0(path, wanted) == 0, wanted);
        g_clear_pointer(&path, g_free);
        g_free(properties);
        g_free(wanted);
    }
    check(run_with("io-mode=dmabuf device=opencl:0", filter, &width, &path) == GST_MESSAGE_ERROR,
          "a device without dma-bufs");
    check(strstr(path, "memory of opencl:0 has no dma-buf") != NULL, path);
    g_clear_pointer(&path, g_free);
    check(run_with("require-direct=true device=opencl:0", filter, &width, &path) ==
              GST_MESSAGE_ERROR,
          "a device that every path copies to");
    check(strstr(path, "v4l2-userptr: each frame would be copied") != NULL, path);
    g_clear_pointer(&path, g_free);
}

static void check_monitor(void)
{
    GstDeviceMonitor *monitor = gst_device_monitor_new();
    gboolean found = FALSE;

    gst_device_monitor_add_filter(monitor, "Video/Source", NULL);
    gst_device_monitor_start(monitor);
    GList *devices = gst_device_monitor_get_devices(monitor);
    for (GList *at = devices; at; at = at->next) {
        GstStructure *properties = gst_device_get_properties(at->data);
        GstCaps *caps = gst_device_get_caps(at->data);
        if (properties && gst_structure_has_name(properties, "gpudirect-capture") &&
            !gst_caps_is_empty(caps))
            found = TRUE;
        g_clear_pointer(&properties, gst_structure_free);
        gst_caps_unref(caps);
    }
    check(found, "the card is in the device monitor, with caps");
    g_list_free_full(devices, gst_object_unref);
    gst_device_monitor_stop(monitor);
    gst_object_unref(monitor);
}

int main(int argc, char **argv)
{
    gint width = 0;
    gchar *path = NULL;

    gst_init(&argc, &argv);
    check_monitor();
    check(run("identity", &width, &path) == GST_MESSAGE_EOS, "any mode");
    check(path && g_str_has_prefix(path, "v4l2-"), "by a capture route");
    g_clear_pointer(&path, g_free);
    check(run("video/x-raw,format=UYVY,width=640", &width, &path) == GST_MESSAGE_EOS &&
              width == 640,
          "the mode that was asked for");
    g_clear_pointer(&path, g_free);
    check(run("video/x-raw,width=17,height=9999", &width, &path) == GST_MESSAGE_ERROR,
          "a mode that no card has is an error");
    g_clear_pointer(&path, g_free);
    check_io_modes();
    return failures ? 1 : 0;
}
