/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Metas whose type brings its own serializer, as GStreamer has them from 1.24 on:
 *
 *     u32 size of all of it, u32 length of the name, name, 0, u8 version, what the serializer wrote
 *
 * They serve applications' own types: those that GStreamer itself serializes have a code of ours,
 * or do not concern a picture. The head is parsed here rather than by gst_meta_deserialize(), which
 * trusts its lengths. */
#include "wire/metakind.h"

#include <string.h>

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

gboolean meta_name_serialized(struct unpack item, char name[META_NAME_MAX + 1])
{
    if (!read_name(&item, name))
        return FALSE;
    for (const char *c = name; *c; c++)
        if (!g_ascii_isalnum(*c) && !strchr("-_+", *c))
            return FALSE;
    return g_ascii_isalpha(name[0]);
}

#if GST_CHECK_VERSION(1, 24, 0)

gboolean meta_write_serialized(struct pack *pack, const GstMeta *meta)
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

gboolean meta_read_serialized(struct unpack *item, GstBuffer *buffer,
                              gboolean (*may_be)(const GstMetaInfo *info), const gchar **why)
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
    if (!may_be(info) || (has_tag(info, "audio") && !has_tag(info, "video"))) {
        *why = "metas of that type may not be sent serialized";
        return FALSE;
    }
    size_t size = item->left;
    *why = "its type's own deserializer refuses it";
    return info->deserialize_func(info, buffer, unpack_bytes(item, size), size, version) != NULL;
}

#else

gboolean meta_write_serialized(struct pack *pack, const GstMeta *meta)
{
    return FALSE;
}

gboolean meta_read_serialized(struct unpack *item, GstBuffer *buffer,
                              gboolean (*may_be)(const GstMetaInfo *info), const gchar **why)
{
    *why = "serialized metas need GStreamer 1.24 or later, and this one is older";
    return FALSE;
}

#endif
