/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "pngfile.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <png.h>
#include <stdio.h>

static bool fail(struct gpud_error *error, const char *file, const char *why, int code)
{
    *error = (struct gpud_error){.status = GPUD_IO, .native = code, .origin = "errno"};
    g_snprintf(error->reason, sizeof(error->reason), "%s cannot be written: %s", file, why);
    return false;
}

static bool write_image(png_image *image, const void *pixels, const char *file, bool exclusive,
                        struct gpud_error *error)
{
    FILE *stream = fopen(file, exclusive ? "wbx" : "wb");
    if (!stream)
        return fail(error, file, g_strerror(errno), errno);
    errno = 0;
    bool written = png_image_write_to_stdio(image, stream, false, pixels, 0, NULL);
    int code = written ? 0 : errno;
    if (fclose(stream) != 0 && code == 0)
        code = errno;
    if (written && code == 0)
        return true;
    GStatBuf kind;
    if (g_lstat(file, &kind) == 0 && S_ISREG(kind.st_mode))
        g_remove(file); /* half a picture */
    return fail(error, file, code ? g_strerror(code) : image->message, code);
}

bool png_write(struct picture *picture, GstVideoFrame *mapped, const char *file, bool exclusive,
               struct gpud_error *error)
{
    const GstVideoInfo *info = &picture->info;
    bool alpha = GST_VIDEO_INFO_HAS_ALPHA(info);
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)info->width,
                       .height = (png_uint_32)info->height,
                       .format = alpha ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB};
    size_t stride = (size_t)info->width * (alpha ? 4 : 3);
    void *pixels = g_try_malloc_n((size_t)info->height, stride);
    if (!pixels)
        return fail(error, file, "there is not enough memory", ENOMEM);
    bool written =
        picture_convert(picture, mapped, alpha ? GST_VIDEO_FORMAT_RGBA : GST_VIDEO_FORMAT_RGB, 0, 0,
                        pixels, (int)stride, error) &&
        write_image(&image, pixels, file, exclusive, error);
    g_free(pixels);
    png_image_free(&image);
    return written;
}
