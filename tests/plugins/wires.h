/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What lies beside the pictures as bytes: honest ones there and back, and the pieces of lies. */
#ifndef GPUD_TESTS_PLUGINS_WIRES_H
#define GPUD_TESTS_PLUGINS_WIRES_H

#include "pipes.h"
#include "wire/codec.h"

static const struct wire_head head = {.monotonic = TRUE, .base_time = 123456789};

/* A pack with its bytes, for the block in which it stands. */
#define PACK(bytes)                                \
    {                                              \
        .data = (uint8_t[bytes]){0}, .size = bytes \
    }

/* A type of custom metas. */
static inline void register_meta(const gchar *name)
{
    static const gchar *tags[] = {NULL};

    gst_meta_register_custom(name, tags, NULL, NULL, NULL);
}

/* Its own structure on a buffer that has none of these. */
static inline GstStructure *add_custom(GstBuffer *buffer, const gchar *name)
{
    return gst_custom_meta_get_structure(gst_buffer_add_custom_meta(buffer, name));
}

static inline GstStructure *find_custom(GstBuffer *buffer, const gchar *name)
{
    GstCustomMeta *meta = gst_buffer_get_custom_meta(buffer, name);

    fail_unless(meta != NULL, "no %s", name);
    return gst_custom_meta_get_structure(meta);
}

/* A name with its length; a structure's name and how many fields follow; a field's name and the
 * code of its type. */
static inline void pack_name(struct pack *pack, const gchar *name)
{
    pack_u8(pack, (uint8_t)strlen(name));
    pack_bytes(pack, name, strlen(name));
}

static inline void pack_begin(struct pack *pack, const gchar *name, guint fields)
{
    pack_name(pack, name);
    pack_u16(pack, (uint16_t)fields);
}

static inline void pack_field(struct pack *pack, const gchar *name, guint8 type)
{
    pack_name(pack, name);
    pack_u8(pack, type);
}

static inline void pack_text(struct pack *pack, const gchar *text, size_t length)
{
    pack_u16(pack, (uint16_t)length);
    pack_bytes(pack, text, length);
}

static inline struct unpack unpack_of(const struct pack *pack)
{
    return (struct unpack){.data = pack->data, .left = pack->used};
}

/* What was packed, read; NULL: it is refused. */
static inline GstStructure *read_structure(const struct pack *pack, struct names *names)
{
    struct unpack unpack = unpack_of(pack);

    unpack.names = names;
    return unpack_structure(&unpack);
}

/* Reads a frame's metas. Behind their end there is nothing: an allocation of that size lets a
 * sanitizer see what is read beyond it. FALSE: they are refused as a whole. */
static inline gboolean read_metas(const uint8_t *bytes, size_t size, GstBuffer *buffer,
                                  struct meta_loss *loss)
{
    g_autofree uint8_t *exact = g_memdup2(bytes, size);
    struct wire_head got;

    return meta_decode(exact, (uint32_t)size, &got, buffer, loss);
}

/* The buffer's metas on another one, after so many were lost by the writer and by the reader. */
static inline GstBuffer *there_and_back(GstBuffer *buffer, guint lost_there, guint lost_back)
{
    struct meta_loss there = {lost_metas_new(NULL), NULL}, back = {lost_metas_new(NULL), NULL};
    uint8_t bytes[GPUD_FRAME_META_MAX];
    struct meta_large large = {NULL};
    struct wire_head got;
    uint32_t size = meta_encode(buffer, &head, bytes, &large, &there);
    GstBuffer *arrived = gst_buffer_new();

    fail_unless(size <= sizeof(bytes) && large.used <= META_LARGE_DEFAULT);
    fail_unless(meta_decode(bytes, size, &got, arrived, &back));
    fail_unless(meta_decode_large(large.data, large.used, arrived, &back));
    fail_unless_equals_uint64(lost_metas_count(there.lost), lost_there);
    fail_unless_equals_uint64(lost_metas_count(back.lost), lost_back);
    fail_unless(got.monotonic == TRUE && got.base_time == 123456789);
    g_free(large.data);
    lost_metas_free(there.lost);
    lost_metas_free(back.lost);
    gst_buffer_unref(buffer);
    return arrived;
}

/* Caps as media and back, which must be possible; all of their fields travel. layout: of frames, if
 * it is not the caps' own. */
static inline GstCaps *caps_there_and_back(GstCaps *caps, const struct gpud_layout *layout)
{
    g_autofree gchar *reason = NULL;
    struct gpud_media media;
    GstVideoInfo info;
    guint left_out;

    fail_unless(media_from_caps(&media, caps, &(struct caps_rest){0}, &left_out) && left_out == 0);
    if (layout)
        media.picture.layout = *layout;
    GstCaps *back = media_to_caps(&media, NULL, &info, &reason);
    fail_unless(back != NULL, "%s: %s", media.picture.layout.format, reason);
    return back;
}

/* Media of which no caps are made, for a reason that says so. */
static inline void expect_no_caps(const struct gpud_media *media, const gchar *says,
                                  const gchar *what)
{
    g_autofree gchar *reason = NULL;
    GstVideoInfo info;

    fail_if(media_to_caps(media, NULL, &info, &reason), "%s", what);
    fail_unless(reason != NULL && strlen(reason) > 20 && strstr(reason, says), "%s: %s", what,
                reason);
}

#endif
