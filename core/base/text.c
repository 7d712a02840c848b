/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Text in buffers of a given size, structs of a given size, and lists. */
#include "base/base.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* === text ==================================================================================== */

/* A character's number of bytes, by its first one; 0: no character begins so. */
static size_t length_of(uint8_t first)
{
    if (first < 0x80)
        return 1;
    if (first < 0xc2) /* a continuation, or an overlong form of ASCII */
        return 0;
    if (first < 0xe0)
        return 2;
    if (first < 0xf0)
        return 3;
    return first < 0xf5 ? 4 : 0;
}

static bool is_continuation(char byte)
{
    return ((uint8_t)byte & 0xc0) == 0x80;
}

/* Decodes the first character and returns its number of bytes; 0: it is invalid. */
static size_t decode(const char *text, size_t size, uint32_t *character)
{
    static const uint8_t payload[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = length_of((uint8_t)text[0]);
    if (length == 0 || length > size)
        return 0;
    uint32_t value = (uint8_t)text[0] & payload[length];
    for (size_t i = 1; i < length; i++) {
        if (!is_continuation(text[i]))
            return 0;
        value = value << 6 | ((uint8_t)text[i] & 0x3f);
    }
    bool is_surrogate = value >= 0xd800 && value <= 0xdfff;
    if (value < least[length] || value > 0x10ffff || is_surrogate)
        return 0;
    *character = value;
    return length;
}

static bool is_harmless(uint32_t character)
{
    return character >= 0x20 && !(character >= 0x7f && character <= 0x9f) &&
           !(character >= 0x2028 && character <= 0x202e) &&
           !(character >= 0x2066 && character <= 0x2069);
}

void gpud_text_clean(char *text, size_t size)
{
    while (size > 0) {
        uint32_t character = 0;
        size_t length = decode(text, size, &character);
        size_t step = length > 0 ? length : 1;
        if (!is_harmless(character))
            memset(text, '?', step);
        text += step;
        size -= step;
    }
}

size_t gpud_text_whole(const char *text, size_t length)
{
    size_t begin = length;
    while (begin > 0 && length - begin < 3 && is_continuation(text[begin - 1]))
        begin--;
    if (begin > 0 && length_of((uint8_t)text[begin - 1]) > length - begin + 1)
        return begin - 1;
    return length;
}

int gpud_text_format(char *text, size_t size, const char *format, va_list args)
{
    int written = vsnprintf(text, size, format, args);
    if (size > 0 && written >= 0 && (size_t)written >= size)
        text[gpud_text_whole(text, size - 1)] = '\0';
    return written;
}

/* === sized =================================================================================== */

/* Far above any struct of ours: a larger size is uninitialised memory. */
#define SIZE_MAX_SANE 65536

enum gpud_status gpud_sized_read(void *to, size_t known, const void *from, size_t required,
                                 const char *name, struct gpud_error *error)
{
    size_t size;
    if (!from)
        return gpud_fail(error, GPUD_INVALID, "a struct %s is needed, and NULL was given", name);
    memcpy(&size, from, sizeof(size));
    if (size < required || size > SIZE_MAX_SANE)
        return gpud_fail(error, GPUD_INVALID,
                         "%s.size is not set: it is %zu, and %zu at least; use GPUD_PARAMS_INIT",
                         name, size, required);
    for (size_t i = known; i < size; i++)
        if (((const char *)from)[i])
            return gpud_fail(error, GPUD_UNSUPPORTED,
                             "the program sets a field of %s that this gpudirect %s does not know: "
                             "it needs a newer one",
                             name, gpud_version_string());
    memset(to, 0, known);
    memcpy(to, from, size < known ? size : known);
    memcpy(to, &known, sizeof(known));
    return GPUD_OK;
}

void gpud_sized_copy(void *to, size_t size, const void *from, size_t from_size)
{
    size_t both = size < from_size ? size : from_size;
    if (both < sizeof(size) || size > SIZE_MAX_SANE)
        return;
    memcpy(to, from, both);
    memset((char *)to + both, 0, size - both);
    memcpy(to, &size, sizeof(size));
}

void gpud_sized_entry(void *list, size_t max, size_t at, const void *from, size_t from_size)
{
    size_t size;
    if (at >= max)
        return;
    memcpy(&size, list, sizeof(size));
    gpud_sized_copy((char *)list + at * size, size, from, from_size);
}

/* === list ==================================================================================== */

void *gpud_list_add(struct gpud_list *list, struct gpud_error *error)
{
    char *grown = realloc(list->entries, list->entry_size * (list->count + 1));
    if (!grown) {
        gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of %ss", list->what);
        return NULL;
    }
    list->entries = grown;
    char *entry = memset(grown + list->entry_size * list->count++, 0, list->entry_size);
    memcpy(entry, &list->record_size, sizeof(list->record_size));
    return entry;
}

void *gpud_list_entry(const struct gpud_list *list, uint32_t index)
{
    return list->entries + list->entry_size * index;
}

enum gpud_status gpud_list_get_info(const struct gpud_list *list, uint32_t index, void *info,
                                    struct gpud_error *error)
{
    size_t size;
    memcpy(&size, info, sizeof(size));
    if (index >= list->count)
        return gpud_fail(error, GPUD_INVALID, "%s %u of %u", list->what, index, list->count);
    if (size < sizeof(size))
        return gpud_fail(error, GPUD_INVALID,
                         "the size of the record of a %s is not set: use GPUD_INFO_INIT",
                         list->what);
    gpud_sized_copy(info, size, gpud_list_entry(list, index), list->record_size);
    return GPUD_OK;
}

void *gpud_list_point(void *entries, size_t count, size_t entry_size)
{
    void **pointers = calloc(count + 1, sizeof(*pointers));
    for (size_t i = 0; pointers && i < count; i++)
        pointers[i] = (char *)entries + entry_size * i;
    return pointers;
}

void gpud_list_clear(struct gpud_list *list)
{
    free(list->entries);
    list->entries = NULL;
    list->count = 0;
}
