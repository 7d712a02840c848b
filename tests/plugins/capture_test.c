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
    g_autofree gchar *launch =
        g_strdup_printf("gpudirectsrc name=src address=v4l2:///dev/video0 num-buffers=20 %s ! %s ! "
                        "fakesink name=sink signal-handoffs=true",
                        properties, filter);
    g_autoptr(GstElement) pipeline = gst_parse_launch(launch, NULL);
    g_autoptr(GstElement) sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
    struct watch watch = {gst_bin_get_by_name(GST_BIN(pipeline), "src"), 0, 0, TRUE, TRUE, TRUE};
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);

    g_signal_connect(sink, "handoff", G_CALLBACK(on_frame), &watch);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    GstMessage *message =
        gst_bus_timed_pop_filtered(bus, 30 * GST_SECOND, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
    GstMessageType type = message ? GST_MESSAGE_TYPE(message) : GST_MESSAGE_UNKNOWN;
    g_print("# %s: %s after %u frames\n", filter, gst_message_type_get_name(type), watch.frames);
    if (type == GST_MESSAGE_EOS) {
        g_autoptr(GstPad) pad = gst_element_get_static_pad(sink, "sink");
        g_autoptr(GstCaps) caps = gst_pad_get_current_caps(pad);
        gst_structure_get_int(gst_caps_get_structure(caps, 0), "width", width);
        g_object_get(watch.src, "active-path", path, NULL);
        check(watch.frames == 20, "20 frames came");
        check(watch.ordered, "each later than the one before");
        check(watch.on_time, "stamped with the time of their capture");
        check(watch.has_meta, "with their real strides");
    }
    if (type == GST_MESSAGE_ERROR) {
        g_autoptr(GError) error = NULL;
        g_autofree gchar *debug = NULL;
        gst_message_parse_error(message, &error, &debug);
        *path = g_strdup_printf("%s; %s", error->message, debug);
    }
    gst_element_set_state(pipeline, GST_STATE_NULL);
    g_clear_pointer(&message, gst_message_unref);
    gst_object_unref(watch.src);
    return type;
}

static GstMessageType run(const gchar *filter, gint *width, gchar **path)
{
    return run_with("", filter, width, path);
}

