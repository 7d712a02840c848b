/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What OBS renders, with its sound, to a channel. It is started and stopped in the tools menu, and
 * by requests of obs-websocket to the vendor "gpudirect". */
#include "obs.h"

#include <obs-frontend-api.h>

/* === the output ============================================================================== */

struct output {
    struct feed feed;
    obs_output_t *output;
    struct video_output_info video;
    volatile bool ending; /* OBS calls it active until the capture has ended */
};

static const char *output_get_name(void *data)
{
    return obs_module_text("Output");
}

static void output_failed(struct feed *feed)
{
    struct output *self = (struct output *)feed;

    os_atomic_set_bool(&self->ending, true);
    obs_output_signal_stop(self->output, OBS_OUTPUT_ERROR);
}

static void *output_create(obs_data_t *settings, obs_output_t *output)
{
    struct output *self = bzalloc(sizeof(*self));

    feed_init(&self->feed);
    self->feed.failed = output_failed;
    self->output = output;
    return self;
}

static void output_destroy(void *data)
{
    feed_destroy(data);
}

/* What OBS renders before the channels are open is left out. */
static bool output_start(void *data)
{
    struct output *self = data;
    struct gpud_media media;

    if (!obs_output_can_begin_data_capture(self->output, 0))
        return false;
    self->video = *video_output_get_info(obs_output_video(self->output));
    self->video.name = NULL;
    obs_data_t *settings = obs_output_get_settings(self->output);
    bool started = false;
    if (!media_from_video(&media, &self->video))
        obs_output_set_last_error(self->output, obs_module_text("NoFormat"));
    else if (!*obs_data_get_string(settings, "address"))
        obs_output_set_last_error(self->output, obs_module_text("NoAddress"));
    else
        started = obs_output_begin_data_capture(self->output, 0);
    if (started) {
        os_atomic_set_bool(&self->ending, false);
        feed_set(&self->feed, settings); /* whose failure ends the capture */
    }
    obs_data_release(settings);
    return started;
}

static void output_stop(void *data, uint64_t time)
{
    struct output *self = data;

    os_atomic_set_bool(&self->ending, true);
    feed_set(&self->feed, NULL);
    obs_output_end_data_capture(self->output);
}

static void output_raw_video(void *data, struct video_data *frame)
{
    struct output *self = data;

    feed_picture(&self->feed, &self->video, frame);
}

static void output_raw_audio(void *data, struct audio_data *frames)
{
    feed_sound(data, frames);
}

static void output_get_defaults(obs_data_t *settings)
{
    obs_data_set_default_string(settings, "address", "obs");
}

static const struct obs_output_info output_info = {
    .id = "gpudirect_output",
    .flags = OBS_OUTPUT_AV,
    .get_name = output_get_name,
    .create = output_create,
    .destroy = output_destroy,
    .start = output_start,
    .stop = output_stop,
    .raw_video = output_raw_video,
    .raw_audio = output_raw_audio,
    .get_defaults = output_get_defaults,
};

/* === the programme's output ================================================================== */
/* OBS has a dialog for the properties of sources alone, so that the output's settings are those of
 * a source, which is in no list. Both are there from the plugin's load to the end of OBS. */

static obs_output_t *programme;
static obs_source_t *dialog;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for the programme's settings */

/* OBS's own start waits for the end of the last one. */
static bool programme_start(void)
{
    struct output *self = obs_obj_get_data(programme);
    obs_data_t *settings = obs_source_get_settings(dialog);

    pthread_mutex_lock(&lock);
    bool started = obs_output_active(programme) && !os_atomic_load_bool(&self->ending);
    if (!started) {
        obs_output_update(programme, settings);
        started = obs_output_start(programme);
    }
    pthread_mutex_unlock(&lock);
    obs_data_release(settings);
    return started;
}

static bool dialog_on_button(obs_properties_t *props, obs_property_t *property, void *data)
{
    if (strcmp(obs_property_name(property), "start") == 0)
        programme_start();
    else
        obs_output_stop(programme);
    return false;
}

static void *dialog_create(obs_data_t *settings, obs_source_t *source)
{
    return source;
}

static void dialog_destroy(void *data)
{
}

/* The settings are OBS's, not of a collection of scenes. */
static void dialog_update(void *data, obs_data_t *settings)
{
    char *folder = obs_module_config_path("");
    char *path = obs_module_config_path("output.json");

    if (os_mkdirs(folder) == MKDIR_ERROR || !obs_data_save_json_safe(settings, path, "tmp", "bak"))
        plugin_log(LOG_WARNING, path, "the output's settings cannot be saved there");
    bfree(folder);
    bfree(path);
}

