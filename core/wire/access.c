/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/access.h"

#include "base/text.h"

#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_MAX 4096 /* first buffer for a group's entry, which lists all its members */
#define ENTRY_MOST (1 << 20)

/* Returns 0 or an errno; ENOENT if there is no such group. */
static int find_group(const char *name, gid_t *group)
{
    int failed = ERANGE;
    for (size_t size = ENTRY_MAX; failed == ERANGE && size <= ENTRY_MOST; size *= 4) {
        char *buffer = malloc(size);
        struct group entry, *found = NULL;
        if (!buffer)
            return ENOMEM;
        failed = getgrnam_r(name, &entry, buffer, size, &found);
        if (failed == 0 && found)
            *group = found->gr_gid;
        else if (failed == 0)
            failed = ENOENT;
        free(buffer);
    }
    return failed;
}

enum gpud_status gpud_access_parse(const char *text, struct gpud_access_rule *access,
                                   struct gpud_error *error)
{
    struct gpud_access_rule made = {.kind = GPUD_ACCESS_USER};
    if (text && strcmp(text, "all") == 0) {
        made.kind = GPUD_ACCESS_ALL;
    } else if (text && strncmp(text, "group:", 6) == 0 && text[6]) {
        const char *name = text + 6;
        char *end;
        made.kind = GPUD_ACCESS_GROUP;
        gpud_print(made.group_name, "%s", name);
        gpud_text_clean(made.group_name, strlen(made.group_name));
        int failed = find_group(name, &made.group);
        errno = 0;
        unsigned long number = strtoul(name, &end, 10);
        if (failed && name[0] >= '0' && name[0] <= '9' && !*end && !errno && number < UINT32_MAX) {
            made.group = (gid_t)number;
            failed = 0;
        }
        if (failed)
            return gpud_fail(error, GPUD_INVALID,
                             "access=group:%s: there is no such group (getent group lists them; "
                             "groupadd %s makes it)",
                             made.group_name, made.group_name);
    } else if (text && text[0] && strcmp(text, "user") != 0) {
        return gpud_fail(error, GPUD_INVALID, "access=%.40s: it is user, group:NAME or all", text);
    }
    *access = made;
    return GPUD_OK;
}

enum gpud_status gpud_access_set_key(struct gpud_access_rule *access, const char *key_file,
                                     struct gpud_error *error)
{
    if (!key_file)
        key_file = "";
    if (strlen(key_file) >= sizeof(access->key_file))
        return gpud_fail(error, GPUD_INVALID, "psk-file: a path of %zu bytes, at most %zu fit",
                         strlen(key_file), sizeof(access->key_file) - 1);
    gpud_print(access->key_file, "%s", key_file);
    return GPUD_OK;
}

enum gpud_status gpud_access_check(const struct gpud_access_rule *access, bool network,
                                   struct gpud_error *error)
{
    if (network && access->kind != GPUD_ACCESS_USER)
        return gpud_fail(error, GPUD_INVALID,
                         "access selects users of one host: between hosts a psk-file decides who "
                         "is admitted");
    if (!network && (access->key_file[0] || access->allow_unauthenticated))
        return gpud_fail(error, GPUD_INVALID,
                         "%s is for addresses of other hosts (rdma://): on one host the kernel "
                         "identifies users, and access selects those who are admitted",
                         access->key_file[0] ? "psk-file" : "allow-unauthenticated");
    return GPUD_OK;
}
