/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GPUs as the elements see them: caps whose memory is a GPU's, contexts that the elements of a
 * pipeline share, pools of such memory.
 *
 * The code for a vendor's memory is in its own folder, behind a struct gpu_vendor. A vendor whose
 * GStreamer library was missing when the plugin was built is not in the list; its devices still
 * work through the core, with memory of the CPU.
 *
 * The core works in one context of a GPU, the vendor's primary one. The elements share it with all
 * elements that query for the vendor's context, so that the pipeline needs no synchronisation
 * between contexts. If an application or another element uses its own context, pointers are still
 * valid (the process has one address space), but such an element accepts no pool of ours: each
 * picture then costs one copy by the GPU. */
#ifndef GPUD_GST_MEMORY_GPU_H
#define GPUD_GST_MEMORY_GPU_H

#include "memory/vendors.h"

/* --- caps --------------------------------------------------------------------------------- */

/* The vendor of the memory in the first of these caps; NULL: the CPU's. */
const struct gpu_vendor *gpu_vendor_of_caps(const GstCaps *caps);

/* Any video in memory of the CPU, of a vendor in the list, or, last, in dma-bufs. */
GstCaps *gpu_template_caps(void);

/* The caps in this vendor's memory. NULL: they are of single fields, which GStreamer does not
 * support in GPU memory. */
GstCaps *gpu_caps_in_memory(const GstCaps *caps, const struct gpu_vendor *vendor);

/* Which GPUs an element may use, by its property `device`. */
enum gpu_use {
    GPU_USE_NONE,  /* another device was named, or there is no GPU that GStreamer can use */
    GPU_USE_NAMED, /* the one that was named */
    GPU_USE_ANY,   /* whichever the neighbours use */
};

/* *number: that of a named, usable GPU, else -1. */
enum gpu_use gpu_use_of_device(const gchar *device, gint *number);

/* filter: drops caps in memory that cannot be used. prefer: puts this vendor's memory first. Both
 * take the caps. */
GstCaps *gpu_filter_caps(GstCaps *caps, enum gpu_use use, gint number);
GstCaps *gpu_put_first(GstCaps *caps, const struct gpu_vendor *vendor);

/* --- GPUs --------------------------------------------------------------------------------- */

/* A number for each GPU of all vendors, by the core's name of it; -1: another device. */
gint gpu_of_name(const gchar *device);

/* The other way round; g_free it. */
gchar *gpu_get_name(gint number);
const struct gpu_vendor *gpu_get_vendor(gint number); /* NULL for -1 */

struct gpu *gpu_get(gint number, struct gpud_error *error);

/* A GPU's PCI address, which means the same to every process, however it counts GPUs; g_free it.
 * NULL: it is not known. And the other way round: the number of the GPU there, or -1. */
gint gpu_of_pci(const gchar *pci);

/* Strides and offsets that the GPU's elements can use without a copy: one aligned stride for all
 * planes. */
void gpu_align_info(const struct gpu *gpu, GstVideoInfo *info);

/* --- contexts ----------------------------------------------------------------------------- */

/* The contexts set on an element, by vendor; under its object lock. */
struct gpu_contexts {
    GstObject *given[GPU_VENDORS_MAX];
};
void gpu_contexts_clear(struct gpu_contexts *contexts);

/* For GstElement's set_context. */
void gpu_take_context(GstElement *element, GstContext *context, struct gpu_contexts *contexts);

/* The GPU that the pipeline works on: that of the context set on the element, of the neighbour on
 * this pad, or of the application; else the core's choice among the vendor's for the element's
 * address (which may be NULL): the nearest, or the first. *reason says why (g_free it). */
gint gpu_find(const struct gpu_vendor *vendor, GstElement *element, GstPad *pad,
              struct gpu_contexts *contexts, const gchar *address, gchar **reason);

/* Answers a GST_QUERY_CONTEXT for a vendor's context. use, number: from gpu_use_of_device();
 * opened_on: the GPU that the element works on, or -1. FALSE: it asks for something else. */
gboolean gpu_answer_query(GstElement *element, GstQuery *query, enum gpu_use use, gint number,
                          gint opened_on, struct gpu_contexts *contexts);

#endif
