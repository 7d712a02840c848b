/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A kind of media of the tests' own: clouds of points. It shows how little a new kind needs
 * elsewhere: its line in the table of media.c, by GPUD_TEST_MEDIA here, and its line in
 * meson.build. A kind of the library also has a number and a struct in <gpudirect/media.h>; this
 * one uses that of data. */
#include "frame/media/media.h"

#include <string.h>

#define TYPE "toy/x-points"
#define POINT_SIZE 16

static const struct gpud_media_member members[] = {
    GPUD_MEDIA_TEXT(data.type), GPUD_MEDIA_NUMBER(data.max_size, 1 << 20), /* points */
};

static const struct gpud_media_field fields[] = {
    {"points", &gpud_form_size, offsetof(struct gpud_media, data.max_size), NULL},
};

static bool has_type(const char *type, const char *text)
{
    return strcmp(type, TYPE) == 0;
}

static void complete(struct gpud_media *media, const char *type)
{
    gpud_print(media->data.type, "%s", type);
}

static const char *get_type(const struct gpud_media *media)
{
    return TYPE;
}

static enum gpud_status check(const struct gpud_media *media, struct gpud_error *error)
{
    if (!has_type(media->data.type, "") || media->data.max_size < 1)
        return gpud_fail(error, GPUD_INVALID, "a cloud without points");
    return GPUD_OK;
}

static void get_layout(const struct gpud_media *media, struct gpud_layout *layout)
{
    gpud_media_fill_layout(layout, "points", media->data.max_size * POINT_SIZE);
}

static void get_units(const struct gpud_media *media, struct gpud_media_units *units)
{
    units->unit = POINT_SIZE;
}

extern const struct gpud_media_kind_ops gpud_media_points;
const struct gpud_media_kind_ops gpud_media_points = {
    .name = "a cloud of points",
    .members = members,
    .member_count = sizeof(members) / sizeof(members[0]),
    .fields = fields,
    .field_count = sizeof(fields) / sizeof(fields[0]),
    .has_type = has_type,
    .complete = complete,
    .get_type = get_type,
    .check = check,
    .get_layout = get_layout,
    .get_units = get_units,
};
