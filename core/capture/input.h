/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The signal at a card's input: its properties, its presence, and the driver's events of changes.
 */
#ifndef GPUD_CAPTURE_INPUT_H
#define GPUD_CAPTURE_INPUT_H

#include "capture/v4l2.h"

#include <linux/videodev2.h>

struct gpud_input {
    char name[32];               /* of the input; "": the card has none */
    bool present;                /* also true if the driver cannot tell */
    char reason[160];            /* why not */
    uint32_t width, height;      /* of a picture, both fields; 0: there is no size of its own */
    uint32_t fps_num, fps_den;   /* pictures a second; 0/1: not known */
    bool interlaced;             /* not progressive */
    bool bottom_first;           /* of the two fields, where the driver does not say it */
    uint32_t aspect_x, aspect_y; /* of a pixel; 1/1 if unknown */
    bool digital;                /* timings hold what was detected */
    struct v4l2_dv_timings timings;
    v4l2_std_id standard; /* of an analogue input; 0: it has none */
};

/* What the driver detects. Nothing is set. */
void gpud_input_detect(const struct gpud_v4l2 *node, struct gpud_input *signal);

/* The number of the input that the user means, by number or name; GPUD_INVALID: *error has what
 * there is. */
enum gpud_status gpud_input_find(const struct gpud_v4l2 *node, const char *wanted, int *number,
                                 struct gpud_error *error);

/* Whether the card is set to another signal than this one, and setting it: no buffers may exist.
 * Not being able to is no error: the card then goes on as it is. */
bool gpud_input_is_set(const struct gpud_v4l2 *node, const struct gpud_input *signal);
void gpud_input_set(const struct gpud_v4l2 *node, const struct gpud_input *signal);

/* V4L2's fields as a scan; GPUD_SCAN_ANY: no frame can be that. A card that delivers only top or
 * only bottom fields makes progressive pictures of half the height. */
enum gpud_scan gpud_scan_of_field(uint32_t field);
uint32_t gpud_field_of_scan(enum gpud_scan scan);

/* The aspect of a pixel where the card scales the signal's picture to this format's size. */
void gpud_input_aspect(const struct gpud_input *signal, const struct gpud_v4l2_format *format,
                       uint32_t *x, uint32_t *y);

/* Subscribes to the driver's event for changes of the signal. False: it has none. */
bool gpud_input_subscribe(const struct gpud_v4l2 *node);
/* Takes pending events; true: there were some. */
bool gpud_input_take_events(const struct gpud_v4l2 *node);

#endif
