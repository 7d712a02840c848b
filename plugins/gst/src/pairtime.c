/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "src/pairtime.h"

#include <string.h>

#define NETWORK "rdma://"

struct pair_clock pair_clock_of(const struct wire_head *head)
{
    return (struct pair_clock){
        .known = TRUE, .live = head->live, .monotonic = head->monotonic, .name = head->clock};
}

static gboolean has_clock(const struct pair_clock *clock)
{
    return clock->monotonic || clock->name;
}

enum pair_match pair_match_of(const struct pair_clock *main, const struct pair_clock *backup,
                              gboolean same_host)
{
    if (!main->known && !backup->known)
        return PAIR_MATCH_NONE;
    /* The other one will probably be alike. */
    const struct pair_clock *a = main->known ? main : backup;
    const struct pair_clock *b = backup->known ? backup : main;
    if ((!a->live && !b->live) || (!has_clock(a) && !has_clock(b)))
        return PAIR_MATCH_PTS;
    if (a->name && a->name == b->name)
        return PAIR_MATCH_CLOCK;
    if (a->monotonic && b->monotonic && (a == b || same_host))
        return PAIR_MATCH_MONOTONIC;
    return PAIR_MATCH_APART;
}

gboolean pair_addresses_share_host(const gchar *main, const gchar *backup)
{
    gboolean network = g_str_has_prefix(main, NETWORK);

    if (network != g_str_has_prefix(backup, NETWORK))
        return FALSE;
    if (!network)
        return TRUE;
    /* Up to the port and the channel's name. */
    const gchar *end = strrchr(main + strlen(NETWORK), ':');
    gsize length = end ? (gsize)(end - main) + 1 : strlen(main);
    return strncmp(main, backup, length) == 0;
}

const gchar *pair_match_text(enum pair_match match)
{
    static const gchar *const texts[] = {
        [PAIR_MATCH_NONE] = "none",           [PAIR_MATCH_CLOCK] = "clock",
        [PAIR_MATCH_MONOTONIC] = "monotonic", [PAIR_MATCH_PTS] = "pts",
        [PAIR_MATCH_APART] = "apart",
    };

    return texts[match];
}
