/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc's input: opening, replacing, counting and interrupting it. */
#include "errors.h"
#include "src/src.h"

struct src_options gst_gpudirect_src_get_options(GstGpudirectSrc *self)
{
    GST_OBJECT_LOCK(self);
    struct src_options options = self->options;
    GST_OBJECT_UNLOCK(self);
    return options;
}

/* --- counting ----------------------------------------------------------------------------- */

static void add_counters(struct input_info *info, const struct input_info *more)
{
    info->frames += more->frames;
    info->dropped += more->dropped;
    info->corrupted += more->corrupted;
    info->connects += more->connects;
    info->disconnects += more->disconnects;
    info->copies_cpu += more->copies_cpu;
    info->copies_gpu += more->copies_gpu;
    info->waits_cpu += more->waits_cpu;
    info->waits_device += more->waits_device;
    info->kicks += more->kicks;
}

void gst_gpudirect_src_get_info(GstGpudirectSrc *self, struct input_info *info)
{
    memset(info, 0, sizeof(*info));
    g_strlcpy(info->path, "none", sizeof(info->path));
    g_mutex_lock(&self->input_lock);
    if (self->input)
        self->input->ops->get_info(self->input, info);
    g_strlcpy(info->device, self->opened ? self->opened : "none", sizeof(info->device));
    add_counters(info, &self->past);
    g_mutex_unlock(&self->input_lock);
    if (g_str_equal(info->device, "auto")) /* to the core */
        g_strlcpy(info->device, "host", sizeof(info->device));
}

/* The pipeline's clock, as it is called now. */
static void name_clock(GstGpudirectSrc *self, enum clock_kind kind, struct clock_name *name)
{
    GST_OBJECT_LOCK(self);
    gchar *common = g_strdup(self->settings.common_clock);
    GST_OBJECT_UNLOCK(self);
    clock_name_of(name, GST_ELEMENT(self), kind, common);
    g_free(common);
}

/* What times of the last sender's are to ours. */
static void tell_clock(GstGpudirectSrc *self, enum src_relation relation, GstStructure *stats)
{
    static const gchar *const texts[] = {
        [RELATION_NONE] = "none",
        [RELATION_UNKNOWN] = "unknown",
        [RELATION_HERE] = "same host",
    };
    enum clock_kind kind = (enum clock_kind)g_atomic_int_get(&self->clock_kind);
    gchar clock[CLOCK_NAME_MAX + 16], host[sizeof(self->sender_host)];
    struct clock_name name;

    name_clock(self, kind, &name);
    if (relation == RELATION_COMMON)
        g_snprintf(clock, sizeof(clock), "common: %s", name.text);
    else
        g_strlcpy(clock, texts[relation], sizeof(clock));
    GST_OBJECT_LOCK(self);
    g_strlcpy(host, self->sender_host, sizeof(host));
    GST_OBJECT_UNLOCK(self);
    gst_structure_set(stats, "clock", G_TYPE_STRING, clock, "own-clock", G_TYPE_STRING,
                      clock_name_text(&name, kind), "sender-host", G_TYPE_STRING, host, NULL);
}

/* Where it is not known there are no fields that could be taken for a latency. */
static void tell_latency(GstGpudirectSrc *self, enum src_relation relation,
                         const struct input_info *info, GstStructure *stats)
{
    guint64 p50 = info->latency_p50, p99 = info->latency_p99, max = info->latency_max;
    gboolean known = relation == RELATION_HERE && max > 0;

    if (relation == RELATION_COMMON)
        known = latencies_get(self->latencies, &p50, &p99, &max);
    if (known)
        gst_structure_set(stats, "latency-p50", G_TYPE_UINT64, p50, "latency-p99", G_TYPE_UINT64,
                          p99, "latency-max", G_TYPE_UINT64, max, NULL);
}

GstStructure *gst_gpudirect_src_make_stats(GstGpudirectSrc *self)
{
    enum src_relation relation = (enum src_relation)g_atomic_int_get(&self->relation);
    struct input_info info;

    guint64 skipped = __atomic_load_n(&self->skipped, __ATOMIC_RELAXED);
    gst_gpudirect_src_get_info(self, &info);
    GstStructure *stats = gst_structure_new(
        "gpudirect-stats", "active-path", G_TYPE_STRING, info.path, "device", G_TYPE_STRING,
        info.device, "connected", G_TYPE_BOOLEAN, info.connected, "frames", G_TYPE_UINT64,
        info.frames - MIN(skipped, info.frames), "dropped", G_TYPE_UINT64, info.dropped + skipped,
        "corrupted", G_TYPE_UINT64, info.corrupted, "connects", G_TYPE_UINT64, info.connects,
        "disconnects", G_TYPE_UINT64, info.disconnects, "reconnects", G_TYPE_UINT64,
        info.connects > 0 ? info.connects - 1 : 0, "copies-cpu", G_TYPE_UINT64,
        info.copies_cpu + __atomic_load_n(&self->copies_cpu, __ATOMIC_RELAXED), "copies-gpu",
        G_TYPE_UINT64, info.copies_gpu + counter_read(&self->counters->copies_gpu), "cpu-waits",
        G_TYPE_UINT64, info.waits_cpu, "device-waits", G_TYPE_UINT64,
        info.waits_device + counter_read(&self->counters->waits_device), "kicks", G_TYPE_UINT64,
        info.kicks, "stood-in", G_TYPE_UINT64,
        __atomic_load_n(&self->signal.count, __ATOMIC_RELAXED), NULL);
    tell_clock(self, relation, stats);
    tell_latency(self, relation, &info, stats);
    lost_metas_tell(self->lost_metas, stats);
    return stats;
}

