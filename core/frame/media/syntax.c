/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "frame/media/syntax.h"

#include <ctype.h>
#include <string.h>

static bool is_name_start(char c)
{
    return isalpha((unsigned char)c);
}

bool gpud_text_is_name_part(char c)
{
    return c && (isalnum((unsigned char)c) || strchr("/-_.:+", c));
}

bool gpud_text_is_name(const char *text)
{
    if (!is_name_start(text[0]))
        return false;
    while (gpud_text_is_name_part(*text))
        text++;
    return !*text;
}

void gpud_text_skip_blanks(const char **at)
{
    while (isspace((unsigned char)**at))
        ++*at;
}

bool gpud_text_read_name(const char **at, char *name, size_t size)
{
    size_t length = 0;
    gpud_text_skip_blanks(at);
    while (gpud_text_is_name_part((*at)[length]))
        length++;
    if (!is_name_start(**at) || length >= size)
        return false;
    memcpy(name, *at, length);
    name[length] = '\0';
    *at += length;
    gpud_text_skip_blanks(at);
    return true;
}

static bool read_type(const char **at, char *type, size_t size)
{
    type[0] = '\0';
    if (**at != '(')
        return true;
    ++*at;
    if (!gpud_text_read_name(at, type, size) || **at != ')')
        return false;
    ++*at;
    gpud_text_skip_blanks(at);
    return true;
}

/* The end of a value; NULL: no value, or several. A backslash quotes the next character, or a
 * number of three octal digits. */
static const char *value_end(const char *at)
{
    bool quoted = *at == '"';
    if (strchr("{[<", *at)) /* also at the end of the text */
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

/* Reads one character of the text, and moves on. */
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

static void unquote(struct gpud_text_field *found)
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

bool gpud_text_read_field(const char **at, struct gpud_text_field *found)
{
    if (!gpud_text_read_name(at, found->name, sizeof(found->name)) || **at != '=')
        return false;
    ++*at;
    gpud_text_skip_blanks(at);
    if (!read_type(at, found->type, sizeof(found->type)))
        return false;
    const char *end = value_end(*at);
    if (!end || end == *at)
        return false;
    found->raw = *at;
    found->raw_size = (size_t)(end - *at);
    unquote(found);
    *at = end;
    gpud_text_skip_blanks(at);
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

/* The type that GStreamer would guess. */
static const char *guess_type(const struct gpud_text_field *found)
{
    if (found->raw[0] == '"')
        return "string";
    return is_number(found->value, '\0')                                             ? "int"
           : is_number(found->value, '/')                                            ? "fraction"
           : is_number(found->value, '.')                                            ? "double"
           : strcmp(found->value, "true") == 0 || strcmp(found->value, "false") == 0 ? "boolean"
                                                                                     : "string";
}

bool gpud_text_keep(struct gpud_media *media, const struct gpud_text_field *found)
{
    size_t used = strlen(media->extra), room = sizeof(media->extra) - used;
    int length = gpud_print_n(media->extra + used, room, "%s%s=(%s)%.*s", used ? ", " : "",
                              found->name, found->type[0] ? found->type : guess_type(found),
                              (int)found->raw_size, found->raw);
    return length >= 0 && (size_t)length < room;
}

/* The text must be the same when it is written again from what was read. */
enum gpud_status gpud_media_check_extra(const char *extra, struct gpud_error *error)
{
    struct gpud_media again = {.extra = ""};
    const char *at = extra;
    bool good = memchr(extra, '\0', GPUD_MEDIA_EXTRA_MAX) != NULL;
    while (good && *at) {
        struct gpud_text_field found;
        good = gpud_text_read_field(&at, &found) && gpud_text_keep(&again, &found);
        at += *at == ',';
    }
    if (good && strcmp(extra, again.extra) == 0)
        return GPUD_OK;
    return gpud_fail(error, GPUD_INVALID,
                     "extra fields are written as in \"name=(type)value, name=(type)value\"");
}
