/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Streams that are no pictures: blocks of sound, ancillary data, or other data. */
#ifndef GPUD_GST_WIRE_BLOCKS_H
#define GPUD_GST_WIRE_BLOCKS_H

#include <gpudirect/media.h>
#include <gst/audio/audio.h>

/* Their caps; the caller unrefs them. */
GstCaps *blocks_template_caps(void);

static inline gboolean blocks_are_sound(const struct gpud_media *media)
{
    return media->kind == GPUD_MEDIA_AUDIO;
}

/* Whether an address is that of a stream of a channel: NAME/STREAM, the path of its socket, or
 * rdma://HOST:PORT/NAME/STREAM. */
gboolean blocks_is_stream(const gchar *address);

/* Whether the caps are those of blocks. */
gboolean blocks_are_caps(const GstCaps *caps);

/* Removes the caps of pictures if these others are caps of blocks, else those of blocks. Takes
 * `caps`. */
GstCaps *blocks_keep_like(GstCaps *caps, const GstCaps *others);

/* Whether the elements support the blocks of a peer. A type of its choice would become a name that
 * GLib keeps. */
gboolean blocks_are_known(const struct gpud_media *media);

/* From the core's caps to GStreamer's: without the size that only the core knows. FALSE: GStreamer
 * knows no such sound. */
gboolean blocks_complete_caps(const struct gpud_media *media, GstCaps *caps);

/* Where the samples of a buffer lie: how many there are of a channel, and the offset of each plane.
 * FALSE: the buffer does not hold whole samples of these caps. */
gboolean blocks_find_samples(const GstAudioInfo *info, GstBuffer *buffer, gsize *samples,
                             gsize offsets[GPUD_AUDIO_CHANNELS_MAX]);

#endif
