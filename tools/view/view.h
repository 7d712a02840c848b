/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect-view: what its files share. */
#ifndef GPUD_VIEW_VIEW_H
#define GPUD_VIEW_VIEW_H

#include "gstpicture.h"
#include <glib.h>
#include <gpudirect/gpudirect.h>
#include <stdbool.h>

/* === source ================================================================================== */
/* The channel: a receiver that never makes its sender wait, and takes the newest frame. */

struct source_options {
    const char *address, *access, *psk_file; /* the last two may be NULL */
};

struct source {
    struct gpud_context *context;
    struct gpud_receiver *receiver;
    struct gpud_media media; /* of the frames that follow */
    uint32_t formats;        /* changes with media */
    char device[32];         /* where the sender has its frames */
    uint64_t frames;         /* received */
    uint64_t skipped;        /* of these, the ones with a newer one behind them */
};

/* False: error says why not, and there is nothing to close. */
bool source_open(struct source *source, const struct source_options *options,
                 struct gpud_error *error);
void source_close(struct source *source);

/* As gpud_receiver_acquire(), and leaves no newer frame behind. */
enum gpud_status source_acquire(struct source *source, int64_t timeout_ns,
                                struct gpud_frame **frame, struct gpud_error *error);

/* === pngfile ================================================================================= */
/* A frame as a PNG file, with the stream's own size and 8 bits a sample. */

/* exclusive: an existing file is left alone, and error->native is EEXIST. False: error says why no
 * file was written. */
bool png_write(struct picture *picture, GstVideoFrame *mapped, const char *file, bool exclusive,
               struct gpud_error *error);

/* === screenshot ============================================================================== */
/* A frame as a new PNG file in the current folder, named after the channel and the time. */

/* What became of it, as a sentence to be freed with g_free(). */
char *screenshot_take(struct picture *picture, GstVideoFrame *mapped, const char *address);

/* === stages ================================================================================== */
/* Where the time goes from the start of the program to the first picture in its window. */

/* Each is noted when it ends, in this order. */
enum stage {
    STAGE_PROCESS,   /* loaded, with its libraries */
    STAGE_GSTREAMER, /* initialised */
    STAGE_RECEIVER,  /* made */
    STAGE_DISPLAY,   /* connected to */
    STAGE_WINDOW,    /* open */
    STAGE_RENDERER,  /* made: the display's driver */
    STAGE_FONT,      /* found */
    STAGE_FRAME,     /* the first one is here */
    STAGE_PICTURE,   /* it is shown */
    STAGES
};

/* Notes the first time that a stage ends. */
void stages_end(enum stage stage);

/* === headless ================================================================================ */
/* The channel's next frame as a PNG file, without a display. */

/* GPUD_TIMEOUT: no frame came in time; error says why. */
enum gpud_status headless_save(struct source *source, const char *file, int64_t timeout_ns,
                               struct gpud_error *error);

/* === window ================================================================================== */
/* Shows the channel in a window until that is closed. */

struct window_options {
    const char *address;
    bool full_screen;
    bool one_picture;    /* quit when it is shown */
    int64_t patience_ns; /* how long to wait for the first picture; negative: without an end */
};

/* False: error says why there is no window, or, with GPUD_TIMEOUT, no picture in time. */
bool window_run(struct source *source, const struct window_options *options,
                struct gpud_error *error);

#endif
