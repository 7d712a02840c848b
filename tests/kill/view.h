/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a receiver sees, frame by frame: I1, I2, I3; on a GPU every second frame by work on a stream
 * alone, and then nothing looks at its bytes. */
#ifndef GPUD_TESTS_KILL_VIEW_H
#define GPUD_TESTS_KILL_VIEW_H

#include "support/gpu.h"
#include <gpudirect/gpudirect.h>

/* Bytes of the smallest frame: what a stream reads of each. */
#define VIEW_FRAME_MIN ((size_t)128 * 2 * 91)

struct view {
    struct gpu *gpu; /* NULL: no GPU of our own */
    bool all_by_stream;
    bool linked;                /* frames came since the last end of a link */
    uint64_t sequence, dropped; /* of the last frame of this link */
    uint64_t frames, corrupted;
    uint64_t number;         /* of the last picture */
    struct gpud_frame *held; /* one, kept longer, also over a death */
    char wrong[256];         /* the first thing that must not be; "": none */
};

/* Takes the frame over. */
void view_take(struct view *view, struct gpud_frame *frame);

/* The link ended: the next frame is another link's. */
void view_end_link(struct view *view);

/* Lets go of what it holds, having looked at it once more. */
void view_finish(struct view *view);

#endif
