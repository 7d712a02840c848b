/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A connection over a socket, with descriptors. */
#include "wire/unix/unix.h"

#include "base/base.h"
#include "wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* === socket ================================================================================== */
/* Messages over non-blocking Unix SOCK_SEQPACKET sockets; attachments are descriptors, sent by
 * SCM_RIGHTS. Only processes of the same user and of root are accepted, unless the rule admits
 * others. */

/* The kernel's limit on descriptors per message (SCM_MAX_FD). */
#define KERNEL_FDS 253

static int new_socket(struct gpud_error *error)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        gpud_fail_errno(error, "cannot create a socket");
    return fd;
}

static socklen_t to_sockaddr(struct sockaddr_un *name, const char *path)
{
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(name->sun_path, path, strlen(path) + 1);
    return (socklen_t)sizeof(*name);
}

static const struct gpud_access_rule own_user = {.kind = GPUD_ACCESS_USER};
static const struct gpud_access_rule every_user = {.kind = GPUD_ACCESS_ALL};

/* Tells the peer why this side closes the connection. */
static void send_reason(int fd, enum gpud_message_type type, const struct gpud_error *why)
{
    struct gpud_message message = {.type = type};
    message.refuse.status = why->status;
    gpud_print(message.refuse.reason, "%s", why->reason);
    gpud_socket_send(fd, &message, NULL);
}

enum gpud_status gpud_socket_accept(struct gpud_socket_listener *listener, int *fd,
                                    struct gpud_peer *peer, struct gpud_error *error)
{
    int accepted = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (accepted < 0) {
        if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
            return GPUD_AGAIN;
        return gpud_fail_errno(error, "cannot accept a connection");
    }
    struct gpud_error why;
    enum gpud_status status = gpud_access_find_peer(accepted, peer, &why);
    if (status == GPUD_OK && !gpud_access_admits(&listener->access, accepted, peer)) {
        status = gpud_access_refuse_receiver(&listener->access, peer, &why);
        send_reason(accepted, GPUD_MESSAGE_REFUSE, &why);
    }
    if (status != GPUD_OK) {
        close(accepted);
        if (error)
            *error = why;
        return status;
    }
    *fd = accepted;
    return GPUD_OK;
}

/* Whether the rule admits the process that listens at the other end. */
static enum gpud_status check_sender(const struct gpud_access_rule *access, int fd,
                                     const char *path, struct gpud_peer *peer,
                                     struct gpud_error *error)
{
    struct gpud_peer found;
    struct gpud_error why;
    enum gpud_status status = gpud_access_find_peer(fd, &found, &why);
    if (status == GPUD_OK && !gpud_access_admits(access, fd, &found)) {
        status = gpud_access_refuse_sender(access, path, &found, &why);
        send_reason(fd, GPUD_MESSAGE_BYE, &why);
    }
    if (status == GPUD_OK)
        *peer = found;
    else if (error)
        *error = why;
    return status;
}

enum gpud_status gpud_socket_connect(const char *path, const struct gpud_access_rule *access,
                                     int *fd, struct gpud_peer *peer, struct gpud_error *error)
{
    struct sockaddr_un name;
    socklen_t size = to_sockaddr(&name, path);
    enum gpud_status status;
    int made = new_socket(error);
    if (made < 0)
        return GPUD_NO_MEMORY;
    if (connect(made, (struct sockaddr *)&name, size) == 0)
        status = check_sender(access ? access : &own_user, made, path, peer, error);
    else if (errno == ENOENT || errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR)
        status = gpud_fail(error, GPUD_AGAIN, "no sender listens on %s", path);
    else if (errno == EACCES)
        status = gpud_access_explain_closed(path, error);
    else
        status = gpud_fail_errno(error, "cannot connect to %s", path);
    if (status != GPUD_OK) {
        close(made);
        return status;
    }
    *fd = made;
    return GPUD_OK;
}

