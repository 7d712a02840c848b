/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ancillary data (SMPTE ST 291, and so ST 2038), which GStreamer knows from 1.24 on:
 *
 *     u8 field, u8 is chroma's, u16 line, offset, DID, SDID, data count, count × u16 word,
 *     u16 checksum
 *
 * From the DID to the checksum these are words of 10 bits; the count is the data count's low 8. */
#include "wire/metakind.h"

#include <gst/video/video.h>

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

static gboolean field_is_known(guint8 field)
{
    return field == GST_ANCILLARY_META_FIELD_PROGRESSIVE ||
           field == GST_ANCILLARY_META_FIELD_INTERLACED_FIRST ||
           field == GST_ANCILLARY_META_FIELD_INTERLACED_SECOND;
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
    if (item->bad || line > ANC_LINE_MAX || offset > ANC_OFFSET_MAX || !field_is_known(field))
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

const struct meta_kind meta_anc = {
    .name = "GstAncillaryMeta",
    .api = gst_ancillary_meta_api_get_type,
    .write = write_anc,
    .read = read_anc,
};

#else

static GType no_api(void)
{
    return G_TYPE_INVALID;
}

static gboolean write_no_anc(struct pack *pack, const GstMeta *meta, guint *skipped)
{
    return FALSE;
}

static gboolean read_no_anc(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    *why = "it needs GStreamer 1.24 or later, and this one is older";
    return FALSE;
}

const struct meta_kind meta_anc = {
    .name = "GstAncillaryMeta",
    .api = no_api,
    .write = write_no_anc,
    .read = read_no_anc,
};

#endif
