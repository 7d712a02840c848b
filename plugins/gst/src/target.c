/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Frames from a third-party writer, which finds its slots' addresses in a file. The ring is made
 * for the negotiated caps, and recreated when the writer breaks the rules. */
#include "base/plugin.h"
#include "src/src.h"
#include "wire/codec.h"

#include <gpudirect/target.h>

struct target_input {
    struct input parent; /* first */
    gchar *device;
    guint slots;
    GMutex lock; /* of target to past; acquire reads target without it: only its thread ends it */
    struct gpud_target *target; /* NULL: no caps yet, or it could not be made */
    gchar *name;
    gboolean interrupted;
    struct input_info past; /* the counts of earlier targets */
    /* The streaming thread's. */
    struct gpud_layout layout;
    guint fps_num, fps_den;
    struct gpud_error missing; /* why there is no target */
};

static struct target_input *to_self(struct input *input)
{
    return (struct target_input *)input;
}

static enum gpud_status target_open(const struct input_params *params, struct input **input,
                                    struct gpud_error *error)
{
    struct target_input *self = g_new0(struct target_input, 1);

    self->parent.ops = &target_input_ops;
    self->name = g_strdup(params->address + strlen(TARGET_SCHEME));
    self->device = g_strdup(params->device);
    self->slots = params->slots;
    g_mutex_init(&self->lock);
    *input = &self->parent;
    return GPUD_OK;
}

static void target_count(struct target_input *self, struct input_info *info)
{
    struct gpud_target_info from = GPUD_INFO_INIT(from);

    *info = self->past;
    g_strlcpy(info->path, "none", sizeof(info->path));
    if (!self->target)
        return;
    gpud_target_get_info(self->target, &from);
    info->connected = from.age_ns != GPUD_TIME_NONE && from.reason[0] == '\0';
    info->frames += from.frames;
    info->dropped += from.dropped;
    info->corrupted += from.corrupted;
    info->slots = from.slots;
    g_strlcpy(info->path, from.path, sizeof(info->path));
    g_strlcpy(info->fallback_reason, from.reason, sizeof(info->fallback_reason));
}

static void drop_target(struct target_input *self)
{
    struct input_info counted;

    g_mutex_lock(&self->lock);
    target_count(self, &counted);
    self->past.frames = counted.frames;
    self->past.dropped = counted.dropped;
    self->past.corrupted = counted.corrupted;
    struct gpud_target *gone = g_steal_pointer(&self->target);
    g_mutex_unlock(&self->lock);
    gpud_target_destroy(&gone);
}

static enum gpud_status make_target(struct target_input *self, struct gpud_error *error)
{
    struct gpud_target_params params = GPUD_PARAMS_INIT(params);
    struct gpud_context *context = gpud_gst_context_get(error);
    struct gpud_target *made = NULL;

    drop_target(self); /* first, because it owns the name */
    if (!context)
        return error->status;
    params.layout = &self->layout;
    params.device = self->device;
    params.slots = self->slots;
    params.name = self->name;
    params.fps_num = self->fps_num;
    params.fps_den = self->fps_num ? self->fps_den : 0;
    enum gpud_status status = gpud_target_create(context, &params, &made, error);
    if (status != GPUD_OK)
        return status;
    g_mutex_lock(&self->lock);
    self->target = made;
    gpud_target_interrupt(made, self->interrupted);
    g_mutex_unlock(&self->lock);
    return GPUD_OK;
}

static void target_close(struct input *input)
{
    struct target_input *self = to_self(input);

    gpud_target_destroy(&self->target);
    g_mutex_clear(&self->lock);
    g_free(self->name);
    g_free(self->device);
    g_free(self);
}

static enum gpud_status target_acquire(struct input *input, gint64 timeout,
                                       struct gpud_frame **frame, struct gpud_error *error)
{
    struct target_input *self = to_self(input);
    struct gpud_error why;

    if (!self->target) {
        *error = self->missing;
        return error->status;
    }
    enum gpud_status status = gpud_target_acquire(self->target, timeout, frame, error);
    if (status != GPUD_PEER && status != GPUD_CLOSED)
        return status;
    /* Only this ring has ended, not the stream: the writer will find a new one. */
    if (make_target(self, &why) != GPUD_OK) {
        self->missing = *error = why;
        return why.status;
    }
    return error->status = GPUD_PEER;
}

static void target_interrupt(struct input *input, gboolean interrupted)
{
    struct target_input *self = to_self(input);

    g_mutex_lock(&self->lock);
    self->interrupted = interrupted;
    if (self->target)
        gpud_target_interrupt(self->target, interrupted);
    g_mutex_unlock(&self->lock);
}

static void target_get_info(struct input *input, struct input_info *info)
{
    struct target_input *self = to_self(input);

    g_mutex_lock(&self->lock);
    target_count(self, info);
    g_mutex_unlock(&self->lock);
}

/* All caps that a ring can hold, of which downstream chooses. */
static GstCaps *target_get_caps(struct input *input, const GstCaps *filter)
{
    return gst_caps_from_string(SLOT_VIDEO_CAPS);
}

static enum gpud_status target_configure(struct input *input, GstCaps **caps,
                                         struct gpud_layout *layout, struct gpud_error *error)
{
    struct target_input *self = to_self(input);
    GstVideoInfo info;

    if (!video_info_from_caps(&info, *caps) || !layout_from_info(&self->layout, &info)) {
        *error = (struct gpud_error){.status = GPUD_INVALID};
        g_strlcpy(error->reason, "the negotiated caps describe no raw video that a ring can hold",
                  sizeof(error->reason));
        return GPUD_INVALID;
    }
    self->fps_num = (guint)info.fps_n;
    self->fps_den = (guint)info.fps_d;
    enum gpud_status status = make_target(self, error);
    if (status == GPUD_OK)
        *layout = self->layout;
    else
        self->missing = *error;
    return status;
}

const struct input_ops target_input_ops = {
    .kind = INPUT_TARGET,
    .what = "the writer",
    .open = target_open,
    .close = target_close,
    .acquire = target_acquire,
    .interrupt = target_interrupt,
    .get_info = target_get_info,
    .get_caps = target_get_caps,
    .configure = target_configure,
};
