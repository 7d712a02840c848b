/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc on a capture card: run in the guest, where the kernel's test card is /dev/video0. */
#include "card.h"

#include <gst/video/video.h>
#include <string.h>

#define SMALL "video/x-raw,format=UYVY,width=320,height=180"

struct watch {
    GstElement *src;
    guint frames;
    GstClockTime last;
};

static void on_frame(GstElement *sink, GstBuffer *buffer, GstPad *pad, struct watch *watch)
{
    GstClockTime pts = GST_BUFFER_PTS(buffer);
    GstClockTime now = gst_element_get_current_running_time(watch->src);

    check(watch->frames++ == 0 || pts > watch->last, "a frame is not later than the one before");
    check(pts <= now && now - pts <= GST_SECOND, "not stamped with the time of its capture");
    check(gst_buffer_get_video_meta(buffer) != NULL, "without its real strides");
    watch->last = pts;
}

/* Each method of accessing the card's buffers, and the reason if it is not available. */
static const struct {
    const gchar *properties, *filter;
    gboolean works;
    const gchar *says; /* the path, which may begin like this ("v4l2-"); or a part of the error */
    gint width;
} runs[] = {
    {"", "identity", TRUE, "v4l2-"},
    {"", "video/x-raw,format=UYVY,width=640", TRUE, "v4l2-", 640},
    {"", "video/x-raw,width=17,height=9999", FALSE, ""},
    {"io-mode=mmap require-direct=true", SMALL, TRUE, "v4l2-mmap"},
    {"io-mode=userptr require-direct=true", SMALL, TRUE, "v4l2-userptr"},
    {"io-mode=dmabuf require-direct=true", SMALL, TRUE, "v4l2-dmabuf"},
    {"io-mode=dmabuf device=opencl:0", SMALL, FALSE, "memory of opencl:0 has no dma-buf"},
    {"require-direct=true device=opencl:0", SMALL, FALSE,
     "v4l2-userptr: each frame would be copied"},
};

static void check_run(const gchar *properties, const gchar *filter, gboolean works,
                      const gchar *says, gint width)
{
    g_autoptr(GstElement) pipeline =
        launch("gpudirectsrc name=src address=v4l2://" CARD " num-buffers=20 %s ! %s ! "
               "fakesink name=sink signal-handoffs=true",
               properties, filter);
    g_autoptr(GstElement) src = gst_bin_get_by_name(GST_BIN(pipeline), "src");
    g_autoptr(GstElement) sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
    struct watch watch = {.src = src};
    g_autoptr(GError) error = NULL;
    g_autofree gchar *debug = NULL, *path = NULL;

    g_print("%s ! %s\n", properties, filter);
    g_signal_connect(sink, "handoff", G_CALLBACK(on_frame), &watch);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    g_autoptr(GstMessage) message = await_message(pipeline, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
    check(message != NULL, "neither its end nor an error after %u frames", watch.frames);
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
        gst_message_parse_error(message, &error, &debug);
        check(!works && (strstr(error->message, says) || strstr(debug, says)), "%s; %s",
              error->message, debug);
    } else {
        g_autoptr(GstPad) pad = gst_element_get_static_pad(sink, "sink");
        g_autoptr(GstCaps) caps = gst_pad_get_current_caps(pad);
        gint is = 0;
        gst_structure_get_int(gst_caps_get_structure(caps, 0), "width", &is);
        g_object_get(src, "active-path", &path, NULL);
        check(works && watch.frames == 20, "%u frames came", watch.frames);
        check(width == 0 || is == width, "they are %d wide", is);
        check(g_str_has_suffix(says, "-") ? g_str_has_prefix(path, says) : g_str_equal(path, says),
              "by %s", path);
    }
    gst_element_set_state(pipeline, GST_STATE_NULL);
}

/* --- the monitor -------------------------------------------------------------------------- */

static gboolean is_card(GstDevice *device)
{
    g_autoptr(GstStructure) properties = gst_device_get_properties(device);

    return properties && gst_structure_has_name(properties, "gpudirect-capture");
}

static GstDevice *find_card(GstDeviceMonitor *monitor)
{
    GList *devices = gst_device_monitor_get_devices(monitor);
    GstDevice *card = NULL;

    for (GList *at = devices; at; at = at->next)
        if (is_card(at->data))
            gst_object_replace((GstObject **)&card, at->data);
    g_list_free_full(devices, gst_object_unref);
    return card;
}

/* The device's text in direct-path, which begins like this. */
static gboolean has_way(GstDevice *card, const gchar *way)
{
    g_autoptr(GstStructure) properties = gst_device_get_properties(card);
    const GValue *ways = gst_structure_get_value(properties, "direct-path");
    gboolean found = FALSE;

    for (guint i = 0; ways && i < gst_value_array_get_size(ways); i++)
        found |= g_str_has_prefix(g_value_get_string(gst_value_array_get_value(ways, i)), way);
    return found;
}

static GstDevice *next_message(GstDeviceMonitor *monitor, GstMessageType type)
{
    g_autoptr(GstBus) bus = gst_device_monitor_get_bus(monitor);
    GstDevice *device = NULL;

    while (!device) {
        g_autoptr(GstMessage) message = gst_bus_timed_pop_filtered(bus, 60 * GST_SECOND, type);
        if (!message)
            break;
        if (type == GST_MESSAGE_DEVICE_ADDED)
            gst_message_parse_device_added(message, &device);
        else
            gst_message_parse_device_removed(message, &device);
        if (!is_card(device))
            gst_clear_object(&device);
    }
    return device;
}

