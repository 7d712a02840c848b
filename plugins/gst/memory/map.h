/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Maps slots for the CPU. */
#ifndef GPUD_GST_MEMORY_MAP_H
#define GPUD_GST_MEMORY_MAP_H

#include "memory/slot.h"

/* Maps the frame for the CPU. NULL: it cannot, and the log says why. */
void *slot_memory_map(struct slot_memory *slot, GstMapFlags flags);
/* TRUE: what was written is being copied to the device. */
gboolean slot_memory_unmap(struct slot_memory *slot);

/* Map and unmap methods for allocators of any class whose slots the CPU maps. */
gpointer slot_memory_map_full(GstMemory *memory, GstMapInfo *info, gsize maxsize);
void slot_memory_unmap_full(GstMemory *memory, GstMapInfo *info);

enum slot_use {
    SLOT_FREE,    /* it can be submitted */
    SLOT_READ,    /* a branch of a tee has it mapped: the device copies it, by slot_memory_wrap() */
    SLOT_WRITTEN, /* it is mapped for writing: the mapped bytes are copied */
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
