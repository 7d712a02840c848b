/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The metas of inference as bytes and back. Decoders and overlays trust a tensor's dimensions and
 * an object's position: the reader refuses those that contradict the data or overflow, and the
 * writer does not send them. */
#include "wire/codec.h"

#include "base/library.h"
#include <gst/analytics/analytics.h>
#include <math.h>

extern struct gpud_library gpud_library_gstanalytics __attribute__((weak)); /* stubs.c */

static gboolean open_library(const gchar **why)
{
    gchar unused[256];

    if (gpud_library_open(&gpud_library_gstanalytics, unused, sizeof(unused)))
        return TRUE;
    *why = "it needs GStreamer's analytics library: install libgstreamer-plugins-bad1.0-0, 1.26 or "
           "later";
    return FALSE;
}

/* The types are found by name, which does not need the library. */
GType analytics_tensors_type(void)
{
    return g_type_from_name("GstTensorMetaAPI");
}

GType analytics_relations_type(void)
{
    return g_type_from_name("GstAnalyticsRelationMetaAPI");
}

/* --- tensors ------------------------------------------------------------------------------ */

/* u8 count, count × { quark id, u8 data type, layout, order of dimensions, number of dimensions,
 * u32 each of these, u32 size, bytes } */
#define TENSOR_DIMS_MAX 16

/* Of a dimension, and of a tensor: what the largest metas hold of 4 bits each. */
#define TENSOR_ELEMENTS_MAX (2 * GPUD_LARGE_META_MAX)

/* By GstTensorDataType: integers, signed and unsigned, floats and bfloat16. */
static const guint8 tensor_bits[] = {4, 8, 16, 32, 64, 4, 8, 16, 32, 64, 16, 32, 64, 16};

/* Whether the data have the size that the dimensions give. A dimension of 0 is an empty tensor:
 * only in caps does it stand for one of any size. */
static gboolean tensor_is_whole(const GstTensor *tensor)
{
    guint64 elements = 1;

    if (!tensor->data || tensor->layout != GST_TENSOR_LAYOUT_CONTIGUOUS ||
        (guint)tensor->data_type >= G_N_ELEMENTS(tensor_bits) ||
        (guint)tensor->dims_order > GST_TENSOR_DIM_ORDER_COL_MAJOR || tensor->num_dims == 0 ||
        tensor->num_dims > TENSOR_DIMS_MAX)
        return FALSE;
    for (gsize i = 0; i < tensor->num_dims; i++)
        if (tensor->dims[i] > TENSOR_ELEMENTS_MAX ||
            (elements *= tensor->dims[i]) > TENSOR_ELEMENTS_MAX)
            return FALSE;
    return gst_buffer_get_size(tensor->data) == (elements * tensor_bits[tensor->data_type] + 7) / 8;
}

gboolean analytics_write_tensors(struct pack *pack, const GstMeta *meta, guint *skipped)
{
    const GstTensorMeta *tensors = (const GstTensorMeta *)meta;

    if (tensors->num_tensors > G_MAXUINT8)
        return FALSE;
    pack_u8(pack, (uint8_t)tensors->num_tensors);
    for (gsize i = 0; i < tensors->num_tensors; i++) {
        const GstTensor *tensor = tensors->tensors[i];
        if (!tensor_is_whole(tensor))
            return FALSE;
        pack_quark(pack, tensor->id);
        pack_u8(pack, (uint8_t)tensor->data_type);
        pack_u8(pack, (uint8_t)tensor->layout);
        pack_u8(pack, (uint8_t)tensor->dims_order);
        pack_u8(pack, (uint8_t)tensor->num_dims);
        for (gsize dim = 0; dim < tensor->num_dims; dim++)
            pack_u32(pack, (uint32_t)tensor->dims[dim]);
        if (!pack_data(pack, tensor->data) && !pack->full)
            return FALSE;
    }
    return TRUE;
}

/* NULL: the bytes are malformed. */
static GstTensor *read_tensor(struct unpack *item)
{
    GQuark id = unpack_quark(item);
    guint8 data_type = unpack_u8(item), layout = unpack_u8(item), order = unpack_u8(item);
    guint8 dims = unpack_u8(item);

    if (item->bad || dims > TENSOR_DIMS_MAX)
        return NULL;
    GstTensor *tensor = gst_tensor_alloc(dims);
    tensor->id = id;
    tensor->data_type = (GstTensorDataType)data_type;
    tensor->layout = (GstTensorLayout)layout;
    tensor->dims_order = (GstTensorDimOrder)order;
    for (guint i = 0; i < dims; i++)
        tensor->dims[i] = unpack_u32(item);
    tensor->data = unpack_data(item);
    if (!tensor_is_whole(tensor))
        g_clear_pointer(&tensor, gst_tensor_free);
    return tensor;
}

