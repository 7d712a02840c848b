/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What can be said of CUDA without CUDA: names and caps. */
#include "memory/gpu.h"

#include <string.h>

gboolean caps_are_cuda(const GstCaps *caps)
{
    if (!caps || gst_caps_is_empty(caps) || gst_caps_is_any(caps))
        return FALSE;
    return gst_caps_features_contains(gst_caps_get_features(caps, 0), CUDA_FEATURE);
}

static gboolean is_not_cuda(GstCapsFeatures *features, GstStructure *structure, gpointer user)
{
    return !gst_caps_features_contains(features, CUDA_FEATURE);
}

GstCaps *caps_without_cuda(GstCaps *caps)
{
    caps = gst_caps_make_writable(caps);
    gst_caps_filter_and_map_in_place(caps, (GstCapsFilterMapFunc)is_not_cuda, NULL);
    return caps;
}

gint gpu_ordinal_of_name(const gchar *device)
{
    guint64 ordinal;

    if (!device || !g_str_has_prefix(device, "cuda:") ||
        !g_ascii_string_to_unsigned(device + strlen("cuda:"), 10, 0, G_MAXINT, &ordinal, NULL))
        return -1;
    return (gint)ordinal;
}
