/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The slots of one pool as GstMemory: kept, and used again for the next frame in the same slot. */
#ifndef GPUD_GST_MEMORY_MEMORY_H
#define GPUD_GST_MEMORY_MEMORY_H

#include "memory/slot.h"

extern const struct slot_kind plain_slot_kind;

/* info says what the frames hold; sender is NULL where frames come from a receiver, and their
 * memory is read-only then. host: the sender's slots lie in host memory. */
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

/* The memory for the frame's slot, with the frame in it: the idle one or a new one. Takes the
 * frame, which goes back where there is no such memory to be had (NULL), as the log says. */
GstMemory *slot_store_wrap(struct slot_store *store, struct gpud_frame *frame);

/* Memory of the store's kind and shape, on its GPU, that is no slot. When its last reference goes
 * it is kept for the next call, so that a GPU's memory is not allocated for each frame. NULL: there
 * is none left, as the log says. */
GstMemory *slot_store_get_extra(struct slot_store *store);

/* Puts another frame of the same slot into a memory that has no other owner. Takes the frame. */
void slot_memory_attach(struct slot_memory *slot, struct gpud_frame *frame);

/* Takes the frame out of a memory that has no other owner. */
struct gpud_frame *slot_memory_detach(struct slot_memory *slot);

/* It gets a new user: what is in it need not be kept when the next one writes to it. */
void slot_memory_forget(struct slot_memory *slot);

/* Gives a frame back and counts it as such. */
void slot_store_give_back(struct slot_store *store, struct gpud_frame *frame);

#endif
