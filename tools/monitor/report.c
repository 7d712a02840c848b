/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "monitor/report.h"

#include "channels/channelsjson.h"
#include "channels/metrics.h"
#include "json.h"

#include <math.h>
#include <unistd.h>

static GBytes *finish(JsonBuilder *builder)
{
    JsonNode *root = json_builder_get_root(builder);
    char *text = json_to_string(root, FALSE);
    json_node_unref(root);
    g_object_unref(builder);
    return g_bytes_new_take(text, strlen(text));
}

/* --- now ------------------------------------------------------------------------------------- */

/* "Beyond the last bound" has no number in JSON: it is the longest latency of all. */
static double bounded(double latency_s, const struct gpud_link_info *link)
{
    return isinf(latency_s) ? (double)link->stats.latency_max_ns / 1e9 : latency_s;
}

static void add_sample(JsonBuilder *builder, const struct monitor_series *series)
{
    const struct monitor_sample *newest = monitor_series_get(series, series->count - 1);
    json_begin_object(builder, "sample");
    json_put_number(builder, "rate_hz", (double)newest->rate_hz);
    json_put_int(builder, "dropped", newest->dropped);
    json_put_number(builder, "latency_p99_s", (double)newest->latency_p99_s);
    json_builder_end_object(builder);
}

static void add_receiver(JsonBuilder *builder, const struct monitor_receiver *receiver)
{
    const struct monitor_figures *figures = &receiver->figures;
    json_builder_begin_object(builder);
    channels_put_receiver(builder, &receiver->info);
    json_put_number(builder, "rate_hz", figures->rate_hz);
    json_put_number(builder, "dropped_hz", figures->dropped_hz);
    json_put_number(builder, "latency_p50_s", bounded(figures->latency_p50_s, &receiver->info));
    json_put_number(builder, "latency_p99_s", bounded(figures->latency_p99_s, &receiver->info));
    json_put_rate(builder, "latency_max_s", (double)receiver->info.stats.latency_max_ns / 1e9);
    add_sample(builder, &receiver->series);
    json_builder_end_object(builder);
}

static void add_presence(JsonBuilder *builder, const struct monitor_channel *channel)
{
    static const char *const severities[] = {"off", "good", "warning", "bad"};
    static const char *const presences[] = {"there", "gone", "never"};
    static const char *const ends[] = {"unknown", "goodbye", "death"};
    bool gone = channel->presence == MONITOR_GONE_SINCE;
    json_put_string(builder, "state", channel->state);
    json_put_string(builder, "severity", severities[channel->severity]);
    json_put_string(builder, "presence", presences[channel->presence]);
    json_put_string(builder, "end", gone ? ends[channel->end] : NULL);
    json_put_number(builder, "absent_since_s",
                    channel->presence == MONITOR_THERE ? NAN : (double)channel->absent_since / 1e6);
    json_put_bool(builder, "expected", channel->expected);
    channels_put_waiting(builder, channel->waiting);
}

static const char *kind_of(const struct gpud_channel_info *info)
{
    static const char *const kinds[] = {[GPUD_MEDIA_PICTURE] = "Picture",
                                        [GPUD_MEDIA_AUDIO] = "Sound",
                                        [GPUD_MEDIA_ANCILLARY] = "Ancillary data",
                                        [GPUD_MEDIA_DATA] = "Data"};
    return info->configured && (size_t)info->media.kind < G_N_ELEMENTS(kinds)
               ? kinds[info->media.kind]
               : NULL;
}

static void add_channel(JsonBuilder *builder, const struct monitor_channel *channel)
{
    char *sender = monitor_name(channel->info.name, channel->info.program);
    json_builder_begin_object(builder);
    channels_put_channel(builder, &channel->info);
    add_presence(builder, channel);
    json_put_string(builder, "sender", channel->info.pid || channel->info.answered ? sender : NULL);
    g_free(sender);
    json_put_text(builder, "media", channel->media);
    json_put_text(builder, "brief", channel->brief);
    json_put_string(builder, "kind", kind_of(&channel->info));
    json_put_bool(builder, "has_picture",
                  channel->info.configured && channel->info.media.kind == GPUD_MEDIA_PICTURE);
    json_put_bool(builder, "has_signal", channel->has_signal);
    json_put_number(builder, "frozen_s", channel->ages.frozen_s);
    json_put_number(builder, "black_s", channel->ages.black_s);
    json_put_number(builder, "silent_s", channel->ages.silent_s);
    json_put_number(builder, "rate_hz", channel->figures.rate_hz);
    json_put_number(builder, "dropped_hz", channel->figures.dropped_hz);
    add_sample(builder, &channel->series);
    json_begin_array(builder, "receivers");
    for (guint i = 0; i < channel->receivers->len; i++) {
        const struct monitor_receiver *receiver = channel->receivers->pdata[i];
        if (!receiver->is_own)
            add_receiver(builder, receiver);
    }
    json_builder_end_array(builder);
    json_builder_end_object(builder);
}

