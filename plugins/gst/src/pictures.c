/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "src/pictures.h"

#include "element/picture.h"
#include "memory/dmabuf.h"
#include "memory/gpuslot.h"
#include "src/debug.h"
#include "wire/caps.h"
#include "wire/dmabufcaps.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

/* How long downstream has, once, to release a slot before it gets copies instead. */
#define HOARD_TIMEOUT (20 * G_TIME_SPAN_MILLISECOND)

/* The slots that downstream cannot hold: one for the frame that arrives during a copy, and one more
 * where a frame that finds no slot is lost. */
#define SPARE_SLOTS 1
#define SPARE_SLOTS_LIVE 2

static void drop_pool(GstBufferPool **pool)
{
    if (*pool)
        gst_buffer_pool_set_active(*pool, FALSE);
    gst_clear_object(pool);
}

static void drop_pools(struct pictures *pictures)
{
    drop_pool(&pictures->pool);
    drop_pool(&pictures->dmabufs);
    g_atomic_int_set(&pictures->dmabuf_use, DMABUFS_UNUSED);
}

static GstBufferPool *make_pool(struct pictures *pictures, GstCaps *caps, gboolean dmabufs)
{
    const struct slot_pool_params params = {
        .info = &pictures->info,
        .gpu = pictures->gpu,
        .dmabufs = dmabufs,
        .outstanding = pictures->outstanding,
        .counters = pictures->counters,
    };
    GstBufferPool *pool = gst_gpudirect_pool_new(&params, caps);

    if (pool && !gst_buffer_pool_set_active(pool, TRUE))
        gst_clear_object(&pool);
    return pool;
}

static gboolean make_pools(struct pictures *pictures, GstCaps *caps)
{
    if (!caps_are_dmabufs(caps)) {
        pictures->pool = make_pool(pictures, caps, FALSE);
        return pictures->pool != NULL;
    }
    GstCaps *plain = caps_out_of_dmabufs(caps);
    pictures->pool = make_pool(pictures, plain, FALSE);
    pictures->dmabufs = make_pool(pictures, caps, TRUE);
    gst_caps_unref(plain);
    return pictures->pool && pictures->dmabufs;
}

/* A new ring of the same format, as that of a backup sender, has the same count: what downstream
 * still holds may be this ring's, if it was in use before. */
static void start_count(struct pictures *pictures, GstCaps *caps, const struct gpud_layout *layout)
{
    if (pictures->outstanding && pictures_have_format(pictures, caps) &&
        layout_is_equal(layout, &pictures->layout))
        return;
    outstanding_unref(pictures->outstanding);
    pictures->outstanding = outstanding_new();
    pictures->is_hoarded = FALSE;
}

gboolean pictures_set_format(struct pictures *pictures, GstCaps *caps,
                             const struct gpud_layout *layout)
{
    struct video_planes planes;

    if (!video_info_from_caps(&pictures->info, caps))
        return FALSE;
    start_count(pictures, caps, layout);
    layout_to_planes(layout, &pictures->info, &planes);
    pictures->is_default = planes_are_default(&planes, &pictures->info);
    drop_pools(pictures);
    if (!make_pools(pictures, caps)) {
        drop_pools(pictures);
        return FALSE;
    }
    pictures->epoch = 0;
    pictures->layout = *layout;
    gst_caps_replace(&pictures->caps, caps);
    pictures->caps_gpu = pictures->gpu;
    return TRUE;
}

gboolean pictures_have_format(const struct pictures *pictures, const GstCaps *caps)
{
    return pictures->pool && pictures->caps_gpu == pictures->gpu &&
           gst_caps_is_equal(pictures->caps, caps);
}

void pictures_reset(struct pictures *pictures)
{
    drop_pools(pictures);
    g_clear_pointer(&pictures->outstanding, outstanding_unref);
    gst_clear_caps(&pictures->caps);
    g_atomic_int_set(&pictures->fills_files, FALSE);
    pictures->gpu = NULL;
}

