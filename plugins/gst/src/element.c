/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc: the class, its properties, its states and what it reports. */
#include "src/src.h"

#include "base/plugin.h"
#include "memory/memory.h"
#include "wire/codec.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

/* === options ================================================================================= */
/* The properties of gpudirectsrc alone, except those of capture cards. */

/* Sinks add 20 ms of their own, and the time in transit is measured; nothing else is needed. */
#define DEFAULT_PROCESSING_DEADLINE 0
#define DEFAULT_BUSY_POLL 250
#define LATENCY_AUTO (-1)
#define DEFAULT_GROUP_LATENCY (40 * GST_MSECOND)

static GType gst_gpudirect_on_disconnect_get_type(void);

#define GST_TYPE_GPUDIRECT_ON_DISCONNECT (gst_gpudirect_on_disconnect_get_type())

static GType gst_gpudirect_on_disconnect_get_type(void)
{
    static const GEnumValue values[] = {
        {ON_DISCONNECT_WAIT, "Wait for the sender to come back", "wait"},
        {ON_DISCONNECT_EOS, "End the stream", "eos"},
        {ON_DISCONNECT_ERROR, "Post an error", "error"},
        {ON_DISCONNECT_FREEZE, "Wait, and show the last picture meanwhile", "freeze"},
        {ON_DISCONNECT_BLACK, "Wait, and show black meanwhile", "black"},
        {0, NULL, NULL},
    };
    static gsize type;

    if (g_once_init_enter(&type))
        g_once_init_leave(&type, g_enum_register_static("GstGpudirectOnDisconnect", values));
    return type;
}

static GType gst_gpudirect_on_eos_get_type(void);

#define GST_TYPE_GPUDIRECT_ON_EOS (gst_gpudirect_on_eos_get_type())

static GType gst_gpudirect_on_eos_get_type(void)
{
    static const GEnumValue values[] = {
        {ON_EOS_EOS, "End the stream", "eos"},
        {ON_EOS_WAIT, "Wait for the next stream, of this sender or of the next one", "wait"},
        {0, NULL, NULL},
    };
    static gsize type;

    if (g_once_init_enter(&type))
        g_once_init_leave(&type, g_enum_register_static("GstGpudirectOnEos", values));
    return type;
}

static GType gst_gpudirect_start_get_type(void);

#define GST_TYPE_GPUDIRECT_START (gst_gpudirect_start_get_type())

static GType gst_gpudirect_start_get_type(void)
{
    static const GEnumValue values[] = {
        {START_NEWEST, "With the newest frame of a sender that drops frames for slow receivers",
         "newest"},
        {START_OLDEST, "With the oldest frame that is still there", "oldest"},
        {0, NULL, NULL},
    };
    static gsize type;

    if (g_once_init_enter(&type))
        g_once_init_leave(&type, g_enum_register_static("GstGpudirectStart", values));
    return type;
}

static GType gst_gpudirect_preferred_get_type(void);

#define GST_TYPE_GPUDIRECT_PREFERRED (gst_gpudirect_preferred_get_type())

static GType gst_gpudirect_preferred_get_type(void)
{
    static const GEnumValue values[] = {
        {PREFERRED_MAIN, "The sender at the address", "main"},
        {PREFERRED_BACKUP, "The sender at the backup address", "backup"},
        {0, NULL, NULL},
    };
    static gsize type;

    if (g_once_init_enter(&type))
        g_once_init_leave(&type, g_enum_register_static("GstGpudirectPreferred", values));
    return type;
}

