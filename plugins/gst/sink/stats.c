/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The property "stats" of gpudirectsink. */
#include "sink/stats.h"

#include "sink/policy.h"

static void get_info(GstGpudirectSink *self, struct gpud_sender_info *info)
{
    struct shared_sender *sender = gst_gpudirect_sink_ref_sender(self);

    *info = (struct gpud_sender_info)GPUD_INFO_INIT(*info);
    g_strlcpy(info->path, "none", sizeof(info->path));
    if (sender)
        shared_sender_get_info(sender, info);
    shared_sender_unref(sender);
}

static void add_copies_of_dmabufs(struct endpoint_route *route)
{
    gsize room = sizeof(route->fallback_reason);

    if (route->fallback_reason[0])
        g_strlcat(route->fallback_reason, "; ", room);
    g_strlcat(route->fallback_reason,
              "the CPU copies pictures from dma-bufs that are not the ring's", room);
}

void gst_gpudirect_sink_get_route(GstElement *element, struct endpoint_route *route)
{
    struct gpud_sender_info info = GPUD_INFO_INIT(info);

    get_info(GST_GPUDIRECT_SINK(element), &info);
    g_strlcpy(route->path, info.path, sizeof(route->path));
    g_strlcpy(route->fallback_reason, info.fallback_reason, sizeof(route->fallback_reason));
    if (g_atomic_int_get(&GST_GPUDIRECT_SINK(element)->copied_dmabufs))
        add_copies_of_dmabufs(route);
}

/* The latency of the slowest receiver. The field is absent if none is known. */
static void add_latency(GstGpudirectSink *self, GstStructure *stats)
{
    struct shared_sender *sender = gst_gpudirect_sink_ref_sender(self);
    guint64 latency = sender ? shared_sender_latency(sender) : 0;

    if (latency)
        gst_structure_set(stats, "latency", G_TYPE_UINT64, latency, NULL);
    shared_sender_unref(sender);
}

/* The name of the policy in effect. */
static const gchar *policy_name(GstGpudirectSink *self)
{
    static const gchar *const names[] = {
        [GPUD_SLOW_BLOCK] = "block",
        [GPUD_SLOW_DROP_NEWEST] = "drop-newest",
        [GPUD_SLOW_DROP_OLDEST] = "drop-oldest",
    };

    return names[gst_gpudirect_sink_policy(self)];
}

GstStructure *gst_gpudirect_sink_make_stats(GstElement *element)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(element);
    GstStructure *stats = gst_base_sink_get_stats(GST_BASE_SINK(self));
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    struct clock_name name;
    const gchar *clock = endpoint_name_clock(&self->endpoint, &name);
    gboolean live = g_atomic_int_get(&self->live) == TRUE, waits = gst_gpudirect_sink_waits(self);

    get_info(self, &info);
    gst_structure_set(
        stats, "frames", G_TYPE_UINT64, info.frames, "delivered", G_TYPE_UINT64, info.delivered,
        "dropped-slow-receiver", G_TYPE_UINT64, info.dropped, "num-clients", G_TYPE_UINT,
        info.receivers, "connects", G_TYPE_UINT64, info.connects, "disconnects", G_TYPE_UINT64,
        info.disconnects, "refused", G_TYPE_UINT64, info.refused, "copies-cpu", G_TYPE_UINT64,
        info.copies_cpu + counter_read(&self->endpoint.counters->copies_cpu), "copies-gpu",
        G_TYPE_UINT64, info.copies_gpu + counter_read(&self->endpoint.counters->copies_gpu),
        "cpu-waits", G_TYPE_UINT64, info.waits_cpu, "device-waits", G_TYPE_UINT64,
        info.waits_device + counter_read(&self->endpoint.counters->waits_device), "kicks",
        G_TYPE_UINT64, info.kicks, "dropped-malformed", G_TYPE_UINT64,
        __atomic_load_n(&self->malformed, __ATOMIC_RELAXED), "live", G_TYPE_BOOLEAN, live,
        "slow-receiver", G_TYPE_STRING, policy_name(self), "wait-for-connection", G_TYPE_BOOLEAN,
        waits, "clock", G_TYPE_STRING, clock, "lends-dmabufs", G_TYPE_BOOLEAN,
        g_atomic_int_get(&self->lends_dmabufs) == TRUE, NULL);
    gst_structure_set(stats, "device", G_TYPE_STRING, info.device[0] ? info.device : "none", NULL);
    device_choice_tell(&self->endpoint.device, stats);
    add_latency(self, stats);
    gst_structure_set(stats, "stands-by", G_TYPE_BOOLEAN, info.stands_by, "dropped-standby",
                      G_TYPE_UINT64, __atomic_load_n(&self->standby.dropped, __ATOMIC_RELAXED),
                      NULL);
    lost_metas_tell(self->endpoint.lost_metas, stats);
    return stats;
}