gboolean analytics_read_tensors(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    guint count = unpack_u8(item), done = 0;
    GstTensor *tensor;

    if (!open_library(why) || item->bad || gst_buffer_get_tensor_meta(buffer))
        return FALSE;
    GstTensor **tensors = g_new0(GstTensor *, count);
    while (done < count && (tensor = read_tensor(item)))
        tensors[done++] = tensor;
    if (done == count) {
        gst_tensor_meta_set(gst_buffer_add_tensor_meta(buffer), count, tensors);
        return TRUE;
    }
    while (done > 0)
        gst_tensor_free(tensors[--done]);
    g_free(tensors);
    return FALSE;
}

/* --- objects, classes and trackings ------------------------------------------------------- */

/* GStreamer calls one of them a mtd:
 *
 *     u16 count, count × { u8 kind, mtd }, each { u16 from, u16 to, u8 relation } to the end
 *
 *     an object   quark type, i32 x, y, width, height, float rotation, confidence
 *     classes     u16 count, count × { float confidence, quark class }
 *     tracking    u64 id, first seen, last seen, u8 lost
 *
 * The number is bounded because GStreamer keeps a byte for each pair of them. */
#define MTDS_MAX 1024

/* GStreamer calculates with positions as gints: these cannot overflow. */
static gboolean is_in_range(const gint box[4], gfloat rotation)
{
    for (guint i = 0; i < 4; i++)
        if (box[i] < -GPUD_DIMENSION_MAX || box[i] > GPUD_DIMENSION_MAX)
            return FALSE;
    return isfinite(rotation);
}

static gboolean write_object(struct pack *pack, const GstAnalyticsMtd *mtd)
{
    gfloat rotation = 0, confidence = 0;
    gint box[4] = {0};

    gst_analytics_od_mtd_get_oriented_location(mtd, &box[0], &box[1], &box[2], &box[3], &rotation,
                                               &confidence);
    pack_quark(pack, gst_analytics_od_mtd_get_obj_type(mtd));
    for (guint i = 0; i < 4; i++)
        pack_u32(pack, (uint32_t)box[i]);
    pack_float(pack, rotation);
    pack_float(pack, confidence);
    return is_in_range(box, rotation);
}

static gboolean read_object(struct unpack *item, GstAnalyticsRelationMeta *meta)
{
    GQuark type = unpack_quark(item);
    GstAnalyticsODMtd mtd;
    gint box[4];

    for (guint i = 0; i < 4; i++)
        box[i] = (gint)unpack_u32(item);
    gfloat rotation = unpack_float(item), confidence = unpack_float(item);
    return !item->bad && is_in_range(box, rotation) &&
           gst_analytics_relation_meta_add_oriented_od_mtd(meta, type, box[0], box[1], box[2],
                                                           box[3], rotation, confidence, &mtd);
}

static gboolean write_classes(struct pack *pack, const GstAnalyticsMtd *mtd)
{
    gsize count = gst_analytics_cls_mtd_get_length(mtd);

    pack_u16(pack, (uint16_t)count);
    for (gsize i = 0; i < count && !pack->full; i++) {
        pack_float(pack, gst_analytics_cls_mtd_get_level(mtd, i));
        pack_quark(pack, gst_analytics_cls_mtd_get_quark(mtd, i));
    }
    return count <= G_MAXUINT16;
}

static gboolean read_classes(struct unpack *item, GstAnalyticsRelationMeta *meta)
{
    guint count = unpack_u16(item);
    GstAnalyticsClsMtd mtd;

    if (item->bad || count > item->left / (sizeof(uint32_t) + sizeof(uint16_t)))
        return FALSE;
    g_autofree gfloat *levels = g_new(gfloat, count + 1); /* never NULL, which would be an error */
    g_autofree GQuark *classes = g_new(GQuark, count + 1);
    for (guint i = 0; i < count; i++) {
        levels[i] = unpack_float(item);
        classes[i] = unpack_quark(item);
    }
    return !item->bad &&
           gst_analytics_relation_meta_add_cls_mtd(meta, count, levels, classes, &mtd);
}

static gboolean write_tracking(struct pack *pack, const GstAnalyticsMtd *mtd)
{
    GstClockTime first = 0, last = 0;
    guint64 id = 0;
    gboolean lost = FALSE;

    gst_analytics_tracking_mtd_get_info(mtd, &id, &first, &last, &lost);
    pack_u64(pack, id);
    pack_u64(pack, first);
    pack_u64(pack, last);
    pack_u8(pack, lost ? 1 : 0);
    return TRUE;
}

static gboolean read_tracking(struct unpack *item, GstAnalyticsRelationMeta *meta)
{
    guint64 id = unpack_u64(item);
    GstClockTime first = unpack_u64(item), last = unpack_u64(item);
    gboolean lost = unpack_u8(item) != 0;
    GstAnalyticsTrackingMtd mtd;

    if (item->bad || !gst_analytics_relation_meta_add_tracking_mtd(meta, id, first, &mtd))
        return FALSE;
    gst_analytics_tracking_mtd_update_last_seen(&mtd, last);
    if (lost)
        gst_analytics_tracking_mtd_set_lost(&mtd);
    return TRUE;
}

