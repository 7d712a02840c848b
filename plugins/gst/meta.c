/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What GStreamer knows about a picture beside its pixels, as the bytes that travel with a frame.
 *
 *     bytes = head (see timing.c), items
 *     item  = u16 kind, u16 size, size bytes                       unknown kinds are skipped by
 * their size
 */
#include "meta.h"
#include "pack.h"

#include <gst/video/video.h>
#include <gst/video/gstvideometa.h>

enum item {
    ITEM_TIMECODE = 1,
    ITEM_CAPTION,
    ITEM_REFERENCE_TIMESTAMP,
    ITEM_CROP,
    ITEM_AFD,
    ITEM_BAR,
    ITEM_CUSTOM,
};

GstCaps *meta_submit_reference(void)
{
    static gsize once;
    static GstCaps *caps;

    if (g_once_init_enter(&once)) {
        caps = gst_caps_new_empty_simple("timestamp/x-gpudirect-submit");
        GST_MINI_OBJECT_FLAG_SET(caps, GST_MINI_OBJECT_FLAG_MAY_BE_LEAKED);
        g_once_init_leave(&once, 1);
    }
    return caps;
}

void meta_set_submit_time(GstBuffer *buffer, GstClockTime time)
{
    GstCaps *ours = meta_submit_reference();
    gpointer state = NULL;
    GstMeta *meta;

    while ((meta = gst_buffer_iterate_meta_filtered(buffer, &state,
                                                    GST_REFERENCE_TIMESTAMP_META_API_TYPE))) {
        GstReferenceTimestampMeta *stamp = (GstReferenceTimestampMeta *)meta;
        if (stamp->reference == ours) {
            stamp->timestamp = time;
            return;
        }
    }
    GstReferenceTimestampMeta *stamp =
        gst_buffer_add_reference_timestamp_meta(buffer, ours, time, GST_CLOCK_TIME_NONE);
    /* Stays when the buffer comes back to its pool: the next frame only writes the number. */
    GST_META_FLAG_SET(&stamp->parent, GST_META_FLAG_POOLED);
}

/* --- writing ------------------------------------------------------------------------------ */

static void write_timecode(struct pack *pack, const GstVideoTimeCode *code)
{
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
}

static void write_reference(struct pack *pack, const GstReferenceTimestampMeta *meta, guint *lost)
{
    pack_u64(pack, meta->timestamp);
    pack_u64(pack, meta->duration);
    pack_structure(pack, gst_caps_get_structure(meta->reference, 0), lost);
}

/* Returns the kind, or 0 where there is none. */
static enum item write_item(struct pack *pack, GstMeta *meta, guint *lost)
{
    GType api = meta->info->api;

    if (api == GST_VIDEO_TIME_CODE_META_API_TYPE) {
        write_timecode(pack, &((GstVideoTimeCodeMeta *)meta)->tc);
        return ITEM_TIMECODE;
    }
    if (api == GST_VIDEO_CAPTION_META_API_TYPE) {
        const GstVideoCaptionMeta *caption = (GstVideoCaptionMeta *)meta;
        pack_u32(pack, caption->caption_type);
        pack_bytes(pack, caption->data, caption->size);
        return ITEM_CAPTION;
    }
    if (api == GST_REFERENCE_TIMESTAMP_META_API_TYPE) {
        write_reference(pack, (GstReferenceTimestampMeta *)meta, lost);
        return ITEM_REFERENCE_TIMESTAMP;
    }
    if (api == GST_VIDEO_CROP_META_API_TYPE) {
        const GstVideoCropMeta *crop = (GstVideoCropMeta *)meta;
        pack_u32(pack, crop->x);
        pack_u32(pack, crop->y);
        pack_u32(pack, crop->width);
        pack_u32(pack, crop->height);
        return ITEM_CROP;
    }
    if (api == GST_VIDEO_AFD_META_API_TYPE) {
        const GstVideoAFDMeta *afd = (GstVideoAFDMeta *)meta;
        pack_u8(pack, afd->field);
        pack_u8(pack, (uint8_t)afd->spec);
        pack_u8(pack, (uint8_t)afd->afd);
        return ITEM_AFD;
    }
    if (api == GST_VIDEO_BAR_META_API_TYPE) {
        const GstVideoBarMeta *bar = (GstVideoBarMeta *)meta;
        pack_u8(pack, bar->field);
        pack_u8(pack, bar->is_letterbox ? 1 : 0);
        pack_u32(pack, bar->bar_data1);
        pack_u32(pack, bar->bar_data2);
        return ITEM_BAR;
    }
    if (gst_meta_info_is_custom(meta->info)) {
        pack_structure(pack, gst_custom_meta_get_structure((GstCustomMeta *)meta), lost);
        return ITEM_CUSTOM;
    }
    return 0;
}

/* The planes travel as the layout; GstParentBufferMeta and our own stamp mean nothing on the other
 * side. */
static gboolean stays_behind(const GstMeta *meta)
{
    return meta->info->api == GST_VIDEO_META_API_TYPE ||
           meta->info->api == GST_PARENT_BUFFER_META_API_TYPE ||
           (meta->info->api == GST_REFERENCE_TIMESTAMP_META_API_TYPE &&
            ((const GstReferenceTimestampMeta *)meta)->reference == meta_submit_reference());
}

