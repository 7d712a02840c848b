/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "frame/media/text.h"

#include "frame/media/media.h"

#include <string.h>

/* --- reading ------------------------------------------------------------------------------- */

/* false: no member has such a field, or can have this value. */
static bool take(struct gpud_media *media, const struct gpud_media_kind_ops *kind,
                 const struct gpud_text_field *found)
{
    for (size_t i = 0; i < kind->field_count; i++) {
        const struct gpud_media_field *field = &kind->fields[i];
        if (strcmp(field->name, found->name) == 0)
            return found->value[0] &&
                   field->form->read(field, found->value, (char *)media + field->offset);
    }
    return false;
}

static enum gpud_status no_caps(const char *text, const char *at, struct gpud_error *error)
{
    return gpud_fail(error, GPUD_INVALID,
                     "not caps of one media, at character %zu, \"%.32s\": they are written as in "
                     "video/x-raw, format=UYVY, width=1920, height=1080, framerate=25/1",
                     (size_t)(at - text), at);
}

enum gpud_status gpud_media_from_string(struct gpud_media *media, const char *text,
                                        struct gpud_error *error)
{
    struct gpud_media made = {.extra = ""};
    char type[sizeof(made.data.type)];
    const char *at = text;
    if (!gpud_text_read_name(&at, type, sizeof(type)))
        return no_caps(text, at, error);
    if (*at == '(') { /* features: where frames lie is not part of what they are */
        at += strcspn(at, ")");
        at += *at == ')';
        gpud_text_skip_blanks(&at);
    }
    made.kind = gpud_media_kind_of_type(type);
    const struct gpud_media_kind_ops *kind = gpud_media_find_kind(made.kind);
    while (*at == ',') {
        struct gpud_text_field found;
        const char *begin = ++at;
        if (!gpud_text_read_field(&at, &found))
            return no_caps(text, begin, error);
        if (!take(&made, kind, &found) && !gpud_text_keep(&made, &found))
            return gpud_fail(
                error, GPUD_INVALID,
                "caps with more than %zu bytes of fields that are not known here, from "
                "\"%s\" on",
                sizeof(made.extra), found.name);
    }
    if (*at == ';')
        at++;
    gpud_text_skip_blanks(&at);
    if (*at)
        return no_caps(text, at, error);
    kind->complete(&made, type);
    *media = made;
    return GPUD_OK;
}

/* --- writing ------------------------------------------------------------------------------- */

struct writer {
    char *text;
    size_t size, used;
};

static void put(struct writer *writer, const char *text)
{
    size_t length = strlen(text);
    if (writer->used + length < writer->size)
        memcpy(writer->text + writer->used, text, length + 1);
    writer->used += length;
}

static void put_value(struct writer *writer, const char *value)
{
    const char *at = value;
    while (gpud_text_is_name_part(*at))
        at++;
    if (*value && !*at) {
        put(writer, value);
        return;
    }
    put(writer, "\"");
    for (; *value; value++) {
        char one[8];
        bool plain = gpud_text_is_name_part(*value);
        gpud_print(one, plain ? "%c" : "\\%03o", (unsigned char)*value);
        put(writer, one);
    }
    put(writer, "\"");
}

enum gpud_status gpud_media_to_string(const struct gpud_media *media, char *text, size_t size,
                                      struct gpud_error *error)
{
    char made[GPUD_MEDIA_TEXT_MAX];
    struct writer writer = {.text = made, .size = sizeof(made)};
    enum gpud_status status = gpud_media_check(media, error);
    if (status != GPUD_OK)
        return status;
    const struct gpud_media_kind_ops *kind = gpud_media_find_kind(media->kind);
    put(&writer, kind->get_type(media));
    for (size_t i = 0; i < kind->field_count; i++) {
        const struct gpud_media_field *field = &kind->fields[i];
        char value[GPUD_VALUE_MAX];
        if (!field->form->write(field, (const char *)media + field->offset, value))
            continue;
        put(&writer, ", ");
        put(&writer, field->name);
        put(&writer, "=(");
        put(&writer, field->form->type);
        put(&writer, ")");
        put_value(&writer, value);
    }
    if (media->extra[0]) {
        put(&writer, ", ");
        put(&writer, media->extra);
    }
    if (writer.used >= sizeof(made) || writer.used >= size)
        return gpud_fail(error, GPUD_INVALID, "a media of %zu bytes of text, and room for %zu",
                         writer.used + 1, size);
    memcpy(text, made, writer.used + 1);
    return GPUD_OK;
}
