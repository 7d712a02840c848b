/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Connections of one host: sockets of the kind SOCK_SEQPACKET. */
#ifndef GPUD_WIRE_UNIX_UNIX_H
#define GPUD_WIRE_UNIX_UNIX_H

#include "base/base.h"
#include "wire/wire.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/un.h>

/* === access ================================================================================== */
/* Whether the other end of a socket is admitted, by the credentials that the kernel recorded when
 * it connected or began to listen. */

/* The process at the other end, and whether the rule admits it. */
enum gpud_status gpud_access_find_peer(int fd, struct gpud_peer *peer, struct gpud_error *error);
bool gpud_access_admits(const struct gpud_access_rule *access, int fd,
                        const struct gpud_peer *peer);

/* "alice (1000)", or "user 1000" if /etc/passwd does not know it. */
#define GPUD_USER_MAX 64

const char *gpud_user_name(uid_t uid, char text[GPUD_USER_MAX]);

/* === kind ==================================================================================== */

extern const struct gpud_channel_ops gpud_unix_channel_ops;

/* === channel ================================================================================= */
/* The control channel on one host: a Unix socket. */

/* The operations of new channels of this kind. Tests replace them to add remote ops. */
extern const struct gpud_channel_ops *gpud_unix_channel;

/* Makes a channel with one reference over a connected socket, which it owns from then on; on
 * failure the socket stays the caller's. */
enum gpud_status gpud_unix_channel_create(int fd, const struct gpud_peer *peer,
                                          struct gpud_channel **channel, struct gpud_error *error);

struct gpud_socket_listener;

/* The same for the next connection of a listener; GPUD_AGAIN: none. The channel receives queries
 * alone: receivers must use the network address, where the key is checked. */
enum gpud_status gpud_unix_accept_query(struct gpud_socket_listener *listener,
                                        struct gpud_channel **channel, struct gpud_peer *peer,
                                        struct gpud_error *error);

/* === hint ==================================================================================== */
/* Suggests why no sender may be found on an address. */

/* A sentence about this path, or "". Only examines the file system. */
void gpud_socket_hint(const char *path, char *hint, size_t size);

/* === lock ==================================================================================== */
/* The lock of an address: a file beside the socket, with a flock that the kernel releases when the
 * holder dies. */

#define GPUD_LOCK_HOLDER_MAX 96

/* Waits up to 2 s while another process holds it: a killed one does until its memory is freed, and
 * its children a little longer. EADDRINUSE after that, or at once if this process holds it. */
enum gpud_status gpud_lock_file_take(const char *path, int *fd, struct gpud_error *error);

/* Tries once, and does not wait. GPUD_AGAIN: another holder has it. */
enum gpud_status gpud_lock_file_try(const char *path, int *fd);

/* Removes the file and releases the lock. */
void gpud_lock_file_drop(const char *path, int *fd);

/* Describes the holder as named in the file: "process 1234 (gst-launch-1.0)". true: it is this
 * process. */
bool gpud_lock_holder(int fd, char text[GPUD_LOCK_HOLDER_MAX]);

/* A wait for a lock that another holder has. */
struct gpud_lock_wait {
    int events; /* to poll for POLLIN: the holder may have released the lock, or died */
    int file;
};

/* Call gpud_lock_wait_end() in any case. */
enum gpud_status gpud_lock_wait_begin(struct gpud_lock_wait *wait, struct gpud_error *error);
void gpud_lock_wait_end(struct gpud_lock_wait *wait);

/* GPUD_OK: *fd is the lock, as from gpud_lock_file_take(). GPUD_AGAIN: another holder has it; poll
 * wait->events. */
enum gpud_status gpud_lock_wait_try(struct gpud_lock_wait *wait, const char *path, int *fd,
                                    struct gpud_error *error);

/* The process that currently holds the lock of a path. 0: none does, or it is unknown (in another
 * container; another user's, unless any_owner and the file can be read). */
pid_t gpud_lock_find(const char *path, bool any_owner);

/* Whether any process holds the lock of a path, also one of another container. */
bool gpud_lock_is_held(const char *path);

/* === resolve ================================================================================= */
/* Where the socket of an address lies. */

#define GPUD_SOCKET_PATH_MAX sizeof(((struct sockaddr_un *)NULL)->sun_path)

/* "cam1" → a socket in the user's runtime directory (made if need be, 0700); "unix:/path" → that
 * path. */
enum gpud_status gpud_socket_resolve(const char *address, char path[GPUD_SOCKET_PATH_MAX],
                                     struct gpud_error *error);

/* The address of a socket in the runtime directory: "cam1" of the entry cam1, "cam1/subs" of
 * cam1!subs. false: it has neither form. */
bool gpud_socket_entry_address(const char *entry, char *text, size_t size);

/* === socket ================================================================================== */
/* Messages over non-blocking Unix SOCK_SEQPACKET sockets; attachments are descriptors, sent by
 * SCM_RIGHTS. Only processes of the same user and of root are accepted, unless the rule admits
 * others. */

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

/* === received ================================================================================ */
/* A note for other processes of this user that a channel is received here over a network: a lock
 * file in the runtime directory, which the kernel unlocks when the process dies.
 *
 *     .received!rdma!10.0.0.1:7174!cam1!1234.0.lock    process 1234 receives
 * rdma://10.0.0.1:7174/cam1
 */

struct gpud_received {
    int lock; /* -1: there is no note */
    char path[GPUD_SOCKET_PATH_MAX];
};

/* place: "rdma://10.0.0.1:7174/cam1". Where the note cannot be written the channel is not listed,
 * which costs the receiver nothing. */
void gpud_received_note(struct gpud_received *received, const char *place);
void gpud_received_remove(struct gpud_received *received);

/* === registry ================================================================================ */
/* The sockets on which this user's senders listen. Those of bare names lie in the runtime
 * directory. For a socket elsewhere, the sender makes a symbolic link there that is named after the
 * socket's path, so that each path has only one:
 *
 *     cam1                        a socket
 *     cam1.lock                   its lock
 *     cam1!subs                   the socket of the stream cam1/subs
 *     .unix!run!studio!cam2       → /run/studio/cam2
 *     .rdma!10.0.0.1:7174!cam3    a socket for questions about rdma://10.0.0.1:7174/cam3
 *     .received!rdma!10.0.0.1:7174!cam3!12.0.lock    process 12 receives rdma://10.0.0.1:7174/cam3
 *     .waiting!0.lock             a receiver waits for a sender (wire/wire.h)
 *
 * Watchers of the directory see sockets appear and disappear, and an attribute change when a
 * channel's stream changes.
 *
 * Links are made and removed under the directory's lock, and a sender makes one only after it
 * listens: so a process that holds the lock and finds no listener may remove the link. */

/* Neither the host nor the name of an address on a network contains a '!'. */
#define GPUD_REGISTRY_RECEIVED ".received!"
#define GPUD_REGISTRY_ENTRY_MAX (GPUD_ADDRESS_MAX + sizeof(GPUD_REGISTRY_RECEIVED "rdma!"))

/* The entry of a channel "10.0.0.1:7174/cam3"; with the second prefix, without the process and the
 * number at its end. */
void gpud_registry_entry(const char *prefix, const char *channel,
                         char entry[GPUD_REGISTRY_ENTRY_MAX]);

/* Makes the link for a path that this process listens on. A bare name needs none. */
enum gpud_status gpud_registry_add(const char *path, struct gpud_error *error);

/* Removes it. */
void gpud_registry_remove(const char *path);

/* Sets the time of the socket, or of its link: an event for watchers of the directory. */
void gpud_registry_touch(const char *path);

#endif
