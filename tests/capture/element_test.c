/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc on a card of the test's own, with two GPUs: one behind the same switch as the card,
 * and, before it in the driver's list, one in another NUMA node. With device=auto frames arrive on
 * the former where the elements downstream ask for its memory first, and else on the host. */
#include "base/base.h"
#include "capture/capture.h"
#include "base/plugin.h"
#include "src/src.h"
#include "support/check.h"
#include "support/fake_driver.h"
#include "support/host.h"

#include <errno.h>
#include <gst/video/video.h>

#define NODE "/dev/fake"
#define CARD "0000:03:00.1" /* behind the switch */
#define CUDA "memory:CUDAMemory"
#define FIELDS "format=UYVY,width=320,height=180"

static struct fake_driver driver;

/* gpud_capture_create() on that driver. */
enum gpud_status __wrap_gpud_capture_create(struct gpud_context *context,
                                            const struct gpud_capture_params *params,
                                            struct gpud_capture **capture,
                                            struct gpud_error *error);
enum gpud_status __wrap_gpud_capture_create(struct gpud_context *context,
                                            const struct gpud_capture_params *params,
                                            struct gpud_capture **capture, struct gpud_error *error)
{
    struct gpud_device *device = NULL, *host = NULL;
    enum gpud_status status = gpud_device_open(context, params->device, &device, error);
    if (status == GPUD_OK)
        status = gpud_device_open(context, "host", &host, error);
    if (status == GPUD_OK)
        status = gpud_capture_open(device, host, params, &fake_system, capture, error);
    gpud_device_close(&device);
    gpud_device_close(&host);
    return status;
}

static void make_machine(const char *from, const char *folder)
{
    static const char *const places[][2] = {
        {"0000:82:00.0", "face:01:00.0"}, {"0000:02:00.0", "face:02:00.0"}, {NULL, NULL}};
    char machine[96];
    gpud_print(machine, "%s/machine.xml", folder);
    move_cards(from, machine, places);
    set_file(folder, "sys/devices/pci0000:00/0000:00:01.0/" CARD "/vendor", "0xbdbd");
    set_link(folder, "sys/class/video4linux/fake/device",
             "../../../devices/pci0000:00/0000:00:01.0/" CARD);
    setenv("HWLOC_XMLFILE", machine, 1);
    setenv("HWLOC_THISSYSTEM", "0", 1);
    gpud_sysfs_root = folder;
}

/* --- a pipeline ------------------------------------------------------------------------------- */

static void on_buffer(GstElement *sink, GstBuffer *buffer, GstPad *pad, GAsyncQueue *buffers)
{
    g_async_queue_push(buffers, gst_buffer_ref(buffer));
}

static void fail_by_message(GstElement *pipeline)
{
    GstBus *bus = gst_element_get_bus(pipeline);
    GstMessage *message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
    GError *error = NULL;
    if (message)
        gst_message_parse_error(message, &error, NULL);
    FAIL("it does not play: %s", error ? error->message : "and does not say why");
}

/* false: it is an earlier one, or in what was left of the buffers of another signal. */
static gboolean check_picture(GstBuffer *buffer, unsigned char byte, gint width,
                              const gchar *memory)
{
    GstMemory *first = gst_buffer_peek_memory(buffer, 0);
    GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);
    gsize size = (gsize)width * (gsize)width * 9 / 16 * 2;
    GstMapInfo map;
    CHECK(gst_memory_is_type(first, "gst.cuda.memory") == (memory != NULL), "the memory is %s",
          first->allocator->mem_type);
    CHECK(meta && gst_buffer_map(buffer, &map, GST_MAP_READ), "it cannot be read");
    gboolean is_it = map.data[0] == byte && (gint)meta->width == width;
    CHECK(map.data[0] <= byte, "picture %u comes before picture %u", map.data[0], byte);
    CHECK(!is_it || map.size >= size, "%zu bytes of %dx%d", map.size, width, width * 9 / 16);
    for (gsize i = 0; is_it && i < size; i++)
        CHECK(map.data[i] == byte, "byte %zu of picture %u is %u", i, byte, map.data[i]);
    gst_buffer_unmap(buffer, &map);
    return is_it;
}

/* Pictures come, every byte of which is this one, until one arrives. */
static void expect_picture(GAsyncQueue *buffers, uint32_t *sequence, unsigned char byte, gint width,
                           const gchar *memory)
{
    gboolean came = FALSE;
    for (int64_t deadline = gpud_deadline(20 * GPUD_SEC); !came;) {
        CHECK(gpud_now() < deadline, "picture %u does not come", byte);
        if (fake_frame(&driver, *sequence + 1, byte))
            ++*sequence;
        GstBuffer *buffer = g_async_queue_timeout_pop(buffers, 20 * G_TIME_SPAN_MILLISECOND);
        came = buffer && check_picture(buffer, byte, width, memory);
        gst_clear_buffer(&buffer);
    }
}