/* Connects through the opened file: a moment later its name may be another file's. */
static enum gpud_status socket_reach(int file, const char *path, bool any_owner, int *fd,
                                     struct gpud_peer *peer, struct gpud_error *error)
{
    struct stat st;
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (fstat(file, &st) < 0)
        return gpud_fail_errno(error, "cannot look at %s", path);
    if (!S_ISSOCK(st.st_mode))
        return gpud_fail(error, GPUD_CLOSED, "%s is not a socket", path);
    if (!any_owner && st.st_uid != geteuid())
        return gpud_fail(error, GPUD_NO_ACCESS, "%s belongs to user %u, not %u", path, st.st_uid,
                         geteuid());
    gpud_print(name.sun_path, "/proc/self/fd/%d", file);
    int made = new_socket(error);
    if (made < 0)
        return GPUD_NO_MEMORY;
    enum gpud_status status;
    if (connect(made, (struct sockaddr *)&name, sizeof(name)) == 0)
        status = check_sender(any_owner ? &every_user : &own_user, made, path, peer, error);
    else if (errno == EAGAIN)
        status = gpud_fail(error, GPUD_AGAIN, "too many connections are waiting for %s", path);
    else if (errno == ECONNREFUSED)
        status = gpud_fail(error, GPUD_CLOSED, "no sender listens on %s", path);
    else if (errno == EACCES)
        status = gpud_access_explain_closed(path, error);
    else
        status = gpud_fail_errno(error, "cannot connect to %s", path);
    if (status == GPUD_OK)
        *fd = made;
    else
        close(made);
    return status;
}

enum gpud_status gpud_socket_reach(const char *path, bool any_owner, int *fd,
                                   struct gpud_peer *peer, struct gpud_error *error)
{
    int file = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return gpud_fail(error, GPUD_CLOSED, "no sender listens on %s", path);
        if (errno == EACCES)
            return gpud_access_explain_closed(path, error);
        return gpud_fail_errno(error, "cannot look at %s", path);
    }
    enum gpud_status status = socket_reach(file, path, any_owner, fd, peer, error);
    close(file);
    return status;
}

enum gpud_status gpud_socket_send(int fd, struct gpud_message *message, struct gpud_error *error)
{
    uint8_t bytes[GPUD_MESSAGE_MAX];
    struct gpud_handle *handles[GPUD_MESSAGE_HANDLES];
    int fds[GPUD_MESSAGE_HANDLES];
    size_t size, fd_count = gpud_message_attachments(message, handles);
    enum gpud_status status = gpud_message_encode(message, bytes, sizeof(bytes), &size, error);
    if (status != GPUD_OK)
        return status;
    for (size_t i = 0; i < fd_count; i++)
        fds[i] = handles[i]->fd;

    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(fds))];
    struct iovec data = {.iov_base = bytes, .iov_len = size};
    struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1};
    if (fd_count) {
        memset(control, 0, sizeof(control));
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, fd_count * sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return GPUD_OK;
    if (errno == EAGAIN || errno == ENOBUFS)
        return gpud_fail(error, GPUD_AGAIN, "the peer does not read its messages");
    if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN)
        return gpud_fail(error, GPUD_PEER, "the peer closed the connection");
    return gpud_fail_errno(error, "cannot send a %s", gpud_message_name(message->type));
}

/* Collects every descriptor that came with the message. */
static size_t take_descriptors(struct msghdr *header, int fds[KERNEL_FDS])
{
    size_t count = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds + count, CMSG_DATA(part), here * sizeof(int));
        count += here;
    }
    return count;
}

/* Gives the handles of a message the descriptors that came with it, whose count must match. */
static enum gpud_status attach(struct gpud_message *message, const int *fds, size_t count,
                               struct gpud_error *error)
{
    struct gpud_handle *handles[GPUD_MESSAGE_HANDLES];
    size_t wanted = gpud_message_attachments(message, handles);
    if (count != wanted)
        return gpud_fail(error, GPUD_PEER, "the peer sent %zu descriptors with a %s that has %zu",
                         count, gpud_message_name(message->type), wanted);
    for (size_t i = 0; i < count; i++)
        handles[i]->fd = fds[i];
    return GPUD_OK;
}

/* The control buffer holds as many descriptors as the kernel allows: if some are missing, this
 * process has reached its limit. */
static enum gpud_status out_of_descriptors(struct gpud_error *error)
{
    struct rlimit limit = {0};
    getrlimit(RLIMIT_NOFILE, &limit);
    return gpud_fail(error, GPUD_NO_MEMORY,
                     "no descriptors are left for those that came with a message: this process may "
                     "have %llu; raise its limit (ulimit -n), or close some",
                     (unsigned long long)limit.rlim_cur);
}

