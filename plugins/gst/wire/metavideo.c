/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Metas that say something about a picture, as bytes and back. */
#include "wire/metakind.h"

#include <gpudirect/layout.h>
#include <gst/video/gstvideoaffinetransformationmeta.h>
#include <gst/video/gstvideometa.h>
#include <gst/video/video-sei.h>
#include <gst/video/video.h>
#include <math.h>
#include <string.h>

/* --- timecode ----------------------------------------------------------------------------- */

static gboolean write_timecode(struct pack *pack, const GstMeta *meta, guint *skipped)
{
    const GstVideoTimeCode *code = &((const GstVideoTimeCodeMeta *)meta)->tc;
    GDateTime *jam = code->config.latest_daily_jam;

    pack_u32(pack, code->config.fps_n);
    pack_u32(pack, code->config.fps_d);
    pack_u32(pack, code->config.flags);
    pack_u32(pack, code->hours);
    pack_u32(pack, code->minutes);
    pack_u32(pack, code->seconds);
    pack_u32(pack, code->frames);
    pack_u32(pack, code->field_count);
    pack_u8(pack, jam ? 1 : 0);
    pack_u64(pack, jam ? (uint64_t)g_date_time_to_unix(jam) : 0);
    pack_u32(pack, jam ? (uint32_t)g_date_time_get_microsecond(jam) : 0);
    return TRUE;
}

/* Frames/s. At some hundred thousand GStreamer's arithmetic overflows, and its assertions abort the
 * process in the first element that increments the timecode. */
#define TIMECODE_RATE_MAX 1000

/* 9999-12-29: a day later is still a date. */
#define JAM_MAX (G_GINT64_CONSTANT(253402300799) - 2 * 86400)

static gboolean read_timecode(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    guint fps_n = unpack_u32(item), fps_d = unpack_u32(item), flags = unpack_u32(item);
    guint hours = unpack_u32(item), minutes = unpack_u32(item), seconds = unpack_u32(item);
    guint frames = unpack_u32(item), fields = unpack_u32(item);
    gboolean has_jam = unpack_u8(item);
    gint64 jam_seconds = (gint64)unpack_u64(item);
    guint jam_fraction = item->left > 0 ? unpack_u32(item) : 0;

    if (item->bad || jam_fraction >= G_USEC_PER_SEC || fps_n > G_MAXUINT16 * 16u ||
        fps_d > G_MAXUINT16 || flags > 7 || fps_n > TIMECODE_RATE_MAX * fps_d ||
        jam_seconds > JAM_MAX)
        return FALSE;
    GDateTime *second = has_jam ? g_date_time_new_from_unix_utc(jam_seconds) : NULL;
    GDateTime *jam = second ? g_date_time_add(second, jam_fraction) : NULL;
    GstVideoTimeCode *code =
        gst_video_time_code_new(fps_n, fps_d, jam, flags, hours, minutes, seconds, frames, fields);
    gboolean valid = gst_video_time_code_is_valid(code);
    if (valid)
        gst_buffer_add_video_time_code_meta(buffer, code);
    gst_video_time_code_free(code);
    g_clear_pointer(&jam, g_date_time_unref);
    g_clear_pointer(&second, g_date_time_unref);
    return valid;
}

const struct meta_kind meta_timecode = {
    .name = "GstVideoTimeCodeMeta",
    .api = gst_video_time_code_meta_api_get_type,
    .write = write_timecode,
    .read = read_timecode,
};

/* --- captions ----------------------------------------------------------------------------- */

static gboolean write_caption(struct pack *pack, const GstMeta *meta, guint *skipped)
{
    const GstVideoCaptionMeta *caption = (const GstVideoCaptionMeta *)meta;

    pack_u32(pack, caption->caption_type);
    pack_bytes(pack, caption->data, caption->size);
    return TRUE;
}

static gboolean read_caption(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    guint type = unpack_u32(item);

    if (item->bad || item->left == 0 || type < GST_VIDEO_CAPTION_TYPE_CEA608_RAW ||
        type > GST_VIDEO_CAPTION_TYPE_CEA708_CDP)
        return FALSE;
    gst_buffer_add_video_caption_meta(buffer, (GstVideoCaptionType)type, item->data, item->left);
    return TRUE;
}

const struct meta_kind meta_caption = {
    .name = "GstVideoCaptionMeta",
    .api = gst_video_caption_meta_api_get_type,
    .write = write_caption,
    .read = read_caption,
};

