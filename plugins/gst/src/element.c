/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc: the class, its properties, its states and what it reports. */
#include "src/src.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

/* === options ================================================================================= */

/* Sinks add 20 ms of their own, and the time in transit is measured; nothing else is needed. */
#define DEFAULT_PROCESSING_DEADLINE 0
#define DEFAULT_BUSY_POLL 250
#define LATENCY_AUTO (-1)
#define DEFAULT_GROUP_LATENCY (40 * GST_MSECOND)

static const GEnumValue on_disconnect_values[] = {
    {ON_DISCONNECT_WAIT, "Wait for the sender to come back", "wait"},
    {ON_DISCONNECT_EOS, "End the stream", "eos"},
    {ON_DISCONNECT_ERROR, "Post an error", "error"},
    {ON_DISCONNECT_FREEZE, "Wait, and show the last picture meanwhile", "freeze"},
    {ON_DISCONNECT_BLACK, "Wait, and show black meanwhile", "black"},
    {0, NULL, NULL},
};

static const GEnumValue on_eos_values[] = {
    {ON_EOS_EOS, "End the stream", "eos"},
    {ON_EOS_WAIT, "Wait for the next stream, of this sender or of the next one", "wait"},
    {0, NULL, NULL},
};

static const GEnumValue start_values[] = {
    {START_NEWEST, "With the newest frame of a sender that drops frames for slow receivers",
     "newest"},
    {START_OLDEST, "With the oldest frame that is still there", "oldest"},
    {0, NULL, NULL},
};

static const GEnumValue preferred_values[] = {
    {PREFERRED_MAIN, "The sender at the address", "main"},
    {PREFERRED_BACKUP, "The sender at the backup address", "backup"},
    {0, NULL, NULL},
};

void src_options_install(GObjectClass *klass)
{
    const GParamFlags ready = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY;
    const GParamFlags playing =
        G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING;
    GParamSpec *const pspecs[OPTION_COUNT] = {
        [OPTION_ON_DISCONNECT] = g_param_spec_enum(
            "on-disconnect", "On disconnect",
            "What to do when the sender vanishes, or the card is unplugged; freeze and black also "
            "apply if it sends nothing for half a second, or three frames if that is longer "
            "(freeze keeps one slot)",
            enum_type("GstGpudirectOnDisconnect", on_disconnect_values), ON_DISCONNECT_WAIT,
            playing),
        [OPTION_ON_EOS] =
            g_param_spec_enum("on-eos", "On EOS",
                              "What to do when the sender ends its stream (wait: continue with the "
                              "next stream, of this sender or of another)",
                              enum_type("GstGpudirectOnEos", on_eos_values), ON_EOS_EOS, playing),
        [OPTION_START] =
            g_param_spec_enum("start", "Start",
                              "Which waiting frame is the first after connecting and after a "
                              "pause; older ones count as dropped",
                              enum_type("GstGpudirectStart", start_values), START_NEWEST, playing),
        [OPTION_CONNECTION_TIMEOUT] = g_param_spec_uint(
            "connection-timeout", "Connection timeout",
            "Seconds without a sender until an error is posted (0 = wait for ever)", 0, G_MAXINT, 0,
            playing),
        [OPTION_PROCESSING_DEADLINE] = g_param_spec_uint64(
            "processing-deadline", "Processing deadline",
            "Time, in nanoseconds, that downstream needs for a buffer in addition to what its "
            "sink asks for",
            0, G_MAXUINT64, DEFAULT_PROCESSING_DEADLINE, playing),
        [OPTION_LATENCY] = g_param_spec_int(
            "latency", "Latency",
            "Fixed latency to report, in milliseconds, as in rtpjitterbuffer "
            "(-1 = the measured latency, up to a second and to what the ring holds)",
            LATENCY_AUTO, 3600 * 1000, LATENCY_AUTO, playing),
        [OPTION_BUSY_POLL] =
            g_param_spec_uint("busy-poll", "Busy poll",
                              "The longest busy wait, in microseconds, for a picture that is due, "
                              "which saves waking the thread (0 = always sleep)",
                              0, G_USEC_PER_SEC, DEFAULT_BUSY_POLL, ready),
        [OPTION_ADD_REFERENCE_TIMESTAMP_META] = g_param_spec_boolean(
            "add-reference-timestamp-meta", "Add reference timestamp meta",
            "Adds to each buffer, behind its other reference timestamps, the time of its "
            "submission on this host or of its capture by a card, both by CLOCK_MONOTONIC: "
            "timestamp/x-gpudirect-submit, -capture",
            FALSE, playing),
        [OPTION_GROUP] = g_param_spec_string(
            "group", "Group",
            "The sources of this process with the same name here pass on only pictures of the same "
            "instant; others are dropped (unset or empty: none)",
            NULL, ready),
        [OPTION_GROUP_LATENCY] = g_param_spec_uint64(
            "group-latency", "Group latency",
            "How long a picture may wait for those of the group's other sources, in nanoseconds; "
            "then it goes without them. The ring (slots) has to hold pictures that long",
            0, 3600 * GST_SECOND, DEFAULT_GROUP_LATENCY, playing),
        [OPTION_BACKUP_ADDRESS] = g_param_spec_string(
            "backup-address", "Backup address",
            "The address of a second sender of the same programme: both are received, and each "
            "picture is passed on once, from either (unset or empty: none)",
            NULL, ready),
        [OPTION_PREFERRED] = g_param_spec_enum(
            "preferred", "Preferred",
            "With a backup-address: the sender that is taken if its pictures are "
            "in time; the signal `switch` changes it",
            enum_type("GstGpudirectPreferred", preferred_values), PREFERRED_MAIN, playing),
        [OPTION_FREEZE_TIMEOUT] = g_param_spec_uint64(
            "freeze-timeout", "Freeze timeout",
            "With a backup-address, on the host: nanoseconds without a change after which a "
            "sender's picture counts as frozen, and the other one's is used if that changes (0 = "
            "never)",
            0, 3600 * GST_SECOND, 0, ready),
        [OPTION_MAX_FRAME_SIZE] = g_param_spec_uint64(
            "max-frame-size", "Maximum frame size",
            "The largest frame that is accepted, in bytes; a sender with larger ones is refused (0 "
            "= sound, data and tensors of any size, and pictures of about twice their rows' bytes)",
            0, G_MAXUINT64, 0, ready),
    };

    fields_install(klass, pspecs, OPTION_COUNT);
}

