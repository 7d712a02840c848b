/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ancillary and other data: frames of which only the type and the largest size are known. */
#include "frame/media/media.h"

#include <string.h>

static const struct gpud_media_member members[] = {
    GPUD_MEDIA_TEXT(data.type),
    GPUD_MEDIA_NUMBER(data.max_size, 0),
};

static const struct gpud_media_field fields[] = {
    {"max-size", &gpud_form_size, offsetof(struct gpud_media, data.max_size), NULL},
};

static bool is_ancillary(const char *type, const char *text)
{
    return strcmp(type, "meta/x-st-2038") == 0 || strncmp(type, "closedcaption/", 14) == 0;
}

static bool is_any(const char *type, const char *text)
{
    return type[0] != '\0';
}

static void data_complete(struct gpud_media *media, const char *type)
{
    gpud_print(media->data.type, "%s", type);
}

static const char *data_get_type(const struct gpud_media *media)
{
    return media->data.type;
}

static enum gpud_status data_check(const struct gpud_media *media, struct gpud_error *error)
{
    if (!gpud_text_is_name(media->data.type))
        return gpud_fail(error, GPUD_INVALID,
                         "data of the type \"%.64s\": a name as \"meta/x-klv\" is needed",
                         media->data.type);
    if (media->data.max_size < 1 || media->data.max_size > UINT32_MAX)
        return gpud_fail(error, GPUD_INVALID,
                         "frames of up to %llu bytes of data: 1 to %u are possible",
                         (unsigned long long)media->data.max_size, UINT32_MAX);
    return GPUD_OK;
}

static void data_get_layout(const struct gpud_media *media, struct gpud_layout *layout)
{
    gpud_media_fill_layout(layout, "data", media->data.max_size);
}

static void data_get_units(const struct gpud_media *media, struct gpud_media_units *units)
{
    units->unit = 1;
}

#define DATA(text, of_type)                                                                       \
    {                                                                                             \
        .name = (text), .members = members, .member_count = sizeof(members) / sizeof(members[0]), \
        .fields = fields, .field_count = sizeof(fields) / sizeof(fields[0]),                      \
        .has_type = (of_type), .complete = data_complete, .get_type = data_get_type,              \
        .check = data_check, .get_layout = data_get_layout, .get_units = data_get_units,          \
    }

const struct gpud_media_kind_ops gpud_media_ancillary = DATA("ancillary data", is_ancillary);
const struct gpud_media_kind_ops gpud_media_data = DATA("data", is_any);
