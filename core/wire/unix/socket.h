/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages over Unix SOCK_SEQPACKET sockets, non-blocking throughout; attachments are descriptors
 * and travel by SCM_RIGHTS. Only processes of the same user and root are heard, unless other users
 * are let in. */
#ifndef GPUD_WIRE_UNIX_SOCKET_H
#define GPUD_WIRE_UNIX_SOCKET_H

#include "wire/message.h"
#include "wire/unix/access.h"
#include "wire/unix/resolve.h"

struct gpud_socket_listener {
    int fd, lock;
    struct gpud_access_rule access;
    char path[GPUD_SOCKET_PATH_MAX];
};

/* Claims the path under a lock file: the socket of a process that died is taken over, that of a
 * living one never is. EADDRINUSE, with that process's name, after 2 s (it may be dying), or at
 * once if it is this process. The file's mode is 0600, or lets in those whom the rule admits,
 * before anybody can connect. access NULL: this user and root. */
enum gpud_status gpud_socket_listen(struct gpud_socket_listener *listener, const char *path,
                                    const struct gpud_access_rule *access,
                                    struct gpud_error *error);
void gpud_socket_unlisten(struct gpud_socket_listener *listener);

/* GPUD_AGAIN: nobody waits. GPUD_NO_ACCESS: *peer did, is not admitted, and was told so in a
 * REFUSE.
 */
enum gpud_status gpud_socket_accept(struct gpud_socket_listener *listener, int *fd,
                                    struct gpud_peer *peer, struct gpud_error *error);

/* GPUD_AGAIN: nobody listens there (yet). GPUD_NO_ACCESS: the process that does is not admitted,
 * and was told so in a BYE. access NULL: this user and root. */
enum gpud_status gpud_socket_connect(const char *path, const struct gpud_access_rule *access,
                                     int *fd, struct gpud_peer *peer, struct gpud_error *error);

/* For questions, not for frames: connects only to a socket file that belongs to this user, unless
 * any_owner. GPUD_CLOSED: nobody listens there. GPUD_AGAIN: its queue is full. */
enum gpud_status gpud_socket_reach(const char *path, bool any_owner, int *fd,
                                   struct gpud_peer *peer, struct gpud_error *error);

/* GPUD_AGAIN: the peer does not read, its buffer is full. GPUD_PEER: it is gone. */
enum gpud_status gpud_socket_send(int fd, struct gpud_message *message, struct gpud_error *error);

/* GPUD_AGAIN: nothing there. GPUD_CLOSED: the peer's end is closed. GPUD_PEER, GPUD_UNSUPPORTED:
 * what it sent is refused, and its descriptors are closed. GPUD_NO_MEMORY: this process may have no
 * more descriptors; the message is lost, through no fault of the peer's. */
enum gpud_status gpud_socket_receive(int fd, struct gpud_message *message,
                                     struct gpud_error *error);

#endif
