/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Blocks of sound and data, and the buffers that hold them. Each is copied, so that downstream may
 * keep as many as it likes without a slot of the ring. */
#ifndef GPUD_GST_SRC_BLOCKS_H
#define GPUD_GST_SRC_BLOCKS_H

#include "base/counters.h"

#include <gpudirect/gpudirect.h>
#include <gst/audio/audio.h>

/* The streaming thread's. */
struct blocks {
    gboolean expected;  /* the stream is one of blocks */
    gboolean are_sound; /* and info is theirs */
    GstAudioInfo info;
};

/* Sets the format of the frames that follow. FALSE: it is that of pictures. */
gboolean blocks_set_format(struct blocks *blocks, const struct gpud_media *media, GstCaps *caps);

/* Copies a frame, which stays the caller's, into a new buffer, without the first `skip` samples.
 * allocator: NULL for the default one. GPUD_PEER: its bytes never came. */
enum gpud_status blocks_copy(const struct blocks *blocks, struct gpud_frame *frame, guint skip,
                             GstAllocator *allocator, struct counters *counters, GstBuffer **buffer,
                             struct gpud_error *error);

/* The times of what is left of a block. */
void blocks_skip(const struct blocks *blocks, guint skip, struct gpud_frame_info *info);

/* Adds what follows from the number of samples. */
void blocks_describe(const struct blocks *blocks, GstBuffer *buffer);

#endif
