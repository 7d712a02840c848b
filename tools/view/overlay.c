/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "overlay.h"

#include <fontconfig/fontconfig.h>
#include <glib.h>
#include <stdio.h>

#define FONT "DejaVu Sans Mono"
#define MARGIN 8

static TTF_Font *open_font(void)
{
    TTF_Font *font = NULL;
    FcResult result;
    FcChar8 *file;
    FcPattern *wanted = FcNameParse((const FcChar8 *)FONT);
    FcConfigSubstitute(NULL, wanted, FcMatchPattern);
    FcDefaultSubstitute(wanted);
    FcPattern *match = FcFontMatch(NULL, wanted, &result);
    if (match && FcPatternGetString(match, FC_FILE, 0, &file) == FcResultMatch)
        font = TTF_OpenFont((const char *)file, 14);
    if (match)
        FcPatternDestroy(match);
    FcPatternDestroy(wanted);
    return font;
}

void overlay_init(struct overlay *overlay)
{
    *overlay = (struct overlay){0};
    if (TTF_Init() == 0)
        overlay->font = open_font();
    if (!overlay->font)
        fprintf(stderr, "gpudirect-view: no font for the overlay (Debian: apt install "
                        "fonts-dejavu-core): the title bar says what it would\n");
}

void overlay_forget(struct overlay *overlay)
{
    if (overlay->texture)
        SDL_DestroyTexture(overlay->texture);
    overlay->texture = NULL;
    g_clear_pointer(&overlay->text, g_free);
}

void overlay_finish(struct overlay *overlay)
{
    overlay_forget(overlay);
    if (overlay->font)
        TTF_CloseFont(overlay->font);
    if (TTF_WasInit())
        TTF_Quit();
}

static void render(struct overlay *overlay, SDL_Renderer *renderer, const char *text, int wrap,
                   int size)
{
    overlay_forget(overlay);
    if (overlay->size != size)
        TTF_SetFontSize(overlay->font, size);
    SDL_Surface *surface = TTF_RenderUTF8_Blended_Wrapped(
        overlay->font, text, (SDL_Color){255, 255, 255, 255}, (Uint32)wrap);
    overlay->texture = surface ? SDL_CreateTextureFromSurface(renderer, surface) : NULL;
    SDL_FreeSurface(surface);
    overlay->text = g_strdup(text);
    overlay->wrap = wrap;
    overlay->size = size;
}

void overlay_draw(struct overlay *overlay, SDL_Renderer *renderer, const char *text, int width,
                  int size)
{
    SDL_Rect box = {.x = MARGIN, .y = MARGIN};
    int wrap = MAX(width - 4 * MARGIN, 10 * size);
    if (!overlay->font || !text[0])
        return;
    if (wrap != overlay->wrap || size != overlay->size || g_strcmp0(text, overlay->text) != 0)
        render(overlay, renderer, text, wrap, size);
    if (!overlay->texture || SDL_QueryTexture(overlay->texture, NULL, NULL, &box.w, &box.h) != 0)
        return;
    SDL_Rect back = {box.x, box.y, box.w + 2 * MARGIN, box.h + 2 * MARGIN};
    SDL_SetRenderDrawBlendMode(renderer, SDL_BLENDMODE_BLEND);
    SDL_SetRenderDrawColor(renderer, 0, 0, 0, 160);
    SDL_RenderFillRect(renderer, &back);
    box.x += MARGIN;
    box.y += MARGIN;
    SDL_RenderCopy(renderer, overlay->texture, NULL, &box);
}
