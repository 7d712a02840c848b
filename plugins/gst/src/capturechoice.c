/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "src/capturechoice.h"

#include "wire/videoinfo.h"

/* --- choosing ------------------------------------------------------------------------------ */

/* Below 30 movement stutters; 29.97 is as good. */
#define RATE_ENOUGH 29.9

static GstStructure *fixate_mode(const GstStructure *mode, const struct capture_wish *wish)
{
    GstStructure *fixed = gst_structure_copy(mode);

    if (wish->format[0])
        gst_structure_fixate_field_string(fixed, "format", wish->format);
    gst_structure_fixate_field_nearest_int(fixed, "width", wish->width ? wish->width : 1920);
    gst_structure_fixate_field_nearest_int(fixed, "height", wish->height ? wish->height : 1080);
    gst_structure_fixate_field_nearest_fraction(fixed, "framerate", G_MAXINT, 1);
    gst_structure_fixate(fixed);
    return fixed;
}

static gdouble distance_to(const GstStructure *fixed, gint width, gint height)
{
    gint own_width = 0, own_height = 0;

    gst_structure_get_int(fixed, "width", &own_width);
    gst_structure_get_int(fixed, "height", &own_height);
    return ABS(own_width - width) + ABS(own_height - height);
}

/* How far the rate is below RATE_ENOUGH; 0 also if the driver does not say. */
static gdouble missing_rate(const GstStructure *fixed)
{
    gint num, den;

    if (!gst_structure_get_fraction(fixed, "framerate", &num, &den) || num == 0)
        return 0;
    return MAX(RATE_ENOUGH - (gdouble)num / den, 0);
}

enum { MERITS = 5 };

/* A mode's demerits, the most important first. */
static void judge(const GstStructure *fixed, const struct capture_wish *wish,
                  gdouble against[MERITS])
{
    against[0] = gst_structure_has_name(fixed, VIDEO_BAYER);
    against[1] = wish->width ? distance_to(fixed, wish->width, wish->height) : 0;
    against[2] = g_strcmp0(gst_structure_get_string(fixed, "format"), wish->format) != 0;
    against[3] = missing_rate(fixed);
    against[4] = distance_to(fixed, 1920, 1080);
}

static gboolean is_better(const gdouble a[MERITS], const gdouble b[MERITS])
{
    for (guint i = 0; i < MERITS; i++)
        if (a[i] < b[i] || a[i] > b[i])
            return a[i] < b[i];
    return FALSE;
}

GstCaps *capture_choose(GstCaps *caps, const struct capture_wish *wish)
{
    GstStructure *best = NULL;
    gdouble best_against[MERITS], against[MERITS];
    guint place = 0;

    for (guint i = 0; i < gst_caps_get_size(caps); i++) {
        GstStructure *fixed = fixate_mode(gst_caps_get_structure(caps, i), wish);
        judge(fixed, wish, against);
        if (!best || is_better(against, best_against)) {
            g_clear_pointer(&best, gst_structure_free);
            best = g_steal_pointer(&fixed);
            memcpy(best_against, against, sizeof(against));
            place = i;
        }
        g_clear_pointer(&fixed, gst_structure_free);
    }
    if (!best)
        return caps;
    GstCaps *fixated = gst_caps_new_empty();
    gst_caps_append_structure_full(fixated, best,
                                   gst_caps_features_copy(gst_caps_get_features(caps, place)));
    gst_caps_unref(caps);
    return fixated;
}

/* --- refusing ------------------------------------------------------------------------------ */

/* The groups of fields that a user can ask for, in the order in which they are compared. */
enum { STEP_FORMAT, STEP_SIZE, STEP_RATE, STEPS };
static const gchar *const step_fields[][2] = {
    [STEP_FORMAT] = {"format"},
    [STEP_SIZE] = {"width", "height"},
    [STEP_RATE] = {"framerate"},
};

/* The caps reduced to the fields of the first steps, and one more, in any memory. */
static GstCaps *keep(const GstCaps *caps, guint steps, const gchar *one_more)
{
    GstCaps *kept = gst_caps_new_empty();

    for (guint i = 0; i < gst_caps_get_size(caps); i++) {
        const GstStructure *from = gst_caps_get_structure(caps, i);
        GstStructure *structure = gst_structure_new_empty(gst_structure_get_name(from));
        for (guint k = 0; k <= 2 * steps; k++) {
            const gchar *field = k == 2 * steps ? one_more : step_fields[k / 2][k % 2];
            const GValue *value = field ? gst_structure_get_value(from, field) : NULL;
            if (value)
                gst_structure_set_value(structure, field, value);
        }
        gst_caps_append_structure_full(kept, structure, gst_caps_features_new_any());
    }
    return kept;
}