GstFlowReturn pictures_alloc(struct pictures *pictures, GstBuffer **buffer)
{
    if (!pictures->gpu && !pictures->dmabufs)
        return GST_BASE_SRC_GET_CLASS(pictures->src)
            ->alloc(pictures->src, 0, (guint)pictures->info.size, buffer);
    *buffer = gst_gpudirect_pool_stand_in(pictures->dmabufs ? pictures->dmabufs : pictures->pool);
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

/* Whether downstream holds so many slots that it must get copies. Where frames wait for a slot, it
 * has a moment to release one, until it has shown that it does not; where they are lost, none. */
static gboolean is_hoarded(struct pictures *pictures, gboolean sender_waits)
{
    gint spare =
        sender_waits || pictures->slots <= SPARE_SLOTS_LIVE ? SPARE_SLOTS : SPARE_SLOTS_LIVE;
    gint limit = MAX(1, (gint)pictures->slots - spare);
    gint held = outstanding_count(pictures->outstanding);

    if (held < limit) {
        if (held <= limit / 2)
            pictures->is_hoarded = FALSE;
        return FALSE;
    }
    if (sender_waits && !pictures->is_hoarded &&
        outstanding_wait_below(pictures->outstanding, limit, HOARD_TIMEOUT))
        return FALSE;
    pictures->is_hoarded = TRUE;
    return TRUE;
}

gboolean pictures_need_copy(struct pictures *pictures, gboolean any_memory, gboolean sender_waits)
{
    if (g_atomic_int_get(&pictures->fills_files) && !pictures->gpu && !pictures->dmabufs)
        return TRUE;
    /* Elements that asked for a GPU's memory or for dma-bufs read their strides; those that accept
     * any memory may not. */
    if ((!pictures->gpu || any_memory) && !pictures->dmabufs && !pictures->is_default &&
        !pictures->reads_strides)
        return TRUE;
    return is_hoarded(pictures, sender_waits);
}

/* --- dma-bufs ----------------------------------------------------------------------------- */

/* Whether the ring's memory serves, which is found out with the first frame of a format. */
static gboolean use_slots(struct pictures *pictures, struct gpud_frame *frame)
{
    struct gpud_error error;

    if (g_atomic_int_get(&pictures->dmabuf_use) != DMABUFS_UNUSED)
        return g_atomic_int_get(&pictures->dmabuf_use) == DMABUFS_SLOTS;
    gboolean slots = dmabuf_is_in_frame(frame, &error);
    if (!slots)
        GST_INFO_OBJECT(pictures->src, "pictures are copied into dma-bufs: %s", error.reason);
    g_atomic_int_set(&pictures->dmabuf_use, slots ? DMABUFS_SLOTS : DMABUFS_COPIES);
    return slots;
}

/* Drivers downstream know nothing of the ring's words, so they get whole pictures. */
static gboolean await_whole(struct gpud_frame *frame)
{
    struct gpud_error error;
    void *data;
    gboolean whole = gpud_frame_map(frame, GPUD_READ, SLOT_MAP_TIMEOUT, &data, &error) == GPUD_OK;

    if (whole)
        gpud_frame_unmap(frame);
    return whole;
}

GstFlowReturn pictures_wrap(struct pictures *pictures, struct gpud_frame *frame, gboolean copy,
                            gboolean *copied, GstBuffer **buffer)
{
    GstBufferPool *pool = pictures->pool;

    if (pictures->dmabufs && use_slots(pictures, frame) && !copy) {
        pool = pictures->dmabufs;
        if (!await_whole(frame)) {
            gpud_frame_release(&frame);
            return GST_FLOW_CUSTOM_SUCCESS;
        }
    } else if (pictures->dmabufs) {
        copy = TRUE;
    }
    *copied = copy;
    GstFlowReturn flow = gst_gpudirect_pool_wrap(pool, frame, buffer);
    if (flow != GST_FLOW_OK || !copy)
        return flow;
    GstBuffer *slot = g_steal_pointer(buffer);
    flow = pictures_copy(pictures, slot, buffer);
    gst_buffer_unref(slot);
    return flow;
}
