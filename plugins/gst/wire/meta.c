/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A buffer's metas as the bytes that are sent with a frame.
 *
 *     bytes = head (see wire/timing.c), items
 *     large = items
 *     item  = u16 kind, u16 size, size bytes           unknown kinds are skipped by their size
 *             u16 kind | ITEM_LONG, u32 size, size bytes
 */
#include "wire/meta.h"
#include "wire/metakind.h"

#include <gst/video/gstvideometa.h>

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
    ITEM_COUNT,
};

#define ITEM_LONG 0x8000

static const struct meta_kind *const kinds[ITEM_COUNT] = {
    [ITEM_TIMECODE] = &meta_timecode,
    [ITEM_CAPTION] = &meta_caption,
    [ITEM_REFERENCE_TIMESTAMP] = &meta_reference,
    [ITEM_CROP] = &meta_crop,
    [ITEM_AFD] = &meta_afd,
    [ITEM_BAR] = &meta_bar,
    [ITEM_ROI] = &meta_roi,
    [ITEM_SEI] = &meta_sei,
    [ITEM_ANC] = &meta_anc,
    [ITEM_CLIPPING] = &meta_clipping,
    [ITEM_LEVEL] = &meta_level,
    [ITEM_AFFINE] = &meta_affine,
    [ITEM_PROTECTION] = &meta_protection,
};

static GstCaps *make_reference(const gchar *name)
{
    GstCaps *caps = gst_caps_new_empty_simple(name);

    GST_MINI_OBJECT_FLAG_SET(caps, GST_MINI_OBJECT_FLAG_MAY_BE_LEAKED);
    return caps;
}

GstCaps *meta_submit_reference(void)
{
    static gsize once;
    static GstCaps *caps;

    if (g_once_init_enter(&once)) {
        caps = make_reference("timestamp/x-gpudirect-submit");
        g_once_init_leave(&once, 1);
    }
    return caps;
}

static GstCaps *capture_reference(void)
{
    static gsize once;
    static GstCaps *caps;

    if (g_once_init_enter(&once)) {
        caps = make_reference("timestamp/x-gpudirect-capture");
        g_once_init_leave(&once, 1);
    }
    return caps;
}

void meta_add_submit_time(GstBuffer *buffer, GstClockTime time)
{
    gst_buffer_add_reference_timestamp_meta(buffer, meta_submit_reference(), time,
                                            GST_CLOCK_TIME_NONE);
}

void meta_add_capture_time(GstBuffer *buffer, GstClockTime time)
{
    gst_buffer_add_reference_timestamp_meta(buffer, capture_reference(), time, GST_CLOCK_TIME_NONE);
}

/* --- writing ------------------------------------------------------------------------------ */

/* The kind with a code of its own, or 0. */
static enum item find_kind(GType api)
{
    for (guint i = 0; i < ITEM_COUNT; i++)
        if (kinds[i] && kinds[i]->api() == api)
            return (enum item)i;
    return 0;
}

/* Returns the kind, or 0 where there is none. */
static enum item write_item(struct pack *pack, const GstMeta *meta, guint *skipped)
{
    enum item kind = find_kind(meta->info->api);

    if (kind)
        return kinds[kind]->write(pack, meta, skipped) ? kind : 0;
    if (gst_meta_info_is_custom(meta->info))
        return meta_write_custom(pack, meta, skipped) ? ITEM_CUSTOM : 0;
    return meta_write_serialized(pack, meta) ? ITEM_SERIALIZED : 0;
}

/* Planes are sent as the layout; the other metas here concern this process's memory. */
static gboolean is_of_memory(GType api)
{
    return api == GST_VIDEO_META_API_TYPE || api == GST_PARENT_BUFFER_META_API_TYPE ||
           api == GST_VIDEO_GL_TEXTURE_UPLOAD_META_API_TYPE;
}

/* Metas that need not be sent; our own timestamp is recreated on the other side. */
static gboolean stays_behind(const GstMeta *meta)
{
    return is_of_memory(meta->info->api) ||
           (meta->info->api == GST_REFERENCE_TIMESTAMP_META_API_TYPE &&
            ((const GstReferenceTimestampMeta *)meta)->reference == meta_submit_reference());
}

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

    *skipped = 0;
    pack_u16(&body, 0); /* room for kind and size */
    pack_size(&body, 0, large);
    size_t start = body.used;
    enum item kind = write_item(&body, meta, skipped);
    gboolean fits = !body.full && (large || body.used - start <= G_MAXUINT16);
    if (kind == 0 || !fits) {
        *why = kind == 0 ? "this type has no serialised form" : NULL;
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

static gboolean encode_large(struct meta_large *large, const GstMeta *meta, guint *skipped,
                             const gchar **why)
{
    if (!large->data)
        large->data = g_malloc(large_max(large));
    struct pack pack = {.data = large->data, .size = large_max(large), .used = large->used};
    gboolean encoded = encode_item(&pack, TRUE, meta, skipped, why);
    large->used = (uint32_t)pack.used;
    return encoded;
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
    if (encode_large(large, meta, skipped, why))
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
        if (stays_behind(meta))
            continue;
        if (!encode(&pack, large, meta, &skipped, &why))
            lost_metas_note(loss->lost, loss->owner, type, why);
        else if (skipped > 0)
            lost_metas_note(loss->lost, loss->owner, type,
                            "a field of it is of a type that is not transmitted");
    }
    return (uint32_t)pack.used;
}

/* --- reading ------------------------------------------------------------------------------ */

/* A sender must not use a serializer to bypass the checks of a type that has its own code, nor to
 * move a picture's planes. */
static gboolean may_come_serialized(const GstMetaInfo *info)
{
    return !find_kind(info->api) && !is_of_memory(info->api) && !gst_meta_info_is_custom(info);
}

static gboolean read_item(uint16_t kind, struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    if (kind < ITEM_COUNT && kinds[kind])
        return kinds[kind]->read(item, buffer, why);
    if (kind == ITEM_OFFSET_END) {
        GST_BUFFER_OFFSET_END(buffer) = unpack_u64(item);
        return !item->bad;
    }
    if (kind == ITEM_CUSTOM)
        return meta_read_custom(item, buffer, why);
    if (kind == ITEM_SERIALIZED)
        return meta_read_serialized(item, buffer, may_come_serialized, why);
    *why = "this release does not know its kind";
    return FALSE;
}

/* Counts it under the writer's name for it, if that is known here. */
static void note_unread(uint16_t kind, struct unpack item, const gchar *why,
                        const struct meta_loss *loss)
{
    GstStructure *structure = kind == ITEM_CUSTOM ? unpack_structure(&item) : NULL;
    gchar name[META_NAME_MAX + 1];

    if (kind != ITEM_SERIALIZED || !meta_name_serialized(item, name) ||
        !names_take(loss->names, name))
        g_snprintf(name, sizeof(name), "kind-%u", kind);
    if (structure)
        g_strlcpy(name, gst_structure_get_name(structure), sizeof(name));
    else if (kind < ITEM_COUNT && kinds[kind])
        g_strlcpy(name, kinds[kind]->name, sizeof(name));
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
