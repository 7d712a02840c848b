/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where to look for channels, and asking them. */
#ifndef GPUD_TOOLS_CHANNELS_ASK_H
#define GPUD_TOOLS_CHANNELS_ASK_H

#include "channels/waiting.h"

#include <gpudirect/channel.h>

#include <glib.h>

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

#endif
