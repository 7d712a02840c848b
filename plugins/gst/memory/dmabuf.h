/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_MEMORY_DMABUF_H
#define GPUD_GST_MEMORY_DMABUF_H

#include "memory/slot.h"

/* GstMemory with a dma-buf, which other drivers write or read. */
extern const struct slot_kind dmabuf_slot_kind;

/* Whether a frame's memory has a dma-buf that begins with the frame; *error says why not. */
gboolean dmabuf_is_in_frame(struct gpud_frame *frame, struct gpud_error *error);

/* Whether a dma-buf can be made of the host's memory; *error says why not. */
gboolean dmabuf_can_be_made(struct gpud_error *error);

/* Whether one of the buffer's memories is a dma-buf. */
gboolean dmabuf_is_in_buffer(GstBuffer *buffer);

/* Waits for the work of other drivers on a dma-buf: for their writes, so that it can be read, or
 * (reads_too) for all of it, so that it can be written. FALSE: it took longer. */
gboolean dmabuf_wait(gint fd, gboolean reads_too, gint64 timeout_ns);

/* Waits for the writes to all of the buffer's dma-bufs. */
gboolean dmabuf_wait_for_buffer(GstBuffer *buffer, gint64 timeout_ns);

#endif
