/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The channels as JSON. tools/schema/channels.json describes it: a new key needs an entry there,
 * and a test compares them. No key is removed or changes its meaning. */
#include "channels/channelsjson.h"

#include "channels/ask.h"
#include "json.h"

const char *channels_phase_name(enum gpud_link_phase phase)
{
    static const char *const names[] = {
        [GPUD_PHASE_CONNECTING] = "connecting",
        [GPUD_PHASE_STREAMING] = "streaming",
        [GPUD_PHASE_LEAVING] = "leaving",
    };
    return (size_t)phase < G_N_ELEMENTS(names) ? names[phase] : "unknown";
}

const char *channels_policy_name(enum gpud_slow_receiver policy)
{
    static const char *const names[] = {
        [GPUD_SLOW_DEFAULT] = "default",
        [GPUD_SLOW_BLOCK] = "block",
        [GPUD_SLOW_DROP_NEWEST] = "drop-newest",
        [GPUD_SLOW_DROP_OLDEST] = "drop-oldest",
    };
    return (size_t)policy < G_N_ELEMENTS(names) ? names[policy] : "unknown";
}

void channels_put_receiver(JsonBuilder *builder, const struct gpud_link_info *link)
{
    json_put_int(builder, "id", (gint64)link->id);
    json_put_int_if(builder, "pid", link->pid > 0, link->pid);
    json_put_text(builder, "host", link->host);
    json_put_text(builder, "name", link->name);
    json_put_text(builder, "device", link->device);
    json_put_string(builder, "state", channels_phase_name(link->phase));
    json_put_text(builder, "route", link->path);
    json_put_text(builder, "reason", link->fallback_reason);
    json_put_string(builder, "slow_receiver", channels_policy_name(link->slow_receiver));
    json_put_int(builder, "frames", (gint64)link->delivered);
    json_put_int(builder, "dropped", (gint64)link->dropped);
    json_put_int(builder, "waiting", (gint64)link->waiting);
    json_put_int(builder, "held", link->held);
    json_put_rate(builder, "latency_ns", (double)link->latency_ns);
    json_put_rate(builder, "latency_max_ns", (double)link->stats.latency_max_ns);
    json_put_int(builder, "dropped_newest", (gint64)link->dropped_newest);
    json_put_int(builder, "dropped_oldest", (gint64)link->dropped_oldest);
    json_put_int(builder, "dropped_failed", (gint64)link->dropped_failed);
    json_put_int(builder, "dropped_format", (gint64)link->dropped_format);
    json_put_int(builder, "acquired", (gint64)link->stats.frames);
    json_put_int(builder, "corrupted", (gint64)link->stats.corrupted);
    json_put_int(builder, "copies_cpu", (gint64)link->stats.copies_cpu);
    json_put_int(builder, "copies_gpu", (gint64)link->stats.copies_gpu);
    json_put_int(builder, "waits_cpu", (gint64)link->stats.waits_cpu);
    json_put_int(builder, "waits_device", (gint64)link->stats.waits_device);
}

static void add_format(JsonBuilder *builder, const struct gpud_channel_info *info)
{
    struct gpud_layout layout;
    if (!info->configured || gpud_media_get_layout(&info->media, &layout, NULL) != GPUD_OK) {
        json_put_string(builder, "format", NULL);
        return;
    }
    json_begin_object(builder, "format");
    json_put_string(builder, "name", layout.format);
    json_put_int(builder, "width", layout.width);
    json_put_int(builder, "height", layout.height);
    json_put_int(builder, "size_bytes", (gint64)layout.size);
    json_builder_end_object(builder);
}