void src_options_install(GObjectClass *klass)
{
    const GParamFlags playing =
        G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING;

    g_object_class_install_property(
        klass, OPTION_ON_DISCONNECT,
        g_param_spec_enum("on-disconnect", "On disconnect",
                          "What to do when the sender vanishes, or the card is unplugged; freeze "
                          "and black also apply if it sends nothing for half a second, or three "
                          "frames if that is longer (freeze keeps one slot)",
                          GST_TYPE_GPUDIRECT_ON_DISCONNECT, ON_DISCONNECT_WAIT, playing));
    g_object_class_install_property(
        klass, OPTION_ON_EOS,
        g_param_spec_enum("on-eos", "On EOS",
                          "What to do when the sender ends its stream (wait: continue with the "
                          "next stream, of this sender or of another)",
                          GST_TYPE_GPUDIRECT_ON_EOS, ON_EOS_EOS, playing));
    g_object_class_install_property(
        klass, OPTION_START,
        g_param_spec_enum("start", "Start",
                          "Which waiting frame is the first after connecting and after a pause; "
                          "older ones count as dropped",
                          GST_TYPE_GPUDIRECT_START, START_NEWEST, playing));
    g_object_class_install_property(
        klass, OPTION_CONNECTION_TIMEOUT,
        g_param_spec_uint("connection-timeout", "Connection timeout",
                          "Seconds without a sender until an error is posted (0 = wait for ever)",
                          0, G_MAXINT, 0, playing));
    g_object_class_install_property(
        klass, OPTION_PROCESSING_DEADLINE,
        g_param_spec_uint64(
            "processing-deadline", "Processing deadline",
            "Time, in nanoseconds, that downstream needs for a buffer in addition to what its "
            "sink asks for",
            0, G_MAXUINT64, DEFAULT_PROCESSING_DEADLINE, playing));
    g_object_class_install_property(
        klass, OPTION_BUSY_POLL,
        g_param_spec_uint("busy-poll", "Busy poll",
                          "The longest busy wait, in microseconds, for a picture that is due, "
                          "which saves waking the thread (0 = always sleep)",
                          0, G_USEC_PER_SEC, DEFAULT_BUSY_POLL,
                          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY));
    g_object_class_install_property(
        klass, OPTION_ADD_REFERENCE_TIMESTAMP_META,
        g_param_spec_boolean("add-reference-timestamp-meta", "Add reference timestamp meta",
                             "Adds to each buffer, behind its other reference timestamps, the time "
                             "of its submission on this host or of its capture by a card, both by "
                             "CLOCK_MONOTONIC: timestamp/x-gpudirect-submit, -capture",
                             FALSE, playing));
    g_object_class_install_property(
        klass, OPTION_LATENCY,
        g_param_spec_int("latency", "Latency",
                         "Fixed latency to report, in milliseconds, as in rtpjitterbuffer "
                         "(-1 = the measured latency, up to a second and to what the ring holds)",
                         LATENCY_AUTO, 3600 * 1000, LATENCY_AUTO,
                         G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING));
    g_object_class_install_property(
        klass, OPTION_GROUP,
        g_param_spec_string("group", "Group",
                            "The sources of this process with the same name here pass on pictures "
                            "of the same instant only; others are dropped",
                            NULL,
                            G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY));
    g_object_class_install_property(
        klass, OPTION_GROUP_LATENCY,
        g_param_spec_uint64("group-latency", "Group latency",
                            "How long a picture may wait for those of the group's other sources, "
                            "in nanoseconds; then it goes without them. The ring (slots) has to "
                            "hold pictures that long",
                            0, 3600 * GST_SECOND, DEFAULT_GROUP_LATENCY, playing));
    g_object_class_install_property(
        klass, OPTION_BACKUP_ADDRESS,
        g_param_spec_string("backup-address", "Backup address",
                            "The address of a second sender of the same programme: both are "
                            "received, and each picture is passed on once, from either",
                            NULL,
                            G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY));
    g_object_class_install_property(
        klass, OPTION_PREFERRED,
        g_param_spec_enum("preferred", "Preferred",
                          "With a backup-address: the sender that is taken if its pictures are in "
                          "time; the signal `switch` changes it",
                          GST_TYPE_GPUDIRECT_PREFERRED, PREFERRED_MAIN, playing));
    g_object_class_install_property(
        klass, OPTION_FREEZE_TIMEOUT,
        g_param_spec_uint64("freeze-timeout", "Freeze timeout",
                            "With a backup-address, on the host: a sender whose picture stands "
                            "still for so many nanoseconds gives way to the other one, if that "
                            "one's moves (0 = never)",
                            0, 3600 * GST_SECOND, 0,
                            G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY));
    g_object_class_install_property(
        klass, OPTION_MAX_FRAME_SIZE,
        g_param_spec_uint64("max-frame-size", "Maximum frame size",
                            "The largest frame that is taken, in bytes; a sender with larger ones "
                            "is refused (0 = sound and data of any size, and pictures of about "
                            "twice the bytes of their rows)",
                            0, G_MAXUINT64, 0,
                            G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY));
    gst_type_mark_as_plugin_api(GST_TYPE_GPUDIRECT_PREFERRED, 0);
    gst_type_mark_as_plugin_api(GST_TYPE_GPUDIRECT_ON_DISCONNECT, 0);
    gst_type_mark_as_plugin_api(GST_TYPE_GPUDIRECT_ON_EOS, 0);
    gst_type_mark_as_plugin_api(GST_TYPE_GPUDIRECT_START, 0);
}

