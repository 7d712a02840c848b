/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What frames are: pictures, sound, data, tensors. */
#ifndef GPUD_FRAME_MEDIA_MEDIA_H
#define GPUD_FRAME_MEDIA_MEDIA_H

#include "base/base.h"
#include <gpudirect/media.h>

/* === media =================================================================================== */
/* The kinds of media. Each has a file with two tables: its members, which the wire carries, and the
 * fields of caps that represent them. A new kind is such a file, its struct in <gpudirect/media.h>,
 * and its line in the table of media.c. */

/* Numbers, or a text, in struct gpud_media. */
struct gpud_media_member {
    size_t offset;
    uint8_t width;  /* bytes of each number; 0: a text of `count` bytes with its NUL */
    uint8_t count;  /* how many numbers */
    uint32_t limit; /* the largest valid number; 0: any is valid */
    /* The valid numbers, if they are not 0 to `limit`; `codes_count` of them. */
    const uint8_t *codes;
    uint8_t codes_count;
    const struct gpud_media_list
        *list; /* of which this is the number in use, which follows; or NULL */
};

/* An array of structs in struct gpud_media: its members are those of the first one. */
struct gpud_media_list {
    const struct gpud_media_member *members;
    size_t member_count, size; /* of each struct */
};

#define GPUD_MEDIA_PART(member) (((struct gpud_media *)0)->member)

/* clang-format off */
#define GPUD_MEDIA_NUMBER(member, most) \
    {.offset = offsetof(struct gpud_media, member), .width = sizeof(GPUD_MEDIA_PART(member)), \
     .count = 1, .limit = (most)}
#define GPUD_MEDIA_NUMBERS(member, most) \
    {.offset = offsetof(struct gpud_media, member), .width = sizeof(GPUD_MEDIA_PART(member)[0]), \
     .count = sizeof(GPUD_MEDIA_PART(member)) / sizeof(GPUD_MEDIA_PART(member)[0]), \
     .limit = (most)}
#define GPUD_MEDIA_CODE(member, list) \
    {.offset = offsetof(struct gpud_media, member), .width = sizeof(GPUD_MEDIA_PART(member)), \
     .count = 1, .codes = (list), .codes_count = sizeof(list)}
#define GPUD_MEDIA_LIST(array, table) \
    {.members = (table), .member_count = sizeof(table) / sizeof((table)[0]), \
     .size = sizeof(GPUD_MEDIA_PART(array)[0])}
#define GPUD_MEDIA_COUNT(member, array, of) \
    {.offset = offsetof(struct gpud_media, member), .width = sizeof(GPUD_MEDIA_PART(member)), \
     .count = 1, .limit = sizeof(GPUD_MEDIA_PART(array)) / sizeof(GPUD_MEDIA_PART(array)[0]), \
     .list = (of)}
#define GPUD_MEDIA_TEXT(member) \
    {.offset = offsetof(struct gpud_media, member), .count = sizeof(GPUD_MEDIA_PART(member))}

/* clang-format on */

struct gpud_media_field;

/* What of a frame may be in use: its first bytes and any number of units. */
struct gpud_media_units {
    uint64_t first;
    uint32_t unit;    /* 0: all of it */
    bool may_be_none; /* one byte stands for none, since a frame has one at least */
};

struct gpud_media_kind_ops {
    const char *name; /* for messages */
    const struct gpud_media_member *members;
    size_t member_count;
    const struct gpud_media_field *fields; /* media.h */
    size_t field_count;
    /* Whether caps of this type, with these fields behind it, describe this kind. */
    bool (*has_type)(const char *type, const char *fields);
    /* Completes the media after its type and all its fields were read. NULL: it is complete. */
    void (*complete)(struct gpud_media *media, const char *type);
    /* The type, with the features that GStreamer asks for. */
    const char *(*get_type)(const struct gpud_media *media);
    /* Checks the members against each other; each is valid by itself. */
    enum gpud_status (*check)(const struct gpud_media *media, struct gpud_error *error);
    void (*get_layout)(const struct gpud_media *media, struct gpud_layout *layout);
    /* A part of a frame that may be in use. NULL: it always uses all of its bytes. */
    void (*get_units)(const struct gpud_media *media, struct gpud_media_units *units);
    /* How long a frame lasts, in ns; 0: not known. NULL: it never is. */
    uint64_t (*get_duration)(const struct gpud_media *media, uint64_t bytes);
    /* Units a second, of a kind whose blocks are cut anywhere: samples. NULL: of no such kind. */
    uint32_t (*get_rate)(const struct gpud_media *media);
};