void src_options_init(struct src_options *options)
{
    options->on_disconnect = ON_DISCONNECT_WAIT;
    options->processing_deadline = DEFAULT_PROCESSING_DEADLINE;
    options->latency = LATENCY_AUTO;
    options->busy_poll = DEFAULT_BUSY_POLL;
    options->group_latency = DEFAULT_GROUP_LATENCY;
}

/* NULL: another property's id. */
static gpointer find_option(const struct src_options *options, guint id)
{
    static const gsize offsets[OPTION_COUNT] = {
        [OPTION_ON_DISCONNECT] = offsetof(struct src_options, on_disconnect),
        [OPTION_ON_EOS] = offsetof(struct src_options, on_eos),
        [OPTION_START] = offsetof(struct src_options, start),
        [OPTION_CONNECTION_TIMEOUT] = offsetof(struct src_options, connection_timeout),
        [OPTION_PROCESSING_DEADLINE] = offsetof(struct src_options, processing_deadline),
        [OPTION_LATENCY] = offsetof(struct src_options, latency),
        [OPTION_BUSY_POLL] = offsetof(struct src_options, busy_poll),
        [OPTION_ADD_REFERENCE_TIMESTAMP_META] = offsetof(struct src_options, adds_submit_time),
        [OPTION_IO_MODE] = offsetof(struct src_options, io_mode),
        [OPTION_GROUP] = offsetof(struct src_options, group),
        [OPTION_GROUP_LATENCY] = offsetof(struct src_options, group_latency),
        [OPTION_BACKUP_ADDRESS] = offsetof(struct src_options, backup_address),
        [OPTION_PREFERRED] = offsetof(struct src_options, preferred),
        [OPTION_FREEZE_TIMEOUT] = offsetof(struct src_options, freeze_timeout),
        [OPTION_MAX_FRAME_SIZE] = offsetof(struct src_options, max_frame_size),
    };

    return id >= SETTING_COUNT && id < OPTION_COUNT ? (guint8 *)options + offsets[id] : NULL;
}

gboolean src_options_get(const struct src_options *options, guint id, GValue *value)
{
    gconstpointer field = find_option(options, id);

    if (field)
        field_get(field, value);
    return field != NULL;
}

gboolean src_options_set(struct src_options *options, guint id, const GValue *value)
{
    gpointer field = find_option(options, id);

    if (field && G_VALUE_HOLDS_STRING(value))
        *(const gchar **)field = g_intern_string(g_value_get_string(value));
    else if (field)
        field_set(field, value);
    return field != NULL;
}

struct src_options src_options_read(const struct src_options *options, gpointer owner)
{
    GST_OBJECT_LOCK(owner);
    struct src_options copy = *options;
    GST_OBJECT_UNLOCK(owner);
    return copy;
}

/* === open ==================================================================================== */
/* Opens gpudirectsrc's input according to the properties, and closes it.
 *
 * A capture card is opened in READY, where its formats are queried, and stays open until NULL. The
 * properties that it was opened with are kept, to reopen it when they have changed. */

static gboolean is_card(const struct settings *settings)
{
    return settings->address && settings->address[0] &&
           input_ops_for(settings->address)->kind == INPUT_CARD;
}

gboolean gst_gpudirect_src_keeps_card(const GstGpudirectSrc *self)
{
    const struct settings *now = &self->endpoint.settings, *then = &self->kept.settings;

    return self->feed.input && is_card(now) && g_strcmp0(now->address, then->address) == 0 &&
           g_strcmp0(now->device, then->device) == 0 && now->slots == then->slots &&
           now->require_direct == then->require_direct &&
           self->options.io_mode == self->kept.io_mode;
}

static enum gpud_status check_backup(const gchar *address, const struct src_options *options,
                                     const struct input_ops *ops, struct gpud_error *error)
{
    const gchar *backup = options->backup_address ? options->backup_address : "", *why = NULL;

    if (!backup[0] && options->freeze_timeout == 0)
        return GPUD_OK;
    if (!backup[0])
        why = "freeze-timeout needs a second sender: set backup-address to its address";
    else if (ops != &pair_input_ops || input_ops_for(backup) != &link_input_ops)
        why = "address and backup-address are both to be senders', names such as cam1 and cam1b";
    else if (g_str_equal(address, backup))
        why = "backup-address is the same as address: set it to that of a second sender";
    return why ? gpud_gst_error_fill(error, GPUD_INVALID, "%s", why) : GPUD_OK;
}

static void warn(void *user, const gchar *text)
{
    GstGpudirectSrc *self = user;

    GST_ELEMENT_WARNING(self, CORE, CLOCK, ("%s", text), (NULL));
}

/* A feed_open_input: opens an input according to the properties. user: the element. */
static enum gpud_status open_input(void *user, const gchar *device, struct input **input,
                                   struct gpud_error *error)
{
    GstGpudirectSrc *self = user;
    const struct settings *settings = &self->endpoint.running;
    struct src_options options = src_options_read(&self->options, self);
    const struct input_ops *ops = input_ops_for(settings->address);

