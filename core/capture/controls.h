/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_CAPTURE_CONTROLS_H
#define GPUD_CAPTURE_CONTROLS_H

#include "capture/v4l2.h"

#include <linux/videodev2.h>

/* The controls to set again when a card returns. */
struct gpud_controls {
    struct gpud_capture_control control[GPUD_CAPTURE_CONTROLS_MAX];
    uint32_t count;
};

/* Whether this is a valid list of controls. */
enum gpud_status gpud_controls_check(const struct gpud_capture_control *controls, uint32_t count,
                                     struct gpud_error *error);

/* Sets them, in this order, except those that another one must enable first. If one is refused,
 * earlier ones stay set. */
enum gpud_status gpud_controls_set(const struct gpud_v4l2 *node,
                                   const struct gpud_capture_control *controls, uint32_t count,
                                   struct gpud_error *error);

/* Makes the card fill in an opaque alpha. False: it has no control for that. */
bool gpud_controls_make_opaque(const struct gpud_v4l2 *node);
/* Whether it has such a control; without one, the alpha in its frames is meaningless. */
bool gpud_controls_have_alpha(const struct gpud_v4l2 *node);

/* Copies; a later one of the same name replaces an earlier one. False: out of memory, or of room.
 */
bool gpud_controls_keep(struct gpud_controls *kept, const struct gpud_capture_control *controls,
                        uint32_t count);
void gpud_controls_clear(struct gpud_controls *kept);
/* Whether the application has set the alpha itself. */
bool gpud_controls_set_alpha(const struct gpud_controls *kept);

#endif