extern const struct gpud_media_kind_ops gpud_media_picture, gpud_media_audio, gpud_media_ancillary,
    gpud_media_data, gpud_media_tensor;

/* NULL: unknown kind. */
const struct gpud_media_kind_ops *gpud_media_find_kind(uint32_t kind);

/* A number of `width` bytes in memory. */
uint64_t gpud_media_get_number(const void *at, uint8_t width);
void gpud_media_set_number(void *at, uint8_t width, uint64_t value);

/* Goes over the members of a media, each of which may decide what follows it: the number of a
 * list's structs, of which as many are gone over as there are. Begins zeroed, but for its kind. */
struct gpud_media_walk {
    const struct gpud_media_kind_ops *kind;
    size_t offset; /* of the member that was returned, in struct gpud_media */
    size_t next, opened;
    const struct gpud_media_list *list; /* in which it is; or NULL */
    size_t item, items, next_of_item;
};

/* NULL: that was the last. */
const struct gpud_media_member *gpud_media_next(struct gpud_media_walk *walk,
                                                const struct gpud_media *media);

/* Whether the number is valid for the member. */
bool gpud_media_allows(const struct gpud_media_member *member, uint64_t value);

/* Whether it is valid and complete. */
enum gpud_status gpud_media_check(const struct gpud_media *media, struct gpud_error *error);

/* The units of a valid media. */
struct gpud_media_units gpud_media_get_units(const struct gpud_media *media);

/* Whether so many bytes of a frame can be in use. */
static inline bool gpud_media_units_allow(const struct gpud_media_units *units, uint64_t bytes)
{
    if (units->unit == 0 || bytes < units->first)
        return false;
    return (bytes - units->first) % units->unit == 0 || (units->may_be_none && bytes == 1);
}

/* Units a second of a valid media whose blocks can be cut between any two, as sound can; else 0. */
uint32_t gpud_media_get_rate(const struct gpud_media *media);

/* How long a frame of a valid media lasts, of which so many bytes are in use, in ns; 0: not known.
 */
uint64_t gpud_media_get_duration(const struct gpud_media *media, uint64_t bytes);

/* How many frames of a valid media a ring holds where no number is asked for: `pictures`, or as
 * many blocks as last some time, because they are short and small. Where each slot is a memory of
 * its own, blocks have no more than pictures, as a ring has few memories. */
#define GPUD_SLOTS_DEFAULT 4

uint32_t gpud_media_default_slots(const struct gpud_media *media, uint32_t pictures);

/* Fills in a layout of one plane with one row of so many bytes. */
void gpud_media_fill_layout(struct gpud_layout *layout, const char *format, uint64_t size);

/* === syntax ================================================================================== */

#define GPUD_VALUE_MAX 2048 /* of a field that represents a member */

/* Whether it can be the name of a type or a field. */
bool gpud_text_is_name(const char *text);

/* Whether fields, which begin with a comma, give one of them this value. */
bool gpud_text_has(const char *fields, const char *name, const char *value);

/* === text ==================================================================================== */

/* A field of caps, and the part of a media that it represents. */
struct gpud_media_field {
    const char *name;
    const struct gpud_media_form *form;
    size_t offset; /* of that part, in struct gpud_media */
    /* Of its form: an enum's names, from 0, "" ends them. */
    const void *detail;
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

extern const struct gpud_media_form gpud_form_size; /* uint64_t; 0: unknown */

extern const struct gpud_media_form gpud_form_mask; /* uint64_t; 0: unknown */

extern const struct gpud_media_form gpud_form_text; /* char[16] */

extern const struct gpud_media_form gpud_form_name; /* an enum, by its names */

extern const struct gpud_media_form gpud_form_ratio; /* struct gpud_fraction */

extern const struct gpud_media_form gpud_form_rate; /* the same; 0/1 if unknown */

/* Reads `count` numbers of base 10 or 16, separated by colons. With `open`, text after the last one
 * is ignored. */
bool gpud_text_read_numbers(const char *text, int base, bool open, uint32_t *numbers,
                            unsigned count);

#endif
