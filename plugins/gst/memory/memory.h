/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The slots of one pool as GstMemory objects, reused for the next frame in the same slot. */
#ifndef GPUD_GST_MEMORY_MEMORY_H
#define GPUD_GST_MEMORY_MEMORY_H

#include "memory/slot.h"

extern const struct slot_kind plain_slot_kind;

/* info describes the frames; sender is NULL for frames of a receiver, whose memory is read-only.
 * host: the sender's slots are in host memory. */
struct slot_store_params {
    const struct slot_kind *kind;
    const GstVideoInfo *info;
    struct gpu *gpu;
    struct shared_sender *sender;
    guint epoch;
    gboolean host;
    struct outstanding *outstanding;
    struct counters *counters;
};
struct slot_store *slot_store_new(const struct slot_store_params *params);
struct slot_store *slot_store_ref(struct slot_store *store);
void slot_store_unref(struct slot_store *store);

/* From now on (until it is opened again) memories are freed with their last reference. */
void slot_store_close(struct slot_store *store);
void slot_store_open(struct slot_store *store);

/* Attaches the frame to its slot's idle memory, or to a new one. Takes the frame, and releases it
 * on failure (NULL), which is logged. */
GstMemory *slot_store_wrap(struct slot_store *store, struct gpud_frame *frame);

/* Memory of the store's kind and format, on its GPU, that is not a slot. After its last reference
 * it is kept for the next call, so that GPU memory is not allocated per frame. NULL: out of memory,
 * which is logged. */
GstMemory *slot_store_get_extra(struct slot_store *store);

/* Puts another frame of the same slot into a memory that has no other owner. Takes the frame. */
void slot_memory_attach(struct slot_memory *slot, struct gpud_frame *frame);

/* Takes the frame out of a memory that has no other owner. */
struct gpud_frame *slot_memory_detach(struct slot_memory *slot);

/* The slot gets a new user, which need not preserve its content. */
void slot_memory_forget(struct slot_memory *slot);

/* Releases a frame and counts it as returned. */
void slot_store_give_back(struct slot_store *store, struct gpud_frame *frame);

#endif
