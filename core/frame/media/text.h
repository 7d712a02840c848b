/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The syntax of GStreamer's caps, as far as one media needs it:
 *
 *     type(feature, …), name=(type)value, name=(type)"a \"quoted\" value", …;
 */
#ifndef GPUD_FRAME_MEDIA_TEXT_H
#define GPUD_FRAME_MEDIA_TEXT_H

#include "frame/media/syntax.h"

/* A field of caps, and the part of a media that stands for it. */
struct gpud_media_field {
    const char *name;
    const struct gpud_media_form *form;
    size_t offset;            /* of that part in struct gpud_media */
    const char *const *names; /* of an enum's values from 0 on: NULL: none; "" ends them */
};

/* How a value is written. */
struct gpud_media_form {
    const char *type;
    /* false: no value that the part can have; it is left as it is. */
    bool (*read)(const struct gpud_media_field *field, const char *value, void *part);
    /* false: it is unknown, and is not written. */
    bool (*write)(const struct gpud_media_field *field, const void *part,
                  char value[GPUD_VALUE_MAX]);
};

extern const struct gpud_media_form gpud_form_number; /* uint32_t; 0: unknown */
extern const struct gpud_media_form gpud_form_size;   /* uint64_t; 0: unknown */
extern const struct gpud_media_form gpud_form_mask;   /* uint64_t; 0: unknown */
extern const struct gpud_media_form gpud_form_text;   /* char[16] */
extern const struct gpud_media_form gpud_form_name;   /* an enum, by its names */
extern const struct gpud_media_form gpud_form_ratio;  /* struct gpud_fraction */
extern const struct gpud_media_form gpud_form_rate;   /* the same; unknown is written as 0/1 */

/* Reads `count` numbers, of base 10 or 16, with a colon between them; what follows the last one is
 * ignored where `open`. */
bool gpud_text_read_numbers(const char *text, int base, bool open, uint32_t *numbers,
                            unsigned count);

#endif