uint32_t meta_encode(GstBuffer *buffer, const struct wire_head *head,
                     uint8_t bytes[GPUD_FRAME_META_MAX], guint *lost)
{
    struct pack pack = {.data = bytes, .size = GPUD_FRAME_META_MAX};
    gpointer state = NULL;
    GstMeta *meta;

    wire_head_pack(&pack, head);
    while ((meta = gst_buffer_iterate_meta(buffer, &state))) {
        if (stays_behind(meta))
            continue;
        struct pack before = pack;
        struct pack header = pack;
        pack_u32(&pack, 0); /* room for kind and size */
        size_t start = pack.used;
        enum item kind = write_item(&pack, meta, lost);
        if (kind == 0 || pack.full) {
            pack = before;
            (*lost)++;
            continue;
        }
        pack_u16(&header, (uint16_t)kind);
        pack_u16(&header, (uint16_t)(pack.used - start));
    }
    return (uint32_t)pack.used;
}

/* --- reading ------------------------------------------------------------------------------ */

static gboolean read_timecode(struct unpack *item, GstBuffer *buffer)
{
    guint fps_n = unpack_u32(item), fps_d = unpack_u32(item), flags = unpack_u32(item);
    guint hours = unpack_u32(item), minutes = unpack_u32(item), seconds = unpack_u32(item);
    guint frames = unpack_u32(item), fields = unpack_u32(item);
    gboolean has_jam = unpack_u8(item);
    gint64 jam_seconds = (gint64)unpack_u64(item);

    if (item->bad || fps_n > G_MAXUINT16 * 16u || fps_d > G_MAXUINT16 || flags > 7)
        return FALSE;
    GDateTime *jam = has_jam ? g_date_time_new_from_unix_utc(jam_seconds) : NULL;
    GstVideoTimeCode *code =
        gst_video_time_code_new(fps_n, fps_d, jam, flags, hours, minutes, seconds, frames, fields);
    gboolean valid = gst_video_time_code_is_valid(code);
    if (valid)
        gst_buffer_add_video_time_code_meta(buffer, code);
    gst_video_time_code_free(code);
    g_clear_pointer(&jam, g_date_time_unref);
    return valid;
}

static gboolean read_caption(struct unpack *item, GstBuffer *buffer)
{
    guint type = unpack_u32(item);

    if (item->bad || item->left == 0 || type < GST_VIDEO_CAPTION_TYPE_CEA608_RAW ||
        type > GST_VIDEO_CAPTION_TYPE_CEA708_CDP)
        return FALSE;
    gst_buffer_add_video_caption_meta(buffer, (GstVideoCaptionType)type, item->data, item->left);
    return TRUE;
}

static gboolean read_reference(struct unpack *item, GstBuffer *buffer)
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

static gboolean read_crop(struct unpack *item, GstBuffer *buffer)
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

/* GStreamer takes no reserved codes, and DVB has none for "unavailable". */
static gboolean afd_is_known(guint8 spec, guint8 afd)
{
    if (spec > GST_VIDEO_AFD_SPEC_SMPTE_ST2016_1 || afd > 15 || afd == 1 ||
        (afd >= 5 && afd <= 7) || afd == 12)
        return FALSE;
    return afd != GST_VIDEO_AFD_UNAVAILABLE || spec != GST_VIDEO_AFD_SPEC_DVB_ETSI;
}

static gboolean read_afd(struct unpack *item, GstBuffer *buffer)
{
    guint8 field = unpack_u8(item), spec = unpack_u8(item), afd = unpack_u8(item);

    if (item->bad || field > 1 || !afd_is_known(spec, afd))
        return FALSE;
    gst_buffer_add_video_afd_meta(buffer, field, (GstVideoAFDSpec)spec, (GstVideoAFDValue)afd);
    return TRUE;
}

static gboolean read_bar(struct unpack *item, GstBuffer *buffer)
{
    guint8 field = unpack_u8(item);
    gboolean letterbox = unpack_u8(item) != 0;
    guint first = unpack_u32(item), second = unpack_u32(item);

    if (item->bad || field > 1)
        return FALSE;
    gst_buffer_add_video_bar_meta(buffer, field, letterbox, first, second);
    return TRUE;
}

/* A custom meta can only be made where the application registered it. */
static gboolean read_custom(struct unpack *item, GstBuffer *buffer)
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
    }
    gst_structure_free(structure);
    return meta != NULL;
}

static gboolean read_item(uint16_t kind, struct unpack *item, GstBuffer *buffer)
{
    switch (kind) {
    case ITEM_TIMECODE:
        return read_timecode(item, buffer);
    case ITEM_CAPTION:
        return read_caption(item, buffer);
    case ITEM_REFERENCE_TIMESTAMP:
        return read_reference(item, buffer);
    case ITEM_CROP:
        return read_crop(item, buffer);
    case ITEM_AFD:
        return read_afd(item, buffer);
    case ITEM_BAR:
        return read_bar(item, buffer);
    case ITEM_CUSTOM:
        return read_custom(item, buffer);
    default:
        return FALSE;
    }
}

gboolean meta_decode(const uint8_t *bytes, uint32_t size, struct wire_head *head, GstBuffer *buffer,
                     guint *lost)
{
    struct unpack unpack = {.data = bytes, .left = size};

    if (!wire_head_unpack(&unpack, head))
        return FALSE;
    while (!unpack.bad && unpack.left > 0) {
        uint16_t kind = unpack_u16(&unpack);
        uint16_t length = unpack_u16(&unpack);
        struct unpack item = {.data = unpack_bytes(&unpack, length), .left = length};
        if (!unpack.bad && !read_item(kind, &item, buffer))
            (*lost)++;
    }
    return !unpack.bad;
}