    if (ops == &link_input_ops && src_options_have_backup(&options))
        ops = &pair_input_ops;
    GST_OBJECT_LOCK(self);
    g_autofree gchar *card_input = g_strdup(self->card.input);
    g_autoptr(GstStructure) controls =
        self->card.controls ? gst_structure_copy(self->card.controls) : NULL;
    g_atomic_int_set(&self->card.input_changed, FALSE);
    GST_OBJECT_UNLOCK(self);
    g_autofree gchar *name = endpoint_find_pipeline_name(GST_ELEMENT(self));
    struct input_params params = {
        .settings = settings,
        .options = &options,
        .preferred = &self->options.preferred,
        .device = device,
        .name = name,
        .card_input = card_input,
        .card_controls = controls,
        .on_event = gst_gpudirect_src_on_event,
        .admit = gst_gpudirect_src_admit,
        .on_notice = warn,
        .user = self,
    };

    enum gpud_status status = check_backup(settings->address, &options, ops, error);
    if (status == GPUD_OK)
        status = ops->open(&params, input, error);
    return status;
}

/* Chooses the device that frames shall arrive on; g_free it. */
static gchar *choose_device(GstGpudirectSrc *self, const struct input_ops *ops)
{
    gint number;
    gchar *device = device_choice_choose(&self->endpoint.device, &number, &self->follow.enabled);

    self->follow.moves = 0;
    /* Frames of a card or a third-party writer have no device yet; two senders may have two. */
    struct src_options options = src_options_read(&self->options, self);
    if (!input_is_of_sender(ops) || src_options_have_backup(&options))
        self->follow.enabled = FALSE;
    g_atomic_int_set(&self->endpoint.device.opened_on, number);
    return device;
}

/* Drops the state of the stream. */
static void reset_stream(GstGpudirectSrc *self)
{
    const gchar *address = self->endpoint.running.address;
    gboolean card = address && !input_is_of_sender(input_ops_for(address));

    updates_clear(&self->updates);
    g_ptr_array_set_size(self->sticky_names, 0);
    pictures_reset(&self->pictures);
    self->pictures.slots = self->endpoint.running.slots;
    self->link = (struct link_state){.refusal_at = self->link.refusal_at};
    src_signal_forget(&self->signal);
    times_reset(&self->times, card);
    latency_reset(&self->latency, self->endpoint.running.slots, card);
    self->discont = TRUE;
    self->loss_reported = FALSE;
    self->way = (struct way){.since = monotonic_now()};
    self->returned_at = self->blocked_longest = 0;
    g_atomic_int_set(&self->sender_live, -1);
    self->dropped = self->frames = self->skipped_unreported = 0;
}

/* Opens the input, on a device by the properties. FALSE: an error was posted. */
static gboolean src_open(GstGpudirectSrc *self)
{
    const gchar *address = self->endpoint.running.address;
    const struct input_ops *ops = input_ops_for(address);
    struct gpud_error error;

    gchar *device = choose_device(self, ops);
    reset_stream(self);
    self->names = names_of(address);
    gboolean opened = feed_open(&self->feed, device, &error);
    g_free(device);
    if (opened)
        return TRUE;
    gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_OPEN_SOURCE, &error,
                        "Cannot receive from %s at \"%s\"", ops->what, address);
    return FALSE;
}

static void src_close(GstGpudirectSrc *self)
{
    reset_stream(self);
    feed_close(&self->feed);
}

/* In READY: opens a capture card, if the address names one. FALSE: an error was posted. */
static gboolean open_card(GstGpudirectSrc *self)
{
    const struct settings *settings = &self->endpoint.settings;

    GST_OBJECT_LOCK(self);
    settings_copy(&self->kept.settings, settings);
    self->kept.io_mode = self->options.io_mode;
    gboolean card = is_card(settings);
    if (card)
        settings_copy(&self->endpoint.running, settings);
    GST_OBJECT_UNLOCK(self);
    return !card || (settings_check(GST_ELEMENT(self), &self->endpoint.running) && src_open(self));
}

/* In PAUSED: continues with the open card. FALSE: an error was posted. */
static gboolean restart_card(GstGpudirectSrc *self)
{
    struct gpud_error error;

    /* Downstream may have changed its device since READY. */
    gchar *device = choose_device(self, self->feed.input->ops);
    gboolean same = g_strcmp0(device, self->feed.device) == 0;
    g_free(device);
    if (!same) {
        src_close(self);
        return src_open(self);
    }
    reset_stream(self);
    feed_count_anew(&self->feed);
    if (self->feed.input->ops->wait(self->feed.input, 0, &error) == GPUD_OK)
        return TRUE;
    gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_OPEN_SOURCE, &error,
                        "The capture card is gone");
    return FALSE;
}

void gst_gpudirect_src_keep_sender(GstGpudirectSrc *self, const gchar *address,
                                   const struct gpud_error *why)
{
    gchar **property = &self->endpoint.settings.address;

    GST_OBJECT_LOCK(self);
    g_autofree gchar *now = g_strdup(self->endpoint.running.address);
    gboolean shown = g_strcmp0(*property, address) == 0; /* else it has been set again */
    if (shown) {
        g_free(*property);
        *property = g_strdup(now);
    }
    struct gate *gate = shown ? g_steal_pointer(&self->gate) : NULL;
    gboolean is_main = self->is_main;
    GST_OBJECT_UNLOCK(self);
    if (gate && is_main)
        gate_close(gate);
    gate_unref(gate);
    gpud_gst_error_warn(GST_ELEMENT(self), GPUD_GST_OPEN_SOURCE, why,
                        "The address was not changed to \"%s\", and \"%s\" goes on", address, now);
    if (shown)
        g_object_notify(G_OBJECT(self), "address");
}

