/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* memory/gpu.h in a build without GStreamer's CUDA library: no caps of CUDA memory are offered, so
 * that nothing below gpu_get() is ever reached. `device=cuda:N` works all the same: it is the
 * core's. */
#include "memory/gpu.h"

#include <string.h>

const gchar gpu_template_caps[] = "";

gboolean gpu_supported(void)
{
    return FALSE;
}

struct gpu *gpu_get(gint ordinal, struct gpud_error *error)
{
    *error = (struct gpud_error){.status = GPUD_UNSUPPORTED};
    g_strlcpy(error->reason,
              "this plugin was built without GStreamer's CUDA library: install "
              "libgstreamer-plugins-bad1.0-dev and build it again",
              sizeof(error->reason));
    return NULL;
}

gchar *gpu_get_place(gint ordinal)
{
    return NULL;
}

gint gpu_of_place(const gchar *place)
{
    return -1;
}

void gpu_take_context(GstElement *element, GstContext *context, GstObject **given)
{
}

gint gpu_find(GstElement *element, GstPad *pad, GstObject **given)
{
    return 0;
}

gboolean gpu_answer_query(GstElement *element, GstQuery *query, gint ordinal, GstObject **given)
{
    return FALSE;
}

void gpu_align_info(struct gpu *gpu, GstVideoInfo *info)
{
}

const struct slot_kind *gpu_slot_kind(void)
{
    return &plain_slot_kind;
}

GstBufferPool *gpu_pool_new(const struct slot_pool_params *params)
{
    return NULL;
}

struct slot_pool *gpu_pool_get_slots(GstBufferPool *pool)
{
    return NULL;
}

struct gpud_frame *gpu_wrap_buffer(GstBuffer *buffer, struct tally *tally, struct gpud_error *error)
{
    gpu_get(0, error);
    return NULL;
}

gboolean gpu_copy_picture(const GstVideoInfo *info, GstBuffer *from, GstBuffer *to)
{
    return FALSE;
}
