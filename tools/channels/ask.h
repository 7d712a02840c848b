/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where to look for channels, and asking them. */
#ifndef GPUD_TOOLS_CHANNELS_ASK_H
#define GPUD_TOOLS_CHANNELS_ASK_H

#include <gpudirect/channel.h>

#include <glib.h>

/* Which channels: one of the three, or, without any, this user's. */
struct channels_scope {
    bool all_users;      /* root only */
    const char *address; /* NULL: not a single one */
    const char *folder;  /* absolute; NULL: the runtime directory */

    /* Addresses to be asked as well, up to a NULL; NULL: none. What cannot be asked is a folder
     * without channels, whose note says why. */
    char *const *more;
};

/* The channels of one folder. */
struct channels_folder {
    struct gpud_channel_list *channels;
    uint32_t count;
    struct gpud_channel_search_info search;
};

/* Returns struct channels_folder, this user's first; leaves out another user's that cannot be read.
 * NULL: *error says why. To be freed with g_ptr_array_unref(). */
GPtrArray *channels_ask(const struct channels_scope *scope, struct gpud_error *error);

/* Returns struct gpud_channel_info of all folders, each address once: a channel may be found by its
 * folder and be asked for by name. Valid as long as the folders. To be freed with
 * g_ptr_array_unref(). */
GPtrArray *channels_collect(const GPtrArray *folders);

#endif