void gst_gpudirect_src_set_gate(GstGpudirectSrc *self, struct gate *gate, gboolean is_main)
{
    GST_OBJECT_LOCK(self);
    struct gate *before = self->gate;
    self->gate = gate_ref(gate);
    self->is_main = is_main;
    GST_OBJECT_UNLOCK(self);
    gate_unref(before);
}

struct gate *gst_gpudirect_src_get_gate(GstGpudirectSrc *self)
{
    GST_OBJECT_LOCK(self);
    struct gate *gate = gate_ref(self->gate);
    GST_OBJECT_UNLOCK(self);
    return gate;
}

void gst_gpudirect_src_take_address(GstGpudirectSrc *self, const gchar *address)
{
    struct settings *running = &self->endpoint.running;

    GST_OBJECT_LOCK(self);
    settings_copy_keys(running, &self->endpoint.settings);
    g_free(running->address);
    running->address = g_strdup(address);
    struct gate *gate = g_steal_pointer(&self->gate);
    GST_OBJECT_UNLOCK(self);
    gate_unref(gate);
    g_clear_pointer(&self->arrived, gate_unref);
    self->names = names_of(address);
}

void gst_gpudirect_src_follow_address(GstGpudirectSrc *self, gboolean if_other)
{
    gint64 timeout = src_options_read(&self->options, self).connection_timeout * GPUD_SEC;
    struct settings wanted = {0};
    struct gpud_error error;
    enum gpud_status status = GPUD_OK;

    GST_OBJECT_LOCK(self);
    gboolean same = g_strcmp0(self->endpoint.settings.address, self->endpoint.running.address) == 0;
    gboolean started = self->endpoint.started;
    settings_copy(&wanted, &self->endpoint.settings);
    GST_OBJECT_UNLOCK(self);
    struct gate *gate = gst_gpudirect_src_get_gate(self);
    if (gate)
        timeout = gate_get_timeout(gate);
    gate_unref(gate);
    if (started && !(same && if_other)) {
        const gchar *address = wanted.address ? wanted.address : "";
        if (!g_utf8_validate(address, -1, NULL))
            status = gpud_gst_error_fill(&error, GPUD_INVALID, "it is not valid UTF-8");
        else
            status = feed_switch(&self->feed, address, &wanted, timeout, &error);
        if (status != GPUD_OK && !same)
            gst_gpudirect_src_keep_sender(self, address, &error);
    }
    settings_clear(&wanted);
}

/* === stats =================================================================================== */
/* The property "stats" of gpudirectsrc. */

/* Methods of the endpoint, callable from any thread. */
static void get_route(GstElement *element, struct endpoint_route *route)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(element);
    const gchar *reason = NULL;
    struct input_info info;

    feed_get_info(&self->feed, &info);
    g_strlcpy(route->path, info.path, sizeof(route->path));
    g_strlcpy(route->fallback_reason, info.fallback_reason, sizeof(route->fallback_reason));
    if (g_atomic_int_get(&self->pictures.dmabuf_use) == DMABUFS_COPIES)
        reason = "the ring's memory has no dma-bufs, so the CPU copies pictures into others";
    else if (g_atomic_int_get(&self->pictures.fills_files))
        reason = "the elements downstream share files, so the CPU copies pictures into theirs";
    if (reason && route->fallback_reason[0])
        g_strlcat(route->fallback_reason, "; ", sizeof(route->fallback_reason));
    if (reason)
        g_strlcat(route->fallback_reason, reason, sizeof(route->fallback_reason));
}

/* How the last sender's clock relates to ours, and the latency if one is known. */
static void add_clock(GstGpudirectSrc *self, const struct input_info *info, GstStructure *stats)
{
    static const gchar *const texts[] = {
        [RELATION_NONE] = "none",
        [RELATION_UNKNOWN] = "unknown",
        [RELATION_SAME_HOST] = "same host",
    };
    enum clock_relation relation = (enum clock_relation)g_atomic_int_get(&self->times.relation);
    gchar clock[CLOCK_NAME_MAX + 16], host[sizeof(self->times.sender_host)];
    guint64 p50 = info->latency_p50, p99 = info->latency_p99, max = info->latency_max;
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
    if ((relation == RELATION_SAME_HOST && max > 0) ||
        ((relation == RELATION_COMMON || relation == RELATION_SAME_HOST) &&
         latencies_get(self->times.latencies, &p50, &p99, &max)))
        gst_structure_set(stats, "latency-p50", G_TYPE_UINT64, p50, "latency-p99", G_TYPE_UINT64,
                          p99, "latency-max", G_TYPE_UINT64, max, NULL);
}

