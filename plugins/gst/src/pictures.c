/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "src/pictures.h"

#include "base/picture.h"
#include "memory/gpuslot.h"
#include "wire/caps.h"

/* How long downstream has to release a slot before it gets a copy instead. */
#define HOARD_TIMEOUT (20 * G_TIME_SPAN_MILLISECOND)

static void drop_pool(struct pictures *pictures)
{
    if (pictures->pool)
        gst_buffer_pool_set_active(pictures->pool, FALSE);
    gst_clear_object(&pictures->pool);
}

gboolean pictures_set_format(struct pictures *pictures, GstCaps *caps,
                             const struct gpud_layout *layout)
{
    struct video_planes planes;

    if (!video_info_from_caps(&pictures->info, caps))
        return FALSE;
    layout_to_planes(layout, &pictures->info, &planes);
    pictures->is_default = planes_are_default(&planes, &pictures->info);
    drop_pool(pictures);
    struct slot_pool_params params = {
        .info = &pictures->info, .gpu = pictures->gpu, .counters = pictures->counters};
    GstBufferPool *pool = gst_gpudirect_pool_new(&params, caps);
    if (!pool || !gst_buffer_pool_set_active(pool, TRUE)) {
        gst_clear_object(&pool);
        return FALSE;
    }
    pictures->pool = pool;
    pictures->outstanding = gst_gpudirect_pool_outstanding(pool);
    pictures->epoch = 0;
    pictures->layout = *layout;
    return TRUE;
}

void pictures_reset(struct pictures *pictures)
{
    drop_pool(pictures);
    pictures->gpu = NULL;
}

GstFlowReturn pictures_alloc(struct pictures *pictures, GstBuffer **buffer)
{
    if (!pictures->gpu)
        return GST_BASE_SRC_GET_CLASS(pictures->src)
            ->alloc(pictures->src, 0, (guint)pictures->info.size, buffer);
    *buffer = gst_gpudirect_pool_stand_in(pictures->pool);
    return *buffer ? GST_FLOW_OK : GST_FLOW_ERROR;
}

GstFlowReturn pictures_copy(struct pictures *pictures, GstBuffer *slot, GstBuffer **buffer)
{
    GstFlowReturn flow = pictures_alloc(pictures, buffer);

    if (flow != GST_FLOW_OK)
        return flow;
    if (pictures->gpu
            ? gpu_copy_picture(&pictures->info, slot, *buffer)
            : picture_copy(&pictures->info, slot, *buffer, pictures->counters) == PICTURE_COPIED)
        return GST_FLOW_OK;
    gst_clear_buffer(buffer);
    return GST_FLOW_ERROR;
}

gboolean pictures_need_copy(struct pictures *pictures, guint slots, gboolean any_memory)
{
    gint limit = MAX(1, (gint)slots - 1);

    /* Elements that asked for a GPU's memory read its strides; those that accept any may not. */
    if ((!pictures->gpu || any_memory) && !pictures->is_default && !pictures->reads_strides)
        return TRUE;
    return outstanding_count(pictures->outstanding) >= limit &&
           !outstanding_wait_below(pictures->outstanding, limit, HOARD_TIMEOUT);
}
