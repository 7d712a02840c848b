/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A slot as memory of a GPU: the code that all vendors' kinds of memory share.
 *
 * A map with the vendor's flag returns the device pointer, after making the users' stream wait for
 * the bytes; the CPU does not wait. A map without it goes through the core to the CPU. When the
 * frame is passed on, its next owner waits for that stream. A buffer that is never mapped costs
 * nothing. */
#ifndef GPUD_GST_MEMORY_GPUSLOT_H
#define GPUD_GST_MEMORY_GPUSLOT_H

#include "memory/gpuvendor.h"
#include "memory/slot.h"

/* Of struct slot_kind; a vendor adds new_allocator() and new_memory(). */
void gpu_slot_arrived(struct slot_memory *slot);
void gpu_slot_leaving(struct slot_memory *slot);

/* Replaces the methods that the vendor's own class of allocators has set; the vendor does it with
 * free() where that is not the right one. */
void gpu_slot_init_allocator(GstAllocator *allocator);

/* For new_memory(): the frame's bytes on the device, and their layout. */
gpointer gpu_slot_pointer(struct gpud_frame *frame);
GstVideoInfo gpu_slot_info(const struct slot_store *store, const struct gpud_layout *layout,
                           const struct video_planes *planes);

/* Enqueues a copy of a picture, from one slot or extra memory to another, on the GPU. */
gboolean gpu_copy_picture(const GstVideoInfo *info, GstBuffer *from, GstBuffer *to);

#endif