static GstStructure *make_stats(GstElement *element)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(element);
    struct input_info info;

    guint64 skipped = __atomic_load_n(&self->feed.skipped, __ATOMIC_RELAXED);
    feed_get_info(&self->feed, &info);
    GstStructure *stats = gst_structure_new(
        "gpudirect-stats", "active-path", G_TYPE_STRING, info.path, "encrypted", G_TYPE_STRING,
        info.encrypted, "address", G_TYPE_STRING, info.address, "switches", G_TYPE_UINT64,
        info.switches, "device", G_TYPE_STRING, info.device, "connected", G_TYPE_BOOLEAN,
        info.connected, "frames", G_TYPE_UINT64, info.frames - MIN(skipped, info.frames), "dropped",
        G_TYPE_UINT64, info.dropped + skipped, "corrupted", G_TYPE_UINT64, info.corrupted,
        "connects", G_TYPE_UINT64, info.connects, "disconnects", G_TYPE_UINT64, info.disconnects,
        "reconnects", G_TYPE_UINT64, info.connects > 0 ? info.connects - 1 : 0, "copies-cpu",
        G_TYPE_UINT64, info.copies_cpu + counter_read(&self->endpoint.counters->copies_cpu),
        "copies-gpu", G_TYPE_UINT64,
        info.copies_gpu + counter_read(&self->endpoint.counters->copies_gpu), "cpu-waits",
        G_TYPE_UINT64, info.waits_cpu, "device-waits", G_TYPE_UINT64,
        info.waits_device + counter_read(&self->endpoint.counters->waits_device), "kicks",
        G_TYPE_UINT64, info.kicks, "stood-in", G_TYPE_UINT64,
        __atomic_load_n(&self->signal.count, __ATOMIC_RELAXED), NULL);
    static const gchar *const uses[] = {
        [DMABUFS_UNUSED] = "none",
        [DMABUFS_SLOTS] = "slots",
        [DMABUFS_COPIES] = "copies",
    };
    gst_structure_set(stats, "dmabufs", G_TYPE_STRING,
                      uses[g_atomic_int_get(&self->pictures.dmabuf_use)], NULL);
    device_choice_tell(&self->endpoint.device, stats);
    add_clock(self, &info, stats);
    feed_add_stats(&self->feed, stats);
    if (info.stamps)
        gst_structure_set(stats, "stamps", G_TYPE_STRING, info.stamps, NULL);
    lost_metas_tell(self->endpoint.lost_metas, stats);
    gst_structure_set(stats, "lost-names", G_TYPE_UINT64,
                      self->names ? names_count_left_out(self->names) : 0, NULL);
    return stats;
}

/* === element ================================================================================= */
/**
 * SECTION:element-gpudirectsrc
 * @title: gpudirectsrc
 * @short_description: Receives raw video straight in this process's, or a device's, memory
 * @see_also: gpudirectsink
 *
 * gpudirectsrc connects to the address on which a gpudirectsink sends. It waits for a sender, and
 * reconnects when a sender was lost. Buffers are the slots of the ring: no frame is copied or
 * allocated. If both pipelines follow one clock, on one host or on two, pictures keep their times.
 *
 * On a CUDA device buffers are CUDA memory, if downstream accepts it, which GStreamer's CUDA
 * elements use in place; the GPU itself waits for the picture, without a waiting thread.
 *
 * The address of a sender can be changed while the element plays: the new sender's first picture
 * follows the old one's last, and if it does not come within connection-timeout the old one stays.
 *
 * With an address that begins with v4l2:// the frames come from a capture card instead. Players
 * take both as URIs: gpudirect://cam1?slots=8 and gpudirect+v4l2:///dev/video0. With target:cam1
 * the element makes a ring for the caps downstream, which a third-party writer fills, such as an
 * SDI card.
 *
 * ## Example launch lines
 * |[
 * gst-launch-1.0 gpudirectsrc address=cam1 ! videoconvert ! autovideosink
 * ]|
 * Shows what is sent on the address cam1.
 * |[
 * gst-launch-1.0 gpudirectsrc address=v4l2:///dev/video0 ! videoconvert ! autovideosink
 * ]|
 * Shows what a capture card delivers.
 * |[
 * gst-launch-1.0 -m gpudirectsrc address=cam1 on-disconnect=eos ! fakesink
 * ]|
 * Ends when the sender vanishes.
 * |[
 * gst-launch-1.0 gpudirectsrc address=cam1 on-disconnect=freeze on-eos=wait ! x264enc ! …
 * ]|
 * Never stops: if the sender vanishes or stalls, its last picture is repeated. The property
 * `signal` and messages named gpudirect-signal report that.
 * |[
 * gst-launch-1.0 gpudirectsrc address=cam1 on-eos=wait ! videoconvert ! autovideosink
 * ]|
 * Continues with the next sender after each EOS.
 * |[
 * gst-launch-1.0 gpudirectsrc address=cam1 ! nvh264enc ! h264parse ! matroskamux ! filesink
 * location=a.mkv
 * ]|
 * Encodes what a process on the same GPU sends, without a copy.
 * |[
 * gst-launch-1.0 gpudirectsrc address=cam1 backup-address=cam1b ! videoconvert ! autovideosink
 * ]|
 * Receives a main and a backup sender, and shows each picture once: the end of either costs none.
 * |[
 * gst-launch-1.0 compositor name=mix ! videoconvert ! autovideosink gpudirectsrc address=left
 * group=stereo ! queue ! mix. gpudirectsrc address=right group=stereo ! queue ! mix.
 * ]|
 * Shows two cameras, always at the same instant.
 *
 * Since: 0.1
 */

G_DEFINE_TYPE_WITH_CODE(GstGpudirectSrc, gst_gpudirect_src, GST_TYPE_PUSH_SRC,
                        GST_DEBUG_CATEGORY_INIT(gst_gpudirect_src_debug, "gpudirectsrc", 0,
                                                "gpudirect source");
                        G_IMPLEMENT_INTERFACE(GST_TYPE_URI_HANDLER, uri_handler_init))

GST_ELEMENT_REGISTER_DEFINE(gpudirectsrc, "gpudirectsrc", GST_RANK_NONE, GST_TYPE_GPUDIRECT_SRC)

enum {
    PROP_INPUT = OPTION_COUNT,
    PROP_EXTRA_CONTROLS,
    PROP_SIGNAL = ENDPOINT_REPORT,
};

/**
 * GstGpudirectSrc::switch:
 *
 * An action: the other one of the two senders is preferred from now on. */
