/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Who the two ends of a link may belong to, as the application says it: on one host users, for whom
 * the kernel vouches, between hosts whoever has a key. */
#ifndef GPUD_WIRE_ACCESS_H
#define GPUD_WIRE_ACCESS_H

#include "base/error.h"
#include <sys/types.h>

enum gpud_access_kind {
    GPUD_ACCESS_USER, /* this process's own user, and root */
    GPUD_ACCESS_GROUP,
    GPUD_ACCESS_ALL,
};

struct gpud_access_rule {
    enum gpud_access_kind kind;
    gid_t group;
    char group_name[64];
    char key_file[256]; /* "": no key */
    bool
        allow_unauthenticated; /* who listens on more than this host's own addresses needs no key */
};

/* What is asked for an address over a network, or for one of this host: each has its own ways. */
enum gpud_status gpud_access_check(const struct gpud_access_rule *access, bool network,
                                   struct gpud_error *error);

/* NULL: none. */
enum gpud_status gpud_access_set_key(struct gpud_access_rule *access, const char *key_file,
                                     struct gpud_error *error);

/* "user" (also NULL), "group:NAME" (or a number), "all". */
enum gpud_status gpud_access_parse(const char *text, struct gpud_access_rule *access,
                                   struct gpud_error *error);

#endif