void src_options_init(struct src_options *options)
{
    options->on_disconnect = ON_DISCONNECT_WAIT;
    options->processing_deadline = DEFAULT_PROCESSING_DEADLINE;
    options->latency = LATENCY_AUTO;
    options->busy_poll = DEFAULT_BUSY_POLL;
    options->group_latency = DEFAULT_GROUP_LATENCY;
}

gboolean src_options_get(const struct src_options *options, guint id, GValue *value)
{
    switch (id) {
    case OPTION_ON_DISCONNECT:
        g_value_set_enum(value, options->on_disconnect);
        return TRUE;
    case OPTION_ON_EOS:
        g_value_set_enum(value, options->on_eos);
        return TRUE;
    case OPTION_START:
        g_value_set_enum(value, options->start);
        return TRUE;
    case OPTION_CONNECTION_TIMEOUT:
        g_value_set_uint(value, options->connection_timeout);
        return TRUE;
    case OPTION_PROCESSING_DEADLINE:
        g_value_set_uint64(value, options->processing_deadline);
        return TRUE;
    case OPTION_LATENCY:
        g_value_set_int(value, options->latency);
        return TRUE;
    case OPTION_BUSY_POLL:
        g_value_set_uint(value, options->busy_poll);
        return TRUE;
    case OPTION_ADD_REFERENCE_TIMESTAMP_META:
        g_value_set_boolean(value, options->adds_submit_time);
        return TRUE;
    case OPTION_IO_MODE:
        g_value_set_enum(value, options->io_mode);
        return TRUE;
    case OPTION_GROUP:
        g_value_set_string(value, options->group);
        return TRUE;
    case OPTION_GROUP_LATENCY:
        g_value_set_uint64(value, options->group_latency);
        return TRUE;
    case OPTION_BACKUP_ADDRESS:
        g_value_set_string(value, options->backup_address);
        return TRUE;
    case OPTION_PREFERRED:
        g_value_set_enum(value, g_atomic_int_get(&options->preferred));
        return TRUE;
    case OPTION_FREEZE_TIMEOUT:
        g_value_set_uint64(value, options->freeze_timeout);
        return TRUE;
    case OPTION_MAX_FRAME_SIZE:
        g_value_set_uint64(value, options->max_frame_size);
        return TRUE;
    default:
        return FALSE;
    }
}

