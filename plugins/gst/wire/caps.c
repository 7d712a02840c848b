/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GStreamer's caps and GstVideoInfo on one side, the core's layout and media on the other. */
#include "wire/caps.h"
#include "wire/blocks.h"
#include "wire/datetime.h"
#include "wire/dmabufcaps.h"
#include "wire/pack.h"

#include <string.h>

gboolean caps_are_fields(const GstCaps *caps)
{
    const gchar *mode = gst_structure_get_string(gst_caps_get_structure(caps, 0), "interlace-mode");

    return mode && strcmp(mode, "alternate") == 0;
}

/* --- the extra fields of a media ----------------------------------------------------------- */

/* The types of plain values, by GStreamer's names in serialised caps. Fields of other types are
 * neither sent nor created from a peer's text. G_TYPE_INVALID: there are no more. */
static GType plain_type(guint i, const gchar **name)
{
    const struct {
        const gchar *name;
        GType type;
    } types[] = {
        {"int", G_TYPE_INT},
        {"uint", G_TYPE_UINT},
        {"gint64", G_TYPE_INT64},
        {"guint64", G_TYPE_UINT64},
        {"double", G_TYPE_DOUBLE},
        {"float", G_TYPE_FLOAT},
        {"boolean", G_TYPE_BOOLEAN},
        {"string", G_TYPE_STRING},
        {"fraction", GST_TYPE_FRACTION},
        {"bitmask", GST_TYPE_BITMASK},
        {"datetime", GST_TYPE_DATE_TIME},
    };

    if (i >= G_N_ELEMENTS(types))
        return G_TYPE_INVALID;
    *name = types[i].name;
    return types[i].type;
}

static GType type_of_name(const gchar *wanted)
{
    const gchar *name = "";
    GType type = G_TYPE_INVALID;

    for (guint i = 0; (type = plain_type(i, &name)) && !g_str_equal(name, wanted); i++)
        ;
    return type;
}

static gboolean type_travels(GType wanted)
{
    const gchar *name;
    GType type;

    for (guint i = 0; (type = plain_type(i, &name)) && type != wanted; i++)
        ;
    return type || wanted == GST_TYPE_VIDEO_MULTIVIEW_FLAGSET; /* a picture has a member for it */
}

/* GStreamer's own parsers log warnings about values out of range, which a peer must not cause. */
static gboolean read_fraction(GValue *value, const gchar *text)
{
    gchar *slash = strchr(text, '/');
    gint64 numerator, denominator;

    if (!slash)
        return FALSE;
    *slash = '\0';
    if (!g_ascii_string_to_signed(text, 10, -G_MAXINT, G_MAXINT, &numerator, NULL) ||
        !g_ascii_string_to_signed(slash + 1, 10, 1, G_MAXINT, &denominator, NULL))
        return FALSE;
    gst_value_set_fraction(value, (gint)numerator, (gint)denominator);
    return TRUE;
}

static gboolean read_date_time(GValue *value, const gchar *text)
{
    GstDateTime *time = date_time_from_text(text);

    if (time)
        g_value_take_boxed(value, time);
    return time != NULL;
}

/* Leaves *value unset where the text is no value of the type. text: may be written to. */
static void read_value(GValue *value, const gchar *type_name, gchar *text)
{
    GType type = type_of_name(type_name);

    /* GLib's regular expressions, which read dates, must see nothing else. */
    if (type == G_TYPE_INVALID || !g_utf8_validate(text, -1, NULL))
        return;
    g_value_init(value, type);
    gboolean read = type == GST_TYPE_FRACTION    ? read_fraction(value, text)
                    : type == GST_TYPE_DATE_TIME ? read_date_time(value, text)
                                                 : gst_value_deserialize(value, text);
    if (read && type == G_TYPE_STRING) {
        gchar *clean = pack_clean_text(g_value_get_string(value));
        read = clean != NULL;
        g_value_take_string(value, clean);
    }
    if (!read)
        g_value_unset(value);
}

/* The end of a value, which gpud_media_get_layout() found to be one. */
static const gchar *value_end(const gchar *at)
{
    gboolean quoted = *at == '"';

    for (at += quoted; quoted ? *at != '"' : *at && *at != ','; at++)
        if (*at == '\\')
            at++;
    return at + quoted;
}

/* Adds the extra fields, except those that the media has already. names: the account for new names;
 * fields beyond it are left out. */
static void add_extra(GstStructure *structure, const gchar *extra, struct names *names)
{
    while (*extra) {
        const gchar *type = strstr(extra, "=(") + 2, *begin = strchr(type, ')') + 1;
        const gchar *end = value_end(begin);
        gchar *name = g_strndup(extra, (gsize)(type - 2 - extra));
        gchar *type_name = g_strndup(type, (gsize)(begin - 1 - type));
        gchar *text = g_strndup(begin, (gsize)(end - begin));
        GValue value = G_VALUE_INIT;
        read_value(&value, type_name, text);
        /* The name is charged first, because GStreamer keeps each name that is looked up. */
        if (G_IS_VALUE(&value) && names_take(names, name) &&
            !gst_structure_has_field(structure, name))
            gst_structure_take_value(structure, name, &value);
        else if (G_IS_VALUE(&value))
            g_value_unset(&value);
        g_free(name);
        g_free(type_name);
        g_free(text);
        extra = end + strspn(end, ", ");
    }
}

