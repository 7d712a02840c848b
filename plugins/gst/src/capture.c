/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Frames from a capture card. */
#include "base/context.h"
#include "src/capturecaps.h"
#include "src/input.h"
#include "wire/caps.h"

#include <gpudirect/capture.h>

struct capture_input {
    struct input parent; /* first */
    struct gpud_capture *capture;
};

/* The fields of extra-controls. */
struct controls {
    struct gpud_capture_control control[GPUD_CAPTURE_CONTROLS_MAX];
    guint count;
};

static gboolean read_number(const GValue *value, gint64 *number)
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

static enum gpud_status refuse_controls(struct gpud_error *error, const gchar *format,
                                        const gchar *name)
{
    *error = (struct gpud_error){.status = GPUD_INVALID};
    g_snprintf(error->reason, sizeof(error->reason), format, name);
    return GPUD_INVALID;
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
            return refuse_controls(error,
                                   "extra-controls has too many fields: %s is beyond the "
                                   "64th",
                                   name);
        struct gpud_capture_control *control = &controls->control[controls->count++];
        *control = (struct gpud_capture_control){.name = name};
        if (G_VALUE_HOLDS_STRING(value))
            control->text = g_value_get_string(value);
        else if (!read_number(value, &control->value))
            return refuse_controls(error,
                                   "the field %s of extra-controls is neither a whole "
                                   "number nor a text",
                                   name);
    }
    return GPUD_OK;
}

static enum gpud_status capture_open(const struct input_params *params, struct input **input,
                                     struct gpud_error *error)
{
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
    capture.address = params->address;
    capture.device = params->device;
    capture.slots = params->slots;
    capture.method = params->method;
    capture.require_direct = params->require_direct;

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

static GstCaps *capture_get_caps(struct input *input, const GstCaps *filter)
{
    return capture_caps(((struct capture_input *)input)->capture, filter);
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
    GstCaps *caps = capture_caps_current(&now);
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
    gchar *reason = NULL;

    if (!video_info_from_caps(&info, *caps)) {
        *error = (struct gpud_error){.status = GPUD_INVALID};
        g_strlcpy(error->reason, "the negotiated caps describe no raw video",
                  sizeof(error->reason));
        return GPUD_INVALID;
    }
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
    if (!layout_fits_info(made, &info)) {
        *error = (struct gpud_error){.status = GPUD_UNSUPPORTED};
        g_snprintf(error->reason, sizeof(error->reason),
                   "the driver made %ux%u %s of %dx%d %s: ask for that with a "
                   "capsfilter",
                   made->width, made->height, made->format, info.width, info.height,
                   GST_VIDEO_INFO_NAME(&info));
        return GPUD_UNSUPPORTED;
    }
    if (!capture_caps_complete(caps, &got, &reason)) {
        *error = (struct gpud_error){.status = GPUD_UNSUPPORTED};
        g_strlcpy(error->reason, reason, sizeof(error->reason));
        g_free(reason);
        return GPUD_UNSUPPORTED;
    }
    *layout = *made;
    return GPUD_OK;
}

const struct input_ops capture_input_ops = {
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
    .has_signal = TRUE,
    .stop = capture_stop,
    .wait = capture_wait,
    .get_current = capture_get_current,
    .get_wish = capture_get_wish,
};