/* --- the visible area --------------------------------------------------------------------- */

static gboolean write_crop(struct pack *pack, const GstMeta *meta, guint *skipped)
{
    const GstVideoCropMeta *crop = (const GstVideoCropMeta *)meta;

    pack_u32(pack, crop->x);
    pack_u32(pack, crop->y);
    pack_u32(pack, crop->width);
    pack_u32(pack, crop->height);
    return TRUE;
}

static gboolean read_crop(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    guint x = unpack_u32(item), y = unpack_u32(item), width = unpack_u32(item),
          height = unpack_u32(item);

    if (item->bad || x > GPUD_DIMENSION_MAX || y > GPUD_DIMENSION_MAX ||
        width > GPUD_DIMENSION_MAX || height > GPUD_DIMENSION_MAX)
        return FALSE;
    GstVideoCropMeta *crop = gst_buffer_add_video_crop_meta(buffer);
    crop->x = x;
    crop->y = y;
    crop->width = width;
    crop->height = height;
    return TRUE;
}

const struct meta_kind meta_crop = {
    .name = "GstVideoCropMeta",
    .api = gst_video_crop_meta_api_get_type,
    .write = write_crop,
    .read = read_crop,
};

static gboolean write_afd(struct pack *pack, const GstMeta *meta, guint *skipped)
{
    const GstVideoAFDMeta *afd = (const GstVideoAFDMeta *)meta;

    pack_u8(pack, afd->field);
    pack_u8(pack, (uint8_t)afd->spec);
    pack_u8(pack, (uint8_t)afd->afd);
    return TRUE;
}

/* GStreamer rejects reserved codes, and DVB has none for "unavailable". */
static gboolean afd_is_known(guint8 spec, guint8 afd)
{
    if (spec > GST_VIDEO_AFD_SPEC_SMPTE_ST2016_1 || afd > 15 || afd == 1 ||
        (afd >= 5 && afd <= 7) || afd == 12)
        return FALSE;
    return afd != GST_VIDEO_AFD_UNAVAILABLE || spec != GST_VIDEO_AFD_SPEC_DVB_ETSI;
}

static gboolean read_afd(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    guint8 field = unpack_u8(item), spec = unpack_u8(item), afd = unpack_u8(item);

    if (item->bad || field > 1 || !afd_is_known(spec, afd))
        return FALSE;
    gst_buffer_add_video_afd_meta(buffer, field, (GstVideoAFDSpec)spec, (GstVideoAFDValue)afd);
    return TRUE;
}

const struct meta_kind meta_afd = {
    .name = "GstVideoAFDMeta",
    .api = gst_video_afd_meta_api_get_type,
    .write = write_afd,
    .read = read_afd,
};

static gboolean write_bar(struct pack *pack, const GstMeta *meta, guint *skipped)
{
    const GstVideoBarMeta *bar = (const GstVideoBarMeta *)meta;

    pack_u8(pack, bar->field);
    pack_u8(pack, bar->is_letterbox ? 1 : 0);
    pack_u32(pack, bar->bar_data1);
    pack_u32(pack, bar->bar_data2);
    return TRUE;
}

static gboolean read_bar(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    guint8 field = unpack_u8(item);
    gboolean letterbox = unpack_u8(item) != 0;
    guint first = unpack_u32(item), second = unpack_u32(item);

    if (item->bad || field > 1)
        return FALSE;
    gst_buffer_add_video_bar_meta(buffer, field, letterbox, first, second);
    return TRUE;
}

const struct meta_kind meta_bar = {
    .name = "GstVideoBarMeta",
    .api = gst_video_bar_meta_api_get_type,
    .write = write_bar,
    .read = read_bar,
};

static gboolean write_affine(struct pack *pack, const GstMeta *meta, guint *skipped)
{
    const GstVideoAffineTransformationMeta *affine = (const GstVideoAffineTransformationMeta *)meta;

    for (guint i = 0; i < G_N_ELEMENTS(affine->matrix); i++) {
        uint32_t bits;
        memcpy(&bits, &affine->matrix[i], sizeof(bits));
        pack_u32(pack, bits);
    }
    return TRUE;
}