static void switch_preferred(GstGpudirectSrc *self)
{
    g_atomic_int_xor((guint *)&self->options.preferred, PREFERRED_MAIN ^ PREFERRED_BACKUP);
    g_object_notify(G_OBJECT(self), "preferred");
}

/* --- properties --------------------------------------------------------------------------- */

static gboolean src_get_property(GstElement *element, guint id, GValue *value)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(element);
    struct input_info info;

    if (id == PROP_SIGNAL) {
        g_value_set_boolean(value, g_atomic_int_get(&self->signal.present));
        return TRUE;
    }
    if (id == PROP_INPUT)
        feed_get_info(&self->feed, &info);
    GST_OBJECT_LOCK(self);
    gboolean known = id == PROP_INPUT || id == PROP_EXTRA_CONTROLS;
    if (id == PROP_INPUT) /* the card's own name for it, if it has one */
        g_value_set_string(value, info.card_input[0] ? info.card_input : self->card.input);
    else if (id == PROP_EXTRA_CONTROLS)
        g_value_set_boxed(value, self->card.controls);
    else
        known = src_options_get(&self->options, id, value);
    GST_OBJECT_UNLOCK(self);
    return known;
}

static gboolean src_set_property(GstElement *element, guint id, const GValue *value)
{
    struct card_settings *card = &GST_GPUDIRECT_SRC(element)->card;
    const gchar *input;

    switch (id) {
    case PROP_INPUT:
        input = g_value_get_string(value);
        g_free(card->input);
        card->input = g_strdup(input && input[0] ? input : NULL);
        g_atomic_int_set(&card->input_changed, card->input != NULL);
        return TRUE;
    case PROP_EXTRA_CONTROLS:
        g_clear_pointer(&card->controls, gst_structure_free);
        card->controls = g_value_dup_boxed(value);
        return TRUE;
    default:
        return src_options_set(&GST_GPUDIRECT_SRC(element)->options, id, value);
    }
}

/* Sets the open card's controls, or posts a warning. */
static void apply_controls(GstGpudirectSrc *self)
{
    struct feed *feed = &self->feed;
    struct gpud_error error;
    enum gpud_status status = GPUD_OK;

    GST_OBJECT_LOCK(self);
    g_autoptr(GstStructure) controls =
        self->card.controls ? gst_structure_copy(self->card.controls) : NULL;
    GST_OBJECT_UNLOCK(self);
    g_mutex_lock(&feed->lock);
    if (controls && feed->input && feed->input->ops->kind == INPUT_CARD)
        status = feed->input->ops->set_controls(feed->input, controls, &error);
    g_mutex_unlock(&feed->lock);
    if (status != GPUD_OK)
        gpud_gst_error_warn(GST_ELEMENT(self), GPUD_GST_READ, &error,
                            "Not all of the card's controls could be set");
}

static void property_changed(GstElement *element, guint id)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(element);

    if (id == OPTION_PROCESSING_DEADLINE || id == OPTION_LATENCY || id == OPTION_GROUP_LATENCY)
        gst_element_post_message(element, gst_message_new_latency(GST_OBJECT(self)));
    else if (id == PROP_EXTRA_CONTROLS)
        apply_controls(self);
    else if (id == SETTING_ADDRESS)
        gst_gpudirect_src_follow_address(self, FALSE);
}

static const struct endpoint_ops endpoint_ops = {
    .get_property = src_get_property,
    .set_property = src_set_property,
    .changed = property_changed,
    .get_route = get_route,
    .make_stats = make_stats,
};

/* --- states ------------------------------------------------------------------------------- */

static gboolean src_start(GstBaseSrc *base)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(base);
    gboolean opened = FALSE;

    GST_OBJECT_LOCK(self);
    gboolean kept = gst_gpudirect_src_keeps_card(self);
    GST_OBJECT_UNLOCK(self);
    g_atomic_int_set(&self->ending, FALSE);
    endpoint_start(&self->endpoint);
    if (!kept)
        src_close(self);
    if (!self->endpoint.running.address || !self->endpoint.running.address[0])
        GST_ELEMENT_ERROR(
            self, RESOURCE, NOT_FOUND,
            ("No address to receive from: set the property address, to the sink's or to "
             "v4l2:///dev/video0."),
            (NULL));
    else if (settings_check(GST_ELEMENT(self), &self->endpoint.running))
        opened = kept ? restart_card(self) : src_open(self);
    if (!opened) {
        endpoint_stop(&self->endpoint);
        return FALSE;
    }
    const gchar *group = src_options_read(&self->options, self).group;
    feed_set_group(&self->feed, group && group[0] ? group : NULL, GST_ELEMENT(self));
    endpoint_note_stats(&self->endpoint);
    gst_gpudirect_src_follow_address(self, TRUE); /* it may have been set since the beginning */
    return TRUE;
}

static gboolean src_stop(GstBaseSrc *base)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(base);
    struct input *input = self->feed.input;

    endpoint_post_stats(&self->endpoint);
    feed_set_group(&self->feed, NULL, NULL);
    /* Buffers held downstream keep the pool alive, and the pool their frames. A card stays open. */
    if (input && input->ops->kind == INPUT_CARD) {
        input->ops->stop(input);
        reset_stream(self);
    } else {
        src_close(self);
    }
    endpoint_stop(&self->endpoint);
    return TRUE;
}

static gboolean src_unlock(GstBaseSrc *base)
{
    feed_set_flushing(&GST_GPUDIRECT_SRC(base)->feed, TRUE);
    return TRUE;
}

static gboolean src_unlock_stop(GstBaseSrc *base)
{
    feed_set_flushing(&GST_GPUDIRECT_SRC(base)->feed, FALSE);
    return TRUE;
}

