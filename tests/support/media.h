/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Media for tests. */
#ifndef GPUD_TESTS_MEDIA_H
#define GPUD_TESTS_MEDIA_H

#include <gpudirect/media.h>

/* A picture of which only the layout is known. */
#define PICTURE(pointer) (&(struct gpud_media){.picture = {.layout = *(pointer)}})

/* One that says something else, too. */
#define PICTURE_AT(pointer, rate_num) \
    (&(struct gpud_media){.picture = {.layout = *(pointer), .rate = {rate_num, 1}}})

/* Bytes of the largest frame; 0: the media is not valid. */
static inline uint64_t media_size(const struct gpud_media *media)
{
    struct gpud_layout layout;
    return gpud_media_get_layout(media, &layout, NULL) == GPUD_OK ? layout.size : 0;
}

/* What tells one media of a test from another: pictures a second, or bytes a frame. */
static inline uint64_t media_value(const struct gpud_media *media)
{
    return media->kind == GPUD_MEDIA_PICTURE ? media->picture.rate.num : media_size(media);
}

#endif