static gboolean read_affine(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    gfloat matrix[16];

    for (guint i = 0; i < G_N_ELEMENTS(matrix); i++) {
        uint32_t bits = unpack_u32(item);
        memcpy(&matrix[i], &bits, sizeof(bits));
        if (!isfinite(matrix[i]))
            item->bad = TRUE;
    }
    if (item->bad)
        return FALSE;
    GstVideoAffineTransformationMeta *affine =
        gst_buffer_add_video_affine_transformation_meta(buffer);
    memcpy(affine->matrix, matrix, sizeof(matrix));
    return TRUE;
}

const struct meta_kind meta_affine = {
    .name = "GstVideoAffineTransformationMeta",
    .api = gst_video_affine_transformation_meta_api_get_type,
    .write = write_affine,
    .read = read_affine,
};

/* --- regions of interest ------------------------------------------------------------------ */

/* i32 id, i32 parent's, type, u32 x, y, width, height, u8 count, count structures */
static gboolean write_roi(struct pack *pack, const GstMeta *meta, guint *skipped)
{
    const GstVideoRegionOfInterestMeta *roi = (const GstVideoRegionOfInterestMeta *)meta;
    guint count = g_list_length(roi->params);

    if (count > G_MAXUINT8)
        return FALSE;
    pack_u32(pack, (uint32_t)roi->id);
    pack_u32(pack, (uint32_t)roi->parent_id);
    pack_quark(pack, roi->roi_type);
    pack_u32(pack, roi->x);
    pack_u32(pack, roi->y);
    pack_u32(pack, roi->w);
    pack_u32(pack, roi->h);
    pack_u8(pack, (uint8_t)count);
    for (const GList *at = roi->params; at && !pack->full; at = at->next)
        pack_structure(pack, at->data, skipped);
    return TRUE;
}

static GList *read_params(struct unpack *item)
{
    GList *params = NULL;

    for (guint count = unpack_u8(item); count > 0 && !item->bad; count--) {
        GstStructure *param = unpack_structure(item);
        if (param)
            params = g_list_prepend(params, param);
    }
    return g_list_reverse(params);
}

static gboolean read_roi(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    gint id = (gint)unpack_u32(item), parent = (gint)unpack_u32(item);
    GQuark type = unpack_quark(item);
    guint x = unpack_u32(item), y = unpack_u32(item), w = unpack_u32(item), h = unpack_u32(item);
    GList *params = read_params(item);

    if (item->bad || x > GPUD_DIMENSION_MAX || y > GPUD_DIMENSION_MAX || w > GPUD_DIMENSION_MAX ||
        h > GPUD_DIMENSION_MAX) {
        g_list_free_full(params, (GDestroyNotify)gst_structure_free);
        return FALSE;
    }
    GstVideoRegionOfInterestMeta *roi =
        gst_buffer_add_video_region_of_interest_meta_id(buffer, type, x, y, w, h);
    roi->id = id;
    roi->parent_id = parent;
    for (GList *at = params; at; at = at->next)
        gst_video_region_of_interest_meta_add_param(roi, at->data);
    g_list_free(params);
    return TRUE;
}

const struct meta_kind meta_roi = {
    .name = "GstVideoRegionOfInterestMeta",
    .api = gst_video_region_of_interest_meta_api_get_type,
    .write = write_roi,
    .read = read_roi,
};

/* --- user data from a decoder ------------------------------------------------------------- */

#define UUID_SIZE 16

static gboolean write_sei(struct pack *pack, const GstMeta *meta, guint *skipped)
{
    const GstVideoSEIUserDataUnregisteredMeta *sei =
        (const GstVideoSEIUserDataUnregisteredMeta *)meta;

    pack_bytes(pack, sei->uuid, UUID_SIZE);
    pack_bytes(pack, sei->data, sei->size);
    return TRUE;
}

static gboolean read_sei(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    const uint8_t *uuid = unpack_bytes(item, UUID_SIZE);
    size_t size = item->left;
    const uint8_t *data = unpack_bytes(item, size);

    if (item->bad || size == 0)
        return FALSE;
    gst_buffer_add_video_sei_user_data_unregistered_meta(buffer, (guint8 *)uuid, (guint8 *)data,
                                                         size);
    return TRUE;
}

const struct meta_kind meta_sei = {
    .name = "GstVideoSEIUserDataUnregisteredMeta",
    .api = gst_video_sei_user_data_unregistered_meta_api_get_type,
    .write = write_sei,
    .read = read_sei,
};
