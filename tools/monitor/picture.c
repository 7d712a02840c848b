/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GStreamer's converter reads every format that it has a name for, and libjpeg-turbo encodes. */
#include "monitor/picture.h"

#include "gstpicture.h"

#include <turbojpeg.h>

#define WIDTH 320
#define HEIGHT_MAX 320
#define STRIDE (3 * WIDTH) /* of RGB */
#define QUALITY 80

static void free_jpeg(gpointer data)
{
    tjFree(data);
}

static GBytes *compress(const guint8 *pixels, int height)
{
    unsigned char *jpeg = NULL;
    unsigned long size = 0;
    GBytes *bytes = NULL;
    tjhandle compressor = tjInitCompress();
    if (compressor && tjCompress2(compressor, pixels, WIDTH, STRIDE, height, TJPF_RGB, &jpeg, &size,
                                  TJSAMP_420, QUALITY, 0) == 0)
        bytes = g_bytes_new_with_free_func(jpeg, size, free_jpeg, jpeg);
    if (compressor)
        tjDestroy(compressor);
    return bytes;
}

static GBytes *encode(struct picture *picture, struct gpud_frame *frame,
                      struct monitor_content *content, struct gpud_error *error)
{
    GstVideoFrame mapped;
    int height = (int)CLAMP(WIDTH / picture->aspect, 16, HEIGHT_MAX);
    if (!picture_map(picture, frame, &mapped, error))
        return NULL;
    guint8 *pixels = g_malloc((gsize)height * STRIDE);
    bool converted = picture_convert(picture, &mapped, GST_VIDEO_FORMAT_RGB, WIDTH, height, pixels,
                                     STRIDE, error);
    picture_unmap(frame, &mapped);
    if (converted)
        monitor_content_look(content, pixels, (gsize)height * STRIDE);
    GBytes *bytes = converted ? compress(pixels, height) : NULL;
    if (converted && !bytes) {
        error->status = GPUD_UNSUPPORTED;
        g_strlcpy(error->reason, "the picture cannot be encoded as JPEG", sizeof(error->reason));
    }
    g_free(pixels);
    return bytes;
}

GBytes *monitor_picture_encode(struct gpud_frame *frame, const struct gpud_media *media,
                               struct monitor_content *content, struct gpud_error *error)
{
    struct picture picture;
    struct gpud_media plain = *media;
    /* Both fields at once: rows are left out, none is moved in time. */
    if (plain.kind == GPUD_MEDIA_PICTURE && plain.picture.scan != GPUD_SCAN_ALTERNATE)
        plain.picture.scan = GPUD_SCAN_PROGRESSIVE;
    if (!picture_init(&picture, &plain, error))
        return NULL;
    picture.quick = true;
    GBytes *bytes = encode(&picture, frame, content, error);
    picture_finish(&picture);
    return bytes;
}