enum gpud_status gpud_socket_receive(int fd, struct gpud_message *message, struct gpud_error *error)
{
    uint8_t bytes[GPUD_MESSAGE_MAX + 1]; /* one more, to detect a longer message */
    int fds[KERNEL_FDS];                 /* room for all, so that none leaks */
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(fds))];
    struct iovec data = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    struct msghdr header = {.msg_iov = &data,
                            .msg_iovlen = 1,
                            .msg_control = control,
                            .msg_controllen = sizeof(control)};

    /* The kernel reports a reset once, ahead of earlier messages: those are read first. */
    ssize_t got;
    int resets = 0;
    do
        got = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)));
    if (got < 0) {
        if (errno == EAGAIN)
            return GPUD_AGAIN;
        if (errno == ECONNRESET)
            return gpud_fail(error, GPUD_CLOSED, "the peer closed the connection");
        return gpud_fail_errno(error, "cannot receive from the peer");
    }
    size_t count = take_descriptors(&header, fds);
    enum gpud_status status;
    if (got == 0 && count == 0)
        return gpud_fail(error, GPUD_CLOSED, "the peer closed the connection");
    if (header.msg_flags & MSG_TRUNC || (size_t)got > GPUD_MESSAGE_MAX)
        status = gpud_fail(error, GPUD_PEER, "the peer sent more than a message holds");
    else if (header.msg_flags & MSG_CTRUNC)
        status = out_of_descriptors(error);
    else
        status = gpud_message_decode(message, bytes, (size_t)got, error);
    if (status == GPUD_OK)
        status = attach(message, fds, count, error);
    if (status != GPUD_OK)
        for (size_t i = 0; i < count; i++)
            close(fds[i]);
    return status;
}

/* === farewell ================================================================================ */
/* Sends a BYE on every open connection when the process calls exit(), so that the other ends do not
 * take it for a crash. Listening stops first, so that no receiver reconnects to an ending process.
 *
 * The table of sockets needs no lock: exit() may be called while other threads run, by a thread
 * that holds any lock, or from a signal handler. A child of fork() has an empty table: its exit()
 * says nothing on the connections of its parent. A process that is killed says nothing. */

/* Sends a BYE on every open connection when the process calls exit(), so that the other ends do not
 * take it for a crash. Listening stops first, so that no receiver reconnects to an ending process.
 *
 * The table of sockets needs no lock: exit() may be called while other threads run, by a thread
 * that holds any lock, or from a signal handler. A child of fork() has an empty table: its exit()
 * says nothing on the connections of its parent. A process that is killed says nothing. */

enum gpud_farewell { GPUD_FAREWELL_BYE, GPUD_FAREWELL_UNLISTEN };

#define PLACES 1024

/* An entry of the table: free, or a socket and what to do with it, or claimed by exit() for good.
 */
#define FREE 0
#define BUSY (-1)
#define ENTRY(fd, what) (((fd) + 1) << 1 | (int)(what))
#define FD_OF(entry) (((entry) >> 1) - 1)
#define WHAT_OF(entry) ((enum gpud_farewell)((entry)&1))

static atomic_int *_Atomic table;

static atomic_int *get_table(void)
{
    const size_t size = PLACES * sizeof(*table);
    atomic_int *found = atomic_load(&table);
    if (found)
        return found;
    void *made = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        return NULL;
    /* A child of fork() sees zeros. */
    if (madvise(made, size, MADV_WIPEONFORK) == 0 &&
        atomic_compare_exchange_strong(&table, &found, made))
        return made;
    munmap(made, size);
    return found;
}

/* Adds a socket. *place: its index, for farewell_remove(), or −1 if the table is full; then an
 * exit() will look like a crash. */
static void farewell_add(int fd, enum gpud_farewell what, atomic_int *place)
{
    atomic_int *places = get_table();
    atomic_store(place, -1);
    for (int i = 0; places && i < PLACES; i++) {
        int unused = FREE;
        if (atomic_compare_exchange_strong(&places[i], &unused, ENTRY(fd, what))) {
            atomic_store(place, i);
            return;
        }
    }
}

