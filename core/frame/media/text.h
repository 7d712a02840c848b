/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The syntax of GStreamer's caps, as far as one media needs it:
 *
 *     type(feature, …), name=(type)value, name=(type)"a \"quoted\" value", …;
 */
#ifndef GPUD_FRAME_MEDIA_TEXT_H
#define GPUD_FRAME_MEDIA_TEXT_H

#include "frame/media/syntax.h"

/* A field of caps, and the part of a media that it represents. */
struct gpud_media_field {
    const char *name;
    const struct gpud_media_form *form;
    size_t offset;            /* of that part, in struct gpud_media */
    const char *const *names; /* of an enum's values, from 0; NULL: not an enum; "" ends them */
};

/* How a value is read and written. */
struct gpud_media_form {
    const char *type;
    /* false: the value is impossible; the part is unchanged. */
    bool (*read)(const struct gpud_media_field *field, const char *value, void *part);
    /* false: the value is unknown, and not written. */
    bool (*write)(const struct gpud_media_field *field, const void *part,
                  char value[GPUD_VALUE_MAX]);
};

extern const struct gpud_media_form gpud_form_number; /* uint32_t; 0: unknown */
extern const struct gpud_media_form gpud_form_size;   /* uint64_t; 0: unknown */
extern const struct gpud_media_form gpud_form_mask;   /* uint64_t; 0: unknown */
extern const struct gpud_media_form gpud_form_text;   /* char[16] */
extern const struct gpud_media_form gpud_form_name;   /* an enum, by its names */
extern const struct gpud_media_form gpud_form_ratio;  /* struct gpud_fraction */
extern const struct gpud_media_form gpud_form_rate;   /* the same; 0/1 if unknown */

/* Reads `count` numbers of base 10 or 16, separated by colons. With `open`, text after the last one
 * is ignored. */
bool gpud_text_read_numbers(const char *text, int base, bool open, uint32_t *numbers,
                            unsigned count);

#endif
