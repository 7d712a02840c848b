/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A text on a dark box in the window's corner. */
#ifndef GPUD_VIEW_OVERLAY_H
#define GPUD_VIEW_OVERLAY_H

#include <SDL.h>
#include <SDL_ttf.h>

struct overlay {
    TTF_Font *font; /* NULL: no font was found, and nothing is drawn */
    SDL_Texture *texture;
    char *text; /* that the texture shows */
    int wrap, size;
};

void overlay_init(struct overlay *overlay);
void overlay_finish(struct overlay *overlay);

/* The renderer has lost its textures. */
void overlay_forget(struct overlay *overlay);

/* Draws a text, of lines that are broken where the window ends; "" draws nothing. */
void overlay_draw(struct overlay *overlay, SDL_Renderer *renderer, const char *text, int width,
                  int size);

#endif
