/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What all text output shares. */
#include "info.h"

#include <stdio.h>
#include <string.h>

#define WIDTH 100

void info_print_wrapped(const char *text, int at)
{
    char *valid = g_utf8_make_valid(text, -1);
    char **words = g_strsplit(valid, " ", -1);
    int column = at;
    for (char **word = words; *word; word++) {
        int length = (int)g_utf8_strlen(*word, -1);
        if (column > at && column + 1 + length > WIDTH) {
            printf("\n%*s", at, "");
            column = at;
        } else if (column > at) {
            putchar(' ');
            column++;
        }
        fputs(*word, stdout);
        column += length;
    }
    putchar('\n');
    g_strfreev(words);
    g_free(valid);
}

int info_longest_name(const struct info_report *report)
{
    size_t longest = 4;
    for (size_t i = 0; i < report->devices; i++)
        longest = MAX(longest, strlen(report->device[i].name));
    return (int)longest;
}

const char *info_chosen_route(const struct info_choice *choice)
{
    return choice->chosen < choice->count ? choice->route[choice->chosen].name : "none";
}

const char *info_distance_name(enum gpud_distance distance)
{
    static const char *const names[] = {
        [GPUD_DISTANCE_UNKNOWN] = "unknown", [GPUD_DISTANCE_SELF] = "self",
        [GPUD_DISTANCE_PIX] = "pix",         [GPUD_DISTANCE_PXB] = "pxb",
        [GPUD_DISTANCE_PHB] = "phb",         [GPUD_DISTANCE_NODE] = "node",
        [GPUD_DISTANCE_SYS] = "sys",
    };
    return (size_t)distance < G_N_ELEMENTS(names) ? names[distance] : "unknown";
}
