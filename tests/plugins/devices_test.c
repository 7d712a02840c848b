/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Channels in a device monitor: their caps and senders, and that they appear, change and
 * disappear. */
#include "ends.h"

#include <signal.h>
#include <sys/wait.h>

#define DEADLINE (30 * GST_SECOND)
#define CAPS_OTHER "video/x-raw,format=NV12,width=32,height=32,framerate=50/1"

static gboolean has_address(GstDevice *device, const gchar *address)
{
    g_autoptr(GstStructure) properties = gst_device_get_properties(device);

    return properties && g_strcmp0(gst_structure_get_string(properties, "address"), address) == 0;
}

/* The channel among devices, which are freed. */
static GstDevice *pick(GList *devices, const gchar *address)
{
    GstDevice *found = NULL;

    for (GList *at = devices; at; at = at->next)
        if (has_address(at->data, address)) {
            fail_if(found, "%s is listed twice", address);
            found = gst_object_ref(at->data);
        }
    g_list_free_full(devices, gst_object_unref);
    return found;
}

/* What else the sink was told (colorimetry, say) is there, too. */
static gboolean has_caps(GstDevice *device, const gchar *text)
{
    g_autoptr(GstCaps) caps = gst_device_get_caps(device), wanted = gst_caps_from_string(text);

    return gst_caps_is_fixed(caps) && gst_caps_is_subset(caps, wanted);
}

static void check_element(GstDevice *device, const gchar *wanted)
{
    g_autoptr(GstElement) element = gst_device_create_element(device, NULL);
    g_autofree gchar *address = ends_text(element, "address");

    fail_unless_equals_string(GST_OBJECT_NAME(gst_element_get_factory(element)), "gpudirectsrc");
    fail_unless_equals_string(address, wanted);
}

/* The next message of the type about the channel. */
static GstDevice *wait_for(GstDeviceMonitor *monitor, GstMessageType type, const gchar *address)
{
    g_autoptr(GstBus) bus = gst_device_monitor_get_bus(monitor);
    GstDevice *device = NULL;
    gint64 end = g_get_monotonic_time() + GST_TIME_AS_USECONDS(DEADLINE);

    while (!device) {
        GstMessage *message = gst_bus_timed_pop_filtered(bus, GST_SECOND, type);
        fail_if(g_get_monotonic_time() > end, "no %s about %s", gst_message_type_get_name(type),
                address);
        /* The types of devices' messages are no bits: a bus that filters lets others through. */
        if (!message || GST_MESSAGE_TYPE(message) != type) {
            gst_clear_message(&message);
            continue;
        }
        if (type == GST_MESSAGE_DEVICE_ADDED)
            gst_message_parse_device_added(message, &device);
        else if (type == GST_MESSAGE_DEVICE_REMOVED)
            gst_message_parse_device_removed(message, &device);
        else
            gst_message_parse_device_changed(message, &device, NULL);
        gst_message_unref(message);
        if (!has_address(device, address))
            gst_clear_object(&device);
    }
    return device;
}

/* As it has this format: it may have been seen before. */
static void wait_for_caps(GstDeviceMonitor *monitor, GstMessageType type, const gchar *address,
                          const gchar *caps)
{
    GstDevice *device = wait_for(monitor, type, address);

    while (!has_caps(device, caps)) {
        gst_object_unref(device);
        device = wait_for(monitor, GST_MESSAGE_DEVICE_CHANGED, address);
    }
    gst_object_unref(device);
}

static GstHarness *sending(const gchar *address, const gchar *caps)
{
    GstHarness *sink = ends_sink_at(address, "wait-for-connection=false");

    gst_harness_set_src_caps_str(sink, caps);
    ends_push(sink, caps, 1);
    return sink;
}

TEST(test_probe)
{
    g_autoptr(GstHarness) sink = sending("studio-7", CAPS_SMALL);
    g_autoptr(GstDeviceProvider) provider =
        gst_device_provider_factory_get_by_name("gpudirectdeviceprovider");
    GstDevice *device = pick(gst_device_provider_get_devices(provider), "studio-7");
    gint64 pid = 0, end = g_get_monotonic_time() + GST_TIME_AS_USECONDS(DEADLINE);

    fail_unless(device, "the channel is not listed");
    while (!has_caps(device, CAPS_SMALL)) { /* a busy machine does not answer in time */
        fail_if(g_get_monotonic_time() > end, "without its caps");
        gst_object_unref(device);
        device = pick(gst_device_provider_get_devices(provider), "studio-7");
    }
    g_autoptr(GstStructure) properties = gst_device_get_properties(device);
    fail_unless(gst_structure_get_int64(properties, "pid", &pid) && pid == getpid());
    fail_unless_equals_string(gst_structure_get_string(properties, "program"), "gst-devices");
    check_element(device, "studio-7");
    gst_object_unref(device);
}

