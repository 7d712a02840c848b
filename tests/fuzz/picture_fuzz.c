/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The monitor's way from a sender's words to a JPEG: a media, and a frame that lies as its layout
 * says. The frame's bytes end where a page begins that nothing may touch, and begin behind one. */
#include "base/base.h"
#include "frame/media/media.h"
#include "fuzz.h"
#include "gstpicture.h"
#include "monitor/monitor.h"

#include <gpudirect/gpudirect.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_MAX 65536

static struct gpud_device *host;
static uint32_t last_format;

static void start(void)
{
    struct gpud_context *context;
    if (host)
        return;
    picture_start();
    last_format = (uint32_t)((GEnumClass *)g_type_class_ref(GST_TYPE_VIDEO_FORMAT))->maximum;
    if (gpud_context_create(NULL, &context, NULL) != GPUD_OK ||
        gpud_device_open(context, "host", &host, NULL) != GPUD_OK)
        abort();
}

/* Planes one behind the other, as a sender without padding has them. */
static bool lay_out(struct gpud_layout *layout, GstVideoFormat format, uint32_t width,
                    uint32_t height)
{
    GstVideoInfo info;
    *layout = (struct gpud_layout){.width = width, .height = height};
    if (format <= GST_VIDEO_FORMAT_ENCODED ||
        !gst_video_info_set_format(&info, format, width, height))
        return false;
    gpud_print(layout->format, "%s", GST_VIDEO_INFO_NAME(&info));
    layout->size = info.size;
    layout->planes = GST_VIDEO_INFO_N_PLANES(&info);
    if (GST_VIDEO_FORMAT_INFO_IS_TILED(info.finfo) ||
        GST_VIDEO_FORMAT_INFO_HAS_PALETTE(info.finfo)) {
        uint32_t size = (uint32_t)info.size;
        layout->planes = 1;
        layout->plane[0] = (struct gpud_plane){.stride = size, .row_bytes = size, .rows = 1};
        return true;
    }
    for (guint i = 0; i < layout->planes; i++) {
        gint component[GST_VIDEO_MAX_COMPONENTS];
        gst_video_format_info_component(info.finfo, i, component);
        layout->plane[i] = (struct gpud_plane){
            .offset = info.offset[i],
            .stride = (uint32_t)info.stride[i],
            .row_bytes = (uint32_t)info.stride[i],
            .rows = (uint32_t)GST_VIDEO_INFO_COMP_HEIGHT(&info, component[0]),
        };
    }
    return true;
}

/* One number of the layout becomes another, near to what it was, or huge. */
static void bend(struct gpud_layout *layout, struct fuzz_input *input)
{
    uint32_t what = fuzz_number(input, 1), value = fuzz_number(input, 4);
    struct gpud_plane *plane = &layout->plane[what / 8 % GPUD_PLANES_MAX];
    switch (what % 8) {
    case 0:
        plane->stride = value;
        break;
    case 1:
        plane->row_bytes = plane->row_bytes + value % 64 - 32;
        break;
    case 2:
        plane->rows = plane->rows + value % 16 - 8;
        break;
    case 3:
        plane->offset = value;
        break;
    case 4:
        layout->size = (uint64_t)value + 1;
        break;
    case 5:
        layout->planes = value;
        break;
    case 6:
        layout->modifier = value;
        break;
    default:
        layout->size += value % PAGE_MAX;
    }
}

static void show(const struct gpud_media *media, const struct gpud_layout *layout)
{
    struct gpud_error error = {.reason = ""};
    struct gpud_memory *memory;
    struct gpud_frame *frame;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t mapped = (layout->size + 3 * page - 1) / page * page;
    if (gpud_media_check(media, NULL) != GPUD_OK || gpud_layout_check(layout, NULL) != GPUD_OK)
        return;
    char *pages = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + page, mapped - 2 * page, PROT_READ) != 0)
        abort();
    char *data = pages + mapped - page - layout->size;
    if (gpud_memory_wrap(host, data, layout->size, NULL, NULL, &memory, &error) != GPUD_OK)
        abort();
    if (gpud_frame_wrap(memory, 0, layout, &frame, &error) == GPUD_OK) {
        struct monitor_content content = {0};
        GBytes *jpeg = monitor_picture_encode(frame, media, &content, &error);
        if (jpeg ? g_bytes_get_size(jpeg) < 4 : !error.reason[0])
            abort();
        if (jpeg)
            g_bytes_unref(jpeg);
        gpud_frame_release(&frame);
    }
    gpud_memory_unref(&memory);
    munmap(pages, mapped);
}

static void try_format(GstVideoFormat format, bool small, struct fuzz_input input)
{
    struct gpud_media media = {.kind = GPUD_MEDIA_PICTURE};
    uint32_t width = fuzz_number(&input, 2), height = fuzz_number(&input, 2);
    uint32_t what = fuzz_number(&input, 1);
    /* Most are small, and take no time. */
    width = what & 1 && !small ? width : width % 200;
    height = what & 2 && !small ? height : height % 200;
    if (!lay_out(&media.picture.layout, format, width, height))
        return;
    struct gpud_layout frame = media.picture.layout;
    media.picture.scan = (enum gpud_scan)(what / 4 % 8);
    media.picture.rate = (struct gpud_fraction){25, 1};
    media.picture.pixel_aspect.num = fuzz_number(&input, 1);
    media.picture.pixel_aspect.den = media.picture.pixel_aspect.num ? 1 : 0;
    media.picture.colorimetry.matrix = (enum gpud_matrix)fuzz_number(&input, 1);
    while (input.size)
        bend(what & 32 ? &media.picture.layout : &frame, &input);
    show(&media, &frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    start();
    uint32_t format = fuzz_number(&input, 1); /* 0: all */
    for (uint32_t i = 1; i <= last_format; i++)
        if (format == 0 || format == i)
            try_format((GstVideoFormat)i, format == 0, input);
    return 0;
}
