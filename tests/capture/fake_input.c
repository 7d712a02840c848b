/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the fake driver says of its input and signal. */
#include "fake_input.h"

#include <errno.h>
#include <string.h>

/* The metadata of a display with the primaries of BT.2020; a card without it has no controls. */
int fake_get_controls(const struct fake_driver *driver, struct v4l2_ext_controls *raw)
{
    static const struct v4l2_ctrl_hdr10_cll_info light = {1000, 400};
    static const struct v4l2_ctrl_hdr10_mastering_display display = {
        {8500, 6550, 35400}, {39850, 2300, 14600}, 15635, 16450, 10000000, 50};
    struct v4l2_ext_control *control = raw->controls;
    bool one = control->id == V4L2_CID_COLORIMETRY_HDR10_CLL_INFO;
    if (raw->count != 1 || !driver->has_hdr ||
        (!one && control->id != V4L2_CID_COLORIMETRY_HDR10_MASTERING_DISPLAY))
        return EINVAL;
    if (control->size < (one ? sizeof(light) : sizeof(display)))
        return ENOSPC;
    if (one)
        memcpy(control->ptr, &light, sizeof(light));
    else
        memcpy(control->ptr, &display, sizeof(display));
    return 0;
}
