/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the driver offers: its formats, each with its sizes, each with its fastest rate. */
#include "base/sized.h"
#include "capture/capture.h"
#include "capture/colorimetry.h"

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

/* What the driver would make of one size. */
static void try_size(const struct gpud_v4l2 *node, uint32_t fourcc, uint32_t width, uint32_t height,
                     struct gpud_v4l2_format *format)
{
    *format = (struct gpud_v4l2_format){.fourcc = fourcc, .width = width, .height = height};
    if (gpud_v4l2_try_format(node, format) < 0 || format->fourcc != fourcc)
        *format = (struct gpud_v4l2_format){.fourcc = fourcc};
}

/* Colours may depend on the size: of a range nothing is said that is not so at both ends. */
static void complete(const struct gpud_v4l2 *node, uint32_t fourcc, struct gpud_capture_mode *mode)
{
    struct gpud_v4l2_format format, least;
    try_size(node, fourcc, mode->width_max, mode->height_max, &format);
    gpud_capture_read_colors(&format, &mode->colorimetry);
    if (mode->width_min == mode->width_max && mode->height_min == mode->height_max)
        return;
    struct gpud_colorimetry other;
    try_size(node, fourcc, mode->width_min, mode->height_min, &least);
    gpud_capture_read_colors(&least, &other);
    if (memcmp(&other, &mode->colorimetry, sizeof(other)) != 0)
        gpud_capture_read_colors(&(struct gpud_v4l2_format){.fourcc = fourcc}, &mode->colorimetry);
}

/* A card that follows its signal lists no sizes: it has the one that it has. */
static void add_current(struct gpud_capture *capture, uint32_t fourcc,
                        struct gpud_capture_mode *mode, struct mode_list *list)
{
    struct gpud_v4l2_format format;
    if (gpud_v4l2_get_format(&capture->node, &format) < 0)
        return;
    mode->width_min = mode->width_max = format.width;
    mode->height_min = mode->height_max = format.height;
    mode->fps_num = 0;
    gpud_v4l2_rate(&capture->node, &mode->fps_num, &mode->fps_den);
    complete(&capture->node, fourcc, mode);
    add(list, mode);
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
        for (; sizes < LIST_MAX && gpud_v4l2_enum_size(node, fourcc, sizes, &mode); sizes++) {
            gpud_v4l2_fastest(node, fourcc, mode.width_min, mode.height_min, &mode);
            complete(node, fourcc, &mode);
            add(list, &mode);
        }
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