static void add_stream(JsonBuilder *builder, const struct gpud_channel_info *info)
{
    json_put_text(builder, "name", info->name);
    json_put_string(builder, "device", info->device);
    add_format(builder, info);
    json_put_int(builder, "epoch", info->epoch);
    json_put_bool(builder, "ended", info->ended);
    json_put_int(builder, "slots", info->slots);
    json_put_string(builder, "slow_receiver", channels_policy_name(info->slow_receiver));
    json_put_rate(builder, "fps", info->rate);
    json_put_int(builder, "frames", (gint64)info->frames);
    json_put_int(builder, "delivered", (gint64)info->delivered);
    json_put_int(builder, "dropped", (gint64)info->dropped);
    json_put_int(builder, "connects", (gint64)info->connects);
    json_put_int(builder, "disconnects", (gint64)info->disconnects);
    json_put_int(builder, "refused", (gint64)info->refused);
    json_put_int(builder, "copies_cpu", (gint64)info->copies_cpu);
    json_put_int(builder, "copies_gpu", (gint64)info->copies_gpu);
    json_put_int(builder, "waits_cpu", (gint64)info->waits_cpu);
    json_put_int(builder, "waits_device", (gint64)info->waits_device);
    json_put_int_if(builder, "age_ns", info->age_ns != GPUD_TIME_NONE, (gint64)info->age_ns);
}

void channels_put_channel(JsonBuilder *builder, const struct gpud_channel_info *info)
{
    json_put_string(builder, "address", info->address);
    json_put_int_if(builder, "pid", info->pid > 0, info->pid);
    json_put_text(builder, "program", info->program);
    json_put_int_if(builder, "user", info->user >= 0, info->user);
    if (info->receiver_pid)
        json_put_int(builder, "receiver_pid", info->receiver_pid);
    json_put_bool(builder, "answered", info->answered);
    json_put_text(builder, "reason", info->reason);
    if (info->answered)
        add_stream(builder, info);
}

static void add_channel(JsonBuilder *builder, const struct gpud_channel_list *channels,
                        uint32_t index)
{
    struct gpud_channel_info info = GPUD_INFO_INIT(info);
    gpud_channel_list_get_info(channels, index, &info, NULL);
    json_builder_begin_object(builder);
    channels_put_channel(builder, &info);
    if (info.answered) {
        json_begin_array(builder, "receivers");
        for (uint32_t i = 0; i < info.links; i++) {
            json_builder_begin_object(builder);
            channels_put_receiver(builder, info.link[i]);
            json_builder_end_object(builder);
        }
        json_builder_end_array(builder);
    }
    json_builder_end_object(builder);
}

/* Every folder that was searched, with what its list lacks. */
static void add_folders(JsonBuilder *builder, const GPtrArray *folders)
{
    json_begin_array(builder, "folders");
    for (guint i = 0; i < folders->len; i++) {
        const struct channels_folder *folder = folders->pdata[i];
        json_builder_begin_object(builder);
        json_put_string(builder, "directory", folder->search.directory);
        json_put_int(builder, "omitted", (gint64)folder->search.omitted);
        json_put_text(builder, "note", folder->search.note);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
}

void channels_put_waiting(JsonBuilder *builder, const GPtrArray *waiters)
{
    json_begin_array(builder, "waiting");
    for (guint i = 0; i < waiters->len; i++) {
        const struct channels_waiter *waiter = waiters->pdata[i];
        json_builder_begin_object(builder);
        json_put_string(builder, "address", waiter->address);
        json_put_text(builder, "name", waiter->name);
        json_put_int_if(builder, "pid", waiter->pid > 0, waiter->pid);
        json_put_number(builder, "since_s", (double)waiter->since / 1e6);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
}

void channels_print_json(const GPtrArray *folders, bool pretty)
{
    const struct channels_folder *first = folders->pdata[0];
    JsonBuilder *builder = json_builder_new();
    json_builder_begin_object(builder);
    json_put_string(builder, "version", gpud_version_string());
    json_put_string(builder, "directory", first->search.directory);
    add_folders(builder, folders);
    json_begin_array(builder, "channels");
    for (guint i = 0; i < folders->len; i++) {
        const struct channels_folder *folder = folders->pdata[i];
        for (uint32_t j = 0; j < folder->count; j++)
            add_channel(builder, folder->channels, j);
    }
    json_builder_end_array(builder);
    GPtrArray *waiters = channels_collect_waiting(folders);
    channels_put_waiting(builder, waiters);
    g_ptr_array_unref(waiters);
    json_builder_end_object(builder);
    json_print(builder, pretty);
}
