/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The application's rule for which peers are admitted: on one host users, as the kernel reports
 * them; between hosts peers that prove they have a key. */
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
    bool allow_unauthenticated; /* listening on addresses beyond loopback needs no key */
};

/* GPUD_INVALID: the rule does not fit the kind of address, a network's or this host's. */
enum gpud_status gpud_access_check(const struct gpud_access_rule *access, bool network,
                                   struct gpud_error *error);

/* key_file may be NULL: no key. */
enum gpud_status gpud_access_set_key(struct gpud_access_rule *access, const char *key_file,
                                     struct gpud_error *error);

/* "user" (also NULL), "group:NAME" (or a number), "all". */
enum gpud_status gpud_access_parse(const char *text, struct gpud_access_rule *access,
                                   struct gpud_error *error);

#endif