static void add_events(JsonBuilder *builder, const struct monitor_model *model, uint64_t after)
{
    json_begin_array(builder, "events");
    for (const GList *link = model->events.head; link; link = link->next) {
        const struct monitor_event *event = link->data;
        if (event->number <= after)
            continue;
        json_builder_begin_object(builder);
        json_put_int(builder, "number", (gint64)event->number);
        json_put_number(builder, "time_s", (double)event->time / 1e6);
        json_put_string(builder, "kind", event->kind);
        json_put_text(builder, "channel", event->channel);
        json_put_string(builder, "text", event->text);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
}

GBytes *monitor_report_state(const struct monitor_model *model, uint64_t after)
{
    JsonBuilder *builder = json_builder_new();
    json_builder_begin_object(builder);
    json_put_string(builder, "version", gpud_version_string());
    json_put_string(builder, "host", g_get_host_name());
    json_put_int(builder, "pid", getpid()); /* another one: its events are numbered anew */
    json_put_rate(builder, "time_s", (double)model->updated / 1e6);
    json_begin_array(builder, "notes");
    for (guint i = 0; i < model->notes->len; i++)
        json_builder_add_string_value(builder, model->notes->pdata[i]);
    json_builder_end_array(builder);
    json_begin_array(builder, "channels");
    for (guint i = 0; i < model->channels->len; i++)
        add_channel(builder, model->channels->pdata[i]);
    json_builder_end_array(builder);
    add_events(builder, model, after);
    json_builder_end_object(builder);
    return finish(builder);
}

/* --- ten minutes ------------------------------------------------------------------------------ */

static void add_number(JsonBuilder *builder, double value)
{
    if (isfinite(value))
        json_builder_add_double_value(builder, round(value * 1e5) / 1e5);
    else
        json_builder_add_null_value(builder);
}

static void add_series(JsonBuilder *builder, const struct monitor_series *series)
{
    json_begin_array(builder, "rate_hz");
    for (unsigned i = 0; i < series->count; i++)
        add_number(builder, (double)monitor_series_get(series, i)->rate_hz);
    json_builder_end_array(builder);
    json_begin_array(builder, "dropped");
    for (unsigned i = 0; i < series->count; i++)
        json_builder_add_int_value(builder, monitor_series_get(series, i)->dropped);
    json_builder_end_array(builder);
    json_begin_array(builder, "latency_p99_s");
    for (unsigned i = 0; i < series->count; i++)
        add_number(builder, (double)monitor_series_get(series, i)->latency_p99_s);
    json_builder_end_array(builder);
}

GBytes *monitor_report_history(const struct monitor_model *model)
{
    JsonBuilder *builder = json_builder_new();
    json_builder_begin_object(builder);
    json_put_int(builder, "period_s", 1);
    json_put_rate(builder, "time_s", (double)model->updated / 1e6);
    json_begin_array(builder, "channels");
    for (guint i = 0; i < model->channels->len; i++) {
        const struct monitor_channel *channel = model->channels->pdata[i];
        json_builder_begin_object(builder);
        json_put_string(builder, "address", channel->info.address);
        add_series(builder, &channel->series);
        json_begin_array(builder, "receivers");
        for (guint j = 0; j < channel->receivers->len; j++) {
            const struct monitor_receiver *receiver = channel->receivers->pdata[j];
            if (receiver->is_own)
                continue;
            json_builder_begin_object(builder);
            json_put_int(builder, "id", (gint64)receiver->info.id);
            add_series(builder, &receiver->series);
            json_builder_end_object(builder);
        }
        json_builder_end_array(builder);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
    json_builder_end_object(builder);
    return finish(builder);
}

/* --- metrics ------------------------------------------------------------------------------------
 */

static const char *gone_how(const struct monitor_channel *channel)
{
    static const char *const ends[] = {[CHANNELS_END_UNKNOWN] = "unknown",
                                       [CHANNELS_END_ORDERLY] = "ended",
                                       [CHANNELS_END_DEATH] = "died"};
    if (channel->presence == MONITOR_GONE_SINCE)
        return ends[channel->end];
    return channel->presence == MONITOR_NEVER && channel->expected ? "never" : NULL;
}

GBytes *monitor_report_metrics(const struct monitor_model *model, bool openmetrics)
{
    GPtrArray *channels = metrics_collect(model->folders);
    for (guint i = 0; i < model->channels->len; i++) {
        const struct monitor_channel *known = model->channels->pdata[i];
        struct metrics_channel *channel = metrics_find(channels, known->info.address);
        if (!channel->is_there && known->presence == MONITOR_THERE) { /* none could be asked */
            channel->info = known->info;
            channel->is_there = true;
        }
        channel->expected = known->expected;
        channel->frozen_s = known->ages.frozen_s;
        channel->black_s = known->ages.black_s;
        channel->silent_s = known->ages.silent_s;
        channel->gone_how = gone_how(known);
        channel->gone_s = (double)(g_get_real_time() - known->absent_since) / 1e6;
    }
    GBytes *text = g_string_free_to_bytes(metrics_format(channels, openmetrics));
    g_ptr_array_unref(channels);
    return text;
}