/* What the card offers that matches the wanted caps in the first steps, and one more field. */
static GstCaps *narrow(const GstCaps *has, const GstCaps *wanted, guint steps,
                       const gchar *one_more)
{
    GstCaps *any = gst_caps_copy(has), *kept = keep(wanted, steps, one_more);

    gst_caps_set_features_simple(any, gst_caps_features_new_any());
    GstCaps *both = gst_caps_is_any(wanted)
                        ? gst_caps_ref(any)
                        : gst_caps_intersect_full(any, kept, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref(any);
    gst_caps_unref(kept);
    return both;
}

/* Names without duplicates, as many as fit in a sentence. */
#define NAMED_MAX 12
struct names {
    GString *text;
    GHashTable *seen;
    const gchar *between;
};

/* Takes name. */
static void add_name(struct names *names, gchar *name)
{
    guint count = g_hash_table_size(names->seen);

    if (!g_hash_table_add(names->seen, name) || count > NAMED_MAX)
        return;
    if (count == NAMED_MAX)
        g_string_append(names->text, "…");
    else
        g_string_append_printf(names->text, "%s%s", count ? names->between : "", name);
}

/* The number of values in a list, or 1. */
static guint count_values(const GValue *value)
{
    return !value ? 0 : GST_VALUE_HOLDS_LIST(value) ? gst_value_list_get_size(value) : 1;
}

static const GValue *value_at(const GValue *value, guint i)
{
    return GST_VALUE_HOLDS_LIST(value) ? gst_value_list_get_value(value, i) : value;
}

/* DMA_DRM says how the memory is described, and names no format that a user could ask for. */
static void add_formats(struct names *names, const GstStructure *structure)
{
    const GValue *value = gst_structure_get_value(structure, "format");

    for (guint i = 0; i < count_values(value); i++)
        if (g_strcmp0(g_value_get_string(value_at(value, i)), "DMA_DRM") != 0)
            add_name(names, g_value_dup_string(value_at(value, i)));
}

/* "1920x1080", "[64, 640]x[32, 360]" */
static gchar *name_size(const GstStructure *structure)
{
    const GValue *width = gst_structure_get_value(structure, "width"),
                 *height = gst_structure_get_value(structure, "height");
    gchar *across = width ? gst_value_serialize(width) : g_strdup("any"),
          *down = height ? gst_value_serialize(height) : g_strdup("any");
    gchar *text = g_strdup_printf("%sx%s", across, down);

    g_free(across);
    g_free(down);
    return text;
}

static void add_sizes(struct names *names, const GstStructure *structure)
{
    add_name(names, name_size(structure));
}

/* "29.97", "25" */
static gdouble rate_of(const GValue *value)
{
    return (gdouble)gst_value_get_fraction_numerator(value) /
           gst_value_get_fraction_denominator(value);
}

static gint compare_rates(gconstpointer a, gconstpointer b)
{
    gdouble first = *(const gdouble *)a, second = *(const gdouble *)b;

    return first < second ? 1 : first > second ? -1 : 0;
}

/* "60, 30 and 25", the fastest first */
static gchar *name_rates(const GValue *value)
{
    GArray *rates = g_array_new(FALSE, FALSE, sizeof(gdouble));
    struct names names = {g_string_new(NULL),
                          g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL), ", "};

    if (value && GST_VALUE_HOLDS_FRACTION_RANGE(value)) {
        add_name(&names,
                 g_strdup_printf("%.4g to %.4g", rate_of(gst_value_get_fraction_range_min(value)),
                                 rate_of(gst_value_get_fraction_range_max(value))));
        value = NULL;
    }
    for (guint i = 0; i < count_values(value); i++) {
        gdouble rate = rate_of(value_at(value, i));
        if (rate > 0)
            g_array_append_val(rates, rate);
    }
    g_array_sort(rates, compare_rates);
    for (guint i = 0; i < rates->len; i++)
        add_name(&names, g_strdup_printf("%.4g", g_array_index(rates, gdouble, i)));
    g_array_unref(rates);
    g_hash_table_unref(names.seen);
    return g_string_free(names.text, FALSE);
}

static void add_rates(struct names *names, const GstStructure *structure)
{
    gchar *size = name_size(structure),
          *rates = name_rates(gst_structure_get_value(structure, "framerate"));

    add_name(names, rates[0] ? g_strdup_printf("%s at %s", size, rates) : g_strdup(size));
    g_free(size);
    g_free(rates);
}

