/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Metas that any stream may have, and those of sound, as bytes and back. */
#include "wire/metakind.h"

#include <gst/audio/audio.h>

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

const struct meta_kind meta_reference = {
    .name = "GstReferenceTimestampMeta",
    .api = gst_reference_timestamp_meta_api_get_type,
    .write = write_reference,
    .read = read_reference,
};

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

const struct meta_kind meta_clipping = {
    .name = "GstAudioClippingMeta",
    .api = gst_audio_clipping_meta_api_get_type,
    .write = write_clipping,
    .read = read_clipping,
};

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

const struct meta_kind meta_level = {
    .name = "GstAudioLevelMeta",
    .api = gst_audio_level_meta_api_get_type,
    .write = write_level,
    .read = read_level,
};

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

const struct meta_kind meta_protection = {
    .name = "GstProtectionMeta",
    .api = gst_protection_meta_api_get_type,
    .write = write_protection,
    .read = read_protection,
};

/* --- custom metas ------------------------------------------------------------------------- */

gboolean meta_write_custom(struct pack *pack, const GstMeta *meta, guint *skipped)
{
    pack_structure(pack, gst_custom_meta_get_structure((GstCustomMeta *)meta), skipped);
    return TRUE;
}

gboolean meta_read_custom(struct unpack *item, GstBuffer *buffer, const gchar **why)
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