gboolean src_options_set(struct src_options *options, guint id, const GValue *value)
{
    switch (id) {
    case OPTION_ON_DISCONNECT:
        g_atomic_int_set(&options->on_disconnect, g_value_get_enum(value));
        return TRUE;
    case OPTION_ON_EOS:
        options->on_eos = (enum on_eos)g_value_get_enum(value);
        return TRUE;
    case OPTION_START:
        options->start = (enum start)g_value_get_enum(value);
        return TRUE;
    case OPTION_CONNECTION_TIMEOUT:
        options->connection_timeout = g_value_get_uint(value);
        return TRUE;
    case OPTION_PROCESSING_DEADLINE:
        options->processing_deadline = g_value_get_uint64(value);
        return TRUE;
    case OPTION_LATENCY:
        g_atomic_int_set(&options->latency, g_value_get_int(value));
        return TRUE;
    case OPTION_BUSY_POLL:
        options->busy_poll = g_value_get_uint(value);
        return TRUE;
    case OPTION_ADD_REFERENCE_TIMESTAMP_META:
        g_atomic_int_set(&options->adds_submit_time, g_value_get_boolean(value));
        return TRUE;
    case OPTION_IO_MODE:
        options->io_mode = (enum io_mode)g_value_get_enum(value);
        return TRUE;
    case OPTION_GROUP:
        options->group = g_intern_string(g_value_get_string(value));
        return TRUE;
    case OPTION_GROUP_LATENCY:
        options->group_latency = g_value_get_uint64(value);
        return TRUE;
    case OPTION_BACKUP_ADDRESS:
        options->backup_address = g_intern_string(g_value_get_string(value));
        return TRUE;
    case OPTION_PREFERRED:
        g_atomic_int_set(&options->preferred, g_value_get_enum(value));
        return TRUE;
    case OPTION_FREEZE_TIMEOUT:
        options->freeze_timeout = g_value_get_uint64(value);
        return TRUE;
    case OPTION_MAX_FRAME_SIZE:
        options->max_frame_size = g_value_get_uint64(value);
        return TRUE;
    default:
        return FALSE;
    }
}

struct src_options src_options_read(const struct src_options *options, gpointer owner)
{
    GST_OBJECT_LOCK(owner);
    struct src_options copy = *options;
    GST_OBJECT_UNLOCK(owner);
    return copy;
}

gboolean src_options_wait_for_senders(const struct src_options *options)
{
    enum on_disconnect mode = src_options_on_disconnect(options);

    return mode != ON_DISCONNECT_EOS && mode != ON_DISCONNECT_ERROR;
}

/* === kept ==================================================================================== */
/* A capture card is opened in READY, where its formats are queried, and stays open until NULL. The
 * properties that it was opened with are kept, to reopen it when they have changed. */

gboolean kept_card_is_card(const struct settings *settings)
{
    return settings->address && settings->address[0] &&
           input_ops_for(settings->address)->kind == INPUT_CARD;
}

void kept_card_note(struct kept_card *kept, const struct settings *settings, enum io_mode io_mode)
{
    settings_copy(&kept->settings, settings);
    kept->io_mode = io_mode;
}

void kept_card_clear(struct kept_card *kept)
{
    settings_clear(&kept->settings);
}

gboolean kept_card_serves(const struct kept_card *kept, const struct settings *settings,
                          enum io_mode io_mode)
{
    const struct settings *then = &kept->settings;

    return kept_card_is_card(settings) && g_strcmp0(settings->address, then->address) == 0 &&
           g_strcmp0(settings->device, then->device) == 0 && settings->slots == then->slots &&
           settings->require_direct == then->require_direct && io_mode == kept->io_mode;
}

/* === open ==================================================================================== */
/* Opens gpudirectsrc's input according to the properties, and closes it. */

static const struct input_ops *ops_for(const GstGpudirectSrc *self,
                                       const struct src_options *options)
{
    const struct input_ops *ops = input_ops_for(self->endpoint.running.address);

    return ops == &link_input_ops && src_options_have_backup(options) ? &pair_input_ops : ops;
}

static enum gpud_status check_backup(const struct input_params *params, const struct input_ops *ops,
                                     struct gpud_error *error)
{
    const gchar *backup = params->backup_address ? params->backup_address : "", *why = NULL;

