/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What frames are: shared by the frames of one epoch. */
#ifndef GPUDIRECT_PYTHON_MEDIA_H
#define GPUDIRECT_PYTHON_MEDIA_H

#include <gpudirect/media.h>

#include <stdatomic.h>

struct media {
    atomic_uint refs;
    struct gpud_media media;
    char text[GPUD_MEDIA_TEXT_MAX]; /* in the syntax of caps */
};

/* NULL: out of memory. Any thread, without the GIL. */
struct media *media_new(const struct gpud_media *media);
struct media *media_ref(struct media *media);
void media_unref(struct media *media);

#endif
