/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whether the other end of a socket is admitted, by the credentials that the kernel recorded when
 * it connected or began to listen. */
#ifndef GPUD_WIRE_UNIX_ACCESS_H
#define GPUD_WIRE_UNIX_ACCESS_H

#include "wire/access.h"
#include "wire/channel.h"

/* The process at the other end, and whether the rule admits it. */
enum gpud_status gpud_access_find_peer(int fd, struct gpud_peer *peer, struct gpud_error *error);
bool gpud_access_admits(const struct gpud_access_rule *access, int fd,
                        const struct gpud_peer *peer);

/* Gives the users that the rule admits access to the file of a socket that this process has just
 * made and does not listen on yet. */
enum gpud_status gpud_access_open_socket(const struct gpud_access_rule *access, const char *path,
                                         struct gpud_error *error);

/* Whether the users that the rule admits can reach the path: other users can enter neither the
 * runtime directory nor a folder that is closed to them. */
enum gpud_status gpud_access_check_address(const struct gpud_access_rule *access,
                                           const char *address, const char *path,
                                           struct gpud_error *error);

/* "alice (1000)", or "user 1000" if /etc/passwd does not know it. */
#define GPUD_USER_MAX 64
const char *gpud_user_name(uid_t uid, char text[GPUD_USER_MAX]);

/* The reason of a refusal: both users, and what to set. */
enum gpud_status gpud_access_refuse_receiver(const struct gpud_access_rule *access,
                                             const struct gpud_peer *peer,
                                             struct gpud_error *error);
enum gpud_status gpud_access_refuse_sender(const struct gpud_access_rule *access, const char *path,
                                           const struct gpud_peer *peer, struct gpud_error *error);

/* The same if the file system refused. */
enum gpud_status gpud_access_explain_closed(const char *path, struct gpud_error *error);

#endif
