/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "src/options.h"

/* Sinks add 20 ms of their own, and the time in transit is measured; nothing else is needed. */
#define DEFAULT_PROCESSING_DEADLINE 0
#define DEFAULT_BUSY_POLL 250
#define LATENCY_AUTO (-1)
#define DEFAULT_GROUP_LATENCY (40 * GST_MSECOND)

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
