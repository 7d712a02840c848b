/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where the time goes from the start of the program to the first picture in its window. */
#ifndef GPUD_VIEW_STAGES_H
#define GPUD_VIEW_STAGES_H

#include <stdbool.h>

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

/* Writes what was noted to standard output, for stages_measure(). */
void stages_write(void);

/* Starts the program with these arguments several times, and prints the medians. Returns the exit
 * status. */
int stages_measure(const char *const *arguments);

#endif
