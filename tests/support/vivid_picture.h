/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* vivid's test card: eight bars from left to right, at 75 %. */
#ifndef GPUD_TESTS_VIVID_PICTURE_H
#define GPUD_TESTS_VIVID_PICTURE_H

#include <gpudirect/layout.h>

/* Checks the middle of each bar, in the last rows, which carry no text. Ends the program if a
 * colour is wrong or the format is not known. */
void check_bars(const struct gpud_layout *layout, const void *data);

/* A number for what all rows show; the text in the upper ones changes with each frame. */
uint64_t hash_picture(const struct gpud_layout *layout, const void *data);

#endif
