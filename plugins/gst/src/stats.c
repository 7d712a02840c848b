/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The property "stats" of gpudirectsrc. */
#include "src/stats.h"

static enum dmabuf_use dmabuf_use(GstGpudirectSrc *self)
{
    return (enum dmabuf_use)g_atomic_int_get(&self->pictures.dmabuf_use);
}

static void add_reason(struct endpoint_route *route, const gchar *reason)
{
    gsize room = sizeof(route->fallback_reason);

    if (route->fallback_reason[0])
        g_strlcat(route->fallback_reason, "; ", room);
    g_strlcat(route->fallback_reason, reason, room);
}

void gst_gpudirect_src_get_route(GstElement *element, struct endpoint_route *route)
{
    struct input_info info;

    feed_get_info(&GST_GPUDIRECT_SRC(element)->feed, &info);
    g_strlcpy(route->path, info.path, sizeof(route->path));
    g_strlcpy(route->fallback_reason, info.fallback_reason, sizeof(route->fallback_reason));
    if (dmabuf_use(GST_GPUDIRECT_SRC(element)) == DMABUFS_COPIES)
        add_reason(route,
                   "the ring's memory has no dma-bufs, so the CPU copies pictures into others");
    else if (g_atomic_int_get(&GST_GPUDIRECT_SRC(element)->pictures.fills_files))
        add_reason(route,
                   "the elements downstream share files, so the CPU copies pictures into theirs");
}

/* How the last sender's clock relates to ours. */
static void add_clock(GstGpudirectSrc *self, enum clock_relation relation, GstStructure *stats)
{
    static const gchar *const texts[] = {
        [RELATION_NONE] = "none",
        [RELATION_UNKNOWN] = "unknown",
        [RELATION_SAME_HOST] = "same host",
    };
    gchar clock[CLOCK_NAME_MAX + 16], host[sizeof(self->times.sender_host)];
    struct clock_name name;
    const gchar *own = endpoint_name_clock(&self->endpoint, &name);

    if (relation == RELATION_COMMON)
        g_snprintf(clock, sizeof(clock), "common: %s", name.text);
    else
        g_strlcpy(clock, texts[relation], sizeof(clock));
    GST_OBJECT_LOCK(self);
    g_strlcpy(host, self->times.sender_host, sizeof(host));
    GST_OBJECT_UNLOCK(self);
    gst_structure_set(stats, "clock", G_TYPE_STRING, clock, "own-clock", G_TYPE_STRING, own,
                      "sender-host", G_TYPE_STRING, host, NULL);
    if (relation == RELATION_UNKNOWN)
        gst_structure_set(stats, "clock-offset", G_TYPE_INT64,
                          __atomic_load_n(&self->times.offset, __ATOMIC_RELAXED), NULL);
}

/* The fields are absent if no latency is known. */
static void add_latency(GstGpudirectSrc *self, enum clock_relation relation,
                        const struct input_info *info, GstStructure *stats)
{
    guint64 p50 = info->latency_p50, p99 = info->latency_p99, max = info->latency_max;
    gboolean known = relation == RELATION_SAME_HOST && max > 0;

    if (!known && (relation == RELATION_COMMON || relation == RELATION_SAME_HOST))
        known = latencies_get(self->times.latencies, &p50, &p99, &max);
    if (known)
        gst_structure_set(stats, "latency-p50", G_TYPE_UINT64, p50, "latency-p99", G_TYPE_UINT64,
                          p99, "latency-max", G_TYPE_UINT64, max, NULL);
}

/* The fields are absent without a group. */
static void add_group(GstGpudirectSrc *self, GstStructure *stats)
{
    guint64 dropped, missed;

    if (feed_get_group_counts(&self->feed, &dropped, &missed))
        gst_structure_set(stats, "group-dropped", G_TYPE_UINT64, dropped, "group-missed",
                          G_TYPE_UINT64, missed, NULL);
}

GstStructure *gst_gpudirect_src_make_stats(GstElement *element)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(element);
    enum clock_relation relation = (enum clock_relation)g_atomic_int_get(&self->times.relation);
    struct input_info info;

    guint64 skipped = __atomic_load_n(&self->feed.skipped, __ATOMIC_RELAXED);
    feed_get_info(&self->feed, &info);
    GstStructure *stats = gst_structure_new(
        "gpudirect-stats", "active-path", G_TYPE_STRING, info.path, "device", G_TYPE_STRING,
        info.device, "connected", G_TYPE_BOOLEAN, info.connected, "frames", G_TYPE_UINT64,
        info.frames - MIN(skipped, info.frames), "dropped", G_TYPE_UINT64, info.dropped + skipped,
        "corrupted", G_TYPE_UINT64, info.corrupted, "connects", G_TYPE_UINT64, info.connects,
        "disconnects", G_TYPE_UINT64, info.disconnects, "reconnects", G_TYPE_UINT64,
        info.connects > 0 ? info.connects - 1 : 0, "copies-cpu", G_TYPE_UINT64,
        info.copies_cpu + counter_read(&self->endpoint.counters->copies_cpu), "copies-gpu",
        G_TYPE_UINT64, info.copies_gpu + counter_read(&self->endpoint.counters->copies_gpu),
        "cpu-waits", G_TYPE_UINT64, info.waits_cpu, "device-waits", G_TYPE_UINT64,
        info.waits_device + counter_read(&self->endpoint.counters->waits_device), "kicks",
        G_TYPE_UINT64, info.kicks, "stood-in", G_TYPE_UINT64,
        __atomic_load_n(&self->signal.count, __ATOMIC_RELAXED), NULL);
    static const gchar *const uses[] = {
        [DMABUFS_UNUSED] = "none",
        [DMABUFS_SLOTS] = "slots",
        [DMABUFS_COPIES] = "copies",
    };
    gst_structure_set(stats, "dmabufs", G_TYPE_STRING, uses[dmabuf_use(self)], NULL);
    device_choice_tell(&self->endpoint.device, stats);
    add_clock(self, relation, stats);
    add_latency(self, relation, &info, stats);
    add_group(self, stats);
    feed_add_stats(&self->feed, stats);
    if (info.stamps)
        gst_structure_set(stats, "stamps", G_TYPE_STRING, info.stamps, NULL);
    lost_metas_tell(self->endpoint.lost_metas, stats);
    gst_structure_set(stats, "lost-names", G_TYPE_UINT64,
                      self->names ? names_count_left_out(self->names) : 0, NULL);
    return stats;
}