/* --- caps and media ------------------------------------------------------------------------ */

static gboolean clean_field(GQuark field, GValue *value, gpointer ignored)
{
    if (!type_travels(G_VALUE_TYPE(value)))
        return FALSE;
    if (G_VALUE_HOLDS_STRING(value))
        g_value_take_string(value, pack_spaced_text(g_value_get_string(value)));
    return TRUE;
}

static const gchar *longest_field(const GstStructure *structure)
{
    const gchar *longest = NULL;
    gsize most = 0;

    for (gint i = 0; i < gst_structure_n_fields(structure); i++) {
        const gchar *name = gst_structure_nth_field_name(structure, (guint)i);
        gchar *text = gst_value_serialize(gst_structure_get_value(structure, name));
        gsize length = strlen(name) + (text ? strlen(text) : 0);
        if (length > most)
            longest = name;
        most = MAX(most, length);
        g_free(text);
    }
    return longest;
}

gboolean media_from_caps(struct gpud_media *media, const GstCaps *caps, guint *left_out)
{
    GstCaps *plain = caps_are_dmabufs(caps) ? caps_out_of_dmabufs(caps) : gst_caps_copy(caps);
    struct gpud_error error;
    gboolean made = FALSE;

    *left_out = 0;
    if (!plain)
        return FALSE;
    GstStructure *structure = gst_structure_copy(gst_caps_get_structure(plain, 0));
    gst_caps_unref(plain);
    gst_structure_filter_and_map_in_place(structure, clean_field, NULL);
    for (;;) {
        gchar *text = gst_structure_to_string(structure);
        made = gpud_media_from_string(media, text, &error) == GPUD_OK;
        g_free(text);
        const gchar *longest = made ? NULL : longest_field(structure);
        if (!longest)
            break;
        gst_structure_remove_field(structure, longest);
        ++*left_out;
    }
    gst_structure_free(structure);
    return made;
}

/* Rejects aspect ratios that would overflow in elements, and that honest caps never have. */
static gboolean aspect_is_sane(const GstStructure *structure)
{
    gint numerator, denominator;

    return !gst_structure_get_fraction(structure, "pixel-aspect-ratio", &numerator, &denominator) ||
           numerator > 0;
}

GstCaps *media_known_caps(const struct gpud_media *media)
{
    struct gpud_media known = *media;
    gchar text[GPUD_MEDIA_TEXT_MAX];

    known.extra[0] = '\0';
    if (gpud_media_to_string(&known, text, sizeof(text), NULL) != GPUD_OK)
        return NULL;
    return gst_caps_from_string(text);
}

static gchar *explain_unknown(const struct gpud_media *media)
{
    if (blocks_are_sound(media))
        return g_strdup("GStreamer does not know the sender's format of sound");
    if (media->kind != GPUD_MEDIA_PICTURE)
        return g_strdup("the sender sends data of a type that the elements do not support");
    if (media->picture.layout.modifier)
        return g_strdup_printf("the sender's pictures are arranged by a GPU's driver (DRM modifier "
                               "0x%016" G_GINT64_MODIFIER "x), and the elements need them row by "
                               "row",
                               media->picture.layout.modifier);
    gchar *name = layout_format_name(&media->picture.layout);
    gchar *reason = g_strdup_printf("GStreamer does not know the sender's format \"%s\"", name);
    g_free(name);
    return reason;
}

GstCaps *media_to_caps(const struct gpud_media *media, struct names *names, GstVideoInfo *info,
                       gchar **reason)
{
    struct gpud_layout layout;
    struct gpud_error error;

    if (gpud_media_get_layout(media, &layout, &error) != GPUD_OK) {
        *reason = g_strdup_printf("the sender's format is invalid: %s", error.reason);
        return NULL;
    }
    if (media->kind != GPUD_MEDIA_PICTURE) {
        GstCaps *blocks = blocks_are_known(media) ? media_known_caps(media) : NULL;
        if (blocks && blocks_complete_caps(media, blocks))
            add_extra(gst_caps_get_structure(blocks, 0), media->extra, names);
        else
            gst_clear_caps(&blocks);
        if (!blocks)
            *reason = explain_unknown(media);
        return blocks;
    }
    if (layout.modifier || !video_media_type(layout.format)) {
        *reason = explain_unknown(media);
        return NULL;
    }
    GstCaps *caps = media_known_caps(media);
    GstStructure *structure = caps ? gst_caps_get_structure(caps, 0) : NULL;
    if (structure)
        add_extra(structure, media->extra, names);
    if (!structure || !aspect_is_sane(structure) || !video_info_from_caps(info, caps))
        *reason = g_strdup_printf("the sender's caps do not describe its frames of %ux%u %s",
                                  layout.width, layout.height, layout.format);
    else if (!layout_fits_info(&layout, info))
        *reason = g_strdup_printf("the sender's frames do not lie as %ux%u %s requires",
                                  layout.width, layout.height, layout.format);
    if (*reason)
        gst_clear_caps(&caps);
    return caps;
}
