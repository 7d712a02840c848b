/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Frames of a card. */
#include "src/src.h"

#include <gpudirect/capture.h>
#include <gst/gst.h>
#include <gst/video/video.h>

/* === capturecaps ============================================================================= */

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

/* Bayer caps have no interlace mode, since sensors do not produce fields. NULL: the media is
 * incomplete. */
static GstCaps *caps_of(const struct gpud_media *media)
{
    struct gpud_media said = *media;

    if (g_strcmp0(video_media_type(said.picture.layout.format), VIDEO_BAYER) == 0)
        said.picture.scan = GPUD_SCAN_UNKNOWN;
    return media_known_caps(&said);
}

/* A structure of the mode; NULL: GStreamer does not know it. */
static GstStructure *mode_structure(const struct gpud_capture_mode *mode)
{
    const gchar *type = video_media_type(mode->format);
    gboolean of_fields = mode->scan == GPUD_SCAN_INTERLEAVED || mode->scan == GPUD_SCAN_ALTERNATE;
    /* Without a size, as a mode has many. */
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

    if (!type || mode->width_max == 0 || mode->height_max == 0 ||
        (g_str_equal(type, VIDEO_BAYER) && of_fields))
        return NULL;
    g_strlcpy(media.picture.layout.format, mode->format, sizeof(media.picture.layout.format));
    GstCaps *caps = caps_of(&media);
    if (!caps)
        return NULL;
    GstStructure *structure = gst_structure_copy(gst_caps_get_structure(caps, 0));
    gst_caps_unref(caps);
    set_size(structure, "width", mode->width_min, mode->width_max, mode->width_step);
    set_size(structure, "height", mode->height_min, mode->height_max, mode->height_step);
    set_rates(structure, mode);
    return structure;
}

/* Adds what the driver reports about its frames to negotiated caps, which may lack a field that is
 * known now, but must not contradict one. */
static enum gpud_status capture_caps_complete(GstCaps **caps, const struct gpud_capture_info *info,
                                              struct gpud_error *error)
{
    *caps = gst_caps_make_writable(*caps);
    GstStructure *structure = gst_caps_get_structure(*caps, 0);
    g_autoptr(GstCaps) current = caps_of(&info->media);
    const GstStructure *made = current ? gst_caps_get_structure(current, 0) : NULL;
    enum gpud_status status = GPUD_OK;

    for (gint i = 0; made && i < gst_structure_n_fields(made); i++) {
        const gchar *name = gst_structure_nth_field_name(made, (guint)i);
        const GValue *value = gst_structure_get_value(made, name);
        const GValue *asked = gst_structure_get_value(structure, name);
        if (status == GPUD_OK && asked && gst_value_compare(asked, value) != GST_VALUE_EQUAL) {
            g_autofree gchar *wanted = gst_value_serialize(asked);
            g_autofree gchar *has = gst_value_serialize(value);
            status = gpud_gst_error_fill(error, GPUD_UNSUPPORTED,
                                         "its driver makes %s %s of %s: ask for that with a "
                                         "capsfilter, or for none",
                                         name, has, wanted);
        }
        gst_structure_set_value(structure, name, value);
    }
    return status;
}

/* Merges a mode into one that differs only in the format, or appends it: elements downstream
 * compare every pair of structures. gst_caps_simplify() would change the order. */