/* Removes the socket. false: exit() is using it, and the descriptor must stay open. */
static bool farewell_remove(atomic_int *place)
{
    int at = atomic_load(place);
    atomic_int *places = atomic_load(&table);
    if (at < 0)
        return true;
    int entry = atomic_load(&places[at]);
    while (entry != BUSY && !atomic_compare_exchange_weak(&places[at], &entry, FREE))
        ;
    if (entry == BUSY)
        return false;
    atomic_store(place, -1);
    return true;
}

static void say(int fd, enum gpud_farewell what, const uint8_t *bye, size_t size)
{
    if (what == GPUD_FAREWELL_UNLISTEN)
        shutdown(fd, SHUT_RDWR);
    else
        send(fd, bye, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void say_all(atomic_int *places, enum gpud_farewell what, const uint8_t *bye, size_t size)
{
    for (int i = 0; i < PLACES; i++) {
        int entry = atomic_load(&places[i]);
        if (entry != FREE && entry != BUSY && WHAT_OF(entry) == what &&
            atomic_compare_exchange_strong(&places[i], &entry, BUSY))
            say(FD_OF(entry), what, bye, size);
    }
}

/* Runs at exit(), and when the library is unloaded, which has no links by then. */
__attribute__((destructor)) static void say_farewell(void)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_BYE};
    atomic_int *places = atomic_load(&table);
    uint8_t bytes[512];
    size_t size;
    gpud_process_note_ending();
    gpud_print(message.refuse.reason, "its process ended");
    if (!places || gpud_message_encode(&message, bytes, sizeof(bytes), &size, NULL) != GPUD_OK)
        return;
    say_all(places, GPUD_FAREWELL_UNLISTEN, bytes, size);
    say_all(places, GPUD_FAREWELL_BYE, bytes, size);
}

/* === channel ================================================================================= */
/* The control channel on one host: a Unix socket. */

struct unix_listener {
    struct gpud_listener base; /* first */
    struct gpud_socket_listener socket;
    atomic_int farewell;
    struct gpud_lock_wait wait; /* while it stands by; -1 else */
    struct gpud_access_rule access;
    char path[GPUD_SOCKET_PATH_MAX];
};

struct unix_channel {
    struct gpud_channel base; /* first */
    atomic_int farewell;
    atomic_uint kicks; /* sent since the peer was last seen to have read everything */
};

/* So many KICKs may be unread at once. Asking the kernel before each would cost as much as saving
 * them does. */
#define KICKS_UNREAD 8

const struct gpud_channel_ops *gpud_unix_channel = &gpud_unix_channel_ops;

