/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* AMD's GPUs as GStreamer's HIP elements know them, from 1.28 on.
 *
 * A GstHipMemory belongs to a GstHipDevice, and what elements do to it, they put on that device's
 * stream. An element that works on the same stream waits for nothing; another one waits, on the
 * CPU, for the event that the memory has. So a frame is ordered on its memory's stream as soon as
 * it is there, and an event behind that is left with the memory. HIP has one context a GPU, so that
 * several GstHipDevices of one GPU differ in nothing but their streams.
 *
 * The library wraps no pointers. What it allocates for a slot is as small as it makes one; the
 * slot's own bytes are shown by the methods of our allocator, as to GstHipAllocator's own. The one
 * function that would look past these is gst_hip_memory_get_texture(), which makes textures of what
 * was allocated. It does not where the memory's device has no textures, and callers then use the
 * mapped pointer. So slots belong to a GstHipDevice that says so: see hip_memory_device(). */
#ifndef GPUD_GST_MEMORY_HIP_HIP_H
#define GPUD_GST_MEMORY_HIP_HIP_H

#include "memory/gpuslot.h"
#include "memory/gpuvendor.h"
#include "memory/pool.h"

#include <gst/hip/gsthip.h>

/* --- what the vendor's entry (vendor.c) is made of ------------------------------------------ */

extern const struct slot_kind hip_slot_kind;                        /* memory.c */
GstBufferPool *hip_new_pool(const struct slot_pool_params *params); /* pool.c */

/* frame.c */
gboolean hip_look_into(GstMemory *memory, gint *ordinal, const GstVideoInfo **info);
gboolean hip_await_writes(GstMemory *memory, const struct gpu *gpu, gpointer *stream);

/* memory.c */
gpointer hip_get_stream(GstMemory *memory);
void hip_set_pending(GstMemory *memory);
gboolean hip_enter(const struct gpu *gpu);
void hip_leave(const struct gpu *gpu);
void hip_finish(const struct gpu *gpu, gpointer stream);
gboolean hip_copy_rows(const struct gpu *gpu, gpointer stream, const struct gpu_rows *rows);

/* --- devices (device.c) --------------------------------------------------------------------- */

/* The device that a GPU's slots belong to: the same GPU and stream as those of `device`, without
 * textures. It lives as long as that one, which is never freed. */
GstHipDevice *hip_memory_device(GstHipDevice *device);

#endif
