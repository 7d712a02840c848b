/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One GPU, and the operations of its vendor's memory in GStreamer. */
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
        *context; /* identifies the GPU to the vendor's elements; wraps the core's own context */
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

    /* For messages: the memory, the GPUs' maker, the driver that may be missing, and the elements
     * that copy a picture to the GPU and to the CPU. */
    const gchar *memory, *maker, *driver, *upload, *download;

    const struct slot_kind
        *slot_kind; /* a slot as such memory: two ops of its own, see gpuslot.h */

    /* Whether the driver is available; called often. */
    gboolean (*is_available)(void);

    /* For struct gpu, whose other members are filled. NULL: *error says why not. */
    GstObject *(*wrap_context)(const struct gpu *gpu, struct gpud_error *error);

    /* The vendor's contexts: the object in a GstContext, or NULL if it is another vendor's; its
     * GPU; the answer to a GST_QUERY_CONTEXT. */
    GstObject *(*read_context)(GstElement *element, GstContext *context);
    gint (*get_ordinal)(GstObject *context);
    gboolean (*answer_query)(GstElement *element, GstQuery *query, GstObject *context);

    /* Strides that are multiples of this need no copy by the vendor's elements. */
    gint (*get_stride_align)(const struct gpu *gpu);

    /* A pool that the vendor's elements accept, with a slot_pool_init() inside. */
    GstBufferPool *(*new_pool)(const struct slot_pool_params *params);

    GstMapFlags map_flag; /* the vendor's flag to map memory for the GPU */

    /* Whether a frame must be ordered as soon as it is attached to a memory, because elements use
     * the memory's stream without mapping it; if not, it is ordered when an element maps it. */
    gboolean orders_early;

    /* The ordinal of the GPU of such a memory (ours or another element's), and the layout of its
     * planes. FALSE: it is other memory. */
    gboolean (*look_into)(GstMemory *memory, gint *ordinal, const GstVideoInfo **info);

    /* The stream on which all users of a slot's memory are ordered, as the core's handle. */
    gpointer (*get_stream)(GstMemory *memory);

    /* Called after work that writes to a slot's memory was enqueued on that stream. */
    void (*set_pending)(GstMemory *memory);

    /* Orders *stream (of our context) after another element's writes to its memory. TRUE: the CPU
     * had to wait for them. */
    gboolean (*await_writes)(GstMemory *memory, const struct gpu *gpu, gpointer *stream);

    /* Makes the GPU current in the calling thread, and restores the previous one. */
    gboolean (*enter)(const struct gpu *gpu);
    void (*leave)(const struct gpu *gpu);

    /* Between these: waits on the CPU for the stream; enqueues a copy on it. */
    void (*finish)(const struct gpu *gpu, gpointer stream);
    gboolean (*copy_rows)(const struct gpu *gpu, gpointer stream, const struct gpu_rows *rows);
};

#endif
