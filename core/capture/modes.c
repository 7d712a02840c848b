/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the driver offers: its formats, their sizes, and the fastest rate of each size. */
#include "capture/modes.h"

#include "base/sized.h"
#include "capture/colorimetry.h"
#include "capture/state.h"

#include <linux/videodev2.h>
#include <string.h>

/* Limits a driver that never ends its list. */
#define LIST_MAX 256

/* The driver's list of formats, read once for all names. */
struct offers {
    uint32_t fourcc[LIST_MAX];
    size_t count;
    bool alpha; /* the driver fills it in */
};

static void read_offers(const struct gpud_v4l2 *node, struct offers *offers)
{
    offers->count = 0;
    offers->alpha = gpud_controls_have_alpha(node);
    for (uint32_t fourcc; offers->count < LIST_MAX &&
                          (fourcc = gpud_v4l2_enum_format(node, (uint32_t)offers->count));)
        offers->fourcc[offers->count++] = fourcc;
}

/* The first of the format's fourccs that the driver offers; 0: none. */
static uint32_t find_offer(const struct offers *offers, const char *name)
{
    uint32_t fourcc;
    for (size_t place = 0; (fourcc = gpud_format_fourcc(name, place)); place++)
        for (size_t i = 0; i < offers->count; i++)
            if (offers->fourcc[i] == fourcc)
                return fourcc;
    return 0;
}

static uint32_t find_format(const struct offers *offers, const char *name)
{
    static const char *const with_alpha[] = {"BGRA", "RGBA", "ARGB", "ABGR"};
    if (gpud_format_has_alpha(name) && !offers->alpha)
        return 0;
    uint32_t fourcc = find_offer(offers, name);
    for (size_t i = 0; i < sizeof(with_alpha) / sizeof(with_alpha[0]) && !fourcc; i++)
        if (!offers->alpha && strcmp(gpud_format_opaque(with_alpha[i]), name) == 0)
            fourcc = find_offer(offers, with_alpha[i]);
    return fourcc;
}

uint32_t gpud_capture_find_format(const struct gpud_v4l2 *node, const char *name)
{
    struct offers offers;
    read_offers(node, &offers);
    return find_format(&offers, name);
}

static const char *name_of(uint32_t fourcc, bool alpha)
{
    const char *name = gpud_format_name(fourcc);
    const char *opaque = name ? gpud_format_opaque(name) : NULL;
    return opaque && !alpha ? opaque : name;
}

const char *gpud_capture_name_format(const struct gpud_v4l2 *node, uint32_t fourcc)
{
    return name_of(fourcc, gpud_controls_have_alpha(node));
}

/* The name of the format at this index of the driver's list, if a user of that name gets this
 * format. */
static const char *name_at(const struct offers *offers, size_t place)
{
    const char *name = name_of(offers->fourcc[place], offers->alpha);
    return name && find_format(offers, name) == offers->fourcc[place] ? name : NULL;
}

void gpud_capture_name_formats(const struct gpud_v4l2 *node, char *text, size_t size)
{
    struct offers offers;
    read_offers(node, &offers);
    text[0] = '\0';
    for (size_t i = 0; i < offers.count; i++) {
        const char *name = name_at(&offers, i);
        size_t used = strlen(text);
        if (name)
            gpud_print_n(text + used, size - used, "%s%s", used ? ", " : "", name);
    }
    if (!text[0])
        gpud_print_n(text, size, "no raw format that is known here");
}

