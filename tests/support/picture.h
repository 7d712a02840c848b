/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pictures whose every byte is known: a frame's content follows from its number alone. */
#ifndef GPUD_TESTS_PICTURE_H
#define GPUD_TESTS_PICTURE_H

#include <gpudirect/layout.h>

/* Writes the picture of this number into the planes; padding between rows is unchanged. */
void picture_write(const struct gpud_layout *layout, void *data, uint64_t number);

/* Checks every byte of every plane. false: *plane, *row, *byte say where the first wrong one is. */
bool picture_check(const struct gpud_layout *layout, const void *data, uint64_t number,
                   uint32_t *plane, uint32_t *row, uint32_t *byte);

/* Which picture the data are near this number: its number, or with none of them, 0. */
uint64_t picture_find(const struct gpud_layout *layout, const void *data, uint64_t number);

/* The same picture with strides and offsets that a ring of the library would not have. */
void picture_stretch(struct gpud_layout *layout);

#endif
