/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_CAPTURE_CONTROLS_H
#define GPUD_CAPTURE_CONTROLS_H

#include "capture/v4l2.h"

#include <linux/videodev2.h>

/* What a card is set to again when it comes back. */
struct gpud_controls {
    struct gpud_capture_control control[GPUD_CAPTURE_CONTROLS_MAX];
    uint32_t count;
};

/* Whether this is a list of controls at all. */
enum gpud_status gpud_controls_check(const struct gpud_capture_control *controls, uint32_t count,
                                     struct gpud_error *error);

/* Sets them, in this order, but for those that another one has to switch on first. What was set
 * before one that is refused stays set. */
enum gpud_status gpud_controls_set(const struct gpud_v4l2 *node,
                                   const struct gpud_capture_control *controls, uint32_t count,
                                   struct gpud_error *error);

/* The card fills in the alpha of its formats, and it is opaque now. False: it has no control for
 * that. */
bool gpud_controls_make_opaque(const struct gpud_v4l2 *node);
/* Whether it has one: else what stands for alpha in its frames is nothing to go by. */
bool gpud_controls_have_alpha(const struct gpud_v4l2 *node);

/* Copies; a later one of the same name replaces an earlier one. False: out of memory, or of room.
 */
bool gpud_controls_keep(struct gpud_controls *kept, const struct gpud_capture_control *controls,
                        uint32_t count);
void gpud_controls_clear(struct gpud_controls *kept);
/* Whether the application has a will of its own for the alpha. */
bool gpud_controls_set_alpha(const struct gpud_controls *kept);

#endif