static const struct {
    GstAnalyticsMtdType (*type)(void);
    gboolean (*write)(struct pack *pack, const GstAnalyticsMtd *mtd); /* FALSE: leave it out */
    gboolean (*read)(struct unpack *item, GstAnalyticsRelationMeta *meta);
} mtd_kinds[] = {
    {gst_analytics_od_mtd_get_mtd_type, write_object, read_object},
    {gst_analytics_cls_mtd_get_mtd_type, write_classes, read_classes},
    {gst_analytics_tracking_mtd_get_mtd_type, write_tracking, read_tracking},
};

static gboolean write_mtd(struct pack *pack, const GstAnalyticsMtd *mtd)
{
    GstAnalyticsMtdType type = gst_analytics_mtd_get_mtd_type(mtd);

    for (guint8 kind = 0; kind < G_N_ELEMENTS(mtd_kinds); kind++)
        if (mtd_kinds[kind].type() == type) {
            pack_u8(pack, kind);
            return mtd_kinds[kind].write(pack, mtd);
        }
    return FALSE;
}

gboolean analytics_write_relations(struct pack *pack, const GstMeta *meta, guint *skipped)
{
    GstAnalyticsRelationMeta *relations = (GstAnalyticsRelationMeta *)meta;
    const gchar *why;
    gsize length = open_library(&why) ? gst_analytics_relation_get_length(relations) : G_MAXSIZE;
    guint16 numbers[MTDS_MAX]; /* by id, of those that are written, which are counted from 1 */
    guint16 count = 0;
    struct pack counted = *pack;
    GstAnalyticsMtd mtd;

    if (length > MTDS_MAX)
        return FALSE;
    pack_u16(pack, 0);
    for (guint id = 0; id < length && !pack->full; id++) {
        struct pack before = *pack;
        numbers[id] = 0;
        if (!gst_analytics_relation_meta_get_mtd(relations, id, GST_ANALYTICS_MTD_TYPE_ANY, &mtd))
            continue; /* it was removed */
        if (write_mtd(pack, &mtd)) {
            numbers[id] = ++count;
        } else {
            *pack = before;
            (*skipped)++;
        }
    }
    pack_u16(&counted, count);
    for (guint from = 0; from < length && !pack->full; from++) {
        gpointer state = NULL;
        while (numbers[from] && gst_analytics_relation_meta_get_direct_related(
                                    relations, from, GST_ANALYTICS_REL_TYPE_ANY,
                                    GST_ANALYTICS_MTD_TYPE_ANY, &state, &mtd)) {
            if (mtd.id >= length || !numbers[mtd.id])
                continue;
            pack_u16(pack, (uint16_t)(numbers[from] - 1));
            pack_u16(pack, (uint16_t)(numbers[mtd.id] - 1));
            pack_u8(pack,
                    (uint8_t)gst_analytics_relation_meta_get_relation(relations, from, mtd.id));
        }
    }
    return TRUE;
}

static gboolean read_mtd(struct unpack *item, GstAnalyticsRelationMeta *meta)
{
    guint kind = unpack_u8(item);

    return !item->bad && kind < G_N_ELEMENTS(mtd_kinds) && mtd_kinds[kind].read(item, meta);
}

static gboolean read_relation(struct unpack *item, GstAnalyticsRelationMeta *meta, guint count)
{
    guint from = unpack_u16(item), to = unpack_u16(item), relation = unpack_u8(item);

    return !item->bad && from < count && to < count &&
           gst_analytics_relation_meta_set_relation(meta, relation, from, to);
}

gboolean analytics_read_relations(struct unpack *item, GstBuffer *buffer, const gchar **why)
{
    guint count = unpack_u16(item);

    /* The shortest has 3 bytes. */
    if (!open_library(why) || item->bad || count > MIN(MTDS_MAX, item->left / 3))
        return FALSE;
    /* A buffer of a pool keeps an empty one, from an element that added it there. */
    GstAnalyticsRelationMeta *old = gst_buffer_get_analytics_relation_meta(buffer);
    if (old && gst_analytics_relation_get_length(old) > 0)
        return FALSE;
    if (old)
        gst_buffer_remove_meta(buffer, (GstMeta *)old);
    /* With some room: what elements add later makes it grow by as much again. */
    GstAnalyticsRelationMeta *meta = gst_buffer_add_analytics_relation_meta_full(
        buffer, &(GstAnalyticsRelationMetaInitParams){count + 5, 1024});
    GST_META_FLAG_UNSET(meta, GST_META_FLAG_POOLED);
    gboolean good = TRUE;
    for (guint i = 0; i < count && good; i++)
        good = read_mtd(item, meta);
    while (good && item->left > 0)
        good = read_relation(item, meta, count);
    if (!good)
        gst_buffer_remove_meta(buffer, (GstMeta *)meta);
    return good;
}
