/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/channels.h"
#include "base/context.h"
#include "wire/caps.h"

#include <gpudirect/channel.h>

static void channel_free(gpointer data)
{
    struct channel *channel = data;

    g_free(channel->address);
    g_free(channel->program);
    gst_clear_caps(&channel->caps);
    g_free(channel);
}

static GstCaps *caps_of(const struct gpud_channel_info *info)
{
    GstVideoInfo video;
    gchar *reason = NULL;

    if (!info->answered || !info->configured)
        return NULL;
    GstCaps *caps = media_to_caps(&info->media, NULL, &video, &reason);
    if (!caps)
        GST_CAT_DEBUG(gpud_gst_debug, "%s: %s", info->address, reason);
    g_free(reason);
    return caps;
}

static struct channel *channel_new(const struct gpud_channel_info *info)
{
    struct channel *channel = g_new0(struct channel, 1);

    channel->address = g_strdup(info->address);
    channel->program = info->program[0] ? g_strdup(info->program) : NULL;
    channel->pid = info->pid;
    channel->answered = info->answered;
    channel->ended = info->answered && info->ended;
    channel->caps = caps_of(info);
    if (!info->answered)
        GST_CAT_DEBUG(gpud_gst_debug, "%s: %s", info->address, info->reason);
    return channel;
}

GPtrArray *channels_ask(const gchar *folder, gint64 timeout, gchar **directory)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(channel_free);
    struct gpud_channel_list *channels;
    uint32_t count;
    struct gpud_channel_search_info search = GPUD_INFO_INIT(search);
    struct gpud_error error;

    if (directory)
        *directory = NULL;
    if (gpud_channel_list_create(folder, timeout, &channels, &count, &search, &error) != GPUD_OK) {
        GST_CAT_DEBUG(gpud_gst_debug, "no channels: %s", error.reason);
        return list;
    }
    if (directory)
        *directory = g_strdup(search.directory);
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_channel_info info = GPUD_INFO_INIT(info);
        if (gpud_channel_list_get_info(channels, i, &info, &error) == GPUD_OK && !info.receiver_pid)
            g_ptr_array_add(list, channel_new(&info));
    }
    if (search.omitted > 0)
        GST_CAT_WARNING(gpud_gst_debug, "%s", search.note);
    gpud_channel_list_destroy(&channels);
    return list;
}
