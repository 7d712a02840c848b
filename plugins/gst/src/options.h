/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The properties of gpudirectsrc alone, except those of capture cards. */
#ifndef GPUD_GST_SRC_OPTIONS_H
#define GPUD_GST_SRC_OPTIONS_H

#include "element/settings.h"
#include "src/iomode.h"

/* Ids of the properties. */
enum {
    OPTION_ON_DISCONNECT = SETTING_COUNT,
    OPTION_ON_EOS,
    OPTION_START,
    OPTION_CONNECTION_TIMEOUT,
    OPTION_PROCESSING_DEADLINE,
    OPTION_LATENCY,
    OPTION_BUSY_POLL,
    OPTION_ADD_REFERENCE_TIMESTAMP_META,
    OPTION_IO_MODE,
    OPTION_GROUP,
    OPTION_GROUP_LATENCY,
    OPTION_BACKUP_ADDRESS,
    OPTION_PREFERRED,
    OPTION_FREEZE_TIMEOUT,
    OPTION_MAX_FRAME_SIZE,
    OPTION_COUNT,
};

enum on_disconnect {
    ON_DISCONNECT_WAIT,
    ON_DISCONNECT_EOS,
    ON_DISCONNECT_ERROR,
    ON_DISCONNECT_FREEZE,
    ON_DISCONNECT_BLACK,
};
enum start { START_NEWEST, START_OLDEST };
enum preferred { PREFERRED_MAIN, PREFERRED_BACKUP };
enum on_eos { ON_EOS_EOS, ON_EOS_WAIT };

/* Under the object lock. Those read for each frame are also atomic. */
struct src_options {
    enum on_disconnect on_disconnect; /* atomic */
    enum on_eos on_eos;
    enum start start;
    guint connection_timeout; /* s */
    GstClockTime processing_deadline;
    gint latency;              /* ms, atomic; -1: it is measured */
    guint busy_poll;           /* µs; does not change while the element runs */
    gboolean adds_submit_time; /* atomic */
    enum io_mode io_mode;      /* does not change while the element runs */
    const gchar *group;        /* interned; NULL: none; does not change while the element runs */
    GstClockTime group_latency;
    const gchar *backup_address; /* interned; NULL: none; does not change while the element runs */
    gint preferred;              /* atomic: enum preferred */
    GstClockTime freeze_timeout; /* 0: none; does not change while the element runs */
    guint64 max_frame_size;      /* likewise; 0: by the picture */
};

void src_options_install(GObjectClass *klass);
void src_options_init(struct src_options *options);

/* FALSE: another property's id. Under the object lock. */
gboolean src_options_get(const struct src_options *options, guint id, GValue *value);
gboolean src_options_set(struct src_options *options, guint id, const GValue *value);

/* A copy of the current options. Takes the owner's object lock. */
struct src_options src_options_read(const struct src_options *options, gpointer owner);

/* Whether the element waits for the next sender when one is lost. */
gboolean src_options_wait_for_senders(const struct src_options *options);

static inline enum on_disconnect src_options_on_disconnect(const struct src_options *options)
{
    return (enum on_disconnect)g_atomic_int_get(&options->on_disconnect);
}

/* How long a picture may wait for others of its group; 0: no group. Under the object lock. */
static inline GstClockTime src_options_group_latency(const struct src_options *options)
{
    return options->group && options->group[0] ? options->group_latency : 0;
}

/* Under the object lock, or of a copy. */
static inline gboolean src_options_have_backup(const struct src_options *options)
{
    return options->backup_address && options->backup_address[0];
}

/* The user's latency in ns; 0: it is measured. */
static inline gint64 src_options_late_max(const struct src_options *options)
{
    return MAX(0, g_atomic_int_get(&options->latency)) * (gint64)GST_MSECOND;
}

#endif
