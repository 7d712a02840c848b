/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which users the two ends of a link may belong to, as the application says it. */
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
};

/* "user" (also NULL), "group:NAME" (or a number), "all". */
enum gpud_status gpud_access_parse(const char *text, struct gpud_access_rule *access,
                                   struct gpud_error *error);

#endif
