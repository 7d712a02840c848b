/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The syntax of caps, one field at a time. */
#ifndef GPUD_FRAME_MEDIA_SYNTAX_H
#define GPUD_FRAME_MEDIA_SYNTAX_H

#include "base/error.h"
#include <gpudirect/media.h>

#define GPUD_VALUE_MAX 128 /* of a field that represents a member */

/* One field: where it is in the text, and its value. */
struct gpud_text_field {
    char name[128], type[64];
    const char *raw; /* the value as written */
    size_t raw_size;
    char value[GPUD_VALUE_MAX]; /* without quotes; "": longer than any member's */
};

/* Whether a name may have it after its first letter, and whether an unquoted value may have it. */
bool gpud_text_is_name_part(char c);

/* Whether it can be the name of a type or a field. */
bool gpud_text_is_name(const char *text);

/* Each moves *at past what it has read. */
void gpud_text_skip_blanks(const char **at);

/* Reads a name of less than `size` bytes; false: no name. */
bool gpud_text_read_name(const char **at, char *name, size_t size);

/* Reads "name=(type)value"; false: no such field, or several values. */
bool gpud_text_read_field(const char **at, struct gpud_text_field *found);

/* Adds a field to the extra ones of a media; false: no room. */
bool gpud_text_keep(struct gpud_media *media, const struct gpud_text_field *found);

/* Whether the text can be the extra fields of a media: "name=(type)value, …" without other blanks,
 * or "". */
enum gpud_status gpud_media_check_extra(const char *extra, struct gpud_error *error);

#endif
