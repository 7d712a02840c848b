/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Media of every kind: checked, compared, and written as the text of caps. */
#include "frame/media/media.h"

#include "base/base.h"

#include <ctype.h>
#include <errno.h>
#include <gpudirect/media.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* === syntax ================================================================================== */
/* The syntax of caps, one field at a time. */

/* One field: where it is in the text, and its value. */
struct gpud_text_field {
    char name[128], type[64];
    const char *raw; /* the value as written */
    size_t raw_size;
    char value[GPUD_VALUE_MAX]; /* without quotes; "": longer than any member's */
};

static bool is_name_start(char c)
{
    return isalpha((unsigned char)c);
}

/* Whether a name may have it after its first letter, and whether an unquoted value may have it. */
static bool text_is_name_part(char c)
{
    return c && (isalnum((unsigned char)c) || strchr("/-_.:+", c));
}

bool gpud_text_is_name(const char *text)
{
    if (!is_name_start(text[0]))
        return false;
    while (text_is_name_part(*text))
        text++;
    return !*text;
}

/* Each moves *at past what it has read. */
static void text_skip_blanks(const char **at)
{
    while (isspace((unsigned char)**at))
        ++*at;
}

/* Reads a name of less than `size` bytes; false: no name. */
static bool text_read_name(const char **at, char *name, size_t size)
{
    size_t length = 0;
    text_skip_blanks(at);
    while (text_is_name_part((*at)[length]))
        length++;
    if (!is_name_start(**at) || length >= size)
        return false;
    memcpy(name, *at, length);
    name[length] = '\0';
    *at += length;
    text_skip_blanks(at);
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

/* Reads the characters of the value: behind a backslash one as it is, or by three octal digits. */
static void unquote(struct gpud_text_field *found)
{
    const char *at = found->raw, *end = at + found->raw_size;
    bool quoted = *at == '"';
    size_t length = 0;
    at += quoted;
    end -= quoted;
    while (at < end && length < sizeof(found->value) - 1) {
        bool escaped = *at == '\\';
        at += escaped;
        if (escaped && strspn(at, "01234567") >= 3) {
            found->value[length++] = (char)((at[0] - '0') * 64 + (at[1] - '0') * 8 + at[2] - '0');
            at += 3;
        } else {
            found->value[length++] = *at++;
        }
    }
    found->value[at < end ? 0 : length] = '\0';
}

/* Reads "name=(type)value"; false: no such field, or several values. */
static bool text_read_field(const char **at, struct gpud_text_field *found)
{
    if (!text_read_name(at, found->name, sizeof(found->name)) || **at != '=')
        return false;
    ++*at;
    text_skip_blanks(at);
    found->type[0] = '\0';
    if (**at == '(') {
        ++*at;
        if (!text_read_name(at, found->type, sizeof(found->type)) || **at != ')')
            return false;
        ++*at;
        text_skip_blanks(at);
    }
    const char *end = value_end(*at);
    if (!end || end == *at)
        return false;
    found->raw = *at;
    found->raw_size = (size_t)(end - *at);
    unquote(found);
    *at = end;
    text_skip_blanks(at);
    return true;
}

bool gpud_text_has(const char *fields, const char *name, const char *value)
{
    struct gpud_text_field found;
    while (*fields == ',' && (fields++, text_read_field(&fields, &found)))
        if (strcmp(found.name, name) == 0)
            return strcmp(found.value, value) == 0;
    return false;
}

static bool is_number(const char *value, char also)
{
    value += *value == '-';
    size_t digits = strspn(value, "0123456789");
    if (also && value[digits] == also)
        return digits > 0 && is_number(value + digits + 1, '\0');
    return digits > 0 && !value[digits] && !also;
}

/* Adds a field to the extra ones of a media, with the type that GStreamer would guess if it has
 * none; false: no room. */
static bool text_keep(struct gpud_media *media, const struct gpud_text_field *found)
{
    size_t used = strlen(media->extra), room = sizeof(media->extra) - used;
    const char *value = found->value, *type = "string";
    if (found->type[0])
        type = found->type;
    else if (found->raw[0] == '"')
        type = "string";
    else if (is_number(value, '\0'))
        type = "int";
    else if (is_number(value, '/'))
        type = "fraction";
    else if (is_number(value, '.'))
        type = "double";
    else if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
        type = "boolean";
    int length = gpud_print_n(media->extra + used, room, "%s%s=(%s)%.*s", used ? ", " : "",
                              found->name, type, (int)found->raw_size, found->raw);
    return length >= 0 && (size_t)length < room;
}

/* Whether the text can be the extra fields of a media: "name=(type)value, …" without other blanks,
 * or "". It must be the same when it is written again from what was read. */
static enum gpud_status media_check_extra(const char *extra, struct gpud_error *error)
{
    struct gpud_media again = {.extra = ""};
    const char *at = extra;
    bool good = memchr(extra, '\0', GPUD_MEDIA_EXTRA_MAX) != NULL;
    while (good && *at) {
        struct gpud_text_field found;
        good = text_read_field(&at, &found) && text_keep(&again, &found);
        at += *at == ',';
    }
    if (good && strcmp(extra, again.extra) == 0)
        return GPUD_OK;
    return gpud_fail(error, GPUD_INVALID,
                     "extra fields are written as in \"name=(type)value, name=(type)value\"");
}

/* === media =================================================================================== */
/* What all kinds of media share: reading, writing and checking by their tables. */

#ifdef GPUD_TEST_MEDIA /* a kind of the tests' own */
extern const struct gpud_media_kind_ops gpud_media_points;
#else
#define GPUD_TEST_MEDIA
#endif

/* clang-format off */
static const struct gpud_media_kind_ops *const kinds[] = {
    [GPUD_MEDIA_PICTURE] = &gpud_media_picture,
    [GPUD_MEDIA_AUDIO] = &gpud_media_audio,
    [GPUD_MEDIA_ANCILLARY] = &gpud_media_ancillary,
    [GPUD_MEDIA_DATA] = &gpud_media_data,
    [GPUD_MEDIA_TENSOR] = &gpud_media_tensor,
    GPUD_TEST_MEDIA
};

/* clang-format on */
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

const struct gpud_media_kind_ops *gpud_media_find_kind(uint32_t kind)
{
    return kind < KINDS ? kinds[kind] : NULL;
}

/* --- members ------------------------------------------------------------------------------- */

const struct gpud_media_member *gpud_media_next(struct gpud_media_walk *walk,
                                                const struct gpud_media *media)
{
    if (walk->opened != walk->next) { /* what was returned is there: are there structs behind it? */
        const struct gpud_media_member *number = &walk->kind->members[walk->next - 1];
        uint32_t used = number->list ? *(const uint32_t *)((const char *)media + walk->offset) : 0;
        walk->opened = walk->next;
        walk->list = number->list;
        walk->item = walk->next_of_item = 0;
        walk->items = used < number->limit ? used : number->limit;
    }
    if (walk->list && walk->next_of_item == walk->list->member_count) {
        walk->next_of_item = 0;
        walk->item++;
    }
    if (walk->list && walk->item < walk->items) {
        const struct gpud_media_member *member = &walk->list->members[walk->next_of_item++];
        walk->offset = member->offset + walk->item * walk->list->size;
        return member;
    }
    walk->list = NULL;
    if (walk->next == walk->kind->member_count)
        return NULL;
    walk->offset = walk->kind->members[walk->next].offset;
    return &walk->kind->members[walk->next++];
}

uint64_t gpud_media_get_number(const void *at, uint8_t width)
{
    switch (width) {
    case 1:
        return *(const uint8_t *)at;
    case 2:
        return *(const uint16_t *)at;
    case 4:
        return *(const uint32_t *)at;
    default:
        return *(const uint64_t *)at;
    }
}

void gpud_media_set_number(void *at, uint8_t width, uint64_t value)
{
    switch (width) {
    case 1:
        *(uint8_t *)at = (uint8_t)value;
        break;
    case 2:
        *(uint16_t *)at = (uint16_t)value;
        break;
    case 4:
        *(uint32_t *)at = (uint32_t)value;
        break;
    default:
        *(uint64_t *)at = value;
    }
}

bool gpud_media_allows(const struct gpud_media_member *member, uint64_t value)
{
    bool listed = !member->codes;
    for (uint8_t i = 0; i < member->codes_count; i++)
        listed |= member->codes[i] == value;
    return listed && (member->limit == 0 || value <= member->limit);
}

static enum gpud_status check_member(const struct gpud_media_member *member, const char *at,
                                     const char *kind, struct gpud_error *error)
{
    if (!member->width && !memchr(at, '\0', member->count))
        return gpud_fail(error, GPUD_INVALID, "%s with a string that is not NUL-terminated", kind);
    for (uint8_t i = 0; member->width && i < member->count; i++) {
        uint64_t value = gpud_media_get_number(at + i * member->width, member->width);
        if (!gpud_media_allows(member, value))
            return gpud_fail(error, GPUD_INVALID,
                             "%s with the number %llu in a field that cannot have it", kind,
                             (unsigned long long)value);
    }
    return GPUD_OK;
}

enum gpud_status gpud_media_check(const struct gpud_media *media, struct gpud_error *error)
{
    const struct gpud_media_kind_ops *kind = gpud_media_find_kind(media->kind);
    enum gpud_status status = GPUD_OK;
    if (!kind)
        return gpud_fail(error, GPUD_INVALID,
                         "%u is not a kind of media: give one of enum gpud_media_kind",
                         (unsigned)media->kind);
    struct gpud_media_walk walk = {.kind = kind};
    const struct gpud_media_member *member;
    while (status == GPUD_OK && (member = gpud_media_next(&walk, media)) != NULL)
        status = check_member(member, (const char *)media + walk.offset, kind->name, error);
    if (status == GPUD_OK)
        status = kind->check(media, error);
    return status == GPUD_OK ? media_check_extra(media->extra, error) : status;
}

void gpud_media_fill_layout(struct gpud_layout *layout, const char *format, uint64_t size)
{
    *layout = (struct gpud_layout){.width = 1, .height = 1, .planes = 1, .size = size};
    gpud_print(layout->format, "%s", format);
    layout->plane[0] = (struct gpud_plane){
        .stride = (uint32_t)size,
        .row_bytes = (uint32_t)size,
        .rows = 1,
    };
}

struct gpud_media_units gpud_media_get_units(const struct gpud_media *media)
{
    const struct gpud_media_kind_ops *kind = gpud_media_find_kind(media->kind);
    struct gpud_media_units units = {0};
    if (kind->get_units)
        kind->get_units(media, &units);
    return units;
}

uint32_t gpud_media_get_rate(const struct gpud_media *media)
{
    const struct gpud_media_kind_ops *kind = gpud_media_find_kind(media->kind);
    return kind->get_rate ? kind->get_rate(media) : 0;
}

uint64_t gpud_media_get_duration(const struct gpud_media *media, uint64_t bytes)
{
    const struct gpud_media_kind_ops *kind = gpud_media_find_kind(media->kind);
    return kind->get_duration ? kind->get_duration(media, bytes) : 0;
}

/* 600 ms in blocks of 10 ms. A ring has such a share for its sender and for each of 32 receivers,
 * and 2048 slots at most. */
#define BLOCK_SLOTS 60
#define BLOCK_SLOTS_MIN 8

/* Of a share. Memory of the host is used only as far as blocks have been written. */
#define BLOCK_SLOTS_BYTES (UINT64_C(64) << 20)

uint32_t gpud_media_default_slots(const struct gpud_media *media, uint32_t pictures)
{
    struct gpud_layout layout;
    if (media->kind == GPUD_MEDIA_PICTURE || media->kind == GPUD_MEDIA_TENSOR)
        return pictures;
    gpud_media_find_kind(media->kind)->get_layout(media, &layout);
    uint64_t fitting = BLOCK_SLOTS_BYTES / layout.size;
    return fitting > BLOCK_SLOTS       ? BLOCK_SLOTS
           : fitting < BLOCK_SLOTS_MIN ? BLOCK_SLOTS_MIN
                                       : (uint32_t)fitting;
}

/* --- the public calls ---------------------------------------------------------------------- */

enum gpud_status gpud_media_get_layout(const struct gpud_media *media, struct gpud_layout *layout,
                                       struct gpud_error *error)
{
    enum gpud_status status = gpud_media_check(media, error);
    if (status == GPUD_OK)
        gpud_media_find_kind(media->kind)->get_layout(media, layout);
    return status;
}

bool gpud_media_equal(const struct gpud_media *a, const struct gpud_media *b)
{
    const struct gpud_media_kind_ops *kind = gpud_media_find_kind(a->kind);
    bool equal = kind && a->kind == b->kind && strcmp(a->extra, b->extra) == 0;
    struct gpud_media_walk walk = {.kind = kind};
    const struct gpud_media_member *member;
    while (equal && (member = gpud_media_next(&walk, a)) != NULL) {
        const char *x = (const char *)a + walk.offset, *y = (const char *)b + walk.offset;
        equal = member->width ? memcmp(x, y, (size_t)member->width * member->count) == 0
                              : strncmp(x, y, member->count) == 0;
    }
    return equal;
}

/* === forms =================================================================================== */
/* Single values in the syntax of caps. */

/* Signs and blanks, which strtoull() accepts, are not part of a number here. */
static bool forms_read_number(const char **text, int base, uint64_t max, uint64_t *number)
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
        if ((i > 0 && *text++ != ':') || !forms_read_number(&text, base, UINT32_MAX, &number))
            return false;
        numbers[i] = (uint32_t)number;
    }
    return open || !*text;
}

