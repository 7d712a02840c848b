/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "media.h"

#include <stdlib.h>

struct media *media_new(const struct gpud_media *media)
{
    struct media *made = calloc(1, sizeof(*made));
    if (!made)
        return NULL;
    atomic_init(&made->refs, 1);
    made->media = *media;
    if (gpud_media_to_string(media, made->text, sizeof(made->text), NULL) != GPUD_OK)
        made->text[0] = '\0';
    return made;
}

struct media *media_ref(struct media *media)
{
    atomic_fetch_add_explicit(&media->refs, 1, memory_order_relaxed);
    return media;
}

void media_unref(struct media *media)
{
    if (media && atomic_fetch_sub_explicit(&media->refs, 1, memory_order_acq_rel) == 1)
        free(media);
}
