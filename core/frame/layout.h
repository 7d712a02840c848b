/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_FRAME_LAYOUT_H
#define GPUD_FRAME_LAYOUT_H

#include <gpudirect/layout.h>

/* Whether a frame of one layout can be copied, plane by plane, into a frame of the other: strides
 * and offsets may differ. */
bool gpud_layout_same_picture(const struct gpud_layout *a, const struct gpud_layout *b);

/* Whether it is a block, whose frames may use fewer bytes than it has: one row of everything. */
bool gpud_layout_is_block(const struct gpud_layout *layout);

/* Whether both place every byte at the same offset. */
bool gpud_layout_equal(const struct gpud_layout *a, const struct gpud_layout *b);

#endif
