/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Values as bytes and back, and none of them trusted. */
#include "wire/codec.h"

#include <gst/video/video.h>
#include <string.h>

/* === datetime ================================================================================ */

/* GStreamer's own parser aborts on some texts, so it gets only those of this shape. */
GstDateTime *date_time_from_text(const gchar *text)
{
    static GRegex *shape;
    static gsize once;

    if (g_once_init_enter(&once)) {
        shape = g_regex_new("^\\d{4}(-\\d\\d(-\\d\\d([T ]([01]\\d|2[0-3]):[0-5]\\d"
                            "(:[0-5]\\d(\\.\\d{1,9})?)?"
                            "(Z|[+-](0\\d|1[01]):?[0-5]\\d|[+-]12:?00)?)?)?)?\\z",
                            G_REGEX_OPTIMIZE, 0, NULL);
        g_once_init_leave(&once, 1);
    }
    return g_regex_match(shape, text, 0, NULL) ? gst_date_time_new_from_iso8601_string(text) : NULL;
}

/* === pack ==================================================================================== */
/* Little-endian bytes in and out, with bounds. The plain numbers come first, then GstStructure:
 *
 *     structure = name, u16 count, count × { name, u8 type, value }
 *     name      = u8 length, characters */

/* --- numbers and bytes -------------------------------------------------------------------- */

static uint8_t *reserve(struct pack *pack, size_t size)
{
    if (pack->full || size > pack->size - pack->used) {
        pack->full = TRUE;
        return NULL;
    }
    uint8_t *at = pack->data + pack->used;
    pack->used += size;
    return at;
}

void pack_u8(struct pack *pack, uint8_t value)
{
    pack_bytes(pack, &value, sizeof(value));
}

void pack_u16(struct pack *pack, uint16_t value)
{
    value = GUINT16_TO_LE(value);
    pack_bytes(pack, &value, sizeof(value));
}

void pack_u32(struct pack *pack, uint32_t value)
{
    value = GUINT32_TO_LE(value);
    pack_bytes(pack, &value, sizeof(value));
}

void pack_u64(struct pack *pack, uint64_t value)
{
    value = GUINT64_TO_LE(value);
    pack_bytes(pack, &value, sizeof(value));
}

void pack_bytes(struct pack *pack, const void *bytes, size_t size)
{
    uint8_t *at = reserve(pack, size);
    if (at)
        memcpy(at, bytes, size);
}

const uint8_t *unpack_bytes(struct unpack *unpack, size_t size)
{
    if (unpack->bad || size > unpack->left) {
        unpack->bad = TRUE;
        return NULL;
    }
    const uint8_t *at = unpack->data;
    unpack->data += size;
    unpack->left -= size;
    return at;
}

static void pack_take(struct unpack *unpack, void *value, size_t size)
{
    const uint8_t *at = unpack_bytes(unpack, size);
    if (at)
        memcpy(value, at, size);
}

uint8_t unpack_u8(struct unpack *unpack)
{
    uint8_t value = 0;
    pack_take(unpack, &value, sizeof(value));
    return value;
}

uint16_t unpack_u16(struct unpack *unpack)
{
    uint16_t value = 0;
    pack_take(unpack, &value, sizeof(value));
    return GUINT16_FROM_LE(value);
}

uint32_t unpack_u32(struct unpack *unpack)
{
    uint32_t value = 0;
    pack_take(unpack, &value, sizeof(value));
    return GUINT32_FROM_LE(value);
}

uint64_t unpack_u64(struct unpack *unpack)
{
    uint64_t value = 0;
    pack_take(unpack, &value, sizeof(value));
    return GUINT64_FROM_LE(value);
}

void pack_float(struct pack *pack, gfloat value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    pack_u32(pack, bits);
}

