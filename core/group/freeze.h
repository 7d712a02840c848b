/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Notices a frozen picture: one whose contents have been the same for a while, though its times go
 * on. A hash over a part of each row is compared, so that a change in the rest alone is not seen,
 * and a picture of any size costs no more than a small one. */
#ifndef GPUD_GROUP_FREEZE_H
#define GPUD_GROUP_FREEZE_H

#include <gpudirect/frame.h>

struct gpud_device;

/* Zeroed: no picture yet. */
struct gpud_freeze {
    bool begun;
    uint64_t hash;
    uint64_t since; /* the time of the first picture with that hash */
};

/* GPUD_UNSUPPORTED: pictures on this device cannot be compared, and why. */
enum gpud_status gpud_freeze_check_device(const struct gpud_device *device,
                                          struct gpud_error *error);

/* Notes the next frame. true: its contents have been the same for so long, by the frames' times.
 * false for what is no picture, or no longer host memory. */
bool gpud_freeze_note(struct gpud_freeze *freeze, struct gpud_frame *frame, uint64_t time,
                      int64_t timeout);

#endif
