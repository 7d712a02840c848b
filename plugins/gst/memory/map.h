/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How the CPU sees a slot. */
#ifndef GPUD_GST_MEMORY_MAP_H
#define GPUD_GST_MEMORY_MAP_H

#include "memory/slot.h"

/* Shows the frame to the CPU. NULL: it cannot be, and the log says why. */
void *slot_memory_map(struct slot_memory *slot, GstMapFlags flags);
/* TRUE: what was written is on its way to the device. */
gboolean slot_memory_unmap(struct slot_memory *slot);

/* What an allocator does with slots that the CPU maps, of whichever class. */
gpointer slot_memory_map_full(GstMemory *memory, GstMapInfo *info, gsize maxsize);
void slot_memory_unmap_full(GstMemory *memory, GstMapInfo *info);

enum slot_use {
    SLOT_FREE,    /* nothing is in the way of the submit */
    SLOT_READ,    /* a branch of a tee has it mapped: the device copies it, by slot_memory_wrap() */
    SLOT_WRITTEN, /* it is mapped for writing: what is in the map is copied */
};

/* Before the slot's frame is submitted, with this info. SLOT_FREE: the memory is read-only from now
 * on, and may be mapped during the submit, too. shared: others may have the memory. Does not wait.
 */
enum slot_use slot_memory_begin_submit(struct slot_memory *slot, gboolean shared,
                                       const struct gpud_frame_info *info);

/* gpud_frame_wrap_frame() over the slot's frame; NULL: *error says why not. */
struct gpud_frame *slot_memory_wrap(struct slot_memory *slot, const struct gpud_layout *layout,
                                    void (*released)(void *user), void *user,
                                    struct gpud_error *error);

#endif
