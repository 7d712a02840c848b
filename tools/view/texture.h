/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A stream's pictures as a texture. Formats that SDL has are handed to the renderer's driver as
 * they lie in the frame; the others are converted, straight into what SDL uploads. */
#ifndef GPUD_VIEW_TEXTURE_H
#define GPUD_VIEW_TEXTURE_H

#include "gstpicture.h"

#include <SDL.h>

struct texture {
    SDL_Texture *texture;     /* NULL: none */
    GstVideoFormat converted; /* UNKNOWN: not converted */
};

/* False: error says why there can be no texture, and there is nothing to finish. */
bool texture_init(struct texture *texture, SDL_Renderer *renderer, const struct picture *picture,
                  struct gpud_error *error);
void texture_finish(struct texture *texture);

/* The frame may be given back when this returns. */
bool texture_update(struct texture *texture, struct picture *picture, GstVideoFrame *mapped,
                    struct gpud_error *error);

#endif
