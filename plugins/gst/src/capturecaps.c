/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A capture card's modes as caps. */
#include "src/capturecaps.h"
#include "wire/caps.h"

#include <gst/video/video.h>

static void set_size(GstStructure *structure, const char *name, uint32_t min, uint32_t max,
                     uint32_t step)
{
    if (min >= max) {
        gst_structure_set(structure, name, G_TYPE_INT, (gint)max, NULL);
        return;
    }
    /* GStreamer wants both ends to be multiples of the step. */
    gint by = step > 0 && min % step == 0 && max % step == 0 ? (gint)step : 1;
    GValue range = G_VALUE_INIT;
    g_value_init(&range, GST_TYPE_INT_RANGE);
    gst_value_set_int_range_step(&range, (gint)min, (gint)max, by);
    gst_structure_take_value(structure, name, &range);
}

/* Exactly the rates that the driver lists. */
static void set_rates(GstStructure *structure, const struct gpud_capture_mode *mode)
{
    GValue list = G_VALUE_INIT, rate = G_VALUE_INIT;

    if (mode->rate_count == 0 && mode->fps_num > 0 && mode->slowest.num > 0) {
        gst_structure_set(structure, "framerate", GST_TYPE_FRACTION_RANGE, (gint)mode->slowest.num,
                          (gint)mode->slowest.den, (gint)mode->fps_num, (gint)mode->fps_den, NULL);
        return;
    }
    if (mode->rate_count < 2) { /* 0/1: the driver does not say */
        gst_structure_set(structure, "framerate", GST_TYPE_FRACTION, (gint)mode->fps_num,
                          (gint)MAX(mode->fps_den, 1), NULL);
        return;
    }
    g_value_init(&list, GST_TYPE_LIST);
    g_value_init(&rate, GST_TYPE_FRACTION);
    for (guint i = 0; i < mode->rate_count; i++) {
        gst_value_set_fraction(&rate, (gint)mode->rates[i].num, (gint)mode->rates[i].den);
        gst_value_list_append_value(&list, &rate);
    }
    g_value_unset(&rate);
    gst_structure_take_value(structure, "framerate", &list);
}

static gboolean is_of_fields(enum gpud_scan scan)
{
    return scan == GPUD_SCAN_INTERLEAVED || scan == GPUD_SCAN_ALTERNATE;
}

/* Bayer caps have no interlace mode, since sensors do not produce fields. NULL: the media is
 * incomplete. */
static GstCaps *caps_of(const struct gpud_media *media)
{
    struct gpud_media said = *media;

    if (g_strcmp0(video_media_type(said.picture.layout.format), VIDEO_BAYER) == 0)
        said.picture.scan = GPUD_SCAN_UNKNOWN;
    return media_known_caps(&said);
}

static GstCapsFeatures *features_of(enum gpud_scan scan)
{
    return scan == GPUD_SCAN_ALTERNATE
               ? gst_caps_features_new(GST_CAPS_FEATURE_FORMAT_INTERLACED, NULL)
               : NULL;
}

/* A structure of the mode's format, without a size, as a mode has many. */
static GstStructure *format_structure(const struct gpud_capture_mode *mode)
{
    struct gpud_media media = {
        .picture =
            {
                .layout =
                    {.width = 1, .height = 1, .planes = 1, .plane = {{0, 1, 1, 1}}, .size = 1},
                .pixel_aspect = {mode->aspect_x, mode->aspect_y},
                .scan = mode->scan,
                .colorimetry = mode->colorimetry,
            },
    };

    g_strlcpy(media.picture.layout.format, mode->format, sizeof(media.picture.layout.format));
    GstCaps *caps = caps_of(&media);
    GstStructure *structure = caps ? gst_structure_copy(gst_caps_get_structure(caps, 0)) : NULL;
    gst_clear_caps(&caps);
    return structure;
}

static GstStructure *mode_structure(const struct gpud_capture_mode *mode)
{
    const gchar *type = video_media_type(mode->format);

    if (!type || mode->width_max == 0 || mode->height_max == 0 ||
        (g_str_equal(type, VIDEO_BAYER) && is_of_fields(mode->scan)))
        return NULL;
    GstStructure *structure = format_structure(mode);
    if (!structure)
        return NULL;
    set_size(structure, "width", mode->width_min, mode->width_max, mode->width_step);
    set_size(structure, "height", mode->height_min, mode->height_max, mode->height_step);
    set_rates(structure, mode);
    return structure;
}

/* The negotiated caps may lack a field that is known now, but must not contradict one. */
static gboolean agrees(const GstStructure *wanted, const GstStructure *made, const gchar *field)
{
    const GValue *a = gst_structure_get_value(wanted, field);
    const GValue *b = gst_structure_get_value(made, field);

    return !a || !b || gst_value_compare(a, b) == GST_VALUE_EQUAL;
}