    if (!backup[0] && params->freeze_timeout == 0)
        return GPUD_OK;
    if (!backup[0])
        why = "freeze-timeout needs a second sender: set backup-address to its address";
    else if (ops != &pair_input_ops || input_ops_for(backup) != &link_input_ops)
        why = "address and backup-address are both to be senders', names such as cam1 and cam1b";
    else if (g_str_equal(params->address, backup))
        why = "backup-address is the same as address: set it to that of a second sender";
    if (!why)
        return GPUD_OK;
    *error = (struct gpud_error){.status = GPUD_INVALID};
    g_strlcpy(error->reason, why, sizeof(error->reason));
    return GPUD_INVALID;
}

static void warn(void *user, const gchar *text)
{
    GstGpudirectSrc *self = user;

    GST_ELEMENT_WARNING(self, CORE, CLOCK, ("%s", text), (NULL));
}

enum gpud_status gst_gpudirect_src_open_input(void *user, const gchar *device, struct input **input,
                                              struct gpud_error *error)
{
    GstGpudirectSrc *self = user;
    struct src_options options = src_options_read(&self->options, self);
    const struct input_ops *ops = ops_for(self, &options);

    GST_OBJECT_LOCK(self);
    gchar *card_input = g_strdup(self->card.input);
    GstStructure *controls = self->card.controls ? gst_structure_copy(self->card.controls) : NULL;
    g_atomic_int_set(&self->card.input_changed, FALSE);
    GST_OBJECT_UNLOCK(self);
    g_autofree gchar *name = endpoint_find_pipeline_name(GST_ELEMENT(self));
    struct input_params params = {
        .address = self->endpoint.running.address,
        .device = device,
        .name = name,
        .backup_address = options.backup_address,
        .freeze_timeout = options.freeze_timeout,
        .preferred = &self->options.preferred,
        .access = self->endpoint.running.access,
        .psk_file = self->endpoint.running.psk_file,
        .slots = self->endpoint.running.slots,
        .slots_set = self->endpoint.running.slots_set,
        .slow_receiver = self->endpoint.running.slow_receiver,
        .require_direct = self->endpoint.running.require_direct,
        .method = io_mode_method(options.io_mode),
        .max_frame_size = options.max_frame_size,
        .busy_poll = options.busy_poll,
        .card_input = card_input,
        .card_controls = controls,
        .on_event = gst_gpudirect_src_on_event,
        .on_notice = warn,
        .user = self,
    };

    enum gpud_status status = check_backup(&params, ops, error);
    if (status == GPUD_OK)
        status = ops->open(&params, input, error);
    g_free(card_input);
    g_clear_pointer(&controls, gst_structure_free);
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
    link_state_reset(&self->link);
    src_signal_forget(&self->signal);
    times_reset(&self->times, card);
    latency_reset(&self->latency, self->endpoint.running.slots, card);
    self->discont = TRUE;
    self->loss_reported = FALSE;
    self->returned_at = self->blocked_longest = 0;
    g_atomic_int_set(&self->sender_live, -1);
    self->dropped = self->frames = self->skipped_unreported = 0;
}

/* Opens the input, on a device by the properties. FALSE: an error was posted. */
static gboolean gst_gpudirect_src_open(GstGpudirectSrc *self)
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
    gchar *what = g_strdup_printf("Cannot receive from %s at \"%s\"", ops->what, address);
    gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_OPEN_SOURCE, &error, what);
    g_free(what);
    return FALSE;
}

void gst_gpudirect_src_close(GstGpudirectSrc *self)
{
    reset_stream(self);
    feed_close(&self->feed);
}

gboolean gst_gpudirect_src_open_card(GstGpudirectSrc *self)
{
    const struct settings *settings = &self->endpoint.settings;

    GST_OBJECT_LOCK(self);
    kept_card_note(&self->kept, settings, self->options.io_mode);
    gboolean card = kept_card_is_card(settings);
    if (card)
        settings_copy(&self->endpoint.running, settings);
    GST_OBJECT_UNLOCK(self);
    return !card || (settings_check(GST_ELEMENT(self), &self->endpoint.running) &&
                     gst_gpudirect_src_open(self));
}

