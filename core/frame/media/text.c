/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "frame/media/text.h"

#include "frame/media/media.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX 128

static bool is_name_start(char c)
{
    return isalpha((unsigned char)c);
}

/* Also what a value needs no quotes for. */
static bool is_name_part(char c)
{
    return c && (isalnum((unsigned char)c) || strchr("/-_.:+", c));
}

bool gpud_text_is_name(const char *text)
{
    if (!is_name_start(text[0]))
        return false;
    while (is_name_part(*text))
        text++;
    return !*text;
}

/* --- reading ------------------------------------------------------------------------------- */

/* One field: where it lies in the text, and what it says. */
struct found {
    char name[NAME_MAX], type[64];
    const char *raw; /* the value as it is written */
    size_t raw_size;
    char value[GPUD_VALUE_MAX]; /* without quotes; "": it is longer than any member's */
};

static void skip_blanks(const char **at)
{
    while (isspace((unsigned char)**at))
        ++*at;
}

/* A name of less than `size` bytes. */
static bool read_name(const char **at, char *name, size_t size)
{
    size_t length = 0;
    skip_blanks(at);
    while (is_name_part((*at)[length]))
        length++;
    if (!is_name_start(**at) || length >= size)
        return false;
    memcpy(name, *at, length);
    name[length] = '\0';
    *at += length;
    skip_blanks(at);
    return true;
}

static bool read_type(const char **at, char *type, size_t size)
{
    type[0] = '\0';
    if (**at != '(')
        return true;
    ++*at;
    if (!read_name(at, type, size) || **at != ')')
        return false;
    ++*at;
    skip_blanks(at);
    return true;
}

/* The end of a value; NULL: it is none, or one of several. A backslash takes the next character,
 * or a number of three octal digits. */
static const char *value_end(const char *at)
{
    bool quoted = *at == '"';
    if (strchr("{[<", *at)) /* and where there is nothing */
        return NULL;
    for (at += quoted; *at && *at != '"' && (quoted || !strchr(",; \t\r\n", *at)); at++)
        if (*at == '\\' && !*++at)
            return NULL;
    return !quoted ? at : *at == '"' ? at + 1 : NULL;
}

static bool is_octal(char c)
{
    return c >= '0' && c <= '7';
}

/* The character that the text begins with, which moves on. */
static char unescape(const char **at)
{
    if (**at == '\\')
        ++*at;
    else
        return *(*at)++;
    if (!is_octal((*at)[0]) || !is_octal((*at)[1]) || !is_octal((*at)[2]))
        return *(*at)++;
    int value = ((*at)[0] - '0') * 64 + ((*at)[1] - '0') * 8 + (*at)[2] - '0';
    *at += 3;
    return (char)value;
}

static void unquote(struct found *found)
{
    const char *at = found->raw, *end = at + found->raw_size;
    bool quoted = *at == '"';
    size_t length = 0;
    at += quoted;
    end -= quoted;
    while (at < end && length < sizeof(found->value) - 1)
        found->value[length++] = unescape(&at);
    found->value[at < end ? 0 : length] = '\0';
}

static bool read_field(const char **at, struct found *found)
{
    if (!read_name(at, found->name, sizeof(found->name)) || **at != '=')
        return false;
    ++*at;
    skip_blanks(at);
    if (!read_type(at, found->type, sizeof(found->type)))
        return false;
    const char *end = value_end(*at);
    if (!end || end == *at)
        return false;
    found->raw = *at;
    found->raw_size = (size_t)(end - *at);
    unquote(found);
    *at = end;
    skip_blanks(at);
    return true;
}

static bool is_number(const char *value, char also)
{
    value += *value == '-';
    size_t digits = strspn(value, "0123456789");
    if (also && value[digits] == also)
        return digits > 0 && is_number(value + digits + 1, '\0');
    return digits > 0 && !value[digits] && !also;
}

/* As GStreamer guesses. */
static const char *guess_type(const struct found *found)
{
    if (found->raw[0] == '"')
        return "string";
    return is_number(found->value, '\0')                                             ? "int"
           : is_number(found->value, '/')                                            ? "fraction"
           : is_number(found->value, '.')                                            ? "double"
           : strcmp(found->value, "true") == 0 || strcmp(found->value, "false") == 0 ? "boolean"
                                                                                     : "string";
}

/* false: there is no room. */
static bool keep(struct gpud_media *media, const struct found *found)
{
    size_t used = strlen(media->extra), room = sizeof(media->extra) - used;
    int length = gpud_print_n(media->extra + used, room, "%s%s=(%s)%.*s", used ? ", " : "",
                              found->name, found->type[0] ? found->type : guess_type(found),
                              (int)found->raw_size, found->raw);
    return length >= 0 && (size_t)length < room;
}

/* false: no member stands for it, or none can say this. */
static bool take(struct gpud_media *media, const struct gpud_media_kind_ops *kind,
                 const struct found *found)
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
    if (!read_name(&at, type, sizeof(type)))
        return no_caps(text, at, error);
    if (*at == '(') { /* features: where frames lie is no part of what they are */
        at += strcspn(at, ")");
        at += *at == ')';
        skip_blanks(&at);
    }
    made.kind = gpud_media_kind_of_type(type);
    const struct gpud_media_kind_ops *kind = gpud_media_find_kind(made.kind);
    while (*at == ',') {
        struct found found;
        const char *begin = ++at;
        if (!read_field(&at, &found))
            return no_caps(text, begin, error);
        if (!take(&made, kind, &found) && !keep(&made, &found))
            return gpud_fail(
                error, GPUD_INVALID,
                "caps with more than %zu bytes of fields that are not known here, from "
                "\"%s\" on",
                sizeof(made.extra), found.name);
    }
    if (*at == ';')
        at++;
    skip_blanks(&at);
    if (*at)
        return no_caps(text, at, error);
    kind->complete(&made, type);
    *media = made;
    return GPUD_OK;
}

/* Written again from what is read of it, it is the same. */
enum gpud_status gpud_media_check_extra(const char *extra, struct gpud_error *error)
{
    struct gpud_media again = {.extra = ""};
    const char *at = extra;
    bool good = memchr(extra, '\0', GPUD_MEDIA_EXTRA_MAX) != NULL;
    while (good && *at) {
        struct found found;
        good = read_field(&at, &found) && keep(&again, &found);
        at += *at == ',';
    }
    if (good && strcmp(extra, again.extra) == 0)
        return GPUD_OK;
    return gpud_fail(error, GPUD_INVALID,
                     "extra fields are written as in \"name=(type)value, name=(type)value\"");
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
    while (is_name_part(*at))
        at++;
    if (*value && !*at) {
        put(writer, value);
        return;
    }
    put(writer, "\"");
    for (; *value; value++) {
        char one[8];
        bool plain = is_name_part(*value);
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
