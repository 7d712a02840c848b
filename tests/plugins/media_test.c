/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The description of a stream, between an element and an application of the core. */
#include "pipes.h"

#include <gpudirect/gpudirect.h>

#define CAPS_1080I                                                            \
    "video/x-raw, format=(string)UYVY, width=(int)1920, height=(int)1080, "   \
    "framerate=(fraction)25/1, interlace-mode=(string)interleaved, "          \
    "field-order=(string)top-field-first, pixel-aspect-ratio=(fraction)1/1, " \
    "colorimetry=(string)bt709, studio=(string)\"Halle 7\""
#define CAPS_HDR                                                                   \
    "video/x-raw, format=(string)P010_10LE, width=(int)64, height=(int)32, "       \
    "framerate=(fraction)60000/1001, interlace-mode=(string)progressive, "         \
    "colorimetry=(string)bt2100-pq, chroma-site=(string)cosited, "                 \
    "mastering-display-info=(string)35400:14600:8500:39850:6550:2300:15635:16450:" \
    "10000000:50, content-light-level=(string)1000:400, pixel-aspect-ratio=(fraction)1/1"

static struct gpud_context *context;

#define WORKS(call)                                             \
    do {                                                        \
        struct gpud_error e = {.reason = ""};                   \
        fail_unless((call) == GPUD_OK, #call ": %s", e.reason); \
    } while (0)

static struct gpud_sender *sender;
static GstHarness *src;

static void open_sender(void)
{
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);

    params.address = ends_own();
    WORKS(gpud_context_create(NULL, &context, &e));
    WORKS(gpud_sender_create(context, &params, &sender, &e));
    src = ends_src(NULL);
}

static void close_sender(void)
{
    ends_close(src);
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
}

/* Caps of the receiver, once a frame of these media has come; free them. */
static GstCaps *caps_of(const struct gpud_media *media)
{
    struct gpud_frame *frame;

    WORKS(gpud_sender_configure(sender, media, &e));
    WORKS(gpud_sender_wait(sender, 1, 10 * GPUD_SEC, &e));
    WORKS(gpud_sender_acquire(sender, 10 * GPUD_SEC, &frame, &e));
    WORKS(gpud_sender_submit(sender, &frame, 10 * GPUD_SEC, &e));
    drop(src, 1);
    return gst_pad_get_current_caps(src->sinkpad);
}

/* gpudirectsrc says of the stream exactly what the application's sender does. */
TEST(test_caps_from_an_application)
{
    static const gchar *const texts[] = {CAPS_1080I, CAPS_HDR};

    open_sender();
    for (guint i = 0; i < G_N_ELEMENTS(texts); i++) {
        struct gpud_media media;
        WORKS(gpud_media_from_string(&media, texts[i], &e));
        g_autoptr(GstCaps) got = caps_of(&media), wanted = gst_caps_from_string(texts[i]);
        fail_unless(gst_caps_is_strictly_equal(got, wanted), "%" GST_PTR_FORMAT, got);
    }
    close_sender();
}

/* Compares fields; unknown ones are absent, except for the rate, which caps must have. */
TEST(test_caps_from_fields)
{
    struct gpud_media media = {.kind = GPUD_MEDIA_PICTURE};

    WORKS(gpud_layout_init(&media.picture.layout, "NV12", 64, 32, 0, &e));
    open_sender();
    g_autoptr(GstCaps) got = caps_of(&media);
    g_autofree gchar *text = gst_caps_to_string(got);
    fail_unless_equals_string(text, "video/x-raw, format=(string)NV12, width=(int)64, "
                                    "height=(int)32, framerate=(fraction)0/1");
    close_sender();
}

static void keep_format(void *user, enum gpud_event event, const void *data)
{
    if (event == GPUD_EVENT_FORMAT)
        memcpy(user, data, sizeof(struct gpud_format_event));
}

/* An application's receiver reads the fields of gpudirectsink's caps. */
TEST(test_an_application_reads_caps)
{
    GstHarness *sink = ends_sink(NULL);
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    struct gpud_receiver *receiver;
    struct gpud_format_event format = {0};
    struct gpud_frame *frame;
    gchar text[GPUD_MEDIA_TEXT_MAX];

    gst_harness_set_src_caps_str(sink, CAPS_HDR ", room=(int)3");
    params.address = ends_own();
    params.on_event = keep_format;
    params.user = &format;
    WORKS(gpud_context_create(NULL, &context, &e));
    WORKS(gpud_receiver_create(context, &params, &receiver, &e));
    fail_unless(gpud_receiver_acquire(receiver, GPUD_SEC, &frame, NULL) == GPUD_TIMEOUT);
    const struct gpud_picture *picture = &format.media.picture;
    fail_unless_equals_int(format.media.kind, GPUD_MEDIA_PICTURE);
    fail_unless_equals_string(picture->layout.format, "P010_10LE");
    fail_unless(picture->rate.num == 60000 && picture->rate.den == 1001);
    fail_unless_equals_int(picture->scan, GPUD_SCAN_PROGRESSIVE);
    fail_unless(picture->colorimetry.primaries == GPUD_PRIMARIES_BT2020 &&
                picture->colorimetry.transfer == GPUD_TRANSFER_PQ &&
                picture->colorimetry.matrix == GPUD_MATRIX_BT2020 &&
                picture->colorimetry.range == GPUD_RANGE_LIMITED &&
                picture->colorimetry.chroma_site == GPUD_CHROMA_TOP_LEFT);
    fail_unless(picture->hdr.has_display && picture->hdr.display_x[1] == 8500 &&
                picture->hdr.max_luminance == 10000000 && picture->hdr.max_content_light == 1000);
    fail_unless(picture->pixel_aspect.num == 1 && picture->pixel_aspect.den == 1);
    fail_unless_equals_string(format.media.extra, "room=(int)3");
    fail_unless_equals_string(format.device, "host");
    WORKS(gpud_media_to_string(&format.media, text, sizeof(text), &e));
    g_autoptr(GstCaps) said = gst_caps_from_string(text), wanted = gst_caps_from_string(CAPS_HDR);
    gst_caps_set_simple(wanted, "room", G_TYPE_INT, 3, NULL);
    fail_unless(gst_caps_is_equal(said, wanted), "%s", text);
    gpud_receiver_destroy(&receiver);
    gpud_context_destroy(&context);
}

/* Data of a type that is one of raw pictures or sound, as GStreamer once named them, are refused.
 */
TEST(test_unknown_data)
{
    struct gpud_media media;

    open_sender();
    g_autoptr(GstBus) bus = ends_bus(src);
    WORKS(gpud_media_from_string(&media, "audio/x-raw-int, max-size=(guint64)480", &e));
    WORKS(gpud_sender_configure(sender, &media, &e));
    expect_told(bus, GST_MESSAGE_ERROR | GST_MESSAGE_WARNING, "type that is not one of data");
    close_sender();
}

ENDS_MAIN(60)