static obs_properties_t *dialog_get_properties(void *data)
{
    obs_properties_t *props = obs_properties_create();

    endpoint_add_address(props);
    obs_properties_add_button(props, "start", obs_module_text("Start"), dialog_on_button);
    obs_properties_add_button(props, "stop", obs_module_text("Stop"), dialog_on_button);
    endpoint_add_files(props);
    return props;
}

static const struct obs_source_info dialog_info = {
    .id = "gpudirect_output_settings",
    .type = OBS_SOURCE_TYPE_INPUT,
    .output_flags = OBS_SOURCE_CAP_DISABLED,
    .get_name = output_get_name,
    .create = dialog_create,
    .destroy = dialog_destroy,
    .update = dialog_update,
    .get_defaults = output_get_defaults,
    .get_properties = dialog_get_properties,
};

static void dialog_open(void *data)
{
    obs_frontend_open_source_properties(dialog);
}

/* === requests ================================================================================ */

static void request_status(obs_data_t *request, obs_data_t *response, void *data)
{
    struct output *self = obs_obj_get_data(programme);
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    char error[GPUD_REASON_MAX];
    uint64_t dropped = 0;

    feed_get_info(&self->feed, &info, &dropped);
    feed_get_error(&self->feed, error);
    pthread_mutex_lock(&lock);
    obs_data_t *settings = obs_output_get_settings(programme);
    obs_data_set_string(response, "address", obs_data_get_string(settings, "address"));
    obs_data_release(settings);
    pthread_mutex_unlock(&lock);
    obs_data_set_bool(response, "active", obs_output_active(programme));
    obs_data_set_int(response, "receivers", info.receivers);
    obs_data_set_int(response, "frames", (long long)info.frames);
    obs_data_set_int(response, "dropped", (long long)dropped);
    obs_data_set_string(response, "error", error);
}

static void request_start(obs_data_t *request, obs_data_t *response, void *data)
{
    obs_data_t *settings = obs_data_create();

    if (obs_data_has_user_value(request, "address")) {
        obs_data_set_string(settings, "address", obs_data_get_string(request, "address"));
        obs_source_update(dialog, settings);
    }
    obs_data_release(settings);
    obs_data_set_bool(response, "started", programme_start());
    request_status(request, response, data);
}

static void request_stop(obs_data_t *request, obs_data_t *response, void *data)
{
    obs_output_stop(programme);
    request_status(request, response, data);
}

/* What obs-websocket-api.h does, which Debian does not package. */
static void request_register(void)
{
    static struct {
        const char *name;
        struct {
            void (*call)(obs_data_t *request, obs_data_t *response, void *data);
            void *data;
        } callback;
    } requests[] = {{"StartOutput", {request_start}},
                    {"StopOutput", {request_stop}},
                    {"GetStatus", {request_status}}};
    calldata_t call = {0};

    proc_handler_call(obs_get_proc_handler(), "obs_websocket_api_get_ph", &call);
    proc_handler_t *websocket = calldata_ptr(&call, "ph");
    calldata_set_string(&call, "name", "gpudirect");
    if (websocket)
        proc_handler_call(websocket, "vendor_register", &call);
    else
        plugin_log(LOG_INFO, "obs-websocket is not loaded",
                   "the output starts and stops in its dialog alone");
    for (size_t i = 0; websocket && i < sizeof(requests) / sizeof(*requests); i++) {
        calldata_set_string(&call, "type", requests[i].name);
        calldata_set_ptr(&call, "callback", &requests[i].callback);
        proc_handler_call(websocket, "vendor_request_register", &call);
    }
    calldata_free(&call);
}

/* === loading ================================================================================= */

/* While OBS still renders, which is what the end of an output waits for. */
static void programme_on_event(enum obs_frontend_event event, void *data)
{
    if (event == OBS_FRONTEND_EVENT_EXIT)
        obs_output_stop(programme);
}

void output_load(void)
{
    obs_frontend_add_event_callback(programme_on_event, NULL);
    obs_register_output(&output_info);
    obs_register_source(&dialog_info);
    obs_frontend_add_tools_menu_item(obs_module_text("Menu"), dialog_open, NULL);
}

void obs_module_post_load(void)
{
    char *path = obs_module_config_path("output.json");
    obs_data_t *settings = obs_data_create_from_json_file_safe(path, "bak");

    dialog = obs_source_create_private(dialog_info.id, obs_module_text("Output"), settings);
    programme = obs_output_create(output_info.id, "gpudirect", settings, NULL);
    request_register();
    obs_data_release(settings);
    bfree(path);
}

void output_unload(void)
{
    obs_frontend_remove_event_callback(programme_on_event, NULL);
    obs_output_release(programme);
    obs_source_release(dialog);
}
