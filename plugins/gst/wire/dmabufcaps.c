/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/dmabufcaps.h"

#include <gst/allocators/gstdmabuf.h>
#include <gst/video/video.h>

#define HAS_DRM_FORMATS GST_CHECK_VERSION(1, 24, 0)

static gboolean is_dmabuf(const GstCaps *caps, guint index)
{
    const GstCapsFeatures *features = gst_caps_get_features(caps, index);

    return !gst_caps_features_is_any(features) &&
           gst_caps_features_contains(features, GST_CAPS_FEATURE_MEMORY_DMABUF);
}

gboolean caps_are_dmabufs(const GstCaps *caps)
{
    return caps && !gst_caps_is_any(caps) && !gst_caps_is_empty(caps) && is_dmabuf(caps, 0);
}

/* --- formats of the kernel's DRM ---------------------------------------------------------- */

static gboolean is_drm(const GstCaps *caps)
{
    const GstStructure *structure = gst_caps_get_structure(caps, 0);

    return g_strcmp0(gst_structure_get_string(structure, "format"), "DMA_DRM") == 0;
}

#if HAS_DRM_FORMATS

#define LINEAR G_GUINT64_CONSTANT(0) /* DRM_FORMAT_MOD_LINEAR */

static void append_drm_format(GValue *list, const gchar *name)
{
    GstVideoFormat format = gst_video_format_from_string(name);
    guint32 fourcc = gst_video_dma_drm_fourcc_from_format(format);
    GValue value = G_VALUE_INIT;

    if (fourcc == 0 || gst_video_dma_drm_fourcc_to_format(fourcc) != format)
        return;
    g_value_init(&value, G_TYPE_STRING);
    g_value_take_string(&value, gst_video_dma_drm_fourcc_to_string(fourcc, LINEAR));
    gst_value_list_append_and_take_value(list, &value);
}

/* FALSE: none of the structure's formats is one of DRM's. */
static gboolean name_drm_formats(GstStructure *structure)
{
    const GValue *formats = gst_structure_get_value(structure, "format");
    GValue list = G_VALUE_INIT;

    if (!formats)
        return FALSE;
    g_value_init(&list, GST_TYPE_LIST);
    if (G_VALUE_HOLDS_STRING(formats))
        append_drm_format(&list, g_value_get_string(formats));
    for (guint i = 0; GST_VALUE_HOLDS_LIST(formats) && i < gst_value_list_get_size(formats); i++)
        append_drm_format(&list, g_value_get_string(gst_value_list_get_value(formats, i)));
    guint count = gst_value_list_get_size(&list);
    if (count == 1)
        gst_structure_set_value(structure, "drm-format", gst_value_list_get_value(&list, 0));
    else if (count > 1)
        gst_structure_set_value(structure, "drm-format", &list);
    g_value_unset(&list);
    gst_structure_set(structure, "format", G_TYPE_STRING, "DMA_DRM", NULL);
    return count > 0;
}

/* FALSE: the format is unknown, or not linear. */
static gboolean name_plain_format(const GstCaps *caps, GstStructure *structure)
{
    GstVideoInfoDmaDrm drm;
    GstVideoInfo info;

    if (!gst_video_info_dma_drm_from_caps(&drm, caps) || drm.drm_modifier != LINEAR ||
        !gst_video_info_dma_drm_to_video_info(&drm, &info))
        return FALSE;
    gst_structure_set(structure, "format", G_TYPE_STRING, GST_VIDEO_INFO_NAME(&info), NULL);
    gst_structure_remove_field(structure, "drm-format");
    return TRUE;
}

#else

static gboolean name_drm_formats(GstStructure *structure)
{
    return FALSE;
}

static gboolean name_plain_format(const GstCaps *caps, GstStructure *structure)
{
    return FALSE;
}

#endif

/* --- translation -------------------------------------------------------------------------- */

GstCaps *caps_out_of_dmabufs(const GstCaps *caps)
{
    GstStructure *structure = gst_structure_copy(gst_caps_get_structure(caps, 0));

    if (is_drm(caps) && !name_plain_format(caps, structure)) {
        gst_structure_free(structure);
        return NULL;
    }
    return gst_caps_new_full(structure, NULL);
}

static void append(GstCaps *caps, GstStructure *structure)
{
    gst_caps_append_structure_full(caps, structure,
                                   gst_caps_features_new(GST_CAPS_FEATURE_MEMORY_DMABUF, NULL));
}

/* Whether it is video in the CPU's memory, in whole pictures. */
static gboolean is_plain(const GstCaps *caps, guint index)
{
    return gst_structure_has_name(gst_caps_get_structure(caps, index), "video/x-raw") &&
           gst_caps_features_is_equal(gst_caps_get_features(caps, index),
                                      GST_CAPS_FEATURES_MEMORY_SYSTEM_MEMORY);
}

GstCaps *caps_into_dmabufs(const GstCaps *caps)
{
    GstCaps *made = gst_caps_new_empty();

    for (guint i = 0; i < gst_caps_get_size(caps); i++) {
        if (!is_plain(caps, i))
            continue;
        GstStructure *drm = gst_structure_copy(gst_caps_get_structure(caps, i));
        if (name_drm_formats(drm))
            append(made, drm);
        else
            gst_structure_free(drm);
        append(made, gst_structure_copy(gst_caps_get_structure(caps, i)));
    }
    return made;
}

GstCaps *caps_into_dmabufs_like(const GstCaps *caps, const GstCaps *model)
{
    GstCaps *all = caps_into_dmabufs(caps), *found = NULL;

    for (guint i = 0; i < gst_caps_get_size(all) && !found; i++) {
        found = gst_caps_copy_nth(all, i);
        if (is_drm(found) != is_drm(model))
            gst_clear_caps(&found);
    }
    gst_caps_unref(all);
    return found;
}

/* --- negotiation -------------------------------------------------------------------------- */

static gboolean wants_dmabufs(const GstCaps *filter)
{
    gboolean wants = !filter || !gst_caps_is_any(filter);

    for (guint i = 0; wants && filter && i < gst_caps_get_size(filter); i++)
        wants = is_dmabuf(filter, i);
    return wants;
}

GstCaps *caps_filter_dmabufs(GstCaps *caps, const GstCaps *filter)
{
    if (wants_dmabufs(filter))
        return caps;
    caps = gst_caps_make_writable(caps);
    for (guint i = gst_caps_get_size(caps); i > 0; i--)
        if (is_dmabuf(caps, i - 1))
            gst_caps_remove_structure(caps, i - 1);
    return caps;
}