TEST(test_monitor)
{
    g_autofree gchar *elsewhere = g_strdup_printf("unix:%s/elsewhere", g_getenv("XDG_RUNTIME_DIR"));
    const gchar *addresses[] = {"studio-8", elsewhere};
    g_autoptr(GstHarness) before = sending("before", CAPS_SMALL);
    g_autoptr(EndsMonitor) monitor = ends_monitor();
    GstDevice *device = pick(gst_device_monitor_get_devices(monitor), "before");

    fail_unless(device, "what was there before is not listed");
    gst_object_unref(device);
    for (guint i = 0; i < G_N_ELEMENTS(addresses); i++) {
        const gchar *address = addresses[i];
        GstHarness *sink = sending(address, CAPS_SMALL);
        gst_object_unref(wait_for(monitor, GST_MESSAGE_DEVICE_ADDED, address));
        gst_harness_set_src_caps_str(sink, CAPS_OTHER);
        ends_push(sink, CAPS_OTHER, 2);
        wait_for_caps(monitor, GST_MESSAGE_DEVICE_CHANGED, address, CAPS_OTHER);
        ends_close(sink);
        gst_object_unref(wait_for(monitor, GST_MESSAGE_DEVICE_REMOVED, address));
        fail_if(pick(gst_device_monitor_get_devices(monitor), address), "it is still listed");
    }
    device = pick(gst_device_monitor_get_devices(monitor), "before");
    fail_unless(device, "the other one went, too");
    gst_object_unref(device);
}

/* Nothing in the directory changes when a sender is killed. */
TEST(test_killed)
{
    g_autoptr(EndsMonitor) monitor = ends_monitor();

    for (guint i = 0; i < 3; i++) {
        GPid pid =
            ends_spawn("videotestsrc is-live=true ! " CAPS_OTHER " ! gpudirectsink address=victim");
        wait_for_caps(monitor, GST_MESSAGE_DEVICE_ADDED, "victim", CAPS_OTHER);
        kill(pid, SIGKILL);
        gst_object_unref(wait_for(monitor, GST_MESSAGE_DEVICE_REMOVED, "victim"));
        waitpid(pid, NULL, 0);
    }
}

/* A ring that waits for its writer. */
TEST(test_target)
{
    g_autoptr(EndsMonitor) monitor = ends_monitor();
    gint64 pid = 0;

    for (guint i = 0; i < 3; i++) {
        g_autoptr(GstElement) pipeline = ends_pipeline(
            "gpudirectsrc address=target:sdi device=host ! " CAPS_OTHER " ! fakesink");
        gst_element_set_state(pipeline, GST_STATE_PLAYING);
        g_autoptr(GstDevice) device = wait_for(monitor, GST_MESSAGE_DEVICE_ADDED, "target:sdi");
        fail_unless(has_caps(device, CAPS_OTHER));
        g_autoptr(GstStructure) properties = gst_device_get_properties(device);
        fail_unless_equals_string(gst_structure_get_name(properties), "gpudirect-target");
        fail_unless_equals_string(gst_structure_get_string(properties, "kind"), "host");
        fail_unless(gst_structure_get_int64(properties, "pid", &pid) && pid == getpid());
        check_element(device, "target:sdi");
        gst_element_set_state(pipeline, GST_STATE_NULL);
        gst_object_unref(wait_for(monitor, GST_MESSAGE_DEVICE_REMOVED, "target:sdi"));
    }
}

/* A monitor may be started again. */
TEST(test_again)
{
    ends_sink_at("studio-9", "wait-for-connection=false");

    for (guint i = 0; i < 2; i++) {
        g_autoptr(EndsMonitor) monitor = ends_monitor();
        g_autoptr(GstDevice) device = pick(gst_device_monitor_get_devices(monitor), "studio-9");
        fail_unless(device, "the channel is not listed");
        /* It has no format yet: any that can be. */
        g_autoptr(GstCaps) caps = gst_device_get_caps(device);
        fail_if(gst_caps_is_fixed(caps) || gst_caps_is_any(caps) || gst_caps_is_empty(caps));
        gst_device_monitor_stop(monitor);
        fail_unless(gst_device_monitor_start(monitor));
    }
}

ENDS_MAIN(60)
