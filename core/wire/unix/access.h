/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whether the other end of a socket may be there. Who somebody is, is the kernel's word alone: it
 * noted that when he connected or began to listen. */
#ifndef GPUD_WIRE_UNIX_ACCESS_H
#define GPUD_WIRE_UNIX_ACCESS_H

#include "wire/access.h"
#include "wire/channel.h"

/* Who is at the other end, and whether it may be. */
enum gpud_status gpud_access_find_peer(int fd, struct gpud_peer *peer, struct gpud_error *error);
bool gpud_access_admits(const struct gpud_access_rule *access, int fd,
                        const struct gpud_peer *peer);

/* Opens a socket file that this process has just made, and on which it does not listen yet, to
 * those that are admitted. */
enum gpud_status gpud_access_open_socket(const struct gpud_access_rule *access, const char *path,
                                         struct gpud_error *error);

/* Whether an address can be reached by those that are admitted: those of other users can enter no
 * runtime directory, and no folder that is closed to them. */
enum gpud_status gpud_access_check_address(const struct gpud_access_rule *access,
                                           const char *address, const char *path,
                                           struct gpud_error *error);

/* "alice (1000)", or "user 1000" where this machine's own list does not know it. */
#define GPUD_USER_MAX 64
const char *gpud_user_name(uid_t uid, char text[GPUD_USER_MAX]);

/* What a refusal says, with both users and what to set. */
enum gpud_status gpud_access_refuse_receiver(const struct gpud_access_rule *access,
                                             const struct gpud_peer *peer,
                                             struct gpud_error *error);
enum gpud_status gpud_access_refuse_sender(const struct gpud_access_rule *access, const char *path,
                                           const struct gpud_peer *peer, struct gpud_error *error);

/* The same where the file system lets nobody come so far as to be asked. */
enum gpud_status gpud_access_explain_closed(const char *path, struct gpud_error *error);

#endif
