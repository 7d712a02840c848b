/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages over non-blocking Unix SOCK_SEQPACKET sockets; attachments are descriptors, sent by
 * SCM_RIGHTS. Only processes of the same user and of root are accepted, unless the rule admits
 * others. */
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

/* Claims the path under a lock file: a dead process's socket is replaced, a living one's never is.
 * EADDRINUSE, with that process's name, after 2 s (it may be dying), or at once if it is this
 * process. The file has its final mode, 0600 or what the rule needs, before connections are
 * possible. access NULL: this user and root. */
enum gpud_status gpud_socket_listen(struct gpud_socket_listener *listener, const char *path,
                                    const struct gpud_access_rule *access,
                                    struct gpud_error *error);
/* The same with the lock that the caller has taken, which is the listener's from then on; on
 * failure it is dropped. */
enum gpud_status gpud_socket_listen_locked(struct gpud_socket_listener *listener, const char *path,
                                           int lock, const struct gpud_access_rule *access,
                                           struct gpud_error *error);
void gpud_socket_unlisten(struct gpud_socket_listener *listener);

/* GPUD_AGAIN: no connection is pending. GPUD_NO_ACCESS: *peer is not admitted, and was sent a
 * REFUSE. */
enum gpud_status gpud_socket_accept(struct gpud_socket_listener *listener, int *fd,
                                    struct gpud_peer *peer, struct gpud_error *error);

/* GPUD_AGAIN: no sender listens there (yet). GPUD_NO_ACCESS: the sender is not admitted, and was
 * sent a BYE. access NULL: this user and root. */
enum gpud_status gpud_socket_connect(const char *path, const struct gpud_access_rule *access,
                                     int *fd, struct gpud_peer *peer, struct gpud_error *error);

/* For queries, not for frames: connects only to a socket file that belongs to this user, unless
 * any_owner. GPUD_CLOSED: no sender listens there. GPUD_AGAIN: its queue is full. */
enum gpud_status gpud_socket_reach(const char *path, bool any_owner, int *fd,
                                   struct gpud_peer *peer, struct gpud_error *error);

/* GPUD_AGAIN: the peer does not read, its buffer is full. GPUD_PEER: it is gone. */
enum gpud_status gpud_socket_send(int fd, struct gpud_message *message, struct gpud_error *error);

/* GPUD_AGAIN: no message. GPUD_CLOSED: the peer's end is closed. GPUD_PEER, GPUD_UNSUPPORTED: its
 * message is refused, and the descriptors are closed. GPUD_NO_MEMORY: the message is lost because
 * this process has no descriptors left; the peer is not at fault. */
enum gpud_status gpud_socket_receive(int fd, struct gpud_message *message,
                                     struct gpud_error *error);

#endif
