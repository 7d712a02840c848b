/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GStreamer's analytics library is opened when the first of its metas arrives: core/base/library.h
 * says how. */
#include "base/library.h"

#ifdef GPUD_STUB_JUMP /* else it is linked */
/* clang-format off */
#define ANALYTICS(F)                                                                          \
    F(gst_analytics_cls_mtd_get_length) F(gst_analytics_cls_mtd_get_level)                    \
    F(gst_analytics_cls_mtd_get_mtd_type) F(gst_analytics_cls_mtd_get_quark)                  \
    F(gst_analytics_mtd_get_mtd_type) F(gst_analytics_od_mtd_get_mtd_type)                    \
    F(gst_analytics_od_mtd_get_obj_type) F(gst_analytics_od_mtd_get_oriented_location)        \
    F(gst_analytics_relation_get_length) F(gst_analytics_relation_meta_add_cls_mtd)           \
    F(gst_analytics_relation_meta_add_oriented_od_mtd)                                        \
    F(gst_analytics_relation_meta_add_tracking_mtd)                                           \
    F(gst_analytics_relation_meta_get_direct_related) F(gst_analytics_relation_meta_get_mtd)  \
    F(gst_analytics_relation_meta_get_relation) F(gst_analytics_relation_meta_set_relation)   \
    F(gst_analytics_tracking_mtd_get_info) F(gst_analytics_tracking_mtd_get_mtd_type)         \
    F(gst_analytics_tracking_mtd_set_lost) F(gst_analytics_tracking_mtd_update_last_seen)     \
    F(gst_buffer_add_analytics_relation_meta_full) F(gst_buffer_add_tensor_meta)              \
    F(gst_buffer_get_analytics_relation_meta) F(gst_buffer_get_tensor_meta)                   \
    F(gst_tensor_alloc) F(gst_tensor_free) F(gst_tensor_meta_set)
/* clang-format on */
GPUD_STUBS(gstanalytics, ANALYTICS, "libgstanalytics-1.0.so.0", "libgstreamer-plugins-bad1.0-0")
#endif