gfloat unpack_float(struct unpack *unpack)
{
    uint32_t bits = unpack_u32(unpack);
    gfloat value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

gboolean pack_data(struct pack *pack, GstBuffer *buffer)
{
    gsize size = gst_buffer_get_size(buffer);

    pack_u32(pack, (uint32_t)size);
    uint8_t *at = size <= UINT32_MAX ? reserve(pack, size) : NULL;
    gboolean is_read = at && gst_buffer_extract(buffer, 0, at, size) == size;
    if (at && !is_read)
        memset(at, 0, size);
    else if (!at)
        pack->full = TRUE;
    return is_read;
}

GstBuffer *unpack_data(struct unpack *unpack)
{
    uint32_t size = unpack_u32(unpack);
    const uint8_t *at = unpack_bytes(unpack, size);

    if (!at)
        return NULL;
    return size > 0 ? gst_buffer_new_memdup(at, size) : gst_buffer_new();
}

/* --- names -------------------------------------------------------------------------------- */

#define NAME_MAX_LENGTH 128

static void pack_name(struct pack *pack, const char *name)
{
    size_t length = strlen(name);
    if (length > NAME_MAX_LENGTH) {
        pack->full = TRUE;
        return;
    }
    pack_u8(pack, (uint8_t)length);
    pack_bytes(pack, name, length);
}

static gboolean unpack_name(struct unpack *unpack, char name[NAME_MAX_LENGTH + 1])
{
    size_t length = unpack_u8(unpack);
    const uint8_t *at = length <= NAME_MAX_LENGTH ? unpack_bytes(unpack, length) : NULL;
    if (!at || length == 0 || memchr(at, '\0', length)) {
        unpack->bad = TRUE;
        return FALSE;
    }
    memcpy(name, at, length);
    name[length] = '\0';
    unpack->bad |= !g_ascii_isalpha(name[0]);
    for (const char *c = name + 1; *c; c++)
        unpack->bad |= !g_ascii_isalnum(*c) && !strchr("/-_.:+", *c);
    return !unpack->bad;
}

/* --- values ------------------------------------------------------------------------------- */

enum value_type {
    VALUE_INT = 1,
    VALUE_UINT,
    VALUE_INT64,
    VALUE_UINT64,
    VALUE_DOUBLE,
    VALUE_BOOLEAN,
    VALUE_STRING,
    VALUE_FRACTION,
    VALUE_BITMASK,
    VALUE_MULTIVIEW_FLAGS,
    VALUE_DATE_TIME,
    VALUE_FLOAT,
    VALUE_INT_RANGE,
    VALUE_FRACTION_RANGE,
    VALUE_BUFFER,
    VALUE_CAPS,
    VALUE_STRUCTURE,
    VALUE_ARRAY,
    VALUE_LIST,
};

/* C0, DEL and C1, which control a terminal. Those that only separate words become spaces. */
static gboolean is_control(gunichar c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

/* Valid UTF-8 with a space for each control character; *clean: it had no others than blanks. */
static char *text_without_controls(const char *text, size_t length, gboolean *clean)
{
    GString *without = g_string_sized_new(length);

    *clean = TRUE;
    for (const char *at = text; at < text + length; at = g_utf8_next_char(at)) {
        gunichar c = g_utf8_get_char(at);
        *clean = *clean && (!is_control(c) || (c >= '\t' && c <= '\r'));
        g_string_append_unichar(without, is_control(c) ? ' ' : c);
    }
    return g_string_free(without, FALSE);
}

gchar *pack_spaced_text(const gchar *text)
{
    gboolean clean;

    return text && g_utf8_validate(text, -1, NULL)
               ? text_without_controls(text, strlen(text), &clean)
               : g_strdup("");
}

gchar *pack_clean_text(const gchar *text)
{
    gboolean clean = FALSE;
    gchar *spaced = text && g_utf8_validate(text, -1, NULL)
                        ? text_without_controls(text, strlen(text), &clean)
                        : NULL;

    if (!clean)
        g_clear_pointer(&spaced, g_free);
    return spaced;
}

static void pack_text(struct pack *pack, const char *text)
{
    char *shown = pack_spaced_text(text);
    size_t length = strlen(shown);

    if (length > G_MAXUINT16) {
        pack->full = TRUE;
    } else {
        pack_u16(pack, (uint16_t)length);
        pack_bytes(pack, shown, length);
    }
    g_free(shown);
}

static char *unpack_text(struct unpack *unpack)
{
    size_t length = unpack_u16(unpack);
    const char *at = (const char *)unpack_bytes(unpack, length);
    gboolean clean = FALSE;

    /* Validation also finds a NUL in the middle. */
    char *text = at && g_utf8_validate(at, (gssize)length, NULL)
                     ? text_without_controls(at, length, &clean)
                     : NULL;
    if (!clean) {
        g_clear_pointer(&text, g_free);
        unpack->bad = TRUE;
    }
    return text;
}

static void pack_double(struct pack *pack, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    pack_u64(pack, bits);
}

static double unpack_double(struct unpack *unpack)
{
    uint64_t bits = unpack_u64(unpack);
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* GStreamer's limit for time zones, which Auckland and Apia exceed. */
#define ZONE_MAX 12.0f

/* FALSE: the time has no form as a text: its zone is too far, and without seconds it has none in
 * UTC. */
static gboolean pack_date_time(struct pack *pack, GstDateTime *time)
{
    GstDateTime *near = gst_date_time_ref(time);

    if (gst_date_time_has_time(time) && ABS(gst_date_time_get_time_zone_offset(time)) > ZONE_MAX) {
        GDateTime *local = gst_date_time_to_g_date_time(time);
        GDateTime *utc = local ? g_date_time_to_utc(local) : NULL;
        gst_date_time_unref(near);
        near = utc ? gst_date_time_new_from_g_date_time(utc) : NULL; /* takes it */
        g_clear_pointer(&local, g_date_time_unref);
    }
    gchar *text = near ? gst_date_time_to_iso8601_string(near) : NULL;
    g_clear_pointer(&near, gst_date_time_unref);
    if (text) {
        pack_u8(pack, VALUE_DATE_TIME);
        pack_text(pack, text);
    }
    g_free(text);
    return text != NULL;
}

/* --- values that contain others --- */

static gboolean pack_value(struct pack *pack, const GValue *value, guint *skipped);

static void pack_buffer(struct pack *pack, GstBuffer *buffer)
{
    pack_u8(pack, VALUE_BUFFER);
    pack_u64(pack, GST_BUFFER_PTS(buffer));
    pack_u64(pack, GST_BUFFER_DTS(buffer));
    pack_u64(pack, GST_BUFFER_DURATION(buffer));
    pack_u64(pack, GST_BUFFER_OFFSET(buffer));
    pack_u64(pack, GST_BUFFER_OFFSET_END(buffer));
    pack_data(pack, buffer);
}

static void unpack_buffer(struct unpack *unpack, GValue *value)
{
    uint64_t times[5];

    for (guint i = 0; i < G_N_ELEMENTS(times); i++)
        times[i] = unpack_u64(unpack);
    GstBuffer *buffer = unpack_data(unpack);
    if (!buffer)
        return;
    GST_BUFFER_PTS(buffer) = times[0];
    GST_BUFFER_DTS(buffer) = times[1];
    GST_BUFFER_DURATION(buffer) = times[2];
    GST_BUFFER_OFFSET(buffer) = times[3];
    GST_BUFFER_OFFSET_END(buffer) = times[4];
    g_value_init(value, GST_TYPE_BUFFER);
    gst_value_take_buffer(value, buffer);
}

/* u16 structures, of each u8 features, their names, the structure. Any caps and any features have
 * the largest number. */
static gboolean pack_caps(struct pack *pack, const GstCaps *caps, guint *skipped)
{
    guint count = gst_caps_is_any(caps) ? G_MAXUINT16 : gst_caps_get_size(caps);

    pack_u8(pack, VALUE_CAPS);
    pack_u16(pack, (uint16_t)count);
    if (gst_caps_is_any(caps))
        return TRUE;
    for (guint i = 0; i < count && count < G_MAXUINT16; i++) {
        GstCapsFeatures *features = gst_caps_get_features(caps, i);
        gboolean any = gst_caps_features_is_any(features);
        guint names = any ? G_MAXUINT8 : gst_caps_features_get_size(features);
        if (names > G_MAXUINT8 || (names == G_MAXUINT8 && !any))
            return FALSE;
        pack_u8(pack, (uint8_t)names);
        for (guint n = 0; n < names && !any; n++)
            pack_name(pack, gst_caps_features_get_nth(features, n));
        pack_structure(pack, gst_caps_get_structure(caps, i), skipped);
    }
    return count < G_MAXUINT16;
}

static GstCapsFeatures *unpack_features(struct unpack *unpack)
{
    char name[NAME_MAX_LENGTH + 1];
    guint names = unpack_u8(unpack);

    if (names == G_MAXUINT8)
        return gst_caps_features_new_any();
    GstCapsFeatures *features = gst_caps_features_new_empty();
    for (guint n = 0; n < names && unpack_name(unpack, name); n++) {
        /* "memory:DMABuf"; GStreamer asserts that a feature looks like that. */
        const char *colon = strchr(name, ':');
        gboolean is_feature = colon && colon > name && g_ascii_isalpha(colon[1]) &&
                              !strpbrk(name, "/-_.+") && !strchr(colon + 1, ':');
        if (!is_feature || !names_take(unpack->names, name))
            unpack->bad = TRUE;
        else
            gst_caps_features_add(features, name);
    }
    return features;
}

static void unpack_caps(struct unpack *unpack, GValue *value)
{
    guint count = unpack_u16(unpack);
    GstCaps *caps = count == G_MAXUINT16 ? gst_caps_new_any() : gst_caps_new_empty();

    for (guint i = 0; i < count && count < G_MAXUINT16 && !unpack->bad; i++) {
        GstCapsFeatures *features = unpack_features(unpack);
        GstStructure *structure = unpack->bad ? NULL : unpack_structure(unpack);
        if (structure)
            gst_caps_append_structure_full(caps, structure, features);
        else
            gst_caps_features_free(features);
    }
    g_value_init(value, GST_TYPE_CAPS);
    g_value_take_boxed(value, caps);
}

/* u16 values. */
static gboolean pack_values(struct pack *pack, const GValue *value, guint *skipped)
{
    gboolean list = GST_VALUE_HOLDS_LIST(value);
    guint count = list ? gst_value_list_get_size(value) : gst_value_array_get_size(value);

    pack_u8(pack, list ? VALUE_LIST : VALUE_ARRAY);
    pack_u16(pack, (uint16_t)count);
    for (guint i = 0; i < count && !pack->full; i++)
        if (!pack_value(pack,
                        list ? gst_value_list_get_value(value, i)
                             : gst_value_array_get_value(value, i),
                        skipped))
            return FALSE;
    return count <= G_MAXUINT16;
}

/* GStreamer asserts that the values of a list have one type, where ranges and numbers count as one.
 * 0: it is an empty list. */
static GType basic_type(const GValue *value)
{
    while (GST_VALUE_HOLDS_LIST(value) || GST_VALUE_HOLDS_ARRAY(value)) {
        gboolean list = GST_VALUE_HOLDS_LIST(value);
        if ((list ? gst_value_list_get_size(value) : gst_value_array_get_size(value)) == 0)
            return 0;
        value = list ? gst_value_list_get_value(value, 0) : gst_value_array_get_value(value, 0);
    }
    GType type = G_VALUE_TYPE(value);
    return type == GST_TYPE_INT_RANGE        ? G_TYPE_INT
           : type == GST_TYPE_FRACTION_RANGE ? GST_TYPE_FRACTION
                                             : type;
}

static void unpack_value(struct unpack *unpack, GValue *value);

static void unpack_values(struct unpack *unpack, GValue *value, gboolean list)
{
    guint count = unpack_u16(unpack);
    GType type = 0;

    g_value_init(value, list ? GST_TYPE_LIST : GST_TYPE_ARRAY);
    for (guint i = 0; i < count && !unpack->bad; i++) {
        GValue one = G_VALUE_INIT;
        unpack_value(unpack, &one);
        if (!G_IS_VALUE(&one))
            continue;
        GType its = basic_type(&one);
        if (type && its && its != type)
            unpack->bad = TRUE;
        type = type ? type : its;
        if (unpack->bad)
            g_value_unset(&one);
        else if (list)
            gst_value_list_append_and_take_value(value, &one);
        else
            gst_value_array_append_and_take_value(value, &one);
    }
}

static gboolean pack_nested(struct pack *pack, const GValue *value, guint *skipped)
{
    gpointer boxed = G_VALUE_HOLDS_BOXED(value) ? g_value_get_boxed(value) : NULL;
    gboolean packed = TRUE;

    if (pack->depth == PACK_DEPTH_MAX)
        return FALSE;
    pack->depth++;
    if (GST_VALUE_HOLDS_LIST(value) || GST_VALUE_HOLDS_ARRAY(value)) {
        packed = pack_values(pack, value, skipped);
    } else if (GST_VALUE_HOLDS_BUFFER(value) && boxed) {
        pack_buffer(pack, boxed);
    } else if (GST_VALUE_HOLDS_CAPS(value) && boxed) {
        packed = pack_caps(pack, boxed, skipped);
    } else if (GST_VALUE_HOLDS_STRUCTURE(value) && boxed) {
        pack_u8(pack, VALUE_STRUCTURE);
        pack_structure(pack, boxed, skipped);
    } else {
        packed = FALSE;
    }
    pack->depth--;
    return packed;
}

static void unpack_nested(struct unpack *unpack, enum value_type type, GValue *value)
{
    GstStructure *structure;

    if (unpack->depth == PACK_DEPTH_MAX) {
        unpack->bad = TRUE;
        return;
    }
    unpack->depth++;
    switch (type) {
    case VALUE_CAPS:
        unpack_caps(unpack, value);
        break;
    case VALUE_STRUCTURE:
        if ((structure = unpack_structure(unpack))) {
            g_value_init(value, GST_TYPE_STRUCTURE);
            g_value_take_boxed(value, structure);
        }
        break;
    default:
        unpack_values(unpack, value, type == VALUE_LIST);
    }
    unpack->depth--;
}

/* --- any value --- */

static gboolean pack_value(struct pack *pack, const GValue *value, guint *skipped)
{
    GType type = G_VALUE_TYPE(value);

    if (type == G_TYPE_INT) {
        pack_u8(pack, VALUE_INT);
        pack_u32(pack, (uint32_t)g_value_get_int(value));
    } else if (type == G_TYPE_UINT) {
        pack_u8(pack, VALUE_UINT);
        pack_u32(pack, g_value_get_uint(value));
    } else if (type == G_TYPE_INT64) {
        pack_u8(pack, VALUE_INT64);
        pack_u64(pack, (uint64_t)g_value_get_int64(value));
    } else if (type == G_TYPE_UINT64) {
        pack_u8(pack, VALUE_UINT64);
        pack_u64(pack, g_value_get_uint64(value));
    } else if (type == G_TYPE_DOUBLE) {
        pack_u8(pack, VALUE_DOUBLE);
        pack_double(pack, g_value_get_double(value));
    } else if (type == G_TYPE_FLOAT) {
        pack_u8(pack, VALUE_FLOAT);
        pack_double(pack, (double)g_value_get_float(value));
    } else if (type == G_TYPE_BOOLEAN) {
        pack_u8(pack, VALUE_BOOLEAN);
        pack_u8(pack, g_value_get_boolean(value) ? 1 : 0);
    } else if (type == G_TYPE_STRING) {
        pack_u8(pack, VALUE_STRING);
        pack_text(pack, g_value_get_string(value));
    } else if (type == GST_TYPE_FRACTION) {
        pack_u8(pack, VALUE_FRACTION);
        pack_u32(pack, (uint32_t)gst_value_get_fraction_numerator(value));
        pack_u32(pack, (uint32_t)gst_value_get_fraction_denominator(value));
    } else if (type == GST_TYPE_BITMASK) {
        pack_u8(pack, VALUE_BITMASK);
        pack_u64(pack, gst_value_get_bitmask(value));
    } else if (type == GST_TYPE_VIDEO_MULTIVIEW_FLAGSET) {
        pack_u8(pack, VALUE_MULTIVIEW_FLAGS);
        pack_u32(pack, gst_value_get_flagset_flags(value));
        pack_u32(pack, gst_value_get_flagset_mask(value));
    } else if (type == GST_TYPE_DATE_TIME && g_value_get_boxed(value)) {
        return pack_date_time(pack, g_value_get_boxed(value));
    } else if (type == GST_TYPE_INT_RANGE) {
        pack_u8(pack, VALUE_INT_RANGE);
        pack_u32(pack, (uint32_t)gst_value_get_int_range_min(value));
        pack_u32(pack, (uint32_t)gst_value_get_int_range_max(value));
        pack_u32(pack, (uint32_t)gst_value_get_int_range_step(value));
    } else if (type == GST_TYPE_FRACTION_RANGE) {
        const GValue *ends[] = {gst_value_get_fraction_range_min(value),
                                gst_value_get_fraction_range_max(value)};
        pack_u8(pack, VALUE_FRACTION_RANGE);
        for (guint i = 0; i < G_N_ELEMENTS(ends); i++) {
            pack_u32(pack, (uint32_t)gst_value_get_fraction_numerator(ends[i]));
            pack_u32(pack, (uint32_t)gst_value_get_fraction_denominator(ends[i]));
        }
    } else {
        return pack_nested(pack, value, skipped);
    }
    return TRUE;
}

static void unpack_fraction(struct unpack *unpack, GValue *value)
{
    gint numerator = (gint)unpack_u32(unpack);
    gint denominator = (gint)unpack_u32(unpack);
    if (denominator == 0 || denominator == G_MININT || numerator == G_MININT) {
        unpack->bad = TRUE;
        return;
    }
    g_value_init(value, GST_TYPE_FRACTION);
    gst_value_set_fraction(value, numerator, denominator);
}

static void unpack_fraction_range(struct unpack *unpack, GValue *value)
{
    GValue min = G_VALUE_INIT, max = G_VALUE_INIT;

    unpack_fraction(unpack, &min);
    unpack_fraction(unpack, &max);
    if (!unpack->bad && gst_value_compare(&min, &max) == GST_VALUE_LESS_THAN) {
        g_value_init(value, GST_TYPE_FRACTION_RANGE);
        gst_value_set_fraction_range(value, &min, &max);
    } else {
        unpack->bad = TRUE;
    }
    if (G_IS_VALUE(&min))
        g_value_unset(&min);
    if (G_IS_VALUE(&max))
        g_value_unset(&max);
}

/* May leave *value unset, as where unpack is bad. */
static void unpack_value(struct unpack *unpack, GValue *value)
{
    enum value_type type = (enum value_type)unpack_u8(unpack);
    gint min, max, step;
    GstDateTime *time;
    char *text;

    switch (type) {
    case VALUE_INT:
        g_value_init(value, G_TYPE_INT);
        g_value_set_int(value, (gint)unpack_u32(unpack));
        break;
    case VALUE_UINT:
        g_value_init(value, G_TYPE_UINT);
        g_value_set_uint(value, unpack_u32(unpack));
        break;
    case VALUE_INT64:
        g_value_init(value, G_TYPE_INT64);
        g_value_set_int64(value, (gint64)unpack_u64(unpack));
        break;
    case VALUE_UINT64:
        g_value_init(value, G_TYPE_UINT64);
        g_value_set_uint64(value, unpack_u64(unpack));
        break;
    case VALUE_DOUBLE:
        g_value_init(value, G_TYPE_DOUBLE);
        g_value_set_double(value, unpack_double(unpack));
        break;
    case VALUE_FLOAT:
        g_value_init(value, G_TYPE_FLOAT);
        g_value_set_float(value, (gfloat)unpack_double(unpack));
        break;
    case VALUE_BOOLEAN:
        g_value_init(value, G_TYPE_BOOLEAN);
        g_value_set_boolean(value, unpack_u8(unpack) != 0);
        break;
    case VALUE_STRING:
        if ((text = unpack_text(unpack))) {
            g_value_init(value, G_TYPE_STRING);
            g_value_take_string(value, text);
        }
        break;
    case VALUE_FRACTION:
        unpack_fraction(unpack, value);
        break;
    case VALUE_BITMASK:
        g_value_init(value, GST_TYPE_BITMASK);
        gst_value_set_bitmask(value, unpack_u64(unpack));
        break;
    case VALUE_MULTIVIEW_FLAGS: {
        guint flags = unpack_u32(unpack);
        guint mask = unpack_u32(unpack);
        g_value_init(value, GST_TYPE_VIDEO_MULTIVIEW_FLAGSET);
        gst_value_set_flagset(value, flags, mask);
        break;
    }
    case VALUE_DATE_TIME:
        text = unpack_text(unpack);
        time = text ? date_time_from_text(text) : NULL;
        g_free(text);
        unpack->bad |= !time;
        if (time) {
            g_value_init(value, GST_TYPE_DATE_TIME);
            g_value_take_boxed(value, time);
        }
        break;
    case VALUE_INT_RANGE:
        min = (gint)unpack_u32(unpack);
        max = (gint)unpack_u32(unpack);
        step = (gint)unpack_u32(unpack);
        if (step > 0 && min < max && min % step == 0 && max % step == 0) {
            g_value_init(value, GST_TYPE_INT_RANGE);
            gst_value_set_int_range_step(value, min, max, step);
        } else {
            unpack->bad = TRUE;
        }
        break;
    case VALUE_FRACTION_RANGE:
        unpack_fraction_range(unpack, value);
        break;
    case VALUE_BUFFER:
        unpack_buffer(unpack, value);
        break;
    case VALUE_CAPS:
    case VALUE_STRUCTURE:
    case VALUE_ARRAY:
    case VALUE_LIST:
        unpack_nested(unpack, type, value);
        break;
    default:
        unpack->bad = TRUE;
    }
}

/* --- quarks ------------------------------------------------------------------------------- */

void pack_quark(struct pack *pack, GQuark quark)
{
    const char *text = g_quark_to_string(quark);

    if (text && strlen(text) > NAME_MAX_LENGTH)
        pack->full = TRUE;
    else
        pack_text(pack, text);
}

GQuark unpack_quark(struct unpack *unpack)
{
    char *text = unpack_text(unpack);
    GQuark quark = 0;

    if (text && text[0]) {
        unpack->bad = strlen(text) > NAME_MAX_LENGTH || !names_take(unpack->names, text);
        quark = unpack->bad ? 0 : g_quark_from_string(text);
    }
    g_free(text);
    return quark;
}

/* --- structures --------------------------------------------------------------------------- */

void pack_structure(struct pack *pack, const GstStructure *structure, guint *skipped)
{
    guint fields = (guint)gst_structure_n_fields(structure);
    uint16_t written = 0;

    pack_name(pack, gst_structure_get_name(structure));
    uint8_t *count = reserve(pack, sizeof(written));
    for (guint i = 0; i < fields && !pack->full; i++) {
        const char *name = gst_structure_nth_field_name(structure, i);
        struct pack before = *pack;
        pack_name(pack, name);
        if (pack_value(pack, gst_structure_get_value(structure, name), skipped)) {
            written++;
        } else {
            *pack = before;
            if (skipped)
                (*skipped)++;
        }
    }
    if (count) {
        written = GUINT16_TO_LE(written);
        memcpy(count, &written, sizeof(written));
    }
}

GstStructure *unpack_structure(struct unpack *unpack)
{
    char name[NAME_MAX_LENGTH + 1];

    if (!unpack_name(unpack, name))
        return NULL;
    /* The names of raw formats in GStreamer 0.10; newer versions warn about each such structure. */
    gboolean is_obsolete =
        g_str_has_prefix(name, "video/x-raw-") || g_str_has_prefix(name, "audio/x-raw-");
    GstStructure *structure =
        !is_obsolete && names_take(unpack->names, name) ? gst_structure_new_empty(name) : NULL;
    uint16_t fields = unpack_u16(unpack);
    for (uint16_t i = 0; i < fields && !unpack->bad; i++) {
        GValue value = G_VALUE_INIT;
        if (!unpack_name(unpack, name))
            break;
        unpack_value(unpack, &value);
        if (!G_IS_VALUE(&value))
            continue;
        if (unpack->bad || !structure || !names_take(unpack->names, name))
            g_value_unset(&value);
        else
            gst_structure_take_value(structure, name, &value);
    }
    if (unpack->bad)
        g_clear_pointer(&structure, gst_structure_free);
    return structure;
}
