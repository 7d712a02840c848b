/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "texture.h"

static const struct {
    GstVideoFormat video;
    Uint32 sdl;
} formats[] = {
    {GST_VIDEO_FORMAT_I420, SDL_PIXELFORMAT_IYUV},
    {GST_VIDEO_FORMAT_YV12, SDL_PIXELFORMAT_YV12},
    {GST_VIDEO_FORMAT_NV12, SDL_PIXELFORMAT_NV12},
    {GST_VIDEO_FORMAT_NV21, SDL_PIXELFORMAT_NV21},
    {GST_VIDEO_FORMAT_YUY2, SDL_PIXELFORMAT_YUY2},
    {GST_VIDEO_FORMAT_UYVY, SDL_PIXELFORMAT_UYVY},
    {GST_VIDEO_FORMAT_YVYU, SDL_PIXELFORMAT_YVYU},
    {GST_VIDEO_FORMAT_RGBA, SDL_PIXELFORMAT_RGBA32},
    {GST_VIDEO_FORMAT_RGBx, SDL_PIXELFORMAT_RGBA32},
    {GST_VIDEO_FORMAT_BGRA, SDL_PIXELFORMAT_BGRA32},
    {GST_VIDEO_FORMAT_BGRx, SDL_PIXELFORMAT_BGRA32},
    {GST_VIDEO_FORMAT_ARGB, SDL_PIXELFORMAT_ARGB32},
    {GST_VIDEO_FORMAT_xRGB, SDL_PIXELFORMAT_ARGB32},
    {GST_VIDEO_FORMAT_ABGR, SDL_PIXELFORMAT_ABGR32},
    {GST_VIDEO_FORMAT_xBGR, SDL_PIXELFORMAT_ABGR32},
    {GST_VIDEO_FORMAT_RGB, SDL_PIXELFORMAT_RGB24},
    {GST_VIDEO_FORMAT_BGR, SDL_PIXELFORMAT_BGR24},
};

static bool fail(struct gpud_error *error, const char *what)
{
    *error = (struct gpud_error){.status = GPUD_UNSUPPORTED};
    g_snprintf(error->reason, sizeof(error->reason), "%s: %s", what, SDL_GetError());
    return false;
}

/* SDL has a mode for each of the matrices that its shaders know. */
static bool find_mode(const GstVideoInfo *info, SDL_YUV_CONVERSION_MODE *mode)
{
    GstVideoColorimetry color = info->colorimetry;
    bool full = color.range == GST_VIDEO_COLOR_RANGE_0_255;
    if (color.matrix == GST_VIDEO_COLOR_MATRIX_BT601)
        *mode = full ? SDL_YUV_CONVERSION_JPEG : SDL_YUV_CONVERSION_BT601;
    else if (color.matrix == GST_VIDEO_COLOR_MATRIX_BT709 && !full)
        *mode = SDL_YUV_CONVERSION_BT709;
    else
        return false;
    return true;
}

/* SDL's name of the frames' format; UNKNOWN: they have to be converted. */
static Uint32 find_format(const GstVideoInfo *info, SDL_YUV_CONVERSION_MODE *mode)
{
    bool yuv = GST_VIDEO_INFO_IS_YUV(info);
    /* SDL's own code for such sizes reads beyond the end of a row. */
    if (yuv && (info->width % 2 || info->height % 2 || !find_mode(info, mode)))
        return SDL_PIXELFORMAT_UNKNOWN;
    if (GST_VIDEO_INFO_IS_INTERLACED(info) && GST_VIDEO_INFO_N_PLANES(info) > 1)
        return SDL_PIXELFORMAT_UNKNOWN; /* rows of chroma belong to one field each */
    for (size_t i = 0; i < G_N_ELEMENTS(formats); i++)
        if (formats[i].video == GST_VIDEO_INFO_FORMAT(info))
            return formats[i].sdl;
    return SDL_PIXELFORMAT_UNKNOWN;
}

bool texture_init(struct texture *texture, SDL_Renderer *renderer, const struct picture *picture,
                  struct gpud_error *error)
{
    const GstVideoInfo *info = &picture->info;
    bool alpha = GST_VIDEO_INFO_HAS_ALPHA(info);
    SDL_YUV_CONVERSION_MODE mode = SDL_YUV_CONVERSION_AUTOMATIC;
    Uint32 format = find_format(info, &mode);
    *texture = (struct texture){.converted = GST_VIDEO_FORMAT_UNKNOWN};
    if (format == SDL_PIXELFORMAT_UNKNOWN) {
        texture->converted = alpha ? GST_VIDEO_FORMAT_BGRA : GST_VIDEO_FORMAT_BGRx;
        format = SDL_PIXELFORMAT_BGRA32;
    }
    SDL_SetYUVConversionMode(mode);
    texture->texture =
        SDL_CreateTexture(renderer, format, SDL_TEXTUREACCESS_STREAMING, info->width, info->height);
    if (!texture->texture)
        return fail(error, "the display cannot show pictures of this size");
    SDL_SetTextureBlendMode(texture->texture, alpha ? SDL_BLENDMODE_BLEND : SDL_BLENDMODE_NONE);
    SDL_SetTextureScaleMode(texture->texture, SDL_ScaleModeLinear);
    return true;
}

void texture_finish(struct texture *texture)
{
    if (texture->texture)
        SDL_DestroyTexture(texture->texture);
    texture->texture = NULL;
}

static bool upload(SDL_Texture *texture, const GstVideoFrame *mapped)
{
    const GstVideoInfo *info = &mapped->info;
    const Uint8 *plane[3] = {NULL};
    int stride[3] = {0};
    for (guint i = 0; i < MIN(3, GST_VIDEO_INFO_N_PLANES(info)); i++) {
        plane[i] = GST_VIDEO_FRAME_PLANE_DATA(mapped, i);
        stride[i] = GST_VIDEO_FRAME_PLANE_STRIDE(mapped, i);
    }
    switch (GST_VIDEO_INFO_FORMAT(info)) {
    case GST_VIDEO_FORMAT_I420:
        return SDL_UpdateYUVTexture(texture, NULL, plane[0], stride[0], plane[1], stride[1],
                                    plane[2], stride[2]) == 0;
    case GST_VIDEO_FORMAT_YV12: /* its planes in memory are Y, V, U */
        return SDL_UpdateYUVTexture(texture, NULL, plane[0], stride[0], plane[2], stride[2],
                                    plane[1], stride[1]) == 0;
    case GST_VIDEO_FORMAT_NV12:
    case GST_VIDEO_FORMAT_NV21:
        return SDL_UpdateNVTexture(texture, NULL, plane[0], stride[0], plane[1], stride[1]) == 0;
    default:
        return SDL_UpdateTexture(texture, NULL, plane[0], stride[0]) == 0;
    }
}

bool texture_update(struct texture *texture, struct picture *picture, GstVideoFrame *mapped,
                    struct gpud_error *error)
{
    void *pixels;
    int stride;
    if (texture->converted == GST_VIDEO_FORMAT_UNKNOWN)
        return upload(texture->texture, mapped) || fail(error, "the picture was not shown");
    if (SDL_LockTexture(texture->texture, NULL, &pixels, &stride) != 0)
        return fail(error, "the picture was not shown");
    bool converted =
        picture_convert(picture, mapped, texture->converted, 0, 0, pixels, stride, error);
    SDL_UnlockTexture(texture->texture);
    return converted;
}
