/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/blocks.h"

#include "wire/videoinfo.h"

#include <string.h>

#define BLOCK_CAPS                                                                        \
    "audio/x-raw, format = (string) " GST_AUDIO_FORMATS_ALL                               \
    ", layout = (string) { interleaved, non-interleaved }, rate = (int) [ 1, max ]"       \
    ", channels = (int) [ 1, 64 ]; meta/x-st-2038; meta/x-klv; closedcaption/x-cea-608; " \
    "closedcaption/x-cea-708; text/x-raw; application/x-json; application/octet-stream"
G_STATIC_ASSERT(GPUD_AUDIO_CHANNELS_MAX == 64);

GstCaps *blocks_template_caps(void)
{
    return gst_caps_from_string(BLOCK_CAPS);
}

static gboolean is_block(const GstStructure *structure)
{
    return !gst_structure_has_name(structure, VIDEO_RAW) &&
           !gst_structure_has_name(structure, VIDEO_BAYER);
}

gboolean blocks_are_caps(const GstCaps *caps)
{
    return !gst_caps_is_any(caps) && gst_caps_get_size(caps) > 0 &&
           is_block(gst_caps_get_structure(caps, 0));
}

#define RDMA_PREFIX "rdma://"

/* A path is that of a stream if the core named the socket. */
gboolean blocks_is_stream(const gchar *address)
{
    gboolean is_network = address && g_str_has_prefix(address, RDMA_PREFIX);
    const gchar *name = is_network ? strchr(address + strlen(RDMA_PREFIX), '/') : address;
    const gchar *slash = name ? strrchr(name, '/') : NULL;

    if (is_network)
        return slash != name;
    return slash && (strchr(address, ':') ? strchr(slash, '!') != NULL : TRUE);
}

static gboolean is_like(GstCapsFeatures *features, GstStructure *structure, gpointer blocks)
{
    return is_block(structure) == GPOINTER_TO_INT(blocks);
}

GstCaps *blocks_keep_like(GstCaps *caps, const GstCaps *others)
{
    caps = gst_caps_make_writable(caps);
    gst_caps_filter_and_map_in_place(caps, (GstCapsFilterMapFunc)is_like,
                                     GINT_TO_POINTER(blocks_are_caps(others)));
    return caps;
}

/* GStreamer requires a mask of more than two channels, even if their positions are unknown. */
static void add_mask(GstStructure *structure)
{
    gint channels = 0;

    if (gst_structure_get_int(structure, "channels", &channels) && channels > 2 &&
        !gst_structure_has_field(structure, "channel-mask"))
        gst_structure_set(structure, "channel-mask", GST_TYPE_BITMASK, G_GUINT64_CONSTANT(0), NULL);
}

gboolean blocks_are_known(const struct gpud_media *media)
{
    GstCaps *all = blocks_template_caps();
    gboolean known = blocks_are_sound(media);

    /* The first of them is sound. */
    for (guint i = 1; !known && i < gst_caps_get_size(all); i++)
        known = gst_structure_has_name(gst_caps_get_structure(all, i), media->data.type);
    gst_caps_unref(all);
    return known;
}

gboolean blocks_complete_caps(const struct gpud_media *media, GstCaps *caps)
{
    GstStructure *structure = gst_caps_get_structure(caps, 0);
    GstAudioInfo info;

    gst_structure_remove_fields(structure, "samples-per-block", "max-size", NULL);
    add_mask(structure);
    return !blocks_are_sound(media) || gst_audio_info_from_caps(&info, caps);
}

gboolean blocks_find_samples(const GstAudioInfo *info, GstBuffer *buffer, gsize *samples,
                             gsize offsets[GPUD_AUDIO_CHANNELS_MAX])
{
    const GstAudioMeta *meta = gst_buffer_get_audio_meta(buffer);
    gboolean planar = info->layout == GST_AUDIO_LAYOUT_NON_INTERLEAVED;
    gsize size = gst_buffer_get_size(buffer), frame = (gsize)info->bpf;

    if (planar)
        frame /= (gsize)info->channels;
    if (meta && (!gst_audio_info_is_equal(&meta->info, info) || (planar && !meta->offsets)))
        return FALSE;
    *samples = meta ? meta->samples : size / (gsize)info->bpf;
    if (*samples > size / (gsize)info->bpf || (!meta && size % (gsize)info->bpf != 0))
        return FALSE;
    for (gint i = 0; i < (planar ? info->channels : 1); i++) {
        /* Without a meta the planes follow each other. */
        offsets[i] = meta && meta->offsets ? meta->offsets[i] : (gsize)i * *samples * frame;
        if (offsets[i] > size || *samples * frame > size - offsets[i])
            return FALSE;
    }
    return TRUE;
}
