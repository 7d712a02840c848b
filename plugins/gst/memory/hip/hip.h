/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* AMD's GPUs as GStreamer's HIP elements use them, from 1.28 on.
 *
 * A GstHipMemory belongs to a GstHipDevice, and elements use it on that device's stream. An element
 * on the same stream need not wait; another waits, on the CPU, for the memory's event. So a frame
 * is ordered on its memory's stream as soon as it is attached, and an event behind that is stored
 * in the memory. HIP has one context per GPU, so several GstHipDevices of a GPU differ only in
 * their streams.
 *
 * The library cannot wrap pointers. It allocates the smallest memory possible for a slot, and our
 * allocator's map methods return the slot's own bytes. Only gst_hip_memory_get_texture() bypasses
 * these: it makes textures of the allocated memory, unless the memory's device has none, and then
 * callers use the mapped pointer. So slots belong to such a GstHipDevice: see hip_memory_device().
 */
#ifndef GPUD_MEMORY_HIP_HIP_H
#define GPUD_MEMORY_HIP_HIP_H

#include "memory/memory.h"
#include <gst/hip/gsthip.h>

/* --- the parts of the vendor's entry (vendor.c) ---------------------------------------------- */

extern const struct slot_kind hip_slot_kind; /* memory.c */

/* memory.c */
gboolean hip_look_into(GstMemory *memory, gint *ordinal, const GstVideoInfo **info);
gboolean hip_await_writes(GstMemory *memory, const struct gpu *gpu, gpointer *stream);

/* memory.c */
gpointer hip_get_stream(GstMemory *memory);
void hip_set_pending(GstMemory *memory);
gboolean hip_enter(const struct gpu *gpu);
void hip_leave(const struct gpu *gpu);
void hip_finish(const struct gpu *gpu, gpointer stream);
gboolean hip_copy_rows(const struct gpu *gpu, gpointer stream, const struct gpu_rows *rows);

/* --- devices (vendor.c) --------------------------------------------------------------------- */

/* The device of a GPU's slots: the GPU and stream of `device`, without textures. It lives as long
 * as `device`, which is never freed. */
GstHipDevice *hip_memory_device(GstHipDevice *device);

#endif
