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

/* The largest size that a frame of a valid layout has for a good reason: twice its rows, or its
 * rows with a stride of whole pages, and 1 MiB, as tiles and huge pages round it up. A block has
 * any. */
uint64_t gpud_layout_reasonable_size(const struct gpud_layout *layout);

/* Whether both place every byte at the same offset. */
bool gpud_layout_equal(const struct gpud_layout *a, const struct gpud_layout *b);

#endif
