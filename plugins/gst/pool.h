/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Buffers that are slots. One class for both ends:
 *   - lending (gpudirectsink proposes it): acquiring a buffer takes a slot from the sender; when
 * there is none to be had, plain memory of the same shape stands in, and costs a copy later
 *   - wrapping (gpudirectsrc keeps it): each frame that arrived is put into a buffer
 * The buffer, its GstMemory and its GstVideoMeta are kept for each slot and used again. */
#ifndef GPUD_GST_POOL_H
#define GPUD_GST_POOL_H

#include "lender.h"
#include "memory.h"

#define GST_TYPE_GPUDIRECT_POOL (gst_gpudirect_pool_get_type())
G_DECLARE_FINAL_TYPE(GstGpudirectPool, gst_gpudirect_pool, GST, GPUDIRECT_POOL, GstBufferPool)

GstBufferPool *gst_gpudirect_pool_new_lending(struct lender *lender, const GstVideoInfo *info);
GstBufferPool *gst_gpudirect_pool_new_wrapping(const GstVideoInfo *info);

/* A buffer around the frame, which is consumed. The pool must be active. */
GstFlowReturn gst_gpudirect_pool_wrap(GstBufferPool *pool, struct gpud_frame *frame,
                                      GstBuffer **buffer);

/* The slots of a wrapping pool that are out. */
struct ledger *gst_gpudirect_pool_ledger(GstBufferPool *pool);

#endif
