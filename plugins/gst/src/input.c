/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc's input: opening, replacing, counting and interrupting it. */
#include "endstats.h"
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

/* No field where the user named it. */
static void tell_device(GstGpudirectSrc *self, GstStructure *stats)
{
    GST_OBJECT_LOCK(self);
    if (self->device_reason)
        gst_structure_set(stats, "device-reason", G_TYPE_STRING, self->device_reason, NULL);
    GST_OBJECT_UNLOCK(self);
}

/* Where it is not known there are no fields that could be taken for a latency. */
static void tell_latency(GstGpudirectSrc *self, enum src_relation relation,
                         const struct input_info *info, GstStructure *stats)
{
    guint64 p50 = info->latency_p50, p99 = info->latency_p99, max = info->latency_max;
    gboolean known = relation == RELATION_HERE && max > 0;

    if (!known && (relation == RELATION_COMMON || relation == RELATION_HERE))
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
    tell_device(self, stats);
    tell_clock(self, relation, stats);
    tell_latency(self, relation, &info, stats);
    if (info.stamps)
        gst_structure_set(stats, "stamps", G_TYPE_STRING, info.stamps, NULL);
    lost_metas_tell(self->lost_metas, stats);
    gst_structure_set(stats, "lost-names", G_TYPE_UINT64,
                      self->names ? names_count_left_out(self->names) : 0, NULL);
    return stats;
}

static GstStructure *make_stats(GstElement *element)
{
    return gst_gpudirect_src_make_stats(GST_GPUDIRECT_SRC(element));
}

void gst_gpudirect_src_post_stats(GstElement *element)
{
    end_stats_post(element, &GST_GPUDIRECT_SRC(element)->stats_due, make_stats);
}

static GstElementClass *parent_class;

/* Applications stop listening at an error. */
static gboolean post_message(GstElement *element, GstMessage *message)
{
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR)
        gst_gpudirect_src_post_stats(element);
    return parent_class->post_message(element, message);
}

void gst_gpudirect_src_class_init_stats(GstElementClass *klass)
{
    parent_class = g_type_class_peek_parent(klass);
    klass->post_message = post_message;
}

/* --- opening and closing ------------------------------------------------------------------ */

static enum gpud_status make_input(GstGpudirectSrc *self, const gchar *device, struct input **input,
                                   struct gpud_error *error)
{
    const struct input_ops *ops = input_ops_for(self->running.address);
    GST_OBJECT_LOCK(self);
    gchar *card_input = g_strdup(self->card.input);
    GstStructure *controls = self->card.controls ? gst_structure_copy(self->card.controls) : NULL;
    g_atomic_int_set(&self->card.input_changed, FALSE);
    GST_OBJECT_UNLOCK(self);
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
        .card_input = card_input,
        .card_controls = controls,
        .on_event = gst_gpudirect_src_on_event,
        .user = self,
    };

    enum gpud_status status = ops->open(&params, input, error);
    g_free(card_input);
    g_clear_pointer(&controls, gst_structure_free);
    return status;
}

gboolean gst_gpudirect_src_open(GstGpudirectSrc *self)
{
    const struct input_ops *ops = input_ops_for(self->running.address);
    struct input *input;
    struct gpud_error error;

    gchar *device = gst_gpudirect_src_choose_device(self, ops);
    gst_gpudirect_src_reset_stream(self);
    self->names = names_of(self->running.address);
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

/* --- a card in READY ---------------------------------------------------------------------- */

static gboolean is_card(const struct settings *settings)
{
    return settings->address && settings->address[0] && input_ops_for(settings->address)->stop;
}

gboolean gst_gpudirect_src_open_card(GstGpudirectSrc *self)
{
    GST_OBJECT_LOCK(self);
    settings_copy(&self->kept, &self->settings);
    self->kept_mode = self->options.io_mode;
    gboolean card = is_card(&self->settings);
    if (card)
        settings_copy(&self->running, &self->settings);
    GST_OBJECT_UNLOCK(self);
    return !card ||
           (settings_check(GST_ELEMENT(self), &self->running) && gst_gpudirect_src_open(self));
}

gboolean gst_gpudirect_src_is_kept(GstGpudirectSrc *self)
{
    gboolean kept = FALSE;

    GST_OBJECT_LOCK(self);
    const struct settings *now = &self->settings, *then = &self->kept;
    if (self->input && is_card(now))
        kept = g_strcmp0(now->address, then->address) == 0 &&
               g_strcmp0(now->device, then->device) == 0 && now->slots == then->slots &&
               now->require_direct == then->require_direct &&
               self->options.io_mode == self->kept_mode;
    GST_OBJECT_UNLOCK(self);
    return kept;
}

/* The card counts on, and the element from 0. */
static void count_anew(GstGpudirectSrc *self)
{
    struct input_info info;

    g_mutex_lock(&self->input_lock);
    self->input->ops->get_info(self->input, &info);
    memset(&self->past, 0, sizeof(self->past));
    self->past.frames = -info.frames;
    self->past.dropped = -info.dropped;
    self->past.corrupted = -info.corrupted;
    self->past.connects = 1 - info.connects;
    self->past.disconnects = -info.disconnects;
    self->past.copies_cpu = -info.copies_cpu;
    self->past.copies_gpu = -info.copies_gpu;
    self->interrupted = FALSE;
    self->input->ops->interrupt(self->input, FALSE);
    g_mutex_unlock(&self->input_lock);
    self->dropped_seen = info.dropped;
    __atomic_store_n(&self->skipped, 0, __ATOMIC_RELAXED);
}

gboolean gst_gpudirect_src_restart(GstGpudirectSrc *self)
{
    struct gpud_error error;

    /* Downstream may work on another device than it seemed to in READY. */
    gchar *device = gst_gpudirect_src_choose_device(self, self->input->ops);
    gboolean same = g_strcmp0(device, self->opened) == 0;
    g_free(device);
    if (!same) {
        gst_gpudirect_src_close(self);
        return gst_gpudirect_src_open(self);
    }
    gst_gpudirect_src_reset_stream(self);
    count_anew(self);
    if (self->input->ops->wait(self->input, 0, &error) == GPUD_OK)
        return TRUE;
    gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_OPEN_SOURCE, &error,
                        "The capture card is not there any more");
    return FALSE;
}

void gst_gpudirect_src_stop_input(GstGpudirectSrc *self)
{
    if (!self->input || !self->input->ops->stop) {
        gst_gpudirect_src_close(self);
        return;
    }
    self->input->ops->stop(self->input);
    gst_gpudirect_src_reset_stream(self);
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