enum gpud_status gpud_unix_channel_create(int fd, const struct gpud_peer *peer,
                                          struct gpud_channel **channel, struct gpud_error *error)
{
    struct unix_channel *made = malloc(sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a connection");
    made->base.ops = gpud_unix_channel;
    atomic_init(&made->base.references, 1);
    atomic_init(&made->base.connected, true);
    atomic_init(&made->kicks, 0);
    made->base.fd = fd;
    made->base.peer_fd = -1;
    made->base.peer = *peer;
    gpud_fd_keep_from_children(fd);
    farewell_add(fd, GPUD_FAREWELL_BYE, &made->farewell);
    *channel = &made->base;
    return GPUD_OK;
}

/* --- listening ----------------------------------------------------------------------------- */

static enum gpud_status create_listener(const struct gpud_address *address,
                                        const struct gpud_access_rule *access,
                                        struct unix_listener **listener, struct gpud_error *error)
{
    enum gpud_status status =
        gpud_access_check_address(access, address->text, address->place, error);
    if (status != GPUD_OK)
        return status;
    struct unix_listener *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a socket");
    made->base.ops = &gpud_unix_channel_ops;
    made->base.fd = made->wait.events = made->wait.file = -1;
    if (access)
        made->access = *access;
    gpud_print(made->path, "%s", address->place);
    *listener = made;
    return GPUD_OK;
}

/* The socket listens: announces it. */
static void channel_begin(struct unix_listener *listener)
{
    listener->base.fd = listener->socket.fd;
    farewell_add(listener->base.fd, GPUD_FAREWELL_UNLISTEN, &listener->farewell);
    struct gpud_error unlisted; /* not fatal: only lists of channels use it */
    if (gpud_registry_add(listener->path, &unlisted) != GPUD_OK)
        gpud_print(listener->base.note, "not in lists of channels: %s", unlisted.reason);
    gpud_registry_touch(listener->path); /* watchers saw the socket before it could be queried */
}

static enum gpud_status channel_listen_on(const struct gpud_address *address,
                                          const struct gpud_access_rule *access,
                                          struct gpud_listener **listener, struct gpud_error *error)
{
    struct unix_listener *made = NULL;
    enum gpud_status status = create_listener(address, access, &made, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_socket_listen(&made->socket, made->path, access, error);
    if (status != GPUD_OK) {
        free(made);
        return status;
    }
    channel_begin(made);
    *listener = &made->base;
    return GPUD_OK;
}

static enum gpud_status channel_take_over(struct gpud_listener *base, struct gpud_error *error)
{
    struct unix_listener *listener = (struct unix_listener *)base;
    int lock;
    enum gpud_status status = gpud_lock_wait_try(&listener->wait, listener->path, &lock, error);
    if (status == GPUD_OK)
        status = gpud_socket_listen_locked(&listener->socket, listener->path, lock,
                                           &listener->access, error);
    if (status != GPUD_OK)
        return status;
    channel_begin(listener);
    atomic_store(&base->stands_by, false);
    gpud_lock_wait_end(&listener->wait);
    return GPUD_OK;
}

static enum gpud_status stand_by(const struct gpud_address *address,
                                 const struct gpud_access_rule *access,
                                 struct gpud_listener **listener, struct gpud_error *error)
{
    struct unix_listener *made = NULL;
    enum gpud_status status = create_listener(address, access, &made, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_lock_wait_begin(&made->wait, error);
    made->base.fd = made->wait.events;
    atomic_store(&made->base.stands_by, true);
    if (status == GPUD_OK)
        status = channel_take_over(&made->base, error);
    if (status != GPUD_OK && status != GPUD_AGAIN) {
        gpud_lock_wait_end(&made->wait);
        free(made);
        return status;
    }
    *listener = &made->base;
    return GPUD_OK;
}

static void channel_tell(struct gpud_listener *listener)
{
    if (!atomic_load(&listener->stands_by))
        gpud_registry_touch(((struct unix_listener *)listener)->path);
}

static void unlisten(struct gpud_listener *listener)
{
    struct unix_listener *gone = (struct unix_listener *)listener;
    gpud_lock_wait_end(&gone->wait);
    if (atomic_load(&listener->stands_by)) {
        free(gone);
        return;
    }
    gpud_registry_remove(gone->path);
    if (!farewell_remove(&gone->farewell))
        return; /* the process ends */
    gpud_socket_unlisten(&gone->socket);
    free(gone);
}

static enum gpud_status accept_one(struct gpud_listener *listener, struct gpud_channel **channel,
                                   struct gpud_peer *peer, struct gpud_error *error)
{
    struct unix_listener *at = (struct unix_listener *)listener;
    int fd;
    enum gpud_status status = gpud_socket_accept(&at->socket, &fd, peer, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_unix_channel_create(fd, peer, channel, error);
    if (status != GPUD_OK)
        gpud_fd_close(&fd);
    return status;
}

/* --- connecting ---------------------------------------------------------------------------- */

/* Does not query a stopped sender: the unread query would occupy a place in its queue. */
static enum gpud_status channel_reach(const struct gpud_address *address, int *fd,
                                      struct gpud_peer *peer, struct gpud_error *error)
{
    peer->pid = gpud_lock_find(address->place, address->any_owner);
    if (gpud_process_is_stopped(peer->pid))
        return gpud_fail(error, GPUD_AGAIN, "the sender on %s is stopped", address->place);
    return gpud_socket_reach(address->place, address->any_owner, fd, peer, error);
}

static enum gpud_status connect_to(const struct gpud_address *address,
                                   const struct gpud_access_rule *access,
                                   struct gpud_channel **channel, struct gpud_peer *peer,
                                   struct gpud_error *error)
{
    int fd;
    enum gpud_status status = access ? gpud_socket_connect(address->place, access, &fd, peer, error)
                                     : channel_reach(address, &fd, peer, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_unix_channel_create(fd, peer, channel, error);
    if (status != GPUD_OK)
        gpud_fd_close(&fd);
    return status;
}

/* --- a channel ----------------------------------------------------------------------------- */

/* Whether a KICK can be left out: one more would only fill the connection of a peer that never
 * reads, and then other messages find no room. A peer that polls is woken by what is unread. */
static bool is_surplus_kick(struct unix_channel *channel)
{
    int unread = 0;
    if (atomic_load_explicit(&channel->kicks, memory_order_relaxed) >= KICKS_UNREAD) {
        if (ioctl(channel->base.fd, SIOCOUTQ, &unread) == 0 && unread > 0)
            return true;
        atomic_store_explicit(&channel->kicks, 0, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&channel->kicks, 1, memory_order_relaxed);
    return false;
}

static enum gpud_status channel_send_message(struct gpud_channel *channel,
                                             struct gpud_message *message, struct gpud_error *error)
{
    if (message->type == GPUD_MESSAGE_KICK && is_surplus_kick((struct unix_channel *)channel))
        return GPUD_OK;
    enum gpud_status status = gpud_socket_send(channel->fd, message, error);
    if (message->type == GPUD_MESSAGE_BYE && status == GPUD_OK) /* do not repeat it at exit() */
        farewell_remove(&((struct unix_channel *)channel)->farewell);
    return status;
}

static enum gpud_status receive_message(struct gpud_channel *channel, struct gpud_message *message,
                                        struct gpud_error *error)
{
    return gpud_socket_receive(channel->fd, message, error);
}

/* Hangs up where only children of the peer hold the connection open: what it has sent is still
 * received, and then the end. */
static bool channel_is_dead(const struct gpud_channel *channel)
{
    struct pollfd look[] = {{.fd = channel->fd}, {.fd = channel->peer_fd, .events = POLLIN}};
    if (poll(look, 2, 0) <= 0)
        return false;
    if (look[1].revents)
        shutdown(channel->fd, SHUT_RDWR);
    return look[1].revents || look[0].revents & (POLLHUP | POLLERR | POLLNVAL);
}

static void channel_hang_up(struct gpud_channel *channel)
{
    shutdown(channel->fd, SHUT_RDWR);
}

static void channel_close_channel(struct gpud_channel *channel)
{
    if (!farewell_remove(&((struct unix_channel *)channel)->farewell))
        return; /* the process ends */
    gpud_fd_close(&channel->fd);
    free(channel);
}

const struct gpud_channel_ops gpud_unix_channel_ops = {
    .listen = channel_listen_on,
    .unlisten = unlisten,
    .accept = accept_one,
    .connect = connect_to,
    .send = channel_send_message,
    .receive = receive_message,
    .is_dead = channel_is_dead,
    .hang_up = channel_hang_up,
    .close = channel_close_channel,
    .tell = channel_tell,
    .stand_by = stand_by,
    .take_over = channel_take_over,
};

/* === received ================================================================================ */
/* A note for other processes of this user that a channel is received here over a network: a lock
 * file in the runtime directory, which the kernel unlocks when the process dies.
 *
 *     .received!10.0.0.1:7174!cam1!1234.0.lock    process 1234 receives rdma://10.0.0.1:7174/cam1
 */

void gpud_received_note(struct gpud_received *received, const char *place)
{
    static atomic_uint number; /* one process may receive a channel several times */
    char directory[GPUD_SOCKET_PATH_MAX], entry[GPUD_REGISTRY_ENTRY_MAX];
    received->lock = -1;
    if (gpud_private_directory(directory, sizeof(directory), NULL) != GPUD_OK)
        return;
    gpud_registry_received_entry(place, entry);
    int length = gpud_print_n(received->path, sizeof(received->path), "%s/%s!%ld.%u", directory,
                              entry, (long)getpid(), atomic_fetch_add(&number, 1));
    if (length > 0 && (size_t)length < sizeof(received->path))
        gpud_lock_file_take(received->path, &received->lock, NULL);
}

void gpud_received_remove(struct gpud_received *received)
{
    if (received->lock >= 0)
        gpud_lock_file_drop(received->path, &received->lock);
}

/* === hint ==================================================================================== */
/* What a waiting receiver cannot tell from a failed connect(): its sender has another
 * XDG_RUNTIME_DIR (a login shell, a service, sudo), where the same name is another socket; the
 * socket belongs to another user; its sender is dead; the folder is missing. */

static bool is_socket(const char *path, uid_t *owner)
{
    struct stat st;
    if (lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return false;
    *owner = st.st_uid;
    return true;
}

/* Where a process of that user would look for the name, with XDG_RUNTIME_DIR and without. */
static bool find_of_user(const char *path, const char *name, unsigned long user,
                         char found[GPUD_SOCKET_PATH_MAX])
{
    for (int with = 0; with < 2; with++) {
        int length =
            snprintf(found, GPUD_SOCKET_PATH_MAX,
                     with ? "/run/user/%lu/gpudirect/%s" : "/tmp/gpudirect-%lu/%s", user, name);
        uid_t owner;
        if (length > 0 && (size_t)length < GPUD_SOCKET_PATH_MAX && strcmp(found, path) != 0 &&
            is_socket(found, &owner))
            return true;
    }
    return false;
}

/* Only root can search the directories of all users. */
static bool find_of_any_user(const char *name, char found[GPUD_SOCKET_PATH_MAX])
{
    static const char *const patterns[] = {"/run/user/*/gpudirect/%s", "/tmp/gpudirect-*/%s"};
    bool is_found = false;
    for (size_t i = 0; i < 2 && !is_found; i++) {
        char pattern[GPUD_SOCKET_PATH_MAX + 32];
        glob_t paths;
        uid_t owner;
        gpud_print(pattern, patterns[i], name);
        if (glob(pattern, 0, NULL, &paths) != 0)
            continue;
        is_found = strlen(paths.gl_pathv[0]) < GPUD_SOCKET_PATH_MAX &&
                   is_socket(paths.gl_pathv[0], &owner);
        if (is_found)
            gpud_print_n(found, GPUD_SOCKET_PATH_MAX, "%s", paths.gl_pathv[0]);
        globfree(&paths);
    }
    return is_found;
}

/* Only a bare name can mean several sockets; a path is unambiguous. */
static bool find_elsewhere(const char *path, char found[GPUD_SOCKET_PATH_MAX])
{
    char directory[GPUD_SOCKET_PATH_MAX];
    if (gpud_runtime_directory(directory, sizeof(directory), NULL) != GPUD_OK)
        return false;
    size_t length = strlen(directory);
    if (strncmp(path, directory, length) != 0 || path[length] != '/')
        return false;
    const char *name = path + length + 1, *before_sudo = getenv("SUDO_UID");
    return find_of_user(path, name, geteuid(), found) ||
           (before_sudo && find_of_user(path, name, strtoul(before_sudo, NULL, 10), found)) ||
           (geteuid() == 0 && find_of_any_user(name, found));
}

/* Leaves the hint empty if the folder exists and can be entered. */
static void explain_folder(const char *path, char *hint, size_t size)
{
    char folder[GPUD_SOCKET_PATH_MAX], user[GPUD_USER_MAX];
    gpud_print(folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    if (!folder[0] || access(folder, X_OK) == 0)
        return;
    if (errno == ENOENT)
        gpud_print_n(hint, size,
                     "there is no folder %s here: make it (mkdir), or, where the sender runs in "
                     "another container, share its folder with this one",
                     folder);
    else
        gpud_print_n(hint, size, "%s cannot enter the folder %s: %s",
                     gpud_user_name(geteuid(), user), folder, strerror(errno));
}

void gpud_socket_hint(const char *path, char *hint, size_t size)
{
    char elsewhere[GPUD_SOCKET_PATH_MAX];
    uid_t owner;
    hint[0] = '\0';
    if (is_socket(path, &owner)) {
        char own[GPUD_USER_MAX], other[GPUD_USER_MAX];
        if (owner != geteuid() && owner != 0)
            gpud_print_n(hint, size, "the socket there belongs to %s, and this is %s",
                         gpud_user_name(owner, other), gpud_user_name(geteuid(), own));
        else
            gpud_print_n(hint, size, "its sender died and left the socket: start it again");
    } else if (find_elsewhere(path, elsewhere)) {
        gpud_print_n(hint, size,
                     "there is %s, of a process with another XDG_RUNTIME_DIR (a login shell, a "
                     "service, sudo?): set it alike for both, or use address=unix:%s",
                     elsewhere, elsewhere);
    } else {
        explain_folder(path, hint, size);
    }
}
