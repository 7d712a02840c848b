/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Metas, of every kind that travels. */
#include "wire/codec.h"

#include <gpudirect/layout.h>
#include <gst/audio/audio.h>
#include <gst/video/gstvideoaffinetransformationmeta.h>
#include <gst/video/gstvideometa.h>
#include <gst/video/video-sei.h>
#include <gst/video/video.h>
#include <math.h>
#include <string.h>

/* === metageneric ============================================================================= */
/* Metas that any stream may have, and those of sound, as bytes and back. */

/* --- reference timestamps ----------------------------------------------------------------- */

static gboolean write_reference(struct pack *pack, const GstMeta *meta, guint *skipped)
{
    const GstReferenceTimestampMeta *stamp = (const GstReferenceTimestampMeta *)meta;

    pack_u64(pack, stamp->timestamp);
    pack_u64(pack, stamp->duration);
    pack_structure(pack, gst_caps_get_structure(stamp->reference, 0), skipped);
    return TRUE;
}

static gboolean read_reference(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    GstClockTime timestamp = unpack_u64(item);
    GstClockTime duration = unpack_u64(item);
    GstStructure *structure = unpack_structure(item);

    if (!structure || timestamp == GST_CLOCK_TIME_NONE) {
        g_clear_pointer(&structure, gst_structure_free);
        return FALSE;
    }
    GstCaps *reference = gst_caps_new_full(structure, NULL);
    gst_buffer_add_reference_timestamp_meta(buffer, reference, timestamp, duration);
    gst_caps_unref(reference);
    return TRUE;
}

/* --- sound -------------------------------------------------------------------------------- */

static gboolean write_clipping(struct pack *pack, const GstMeta *meta, guint *skipped)
{
    const GstAudioClippingMeta *clipping = (const GstAudioClippingMeta *)meta;

    pack_u8(pack, clipping->format == GST_FORMAT_TIME ? 1 : 0);
    pack_u64(pack, clipping->start);
    pack_u64(pack, clipping->end);
    return clipping->format == GST_FORMAT_TIME || clipping->format == GST_FORMAT_DEFAULT;
}

static gboolean read_clipping(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    GstFormat format = unpack_u8(item) ? GST_FORMAT_TIME : GST_FORMAT_DEFAULT;
    guint64 start = unpack_u64(item), end = unpack_u64(item);

    if (!item->bad)
        gst_buffer_add_audio_clipping_meta(buffer, format, start, end);
    return !item->bad;
}

static gboolean write_level(struct pack *pack, const GstMeta *meta, guint *skipped)
{
    const GstAudioLevelMeta *level = (const GstAudioLevelMeta *)meta;

    pack_u8(pack, level->level);
    pack_u8(pack, level->voice_activity ? 1 : 0);
    return TRUE;
}

/* RFC 6464: -dBov. */
#define LEVEL_MAX 127

static gboolean read_level(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    guint8 level = unpack_u8(item);
    gboolean voice = unpack_u8(item) != 0;

    if (item->bad || level > LEVEL_MAX)
        return FALSE;
    gst_buffer_add_audio_level_meta(buffer, level, voice);
    return TRUE;
}

/* --- encryption --------------------------------------------------------------------------- */

static gboolean write_protection(struct pack *pack, const GstMeta *meta, guint *skipped)
{
    pack_structure(pack, ((const GstProtectionMeta *)meta)->info, skipped);
    return TRUE;
}

static gboolean read_protection(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    GstStructure *info = unpack_structure(item);

    if (info)
        gst_buffer_add_protection_meta(buffer, info);
    return info != NULL;
}

/* --- custom metas ------------------------------------------------------------------------- */

/* They are a structure, and the name of their type is the structure's. */
static gboolean read_custom(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    GstStructure *structure = unpack_structure(item);
    if (!structure)
        return FALSE;
    const GstMetaInfo *info = gst_meta_get_info(gst_structure_get_name(structure));
    GstCustomMeta *meta =
        info && gst_meta_info_is_custom(info)
            ? gst_buffer_add_custom_meta(buffer, gst_structure_get_name(structure))
            : NULL;
    if (meta) {
        GstStructure *to = gst_custom_meta_get_structure(meta);
        for (gint i = 0; i < gst_structure_n_fields(structure); i++) {
            const gchar *name = gst_structure_nth_field_name(structure, (guint)i);
            gst_structure_set_value(to, name, gst_structure_get_value(structure, name));
        }
    } else {
        *why = "that type is not registered here, see gst_meta_register_custom()";
    }
    gst_structure_free(structure);
    return meta != NULL;
}