static gboolean restart_card(GstGpudirectSrc *self)
{
    struct gpud_error error;

    /* Downstream may have changed its device since READY. */
    gchar *device = choose_device(self, self->feed.input->ops);
    gboolean same = g_strcmp0(device, self->feed.device) == 0;
    g_free(device);
    if (!same) {
        gst_gpudirect_src_close(self);
        return gst_gpudirect_src_open(self);
    }
    reset_stream(self);
    feed_count_anew(&self->feed);
    if (self->feed.input->ops->wait(self->feed.input, 0, &error) == GPUD_OK)
        return TRUE;
    gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_OPEN_SOURCE, &error,
                        "The capture card is gone");
    return FALSE;
}

gboolean gst_gpudirect_src_start_input(GstGpudirectSrc *self, gboolean kept)
{
    return kept ? restart_card(self) : gst_gpudirect_src_open(self);
}

void gst_gpudirect_src_stop_input(GstGpudirectSrc *self)
{
    if (!self->feed.input || self->feed.input->ops->kind != INPUT_CARD) {
        gst_gpudirect_src_close(self);
        return;
    }
    self->feed.input->ops->stop(self->feed.input);
    reset_stream(self);
}

/* === stats =================================================================================== */
/* The property "stats" of gpudirectsrc. */

static enum dmabuf_use dmabuf_use(GstGpudirectSrc *self)
{
    return (enum dmabuf_use)g_atomic_int_get(&self->pictures.dmabuf_use);
}

static void stats_add_reason(struct endpoint_route *route, const gchar *reason)
{
    gsize room = sizeof(route->fallback_reason);

    if (route->fallback_reason[0])
        g_strlcat(route->fallback_reason, "; ", room);
    g_strlcat(route->fallback_reason, reason, room);
}

/* Methods of the endpoint, callable from any thread. */
static void gst_gpudirect_src_get_route(GstElement *element, struct endpoint_route *route)
{
    struct input_info info;

    feed_get_info(&GST_GPUDIRECT_SRC(element)->feed, &info);
    g_strlcpy(route->path, info.path, sizeof(route->path));
    g_strlcpy(route->fallback_reason, info.fallback_reason, sizeof(route->fallback_reason));
    if (dmabuf_use(GST_GPUDIRECT_SRC(element)) == DMABUFS_COPIES)
        stats_add_reason(
            route, "the ring's memory has no dma-bufs, so the CPU copies pictures into others");
    else if (g_atomic_int_get(&GST_GPUDIRECT_SRC(element)->pictures.fills_files))
        stats_add_reason(
            route, "the elements downstream share files, so the CPU copies pictures into theirs");
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
static void stats_add_latency(GstGpudirectSrc *self, enum clock_relation relation,
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

static GstStructure *gst_gpudirect_src_make_stats(GstElement *element)
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
    stats_add_latency(self, relation, &info, stats);
    add_group(self, stats);
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
                        G_IMPLEMENT_INTERFACE(GST_TYPE_URI_HANDLER, uri_handler_init_source))

GST_ELEMENT_REGISTER_DEFINE(gpudirectsrc, "gpudirectsrc", GST_RANK_NONE, GST_TYPE_GPUDIRECT_SRC)

enum {
    PROP_INPUT = OPTION_COUNT,
    PROP_EXTRA_CONTROLS,
    PROP_SIGNAL = ENDPOINT_REPORT,
};

/* --- signals ------------------------------------------------------------------------------ */

/**
 * GstGpudirectSrc::switch:
 *
 * An action: the other one of the two senders is preferred from now on. */
static void switch_preferred(GstGpudirectSrc *self)
{
    g_atomic_int_xor((guint *)&self->options.preferred, PREFERRED_MAIN ^ PREFERRED_BACKUP);
    g_object_notify(G_OBJECT(self), "preferred");
}

static void install_signals(GObjectClass *klass)
{
    g_signal_new_class_handler("switch", G_OBJECT_CLASS_TYPE(klass),
                               G_SIGNAL_RUN_LAST | G_SIGNAL_ACTION, G_CALLBACK(switch_preferred),
                               NULL, NULL, NULL, G_TYPE_NONE, 0);
}

/* --- properties --------------------------------------------------------------------------- */

/* Returns the card's own name for its input, if it has one. */
static void get_input(GstGpudirectSrc *self, GValue *value)
{
    struct input_info info;

    feed_get_info(&self->feed, &info);
    GST_OBJECT_LOCK(self);
    g_value_set_string(value, info.card_input[0] ? info.card_input : self->card.input);
    GST_OBJECT_UNLOCK(self);
}

static gboolean src_get_report(GstElement *element, guint id, GValue *value)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(element);

    if (id == PROP_INPUT)
        get_input(self, value);
    else if (id == PROP_SIGNAL)
        g_value_set_boolean(value, g_atomic_int_get(&self->signal.present));
    else
        return FALSE;
    return TRUE;
}

