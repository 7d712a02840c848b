/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a stream's pictures are in GStreamer's terms, and their conversion by its converter, which
 * knows every raw format and colorimetry. No pipeline is made. */
#ifndef GPUD_TOOLS_GSTPICTURE_H
#define GPUD_TOOLS_GSTPICTURE_H

#include <gpudirect/gpudirect.h>
#include <gst/video/video.h>

struct picture {
    GstVideoInfo info; /* of a frame, which is a field where fields come alone */
    double aspect;     /* width by height, as it is to be shown */
    bool quick;        /* may be set: converted by nearest pixels, in the calling thread alone */
    GstVideoInfo converted;
    GstVideoConverter *converter; /* to that; NULL: none yet */
};

/* Once, before all others. No element is used. */
void picture_start(void);

/* False: error says why these frames cannot be shown, and there is nothing to finish. */
bool picture_init(struct picture *picture, const struct gpud_media *media,
                  struct gpud_error *error);
void picture_finish(struct picture *picture);

/* Maps a frame of the stream for reading. The frame must stay until picture_unmap(). */
bool picture_map(const struct picture *picture, struct gpud_frame *frame, GstVideoFrame *mapped,
                 struct gpud_error *error);
void picture_unmap(struct gpud_frame *frame, GstVideoFrame *mapped);

/* Converts a mapped frame to a format of R, G and B in one plane; with a height of 0, to the same
 * size. */
bool picture_convert(struct picture *picture, GstVideoFrame *mapped, GstVideoFormat format,
                     int width, int height, void *pixels, int stride, struct gpud_error *error);

#endif
