/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the driver offers: its formats, each with its sizes, each with its fastest rate. */
#include "base/sized.h"
#include "capture/capture.h"
#include "capture/colorimetry.h"

#include <linux/videodev2.h>
#include <string.h>

/* A driver that never says "no more" does not hold us. */
#define LIST_MAX 256

bool gpud_capture_offers(const struct gpud_v4l2 *node, uint32_t fourcc)
{
    for (uint32_t place = 0; place < LIST_MAX; place++) {
        uint32_t offered = gpud_v4l2_enum_format(node, place);
        if (offered == fourcc)
            return true;
        if (offered == 0)
            break;
    }
    return false;
}

/* The name of the format at this place of the driver's list, if it is the one that a user of this
 * name gets. */
static const char *name_at(const struct gpud_v4l2 *node, uint32_t fourcc)
{
    const char *name = gpud_format_name(fourcc);
    for (size_t i = 0; name && gpud_format_fourcc(name, i) != fourcc; i++)
        if (gpud_capture_offers(node, gpud_format_fourcc(name, i)))
            return NULL; /* the driver has a simpler one of this name */
    return name;
}

void gpud_capture_name_formats(const struct gpud_v4l2 *node, char *text, size_t size)
{
    text[0] = '\0';
    for (uint32_t place = 0; place < LIST_MAX; place++) {
        uint32_t fourcc = gpud_v4l2_enum_format(node, place);
        if (fourcc == 0)
            break;
        const char *name = name_at(node, fourcc);
        size_t used = strlen(text);
        if (name)
            gpud_print_n(text + used, size - used, "%s%s", used ? ", " : "", name);
    }
    if (!text[0])
        gpud_print_n(text, size, "no raw format that is known here");
}

struct mode_list {
    struct gpud_capture_mode *modes;
    size_t max, count;
};

static void add(struct mode_list *list, const struct gpud_capture_mode *mode)
{
    gpud_sized_entry(list->modes, list->max, list->count++, mode, sizeof(*mode));
}

/* What the driver would make of one size of a whole picture. */
static void try_size(const struct gpud_v4l2 *node, uint32_t fourcc, uint32_t field, uint32_t width,
                     uint32_t height, struct gpud_v4l2_format *format)
{
    *format = (struct gpud_v4l2_format){
        .fourcc = fourcc,
        .width = width,
        .height = field == V4L2_FIELD_ALTERNATE ? height / 2 : height,
        .field = field,
    };
    if (gpud_v4l2_try_format(node, format) < 0 || format->fourcc != fourcc)
        *format = (struct gpud_v4l2_format){.fourcc = fourcc};
}

/* Colours may depend on the size: of a range nothing is said that is not so at both ends. */
static void complete(struct gpud_capture *capture, uint32_t fourcc,
                     const struct gpud_v4l2_format *format, struct gpud_capture_mode *mode)
{
    gpud_capture_read_colors(format, &mode->colorimetry);
    mode->aspect_x = capture->source.aspect_x;
    mode->aspect_y = capture->source.aspect_y;
    if (mode->width_min == mode->width_max && mode->height_min == mode->height_max) {
        gpud_input_aspect(&capture->source, format, &mode->aspect_x, &mode->aspect_y);
        return;
    }
    struct gpud_v4l2_format least;
    struct gpud_colorimetry other;
    mode->aspect_x = mode->aspect_y = 0; /* depends on the size */
    try_size(&capture->node, fourcc, format->field, mode->width_min, mode->height_min, &least);
    gpud_capture_read_colors(&least, &other);
    if (memcmp(&other, &mode->colorimetry, sizeof(other)) != 0)
        gpud_capture_read_colors(&(struct gpud_v4l2_format){.fourcc = fourcc}, &mode->colorimetry);
}

/* Where the driver lists no rates it has the one that it is set to, or the signal has. */
static void complete_rates(struct gpud_capture *capture, uint32_t fourcc,
                           struct gpud_capture_mode *mode)
{
    gpud_v4l2_enum_rates(&capture->node, fourcc, mode->width_max, mode->height_max, mode);
    if (mode->fps_num)
        return;
    gpud_v4l2_rate(&capture->node, &mode->fps_num, &mode->fps_den);
    if (!mode->fps_num && capture->source.fps_num) {
        mode->fps_num = capture->source.fps_num;
        mode->fps_den = capture->source.fps_den;
    }
    mode->rate_count = mode->fps_num ? 1 : 0;
    mode->rates[0] = (struct gpud_capture_rate){.num = mode->fps_num, .den = mode->fps_den};
}

/* A size in each of the scans that the driver has: first its own choice. Only where that is not
 * progressive it is asked for others: some drivers need long for an answer. */
static void add_scans(struct gpud_capture *capture, uint32_t fourcc, struct gpud_capture_mode *mode,
                      struct mode_list *list)
{
    static const uint32_t fields[] = {V4L2_FIELD_ANY, V4L2_FIELD_INTERLACED, V4L2_FIELD_ALTERNATE};
    enum gpud_scan first = GPUD_SCAN_ANY;
    complete_rates(capture, fourcc, mode);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        struct gpud_v4l2_format format;
        try_size(&capture->node, fourcc, fields[i], mode->width_max, mode->height_max, &format);
        mode->scan = gpud_scan_of_field(format.field);
        bool other = mode->scan != first && mode->scan == gpud_scan_of_field(fields[i]);
        if (i > 0 && !other)
            continue;
        if (mode->scan == GPUD_SCAN_ANY)
            continue; /* two fields one below the other: not without asking for another way */
        if (i == 0)
            first = mode->scan;
        complete(capture, fourcc, &format, mode);
        add(list, mode);
        if (mode->scan == GPUD_SCAN_PROGRESSIVE)
            return;
    }
}

/* A card that follows its signal lists no sizes: it has the one that it has. */
static void add_current(struct gpud_capture *capture, uint32_t fourcc,
                        struct gpud_capture_mode *mode, struct mode_list *list)
{
    struct gpud_v4l2_format format;
    if (gpud_v4l2_get_format(&capture->node, &format) < 0)
        return;
    bool own = capture->source.width && capture->source.height;
    uint32_t fields = format.field == V4L2_FIELD_ALTERNATE ? 2 : 1;
    mode->width_min = mode->width_max = own ? capture->source.width : format.width;
    mode->height_min = mode->height_max = own ? capture->source.height : format.height * fields;
    add_scans(capture, fourcc, mode, list);
}

static void list_all(struct gpud_capture *capture, struct mode_list *list)
{
    const struct gpud_v4l2 *node = &capture->node;
    for (uint32_t place = 0; place < LIST_MAX; place++) {
        uint32_t fourcc = gpud_v4l2_enum_format(node, place);
        if (fourcc == 0)
            break;
        const char *name = name_at(node, fourcc);
        if (!name)
            continue;
        struct gpud_capture_mode mode = {.fps_den = 1};
        gpud_print(mode.format, "%s", name);
        uint32_t sizes = 0;
        for (; sizes < LIST_MAX && gpud_v4l2_enum_size(node, fourcc, sizes, &mode); sizes++)
            add_scans(capture, fourcc, &mode, list);
        if (sizes == 0)
            add_current(capture, fourcc, &mode, list);
    }
}

size_t gpud_capture_list_modes(struct gpud_capture *capture, struct gpud_capture_mode *modes,
                               size_t max)
{
    struct mode_list list = {.modes = modes, .max = max};
    pthread_mutex_lock(&capture->node_lock);
    list_all(capture, &list);
    pthread_mutex_unlock(&capture->node_lock);
    return list.count;
}