static gboolean src_get_property(GstElement *element, guint id, GValue *value)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(element);

    if (id != PROP_EXTRA_CONTROLS)
        return src_options_get(&self->options, id, value);
    g_value_set_boxed(value, self->card.controls);
    return TRUE;
}

static gboolean src_set_property(GstElement *element, guint id, const GValue *value)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(element);

    if (id == PROP_INPUT)
        card_take_input(&self->card, value);
    else if (id == PROP_EXTRA_CONTROLS)
        card_take_controls(&self->card, value);
    else
        return src_options_set(&self->options, id, value);
    return TRUE;
}

static void property_changed(GstElement *element, guint id)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(element);

    if (id == OPTION_PROCESSING_DEADLINE || id == OPTION_LATENCY || id == OPTION_GROUP_LATENCY)
        gst_element_post_message(element, gst_message_new_latency(GST_OBJECT(self)));
    else if (id == PROP_EXTRA_CONTROLS)
        card_apply_controls(&self->card, &self->feed, element);
}

static const struct endpoint_ops endpoint_ops = {
    .get_report = src_get_report,
    .get_property = src_get_property,
    .set_property = src_set_property,
    .changed = property_changed,
    .get_route = gst_gpudirect_src_get_route,
    .make_stats = gst_gpudirect_src_make_stats,
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
        gst_gpudirect_src_close(self);
    if (!self->endpoint.running.address || !self->endpoint.running.address[0])
        GST_ELEMENT_ERROR(
            self, RESOURCE, NOT_FOUND,
            ("No address to receive from: set the property address, to the sink's or to "
             "v4l2:///dev/video0."),
            (NULL));
    else
        opened = settings_check(GST_ELEMENT(self), &self->endpoint.running) &&
                 gst_gpudirect_src_start_input(self, kept);
    if (!opened) {
        endpoint_stop(&self->endpoint);
        return FALSE;
    }
    const gchar *group = src_options_read(&self->options, self).group;
    feed_set_group(&self->feed, group && group[0] ? group : NULL, GST_ELEMENT(self));
    endpoint_note_stats(&self->endpoint);
    return TRUE;
}

static gboolean src_stop(GstBaseSrc *base)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(base);

    endpoint_post_stats(&self->endpoint);
    feed_set_group(&self->feed, NULL, NULL);
    /* Buffers held downstream keep the pool alive, and the pool their frames. */
    gst_gpudirect_src_stop_input(self);
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
    if (transition == GST_STATE_CHANGE_NULL_TO_READY && !gst_gpudirect_src_open_card(self))
        return GST_STATE_CHANGE_FAILURE;
    GstStateChangeReturn result =
        GST_ELEMENT_CLASS(gst_gpudirect_src_parent_class)->change_state(element, transition);
    if (transition == GST_STATE_CHANGE_READY_TO_NULL)
        gst_gpudirect_src_close(self);

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

