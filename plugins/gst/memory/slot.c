/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "memory/slot.h"

static GQuark slot_quark(void)
{
    static GQuark quark;

    if (!quark)
        quark = g_quark_from_static_string("GpudirectSlot");
    return quark;
}

void slot_memory_bind(GstMemory *memory, struct slot_memory *slot, GDestroyNotify destroy)
{
    gst_mini_object_set_qdata(GST_MINI_OBJECT_CAST(memory), slot_quark(), slot, destroy);
}

struct slot_memory *slot_memory_of(GstMemory *memory)
{
    if (memory->parent)
        memory = memory->parent;
    return gst_mini_object_get_qdata(GST_MINI_OBJECT_CAST(memory), slot_quark());
}

struct slot_memory *slot_memory_of_buffer(GstBuffer *buffer)
{
    if (gst_buffer_n_memory(buffer) != 1)
        return NULL;
    GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
    struct slot_memory *slot = memory->parent ? NULL : slot_memory_of(memory);
    if (!slot || memory->offset != 0 || memory->size != slot->size)
        return NULL;
    return slot->extra ? NULL : slot;
}
