/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "pictureclock.h"

#include <stdio.h>
#include <string.h>

#define LEFT 16
#define TOP 16
#define COLUMNS 8
#define ROWS 16
#define BRIGHT 0x60 /* letters are 0xb3 or more on black */

/* Positions in the text. */
#define TIME 1
#define NUMBER 14

/* --- the picture -------------------------------------------------------------------------- */

/* Where a format has its brightness: the bytes from one pixel to the next, and the byte within. */
static const struct {
    const char *name;
    uint8_t step, byte;
} formats[] = {
    {"UYVY", 2, 1}, {"VYUY", 2, 1}, {"YUY2", 2, 0}, {"YVYU", 2, 0},  {"NV12", 1, 0},
    {"NV21", 1, 0}, {"NV16", 1, 0}, {"NV61", 1, 0}, {"NV24", 1, 0},  {"I420", 1, 0},
    {"YV12", 1, 0}, {"Y42B", 1, 0}, {"Y444", 1, 0}, {"GRAY8", 1, 0}, {"BGRx", 4, 1},
    {"BGRA", 4, 1}, {"RGBx", 4, 1}, {"RGBA", 4, 1}, {"RGB", 3, 1},   {"BGR", 3, 1},
};
#define FORMATS (sizeof(formats) / sizeof(formats[0]))

bool bench_clock_read(const struct gpud_layout *layout, const void *data,
                      struct bench_clock_text *text, const char **reason)
{
    const struct gpud_plane *plane = &layout->plane[0];
    size_t format = 0;
    while (format < FORMATS && strcmp(formats[format].name, layout->format) != 0)
        format++;
    if (format == FORMATS) {
        *reason = "text is not read from pictures of this format: take UYVY, NV12 or BGRx";
        return false;
    }
    if (layout->width < LEFT + COLUMNS * BENCH_CLOCK_CELLS || layout->height < TOP + ROWS) {
        *reason = "the pictures are too small for text";
        return false;
    }
    memset(text, 0, sizeof(*text));
    for (uint32_t row = 0; row < ROWS; row++) {
        const uint8_t *pixels =
            (const uint8_t *)data + plane->offset + (uint64_t)(TOP + row) * plane->stride;
        for (uint32_t x = 0; x < COLUMNS * BENCH_CLOCK_CELLS; x++)
            if (pixels[(LEFT + x) * formats[format].step + formats[format].byte] > BRIGHT)
                text->cell[x / COLUMNS][row] |= (uint8_t)(0x80 >> x % COLUMNS);
    }
    return true;
}

/* --- the text ----------------------------------------------------------------------------- */

static bool same(const uint8_t *a, const uint8_t *b)
{
    return memcmp(a, b, ROWS) == 0;
}

/* All bright or all dark is not a letter. */
static bool is_letter(const uint8_t *cell)
{
    bool some = false, all = true;
    for (uint32_t row = 0; row < ROWS; row++) {
        some = some || cell[row] != 0;
        all = all && cell[row] == 0xff;
    }
    return some && !all;
}

static bool is_space(const uint8_t *cell)
{
    static const uint8_t blank[ROWS];
    return same(cell, blank);
}

/* The form in which vivid writes a time: the same letter between the digits, blanks around it. */
static bool has_form(const struct bench_clock_text *text)
{
    const uint8_t *colon = text->cell[TIME + 2];
    return is_letter(colon) && same(colon, text->cell[TIME + 5]) &&
           same(colon, text->cell[TIME + 8]) && is_space(text->cell[0]) &&
           is_space(text->cell[NUMBER - 1]);
}

bool bench_clock_learn(struct bench_clock *clock, const struct bench_clock_text *texts,
                       const uint32_t *numbers, size_t count)
{
    memset(clock, 0, sizeof(*clock));
    for (size_t i = 0; i < count; i++) {
        char digits[16];
        int length = snprintf(digits, sizeof(digits), "%u", numbers[i]);
        if (!has_form(&texts[i]))
            return false;
        for (int k = 0; k < length; k++) {
            const uint8_t *cell = texts[i].cell[NUMBER + k];
            int digit = digits[k] - '0';
            if (!clock->known[digit])
                memcpy(clock->digit[digit], cell, ROWS);
            clock->known[digit] = true;
        }
    }
    for (int a = 0; a < 10; a++)
        for (int b = 0; b < a; b++)
            if (clock->known[a] && clock->known[b] && same(clock->digit[a], clock->digit[b]))
                return false;
    return count > 0;
}

static int digit_of(const struct bench_clock *clock, const uint8_t *cell)
{
    for (int digit = 0; digit < 10; digit++)
        if (clock->known[digit] && same(clock->digit[digit], cell))
            return digit;
    return -1;
}

static bool shows(const struct bench_clock *clock, const struct bench_clock_text *text,
                  uint32_t number)
{
    char digits[16];
    int length = snprintf(digits, sizeof(digits), "%u", number);
    for (int k = 0; k < length; k++)
        if (digit_of(clock, text->cell[NUMBER + k]) != digits[k] - '0')
            return false;
    return digit_of(clock, text->cell[NUMBER + length]) < 0;
}

int64_t bench_clock_time(const struct bench_clock *clock, const struct bench_clock_text *text,
                         uint32_t number, bool *right)
{
    static const struct {
        uint8_t place;
        int64_t ms;
    } digits[] = {{0, 36000000}, {1, 3600000}, {3, 600000}, {4, 60000}, {6, 10000},
                  {7, 1000},     {9, 100},     {10, 10},    {11, 1}};
    int64_t time = 0;
    *right = shows(clock, text, number);
    for (size_t i = 0; i < sizeof(digits) / sizeof(digits[0]); i++) {
        int digit = digit_of(clock, text->cell[TIME + digits[i].place]);
        if (digit < 0)
            return -1;
        time += digit * digits[i].ms;
    }
    return time;
}