static GstStateChangeReturn src_change_state(GstElement *element, GstStateChange transition)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(element);

    if (transition == GST_STATE_CHANGE_PAUSED_TO_PLAYING) {
        self->beginning.resumed_at = monotonic_now(); /* read once `resumed` is set */
        g_atomic_int_set(&self->beginning.resumed, TRUE);
    }
    if (transition == GST_STATE_CHANGE_NULL_TO_READY && !open_card(self))
        return GST_STATE_CHANGE_FAILURE;
    GstStateChangeReturn result =
        GST_ELEMENT_CLASS(gst_gpudirect_src_parent_class)->change_state(element, transition);
    if (transition == GST_STATE_CHANGE_READY_TO_NULL)
        src_close(self);

    /* create() may be waiting for a frame, which a live source must not do in PAUSED. */
    if (transition == GST_STATE_CHANGE_PLAYING_TO_PAUSED)
        feed_interrupt(&self->feed, TRUE);
    return result;
}

/* The base class sends EOS after the next return from create(), which must therefore return. */
static gboolean src_send_event(GstElement *element, GstEvent *event)
{
    if (GST_EVENT_TYPE(event) == GST_EVENT_EOS)
        g_atomic_int_set(&GST_GPUDIRECT_SRC(element)->ending, TRUE);
    else if (GST_EVENT_TYPE(event) == GST_EVENT_FLUSH_STOP)
        g_atomic_int_set(&GST_GPUDIRECT_SRC(element)->ending, FALSE); /* it goes on after that */
    return GST_ELEMENT_CLASS(gst_gpudirect_src_parent_class)->send_event(element, event);
}

/* Passes the request of an element downstream on to the sender, whose encoder may make the unit. A
 * time is one of this pipeline's. FALSE: it is another event. */
static gboolean request_key_unit(GstGpudirectSrc *self, GstEvent *event)
{
    struct gpud_key_request request = {.size = sizeof(request), .time_ns = GPUD_TIME_NONE};
    GstClockTime time;
    gboolean all_headers;

    if (!gst_video_event_is_force_key_unit(event) ||
        !gst_video_event_parse_upstream_force_key_unit(event, &time, &all_headers, NULL))
        return FALSE;
    request.all_headers = all_headers;
    request.at_once = !GST_CLOCK_TIME_IS_VALID(time);
    if (!request.at_once) {
        gint64 to_sender = __atomic_load_n(&self->times.to_sender, __ATOMIC_RELAXED);
        request.time_ns = (guint64)MAX(time_sum(signed_time(time), to_sender), 0);
    }
    GST_DEBUG_OBJECT(self, "a key unit is asked for: %" GST_PTR_FORMAT, event);
    feed_request_key(&self->feed, &request);
    return TRUE;
}

static gboolean src_event(GstBaseSrc *base, GstEvent *event)
{
    GstClockTime latency;

    if (request_key_unit(GST_GPUDIRECT_SRC(base), event))
        return TRUE;
    if (GST_EVENT_TYPE(event) == GST_EVENT_LATENCY) {
        gst_event_parse_latency(event, &latency);
        gst_gpudirect_src_note_latency(GST_GPUDIRECT_SRC(base), latency);
    }
    return GST_BASE_SRC_CLASS(gst_gpudirect_src_parent_class)->event(base, event);
}

static gboolean src_query(GstBaseSrc *base, GstQuery *query)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(base);

    if (device_choice_answer_query(&self->endpoint.device, query))
        return TRUE;
    if (query_is_sender_live(query)) {
        gint live = g_atomic_int_get(&self->sender_live);
        if (live >= 0)
            query_set_sender_live(query, live);
        return live >= 0;
    }
    if (GST_QUERY_TYPE(query) != GST_QUERY_LATENCY)
        return GST_BASE_SRC_CLASS(gst_gpudirect_src_parent_class)->query(base, query);
    GstClockTime min, max;
    latency_get(&self->latency, &min, &max);
    gst_query_set_latency(query, TRUE, min, max);
    return TRUE;
}

static gboolean src_is_seekable(GstBaseSrc *base)
{
    return FALSE;
}

/* --- class -------------------------------------------------------------------------------- */

static const GEnumValue io_mode_values[] = {
    {IO_MODE_AUTO, "The best that works: dmabuf, userptr, mmap", "auto"},
    {IO_MODE_MMAP, "The driver's own memory, mapped", "mmap"},
    {IO_MODE_USERPTR, "Host memory of this process, which the card writes", "userptr"},
    {IO_MODE_DMABUF, "The device's memory, which the card writes; on the host, a dma-buf",
     "dmabuf"},
    {0, NULL, NULL},
};

