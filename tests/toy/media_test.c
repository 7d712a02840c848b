/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The toy's kind of media as text, and its limits. Its frames go through the routes by the toy's
 * run of the suite of the routes. */
#include "frame/media/media.h"
#include "support/check.h"
#include "support/media.h"

int main(void)
{
    struct gpud_media media, again;
    struct gpud_layout layout;
    char text[GPUD_MEDIA_TEXT_MAX];
    WORKS(gpud_media_from_string(&media, "toy/x-points, points=(int)100", &e));
    CHECK_EQUAL(media.kind, GPUD_MEDIA_DATA + 1);
    CHECK_EQUAL(media_size(&media), 1600);
    WORKS(gpud_media_get_layout(&media, &layout, &e));
    CHECK(strcmp(layout.format, "points") == 0 && layout.planes == 1, "the layout");
    WORKS(gpud_media_to_string(&media, text, sizeof(text), &e));
    CHECK(strcmp(text, "toy/x-points, points=(guint64)100") == 0, "\"%s\"", text);
    WORKS(gpud_media_from_string(&again, text, &e));
    CHECK(gpud_media_equal(&media, &again), "\"%s\" is read as another media", text);

    media.data.max_size = 0;
    EXPECT(GPUD_INVALID, "a cloud without points", gpud_media_check(&media, &e));
    media.data.max_size = (1 << 20) + 1;
    EXPECT(GPUD_INVALID, "where there is no such value", gpud_media_check(&media, &e));
    media.kind = GPUD_MEDIA_DATA + 2;
    EXPECT(GPUD_INVALID, "no kind of media", gpud_media_check(&media, &e));
    WORKS(gpud_media_from_string(&media, "meta/x-klv, max-size=(int)10", &e));
    CHECK_EQUAL(media.kind, GPUD_MEDIA_DATA);
    return 0;
}
