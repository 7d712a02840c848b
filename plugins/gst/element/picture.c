/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "element/picture.h"

enum picture_copied picture_copy(const GstVideoInfo *info, GstBuffer *from, GstBuffer *to,
                                 struct counters *counters)
{
    enum picture_copied result = PICTURE_UNWRITABLE;
    GstVideoFrame source, target;

    if (!gst_video_frame_map(&source, info, from, GST_MAP_READ))
        return PICTURE_UNREADABLE;
    if (gst_video_frame_map(&target, info, to,
                            GST_MAP_WRITE | (GstMapFlags)GST_VIDEO_FRAME_MAP_FLAG_NO_REF)) {
        if (gst_video_frame_copy(&target, &source))
            result = PICTURE_COPIED;
        gst_video_frame_unmap(&target);
    }
    gst_video_frame_unmap(&source);
    if (result == PICTURE_COPIED)
        counter_add(&counters->copies_cpu);
    return result;
}
