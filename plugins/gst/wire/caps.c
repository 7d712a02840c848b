/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Caps of every kind of media, and the media that they describe. */
#include "wire/codec.h"

#include <gpudirect/channel.h>
#include <gst/allocators/gstdmabuf.h>
#include <gst/video/video.h>
#include <string.h>

/* === dmabufcaps ============================================================================== */

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

GstCaps *caps_into_dmabufs(const GstCaps *caps)
{
    GstCaps *made = gst_caps_new_empty();

    for (guint i = 0; i < gst_caps_get_size(caps); i++) {
        const GstStructure *structure = gst_caps_get_structure(caps, i);
        /* Video in the CPU's memory, in whole pictures. */
        if (!gst_structure_has_name(structure, VIDEO_RAW) ||
            !gst_caps_features_is_equal(gst_caps_get_features(caps, i),
                                        GST_CAPS_FEATURES_MEMORY_SYSTEM_MEMORY))
            continue;
        GstStructure *drm = gst_structure_copy(structure);
        if (name_drm_formats(drm))
            append(made, drm);
        else
            gst_structure_free(drm);
        append(made, gst_structure_copy(structure));
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

GstCaps *caps_filter_dmabufs(GstCaps *caps, const GstCaps *filter)
{
    gboolean wants = !filter || !gst_caps_is_any(filter);

    for (guint i = 0; wants && filter && i < gst_caps_get_size(filter); i++)
        wants = is_dmabuf(filter, i);
    if (wants)
        return caps;
    caps = gst_caps_make_writable(caps);
    for (guint i = gst_caps_get_size(caps); i > 0; i--)
        if (is_dmabuf(caps, i - 1))
            gst_caps_remove_structure(caps, i - 1);
    return caps;
}

/* === videoinfo =============================================================================== */

#define PATTERNS 4
#define DEPTHS 5

/* GStreamer's own description of a grey format, under another name. */
struct mosaic {
    gchar name[12];
    GstVideoFormatInfo format;
};

static gpointer make_mosaics(gpointer ignored)
{
    static const gchar *const patterns[PATTERNS] = {"bggr", "gbrg", "grbg", "rggb"};
    static const gchar *const depths[DEPTHS] = {"", "10le", "12le", "14le", "16le"};
    static struct mosaic mosaics[PATTERNS * DEPTHS];

    for (guint i = 0; i < PATTERNS * DEPTHS; i++) {
        struct mosaic *mosaic = &mosaics[i];
        guint depth = i / PATTERNS;
        g_snprintf(mosaic->name, sizeof(mosaic->name), "%s%s", patterns[i % PATTERNS],
                   depths[depth]);
        mosaic->format = *gst_video_format_get_info(depth > 0 ? GST_VIDEO_FORMAT_GRAY16_LE
                                                              : GST_VIDEO_FORMAT_GRAY8);
        mosaic->format.name = mosaic->name;
    }
    return mosaics;
}

static const struct mosaic *find_mosaic(const gchar *format)
{
    static GOnce once = G_ONCE_INIT;
    const struct mosaic *mosaics = g_once(&once, make_mosaics, NULL);

    for (guint i = 0; format && i < PATTERNS * DEPTHS; i++)
        if (strcmp(mosaics[i].name, format) == 0)
            return &mosaics[i];
    return NULL;
}

gboolean video_info_from_caps(GstVideoInfo *info, const GstCaps *caps)
{
    if (!gst_caps_is_fixed(caps))
        return FALSE;
    if (caps_are_dmabufs(caps)) {
        GstCaps *plain = caps_out_of_dmabufs(caps);
        gboolean read = plain && gst_video_info_from_caps(info, plain);
        gst_clear_caps(&plain);
        return read;
    }
    const GstStructure *structure = gst_caps_get_structure(caps, 0);
    if (!gst_structure_has_name(structure, VIDEO_BAYER))
        return gst_video_info_from_caps(info, caps);

    const struct mosaic *mosaic = find_mosaic(gst_structure_get_string(structure, "format"));
    gint width = 0, height = 0;
    if (!mosaic || !gst_structure_get_int(structure, "width", &width) ||
        !gst_structure_get_int(structure, "height", &height) || width < 1 || height < 1 ||
        !gst_video_info_set_format(info, mosaic->format.format, (guint)width, (guint)height))
        return FALSE;
    info->finfo = &mosaic->format;
    gst_structure_get_fraction(structure, "framerate", &info->fps_n, &info->fps_d);
    gst_structure_get_fraction(structure, "pixel-aspect-ratio", &info->par_n, &info->par_d);
    return TRUE;
}

const gchar *video_media_type(const gchar *format)
{
    if (find_mosaic(format))
        return VIDEO_BAYER;
    return format && gst_video_format_from_string(format) > GST_VIDEO_FORMAT_ENCODED ? VIDEO_RAW
                                                                                     : NULL;
}

/* === blocks ================================================================================== */

#define SOUND_CAPS                                                                  \
    "audio/x-raw, format = (string) " GST_AUDIO_FORMATS_ALL                         \
    ", layout = (string) { interleaved, non-interleaved }, rate = (int) [ 1, max ]" \
    ", channels = (int) [ 1, 64 ]"

/* Other data travel as well; an element that asks for caps without a filter of its own, as v4l2src
 * does, finds these. */
#define DATA_CAPS                                                                             \
    "meta/x-st-2038; meta/x-klv; closedcaption/x-cea-608; closedcaption/x-cea-708; "          \
    "text/x-raw; application/x-json; application/octet-stream; other/tensors; "               \
    "video/x-h264; video/x-h265; video/x-av1; video/x-vp8; video/x-vp9; video/mpeg; "         \
    "video/x-theora; video/x-prores; video/x-dnxhd; video/x-dv; video/x-h263; video/x-fwht; " \
    "image/jpeg; image/x-jpc; image/png; "                                                    \
    "audio/mpeg; audio/x-opus; audio/x-vorbis; audio/x-flac; audio/x-ac3; audio/x-alaw; "     \
    "audio/x-mulaw; "                                                                         \
    "application/x-rtp; application/x-rtcp; video/mpegts; video/x-matroska; video/webm; "     \
    "video/quicktime; application/ogg"

G_STATIC_ASSERT(GPUD_AUDIO_CHANNELS_MAX == 64);

GstCaps *blocks_known_caps(void)
{
    return gst_caps_from_string(SOUND_CAPS "; " DATA_CAPS);
}

/* Raw formats have their own caps, and those of GStreamer 0.10 are no formats any more. */
static gboolean is_data(const gchar *type)
{
    return !g_str_has_prefix(type, VIDEO_RAW) && !g_str_has_prefix(type, "audio/x-raw") &&
           !g_str_equal(type, VIDEO_BAYER);
}

/* Data lie in memory that the CPU can map. */
static gboolean is_data_here(GstCapsFeatures *features, GstStructure *structure, gpointer user)
{
    return is_data(gst_structure_get_name(structure)) &&
           (gst_caps_features_is_any(features) ||
            gst_caps_features_is_equal(features, GST_CAPS_FEATURES_MEMORY_SYSTEM_MEMORY));
}

GstCaps *blocks_pick_data(const GstCaps *caps)
{
    GstCaps *data = gst_caps_copy(caps);

    gst_caps_filter_and_map_in_place(data, (GstCapsFilterMapFunc)is_data_here, NULL);
    for (guint i = 0; i < gst_caps_get_size(data); i++)
        gst_caps_set_features(data, i, NULL);
    return data;
}

gboolean blocks_are_coded_pictures(const GstCaps *caps)
{
    const gchar *type = gst_structure_get_name(gst_caps_get_structure(caps, 0));

    return g_str_has_prefix(type, "video/") || g_str_has_prefix(type, "image/");
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

/* A path is that of a stream if the core named the socket. */
gboolean blocks_is_stream(const gchar *address)
{
    const gchar *host = gpud_address_get_host(address);
    const gchar *name = host ? strchr(host, '/') : address;
    const gchar *slash = name ? strrchr(name, '/') : NULL;

    if (host)
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

/* The caps of a peer's blocks, without the size that only the core knows. NULL: GStreamer knows no
 * such sound, or the type is not a name of data, or exceeds the account of new names. */
static GstCaps *blocks_to_caps(const struct gpud_media *media, struct names *names)
{
    gboolean known = blocks_are_sound(media) || media->kind == GPUD_MEDIA_TENSOR ||
                     (is_data(media->data.type) && names_take(names, media->data.type));
    GstAudioInfo info;
    gint channels = 0;

    GstCaps *caps = known ? media_known_caps(media) : NULL;
    if (!caps)
        return NULL;
    GstStructure *structure = gst_caps_get_structure(caps, 0);
    gst_structure_remove_fields(structure, "samples-per-block", "max-size", NULL);
    /* GStreamer requires a mask of more than two channels, even if their positions are unknown. */
    if (gst_structure_get_int(structure, "channels", &channels) && channels > 2 &&
        !gst_structure_has_field(structure, "channel-mask"))
        gst_structure_set(structure, "channel-mask", GST_TYPE_BITMASK, G_GUINT64_CONSTANT(0), NULL);
    if (blocks_are_sound(media) && !gst_audio_info_from_caps(&info, caps))
        gst_clear_caps(&caps);
    return caps;
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

/* === names =================================================================================== */

struct names {
    guint taken; /* under lock; those below, too */
    guint64 left_out;
};

static GMutex lock;
static GHashTable *accounts; /* by address */
static struct names shared;

struct names *names_of(const gchar *address)
{
    g_mutex_lock(&lock);
    if (!accounts)
        accounts = g_hash_table_new(g_str_hash, g_str_equal);
    struct names *names = g_hash_table_lookup(accounts, address);
    if (!names) {
        names = g_new0(struct names, 1);
        g_hash_table_insert(accounts, g_strdup(address), names);
    }
    g_mutex_unlock(&lock);
    return names;
}

gboolean names_take(struct names *names, const gchar *name)
{
    struct names *account = names ? names : &shared;

    if (g_quark_try_string(name))
        return TRUE;
    g_mutex_lock(&lock);
    gboolean affordable = account->taken < NAMES_MAX;
    if (affordable) {
        account->taken++;
        /* From GStreamer 1.26 on structures create no quarks for their names: without this one, the
         * same name would be charged each time. */
        g_quark_from_string(name);
    } else {
        account->left_out++;
    }
    g_mutex_unlock(&lock);
    return affordable;
}

guint64 names_count_left_out(struct names *names)
{
    g_mutex_lock(&lock);
    guint64 count = (names ? names : &shared)->left_out;
    g_mutex_unlock(&lock);
    return count;
}

/* === caps ==================================================================================== */

/* --- the extra fields of a media ----------------------------------------------------------- */

/* The plain type of this name (as GStreamer has it in serialised caps) or, for NULL, `type` if it
 * is one. Fields of other types, G_TYPE_INVALID here, are neither sent nor created from peers'
 * texts. */
static GType plain_type(const gchar *name, GType type)
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

    for (guint i = 0; i < G_N_ELEMENTS(types); i++)
        if (name ? g_str_equal(types[i].name, name) : types[i].type == type)
            return types[i].type;
    return G_TYPE_INVALID;
}

/* GStreamer's own parsers log warnings about values out of range, which a peer must not cause. */
static gboolean read_fraction(GValue *value, const gchar *text)
{
    gchar **parts = g_strsplit(text, "/", 2);
    gint64 numerator, denominator;
    gboolean read = g_strv_length(parts) == 2 &&
                    g_ascii_string_to_signed(parts[0], 10, -G_MAXINT, G_MAXINT, &numerator, NULL) &&
                    g_ascii_string_to_signed(parts[1], 10, 1, G_MAXINT, &denominator, NULL);

    if (read)
        gst_value_set_fraction(value, (gint)numerator, (gint)denominator);
    g_strfreev(parts);
    return read;
}

/* Leaves *value unset where the text is not a value of the type. text: may be written to. */
static void caps_read_value(GValue *value, const gchar *type_name, gchar *text)
{
    GType type = plain_type(type_name, G_TYPE_INVALID);
    gboolean read;

    /* GLib's regular expressions, which read dates, must see nothing else. */
    if (type == G_TYPE_INVALID || !g_utf8_validate(text, -1, NULL))
        return;
    g_value_init(value, type);
    if (type == GST_TYPE_FRACTION) {
        read = read_fraction(value, text);
    } else if (type == GST_TYPE_DATE_TIME) {
        GstDateTime *time = date_time_from_text(text);
        read = time != NULL;
        if (time)
            g_value_take_boxed(value, time);
    } else {
        read = gst_value_deserialize(value, text);
    }
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
        caps_read_value(&value, type_name, text);
        /* The name is charged first, because GStreamer keeps each name that is looked up. */
        if (G_IS_VALUE(&value) && !g_str_equal(name, MEDIA_REST) && names_take(names, name) &&
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
    GType type = G_VALUE_TYPE(value);

    /* A picture has a member for the flags of its views. */
    if (!plain_type(NULL, type) && type != GST_TYPE_VIDEO_MULTIVIEW_FLAGSET)
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

/* Moves a field to `rest`, which is made where it is needed. */
static void move_field(GstStructure *structure, const gchar *name, GstStructure **rest)
{
    if (!*rest)
        *rest = gst_structure_new_empty("caps");
    gst_structure_set_value(*rest, name, gst_structure_get_value(structure, name));
    gst_structure_remove_field(structure, name);
}

/* Moves all fields that are not plain. */
static void move_unplain_fields(GstStructure *structure, GstStructure **rest)
{
    for (gint i = gst_structure_n_fields(structure) - 1; i >= 0; i--) {
        const gchar *name = gst_structure_nth_field_name(structure, (guint)i);
        if (!plain_type(NULL, gst_structure_get_field_type(structure, name)))
            move_field(structure, name, rest);
    }
}

/* FALSE: it is too long. */
static gboolean pack_rest(const GstStructure *fields, struct caps_rest *rest, guint *left_out)
{
    struct pack pack = {.data = rest->data, .size = sizeof(rest->data)};

    *left_out = 0;
    pack_structure(&pack, fields, left_out);
    rest->size = pack.used;
    rest->hash = 2166136261u; /* FNV-1a; another hash tells other headers, and no more */
    for (gsize i = 0; i < pack.used; i++)
        rest->hash = (rest->hash ^ rest->data[i]) * 16777619u;
    rest->hash = MAX(rest->hash, 1);
    *left_out += pack.full;
    return !pack.full;
}

guint32 media_rest_hash(const struct gpud_media *media)
{
    const gchar *field = strstr(media->extra, MEDIA_REST "=(uint)");
    gint64 hash = field ? g_ascii_strtoll(field + strlen(MEDIA_REST "=(uint)"), NULL, 10) : 0;

    return hash > 0 && hash <= G_MAXUINT32 ? (guint32)hash : 0;
}

gboolean caps_add_rest(GstCaps *caps, const struct caps_rest *rest, struct names *names)
{
    struct unpack unpack = {.data = rest->data, .left = rest->size, .names = names};

    if (rest->hash == 0)
        return TRUE;
    GstStructure *fields = caps_rest_is_whole(rest) ? unpack_structure(&unpack) : NULL;
    for (gint i = 0; fields && i < gst_structure_n_fields(fields); i++) {
        const gchar *name = gst_structure_nth_field_name(fields, (guint)i);
        if (!gst_structure_has_field(gst_caps_get_structure(caps, 0), name))
            gst_caps_set_value(caps, name, gst_structure_get_value(fields, name));
    }
    gboolean read = fields != NULL;
    g_clear_pointer(&fields, gst_structure_free);
    return read;
}

gboolean media_from_caps(struct gpud_media *media, const GstCaps *caps, struct caps_rest *rest,
                         guint *left_out)
{
    GstCaps *plain = caps_are_dmabufs(caps) ? caps_out_of_dmabufs(caps) : gst_caps_copy(caps);
    struct gpud_error error;
    gboolean made = FALSE, packed = TRUE;

    *left_out = 0;
    rest->hash = 0;
    rest->size = 0;
    if (!plain)
        return FALSE;
    GstStructure *structure = gst_structure_copy(gst_caps_get_structure(plain, 0));
    GstStructure *others = NULL;
    gboolean data = is_data(gst_structure_get_name(structure));
    gst_caps_unref(plain);
    if (data)
        move_unplain_fields(structure, &others);
    gst_structure_filter_and_map_in_place(structure, clean_field, NULL);
    for (;;) {
        if (others && packed) {
            packed = pack_rest(others, rest, left_out);
            gst_structure_set(structure, MEDIA_REST, G_TYPE_UINT, rest->hash, NULL);
        }
        gchar *text = gst_structure_to_string(structure);
        made = gpud_media_from_string(media, text, &error) == GPUD_OK;
        g_free(text);
        const gchar *longest = made ? NULL : longest_field(structure);
        if (!longest || !packed || g_str_equal(longest, MEDIA_REST))
            break;
        if (data) {
            move_field(structure, longest, &others);
        } else {
            gst_structure_remove_field(structure, longest);
            ++*left_out;
        }
    }
    g_clear_pointer(&others, gst_structure_free);
    gst_structure_free(structure);
    return made && packed;
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
        return g_strdup("the sender's data have a type that is not one of data, or too many types "
                        "that are new here");
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
        GstCaps *blocks = blocks_to_caps(media, names);
        if (blocks)
            add_extra(gst_caps_get_structure(blocks, 0), media->extra, names);
        else
            *reason = explain_unknown(media);
        return blocks;
    }
    if (layout.modifier || !video_media_type(layout.format)) {
        *reason = explain_unknown(media);
        return NULL;
    }
    GstCaps *caps = media_known_caps(media);
    GstStructure *structure = caps ? gst_caps_get_structure(caps, 0) : NULL;
    gint numerator = 1, denominator;
    if (structure) {
        add_extra(structure, media->extra, names);
        gst_structure_get_fraction(structure, "pixel-aspect-ratio", &numerator, &denominator);
    }
    /* Aspect ratios of 0 or less would overflow in elements, and honest caps never have them. */
    if (!structure || numerator <= 0 || !video_info_from_caps(info, caps))
        *reason = g_strdup_printf("the sender's caps do not describe its frames of %ux%u %s",
                                  layout.width, layout.height, layout.format);
    else if (!layout_fits_info(&layout, info))
        *reason = g_strdup_printf("the sender's frames do not lie as %ux%u %s requires",
                                  layout.width, layout.height, layout.format);
    if (*reason)
        gst_clear_caps(&caps);
    return caps;
}