/* --- numbers ------------------------------------------------------------------------------- */

static bool read_u32(const struct gpud_media_field *field, const char *value, void *part)
{
    uint64_t number;
    if (!forms_read_number(&value, 10, INT32_MAX, &number) || *value || number == 0)
        return false;
    *(uint32_t *)part = (uint32_t)number;
    return true;
}

static bool write_u32(const struct gpud_media_field *field, const void *part,
                      char value[GPUD_VALUE_MAX])
{
    gpud_print_n(value, GPUD_VALUE_MAX, "%" PRIu32, *(const uint32_t *)part);
    return *(const uint32_t *)part != 0;
}

static bool read_u64(const struct gpud_media_field *field, const char *value, void *part)
{
    uint64_t number;
    if (!forms_read_number(&value, 0, UINT64_MAX, &number) || *value || number == 0)
        return false;
    *(uint64_t *)part = number;
    return true;
}

static bool write_u64(const struct gpud_media_field *field, const void *part,
                      char value[GPUD_VALUE_MAX])
{
    gpud_print_n(value, GPUD_VALUE_MAX, "%" PRIu64, *(const uint64_t *)part);
    return *(const uint64_t *)part != 0;
}

static bool write_mask(const struct gpud_media_field *field, const void *part,
                       char value[GPUD_VALUE_MAX])
{
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
    if (!forms_read_number(&value, 10, INT32_MAX, &num) ||
        (*value == '/' && (value++, !forms_read_number(&value, 10, INT32_MAX, &den))) || *value ||
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
    if (!value[0] || strlen(value) >= SHORT_TEXT)
        return false;
    gpud_print_n(part, SHORT_TEXT, "%s", value);
    return true;
}

static bool write_text(const struct gpud_media_field *field, const void *part,
                       char value[GPUD_VALUE_MAX])
{
    gpud_print_n(value, GPUD_VALUE_MAX, "%.*s", SHORT_TEXT, (const char *)part);
    return value[0] != '\0';
}

/* Enums have the size of an unsigned int. */
static bool forms_read_name(const struct gpud_media_field *field, const char *value, void *part)
{
    const char *const *names = field->detail;
    for (unsigned i = 0; !names[i] || names[i][0]; i++)
        if (names[i] && strcmp(names[i], value) == 0) {
            *(unsigned *)part = i;
            return true;
        }
    return false;
}

static bool write_name(const struct gpud_media_field *field, const void *part,
                       char value[GPUD_VALUE_MAX])
{
    const char *name = ((const char *const *)field->detail)[*(const unsigned *)part];
    gpud_print_n(value, GPUD_VALUE_MAX, "%s", name ? name : "");
    return name != NULL;
}

const struct gpud_media_form gpud_form_text = {"string", read_text, write_text};
const struct gpud_media_form gpud_form_name = {"string", forms_read_name, write_name};

/* === text ==================================================================================== */
/* The syntax of GStreamer's caps, as far as one media needs it:
 *
 *     type(feature, …), name=(type)value, name=(type)"a \"quoted\" value", …;
 */

/* --- reading ------------------------------------------------------------------------------- */

/* false: no member has such a field, or can have this value. */
static bool text_take(struct gpud_media *media, const struct gpud_media_kind_ops *kind,
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
    if (!text_read_name(&at, type, sizeof(type)))
        return no_caps(text, at, error);
    if (*at == '(') { /* features: where frames lie is not part of what they are */
        at += strcspn(at, ")");
        at += *at == ')';
        text_skip_blanks(&at);
    }
    uint32_t of = 0; /* the first kind that has the type; what no other has is data */
    while (of < KINDS && (of == GPUD_MEDIA_DATA || !kinds[of]->has_type(type, at)))
        of++;
    made.kind = of < KINDS ? (enum gpud_media_kind)of : GPUD_MEDIA_DATA;
    const struct gpud_media_kind_ops *kind = kinds[made.kind];
    while (*at == ',') {
        struct gpud_text_field found;
        const char *begin = ++at;
        if (!text_read_field(&at, &found))
            return no_caps(text, begin, error);
        if (!text_take(&made, kind, &found) && !text_keep(&made, &found))
            return gpud_fail(
                error, GPUD_INVALID,
                "caps with more than %zu bytes of fields that are not known here, from "
                "\"%s\" on",
                sizeof(made.extra), found.name);
    }
    if (*at == ';')
        at++;
    text_skip_blanks(&at);
    if (*at)
        return no_caps(text, at, error);
    if (kind->complete)
        kind->complete(&made, type);
    *media = made;
    return GPUD_OK;
}

/* --- writing ------------------------------------------------------------------------------- */

struct writer {
    char *text;
    size_t size, used;
};

static void text_put(struct writer *writer, const char *text)
{
    size_t length = strlen(text);
    if (writer->used + length < writer->size)
        memcpy(writer->text + writer->used, text, length + 1);
    writer->used += length;
}

static void put_value(struct writer *writer, const char *value)
{
    const char *at = value;
    while (text_is_name_part(*at))
        at++;
    if (*value && !*at) {
        text_put(writer, value);
        return;
    }
    text_put(writer, "\"");
    for (; *value; value++) {
        char one[8];
        bool plain = text_is_name_part(*value);
        gpud_print(one, plain ? "%c" : "\\%03o", (unsigned char)*value);
        text_put(writer, one);
    }
    text_put(writer, "\"");
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
    text_put(&writer, kind->get_type(media));
    for (size_t i = 0; i < kind->field_count; i++) {
        const struct gpud_media_field *field = &kind->fields[i];
        char value[GPUD_VALUE_MAX];
        if (!field->form->write(field, (const char *)media + field->offset, value))
            continue;
        text_put(&writer, ", ");
        text_put(&writer, field->name);
        text_put(&writer, "=(");
        text_put(&writer, field->form->type);
        text_put(&writer, ")");
        put_value(&writer, value);
    }
    if (media->extra[0]) {
        text_put(&writer, ", ");
        text_put(&writer, media->extra);
    }
    if (writer.used >= sizeof(made) || writer.used >= size)
        return gpud_fail(error, GPUD_INVALID, "a media of %zu bytes of text, and room for %zu",
                         writer.used + 1, size);
    memcpy(text, made, writer.used + 1);
    return GPUD_OK;
}
