/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GstBuffer's flags in the application's bits of a frame's flags. */
#include "wire/flags.h"

#include <gpudirect/frame.h>
#include <gst/video/video.h>

#define BIT(n) ((uint32_t)GPUD_FRAME_USER << (n))

/* Flags that describe the picture; LIVE, DECODE_ONLY, SYNC_AFTER and TAG_MEMORY are about this
 * process. */
static const struct {
    uint32_t frame;
    guint buffer;
} table[] = {
    {GPUD_FRAME_CORRUPTED, GST_BUFFER_FLAG_CORRUPTED},
    {GPUD_FRAME_DISCONTINUITY, GST_BUFFER_FLAG_DISCONT},
    {BIT(0), GST_BUFFER_FLAG_RESYNC},
    {BIT(1), GST_BUFFER_FLAG_MARKER},
    {BIT(2), GST_BUFFER_FLAG_HEADER},
    {BIT(3), GST_BUFFER_FLAG_GAP},
    {BIT(4), GST_BUFFER_FLAG_DROPPABLE},
    {BIT(5), GST_BUFFER_FLAG_DELTA_UNIT},
    {BIT(6), GST_BUFFER_FLAG_NON_DROPPABLE},
    {BIT(7), GST_VIDEO_BUFFER_FLAG_INTERLACED},
    {BIT(8), GST_VIDEO_BUFFER_FLAG_TFF},
    {BIT(9), GST_VIDEO_BUFFER_FLAG_RFF},
    {BIT(10), GST_VIDEO_BUFFER_FLAG_ONEFIELD},
    {BIT(11), GST_VIDEO_BUFFER_FLAG_MULTIPLE_VIEW},
    {BIT(12), GST_VIDEO_BUFFER_FLAG_FIRST_IN_BUNDLE},
};

uint32_t frame_flags_from_buffer(GstBuffer *buffer)
{
    guint flags = GST_BUFFER_FLAGS(buffer);
    uint32_t out = 0;

    for (guint i = 0; i < G_N_ELEMENTS(table); i++)
        if (flags & table[i].buffer)
            out |= table[i].frame;
    return out;
}

void frame_flags_to_buffer(uint32_t flags, GstBuffer *buffer)
{
    for (guint i = 0; flags && i < G_N_ELEMENTS(table); i++) {
        if (flags & table[i].frame)
            GST_BUFFER_FLAG_SET(buffer, table[i].buffer);
        flags &= ~table[i].frame;
    }
}
