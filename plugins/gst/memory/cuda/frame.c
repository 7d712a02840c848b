/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Any element's GstCudaMemory and GstCudaContext. */
#include "memory/cuda/cuda.h"

gint cuda_get_ordinal(GstObject *context)
{
    guint ordinal = 0;

    g_object_get(context, "cuda-device-id", &ordinal, NULL);
    return (gint)ordinal;
}

gboolean cuda_look_into(GstMemory *memory, gint *ordinal, const GstVideoInfo **info)
{
    if (!gst_is_cuda_memory(memory))
        return FALSE;
    *ordinal = cuda_get_ordinal(GST_OBJECT(GST_CUDA_MEMORY_CAST(memory)->context));
    *info = &GST_CUDA_MEMORY_CAST(memory)->info;
    return TRUE;
}
