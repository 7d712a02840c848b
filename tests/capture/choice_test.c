/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What gpudirectsrc takes of a card when it is asked for nothing, what it says when it is asked for
 * what the card has not or its driver fails, and how often it asks the driver for its list: by caps
 * alone, and on a card of the test's own. */
#include "src/src.h"

#include "base/base.h"
#include "capture/capture.h"
#include "base/plugin.h"
#include "support/check.h"
#include "support/fake_driver.h"

#include <errno.h>
#include <gst/video/video.h>

#define NODE "/dev/fake"

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
    struct gpud_device *host = NULL;
    enum gpud_status status = gpud_device_open(context, "host", &host, error);
    if (status == GPUD_OK)
        status = gpud_capture_open(host, host, params, &fake_system, capture, error);
    gpud_device_close(&host);
    return status;
}

/* --- by caps ------------------------------------------------------------------------------- */

static void expect_choice(const char *offered, const struct capture_wish *wish, const char *wanted)
{
    GstCaps *chosen = capture_choose(gst_caps_from_string(offered), wish);
    GstCaps *right = gst_caps_from_string(wanted);
    gchar *text = gst_caps_to_string(chosen);
    CHECK(gst_caps_is_equal(chosen, right), "of %s it takes %s, not %s", offered, text, wanted);
    g_free(text);
    gst_caps_unref(chosen);
    gst_caps_unref(right);
}

#define BAYER "video/x-bayer,format=bggr,"
#define YUY2 "video/x-raw,format=YUY2,"
#define FULL "width=1920,height=1080,framerate="
#define HALF "width=960,height=540,framerate="

static void test_choice(void)
{
    const struct capture_wish none = {0}, set = {.format = "NV12"}, mosaic = {.format = "bggr"},
                              signal = {.width = 960, .height = 540, .format = "NV12"};
    SAY("samples that can be shown before mosaics, whatever the card is set to");
    expect_choice(BAYER FULL "60/1;" YUY2 HALF "5/1", &none, YUY2 HALF "5/1");
    expect_choice(BAYER FULL "60/1;" YUY2 HALF "5/1", &mosaic, YUY2 HALF "5/1");
    expect_choice(BAYER FULL "60/1", &none, BAYER FULL "60/1");
    SAY("the format that the card is set to before the rate, and the rate before the size");
    expect_choice("video/x-raw,format={YUY2,NV12}," HALF "30/1;" YUY2 FULL "60/1", &set,
                  "video/x-raw,format=NV12," HALF "30/1");
    expect_choice(YUY2 FULL "5/1;" YUY2 HALF "{10/1,25/1,40/1}", &none, YUY2 HALF "40/1");
    expect_choice(YUY2 FULL "30000/1001;" YUY2 HALF "30/1", &none, YUY2 FULL "30000/1001");
    expect_choice(YUY2 FULL "5/1;" YUY2 HALF "25/1", &none, YUY2 HALF "25/1");
    expect_choice(YUY2 "width=1280,height=720,framerate=30/1;" YUY2 HALF "60/1", &none,
                  YUY2 "width=1280,height=720,framerate=30/1");
    expect_choice(YUY2 "width=3840,height=2160,framerate=30/1;" YUY2 FULL "30/1", &none,
                  YUY2 FULL "30/1");
    SAY("a signal is scaled only on request");
    expect_choice("video/x-raw,format=NV12," FULL "30/1;" YUY2 HALF "25/1", &signal,
                  YUY2 HALF "25/1");
    SAY("what the driver does not say is no fault, and of equals the first is taken");
    expect_choice(YUY2 FULL "0/1;" YUY2 HALF "60/1", &none, YUY2 FULL "0/1");
    expect_choice("video/x-raw,format=UYVY," FULL "30/1;" YUY2 FULL "50/1", &none,
                  "video/x-raw,format=UYVY," FULL "30/1");
}

static void expect_reason(const char *has, const char *wanted, const char *reason)
{
    GstCaps *offered = gst_caps_from_string(has), *asked = gst_caps_from_string(wanted);
    gchar *said = capture_explain_refusal(offered, asked);
    CHECK(strcmp(said, reason) == 0, "it says \"%s\", not \"%s\"", said, reason);
    g_free(said);
    gst_caps_unref(offered);
    gst_caps_unref(asked);
}

/* 720p is whole, 1080i is not. */
#define WHOLE_AND_FIELDS                                                                       \
    "video/x-raw,format=UYVY,width=1280,height=720,framerate=50/1,interlace-mode=progressive;" \
    "video/x-raw(format:Interlaced),format=UYVY,width=1920,height=1080,framerate=25/1,"        \
    "interlace-mode=alternate"