gboolean capture_caps_complete(GstCaps **caps, const struct gpud_capture_info *info, gchar **reason)
{
    *caps = gst_caps_make_writable(*caps);
    GstStructure *structure = gst_caps_get_structure(*caps, 0);
    GstCaps *current = capture_caps_current(info);
    const GstStructure *made = current ? gst_caps_get_structure(current, 0) : NULL;

    for (gint i = 0; made && i < gst_structure_n_fields(made); i++) {
        const gchar *name = gst_structure_nth_field_name(made, (guint)i);
        const GValue *value = gst_structure_get_value(made, name);
        if (!*reason && !agrees(structure, made, name)) {
            gchar *wanted = gst_value_serialize(gst_structure_get_value(structure, name));
            gchar *has = gst_value_serialize(value);
            *reason = g_strdup_printf("its driver makes %s %s of %s: ask for that with a "
                                      "capsfilter, or for none",
                                      name, has, wanted);
            g_free(wanted);
            g_free(has);
        }
        gst_structure_set_value(structure, name, value);
    }
    gst_clear_caps(&current);
    return !*reason;
}

GstCaps *capture_caps_current(const struct gpud_capture_info *info)
{
    return caps_of(&info->media);
}

/* Merges a mode into one that differs only in the format, or appends it: elements downstream
 * compare every pair of structures. gst_caps_simplify() would change the order. */
static void add_mode(GstCaps *caps, GstStructure *structure, enum gpud_scan scan)
{
    GValue formats = G_VALUE_INIT, both = G_VALUE_INIT;
    GstCapsFeatures *features = features_of(scan);

    for (guint i = 0; i < gst_caps_get_size(caps) && structure; i++) {
        GstStructure *other = gst_caps_get_structure(caps, i);
        if (!gst_structure_has_name(other, gst_structure_get_name(structure)))
            continue;
        g_value_init(&formats, G_VALUE_TYPE(gst_structure_get_value(other, "format")));
        g_value_copy(gst_structure_get_value(other, "format"), &formats);
        gst_structure_set_value(other, "format", gst_structure_get_value(structure, "format"));
        gboolean same = gst_structure_is_equal(other, structure);
        if (same && gst_value_union(&both, &formats, gst_structure_get_value(structure, "format")))
            gst_structure_take_value(other, "format", &both);
        else
            gst_structure_set_value(other, "format", &formats);
        g_value_unset(&formats);
        if (same)
            g_clear_pointer(&structure, gst_structure_free);
    }
    if (structure)
        gst_caps_append_structure_full(caps, structure, features);
    else
        g_clear_pointer(&features, gst_caps_features_free);
}

static void add_modes(GstCaps *caps, const struct gpud_capture_mode *modes, gsize count,
                      const gchar *type)
{
    for (gsize i = 0; i < count; i++) {
        GstStructure *structure = mode_structure(&modes[i]);
        if (structure && gst_structure_has_name(structure, type))
            add_mode(caps, structure, modes[i].scan);
        else
            g_clear_pointer(&structure, gst_structure_free);
    }
}

GstCaps *capture_caps_of_modes(const struct gpud_capture_mode *modes, gsize count)
{
    GstCaps *caps = gst_caps_new_empty();

    add_modes(caps, modes, count, VIDEO_RAW); /* before Bayer, which cannot be shown as it is */
    add_modes(caps, modes, count, VIDEO_BAYER);
    return caps;
}

/* Appends the modes of one format, or (NULL) all. */
static void list_modes(struct gpud_capture *capture, const gchar *format, GArray *modes)
{
    guint before = modes->len;
    gsize count = format ? 64 : 512, room; /* enough for most cards, which are then asked once */

    do {
        room = count;
        g_array_set_size(modes, before + (guint)room);
        struct gpud_capture_mode *listed = &g_array_index(modes, struct gpud_capture_mode, before);
        listed->size = sizeof(*listed);
        count = gpud_capture_list_modes(capture, format, listed, room);
    } while (count > room);
    g_array_set_size(modes, before + (guint)count);
}

/* Beyond this, all modes are listed: most elements that accept many formats accept all. */
#define FORMATS_FEW 8

/* The formats that the filter names; NULL: any, or too many. */
static GPtrArray *named_formats(const GstCaps *filter)
{
    GPtrArray *formats = g_ptr_array_new();
    gboolean few = filter && !gst_caps_is_any(filter);

    for (guint i = 0; few && i < gst_caps_get_size(filter); i++) {
        const GValue *value = gst_structure_get_value(gst_caps_get_structure(filter, i), "format");
        guint count = value && GST_VALUE_HOLDS_LIST(value) ? gst_value_list_get_size(value) : 1;
        few = value && formats->len + count <= FORMATS_FEW;
        for (guint k = 0; few && k < count; k++) {
            const gchar *format = g_value_get_string(
                GST_VALUE_HOLDS_LIST(value) ? gst_value_list_get_value(value, k) : value);
            if (!g_ptr_array_find_with_equal_func(formats, format, g_str_equal, NULL))
                g_ptr_array_add(formats, (gpointer)format);
        }
    }
    if (!few)
        g_clear_pointer(&formats, g_ptr_array_unref);
    return formats;
}

GstCaps *capture_caps(struct gpud_capture *capture, const GstCaps *filter)
{
    GArray *modes = g_array_new(FALSE, TRUE, sizeof(struct gpud_capture_mode));
    GPtrArray *formats = named_formats(filter);

    for (guint i = 0; formats && i < formats->len; i++)
        list_modes(capture, formats->pdata[i], modes);
    if (!formats)
        list_modes(capture, NULL, modes);
    GstCaps *caps =
        capture_caps_of_modes((struct gpud_capture_mode *)(void *)modes->data, modes->len);
    g_clear_pointer(&formats, g_ptr_array_unref);
    g_array_unref(modes);
    return caps;
}
