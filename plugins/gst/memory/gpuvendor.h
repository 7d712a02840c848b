/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One GPU, and what is special about its vendor's memory in GStreamer. */
#ifndef GPUD_GST_MEMORY_GPUVENDOR_H
#define GPUD_GST_MEMORY_GPUVENDOR_H

#include <gpudirect/device.h>
#include <gst/gst.h>
#include <gst/video/video.h>

struct slot_kind;
struct slot_pool_params;

/* One GPU; lives until the process ends, as the core's context does. */
struct gpu {
    const struct gpu_vendor *vendor;
    gint number;  /* see gpu_of_name() */
    gint ordinal; /* among the vendor's */
    struct gpud_device *device;
    GstObject
        *context; /* the vendor's elements know the GPU by it; it wraps the core's own context */
};

/* So many bytes of each of so many rows, from one place on a GPU to another. */
struct gpu_rows {
    gpointer from, to;
    gsize from_stride, to_stride, bytes, rows;
};

/* A vendor fills all of it. */
struct gpu_vendor {
    const gchar *feature;      /* of caps: "memory:CUDAMemory" */
    const gchar *prefix;       /* of the core's names of devices: "cuda:" */
    const gchar *context_type; /* of the GstContext that the vendor's elements share */

    /* For messages: the memory, whose GPUs these are, what is missing where there is none, and the
     * elements that bring a picture to the GPU and to the CPU. */
    const gchar *memory, *maker, *driver, *upload, *download;

    const struct slot_kind
        *slot_kind; /* a slot as such memory: two ops of its own, see gpuslot.h */

    /* Whether the driver is there; asked often. */
    gboolean (*is_available)(void);

    /* For struct gpu, whose other members are filled. NULL: *error says why not. */
    GstObject *(*wrap_context)(const struct gpu *gpu, struct gpud_error *error);

    /* Contexts as the vendor's own elements handle them: the object in a GstContext, or NULL where
     * it is not one of the vendor's; the GPU that it is for; the answer to a GST_QUERY_CONTEXT. */
    GstObject *(*read_context)(GstElement *element, GstContext *context);
    gint (*get_ordinal)(GstObject *context);
    gboolean (*answer_query)(GstElement *element, GstQuery *query, GstObject *context);

    /* What strides are multiples of, so that the vendor's elements need no copy. */
    gint (*get_stride_align)(const struct gpu *gpu);

    /* A pool that the vendor's elements take: slot_pool_init() made its inside. */
    GstBufferPool *(*new_pool)(const struct slot_pool_params *params);

    GstMapFlags map_flag; /* with it the vendor's elements map memory for the GPU */

    /* Whether a frame must be ordered as soon as it is put into a memory, because elements use the
     * memory's stream without mapping it; else it is done when an element maps it. */
    gboolean orders_early;

    /* The GPU that such a memory is on, as the core counts the vendor's, and how its planes lie;
     * ours or another element's. FALSE: it is other memory. */
    gboolean (*look_into)(GstMemory *memory, gint *ordinal, const GstVideoInfo **info);

    /* The stream on which everybody who uses a slot's memory is ordered, as the core takes it. */
    gpointer (*get_stream)(GstMemory *memory);

    /* To be called when work that writes to a slot's memory was put on that stream. */
    void (*set_pending)(GstMemory *memory);

    /* Work that is put on *stream (of our context) afterwards sees what another element wrote into
     * its memory. TRUE: the CPU had to wait for that. */
    gboolean (*await_writes)(GstMemory *memory, const struct gpu *gpu, gpointer *stream);

    /* Makes the GPU the one that the calling thread works on, and the one before that again. */
    gboolean (*enter)(const struct gpu *gpu);
    void (*leave)(const struct gpu *gpu);

    /* Between these: waits, on the CPU, for all that is on the stream; puts a copy there. */
    void (*finish)(const struct gpu *gpu, gpointer stream);
    gboolean (*copy_rows)(const struct gpu *gpu, gpointer stream, const struct gpu_rows *rows);
};

#endif