static void test_reasons(void)
{
    static const char has[] =
        "video/x-raw,format={YUY2,UYVY},width=320,height=180,framerate={5/1,60000/1001,30/1},"
        "interlace-mode=progressive;"
        "video/x-raw,format={YUY2,NV12},width=640,height=360,framerate=[1/1,30/1],"
        "interlace-mode=progressive;"
        "video/x-raw,format=NV12,width=1280,height=720,framerate=0/1,interlace-mode=progressive;"
        "video/x-bayer,format=bggr,width=320,height=180,framerate=90/1";
    SAY("a refusal offers what there is of what was asked for, with its rates");
    expect_reason(has, "video/x-raw,format=YUY2,framerate=70/1",
                  "it has YUY2 in 320x180 at 59.94, 30, 5; 640x360 at 1 to 30 frames a second: ask "
                  "for one of these, or put a videorate after gpudirectsrc");
    expect_reason(has, "video/x-raw,format=YUY2,width=640,height=360,framerate=60/1",
                  "it has YUY2 in 640x360 at 1 to 30 frames a second: ask for one of these, or put "
                  "a videorate after gpudirectsrc");
    expect_reason(has, "video/x-raw,format=NV12,width=320",
                  "it has NV12 in 640x360, 1280x720: ask for one of these, or put a videoscale "
                  "after gpudirectsrc");
    expect_reason(has, "video/x-raw,format=RGB",
                  "it has YUY2, UYVY, NV12, bggr: ask for one of these, or put a videoconvert "
                  "after gpudirectsrc");
    expect_reason(has, "audio/x-raw",
                  "it has YUY2, UYVY, NV12, bggr: ask for one of these, or put a videoconvert "
                  "after gpudirectsrc");
    expect_reason(has, "video/x-raw,format=UYVY,interlace-mode=interleaved",
                  "there interlace-mode is progressive: ask for that, or leave it open");
    expect_reason(has, "video/x-raw(memory:DMABuf),format=UYVY",
                  "they take frames in memory:DMABuf alone: set the property device to such a "
                  "device, or put an element that downloads them behind gpudirectsrc");
    SAY("fields that come alone are no kind of memory");
    expect_reason(WHOLE_AND_FIELDS, "video/x-raw,width=1920,height=1080",
                  "it gives each field as a buffer of its own: ask for "
                  "video/x-raw(format:Interlaced),interlace-mode=alternate, and put elements that "
                  "take such fields after gpudirectsrc");
    expect_reason(has, "video/x-raw(format:Interlaced),format=UYVY",
                  "it gives whole pictures, not fields: ask for video/x-raw without "
                  "(format:Interlaced)");
    SAY("the kernel's name for what a dma-buf holds is no format to ask for");
    expect_reason("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=UYVY,width=320,height=180,"
                  "framerate=30/1;video/x-raw,format=UYVY,width=320,height=180,framerate=30/1",
                  "video/x-raw,format=NV12",
                  "it has UYVY: ask for one of these, or put a videoconvert after gpudirectsrc");
    expect_reason(has, "EMPTY",
                  "it has YUY2, UYVY, NV12, bggr: ask for one of these, or put a videoconvert "
                  "after gpudirectsrc");
}

/* --- on a card ----------------------------------------------------------------------------- */

static GstElement *start(const char *filter)
{
    gchar *text = g_strdup_printf("gpudirectsrc name=src address=v4l2://" NODE " ! %s ! "
                                  "fakesink name=sink sync=false async=false",
                                  filter);
    GstElement *pipeline = gst_parse_launch(text, NULL);
    g_free(text);
    CHECK(gst_element_set_state(pipeline, GST_STATE_PLAYING) != GST_STATE_CHANGE_FAILURE,
          "it does not play");
    return pipeline;
}

static void stop(GstElement *pipeline)
{
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(pipeline);
}

static gchar *await_error(GstElement *pipeline)
{
    GstBus *bus = gst_element_get_bus(pipeline);
    GstMessage *message = gst_bus_timed_pop_filtered(bus, 20 * GST_SECOND, GST_MESSAGE_ERROR);
    GError *error = NULL;
    CHECK(message, "no error within 20 s");
    gst_message_parse_error(message, &error, NULL);
    gchar *text = g_strdup(error->message);
    g_error_free(error);
    gst_message_unref(message);
    gst_object_unref(bus);
    return text;
}

static gchar *await_caps(GstElement *pipeline)
{
    GstElement *src = gst_bin_get_by_name(GST_BIN(pipeline), "src");
    GstPad *pad = gst_element_get_static_pad(src, "src");
    GstCaps *caps = NULL;
    for (int64_t deadline = gpud_deadline(20 * GPUD_SEC); !caps; g_usleep(1000)) {
        CHECK(gpud_now() < deadline, "no caps within 20 s");
        caps = gst_pad_get_current_caps(pad);
    }
    gchar *text = gst_caps_to_string(caps);
    gst_caps_unref(caps);
    gst_object_unref(pad);
    gst_object_unref(src);
    return text;
}

static void expect_caps(const char *filter, const char *wanted)
{
    GstElement *pipeline = start(filter);
    gchar *text = await_caps(pipeline);
    GstCaps *caps = gst_caps_from_string(text), *least = gst_caps_from_string(wanted);
    CHECK(gst_caps_is_subset(caps, least), "behind %s it has %s", filter, text);
    gst_caps_unref(least);
    gst_caps_unref(caps);
    g_free(text);
    stop(pipeline);
}

