/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Channels: which there are, what they answer, and how that is said; for gpudirect-info and
 * gpudirect-monitor. */
#ifndef GPUD_TOOLS_CHANNELS_CHANNELS_H
#define GPUD_TOOLS_CHANNELS_CHANNELS_H

#include <glib.h>
#include <gpudirect/channel.h>
#include <json-glib/json-glib.h>
#include <stdbool.h>

/* === waiting ================================================================================= */
/* Receivers that wait for a sender, by the notes that they leave (core/wire/wire.h describes
 * them). */

struct channels_waiter {
    char *address; /* as a sender's in a list of channels */
    char *name;    /* of the receiver */
    gint64 pid;    /* 0: of another container */
    gint64 since;  /* as g_get_real_time() */
};

/* === ask ===================================================================================== */
/* Where to look for channels, and asking them. */

/* Which channels: one of the three, or, without any, this user's. */
struct channels_scope {
    bool all_users;       /* root only; with those of services, in /run/gpudirect-… */
    const char *address;  /* NULL: not a single one */
    char *const *folders; /* absolute, up to a NULL; NULL: the runtime directory */

    /* Addresses to be asked as well, up to a NULL; NULL: none. What cannot be asked is a folder
     * without channels, whose note says why. */
    char *const *more;
    bool tolerant; /* the same for a folder that cannot be searched: it may come back */
};

/* The channels of one folder. */
struct channels_folder {
    struct gpud_channel_list *channels;
    struct gpud_channel_info *channel; /* those of the list */
    uint32_t count;
    struct gpud_channel_search_info search;
    GPtrArray *waiting; /* struct channels_waiter: receivers without a sender */
};

/* The folders of --directory as a scope has them. NULL: *error says which one is not there. To be
 * freed with g_strfreev(). */
char **channels_resolve_folders(char *const *given, struct gpud_error *error);

/* Returns struct channels_folder, this user's first; leaves out another user's that cannot be read.
 * NULL: *error says why. To be freed with g_ptr_array_unref(). */
GPtrArray *channels_ask(const struct channels_scope *scope, struct gpud_error *error);

/* Returns struct gpud_channel_info of all folders, each address once: a channel may be found by its
 * folder and be asked for by name. Valid as long as the folders. To be freed with
 * g_ptr_array_unref(). */
GPtrArray *channels_collect(const GPtrArray *folders);

/* Returns struct channels_waiter of all folders, each receiver once; likewise. */
GPtrArray *channels_collect_waiting(const GPtrArray *folders);

/* How a sender that is in no list any more has ended. By what it left: at an orderly end it removes
 * its socket, and a killed one cannot. */
enum channels_end {
    CHANNELS_END_UNKNOWN, /* of another host, or the folder is gone with it */
    CHANNELS_END_ORDERLY,
    CHANNELS_END_DEATH,
};

enum channels_end channels_find_end(const GPtrArray *folders, const char *address);

/* === json ==================================================================================== */
/* The channels as JSON, and the words for their states. */

/* folders: from channels_ask(); pretty: indented, on several lines */
void channels_print_json(const GPtrArray *folders, bool pretty);

/* What is to be changed so that the link gets a better route, as JSON and metrics have it; "":
 * nothing. */
const char *channels_degraded_name(enum gpud_degraded degraded);

/* Members of the object that the builder is in. A sender that does not answer has none after the
 * reason. */
void channels_put_channel(JsonBuilder *builder, const struct gpud_channel_info *info);
void channels_put_receiver(JsonBuilder *builder, const struct gpud_link_info *link);

/* Adds an array "waiting" of struct channels_waiter. */
void channels_put_waiting(JsonBuilder *builder, const GPtrArray *waiters);

/* === metrics ================================================================================= */
/* Channels and receivers as metrics: for the textfile collector of Prometheus' node_exporter, and
 * for Prometheus itself. */

#define METRICS_TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_OPENMETRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* A channel as the metrics have it. */
struct metrics_channel {
    struct gpud_channel_info info; /* where there is no sender, the address alone */
    bool is_there;
    bool expected;        /* a monitor's list has it */
    const char *gone_how; /* "died", "ended", "unknown"; "never": it was never there; NULL: else */
    double gone_s;        /* seconds since then */
    guint waiting;        /* receivers without a sender */
    /* For how many seconds its content has been so; NAN: unknown. */
    double frozen_s, black_s, silent_s;
};

/* folders: from channels_ask(); NULL: none. Returns struct metrics_channel: those that are there,
 * and those that receivers wait for. Valid as long as the folders. To be freed with
 * g_ptr_array_unref(). */
GPtrArray *metrics_collect(const GPtrArray *folders);

/* The entry of an address, added if it is missing. */
struct metrics_channel *metrics_find(GPtrArray *channels, const char *address);

/* openmetrics: OpenMetrics 1.0; else the text format 0.0.4, the only one that the textfile
 * collector and `promtool check metrics` read. Names and values are alike. */
GString *metrics_format(const GPtrArray *channels, bool openmetrics);

#endif
