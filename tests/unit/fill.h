/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Texts, layouts and media in which every byte is significant. */
#ifndef GPUD_TESTS_FILL_H
#define GPUD_TESTS_FILL_H

#include <gpudirect/media.h>

static void fill_text(char *text, size_t size, char first)
{
    for (size_t i = 0; i + 1 < size; i++)
        text[i] = (char)(first + (char)(i % 10));
    text[size - 1] = '\0';
}

static void fill_layout(struct gpud_layout *layout)
{
    fill_text(layout->format, sizeof(layout->format), 'A');
    layout->width = 1366;
    layout->height = 767;
    layout->planes = 4;
    for (unsigned i = 0; i < 4; i++)
        layout->plane[i] =
            (struct gpud_plane){UINT64_MAX - i, UINT32_MAX - i, 0x01020304u + i, 767 + i};
    layout->size = UINT64_C(0xfedcba9876543210);
    layout->modifier = UINT64_C(0x0123456789abcdef);
}

/* Every member of a picture, each with a different number. */
static void fill_media(struct gpud_media *media)
{
    struct gpud_picture *picture = &media->picture;
    media->kind = GPUD_MEDIA_PICTURE;
    fill_layout(&picture->layout);
    picture->rate = (struct gpud_fraction){INT32_MAX, INT32_MAX - 1};
    picture->max_rate = (struct gpud_fraction){INT32_MAX - 2, INT32_MAX - 3};
    picture->pixel_aspect = (struct gpud_fraction){INT32_MAX - 4, INT32_MAX - 5};
    picture->scan = GPUD_SCAN_FIELDS;
    picture->field_order = GPUD_FIELD_ORDER_BOTTOM_FIRST;
    picture->picture_height = 2 * GPUD_DIMENSION_MAX;
    picture->colorimetry = (struct gpud_colorimetry){
        .primaries = GPUD_PRIMARIES_EBU3213,
        .transfer = GPUD_TRANSFER_GAMMA20,
        .matrix = GPUD_MATRIX_RGB,
        .range = GPUD_RANGE_LIMITED,
        .chroma_site = GPUD_CHROMA_DV,
    };
    picture->hdr = (struct gpud_hdr_metadata){
        .has_display = true,
        .has_light_level = true,
        .display_x = {UINT16_MAX, UINT16_MAX - 1, UINT16_MAX - 2},
        .display_y = {UINT16_MAX - 3, UINT16_MAX - 4, UINT16_MAX - 5},
        .white_x = UINT16_MAX - 6,
        .white_y = UINT16_MAX - 7,
        .max_luminance = UINT32_MAX,
        .min_luminance = UINT32_MAX - 1,
        .max_content_light = UINT16_MAX - 8,
        .max_frame_average_light = UINT16_MAX - 9,
    };
    picture->multiview = GPUD_MULTIVIEW_SEPARATED;
    picture->multiview_flags = UINT32_MAX - 2;
    picture->multiview_flags_mask = UINT32_MAX - 3;
    picture->views = INT32_MAX;
    fill_text(media->extra, sizeof(media->extra), 'k');
}

#endif