static void add_mode(GstCaps *caps, GstStructure *structure, enum gpud_scan scan)
{
    GValue formats = G_VALUE_INIT, both = G_VALUE_INIT;
    GstCapsFeatures *features =
        scan == GPUD_SCAN_ALTERNATE
            ? gst_caps_features_new(GST_CAPS_FEATURE_FORMAT_INTERLACED, NULL)
            : NULL;

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

/* === capture ================================================================================= */
/* Frames from a capture card. */

struct capture_input {
    struct input parent; /* first */
    struct gpud_capture *capture;
};

/* The fields of extra-controls. */
struct controls {
    struct gpud_capture_control control[GPUD_CAPTURE_CONTROLS_MAX];
    guint count;
};

static gboolean capture_read_number(const GValue *value, gint64 *number)
{
    GValue wide = G_VALUE_INIT;

    if (GST_VALUE_HOLDS_BITMASK(value)) {
        *number = (gint64)gst_value_get_bitmask(value);
        return TRUE;
    }
    g_value_init(&wide, G_TYPE_INT64);
    gboolean read = !G_VALUE_HOLDS_STRING(value) && !G_VALUE_HOLDS_FLOAT(value) &&
                    !G_VALUE_HOLDS_DOUBLE(value) && g_value_transform(value, &wide);
    *number = g_value_get_int64(&wide);
    g_value_unset(&wide);
    return read;
}

static enum gpud_status read_controls(const GstStructure *structure, struct controls *controls,
                                      struct gpud_error *error)
{
    gint count = structure ? gst_structure_n_fields(structure) : 0;

    controls->count = 0;
    for (gint i = 0; i < count; i++) {
        const gchar *name = gst_structure_nth_field_name(structure, (guint)i);
        const GValue *value = gst_structure_get_value(structure, name);
        if (i >= GPUD_CAPTURE_CONTROLS_MAX)
            return gpud_gst_error_fill(error, GPUD_INVALID,
                                       "extra-controls has too many fields: %s is beyond the 64th",
                                       name);
        struct gpud_capture_control *control = &controls->control[controls->count++];
        *control = (struct gpud_capture_control){.name = name};
        if (G_VALUE_HOLDS_STRING(value))
            control->text = g_value_get_string(value);
        else if (!capture_read_number(value, &control->value))
            return gpud_gst_error_fill(
                error, GPUD_INVALID,
                "the field %s of extra-controls is neither a whole number nor a text", name);
    }
    return GPUD_OK;
}

static enum gpud_status capture_open(const struct input_params *params, struct input **input,
                                     struct gpud_error *error)
{
    /* NULL, of IO_MODE_AUTO: the best that works. */
    static const gchar *const methods[] = {
        [IO_MODE_MMAP] = "mmap", [IO_MODE_USERPTR] = "userptr", [IO_MODE_DMABUF] = "dmabuf"};
    struct gpud_capture_params capture = GPUD_PARAMS_INIT(capture);
    struct gpud_context *context = gpud_gst_context_get(error);
    struct controls controls;
    if (!context)
        return error->status;
    if (read_controls(params->card_controls, &controls, error) != GPUD_OK)
        return error->status;
    capture.input = params->card_input;
    capture.controls = controls.control;
    capture.control_count = controls.count;
    capture.address = params->settings->address;
    capture.device = params->device;
    capture.slots = params->settings->slots;
    capture.method = methods[params->options->io_mode];
    capture.require_direct = params->settings->require_direct;

    struct capture_input *self = g_new0(struct capture_input, 1);
    enum gpud_status status = gpud_capture_create(context, &capture, &self->capture, error);
    if (status != GPUD_OK) {
        g_free(self);
        return status;
    }
    self->parent.ops = &capture_input_ops;
    *input = &self->parent;
    return GPUD_OK;
}

static void capture_close(struct input *input)
{
    struct capture_input *self = (struct capture_input *)input;

    gpud_capture_destroy(&self->capture);
    g_free(self);
}

static enum gpud_status capture_acquire(struct input *input, gint64 timeout,
                                        struct gpud_frame **frame, struct gpud_error *error)
{
    return gpud_capture_acquire(((struct capture_input *)input)->capture, timeout, frame, error);
}

static enum gpud_status capture_wait(struct input *input, gint64 timeout, struct gpud_error *error)
{
    return gpud_capture_wait(((struct capture_input *)input)->capture, timeout, error);
}

static void capture_interrupt(struct input *input, gboolean interrupted)
{
    gpud_capture_interrupt(((struct capture_input *)input)->capture, interrupted);
}

static void capture_stop(struct input *input)
{
    gpud_capture_stop(((struct capture_input *)input)->capture);
}

static enum gpud_status capture_set_input(struct input *input, const gchar *name,
                                          struct gpud_error *error)
{
    const struct gpud_capture_config config = {.size = sizeof(config), .input = name};

    return gpud_capture_configure(((struct capture_input *)input)->capture, &config, error);
}

static enum gpud_status capture_set_controls(struct input *input, const GstStructure *structure,
                                             struct gpud_error *error)
{
    struct controls controls;
    enum gpud_status status = read_controls(structure, &controls, error);
    const struct gpud_capture_config config = {
        .size = sizeof(config),
        .controls = controls.control,
        .control_count = controls.count,
    };

    return status == GPUD_OK
               ? gpud_capture_configure(((struct capture_input *)input)->capture, &config, error)
               : status;
}

static void capture_get_info(struct input *input, struct input_info *info)
{
    struct gpud_capture_info from = GPUD_INFO_INIT(from);

    gpud_capture_get_info(((struct capture_input *)input)->capture, &from);
    *info = (struct input_info){
        .connected = !from.unplugged,
        .connects = 1 + from.returns,
        .disconnects = from.returns + from.unplugged,
        .frames = from.frames,
        .dropped = from.dropped,
        .corrupted = from.corrupted,
        .copies_cpu = from.copies_cpu,
        .copies_gpu = from.copies_gpu,
        .no_signal = !from.signal,
        .stamps = !from.monotonic     ? "unknown"
                  : from.stamps_start ? "start-of-exposure"
                                      : "end-of-frame",
        .stamps_start = from.monotonic && from.stamps_start,
    };
    g_strlcpy(info->signal_reason, from.signal_reason, sizeof(info->signal_reason));
    g_strlcpy(info->card_input, from.input, sizeof(info->card_input));
    g_strlcpy(info->path, from.path, sizeof(info->path));
    g_strlcpy(info->fallback_reason, from.fallback_reason, sizeof(info->fallback_reason));
}

/* All modes whose format GStreamer knows, at least those that match the filter (NULL: all); empty
 * caps if there are none. */
static GstCaps *capture_get_caps(struct input *input, const GstCaps *filter)
{
    struct gpud_capture *capture = ((struct capture_input *)input)->capture;
    g_autoptr(GArray) modes = g_array_new(FALSE, TRUE, sizeof(struct gpud_capture_mode));
    g_autoptr(GPtrArray) formats = named_formats(filter);

    for (guint i = 0; formats && i < formats->len; i++)
        list_modes(capture, formats->pdata[i], modes);
    if (!formats)
        list_modes(capture, NULL, modes);
    return capture_caps_of_modes((struct gpud_capture_mode *)(void *)modes->data, modes->len);
}

/* Caps without an interlace mode leave it to the card. */
static enum gpud_scan scan_of(const GstVideoInfo *info, GstCaps *caps)
{
    if (!gst_structure_has_field(gst_caps_get_structure(caps, 0), "interlace-mode"))
        return GPUD_SCAN_ANY;
    switch (GST_VIDEO_INFO_INTERLACE_MODE(info)) {
    case GST_VIDEO_INTERLACE_MODE_PROGRESSIVE:
        return GPUD_SCAN_PROGRESSIVE;
    case GST_VIDEO_INTERLACE_MODE_ALTERNATE:
        return GPUD_SCAN_ALTERNATE;
    default:
        return GPUD_SCAN_INTERLEAVED;
    }
}

static GstCaps *capture_get_current(struct input *input, struct gpud_layout *layout, gchar **reason)
{
    struct gpud_capture_info now = GPUD_INFO_INIT(now);
    GstVideoInfo info;

    gpud_capture_get_info(((struct capture_input *)input)->capture, &now);
    GstCaps *caps = caps_of(&now.media);
    const struct gpud_layout *made = &now.media.picture.layout;
    if (!caps || !video_info_from_caps(&info, caps) || !layout_fits_info(made, &info)) {
        *reason = g_strdup_printf("the card makes %ux%u %s of it, which GStreamer does not know",
                                  made->width, made->height, made->format);
        gst_clear_caps(&caps);
    }
    *layout = *made;
    return caps;
}

static void capture_get_wish(struct input *input, struct capture_wish *wish)
{
    struct gpud_capture_info info = GPUD_INFO_INIT(info);

    gpud_capture_get_info(((struct capture_input *)input)->capture, &info);
    wish->width = (gint)info.signal_width;
    wish->height = (gint)info.signal_height;
    g_strlcpy(wish->format, info.card_format, sizeof(wish->format));
}

static enum gpud_status capture_configure(struct input *input, GstCaps **caps,
                                          struct gpud_layout *layout, struct gpud_error *error)
{
    struct capture_input *self = (struct capture_input *)input;
    struct gpud_capture_info got = GPUD_INFO_INIT(got);
    GstVideoInfo info;

    if (!video_info_from_caps(&info, *caps))
        return gpud_gst_error_fill(error, GPUD_INVALID,
                                   "the negotiated caps describe no raw video");
    struct gpud_capture_mode mode = {
        .size = sizeof(mode),
        .width_min = (uint32_t)info.width,
        .height_min = (uint32_t)info.height,
        .fps_num = (uint32_t)info.fps_n,
        .fps_den = (uint32_t)info.fps_d,
        .scan = scan_of(&info, *caps),
    };
    g_strlcpy(mode.format, GST_VIDEO_INFO_NAME(&info), sizeof(mode.format));
    const struct gpud_capture_config config = {.size = sizeof(config), .mode = &mode};
    enum gpud_status status = gpud_capture_configure(self->capture, &config, error);
    if (status != GPUD_OK)
        return status;
    gpud_capture_get_info(self->capture, &got);
    const struct gpud_layout *made = &got.media.picture.layout;
    if (!layout_fits_info(made, &info))
        return gpud_gst_error_fill(error, GPUD_UNSUPPORTED,
                                   "the driver made %ux%u %s of %dx%d %s: ask for that with a "
                                   "capsfilter",
                                   made->width, made->height, made->format, info.width, info.height,
                                   GST_VIDEO_INFO_NAME(&info));
    status = capture_caps_complete(caps, &got, error);
    if (status == GPUD_OK)
        *layout = *made;
    return status;
}

const struct input_ops capture_input_ops = {
    .kind = INPUT_CARD,
    .what = "the capture card",
    .open = capture_open,
    .close = capture_close,
    .acquire = capture_acquire,
    .interrupt = capture_interrupt,
    .set_input = capture_set_input,
    .set_controls = capture_set_controls,
    .get_info = capture_get_info,
    .get_caps = capture_get_caps,
    .configure = capture_configure,
    .stop = capture_stop,
    .wait = capture_wait,
    .get_current = capture_get_current,
    .get_wish = capture_get_wish,
};

/* === capturechoice =========================================================================== */

/* --- choosing ------------------------------------------------------------------------------ */

/* Below 30 movement stutters; 29.97 is as good. */
#define RATE_ENOUGH 29.9

static gdouble distance_to(const GstStructure *fixed, gint width, gint height)
{
    gint own_width = 0, own_height = 0;

    gst_structure_get_int(fixed, "width", &own_width);
    gst_structure_get_int(fixed, "height", &own_height);
    return ABS(own_width - width) + ABS(own_height - height);
}

enum { MERITS = 5 };

/* A mode's demerits, the most important first. */
static void capturechoice_judge(const GstStructure *fixed, const struct capture_wish *wish,
                                gdouble against[MERITS])
{
    gint num, den;

    against[0] = gst_structure_has_name(fixed, VIDEO_BAYER);
    against[1] = wish->width ? distance_to(fixed, wish->width, wish->height) : 0;
    against[2] = g_strcmp0(gst_structure_get_string(fixed, "format"), wish->format) != 0;
    against[3] = 0; /* also if the driver does not say its rate */
    if (gst_structure_get_fraction(fixed, "framerate", &num, &den) && num != 0)
        against[3] = MAX(RATE_ENOUGH - (gdouble)num / den, 0);
    against[4] = distance_to(fixed, 1920, 1080);
}

static gboolean capturechoice_is_better(const gdouble a[MERITS], const gdouble b[MERITS])
{
    for (guint i = 0; i < MERITS; i++)
        if (a[i] < b[i] || a[i] > b[i])
            return a[i] < b[i];
    return FALSE;
}

GstCaps *capture_choose(GstCaps *caps, const struct capture_wish *wish)
{
    GstStructure *best = NULL;
    gdouble best_against[MERITS] = {0}, against[MERITS];
    guint place = 0;

    for (guint i = 0; i < gst_caps_get_size(caps); i++) {
        GstStructure *fixed = gst_structure_copy(gst_caps_get_structure(caps, i));
        if (wish->format[0])
            gst_structure_fixate_field_string(fixed, "format", wish->format);
        gst_structure_fixate_field_nearest_int(fixed, "width", wish->width ? wish->width : 1920);
        gst_structure_fixate_field_nearest_int(fixed, "height", wish->height ? wish->height : 1080);
        gst_structure_fixate_field_nearest_fraction(fixed, "framerate", G_MAXINT, 1);
        gst_structure_fixate(fixed);
        capturechoice_judge(fixed, wish, against);
        if (!best || capturechoice_is_better(against, best_against)) {
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

/* What the card offers that matches the wanted caps in the first steps, and one more field, in any
 * memory. */
static GstCaps *narrow(const GstCaps *has, const GstCaps *wanted, guint steps,
                       const gchar *one_more)
{
    GstCaps *any = gst_caps_copy(has), *kept = gst_caps_new_empty();

    gst_caps_set_features_simple(any, gst_caps_features_new_any());
    if (gst_caps_is_any(wanted)) {
        gst_caps_unref(kept);
        return any;
    }
    for (guint i = 0; i < gst_caps_get_size(wanted); i++) {
        const GstStructure *from = gst_caps_get_structure(wanted, i);
        GstStructure *structure = gst_structure_new_empty(gst_structure_get_name(from));
        for (guint k = 0; k <= 2 * steps; k++) {
            const gchar *field = k == 2 * steps ? one_more : step_fields[k / 2][k % 2];
            const GValue *value = field ? gst_structure_get_value(from, field) : NULL;
            if (value)
                gst_structure_set_value(structure, field, value);
        }
        gst_caps_append_structure_full(kept, structure, gst_caps_features_new_any());
    }
    GstCaps *both = gst_caps_intersect_full(any, kept, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref(any);
    gst_caps_unref(kept);
    return both;
}

/* Names without duplicates, as many as fit in a sentence. */
#define NAMED_MAX 12

/* Takes name. */
static void add_name(GPtrArray *names, gchar *name)
{
    if (g_ptr_array_find_with_equal_func(names, name, g_str_equal, NULL))
        g_free(name);
    else
        g_ptr_array_add(names, name);
}

/* Takes names. */
static gchar *join_names(GPtrArray *names, const gchar *between)
{
    GString *text = g_string_new(NULL);

    for (guint i = 0; i < MIN(names->len, NAMED_MAX); i++)
        g_string_append_printf(text, "%s%s", i ? between : "", (gchar *)names->pdata[i]);
    if (names->len > NAMED_MAX)
        g_string_append(text, "…");
    g_ptr_array_unref(names);
    return g_string_free(text, FALSE);
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
static void add_formats(GPtrArray *names, const GstStructure *structure)
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
    g_autofree gchar *across = width ? gst_value_serialize(width) : g_strdup("any"),
                     *down = height ? gst_value_serialize(height) : g_strdup("any");

    return g_strdup_printf("%sx%s", across, down);
}

static void add_sizes(GPtrArray *names, const GstStructure *structure)
{
    add_name(names, name_size(structure));
}

/* "29.97", "25" */
static gdouble capturechoice_rate_of(const GValue *value)
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
    g_autoptr(GArray) rates = g_array_new(FALSE, FALSE, sizeof(gdouble));
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);

    if (value && GST_VALUE_HOLDS_FRACTION_RANGE(value)) {
        add_name(names,
                 g_strdup_printf("%.4g to %.4g",
                                 capturechoice_rate_of(gst_value_get_fraction_range_min(value)),
                                 capturechoice_rate_of(gst_value_get_fraction_range_max(value))));
        value = NULL;
    }
    for (guint i = 0; i < count_values(value); i++) {
        gdouble rate = capturechoice_rate_of(value_at(value, i));
        if (rate > 0)
            g_array_append_val(rates, rate);
    }
    g_array_sort(rates, compare_rates);
    for (guint i = 0; i < rates->len; i++)
        add_name(names, g_strdup_printf("%.4g", g_array_index(rates, gdouble, i)));
    return join_names(names, ", ");
}

static void add_rates(GPtrArray *names, const GstStructure *structure)
{
    g_autofree gchar *size = name_size(structure),
                     *rates = name_rates(gst_structure_get_value(structure, "framerate"));

    add_name(names, rates[0] ? g_strdup_printf("%s at %s", size, rates) : g_strdup(size));
}

static gchar *capturechoice_join(const GstCaps *caps, const gchar *between,
                                 void (*add)(GPtrArray *, const GstStructure *))
{
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);

    for (guint i = 0; i < gst_caps_get_size(caps); i++)
        add(names, gst_caps_get_structure(caps, i));
    if (names->len == 0)
        add_name(names, g_strdup("nothing"));
    return join_names(names, between);
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
        g_autoptr(GstCaps) one = gst_caps_copy_nth(has, i);
        g_autoptr(GstCaps) both = narrow(one, wanted, STEPS, NULL);
        all = gst_caps_is_empty(both) || is_of_fields(has, i) == fields;
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
        g_autoptr(GstCaps) offered = narrow(has, wanted, STEPS, NULL);
        const GValue *value = gst_structure_get_value(gst_caps_get_structure(offered, 0), field);
        g_autofree gchar *is = value ? gst_value_serialize(value) : g_strdup("not known");
        return g_strdup_printf("there %s is %s: ask for that, or leave it open", field, is);
    }
    gboolean wants_fields = is_of_fields(wanted, 0);
    if (!wants_fields && comes_as_fields(has, wanted, TRUE))
        return g_strdup("it gives each field as a buffer of its own: ask for "
                        "video/x-raw(format:Interlaced),interlace-mode=alternate, and put elements "
                        "that take such fields after gpudirectsrc");
    if (wants_fields && comes_as_fields(has, wanted, FALSE))
        return g_strdup("it gives whole pictures, not fields: ask for video/x-raw without "
                        "(format:Interlaced)");
    g_autofree gchar *memory = gst_caps_features_to_string(gst_caps_get_features(wanted, 0));
    return g_strdup_printf("they take frames in %s alone: set the property device to such "
                           "a device, or put an element that downloads them behind "
                           "gpudirectsrc",
                           memory);
}

gchar *capture_explain_refusal(const GstCaps *has, const GstCaps *wanted)
{
    static const struct {
        void (*add)(GPtrArray *, const GstStructure *);
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
        g_autoptr(GstCaps) offered =
            step > 0 ? narrow(has, wanted, step, NULL) : gst_caps_copy(has);
        g_autofree gchar *format = capturechoice_join(offered, ", ", add_formats);
        g_autofree gchar *list = capturechoice_join(offered, steps[step].between, steps[step].add);
        return g_strdup_printf(
            "it has %s%s%s%s: ask for one of these, or put a %s after gpudirectsrc",
            step > 0 ? format : "", step > 0 ? " in " : "", list,
            step == STEP_RATE ? " frames a second" : "", steps[step].element);
    }
    return explain_rest(has, wanted);
}