static gchar *join(const GstCaps *caps, const gchar *between,
                   void (*add)(struct names *, const GstStructure *))
{
    struct names names = {g_string_new(NULL),
                          g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL), between};

    for (guint i = 0; i < gst_caps_get_size(caps); i++)
        add(&names, gst_caps_get_structure(caps, i));
    g_hash_table_unref(names.seen);
    if (!names.text->len)
        g_string_append(names.text, "nothing");
    return g_string_free(names.text, FALSE);
}

static gboolean is_of_fields(const GstCaps *caps, guint index)
{
    return gst_caps_features_contains(gst_caps_get_features(caps, index),
                                      GST_CAPS_FEATURE_FORMAT_INTERLACED);
}

/* Whether all that the card offers of these formats, sizes and rates comes as fields, or (FALSE)
 * none of it. */
static gboolean comes_as_fields(const GstCaps *has, const GstCaps *wanted, gboolean fields)
{
    gboolean all = TRUE;

    for (guint i = 0; i < gst_caps_get_size(has) && all; i++) {
        GstCaps *one = gst_caps_copy_nth(has, i), *both = narrow(one, wanted, STEPS, NULL);
        all = gst_caps_is_empty(both) || is_of_fields(has, i) == fields;
        gst_caps_unref(one);
        gst_caps_unref(both);
    }
    return all;
}

/* Explains a mismatch in another field, in fields that come alone, or in the kind of memory:
 * format, size and rate agree. */
static gchar *explain_rest(const GstCaps *has, const GstCaps *wanted)
{
    const GstStructure *first = gst_caps_get_structure(wanted, 0);

    for (gint i = 0; i < gst_structure_n_fields(first); i++) {
        const gchar *field = gst_structure_nth_field_name(first, (guint)i);
        GstCaps *both = narrow(has, wanted, STEPS, field);
        gboolean differs = gst_caps_is_empty(both);
        gst_caps_unref(both);
        if (!differs)
            continue;
        GstCaps *offered = narrow(has, wanted, STEPS, NULL);
        const GValue *value = gst_structure_get_value(gst_caps_get_structure(offered, 0), field);
        gchar *is = value ? gst_value_serialize(value) : g_strdup("not known");
        gchar *text = g_strdup_printf("there %s is %s: ask for that, or leave it open", field, is);
        gst_caps_unref(offered);
        g_free(is);
        return text;
    }
    gboolean wants_fields = is_of_fields(wanted, 0);
    if (!wants_fields && comes_as_fields(has, wanted, TRUE))
        return g_strdup("it gives each field as a buffer of its own: ask for "
                        "video/x-raw(format:Interlaced),interlace-mode=alternate, and put elements "
                        "that take such fields after gpudirectsrc");
    if (wants_fields && comes_as_fields(has, wanted, FALSE))
        return g_strdup("it gives whole pictures, not fields: ask for video/x-raw without "
                        "(format:Interlaced)");
    gchar *memory = gst_caps_features_to_string(gst_caps_get_features(wanted, 0));
    gchar *text = g_strdup_printf("they take frames in %s alone: set the property device to such "
                                  "a device, or put an element that downloads them behind "
                                  "gpudirectsrc",
                                  memory);
    g_free(memory);
    return text;
}

gchar *capture_explain_refusal(const GstCaps *has, const GstCaps *wanted)
{
    static const struct {
        void (*add)(struct names *, const GstStructure *);
        const gchar *between, *element;
    } steps[] = {
        [STEP_FORMAT] = {add_formats, ", ", "videoconvert"},
        [STEP_SIZE] = {add_sizes, ", ", "videoscale"},
        [STEP_RATE] = {add_rates, "; ", "videorate"},
    };

    for (guint step = 0; step < STEPS; step++) {
        GstCaps *both = narrow(has, wanted, step + 1, NULL);
        gboolean agrees = !gst_caps_is_empty(both);
        gst_caps_unref(both);
        if (agrees)
            continue;
        /* With another media type nothing agrees, and everything is offered. */
        GstCaps *offered = step > 0 ? narrow(has, wanted, step, NULL) : gst_caps_copy(has);
        gchar *format = join(offered, ", ", add_formats);
        gchar *list = join(offered, steps[step].between, steps[step].add);
        gchar *text =
            g_strdup_printf("it has %s%s%s%s: ask for one of these, or put a %s after gpudirectsrc",
                            step > 0 ? format : "", step > 0 ? " in " : "", list,
                            step == STEP_RATE ? " frames a second" : "", steps[step].element);
        gst_caps_unref(offered);
        g_free(format);
        g_free(list);
        return text;
    }
    return explain_rest(has, wanted);
}
