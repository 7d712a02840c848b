/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The fake driver's controls, which a driver of old lists with 32 bits alone. */
#include "fake_input.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define READ_ONLY V4L2_CTRL_FLAG_READ_ONLY
#define PAYLOAD V4L2_CTRL_FLAG_HAS_PAYLOAD

static const struct known_control {
    uint32_t id, type, flags;
    const char *name;
    int64_t minimum, maximum;
    uint64_t step;
} known[FAKE_CONTROLS] = {
    [FAKE_BRIGHTNESS] = {V4L2_CID_BRIGHTNESS, V4L2_CTRL_TYPE_INTEGER, 0, "Brightness", 0, 250, 5},
    [FAKE_ALPHA] = {V4L2_CID_ALPHA_COMPONENT, V4L2_CTRL_TYPE_INTEGER, 0, "Alpha Component", 0, 255,
                    1},
    [FAKE_BITS] = {0x00980950, V4L2_CTRL_TYPE_BITMASK, 0, "Bits", 0, 6, 0},
    [FAKE_SERIAL] = {0x00980951, V4L2_CTRL_TYPE_STRING, PAYLOAD, "Serial", 1, 8, 1},
    [FAKE_LONG] = {0x00980952, V4L2_CTRL_TYPE_INTEGER64, 0, "Long One", -(INT64_C(1) << 40),
                   INT64_C(1) << 40, 1},
    [FAKE_GAIN] = {0x00980953, V4L2_CTRL_TYPE_INTEGER, READ_ONLY, "Gain", 0, 9, 1},
    [FAKE_TABLE] = {0x00980954, V4L2_CTRL_TYPE_U8, PAYLOAD, "Table", 0, 255, 1},
    [FAKE_AUTO] = {V4L2_CID_EXPOSURE_AUTO, V4L2_CTRL_TYPE_MENU, 0, "Exposure, Auto", 0, 3, 0},
    [FAKE_EXPOSURE] = {V4L2_CID_EXPOSURE_ABSOLUTE, V4L2_CTRL_TYPE_INTEGER, 0,
                       "Exposure Time, Absolute", 1, 100, 1},
};
static const char *const modes[] = {"Auto Mode", "Manual Mode", NULL, "Aperture Priority Mode"};

static bool is_there(const struct fake_driver *driver, size_t i)
{
    return driver->has_controls && (i != FAKE_ALPHA || driver->has_alpha);
}

static uint32_t flags_of(const struct fake_driver *driver, size_t i)
{
    bool asleep = i == FAKE_EXPOSURE && driver->controls[FAKE_AUTO] != 1;
    return known[i].flags | (asleep ? V4L2_CTRL_FLAG_INACTIVE : 0);
}

/* The one of this number, or, with the flag, the next one; FAKE_CONTROLS: none. */
static size_t find(const struct fake_driver *driver, uint32_t id)
{
    bool next = id & V4L2_CTRL_FLAG_NEXT_CTRL;
    uint32_t number = id & ~(V4L2_CTRL_FLAG_NEXT_CTRL | V4L2_CTRL_FLAG_NEXT_COMPOUND);
    for (size_t i = 0; i < FAKE_CONTROLS; i++)
        if (is_there(driver, i) && (next ? known[i].id > number : known[i].id == number))
            return i;
    return FAKE_CONTROLS;
}

static int query(const struct fake_driver *driver, struct v4l2_queryctrl *raw)
{
    size_t i = find(driver, raw->id);
    if (i == FAKE_CONTROLS)
        return EINVAL;
    raw->id = known[i].id;
    raw->type = known[i].type;
    raw->flags = flags_of(driver, i);
    raw->minimum = (int32_t)known[i].minimum;
    raw->maximum = (int32_t)known[i].maximum;
    raw->step = (int32_t)known[i].step;
    snprintf((char *)raw->name, sizeof(raw->name), "%s", known[i].name);
    return 0;
}

static int query_ext(const struct fake_driver *driver, struct v4l2_query_ext_ctrl *raw)
{
    size_t i = find(driver, raw->id);
    if (driver->old_controls)
        return ENOTTY;
    if (i == FAKE_CONTROLS)
        return EINVAL;
    raw->id = known[i].id;
    raw->type = known[i].type;
    raw->flags = flags_of(driver, i);
    raw->minimum = known[i].minimum;
    raw->maximum = known[i].maximum;
    raw->step = known[i].step;
    snprintf(raw->name, sizeof(raw->name), "%s", known[i].name);
    return 0;
}

static int set(struct fake_driver *driver, uint32_t id, int64_t value)
{
    size_t i = find(driver, id);
    if (i == FAKE_CONTROLS)
        return EINVAL;
    if (known[i].flags & READ_ONLY)
        return EACCES;
    if (known[i].type != V4L2_CTRL_TYPE_BITMASK &&
        (value < known[i].minimum || value > known[i].maximum))
        return ERANGE;
    driver->controls[i] = value;
    driver->controls_set++;
    return 0;
}

static int set_ext(struct fake_driver *driver, struct v4l2_ext_controls *raw)
{
    struct v4l2_ext_control *one = raw->controls;
    if (raw->count != 1)
        return EINVAL;
    if (one->id != known[FAKE_SERIAL].id)
        return set(driver, one->id, one->value64);
    if (one->size < 9 || !memchr(one->string, '\0', one->size))
        return ENOSPC;
    snprintf(driver->serial, sizeof(driver->serial), "%s", one->string);
    return 0;
}

int fake_control_call(struct fake_driver *driver, unsigned long request, void *argument)
{
    struct v4l2_querymenu *menu = argument;
    const struct v4l2_control *old = argument;
    switch (request) {
    case VIDIOC_QUERYCTRL:
        return query(driver, argument);
    case VIDIOC_QUERY_EXT_CTRL:
        return query_ext(driver, argument);
    case VIDIOC_QUERYMENU:
        if (menu->id != V4L2_CID_EXPOSURE_AUTO || menu->index > 3 || !modes[menu->index])
            return EINVAL;
        snprintf((char *)menu->name, sizeof(menu->name), "%s", modes[menu->index]);
        return 0;
    case VIDIOC_S_CTRL:
        return set(driver, old->id, old->value);
    case VIDIOC_S_EXT_CTRLS:
        return set_ext(driver, argument);
    default:
        return -1;
    }
}
