/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where to look for channels, and asking them. */
#ifndef GPUD_TOOLS_INFO_DIRECTORIES_H
#define GPUD_TOOLS_INFO_DIRECTORIES_H

#include <gpudirect/channel.h>

#include <glib.h>

struct info_channels_options {
    bool json, watch;    /* watch: every second until Ctrl-C */
    bool all_users;      /* root only */
    const char *address; /* NULL: not a single one */
    const char *folder;  /* absolute; NULL: the runtime directory */
};

/* Returns struct gpud_channel_list, one for each folder, this user's first; leaves out another
 * user's folder that cannot be read. NULL: *error says why. To be freed with
 * g_ptr_array_unref(). */
GPtrArray *info_ask_channels(const struct info_channels_options *options, struct gpud_error *error);

/* What a list covers. */
static inline struct gpud_channel_search_info info_search_of(const struct gpud_channel_list *list)
{
    struct gpud_channel_search_info search = GPUD_INFO_INIT(search);
    gpud_channel_list_get_search(list, &search);
    return search;
}

#endif
