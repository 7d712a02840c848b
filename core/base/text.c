/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

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