/* Each method of accessing the card's buffers, and the reason if it is not available. */
static void check_io_modes(void)
{
    static const gchar *const modes[] = {"mmap", "userptr", "dmabuf"};
    const gchar *filter = "video/x-raw,format=UYVY,width=320,height=180";
    gchar *path = NULL;
    gint width = 0;

    for (guint i = 0; i < G_N_ELEMENTS(modes); i++) {
        g_autofree gchar *properties = g_strdup_printf("io-mode=%s require-direct=true", modes[i]);
        g_autofree gchar *wanted = g_strdup_printf("v4l2-%s", modes[i]);
        check(run_with(properties, filter, &width, &path) == GST_MESSAGE_EOS, properties);
        check(g_strcmp0(path, wanted) == 0, wanted);
        g_clear_pointer(&path, g_free);
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

/* --- the monitor -------------------------------------------------------------------------- */

static gboolean is_card(GstDevice *device)
{
    GstStructure *properties = gst_device_get_properties(device);
    gboolean is = properties && gst_structure_has_name(properties, "gpudirect-capture");

    g_clear_pointer(&properties, gst_structure_free);
    return is;
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

static void check_monitor(void)
{
    g_autoptr(GstDeviceMonitor) monitor = gst_device_monitor_new();

    gst_device_monitor_add_filter(monitor, "Video/Source", NULL);
    gst_device_monitor_start(monitor);
    g_autoptr(GstDevice) card = find_card(monitor);
    check(card != NULL, "the card is in the device monitor");
    g_autoptr(GstCaps) caps = gst_device_get_caps(card);
    GstCaps *wanted;
    wanted = gst_caps_from_string("video/x-raw,format=UYVY,width=640,height=360,framerate=40/1");
    check(gst_caps_can_intersect(wanted, caps), "with its modes");
    gst_caps_unref(wanted);
    wanted = gst_caps_from_string("video/x-raw,format=UYVY,width=640,height=360,framerate=7/1");
    check(!gst_caps_can_intersect(wanted, caps), "and no others");
    gst_caps_unref(wanted);
    check(has_way(card, "host: yes (v4l2-userptr)"), "and a way to the host");
    check(has_way(card, "opencl:0: no, by v4l2-userptr: memory of opencl:0 has no dma-buf"),
          "and why there is none to OpenCL");
    gst_device_monitor_stop(monitor);
}

static void count_frame(GstElement *sink, GstBuffer *buffer, GstPad *pad, gint *frames)
{
    g_atomic_int_inc(frames);
}

/* FALSE: the pipeline ended, or nothing came for a minute. */
static gboolean frames_come(GstBus *bus, gint *frames, gint more)
{
    gint64 end = g_get_monotonic_time() + G_TIME_SPAN_MINUTE;
    gint enough = g_atomic_int_get(frames) + more;

    while (g_atomic_int_get(frames) < enough && g_get_monotonic_time() < end) {
        g_autoptr(GstMessage) message =
            gst_bus_timed_pop_filtered(bus, 10 * GST_MSECOND, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
        if (message)
            return FALSE;
    }
    return g_atomic_int_get(frames) >= enough;
}

/* The card is probed repeatedly while it captures. */
static void check_undisturbed(void)
{
    g_autoptr(GstElement) pipeline =
        gst_parse_launch("gpudirectsrc address=v4l2:///dev/video0 ! "
                         "video/x-raw,format=UYVY,width=320,height=180 ! "
                         "fakesink name=sink signal-handoffs=true",
                         NULL);
    g_autoptr(GstElement) sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    gint frames = 0;
    gboolean going_on;

    g_signal_connect(sink, "handoff", G_CALLBACK(count_frame), &frames);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    going_on = frames_come(bus, &frames, 1);
    for (guint looks = 0; looks < 10 && going_on; looks++) {
        g_autoptr(GstDeviceProvider) provider =
            gst_device_provider_factory_get_by_name("gpudirectdeviceprovider");
        GList *devices = gst_device_provider_get_devices(provider);
        check(devices && is_card(devices->data), "the card is listed while it captures");
        g_list_free_full(devices, gst_object_unref);
        /* More than the card has buffers: those of before the look have come then. */
        going_on = frames_come(bus, &frames, 10);
    }
    check(going_on, "and captures on while it is looked at");
    gst_element_set_state(pipeline, GST_STATE_NULL);
}

static gboolean run_command(const gchar *command)
{
    gint status = -1;

    return g_spawn_command_line_sync(command, NULL, NULL, &status, NULL) && status == 0;
}

/* The card is unplugged and plugged in again, twice. */
static void check_hotplug(void)
{
    g_autoptr(GstDeviceMonitor) monitor = gst_device_monitor_new();

    gst_device_monitor_add_filter(monitor, "Video/Source", NULL);
    gst_device_monitor_start(monitor);
    gst_object_unref(next_message(monitor, GST_MESSAGE_DEVICE_ADDED)); /* what is there */
    for (guint i = 0; i < 2; i++) {
        check(run_command("modprobe -r vivid"), "the card is pulled out");
        GstDevice *card = next_message(monitor, GST_MESSAGE_DEVICE_REMOVED);
        check(card != NULL, "the monitor says so");
        gst_clear_object(&card);
        card = find_card(monitor);
        check(card == NULL, "and lists it no more");
        check(run_command("modprobe vivid n_devs=1 node_types=0x1 num_inputs=1 input_types=0"),
              "it is put in again");
        card = next_message(monitor, GST_MESSAGE_DEVICE_ADDED);
        check(card != NULL, "the monitor says so");
        GstElement *element = gst_device_create_element(card, "src");
        GstElement *pipeline = gst_pipeline_new(NULL);
        GstElement *sink = gst_element_factory_make("fakesink", NULL);
        g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
        g_object_set(element, "num-buffers", 3, NULL);
        gst_bin_add_many(GST_BIN(pipeline), element, sink, NULL);
        gst_element_link(element, sink);
        gst_element_set_state(pipeline, GST_STATE_PLAYING);
        GstMessage *message =
            gst_bus_timed_pop_filtered(bus, 30 * GST_SECOND, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
        check(message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_EOS, "and an element of it runs");
        g_clear_pointer(&message, gst_message_unref);
        gst_element_set_state(pipeline, GST_STATE_NULL);
        gst_object_unref(pipeline);
        gst_clear_object(&card);
    }
    gst_device_monitor_stop(monitor);
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
    check_undisturbed();
    check_hotplug();
    return failures ? 1 : 0;
}