static void test_card(void)
{
    SAY("a card that offers mosaics first and is set to one");
    driver.format.fourcc = V4L2_PIX_FMT_SBGGR8;
    expect_caps("identity", "video/x-raw, format=(string)UYVY, width=(int)640, height=(int)360, "
                            "framerate=(fraction)30/1");
    SAY("the format that it is set to now, and then the one that was captured last");
    driver.format.fourcc = V4L2_PIX_FMT_NV12;
    expect_caps("identity", "video/x-raw, format=(string)NV12, width=(int)640");
    expect_caps("video/x-raw,format=BGR", "video/x-raw, format=(string)BGR, width=(int)640");
    expect_caps("identity", "video/x-raw, format=(string)BGR, width=(int)640");
    expect_caps("video/x-bayer", "video/x-bayer, format=(string)bggr, width=(int)640");

    SAY("a rate that it has not");
    GstElement *pipeline = start("video/x-raw,format=UYVY,framerate=7/1");
    gchar *text = await_error(pipeline);
    CHECK(strstr(text, "it has UYVY in 320x180 at 60, 30, 5; 640x360 at 30, 15, 2.5 frames a "
                       "second: ask for one of these"),
          "it says \"%s\"", text);
    g_free(text);
    stop(pipeline);
}

/* The user of an element cannot call gpud_capture_configure(). */
static void test_failure(void)
{
    SAY("a driver that fails while it captures");
    GstElement *pipeline = start("identity");
    g_free(await_caps(pipeline));
    pthread_mutex_lock(&driver.lock);
    driver.fault = (struct fake_fault){.request = VIDIOC_DQBUF, .times = 1, .error = EIO};
    pthread_mutex_unlock(&driver.lock);
    fake_frame(&driver, 1, 1);
    gchar *text = await_error(pipeline);
    CHECK(strstr(text, "failed: start the capture again; the kernel's log") &&
              !strstr(text, "configure"),
          "it says \"%s\"", text);
    g_free(text);
    stop(pipeline);
    driver.fault.times = 0;
}

static void expect_lists(const char *filter, uint32_t most)
{
    driver.size_lists = driver.calls = 0;
    GstElement *pipeline = start(filter);
    g_free(await_caps(pipeline));
    pthread_mutex_lock(&driver.lock);
    uint32_t lists = driver.size_lists, calls = driver.calls;
    pthread_mutex_unlock(&driver.lock);
    g_print("behind %s: %u system calls, %u lists of sizes\n", filter, calls, lists);
    CHECK(lists <= most, "%u lists of sizes were asked for, of %u formats", lists, most);
    stop(pipeline);
}

/* UYVY, NV12, BGR and the mosaic: one list of sizes each. */
static void test_calls(void)
{
    SAY("the driver is asked once for what it has, and for no more than is wanted");
    expect_lists("identity ! capsfilter ! identity", 4);
    expect_lists("videoconvert ! identity", 4);
    expect_lists("video/x-raw,format=UYVY ! identity", 1);
    expect_lists("video/x-raw,format={NV12,BGR,RGB} ! identity", 2);
}

/* Frames of this signal come until downstream has it. */
static void feed_until(GstElement *pipeline, const char *size)
{
    static uint32_t sequence = 1000;
    gchar *text = NULL;
    for (int64_t deadline = gpud_deadline(20 * GPUD_SEC); !text || !strstr(text, size);) {
        CHECK(gpud_now() < deadline, "no %s within 20 s", size);
        if (fake_frame(&driver, sequence, 1))
            sequence++;
        g_usleep(1000);
        g_free(text);
        text = await_caps(pipeline);
    }
    g_free(text);
}

static void test_change(void)
{
    SAY("another signal is followed without asking what the card has, or which format that was");
    driver.digital = driver.tells = true;
    fake_signal(&driver, 320, 180, false, 0);
    GstElement *pipeline = start("video/x-raw,format=NV12 ! identity");
    feed_until(pipeline, "width=(int)320");
    pthread_mutex_lock(&driver.lock);
    driver.size_lists = driver.format_calls = driver.calls = 0;
    pthread_mutex_unlock(&driver.lock);
    fake_signal(&driver, 640, 360, false, 0);
    feed_until(pipeline, "width=(int)640");
    g_print("%u system calls\n", driver.calls);
    CHECK_EQUAL(driver.size_lists, 0);
    CHECK_EQUAL(driver.format_calls, 0);
    stop(pipeline);
}

int main(int argc, char **argv)
{
    gst_init(NULL, NULL);
    gpud_gst_context_init();
    CHECK(GST_ELEMENT_REGISTER(gpudirectsrc, NULL), "no element");
    test_choice();
    test_reasons();
    driver.stamp = V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC;
    driver.more_format = V4L2_PIX_FMT_SBGGR8;
    fake_install(&driver);
    test_card();
    test_failure();
    test_calls();
    test_change();
    fake_remove(&driver);
    return 0;
}
