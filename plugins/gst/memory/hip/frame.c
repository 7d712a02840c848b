/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Any element's GstHipMemory. */
#include "memory/hip/hip.h"

/* HIP can use NVIDIA's GPUs through CUDA, but the core has no HIP devices for those. */
gboolean hip_look_into(GstMemory *memory, gint *ordinal, const GstVideoInfo **info)
{
    if (!gst_is_hip_memory(memory))
        return FALSE;
    GstHipDevice *device = GST_HIP_MEMORY_CAST(memory)->device;
    if (gst_hip_device_get_vendor(device) != GST_HIP_VENDOR_AMD)
        return FALSE;
    *ordinal = (gint)gst_hip_device_get_device_id(device);
    *info = &GST_HIP_MEMORY_CAST(memory)->info;
    return TRUE;
}

/* The writer used the memory's stream, or has waited until it was done. */
gboolean hip_await_writes(GstMemory *memory, const struct gpu *gpu, gpointer *stream)
{
    *stream = hip_get_stream(memory);
    return FALSE;
}
