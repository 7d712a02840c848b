/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Single values in the syntax of caps. */
#include "frame/media/text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Signs and blanks, which strtoull() accepts, are not part of a number here. */
static bool read_number(const char **text, int base, uint64_t max, uint64_t *number)
{
    char *end;
    if (!isxdigit((unsigned char)**text))
        return false;
    errno = 0;
    unsigned long long value = strtoull(*text, &end, base);
    if (end == *text || errno || value > max)
        return false;
    *text = end;
    *number = value;
    return true;
}

bool gpud_text_read_numbers(const char *text, int base, bool open, uint32_t *numbers,
                            unsigned count)
{
    uint64_t number = 0;
    for (unsigned i = 0; i < count; i++) {
        if ((i > 0 && *text++ != ':') || !read_number(&text, base, UINT32_MAX, &number))
            return false;
        numbers[i] = (uint32_t)number;
    }
    return open || !*text;
}

/* --- numbers ------------------------------------------------------------------------------- */

static bool read_u32(const struct gpud_media_field *field, const char *value, void *part)
{
    uint64_t number;
    (void)field;
    if (!read_number(&value, 10, INT32_MAX, &number) || *value || number == 0)
        return false;
    *(uint32_t *)part = (uint32_t)number;
    return true;
}

static bool write_u32(const struct gpud_media_field *field, const void *part,
                      char value[GPUD_VALUE_MAX])
{
    (void)field;
    gpud_print_n(value, GPUD_VALUE_MAX, "%" PRIu32, *(const uint32_t *)part);
    return *(const uint32_t *)part != 0;
}

static bool read_u64(const struct gpud_media_field *field, const char *value, void *part)
{
    uint64_t number;
    (void)field;
    if (!read_number(&value, 0, UINT64_MAX, &number) || *value || number == 0)
        return false;
    *(uint64_t *)part = number;
    return true;
}

static bool write_u64(const struct gpud_media_field *field, const void *part,
                      char value[GPUD_VALUE_MAX])
{
    (void)field;
    gpud_print_n(value, GPUD_VALUE_MAX, "%" PRIu64, *(const uint64_t *)part);
    return *(const uint64_t *)part != 0;
}

static bool write_mask(const struct gpud_media_field *field, const void *part,
                       char value[GPUD_VALUE_MAX])
{
    (void)field;
    gpud_print_n(value, GPUD_VALUE_MAX, "0x%016" PRIx64, *(const uint64_t *)part);
    return *(const uint64_t *)part != 0;
}

const struct gpud_media_form gpud_form_number = {"int", read_u32, write_u32};
const struct gpud_media_form gpud_form_size = {"guint64", read_u64, write_u64};
const struct gpud_media_form gpud_form_mask = {"bitmask", read_u64, write_mask};

/* --- fractions ----------------------------------------------------------------------------- */

/* A whole number counts as a fraction. */
static bool read_fraction(const struct gpud_media_field *field, const char *value, void *part)
{
    uint64_t num, den = 1;
    (void)field;
    if (!read_number(&value, 10, INT32_MAX, &num) ||
        (*value == '/' && (value++, !read_number(&value, 10, INT32_MAX, &den))) || *value ||
        den == 0)
        return false;
    *(struct gpud_fraction *)part =
        num ? (struct gpud_fraction){(uint32_t)num, (uint32_t)den} : (struct gpud_fraction){0};
    return true;
}

static bool read_ratio(const struct gpud_media_field *field, const char *value, void *part)
{
    struct gpud_fraction read = {0};
    if (!read_fraction(field, value, &read) || read.num == 0)
        return false;
    *(struct gpud_fraction *)part = read;
    return true;
}

static bool write_ratio(const struct gpud_media_field *field, const void *part,
                        char value[GPUD_VALUE_MAX])
{
    const struct gpud_fraction *ratio = part;
    (void)field;
    gpud_print_n(value, GPUD_VALUE_MAX, "%" PRIu32 "/%" PRIu32, ratio->num, ratio->den);
    return ratio->num != 0;
}

static bool write_rate(const struct gpud_media_field *field, const void *part,
                       char value[GPUD_VALUE_MAX])
{
    if (!write_ratio(field, part, value))
        gpud_print_n(value, GPUD_VALUE_MAX, "0/1");
    return true;
}

const struct gpud_media_form gpud_form_ratio = {"fraction", read_ratio, write_ratio};
const struct gpud_media_form gpud_form_rate = {"fraction", read_fraction, write_rate};

/* --- texts --------------------------------------------------------------------------------- */

#define SHORT_TEXT 16

static bool read_text(const struct gpud_media_field *field, const char *value, void *part)
{
    (void)field;
    if (!value[0] || strlen(value) >= SHORT_TEXT)
        return false;
    gpud_print_n(part, SHORT_TEXT, "%s", value);
    return true;
}

static bool write_text(const struct gpud_media_field *field, const void *part,
                       char value[GPUD_VALUE_MAX])
{
    (void)field;
    gpud_print_n(value, GPUD_VALUE_MAX, "%.*s", SHORT_TEXT, (const char *)part);
    return value[0] != '\0';
}

/* Enums have the size of an unsigned int. */
static bool read_name(const struct gpud_media_field *field, const char *value, void *part)
{
    for (unsigned i = 0; !field->names[i] || field->names[i][0]; i++)
        if (field->names[i] && strcmp(field->names[i], value) == 0) {
            *(unsigned *)part = i;
            return true;
        }
    return false;
}

static bool write_name(const struct gpud_media_field *field, const void *part,
                       char value[GPUD_VALUE_MAX])
{
    const char *name = field->names[*(const unsigned *)part];
    gpud_print_n(value, GPUD_VALUE_MAX, "%s", name ? name : "");
    return name != NULL;
}

const struct gpud_media_form gpud_form_text = {"string", read_text, write_text};
const struct gpud_media_form gpud_form_name = {"string", read_name, write_name};