static GstDeviceMonitor *start_monitor(void)
{
    GstDeviceMonitor *monitor = gst_device_monitor_new();

    gst_device_monitor_add_filter(monitor, "Video/Source", NULL);
    gst_device_monitor_start(monitor);
    return monitor;
}

static gboolean has_mode(GstCaps *caps, const gchar *rate)
{
    g_autofree gchar *text =
        g_strdup_printf("video/x-raw,format=UYVY,width=640,height=360,framerate=%s", rate);
    g_autoptr(GstCaps) wanted = gst_caps_from_string(text);

    return gst_caps_can_intersect(wanted, caps);
}

static void check_monitor(void)
{
    g_autoptr(GstDeviceMonitor) monitor = start_monitor();
    g_autoptr(GstDevice) card = find_card(monitor);

    check(card != NULL, "the card is not in the device monitor");
    g_autoptr(GstCaps) caps = gst_device_get_caps(card);
    check(has_mode(caps, "40/1"), "without its modes");
    check(!has_mode(caps, "7/1"), "with other modes");
    check(has_way(card, "host: yes (v4l2-userptr)"), "without a way to the host");
    check(has_way(card, "opencl:0: no, by v4l2-userptr: memory of opencl:0 has no dma-buf"),
          "it does not say why there is no way to OpenCL");
    gst_device_monitor_stop(monitor);
}

static void count_frame(GstElement *sink, GstBuffer *buffer, GstPad *pad, gint *frames)
{
    g_atomic_int_inc(frames);
}

/* Unless the pipeline ends, or nothing comes for a minute. */
static void await_frames(GstElement *pipeline, gint *frames, gint more)
{
    gint64 end = g_get_monotonic_time() + G_TIME_SPAN_MINUTE;
    gint enough = g_atomic_int_get(frames) + more;

    while (g_atomic_int_get(frames) < enough) {
        g_autoptr(GstMessage) message = gst_bus_timed_pop_filtered(
            GST_ELEMENT_BUS(pipeline), 10 * GST_MSECOND, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
        check(!message && g_get_monotonic_time() < end, "it does not capture on");
    }
}

/* The card is probed repeatedly while it captures. */
static void check_undisturbed(void)
{
    g_autoptr(GstElement) pipeline = launch("gpudirectsrc address=v4l2://" CARD " ! " SMALL
                                            " ! fakesink name=sink signal-handoffs=true");
    g_autoptr(GstElement) sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
    gint frames = 0;

    g_signal_connect(sink, "handoff", G_CALLBACK(count_frame), &frames);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    await_frames(pipeline, &frames, 1);
    for (guint looks = 0; looks < 10; looks++) {
        g_autoptr(GstDeviceProvider) provider =
            gst_device_provider_factory_get_by_name("gpudirectdeviceprovider");
        GList *devices = gst_device_provider_get_devices(provider);
        check(devices && is_card(devices->data), "the card is not listed while it captures");
        g_list_free_full(devices, gst_object_unref);
        /* More than the card has buffers: those of before the look have come then. */
        await_frames(pipeline, &frames, 10);
    }
    gst_element_set_state(pipeline, GST_STATE_NULL);
}

static void run_command(const gchar *command)
{
    gint status = -1;

    check(g_spawn_command_line_sync(command, NULL, NULL, &status, NULL) && status == 0, "%s",
          command);
}

/* The card is unplugged and plugged in again, twice. */
static void check_hotplug(void)
{
    g_autoptr(GstDeviceMonitor) monitor = start_monitor();

    gst_object_unref(next_message(monitor, GST_MESSAGE_DEVICE_ADDED)); /* what is there */
    for (guint i = 0; i < 2; i++) {
        run_command("modprobe -r vivid");
        g_autoptr(GstDevice) removed = next_message(monitor, GST_MESSAGE_DEVICE_REMOVED);
        check(removed != NULL, "the monitor does not say that the card is pulled out");
        g_autoptr(GstDevice) listed = find_card(monitor);
        check(!listed, "it is still listed");
        run_command("modprobe vivid n_devs=1 node_types=0x1 num_inputs=1 input_types=0");
        g_autoptr(GstDevice) card = next_message(monitor, GST_MESSAGE_DEVICE_ADDED);
        check(card != NULL, "the monitor does not say that it is put in again");
        GstElement *element = gst_device_create_element(card, "src");
        GstElement *sink = gst_element_factory_make("fakesink", NULL);
        g_autoptr(GstElement) pipeline = gst_pipeline_new(NULL);
        g_object_set(element, "num-buffers", 3, NULL);
        gst_bin_add_many(GST_BIN(pipeline), element, sink, NULL);
        gst_element_link(element, sink);
        gst_element_set_state(pipeline, GST_STATE_PLAYING);
        await_end(pipeline, "an element of it does not run");
        gst_element_set_state(pipeline, GST_STATE_NULL);
    }
    gst_device_monitor_stop(monitor);
}

int main(int argc, char **argv)
{
    gst_init(&argc, &argv);
    check_monitor();
    for (guint i = 0; i < G_N_ELEMENTS(runs); i++)
        check_run(runs[i].properties, runs[i].filter, runs[i].works, runs[i].says, runs[i].width);
    check_undisturbed();
    check_hotplug();
    g_print("ok\n");
    return 0;
}
