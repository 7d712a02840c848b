/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The channels as JSON. Keys are stable: new ones may be added, none is removed or changes its
 * meaning. Times are ns. */
#include "channels.h"
#include "jsonfields.h"

#include <stdio.h>

static void add_known(JsonBuilder *builder, const char *key, const char *value)
{
    add_string(builder, key, value[0] ? value : NULL);
}

static void add_pid(JsonBuilder *builder, int64_t pid)
{
    json_builder_set_member_name(builder, "pid");
    if (pid > 0)
        json_builder_add_int_value(builder, pid);
    else
        json_builder_add_null_value(builder);
}

static void add_receiver(JsonBuilder *builder, const struct gpud_link_info *link)
{
    json_builder_begin_object(builder);
    add_int(builder, "id", (gint64)link->id);
    add_pid(builder, link->pid);
    add_known(builder, "host", link->host);
    add_known(builder, "name", link->name);
    add_known(builder, "device", link->device);
    add_string(builder, "state", info_phase_name(link->phase));
    add_known(builder, "route", link->path);
    add_known(builder, "reason", link->fallback_reason);
    add_string(builder, "slow_receiver", info_policy_name(link->slow_receiver));
    add_int(builder, "frames", (gint64)link->delivered);
    add_int(builder, "dropped", (gint64)link->dropped);
    add_int(builder, "held", link->held);
    add_rate(builder, "latency", (double)link->latency_ns);
    json_builder_end_object(builder);
}

static void add_format(JsonBuilder *builder, const struct gpud_channel_info *info)
{
    json_builder_set_member_name(builder, "format");
    if (!info->configured) {
        json_builder_add_null_value(builder);
        return;
    }
    struct gpud_layout layout;
    gpud_media_get_layout(&info->media, &layout);
    json_builder_begin_object(builder);
    add_string(builder, "name", layout.format);
    add_int(builder, "width", layout.width);
    add_int(builder, "height", layout.height);
    add_int(builder, "size", (gint64)layout.size);
    json_builder_end_object(builder);
}

static void add_stream(JsonBuilder *builder, const struct gpud_channel_info *info)
{
    add_known(builder, "name", info->name);
    add_string(builder, "device", info->device);
    add_format(builder, info);
    add_int(builder, "epoch", info->epoch);
    add_bool(builder, "ended", info->ended);
    add_int(builder, "slots", info->slots);
    add_string(builder, "slow_receiver", info_policy_name(info->slow_receiver));
    add_rate(builder, "rate", info->rate);
    add_int(builder, "frames", (gint64)info->frames);
    add_int(builder, "delivered", (gint64)info->delivered);
    add_int(builder, "dropped", (gint64)info->dropped);
    add_int(builder, "connects", (gint64)info->connects);
    json_builder_set_member_name(builder, "age");
    if (info->age_ns != GPUD_TIME_NONE)
        json_builder_add_int_value(builder, (gint64)info->age_ns);
    else
        json_builder_add_null_value(builder);
}

/* A sender that does not answer has no keys after the reason. */
static void add_channel(JsonBuilder *builder, const struct gpud_channels *channels, size_t index)
{
    struct gpud_channel_info info = GPUD_INFO_INIT(info);
    size_t count;
    gpud_channels_get_info(channels, index, &info, NULL);
    json_builder_begin_object(builder);
    add_string(builder, "address", info.address);
    add_pid(builder, info.pid);
    add_known(builder, "program", info.program);
    json_builder_set_member_name(builder, "user");
    if (info.user >= 0)
        json_builder_add_int_value(builder, info.user);
    else
        json_builder_add_null_value(builder);
    add_bool(builder, "answered", info.answered);
    add_known(builder, "reason", info.reason);
    if (info.answered) {
        add_stream(builder, &info);
        struct gpud_link_info *links = info_channel_links(channels, index, &count);
        json_builder_set_member_name(builder, "receivers");
        json_builder_begin_array(builder);
        for (size_t i = 0; i < count; i++)
            add_receiver(builder, &links[i]);
        json_builder_end_array(builder);
        g_free(links);
    }
    json_builder_end_object(builder);
}

/* All folders that were looked in, with what the lists lack. */
static void add_folders(JsonBuilder *builder, const GPtrArray *lists)
{
    json_builder_set_member_name(builder, "folders");
    json_builder_begin_array(builder);
    for (guint i = 0; i < lists->len; i++) {
        json_builder_begin_object(builder);
        add_string(builder, "directory", gpud_channels_get_directory(lists->pdata[i]));
        add_int(builder, "omitted", (gint64)gpud_channels_get_omitted(lists->pdata[i]));
        add_known(builder, "note", gpud_channels_get_note(lists->pdata[i]));
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
}

void info_print_channels_json(const GPtrArray *lists, bool pretty)
{
    JsonBuilder *builder = json_builder_new();
    json_builder_begin_object(builder);
    add_string(builder, "version", gpud_version_string());
    add_string(builder, "directory", gpud_channels_get_directory(lists->pdata[0]));
    add_folders(builder, lists);
    json_builder_set_member_name(builder, "channels");
    json_builder_begin_array(builder);
    for (guint i = 0; i < lists->len; i++)
        for (size_t j = 0; j < gpud_channels_count(lists->pdata[i]); j++)
            add_channel(builder, lists->pdata[i], j);
    json_builder_end_array(builder);
    json_builder_end_object(builder);
    JsonNode *root = json_builder_get_root(builder);
    char *text = json_to_string(root, pretty);
    puts(text);
    g_free(text);
    json_node_unref(root);
    g_object_unref(builder);
}