struct mode_list {
    const struct gpud_v4l2 *node;
    const struct gpud_input *source;
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

/* Colours may depend on the size: for a range, only values that are the same at both ends are
 * stated. */
static void complete(const struct mode_list *list, uint32_t fourcc,
                     const struct gpud_v4l2_format *format, struct gpud_capture_mode *mode)
{
    gpud_capture_read_colors(format, &mode->colorimetry);
    mode->aspect_x = list->source->aspect_x;
    mode->aspect_y = list->source->aspect_y;
    if (mode->width_min == mode->width_max && mode->height_min == mode->height_max) {
        gpud_input_aspect(list->source, format, &mode->aspect_x, &mode->aspect_y);
        return;
    }
    struct gpud_v4l2_format least;
    struct gpud_colorimetry other;
    mode->aspect_x = mode->aspect_y = 0; /* depends on the size */
    try_size(list->node, fourcc, format->field, mode->width_min, mode->height_min, &least);
    gpud_capture_read_colors(&least, &other);
    if (memcmp(&other, &mode->colorimetry, sizeof(other)) != 0)
        gpud_capture_read_colors(&(struct gpud_v4l2_format){.fourcc = fourcc}, &mode->colorimetry);
}

/* A driver that lists no rates has its current one, or the signal's. */
static void complete_rates(const struct mode_list *list, uint32_t fourcc,
                           struct gpud_capture_mode *mode)
{
    gpud_v4l2_enum_rates(list->node, fourcc, mode->width_max, mode->height_max, mode);
    if (mode->fps_num)
        return;
    gpud_v4l2_rate(list->node, &mode->fps_num, &mode->fps_den);
    if (!mode->fps_num && list->source->fps_num) {
        mode->fps_num = list->source->fps_num;
        mode->fps_den = list->source->fps_den;
    }
    mode->rate_count = mode->fps_num ? 1 : 0;
    mode->rates[0] = (struct gpud_capture_rate){.num = mode->fps_num, .den = mode->fps_den};
}

/* Lists a size in each scan that the driver has, its own choice first. The driver is asked for
 * others only if that is not progressive, because some need long to answer. */
static void add_scans(struct mode_list *list, uint32_t fourcc, struct gpud_capture_mode *mode)
{
    static const uint32_t fields[] = {V4L2_FIELD_ANY, V4L2_FIELD_INTERLACED, V4L2_FIELD_ALTERNATE};
    enum gpud_scan first = GPUD_SCAN_ANY;
    complete_rates(list, fourcc, mode);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        struct gpud_v4l2_format format;
        try_size(list->node, fourcc, fields[i], mode->width_max, mode->height_max, &format);
        mode->scan = gpud_scan_of_field(format.field);
        bool other = mode->scan != first && mode->scan == gpud_scan_of_field(fields[i]);
        if (i > 0 && !other)
            continue;
        if (mode->scan == GPUD_SCAN_ANY)
            continue; /* two fields, one below the other: needs a request for another scan */
        if (i == 0)
            first = mode->scan;
        complete(list, fourcc, &format, mode);
        add(list, mode);
        if (mode->scan == GPUD_SCAN_PROGRESSIVE)
            return;
    }
}

/* A card that follows its signal lists no sizes; its current one is listed. */
static void add_current(struct mode_list *list, uint32_t fourcc, struct gpud_capture_mode *mode)
{
    struct gpud_v4l2_format format;
    if (gpud_v4l2_get_format(list->node, &format) < 0)
        return;
    bool own = list->source->width && list->source->height;
    uint32_t fields = format.field == V4L2_FIELD_ALTERNATE ? 2 : 1;
    mode->width_min = mode->width_max = own ? list->source->width : format.width;
    mode->height_min = mode->height_max = own ? list->source->height : format.height * fields;
    add_scans(list, fourcc, mode);
}

/* format: the only one to list; NULL: all. */
static void list_modes(struct mode_list *list, const char *format)
{
    const struct gpud_v4l2 *node = list->node;
    struct offers offers;
    read_offers(node, &offers);
    for (size_t i = 0; i < offers.count; i++) {
        uint32_t fourcc = offers.fourcc[i];
        const char *name = name_at(&offers, i);
        if (!name || (format && strcmp(name, format) != 0))
            continue;
        struct gpud_capture_mode mode = {.fps_den = 1};
        gpud_print(mode.format, "%s", name);
        uint32_t sizes = 0;
        for (; sizes < LIST_MAX && gpud_v4l2_enum_size(node, fourcc, sizes, &mode); sizes++)
            add_scans(list, fourcc, &mode);
        if (sizes == 0)
            add_current(list, fourcc, &mode);
    }
}

size_t gpud_capture_modes_of(const struct gpud_v4l2 *node, const struct gpud_input *source,
                             const char *format, struct gpud_capture_mode *modes, size_t max)
{
    struct mode_list list = {.node = node, .source = source, .modes = modes, .max = max};
    list_modes(&list, format);
    return list.count;
}

size_t gpud_capture_list_modes(struct gpud_capture *capture, const char *format,
                               struct gpud_capture_mode *modes, size_t max)
{
    gpud_lock_take(&capture->node_lock);
    size_t count = gpud_capture_modes_of(&capture->node, &capture->signal.now, format, modes, max);
    gpud_lock_release(&capture->node_lock);
    return count;
}
