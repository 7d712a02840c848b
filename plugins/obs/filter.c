/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A filter that sends its source, picture and sound, to a channel of its own, also while the source
 * is in no scene that is shown. */
#include "obs.h"

struct filter {
    struct feed feed;
    obs_source_t *source;
    obs_weak_source_t *parent; /* whose sound is heard */
    /* OBS's graphics thread's: a picture is rendered, and read a frame later, when the GPU has
     * finished it. */
    gs_texrender_t *render;
    gs_stagesurf_t *stage;
    struct video_output_info video;
    uint64_t staged_at; /* the time of the picture in stage; 0: none */
};

static const char *filter_get_name(void *data)
{
    return obs_module_text("Filter");
}

static void filter_on_audio(void *param, obs_source_t *source, const struct audio_data *audio,
                            bool muted)
{
    if (!muted)
        feed_sound(param, audio);
}

/* Follows the source that the filter is on. */
static void filter_listen(struct filter *filter, obs_source_t *parent)
{
    obs_source_t *old = obs_weak_source_get_source(filter->parent);

    if (old != parent) {
        if (old)
            obs_source_remove_audio_capture_callback(old, filter_on_audio, filter);
        obs_weak_source_release(filter->parent);
        filter->parent = obs_source_get_weak_source(parent);
        if (parent)
            obs_source_add_audio_capture_callback(parent, filter_on_audio, filter);
    }
    obs_source_release(old);
}

static void filter_resize(struct filter *filter, uint32_t width, uint32_t height)
{
    struct obs_video_info canvas;

    if (filter->video.width == width && filter->video.height == height)
        return;
    gs_stagesurface_destroy(filter->stage);
    filter->stage = gs_stagesurface_create(width, height, GS_BGRA);
    filter->video = (struct video_output_info){
        .format = VIDEO_FORMAT_BGRA,
        .width = width,
        .height = height,
        .colorspace = VIDEO_CS_SRGB,
        .range = VIDEO_RANGE_FULL,
    };
    if (obs_get_video_info(&canvas)) {
        filter->video.fps_num = canvas.fps_num;
        filter->video.fps_den = canvas.fps_den;
    }
}

/* Without a receiver only the first picture is sent, so that the channel has a format. */
static void filter_render(void *data, uint32_t cx, uint32_t cy)
{
    struct filter *filter = data;
    struct video_data staged = {.timestamp = filter->staged_at};
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    struct vec4 clear = {0};

    if (filter->staged_at &&
        gs_stagesurface_map(filter->stage, &staged.data[0], &staged.linesize[0])) {
        feed_picture(&filter->feed, &filter->video, &staged);
        gs_stagesurface_unmap(filter->stage);
    }
    filter->staged_at = 0;
    filter_listen(filter, obs_filter_get_parent(filter->source));
    obs_source_t *target = obs_filter_get_target(filter->source);
    uint32_t width = target ? obs_source_get_base_width(target) : 0;
    uint32_t height = target ? obs_source_get_base_height(target) : 0;
    if (!width || !height || !obs_source_enabled(filter->source) ||
        !feed_get_info(&filter->feed, &info, NULL) || (info.frames > 0 && info.receivers == 0))
        return;
    filter_resize(filter, width, height);
    gs_texrender_reset(filter->render);
    if (!gs_texrender_begin_with_color_space(filter->render, width, height, GS_CS_SRGB))
        return;
    gs_clear(GS_CLEAR_COLOR, &clear, 0, 0);
    gs_ortho(0, (float)width, 0, (float)height, -100, 100);
    gs_blend_state_push();
    gs_blend_function(GS_BLEND_ONE, GS_BLEND_ZERO);
    obs_source_video_render(target);
    gs_blend_state_pop();
    gs_texrender_end(filter->render);
    gs_stage_texture(filter->stage, gs_texrender_get_texture(filter->render));
    filter->staged_at = obs_get_video_frame_time();
}

/* What is seen of the source stays as it is. */
static void filter_video_render(void *data, gs_effect_t *effect)
{
    obs_source_skip_video_filter(((struct filter *)data)->source);
}

static void filter_update(void *data, obs_data_t *settings)
{
    feed_set(data, settings);
}

static void *filter_create(obs_data_t *settings, obs_source_t *source)
{
    struct filter *filter = bzalloc(sizeof(*filter));

    filter->source = source;
    feed_init(&filter->feed);
    feed_set(&filter->feed, settings);
    obs_enter_graphics();
    filter->render = gs_texrender_create(GS_BGRA, GS_ZS_NONE);
    obs_leave_graphics();
    obs_add_main_render_callback(filter_render, filter);
    return filter;
}

static void filter_destroy(void *data)
{
    struct filter *filter = data;

    obs_remove_main_render_callback(filter_render, filter);
    filter_listen(filter, NULL);
    obs_weak_source_release(filter->parent); /* of a source that was destroyed before */
    obs_enter_graphics();
    gs_texrender_destroy(filter->render);
    gs_stagesurface_destroy(filter->stage);
    obs_leave_graphics();
    feed_destroy(&filter->feed);
}

static obs_properties_t *filter_get_properties(void *data)
{
    struct filter *filter = data;
    obs_properties_t *props = obs_properties_create();
    char error[GPUD_REASON_MAX] = "";

    endpoint_add_address(props);
    if (filter)
        feed_get_error(&filter->feed, error);
    if (*error)
        obs_properties_add_text(props, "error", error, OBS_TEXT_INFO);
    endpoint_add_files(props);
    return props;
}

const struct obs_source_info filter_info = {
    .id = "gpudirect_filter",
    .type = OBS_SOURCE_TYPE_FILTER,
    .output_flags = OBS_SOURCE_VIDEO,
    .get_name = filter_get_name,
    .create = filter_create,
    .destroy = filter_destroy,
    .update = filter_update,
    .video_render = filter_video_render,
    .get_properties = filter_get_properties,
};
