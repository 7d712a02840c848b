/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The property "stats" of gpudirectsink. */
#include "endstats.h"
#include "sink/sink.h"
#include "wire/clock.h"

void gst_gpudirect_sink_get_info(GstGpudirectSink *self, struct gpud_sender_info *info)
{
    struct shared_sender *sender = gst_gpudirect_sink_ref_sender(self);

    *info = (struct gpud_sender_info)GPUD_INFO_INIT(*info);
    g_strlcpy(info->path, "none", sizeof(info->path));
    if (sender)
        shared_sender_get_info(sender, info);
    shared_sender_unref(sender);
}

/* Of the slowest receiver. Where none knows it there is no field that could be taken for one. */
static void tell_latency(GstGpudirectSink *self, GstStructure *stats)
{
    struct shared_sender *sender = gst_gpudirect_sink_ref_sender(self);
    guint64 latency = sender ? shared_sender_latency(sender) : 0;

    if (latency)
        gst_structure_set(stats, "latency", G_TYPE_UINT64, latency, NULL);
    shared_sender_unref(sender);
}

/* The one in effect. */
static const gchar *policy_name(GstGpudirectSink *self)
{
    static const gchar *const names[] = {
        [GPUD_SLOW_BLOCK] = "block",
        [GPUD_SLOW_DROP_NEWEST] = "drop-newest",
        [GPUD_SLOW_DROP_OLDEST] = "drop-oldest",
    };

    return names[gst_gpudirect_sink_policy(self)];
}

/* Of the pipeline, by the name by which other hosts know it; g_free it. */
static gchar *clock_text(GstGpudirectSink *self)
{
    enum clock_kind kind = (enum clock_kind)g_atomic_int_get(&self->clock_kind);
    struct clock_name name;

    GST_OBJECT_LOCK(self);
    gchar *common = g_strdup(self->settings.common_clock);
    GST_OBJECT_UNLOCK(self);
    clock_name_of(&name, GST_ELEMENT(self), kind, common);
    g_free(common);
    return g_strdup(clock_name_text(&name, kind));
}

/* No reason where the user named it. */
static void tell_device(GstGpudirectSink *self, const gchar *device, GstStructure *stats)
{
    GST_OBJECT_LOCK(self);
    gchar *reason = g_strdup(self->device_reason);
    GST_OBJECT_UNLOCK(self);
    gst_structure_set(stats, "device", G_TYPE_STRING, device[0] ? device : "none", NULL);
    if (reason)
        gst_structure_set(stats, "device-reason", G_TYPE_STRING, reason, NULL);
    g_free(reason);
}

GstStructure *gst_gpudirect_sink_make_stats(GstGpudirectSink *self)
{
    GstStructure *stats = gst_base_sink_get_stats(GST_BASE_SINK(self));
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    gchar *clock = clock_text(self);
    gboolean live = g_atomic_int_get(&self->live) == TRUE, waits = gst_gpudirect_sink_waits(self);

    gst_gpudirect_sink_get_info(self, &info);
    gst_structure_set(
        stats, "frames", G_TYPE_UINT64, info.frames, "delivered", G_TYPE_UINT64, info.delivered,
        "dropped-slow-receiver", G_TYPE_UINT64, info.dropped, "num-clients", G_TYPE_UINT,
        info.receivers, "connects", G_TYPE_UINT64, info.connects, "disconnects", G_TYPE_UINT64,
        info.disconnects, "refused", G_TYPE_UINT64, info.refused, "copies-cpu", G_TYPE_UINT64,
        info.copies_cpu + __atomic_load_n(&self->copies_cpu, __ATOMIC_RELAXED), "copies-gpu",
        G_TYPE_UINT64, info.copies_gpu + counter_read(&self->counters->copies_gpu), "cpu-waits",
        G_TYPE_UINT64, info.waits_cpu, "device-waits", G_TYPE_UINT64,
        info.waits_device + counter_read(&self->counters->waits_device), "kicks", G_TYPE_UINT64,
        info.kicks, "dropped-malformed", G_TYPE_UINT64,
        __atomic_load_n(&self->malformed, __ATOMIC_RELAXED), "live", G_TYPE_BOOLEAN, live,
        "slow-receiver", G_TYPE_STRING, policy_name(self), "wait-for-connection", G_TYPE_BOOLEAN,
        waits, "clock", G_TYPE_STRING, clock, "lends-dmabufs", G_TYPE_BOOLEAN,
        g_atomic_int_get(&self->lends_dmabufs) == TRUE, NULL);
    g_free(clock);
    tell_device(self, info.device, stats);
    tell_latency(self, stats);
    lost_metas_tell(self->lost_metas, stats);
    return stats;
}

static GstStructure *make_stats(GstElement *element)
{
    GstStructure *stats = gst_gpudirect_sink_make_stats(GST_GPUDIRECT_SINK(element));

    gst_structure_set_name(stats, "gpudirect-stats");
    return stats;
}

void gst_gpudirect_sink_post_stats(GstElement *element)
{
    end_stats_post(element, &GST_GPUDIRECT_SINK(element)->stats_due, make_stats);
}

static GstElementClass *parent_class;

/* Applications stop listening at an error. */
static gboolean post_message(GstElement *element, GstMessage *message)
{
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR)
        gst_gpudirect_sink_post_stats(element);
    return parent_class->post_message(element, message);
}

void gst_gpudirect_sink_class_init_stats(GstElementClass *klass)
{
    parent_class = g_type_class_peek_parent(klass);
    klass->post_message = post_message;
}