static gboolean src_event(GstBaseSrc *base, GstEvent *event)
{
    GstClockTime latency;

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

static void install_properties(GstElementClass *src_class)
{
    static const struct setting_texts texts = {
        .pad = "src",
        .direction = GST_PAD_SRC,
        .address = "What to connect to: the sink's address (rdma://host:port on another host), or "
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
        .require_direct = "Fail rather than receive by a copy through host memory, a card's, too",
        .access = "Senders whose pictures are accepted, besides root's: user (this user's only), "
                  "group:NAME (and those of that group's members) or all",
        .psk_file = "Between hosts: a file with the sender's key, readable by its owner only",
        .active_path = "The current route, or none",
        .stats = "Frames, drops, copies, waits, the sender's clock and latency (ns)",
    };
    GObjectClass *klass = G_OBJECT_CLASS(src_class);

    endpoint_class_init(src_class, &texts);
    src_options_install(klass);
    io_mode_install(klass, OPTION_IO_MODE);
    card_install(klass, PROP_INPUT, PROP_EXTRA_CONTROLS);
    g_object_class_install_property(
        klass, PROP_SIGNAL,
        g_param_spec_boolean("signal", "Signal",
                             "Whether pictures arrive: false before the first one, and while the "
                             "sender is gone or sends nothing for half a second (or three frames)",
                             FALSE, G_PARAM_READABLE | G_PARAM_STATIC_STRINGS));
}

static void src_finalize(GObject *object)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(object);

    feed_finish(&self->feed);
    times_finish(&self->times);
    kept_card_clear(&self->kept);
    card_clear(&self->card);
    endpoint_clear(&self->endpoint);
    g_ptr_array_unref(self->sticky_names);
    G_OBJECT_CLASS(gst_gpudirect_src_parent_class)->finalize(object);
}

static void gst_gpudirect_src_class_init(GstGpudirectSrcClass *klass)
{
    GObjectClass *object_class = G_OBJECT_CLASS(klass);
    GstElementClass *src_class = GST_ELEMENT_CLASS(klass);
    GstBaseSrcClass *base_class = GST_BASE_SRC_CLASS(klass);

    object_class->finalize = src_finalize;
    install_properties(src_class);
    install_signals(object_class);

    src_class->send_event = src_send_event;
    src_class->change_state = src_change_state;
    gst_element_class_set_static_metadata(
        src_class, "GPU-direct source", "Source/Video/Hardware",
        "Receives raw video, sound or data straight in this process's or a device's memory",
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

static void gst_gpudirect_src_init(GstGpudirectSrc *self)
{
    GstBaseSrc *base = GST_BASE_SRC(self);

    endpoint_init(&self->endpoint, GST_ELEMENT(self), GST_BASE_SRC_PAD(self),
                  gst_gpudirect_src_debug, &endpoint_ops);
    endpoint_post_stats_at_eos(&self->endpoint);
    src_options_init(&self->options);
    feed_init(&self->feed, gst_gpudirect_src_open_input, self);
    g_queue_init(&self->updates.events);
    times_init(&self->times, &self->endpoint);
    latency_init(&self->latency, GST_ELEMENT(self), &self->options);
    self->pictures.src = base;
    self->pictures.counters = self->endpoint.counters;
    src_signal_init(&self->signal, GST_ELEMENT(self), &self->options, &self->pictures, &self->times,
                    &self->latency);
    self->sticky_names = g_ptr_array_new();
    gst_base_src_set_live(base, TRUE);
    gst_base_src_set_format(base, GST_FORMAT_TIME);
    gst_base_src_set_do_timestamp(base, FALSE);
}

/* === debug =================================================================================== */

GST_DEBUG_CATEGORY(gst_gpudirect_src_debug);