/* === metavideo =============================================================================== */
/* Metas that say something about a picture, as bytes and back. */

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

static gboolean write_afd(struct pack *pack, const GstMeta *meta, guint *skipped)
{
    const GstVideoAFDMeta *afd = (const GstVideoAFDMeta *)meta;

    pack_u8(pack, afd->field);
    pack_u8(pack, (uint8_t)afd->spec);
    pack_u8(pack, (uint8_t)afd->afd);
    return TRUE;
}

static gboolean read_afd(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    guint8 field = unpack_u8(item), spec = unpack_u8(item), afd = unpack_u8(item);

    /* GStreamer rejects reserved codes, and DVB has none for "unavailable". */
    if (item->bad || field > 1 || spec > GST_VIDEO_AFD_SPEC_SMPTE_ST2016_1 || afd > 15 ||
        afd == 1 || (afd >= 5 && afd <= 7) || afd == 12 ||
        (afd == GST_VIDEO_AFD_UNAVAILABLE && spec == GST_VIDEO_AFD_SPEC_DVB_ETSI))
        return FALSE;
    gst_buffer_add_video_afd_meta(buffer, field, (GstVideoAFDSpec)spec, (GstVideoAFDValue)afd);
    return TRUE;
}

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

static gboolean write_affine(struct pack *pack, const GstMeta *meta, guint *skipped)
{
    const GstVideoAffineTransformationMeta *affine = (const GstVideoAffineTransformationMeta *)meta;

    for (guint i = 0; i < G_N_ELEMENTS(affine->matrix); i++)
        pack_float(pack, affine->matrix[i]);
    return TRUE;
}

