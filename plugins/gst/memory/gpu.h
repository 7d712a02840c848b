/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GPUs as the elements see them: caps whose memory is a GPU's, contexts that the elements of a
 * pipeline share, pools of such memory.
 *
 * What is special about a vendor's memory lies in a folder of its own, beside this file, behind a
 * struct gpu_vendor. A vendor whose library in GStreamer was not there when the plugin was built is
 * not in the list; its devices can be used all the same, as the core's, with memory of the CPU.
 *
 * The core works in one context of a GPU, the vendor's primary one. The elements give just that to
 * whoever asks for the vendor's context, so that all of a pipeline works in it and no two contexts
 * have to be kept in step. Where an application or another element brought a context of its own,
 * pointers are still good (one address space for the whole process), but such an element takes no
 * pool of ours: each picture then costs one copy by the GPU. */
#ifndef GPUD_GST_MEMORY_GPU_H
#define GPUD_GST_MEMORY_GPU_H

#include "memory/memory.h"

#include <gst/gst.h>
#include <gst/video/video.h>

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
     * ours or another element's. FALSE: it is none. */
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

#define GPU_VENDORS_MAX 4
extern const struct gpu_vendor *const gpu_vendors[GPU_VENDORS_MAX + 1]; /* NULL behind the last */

/* --- caps --------------------------------------------------------------------------------- */

/* Whose memory pictures of these caps lie in, by the first of them; NULL: the CPU's. */
const struct gpu_vendor *gpu_vendor_of_caps(const GstCaps *caps);

/* Any video in memory of the CPU or of a vendor in the list. */
GstCaps *gpu_template_caps(void);

/* The caps in memory of this vendor. NULL: they are of single fields, which GStreamer does not put
 * into memory of GPUs. */
GstCaps *gpu_caps_in_memory(const GstCaps *caps, const struct gpu_vendor *vendor);

/* What an element may do with GPUs, by its property `device`. */
enum gpu_use {
    GPU_USE_NONE,  /* another device was named, or there is no GPU that GStreamer can use */
    GPU_USE_NAMED, /* one was named */
    GPU_USE_ANY,   /* by what the neighbours have */
};

/* *number: of the GPU that was named and can be used, else -1. */
enum gpu_use gpu_use_of_device(const gchar *device, gint *number);

/* Caps without memory that is of no use; with this vendor's memory before all other. Both take the
 * caps. */
GstCaps *gpu_filter_caps(GstCaps *caps, enum gpu_use use, gint number);
GstCaps *gpu_put_first(GstCaps *caps, const struct gpu_vendor *vendor);

/* --- GPUs --------------------------------------------------------------------------------- */

/* A number for each GPU of all vendors, by the core's name of it; -1: it is none of theirs. */
gint gpu_of_name(const gchar *device);

/* The other way round; g_free it. */
gchar *gpu_get_name(gint number);
const struct gpu_vendor *gpu_get_vendor(gint number); /* NULL for -1 */

struct gpu *gpu_get(gint number, struct gpud_error *error);

/* A GPU's PCI address, which means the same to every process, however it counts GPUs; g_free it.
 * NULL: it is not known. And the other way round: the number of the GPU there, or -1. */
gchar *gpu_get_pci(gint number);
gint gpu_of_pci(const gchar *pci);

/* Strides and offsets that the GPU's elements can use without a copy: one aligned stride for all
 * planes. */
void gpu_align_info(const struct gpu *gpu, GstVideoInfo *info);

/* --- pictures (gpuframe.c, gpuslot.c) ------------------------------------------------------- */

/* A frame over a buffer's own memory, which another of the vendor's elements allocated and from
 * which the core copies; it holds the buffer until that is done, and is ordered after the work that
 * the GPU still has to do for the buffer. NULL: *error says why that cannot be. */
struct gpud_frame *gpu_wrap_buffer(const struct gpu_vendor *vendor, GstBuffer *buffer,
                                   struct counters *counters, struct gpud_error *error);

/* Puts a copy of a picture, from one slot or extra memory to another, on the GPU's queue. */
gboolean gpu_copy_picture(const GstVideoInfo *info, GstBuffer *from, GstBuffer *to);

/* --- contexts ----------------------------------------------------------------------------- */

/* What the application or the pipeline gave to an element, by vendor; under its object lock. */
struct gpu_contexts {
    GstObject *given[GPU_VENDORS_MAX];
};
void gpu_contexts_clear(struct gpu_contexts *contexts);

/* For GstElement's set_context. */
void gpu_take_context(GstElement *element, GstContext *context, struct gpu_contexts *contexts);

/* The GPU that the pipeline already works on: by the context that was given, by that of the
 * neighbour on this pad, or by that of the application; else the one that the core takes of the
 * vendor's for the element's address (which may be NULL): the nearest, or the first. *reason says
 * why that one (g_free it). */
gint gpu_find(const struct gpu_vendor *vendor, GstElement *element, GstPad *pad,
              struct gpu_contexts *contexts, const gchar *address, gchar **reason);

/* Answers a GST_QUERY_CONTEXT for a vendor's context. use, number: as of gpu_use_of_device();
 * opened_on: the GPU that the element works on, or -1. FALSE: it asks for something else. */
gboolean gpu_answer_query(GstElement *element, GstQuery *query, enum gpu_use use, gint number,
                          gint opened_on, struct gpu_contexts *contexts);

#endif
