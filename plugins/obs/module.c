/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The plugin for OBS Studio: what it registers, its log, and the channels that its lists have. */
#include "obs.h"

#include <util/dstr.h>

OBS_DECLARE_MODULE()
OBS_MODULE_USE_DEFAULT_LOCALE("gpudirect", "en-US")

struct gpud_context *plugin_context;

void plugin_log(int level, const char *what, const char *reason)
{
    blog(level, "[gpudirect] %s: %s", what, reason);
}

static void plugin_on_log(void *user, enum gpud_log_level level, const char *area, const char *text)
{
    plugin_log(100 * (int)level, area, text); /* from LOG_ERROR, 100, to LOG_DEBUG, 400 */
}

struct task {
    void (*run)(void *owner, obs_data_t *settings);
    void *owner;
    obs_data_t *settings;
};

static void plugin_run_task(void *data)
{
    struct task *task = data;

    task->run(task->owner, task->settings);
    obs_data_release(task->settings);
    bfree(task);
}

void plugin_queue(void (*run)(void *owner, obs_data_t *settings), void *owner, obs_data_t *settings)
{
    struct task *task = bzalloc(sizeof(*task));

    *task = (struct task){run, owner, settings ? obs_data_get_defaults(settings) : NULL};
    if (settings)
        obs_data_apply(task->settings, settings);
    obs_queue_task(OBS_TASK_DESTROY, plugin_run_task, task, false);
}

/* === endpoints =============================================================================== */

void endpoint_get_address(obs_data_t *settings, int stream, char address[ADDRESS_MAX])
{
    const char *name = obs_data_get_string(settings, "address");

    snprintf(address, ADDRESS_MAX, "%s%s", name, *name && stream == STREAM_SOUND ? "/audio" : "");
}

/* Channels are asked for in a thread of their own, while a dialog with a list is open: one that is
 * stopped, and the network, answer late. */
#define INTERVAL_MS 1000
#define LOCAL_NS (200 * GPUD_MSEC)
#define NETWORK_NS (1500 * GPUD_MSEC)

static struct {
    pthread_t thread;
    os_event_t *wake;
    volatile long dialogs;
    volatile bool ending;
    pthread_mutex_t lock;  /* for what follows */
    struct dstr addresses; /* each with a newline */
} channels = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Sound is a part of a programme, unless there is nothing else at its address. */
static void channels_append(struct dstr *addresses, const char *where, int64_t timeout_ns)
{
    struct gpud_channel_list *list = NULL;
    uint32_t count = 0;

    gpud_channel_list_create(where, timeout_ns, &list, &count, NULL, NULL);
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_channel_info info = GPUD_INFO_INIT(info);
        gpud_channel_list_get_info(list, i, &info, NULL);
        const char *stream = strstr(info.address, "/audio");
        if (!(stream && stream[6] == '\0') && !(where && info.own_host) &&
            (!info.configured || info.media.kind <= GPUD_MEDIA_AUDIO))
            dstr_catf(addresses, "%s\n", info.address);
    }
    gpud_channel_list_destroy(&list);
}

/* Those without an open dialog ignore it. */
static bool channels_update_dialog(void *data, obs_source_t *source)
{
    if (strcmp(obs_source_get_id(source), source_info.id) == 0)
        obs_source_update_properties(source);
    return true;
}

static void channels_search(void)
{
    struct dstr found = {0};

    channels_append(&found, NULL, LOCAL_NS);
    channels_append(&found, GPUD_CHANNELS_NETWORK, NETWORK_NS);
    pthread_mutex_lock(&channels.lock);
    bool changed = channels.addresses.len != found.len ||
                   memcmp(channels.addresses.array, found.array, found.len) != 0;
    dstr_free(&channels.addresses);
    channels.addresses = found;
    pthread_mutex_unlock(&channels.lock);
    if (changed)
        obs_enum_sources(channels_update_dialog, NULL);
}

static void *channels_run(void *data)
{
    os_set_thread_name("gpudirect channels");
    while (!os_atomic_load_bool(&channels.ending)) {
        if (os_atomic_load_long(&channels.dialogs) > 0)
            channels_search();
        os_event_timedwait(channels.wake, INTERVAL_MS);
    }
    return NULL;
}

static void channels_on_dialog_closed(void *param)
{
    os_atomic_dec_long(&channels.dialogs);
}

void endpoint_add_channels(obs_properties_t *props)
{
    obs_property_t *list =
        obs_properties_add_list(props, "address", obs_module_text("Address"),
                                OBS_COMBO_TYPE_EDITABLE, OBS_COMBO_FORMAT_STRING);

    pthread_mutex_lock(&channels.lock);
    char **addresses = strlist_split(channels.addresses.array, '\n', false);
    pthread_mutex_unlock(&channels.lock);
    os_atomic_inc_long(&channels.dialogs);
    for (char **address = addresses; address && *address; address++)
        obs_property_list_add_string(list, *address, *address);
    strlist_free(addresses);
    obs_properties_set_param(props, &channels, channels_on_dialog_closed);
    os_event_signal(channels.wake);
}

void endpoint_add_address(obs_properties_t *props)
{
    obs_properties_add_text(props, "address", obs_module_text("Address"), OBS_TEXT_DEFAULT);
}

void endpoint_add_files(obs_properties_t *props)
{
    static const char *const names[] = {"psk_file", "tls_certificate", "tls_key", "tls_ca"};
    obs_properties_t *network = obs_properties_create();

    for (int i = 0; i < 4; i++)
        obs_properties_add_path(network, names[i], obs_module_text(names[i]), OBS_PATH_FILE, NULL,
                                NULL);
    obs_properties_add_group(props, "network", obs_module_text("Network"), OBS_GROUP_NORMAL,
                             network);
}

/* === the module ============================================================================== */

MODULE_EXPORT const char *obs_module_description(void)
{
    return obs_module_text("Description");
}

bool obs_module_load(void)
{
    struct gpud_context_params params = GPUD_PARAMS_INIT(params);
    struct gpud_error error = {.reason = "no thread can be made"};

    params.log = plugin_on_log;
    if (gpud_context_create(&params, &plugin_context, &error) != GPUD_OK ||
        os_event_init(&channels.wake, OS_EVENT_TYPE_AUTO) != 0 ||
        pthread_create(&channels.thread, NULL, channels_run, NULL) != 0) {
        plugin_log(LOG_ERROR, "the plugin cannot be used", error.reason);
        return false;
    }
    obs_register_source(&source_info);
    obs_register_source(&filter_info);
    output_load();
    return true;
}

static void plugin_do_nothing(void *data)
{
}

/* Senders that are still to be closed are, once a task behind theirs has run. */
void obs_module_unload(void)
{
    output_unload();
    obs_queue_task(OBS_TASK_DESTROY, plugin_do_nothing, NULL, true);
    os_atomic_set_bool(&channels.ending, true);
    os_event_signal(channels.wake);
    pthread_join(channels.thread, NULL);
    os_event_destroy(channels.wake);
    dstr_free(&channels.addresses);
    gpud_context_destroy(&plugin_context);
}