static gboolean read_affine(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    gfloat matrix[16];

    for (guint i = 0; i < G_N_ELEMENTS(matrix); i++) {
        matrix[i] = unpack_float(item);
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

static gboolean read_roi(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    gint id = (gint)unpack_u32(item), parent = (gint)unpack_u32(item);
    GQuark type = unpack_quark(item);
    guint x = unpack_u32(item), y = unpack_u32(item), w = unpack_u32(item), h = unpack_u32(item);
    GList *params = NULL;

    for (guint count = unpack_u8(item); count > 0 && !item->bad; count--) {
        GstStructure *param = unpack_structure(item);
        if (param)
            params = g_list_prepend(params, param);
    }
    params = g_list_reverse(params);
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

/* --- ancillary data ----------------------------------------------------------------------- */

/* Ancillary data (SMPTE ST 291, and so ST 2038), which GStreamer knows from 1.24 on:
 *
 *     u8 field, u8 is chroma's, u16 line, offset, DID, SDID, data count, count × u16 word,
 *     u16 checksum
 *
 * From the DID to the checksum these are words of 10 bits; the count is the data count's low 8. */

#if GST_CHECK_VERSION(1, 24, 0)

#define ANC_LINE_MAX 0x7ff
#define ANC_OFFSET_MAX 0xfff
#define ANC_WORD_MAX 0x3ff

static gboolean write_anc(struct pack *pack, const GstMeta *meta, guint *skipped)
{
    const GstAncillaryMeta *anc = (const GstAncillaryMeta *)meta;
    guint count = anc->data_count & 0xff;

    if (count > 0 && !anc->data)
        return FALSE;
    pack_u8(pack, (uint8_t)anc->field);
    pack_u8(pack, anc->c_not_y_channel ? 1 : 0);
    pack_u16(pack, anc->line);
    pack_u16(pack, anc->offset);
    pack_u16(pack, anc->DID);
    pack_u16(pack, anc->SDID_block_number);
    pack_u16(pack, anc->data_count);
    for (guint i = 0; i < count; i++)
        pack_u16(pack, anc->data[i]);
    pack_u16(pack, anc->checksum);
    return TRUE;
}

static uint16_t read_word(struct unpack *item)
{
    uint16_t word = unpack_u16(item);

    item->bad |= word > ANC_WORD_MAX;
    return word;
}

static gboolean read_anc(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    guint8 field = unpack_u8(item), chroma = unpack_u8(item);
    guint16 line = unpack_u16(item), offset = unpack_u16(item);
    guint16 did = read_word(item), sdid = read_word(item), data_count = read_word(item);
    guint16 data[0xff];

    for (guint i = 0; i < (data_count & 0xffu); i++)
        data[i] = read_word(item);
    guint16 checksum = read_word(item);
    if (item->bad || line > ANC_LINE_MAX || offset > ANC_OFFSET_MAX ||
        (field != GST_ANCILLARY_META_FIELD_PROGRESSIVE &&
         field != GST_ANCILLARY_META_FIELD_INTERLACED_FIRST &&
         field != GST_ANCILLARY_META_FIELD_INTERLACED_SECOND))
        return FALSE;
    GstAncillaryMeta *anc = gst_buffer_add_ancillary_meta(buffer);
    anc->field = (GstAncillaryMetaField)field;
    anc->c_not_y_channel = chroma != 0;
    anc->line = line;
    anc->offset = offset;
    anc->DID = did;
    anc->SDID_block_number = sdid;
    anc->data_count = data_count;
    anc->data = g_memdup2(data, (data_count & 0xffu) * sizeof(data[0]));
    anc->checksum = checksum;
    return TRUE;
}

#else

static gboolean read_anc(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    *why = "it needs GStreamer 1.24 or later, and this one is older";
    return FALSE;
}

#endif

#ifndef WIRE_ANALYTICS
static gboolean read_analytics(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    *why = "it needs a build with GStreamer's analytics library, 1.26 or later";
    return FALSE;
}
#endif

/* === kinds =================================================================================== */
/* The metas that have a code of ours. */

enum item {
    ITEM_TIMECODE = 1,
    ITEM_CAPTION,
    ITEM_REFERENCE_TIMESTAMP,
    ITEM_CROP,
    ITEM_AFD,
    ITEM_BAR,
    ITEM_CUSTOM,
    ITEM_ROI,
    ITEM_SEI,
    ITEM_ANC,
    ITEM_SERIALIZED,
    ITEM_OFFSET_END, /* u64, of the buffer itself */
    ITEM_CLIPPING,
    ITEM_LEVEL,
    ITEM_AFFINE,
    ITEM_PROTECTION,
    ITEM_TENSORS,
    ITEM_RELATIONS,
    ITEM_COUNT,
};

#define ITEM_LONG 0x8000

struct meta_kind {
    const gchar *name;  /* of the type */
    GType (*api)(void); /* NULL: this GStreamer does not have it */

    /* Into the pack, which may get full. FALSE: this one cannot be written. *skipped counts fields
     * that are left out. */
    gboolean (*write)(struct pack *pack, const GstMeta *meta, guint *skipped);

    /* Adds a meta from a peer's bytes to the buffer. FALSE: it cannot; *why, if set, says why, else
     * the bytes are malformed. */
    gboolean (*read)(struct unpack *item, GstBuffer *buffer, const gchar **why);
};

static const struct meta_kind kinds[ITEM_COUNT] = {
    [ITEM_TIMECODE] = {"GstVideoTimeCodeMeta", gst_video_time_code_meta_api_get_type,
                       write_timecode, read_timecode},
    [ITEM_CAPTION] = {"GstVideoCaptionMeta", gst_video_caption_meta_api_get_type, write_caption,
                      read_caption},
    [ITEM_REFERENCE_TIMESTAMP] = {"GstReferenceTimestampMeta",
                                  gst_reference_timestamp_meta_api_get_type, write_reference,
                                  read_reference},
    [ITEM_CROP] = {"GstVideoCropMeta", gst_video_crop_meta_api_get_type, write_crop, read_crop},
    [ITEM_AFD] = {"GstVideoAFDMeta", gst_video_afd_meta_api_get_type, write_afd, read_afd},
    [ITEM_BAR] = {"GstVideoBarMeta", gst_video_bar_meta_api_get_type, write_bar, read_bar},
    [ITEM_ROI] = {"GstVideoRegionOfInterestMeta", gst_video_region_of_interest_meta_api_get_type,
                  write_roi, read_roi},
    [ITEM_SEI] = {"GstVideoSEIUserDataUnregisteredMeta",
                  gst_video_sei_user_data_unregistered_meta_api_get_type, write_sei, read_sei},
    [ITEM_CLIPPING] = {"GstAudioClippingMeta", gst_audio_clipping_meta_api_get_type, write_clipping,
                       read_clipping},
    [ITEM_LEVEL] = {"GstAudioLevelMeta", gst_audio_level_meta_api_get_type, write_level,
                    read_level},
    [ITEM_AFFINE] = {"GstVideoAffineTransformationMeta",
                     gst_video_affine_transformation_meta_api_get_type, write_affine, read_affine},
    [ITEM_PROTECTION] = {"GstProtectionMeta", gst_protection_meta_api_get_type, write_protection,
                         read_protection},
#if GST_CHECK_VERSION(1, 24, 0)
    [ITEM_ANC] = {"GstAncillaryMeta", gst_ancillary_meta_api_get_type, write_anc, read_anc},
#else
    [ITEM_ANC] = {"GstAncillaryMeta", NULL, NULL, read_anc},
#endif
#ifdef WIRE_ANALYTICS
    [ITEM_TENSORS] = {"GstTensorMeta", analytics_tensors_type, analytics_write_tensors,
                      analytics_read_tensors},
    [ITEM_RELATIONS] = {"GstAnalyticsRelationMeta", analytics_relations_type,
                        analytics_write_relations, analytics_read_relations},
#else
    [ITEM_TENSORS] = {"GstTensorMeta", NULL, NULL, read_analytics},
    [ITEM_RELATIONS] = {"GstAnalyticsRelationMeta", NULL, NULL, read_analytics},
#endif
};

/* The kind with a code of its own, or 0. */
static enum item find_kind(GType api)
{
    for (guint i = 0; i < ITEM_COUNT; i++)
        if (kinds[i].api && kinds[i].api() == api)
            return (enum item)i;
    return 0;
}

/* Planes are sent as the layout; the other metas here concern this process's memory. */
static gboolean is_of_memory(GType api)
{
    return api == GST_VIDEO_META_API_TYPE || api == GST_PARENT_BUFFER_META_API_TYPE ||
           api == GST_VIDEO_GL_TEXTURE_UPLOAD_META_API_TYPE;
}

/* === metaserial ============================================================================== */
/* Metas whose type brings its own serializer, as GStreamer has them from 1.24 on:
 *
 *     u32 size of all of it, u32 length of the name, name, 0, u8 version, what the serializer wrote
 *
 * They serve applications' own types: those that GStreamer itself serializes have a code of ours,
 * or do not concern a picture. The head is parsed here rather than by gst_meta_deserialize(), which
 * trusts its lengths. */

#define META_NAME_MAX 128

static gboolean read_name(struct unpack *item, char name[META_NAME_MAX + 1])
{
    uint32_t size = unpack_u32(item), length = unpack_u32(item);
    const uint8_t *at = length <= META_NAME_MAX ? unpack_bytes(item, (size_t)length + 1) : NULL;

    if (!at || at[length] != '\0' || memchr(at, '\0', length) ||
        size != 2 * sizeof(uint32_t) + length + 1 + item->left)
        return FALSE;
    memcpy(name, at, (size_t)length + 1);
    return TRUE;
}

/* The name of the type, as the peer gives it. FALSE: it gives none. */
static gboolean name_serialized(struct unpack item, char name[META_NAME_MAX + 1])
{
    if (!read_name(&item, name))
        return FALSE;
    for (const char *c = name; *c; c++)
        if (!g_ascii_isalnum(*c) && !strchr("-_+", *c))
            return FALSE;
    return g_ascii_isalpha(name[0]);
}

#if GST_CHECK_VERSION(1, 24, 0)

static gboolean write_serialized(struct pack *pack, const GstMeta *meta)
{
    if (!meta->info->serialize_func || strlen(g_type_name(meta->info->type)) > META_NAME_MAX)
        return FALSE;
    GByteArray *bytes = g_byte_array_new();
    gboolean written = gst_meta_serialize_simple(meta, bytes);
    if (written)
        pack_bytes(pack, bytes->data, bytes->len);
    g_byte_array_unref(bytes);
    return written;
}

static gboolean has_tag(const GstMetaInfo *info, const gchar *tag)
{
    return gst_meta_api_type_has_tag(info->api, g_quark_from_string(tag));
}

static gboolean read_serialized(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    char name[META_NAME_MAX + 1];

    if (!read_name(item, name))
        return FALSE;
    uint8_t version = unpack_u8(item);
    const GstMetaInfo *info = item->bad ? NULL : gst_meta_get_info(name);
    if (!info || !info->deserialize_func) {
        *why = "that type is not registered, with a deserializer, here";
        return FALSE;
    }
    /* A sender must not use a serializer to bypass the checks of a type that has its own code, nor
     * to move a picture's planes. */
    if (find_kind(info->api) || is_of_memory(info->api) || gst_meta_info_is_custom(info) ||
        (has_tag(info, "audio") && !has_tag(info, "video"))) {
        *why = "metas of that type may not be sent serialized";
        return FALSE;
    }
    size_t size = item->left;
    *why = "its type's own deserializer refuses it";
    return info->deserialize_func(info, buffer, unpack_bytes(item, size), size, version) != NULL;
}

#else

static gboolean write_serialized(struct pack *pack, const GstMeta *meta)
{
    return FALSE;
}

static gboolean read_serialized(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    *why = "serialized metas need GStreamer 1.24 or later, and this one is older";
    return FALSE;
}

#endif

/* === lostmetas =============================================================================== */
/* Metas that could not be transmitted, by type. */

/* On a receiver the sender chooses the names, so all beyond this many are counted together. */
#define TYPES_MAX 32
#define OTHER_TYPES "other-types"

struct lost_metas {
    GMutex lock;
    GstDebugCategory *category;
    GstStructure *types; /* under lock: a guint64 for each */
    guint64 count;       /* under lock */
};

struct lost_metas *lost_metas_new(GstDebugCategory *category)
{
    struct lost_metas *lost = g_new0(struct lost_metas, 1);

    g_mutex_init(&lost->lock);
    lost->category = category;
    lost->types = gst_structure_new_empty("lost-meta-types");
    return lost;
}

void lost_metas_free(struct lost_metas *lost)
{
    gst_structure_free(lost->types);
    g_mutex_clear(&lost->lock);
    g_free(lost);
}

void lost_metas_note(struct lost_metas *lost, GstElement *owner, const gchar *type,
                     const gchar *why)
{
    guint64 before = 0;

    g_mutex_lock(&lost->lock);
    if (!gst_structure_has_field(lost->types, type) &&
        gst_structure_n_fields(lost->types) >= TYPES_MAX)
        type = OTHER_TYPES;
    gst_structure_get_uint64(lost->types, type, &before);
    gst_structure_set(lost->types, type, G_TYPE_UINT64, before + 1, NULL);
    lost->count++;
    g_mutex_unlock(&lost->lock);
    if (before == 0 && lost->category)
        GST_CAT_INFO_OBJECT(lost->category, owner, "a %s is not transmitted: %s; logged once", type,
                            why);
}

guint64 lost_metas_count(struct lost_metas *lost)
{
    g_mutex_lock(&lost->lock);
    guint64 count = lost->count;
    g_mutex_unlock(&lost->lock);
    return count;
}

void lost_metas_tell(struct lost_metas *lost, GstStructure *stats)
{
    g_mutex_lock(&lost->lock);
    gst_structure_set(stats, "lost-metas", G_TYPE_UINT64, lost->count, "lost-meta-types",
                      GST_TYPE_STRUCTURE, lost->types, NULL);
    g_mutex_unlock(&lost->lock);
}

/* === meta ==================================================================================== */
/* A buffer's metas as the bytes that are sent with a frame.
 *
 *     bytes = head (see wire/times.c), items
 *     large = items
 *     item  = u16 kind, u16 size, size bytes           unknown kinds are skipped by their size
 *             u16 kind | ITEM_LONG, u32 size, size bytes
 */

/* --- reference timestamps of our own ------------------------------------------------------- */

static gpointer make_reference(gpointer name)
{
    GstCaps *caps = gst_caps_new_empty_simple(name);

    GST_MINI_OBJECT_FLAG_SET(caps, GST_MINI_OBJECT_FLAG_MAY_BE_LEAKED);
    return caps;
}

GstCaps *meta_submit_reference(void)
{
    static GOnce once = G_ONCE_INIT;

    return g_once(&once, make_reference, "timestamp/x-gpudirect-submit");
}

void meta_add_submit_time(GstBuffer *buffer, GstClockTime time)
{
    gst_buffer_add_reference_timestamp_meta(buffer, meta_submit_reference(), time,
                                            GST_CLOCK_TIME_NONE);
}

void meta_add_capture_time(GstBuffer *buffer, GstClockTime time)
{
    static GOnce once = G_ONCE_INIT;
    GstCaps *reference = g_once(&once, make_reference, "timestamp/x-gpudirect-capture");

    gst_buffer_add_reference_timestamp_meta(buffer, reference, time, GST_CLOCK_TIME_NONE);
}

/* --- writing ------------------------------------------------------------------------------ */

static void pack_size(struct pack *pack, size_t size, gboolean large)
{
    if (large)
        pack_u32(pack, (uint32_t)size);
    else
        pack_u16(pack, (uint16_t)size);
}

/* FALSE: it cannot be transmitted, *why says why; NULL: it does not fit. */
static gboolean encode_item(struct pack *pack, gboolean large, const GstMeta *meta, guint *skipped,
                            const gchar **why)
{
    struct pack header = *pack, body = *pack;
    enum item kind = find_kind(meta->info->api);
    gboolean written = TRUE;

    *skipped = 0;
    pack_u16(&body, 0); /* room for kind and size */
    pack_size(&body, 0, large);
    size_t start = body.used;
    if (kind) {
        written = kinds[kind].write(&body, meta, skipped);
    } else if (gst_meta_info_is_custom(meta->info)) {
        kind = ITEM_CUSTOM;
        pack_structure(&body, gst_custom_meta_get_structure((GstCustomMeta *)meta), skipped);
    } else {
        kind = ITEM_SERIALIZED;
        written = write_serialized(&body, meta);
    }
    if (!written || body.full || (!large && body.used - start > G_MAXUINT16)) {
        *why = written ? NULL : "it has no serialised form, or exceeds what receivers accept";
        return FALSE;
    }
    pack_u16(&header, (uint16_t)(kind | (large ? ITEM_LONG : 0)));
    pack_size(&header, body.used - start, large);
    *pack = body;
    return TRUE;
}

static uint32_t large_max(const struct meta_large *large)
{
    return large->max ? large->max : META_LARGE_DEFAULT;
}

/* In their order: once one did not fit into the small bytes, the next ones follow it, unless they
 * only fit there. */
static gboolean encode(struct pack *pack, struct meta_large *large, const GstMeta *meta,
                       guint *skipped, const gchar **why)
{
    gboolean in_order = large->used == 0;

    if (in_order && encode_item(pack, FALSE, meta, skipped, why))
        return TRUE;
    if (in_order && *why)
        return FALSE;
    if (!large->data)
        large->data = g_malloc(large_max(large));
    struct pack behind = {.data = large->data, .size = large_max(large), .used = large->used};
    gboolean encoded = encode_item(&behind, TRUE, meta, skipped, why);
    large->used = (uint32_t)behind.used;
    if (encoded)
        return TRUE;
    if (!in_order && !*why && encode_item(pack, FALSE, meta, skipped, why))
        return TRUE;
    if (!*why) {
        large->overflown = TRUE;
        *why = large_max(large) == META_LARGE_DEFAULT
                   ? "the metas of one frame have " G_STRINGIFY(META_LARGE_DEFAULT) " bytes"
                   : "the metas of one frame have " G_STRINGIFY(GPUD_LARGE_META_MAX) " bytes";
    }
    return FALSE;
}

uint32_t meta_encode(GstBuffer *buffer, const struct wire_head *head,
                     uint8_t bytes[GPUD_FRAME_META_MAX], struct meta_large *large,
                     const struct meta_loss *loss)
{
    struct pack pack = {.data = bytes, .size = GPUD_FRAME_META_MAX};
    gpointer state = NULL;
    GstMeta *meta;

    large->used = 0;
    large->overflown = FALSE;
    wire_head_pack(&pack, head);
    if (GST_BUFFER_OFFSET_END_IS_VALID(buffer)) {
        pack_u16(&pack, ITEM_OFFSET_END);
        pack_u16(&pack, sizeof(guint64));
        pack_u64(&pack, GST_BUFFER_OFFSET_END(buffer));
    }
    while ((meta = gst_buffer_iterate_meta(buffer, &state))) {
        const gchar *type = g_type_name(meta->info->type), *why = NULL;
        guint skipped;
        /* Our own timestamp is recreated on the other side. */
        if (is_of_memory(meta->info->api) ||
            (meta->info->api == GST_REFERENCE_TIMESTAMP_META_API_TYPE &&
             ((const GstReferenceTimestampMeta *)meta)->reference == meta_submit_reference()))
            continue;
        if (!encode(&pack, large, meta, &skipped, &why))
            lost_metas_note(loss->lost, loss->owner, type, why);
        else if (skipped > 0)
            lost_metas_note(loss->lost, loss->owner, type,
                            "a part of it, such as a field of an unknown type, stays behind");
    }
    return (uint32_t)pack.used;
}

/* --- reading ------------------------------------------------------------------------------ */

static gboolean read_item(uint16_t kind, struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    if (kind < ITEM_COUNT && kinds[kind].read)
        return kinds[kind].read(item, buffer, why);
    if (kind == ITEM_OFFSET_END) {
        GST_BUFFER_OFFSET_END(buffer) = unpack_u64(item);
        return !item->bad;
    }
    if (kind == ITEM_CUSTOM)
        return read_custom(item, buffer, why);
    if (kind == ITEM_SERIALIZED)
        return read_serialized(item, buffer, why);
    *why = "this release does not know its kind";
    return FALSE;
}

/* Counts it under the writer's name for it, if that is known here. */
static void note_unread(uint16_t kind, struct unpack item, const gchar *why,
                        const struct meta_loss *loss)
{
    GstStructure *structure = kind == ITEM_CUSTOM ? unpack_structure(&item) : NULL;
    gchar name[META_NAME_MAX + 1];

    if (kind != ITEM_SERIALIZED || !name_serialized(item, name) || !names_take(loss->names, name))
        g_snprintf(name, sizeof(name), "kind-%u", kind);
    if (structure)
        g_strlcpy(name, gst_structure_get_name(structure), sizeof(name));
    else if (kind < ITEM_COUNT && kinds[kind].name)
        g_strlcpy(name, kinds[kind].name, sizeof(name));
    lost_metas_note(loss->lost, loss->owner, name, why);
    g_clear_pointer(&structure, gst_structure_free);
}

static gboolean read_items(struct unpack *unpack, GstBuffer *buffer, const struct meta_loss *loss)
{
    while (!unpack->bad && unpack->left > 0) {
        uint16_t said = unpack_u16(unpack), kind = said & (uint16_t)~ITEM_LONG;
        size_t length = said & ITEM_LONG ? unpack_u32(unpack) : unpack_u16(unpack);
        struct unpack item = {
            .data = unpack_bytes(unpack, length), .left = length, .names = loss->names};
        struct unpack whole = item;
        const gchar *why = "it is malformed, or has more new names than are accepted";
        if (!unpack->bad && !read_item(kind, &item, buffer, &why))
            note_unread(kind, whole, why, loss);
    }
    return !unpack->bad;
}

gboolean meta_decode(const uint8_t *bytes, uint32_t size, struct wire_head *head, GstBuffer *buffer,
                     const struct meta_loss *loss)
{
    struct unpack unpack = {.data = bytes, .left = size, .names = loss->names};

    return wire_head_unpack(&unpack, head) && read_items(&unpack, buffer, loss);
}

gboolean meta_decode_large(const uint8_t *bytes, size_t size, GstBuffer *buffer,
                           const struct meta_loss *loss)
{
    struct unpack unpack = {.data = bytes, .left = size, .names = loss->names};

    return size <= GPUD_LARGE_META_MAX && read_items(&unpack, buffer, loss);
}