/* --- opening and closing ------------------------------------------------------------------ */

static enum gpud_status make_input(GstGpudirectSrc *self, const gchar *device, struct input **input,
                                   struct gpud_error *error)
{
    const struct input_ops *ops = input_ops_for(self->running.address);
    struct input_params params = {
        .address = self->running.address,
        .device = device,
        .access = self->running.access,
        .psk_file = self->running.psk_file,
        .slots = self->running.slots,
        .slow_receiver = self->running.slow_receiver,
        .require_direct = self->running.require_direct,
        .method = io_mode_method(gst_gpudirect_src_get_options(self).io_mode),
        .busy_poll = gst_gpudirect_src_get_options(self).busy_poll,
        .on_event = gst_gpudirect_src_on_event,
        .user = self,
    };

    return ops->open(&params, input, error);
}

gboolean gst_gpudirect_src_open(GstGpudirectSrc *self)
{
    const struct input_ops *ops = input_ops_for(self->running.address);
    struct input *input;
    struct gpud_error error;

    gchar *device = gst_gpudirect_src_choose_device(self, ops);
    gst_gpudirect_src_reset_stream(self);
    if (make_input(self, device, &input, &error) != GPUD_OK) {
        gchar *what =
            g_strdup_printf("Cannot receive from %s at \"%s\"", ops->what, self->running.address);
        gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_OPEN_SOURCE, &error, what);
        g_free(what);
        g_free(device);
        return FALSE;
    }
    g_mutex_lock(&self->input_lock);
    self->input = input;
    self->opened = device;
    self->interrupted = FALSE;
    __atomic_store_n(&self->skipped, 0, __ATOMIC_RELAXED);
    memset(&self->past, 0, sizeof(self->past));
    g_mutex_unlock(&self->input_lock);
    return TRUE;
}

void gst_gpudirect_src_close(GstGpudirectSrc *self)
{
    g_mutex_lock(&self->input_lock);
    struct input *input = g_steal_pointer(&self->input);
    g_clear_pointer(&self->opened, g_free);
    memset(&self->past, 0, sizeof(self->past));
    g_mutex_unlock(&self->input_lock);
    gst_gpudirect_src_reset_stream(self);
    if (input)
        input->ops->close(input);
}

gboolean gst_gpudirect_src_reopen(GstGpudirectSrc *self, const gchar *elsewhere,
                                  struct gpud_error *error)
{
    gchar *device = g_strdup(elsewhere ? elsewhere : self->opened);
    struct input_info counted;
    struct input *input;
    enum gpud_status status = make_input(self, device, &input, error);

    if (status != GPUD_OK) {
        g_free(device);
        return FALSE;
    }
    g_mutex_lock(&self->input_lock);
    struct input *old = self->input;
    old->ops->get_info(old, &counted);
    counted.disconnects += counted.connected;
    add_counters(&self->past, &counted);
    self->input = input;
    g_free(self->opened);
    self->opened = device;
    input->ops->interrupt(input, self->interrupted);
    g_mutex_unlock(&self->input_lock);
    old->ops->close(old);
    self->dropped_seen = 0; /* the new one counts from 0 */
    gst_gpudirect_src_drop_updates(self);
    return TRUE;
}

/* --- interrupting ------------------------------------------------------------------------- */

void gst_gpudirect_src_interrupt(GstGpudirectSrc *self, gboolean interrupted)
{
    g_mutex_lock(&self->input_lock);
    self->interrupted = interrupted;
    if (self->input)
        self->input->ops->interrupt(self->input, interrupted);
    g_mutex_unlock(&self->input_lock);
}

void gst_gpudirect_src_resume(GstGpudirectSrc *self)
{
    g_mutex_lock(&self->input_lock);
    self->input->ops->interrupt(self->input, self->interrupted);
    g_mutex_unlock(&self->input_lock);
}

void gst_gpudirect_src_set_flushing(GstGpudirectSrc *self, gboolean flushing)
{
    g_mutex_lock(&self->pause_lock);
    g_atomic_int_set(&self->flushing, flushing);
    g_cond_broadcast(&self->pause_cond);
    g_mutex_unlock(&self->pause_lock);
    gst_gpudirect_src_interrupt(self, flushing);
}