static void install_properties(GstElementClass *src_class)
{
    static const struct setting_texts texts = {
        .pad = "src",
        .direction = GST_PAD_SRC,
        .address = "What to connect to: the sink's address (tcp://host:port or rdma://host:port on "
                   "another host), or "
                   "v4l2:///dev/videoN for a capture card, or target:NAME for a ring that a "
                   "third-party writer fills (an SDI card)",
        .device =
            "Where frames arrive: auto (the GPU if downstream prefers CUDA memory, or accepts it "
            "and the sender's frames are on that GPU; otherwise the host), host, opencl:N, cuda:N, "
            "hip:N or vulkan:N",
        .slots = "Frames that may be in flight or held at once (unless set, sound and data have up "
                 "to 60)",
        .slow_receiver = "What happens when this element does not keep up; block works only with a "
                         "sender that blocks itself",
        .slow_receiver_when = (GParamFlags)GST_PARAM_MUTABLE_READY,
        .address_when = (GParamFlags)GST_PARAM_MUTABLE_PLAYING,
        .require_direct = "Fail rather than receive, or capture, by a copy through host memory",
        .access = "Senders whose pictures are accepted, besides root's: user (this user's only), "
                  "group:NAME (and those of that group's members) or all",
        .psk_file =
            "Between hosts: a file with the sender's key, readable by its owner only; unset or "
            "empty: no key",
        .active_path = "The current route, or none",
        .stats = "Frames, drops, copies, waits, the sender's clock and latency (ns), and how the "
                 "connection is encrypted",
    };
    GObjectClass *klass = G_OBJECT_CLASS(src_class);

    const GParamFlags playing =
        G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING;
    GParamSpec *const pspecs[] = {
        [OPTION_IO_MODE] =
            g_param_spec_enum("io-mode", "I/O mode",
                              "How a capture card's buffers are accessed; only auto has a fallback",
                              enum_type("GstGpudirectIOMode", io_mode_values), IO_MODE_AUTO,
                              G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY),
        [PROP_INPUT] = g_param_spec_string(
            "input", "Input",
            "A capture card's input, by number or name; a change while it captures "
            "is a change of signal (unset or empty: the current input)",
            NULL, playing),
        [PROP_EXTRA_CONTROLS] =
            g_param_spec_boxed("extra-controls", "Extra controls",
                               "A capture card's controls, by name, as in v4l2src: "
                               "c,brightness=10,exposure_auto=1; menu items also by name",
                               GST_TYPE_STRUCTURE, playing),
        [PROP_SIGNAL] = g_param_spec_boolean(
            "signal", "Signal",
            "Whether pictures arrive: false before the first one, and while the "
            "sender is gone or sends nothing for half a second (or three frames)",
            FALSE, G_PARAM_READABLE | G_PARAM_STATIC_STRINGS),
    };

    endpoint_class_init(src_class, &texts);
    src_options_install(klass);
    fields_install(klass, pspecs, G_N_ELEMENTS(pspecs));
}

static void src_finalize(GObject *object)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(object);

    g_mutex_clear(&self->feed.lock);
    g_cond_clear(&self->feed.flushed);
    g_free(self->feed.device);
    times_finish(&self->times);
    settings_clear(&self->kept.settings);
    g_free(self->card.input);
    g_clear_pointer(&self->card.controls, gst_structure_free);
    endpoint_clear(&self->endpoint);
    g_ptr_array_unref(self->sticky_names);
    gate_unref(self->gate);
    gate_unref(self->arrived);
    G_OBJECT_CLASS(gst_gpudirect_src_parent_class)->finalize(object);
}

static void gst_gpudirect_src_class_init(GstGpudirectSrcClass *klass)
{
    GObjectClass *object_class = G_OBJECT_CLASS(klass);
    GstElementClass *src_class = GST_ELEMENT_CLASS(klass);
    GstBaseSrcClass *base_class = GST_BASE_SRC_CLASS(klass);

    object_class->finalize = src_finalize;
    install_properties(src_class);
    g_signal_new_class_handler("switch", G_OBJECT_CLASS_TYPE(klass),
                               G_SIGNAL_RUN_LAST | G_SIGNAL_ACTION, G_CALLBACK(switch_preferred),
                               NULL, NULL, NULL, G_TYPE_NONE, 0);

    src_class->send_event = src_send_event;
    src_class->change_state = src_change_state;
    gst_element_class_set_static_metadata(
        src_class, "GPU-direct source", "Source/Video/Hardware",
        "Receives video, sound, tensors or other data directly in host or GPU memory",
        "gpudirect authors");

    base_class->start = src_start;
    base_class->stop = src_stop;
    base_class->unlock = src_unlock;
    base_class->unlock_stop = src_unlock_stop;
    base_class->event = src_event;
    base_class->query = src_query;
    base_class->is_seekable = src_is_seekable;
    gst_gpudirect_src_class_init_format(base_class);
    GST_PUSH_SRC_CLASS(klass)->create = gst_gpudirect_src_create;
}

/* Posts the stats before an EOS passes the pad. */
static GstPadProbeReturn see_event(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    g_autoptr(GstElement) element = gst_pad_get_parent_element(pad);

    if (element && GST_EVENT_TYPE(GST_PAD_PROBE_INFO_EVENT(info)) == GST_EVENT_EOS)
        endpoint_post_stats(user);
    return GST_PAD_PROBE_OK;
}

static void gst_gpudirect_src_init(GstGpudirectSrc *self)
{
    GstBaseSrc *base = GST_BASE_SRC(self);

    endpoint_init(&self->endpoint, GST_ELEMENT(self), GST_BASE_SRC_PAD(self),
                  gst_gpudirect_src_debug, &endpoint_ops);
    gst_pad_add_probe(GST_BASE_SRC_PAD(self), GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, see_event,
                      &self->endpoint, NULL);
    src_options_init(&self->options);
    self->feed.open_input = open_input;
    self->feed.user = self;
    g_mutex_init(&self->feed.lock);
    g_cond_init(&self->feed.flushed);
    g_queue_init(&self->updates.events);
    times_init(&self->times, &self->endpoint);
    self->latency.element = GST_ELEMENT(self);
    self->latency.options = &self->options;
    self->latency.interval = GST_CLOCK_TIME_NONE;
    self->pictures.src = base;
    self->pictures.counters = self->endpoint.counters;
    self->sticky_names = g_ptr_array_new();
    gst_base_src_set_live(base, TRUE);
    gst_base_src_set_format(base, GST_FORMAT_TIME);
    gst_base_src_set_do_timestamp(base, FALSE);
}

/* === debug =================================================================================== */

GST_DEBUG_CATEGORY(gst_gpudirect_src_debug);