static void expect_stats(GstElement *src, const gchar *device, const gchar *says)
{
    GstStructure *stats;
    g_object_get(src, "stats", &stats, NULL);
    const gchar *is = gst_structure_get_string(stats, "device");
    const gchar *reason = gst_structure_get_string(stats, "device-reason");
    CHECK(g_strcmp0(is, device) == 0, "frames arrive on %s, not on %s (%s)", is, device, reason);
    CHECK(says ? reason && strstr(reason, says) : !reason, "it says \"%s\", not \"%s\"", reason,
          says);
    gst_structure_free(stats);
}

/* memory: whose pictures go downstream; NULL: the CPU's. */
static void run(const gchar *device, const gchar *filter, const gchar *arrives, const gchar *memory,
                const gchar *says)
{
    static uint32_t sequence; /* whose times are never before the element plays */
    gchar *text = g_strdup_printf("gpudirectsrc name=src address=v4l2://" NODE " device=%s ! %s ! "
                                  "fakesink name=sink sync=false async=false signal-handoffs=true "
                                  "enable-last-sample=false",
                                  device, filter);
    GstElement *pipeline = gst_parse_launch(text, NULL);
    GstElement *src = gst_bin_get_by_name(GST_BIN(pipeline), "src");
    GstElement *sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
    GAsyncQueue *buffers = g_async_queue_new_full((GDestroyNotify)gst_buffer_unref);
    SAY("device=%s before %s", device, filter);
    if (sequence == 0)
        sequence = (uint32_t)(gpud_now() / (40 * GPUD_MSEC)) + 10000;
    g_signal_connect(sink, "handoff", G_CALLBACK(on_buffer), buffers);
    if (gst_element_set_state(pipeline, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE)
        fail_by_message(pipeline);
    for (unsigned char i = 1; i <= 5; i++)
        expect_picture(buffers, &sequence, i, 320, memory);
    for (unsigned char i = 6; driver.digital && i <= 9; i++) {
        fake_signal(&driver, i % 2 ? 320 : 640, i % 2 ? 180 : 360, false, 0);
        expect_picture(buffers, &sequence, i, i % 2 ? 320 : 640, memory);
    }
    expect_stats(src, arrives, says);
    GstPad *pad = gst_element_get_static_pad(src, "src");
    GstCaps *caps = gst_pad_get_current_caps(pad);
    GstCapsFeatures *features = gst_caps_get_features(caps, 0);
    CHECK(gst_caps_features_contains(features, CUDA) == (memory != NULL), "the caps' memory");
    gst_caps_unref(caps);
    gst_object_unref(pad);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    g_async_queue_unref(buffers);
    gst_object_unref(sink);
    gst_object_unref(src);
    gst_object_unref(pipeline);
    g_free(text);
}

#define NEAREST                                                                             \
    "cuda:1 is behind the same PCIe switch as v4l2://" NODE " (PIX); cuda:0 is in another " \
    "NUMA node than it (SYS)"
#define HOST "host: the elements downstream prefer no GPU's memory"

int main(int argc, char **argv)
{
    char folder[] = "/tmp/gpud-element-XXXXXX", command[96];
    CHECK(argc == 2, "give the machine's description");
    CHECK(mkdtemp(folder), "mkdtemp: %s", strerror(errno));
    make_machine(argv[1], folder);
    gst_init(NULL, NULL);
    gpud_gst_context_init();
    CHECK(GST_ELEMENT_REGISTER(gpudirectsrc, NULL), "no element");
    driver.stamp = V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC;
    fake_install(&driver);

    run("auto", "video/x-raw(" CUDA ")," FIELDS, "cuda:1", CUDA, NEAREST);
    run("auto", "video/x-raw," FIELDS, "host", NULL, HOST);
    run("auto", "video/x-raw(ANY)," FIELDS, "host", NULL, HOST);
    run("auto", "capsfilter caps=\"video/x-raw(" CUDA ")," FIELDS ";video/x-raw," FIELDS "\"",
        "cuda:1", CUDA, NEAREST);
    run("auto", "capsfilter caps=\"video/x-raw," FIELDS ";video/x-raw(" CUDA ")," FIELDS "\"",
        "host", NULL, HOST);
    run("cuda:0", "video/x-raw(" CUDA ")," FIELDS, "cuda:0", CUDA, NULL);
    run("cuda:0", "video/x-raw," FIELDS, "cuda:0", NULL, NULL);
    run("host", "video/x-raw," FIELDS, "host", NULL, NULL);
    SAY("a card whose signal becomes another one, and back");
    driver.digital = driver.tells = true;
    fake_signal(&driver, 320, 180, false, 0);
    run("auto", "video/x-raw(" CUDA "),format=UYVY", "cuda:1", CUDA, NEAREST);
    run("auto", "video/x-raw,format=UYVY", "host", NULL, HOST);
    run("cuda:0", "video/x-raw,format=UYVY", "cuda:0", NULL, NULL);
    fake_remove(&driver);
    gpud_print(command, "rm -r %s", folder);
    CHECK(system(command) == 0, "%s", command);
    return 0;
}
