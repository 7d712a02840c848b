/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect-view's pictures: frames with any strides are converted like GStreamer's own, nothing
 * behind their last byte is read, and what a sender says of frames that are not so is refused. */
#include "gstpicture.h"
#include "support/check.h"
#include "wire/layout.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WIDTH 50
#define HEIGHT 34
#define PIXELS (WIDTH * HEIGHT * 4)
#define PADDING 64

static struct gpud_context *context;
static struct gpud_device *host;

/* The last byte lies before a page that nothing may touch. */
struct guarded {
    guint8 *pages, *data;
    size_t mapped, size;
};

static struct guarded guarded_new(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct guarded made = {.mapped = (size / page + 2) * page, .size = size};
    made.pages =
        mmap(NULL, made.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(made.pages != MAP_FAILED, "no memory");
    CHECK(mprotect(made.pages + made.mapped - page, page, PROT_NONE) == 0, "no guard");
    made.data = made.pages + made.mapped - page - size;
    for (size_t i = 0; i < size; i++)
        made.data[i] = (guint8)(i * 7 + i / 251);
    return made;
}

static struct gpud_media media_of(const char *format)
{
    struct gpud_media media;
    char text[128];
    g_snprintf(text, sizeof(text), "video/x-raw,format=%s,width=%d,height=%d,framerate=25/1",
               format, WIDTH, HEIGHT);
    WORKS(gpud_media_from_string(&media, text, &e));
    return media;
}

/* How a sender lays such frames out that pads each row. */
static struct gpud_layout layout_of(const GstVideoInfo *info, int padding)
{
    struct gpud_layout layout = {.width = WIDTH, .height = HEIGHT};
    g_strlcpy(layout.format, GST_VIDEO_INFO_NAME(info), sizeof(layout.format));
    layout.planes = GST_VIDEO_INFO_N_PLANES(info);
    for (guint i = 0; i < layout.planes; i++) {
        gint component[GST_VIDEO_MAX_COMPONENTS];
        gst_video_format_info_component(info->finfo, i, component);
        struct gpud_plane *plane = &layout.plane[i];
        plane->offset = layout.size;
        plane->row_bytes = (guint)GST_VIDEO_INFO_PLANE_STRIDE(info, i);
        plane->stride = plane->row_bytes + (guint)padding;
        plane->rows = (guint)GST_VIDEO_INFO_COMP_HEIGHT(info, component[0]);
        layout.size = plane->offset + (plane->rows - 1) * plane->stride + plane->row_bytes;
    }
    return layout;
}

static struct gpud_frame *frame_of(struct guarded *bytes, const struct gpud_layout *layout)
{
    struct gpud_memory *memory;
    struct gpud_frame *frame;
    WORKS(gpud_memory_wrap(host, bytes->data, bytes->size, NULL, NULL, &memory, &e));
    WORKS(gpud_frame_wrap(memory, 0, layout, &frame, &e));
    gpud_memory_unref(&memory);
    return frame;
}

/* Converts a frame with padded rows and, without the viewer, one with GStreamer's own rows. */
static void test_format(const char *format)
{
    static guint8 shown[PIXELS], expected[PIXELS];
    struct gpud_media media = media_of(format);
    struct picture picture;
    struct gpud_error error;
    GstVideoFrame mapped;
    GstVideoInfo packed;
    CHECK(gst_video_info_set_format(&packed, gst_video_format_from_string(format), WIDTH, HEIGHT),
          "%s", format);
    struct gpud_layout layout = layout_of(&packed, PADDING);
    media.picture.layout = layout;
    struct guarded bytes = guarded_new(layout.size);
    struct gpud_frame *frame = frame_of(&bytes, &layout);
    CHECK(picture_init(&picture, &media, &error), "%s: %s", format, error.reason);
    CHECK(picture_map(&picture, frame, &mapped, &error), "%s: %s", format, error.reason);
    CHECK(picture_convert(&picture, &mapped, GST_VIDEO_FORMAT_BGRA, 0, 0, shown, WIDTH * 4, &error),
          "%s: %s", format, error.reason);
    picture_unmap(frame, &mapped);

    GstBuffer *buffer = gst_buffer_new_allocate(NULL, packed.size, NULL);
    GstVideoInfo to;
    GstVideoFrame from, result;
    gst_buffer_memset(buffer, 0, 0, packed.size);
    for (guint i = 0; i < layout.planes; i++)
        for (guint row = 0; row < layout.plane[i].rows; row++)
            gst_buffer_fill(buffer, packed.offset[i] + row * (gsize)packed.stride[i],
                            bytes.data + layout.plane[i].offset + row * layout.plane[i].stride,
                            layout.plane[i].row_bytes);
    gst_video_info_set_format(&to, GST_VIDEO_FORMAT_BGRA, WIDTH, HEIGHT);
    to.fps_n = picture.info.fps_n;
    GstBuffer *target = gst_buffer_new_wrapped_full(0, expected, PIXELS, 0, PIXELS, NULL, NULL);
    CHECK(gst_video_frame_map(&from, &picture.info, buffer, GST_MAP_READ), "%s", format);
    CHECK(gst_video_frame_map(&result, &to, target, GST_MAP_WRITE), "%s", format);
    GstVideoConverter *converter = gst_video_converter_new(&picture.info, &to, NULL);
    gst_video_converter_frame(converter, &from, &result);
    CHECK(memcmp(shown, expected, PIXELS) == 0, "%s is shown otherwise", format);

    gst_video_converter_free(converter);
    gst_video_frame_unmap(&result);
    gst_video_frame_unmap(&from);
    gst_buffer_unref(target);
    gst_buffer_unref(buffer);
    picture_finish(&picture);
    gpud_frame_release(&frame);
    munmap(bytes.pages, bytes.mapped);
}

static void test_formats(void)
{
    const char *const formats[] = {"NV12", "I420",  "YV12",   "UYVY", "v210",      "P010_10LE",
                                   "Y410", "UYVP",  "AYUV64", "GBR",  "RGB",       "BGRx",
                                   "r210", "RGB16", "GRAY8",  "Y42B", "I422_10LE", "NV16_10LE32"};
    for (size_t i = 0; i < G_N_ELEMENTS(formats); i++)
        test_format(formats[i]);
    SAY("frames with padded rows are converted like GStreamer's own");
}

/* As a sender lays them out that has GStreamer's own rows. */
static void show(const char *format)
{
    static guint8 shown[320 * 240 * 3];
    struct gpud_media media = media_of("NV12");
    struct picture picture;
    struct gpud_error error;
    GstVideoFrame mapped;
    GstVideoInfo info;
    gst_video_info_set_format(&info, gst_video_format_from_string(format), WIDTH, HEIGHT);
    CHECK(layout_from_info(&media.picture.layout, &info), "%s", format);
    struct guarded bytes = guarded_new(media.picture.layout.size);
    struct gpud_frame *frame = frame_of(&bytes, &media.picture.layout);
    CHECK(picture_init(&picture, &media, &error), "%s: %s", format, error.reason);
    picture.quick = true;
    CHECK(picture_map(&picture, frame, &mapped, &error), "%s: %s", format, error.reason);
    memset(shown, 0, sizeof(shown));
    CHECK(
        picture_convert(&picture, &mapped, GST_VIDEO_FORMAT_RGB, 320, 240, shown, 320 * 3, &error),
        "%s: %s", format, error.reason);
    guint different = 0;
    for (size_t i = 3; i < sizeof(shown); i++)
        different += shown[i] != shown[i - 3];
    CHECK(different > 100, "%s: an even picture is shown", format);
    picture_unmap(frame, &mapped);
    picture_finish(&picture);
    gpud_frame_release(&frame);
    munmap(bytes.pages, bytes.mapped);
}

static void test_every_format(void)
{
    guint count;
    const GstVideoFormat *formats = gst_video_formats_raw(&count);
    CHECK(count > 80, "GStreamer has %u formats", count);
    for (guint i = 0; i < count; i++)
        show(gst_video_format_to_string(formats[i]));
    SAY("each of the %u formats that GStreamer knows is shown", count);
}

/* --- what is refused ------------------------------------------------------------------------- */

static void refuse_media(const struct gpud_media *media, const char *text)
{
    struct picture picture;
    struct gpud_error error;
    CHECK(!picture_init(&picture, media, &error), "shown: %s", text);
    CHECK(strstr(error.reason, text), "\"%s\" does not say \"%s\"", error.reason, text);
}

static void test_medias(void)
{
    struct gpud_media media;
    struct gpud_error error;
    struct picture picture;
    WORKS(gpud_media_from_string(
        &media, "audio/x-raw,format=S16LE,rate=48000,channels=2,samples-per-block=480", &e));
    refuse_media(&media, "carries no pictures");
    WORKS(gpud_media_from_string(
        &media, "video/x-bayer,format=rggb,width=64,height=64,framerate=25/1", &e));
    refuse_media(&media, "rggb");
    media = media_of("NV12");
    media.picture.layout.modifier = 0x0100000000000001;
    refuse_media(&media, "modifier 0x0100000000000001");
    media = media_of("NV12");
    g_strlcpy(media.picture.layout.format, "nonsense", sizeof(media.picture.layout.format));
    refuse_media(&media, "nonsense");
    media = media_of("NV12");
    g_strlcpy(media.extra, "width=(int)7, format=(string)UYVY", sizeof(media.extra));
    CHECK(picture_init(&picture, &media, &error), "%s", error.reason);
    CHECK(picture.info.width == WIDTH &&
              GST_VIDEO_INFO_FORMAT(&picture.info) == GST_VIDEO_FORMAT_NV12,
          "extra fields are believed");
    picture_finish(&picture);
    SAY("streams that cannot be shown are refused");
}

static void refuse_layout(const struct picture *picture, const struct gpud_layout *layout)
{
    struct gpud_error error;
    GstVideoFrame mapped;
    struct guarded bytes = guarded_new(layout->size);
    struct gpud_frame *frame = frame_of(&bytes, layout);
    CHECK(!picture_map(picture, frame, &mapped, &error), "a frame that is not as its format");
    CHECK(strstr(error.reason, "do not lie as their format"), "%s", error.reason);
    gpud_frame_release(&frame);
    munmap(bytes.pages, bytes.mapped);
}

static void test_layouts(void)
{
    const char *const formats[] = {"Y444_16LE", "v210", "NV12_64Z32"};
    for (size_t i = 0; i < G_N_ELEMENTS(formats); i++) {
        GstVideoInfo info;
        gst_video_info_set_format(&info, gst_video_format_from_string(formats[i]), WIDTH, HEIGHT);
        struct gpud_layout good = layout_of(&info, 0);
        struct gpud_media media = media_of("NV12");
        struct picture picture = {.info = info};
        struct gpud_layout bad = good;
        bad.plane[0].rows--;
        bad.size -= GST_VIDEO_FORMAT_INFO_IS_TILED(info.finfo) ? 0 : bad.plane[0].stride;
        if (bad.planes == 1)
            refuse_layout(&picture, &bad);
        bad = good;
        bad.plane[0].row_bytes -= 16;
        refuse_layout(&picture, &bad);
        bad = media.picture.layout; /* of another format */
        refuse_layout(&picture, &bad);
        bad = (struct gpud_layout){.width = WIDTH, .height = HEIGHT, .planes = 1, .size = 16};
        g_strlcpy(bad.format, formats[i], sizeof(bad.format));
        bad.plane[0] = (struct gpud_plane){.stride = 16, .row_bytes = 16, .rows = 1};
        refuse_layout(&picture, &bad);
    }
    SAY("frames that are not as their format requires are refused");
}

int main(void)
{
    struct gpud_context_params params = GPUD_PARAMS_INIT(params);
    picture_start();
    WORKS(gpud_context_create(&params, &context, &e));
    WORKS(gpud_device_open(context, "host", &host, &e));
    test_formats();
    test_every_format();
    test_medias();
    test_layouts();
    gpud_device_close(&host);
    gpud_context_destroy(&context);
    return 0;
}
