/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Connections on one host: a socket, which peers may use it, and the messages over it. */
#include "wire/unix/unix.h"

#include "base/base.h"
#include "wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pwd.h>
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
#include <sys/xattr.h>
#include <unistd.h>

/* === access ================================================================================== */

#define ENTRY_MAX 4096 /* of the list of users */

/* --- names --------------------------------------------------------------------------------- */

/* Reads only the local file: a directory service may be slow, and would delay a sender's stream. */
const char *gpud_user_name(uid_t uid, char text[GPUD_USER_MAX])
{
    char buffer[ENTRY_MAX];
    struct passwd entry, *found = NULL;
    FILE *users = fopen("/etc/passwd", "re");
    gpud_print_n(text, GPUD_USER_MAX, "user %u", uid);
    if (gpud_host_user_is_ambiguous(uid)) {
        gpud_print_n(text, GPUD_USER_MAX, "a user of another user namespace (%u)", uid);
        return text;
    }
    while (users && fgetpwent_r(users, &entry, buffer, sizeof(buffer), &found) == 0) {
        if (entry.pw_uid != uid)
            continue;
        gpud_print_n(text, GPUD_USER_MAX, "%.48s (%u)", entry.pw_name, uid);
        gpud_text_clean(text, strlen(text));
        break;
    }
    if (users)
        fclose(users);
    return text;
}

/* --- the peer ------------------------------------------------------------------------------ */

enum gpud_status gpud_access_find_peer(int fd, struct gpud_peer *peer, struct gpud_error *error)
{
    struct ucred found;
    socklen_t size = sizeof(found);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &found, &size) < 0)
        return gpud_fail_errno(error, "cannot get the peer's credentials");
    *peer = (struct gpud_peer){
        .pid = found.pid,
        .uid = found.uid,
        .foreign = (found.uid != geteuid() && found.uid != 0) ||
                   (found.pid != getpid() && gpud_host_user_is_ambiguous(found.uid)),
        .same_process = found.pid == getpid(),
    };
    return GPUD_OK;
}

/* A group that stands for all unknown ones has no members. */
static bool peer_is_in(int fd, gid_t group)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    if (gpud_host_group_is_ambiguous(group))
        return false;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.gid == group)
        return true;
    /* Asks the kernel for the size first. */
    size = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &size) == 0 || errno != ERANGE)
        return false;
    gid_t *groups = malloc(size);
    bool found = false;
    if (groups && getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) == 0)
        for (size_t i = 0; i < size / sizeof(*groups) && !found; i++)
            found = groups[i] == group;
    free(groups);
    return found;
}

bool gpud_access_admits(const struct gpud_access_rule *access, int fd, const struct gpud_peer *peer)
{
    return !peer->foreign || access->kind == GPUD_ACCESS_ALL ||
           (access->kind == GPUD_ACCESS_GROUP && peer_is_in(fd, access->group));
}

/* --- the file ------------------------------------------------------------------------------ */

/* Gives the users that the rule admits access to the file of a socket that this process has just
 * made and does not listen on yet. Uses a descriptor: in a folder that others can write, the name
 * may be another file's by now. */
static enum gpud_status open_to_others(const struct gpud_access_rule *access, const char *path,
                                       struct gpud_error *error)
{
    struct stat st;
    char self[32];
    mode_t mode = access->kind == GPUD_ACCESS_ALL ? 0666 : 0660;
    enum gpud_status status = GPUD_OK;
    int file = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0)
        return gpud_fail_errno(error, "cannot examine the socket %s", path);
    gpud_print(self, "/proc/self/fd/%d", file);
    if (fstat(file, &st) < 0)
        status = gpud_fail_errno(error, "cannot examine the socket %s", path);
    else if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
        status =
            gpud_fail(error, GPUD_NO_ACCESS,
                      "another process replaced %s: use a folder that only you can write", path);
    else if (access->kind == GPUD_ACCESS_GROUP &&
             fchownat(file, "", (uid_t)-1, access->group, AT_EMPTY_PATH) < 0)
        status =
            gpud_fail_errno(error, "cannot give the socket %s to the group %s: is this user in it?",
                            path, access->group_name);
    else if (chmod(self, mode) < 0)
        status = gpud_fail_errno(error, "cannot open the socket %s to others", path);
    gpud_fd_close(&file);
    return status;
}

/* --- its folders --------------------------------------------------------------------------- */

/* Judges by the mode alone; an access control list may allow more, so it counts as permission. */
static bool can_enter(const struct gpud_access_rule *access, const char *folder)
{
    struct stat st;
    if (stat(folder, &st) < 0 || (st.st_mode & S_IXOTH))
        return true; /* if it cannot be entered at all, creating the socket fails */
    if (access->kind == GPUD_ACCESS_GROUP && st.st_gid == access->group && (st.st_mode & S_IXGRP))
        return true;
    return getxattr(folder, "system.posix_acl_access", NULL, 0) > 0;
}

/* Whether the users that the rule admits can reach the path: other users can enter neither the
 * runtime directory nor a folder that is closed to them. */
static enum gpud_status check_address(const struct gpud_access_rule *access, const char *address,
                                      const char *path, struct gpud_error *error)
{
    char folder[PATH_MAX];
    bool all = access->kind == GPUD_ACCESS_ALL;
    if (access->kind == GPUD_ACCESS_USER)
        return GPUD_OK;
    if (strncmp(address, "unix:", 5) != 0)
        return gpud_fail(error, GPUD_INVALID,
                         "access=%s%s lets in other users, and they cannot enter the folder of "
                         "%.120s: use address=unix:/path in a folder that they can enter",
                         all ? "all" : "group:", access->group_name, path);
    gpud_print(folder, "%s", path);
    for (char *end; (end = strrchr(folder, '/')) && end != folder;) {
        *end = '\0';
        if (can_enter(access, folder))
            continue;
        return gpud_fail(
            error, GPUD_NO_ACCESS,
            "access=%s%s lets in other users, and they cannot enter the folder %.120s: "
            "chmod %s it, or use another one for the socket",
            all ? "all" : "group:", access->group_name, folder, all ? "o+x" : "g+x (and chgrp)");
    }
    return GPUD_OK;
}

/* The reason where the file system refused. */
static enum gpud_status explain_closed(const char *path, struct gpud_error *error)
{
    char own[GPUD_USER_MAX], other[GPUD_USER_MAX];
    struct stat st;
    gpud_user_name(geteuid(), own);
    if (lstat(path, &st) < 0)
        return gpud_fail_native(error, GPUD_NO_ACCESS, "errno", EACCES,
                                "%s may not enter the folder of %s: let its owner chmod it, or "
                                "use a socket elsewhere",
                                own, path);
    return gpud_fail_native(error, GPUD_NO_ACCESS, "errno", EACCES,
                            "the sender at %s belongs to %s and does not let in %s: set "
                            "access=group:NAME or access=all on the sender if it may",
                            path, gpud_user_name(st.st_uid, other), own);
}

/* === socket ================================================================================== */

/* The kernel's limit on descriptors per message (SCM_MAX_FD). */
#define KERNEL_FDS 253

static int new_socket(struct gpud_error *error)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        gpud_fail_errno(error, "cannot create a socket");
    return fd;
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
    const struct gpud_access_rule *access = &listener->access;
    char own[GPUD_USER_MAX], other[GPUD_USER_MAX];
    struct gpud_error why;
    int accepted = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (accepted < 0) {
        if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
            return GPUD_AGAIN;
        return gpud_fail_errno(error, "cannot accept a connection");
    }
    enum gpud_status status = gpud_access_find_peer(accepted, peer, &why);
    if (status == GPUD_OK && !gpud_access_admits(access, accepted, peer)) {
        bool group = access->kind == GPUD_ACCESS_GROUP;
        status = gpud_fail(&why, GPUD_NO_ACCESS,
                           "%s may not receive from %s, whose sender lets in its own user%s%s: set "
                           "access=group:NAME or access=all on the sender if it may",
                           gpud_user_name(peer->uid, other), gpud_user_name(geteuid(), own),
                           group ? " and the group " : " alone", access->group_name);
        send_reason(accepted, GPUD_MESSAGE_REFUSE, &why);
    }
    if (status == GPUD_OK) {
        *fd = accepted;
        return GPUD_OK;
    }
    close(accepted);
    if (error)
        *error = why;
    return status;
}

/* Whether the rule admits the process that listens at the other end. */
static enum gpud_status check_sender(const struct gpud_access_rule *access, int fd,
                                     const char *path, struct gpud_peer *peer,
                                     struct gpud_error *error)
{
    char own[GPUD_USER_MAX], other[GPUD_USER_MAX];
    struct gpud_peer found;
    struct gpud_error why;
    enum gpud_status status = gpud_access_find_peer(fd, &found, &why);
    if (status == GPUD_OK && !gpud_access_admits(access, fd, &found)) {
        bool group = access->kind == GPUD_ACCESS_GROUP;
        status = gpud_fail(&why, GPUD_NO_ACCESS,
                           "the sender at %s belongs to %s%s%s, and this is %s: set "
                           "access=group:NAME or access=all here too, if its pictures may be shown",
                           path, gpud_user_name(found.uid, other),
                           group ? ", who is not in the group " : "", access->group_name,
                           gpud_user_name(geteuid(), own));
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
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    enum gpud_status status;
    int made = new_socket(error);
    if (made < 0)
        return GPUD_NO_MEMORY;
    memcpy(name.sun_path, path, strlen(path) + 1);
    if (connect(made, (struct sockaddr *)&name, sizeof(name)) == 0)
        status = check_sender(access ? access : &own_user, made, path, peer, error);
    else if (errno == ENOENT || errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR)
        status = gpud_fail(error, GPUD_AGAIN, "no sender listens on %s", path);
    else if (errno == EACCES)
        status = explain_closed(path, error);
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
    struct stat st;
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    enum gpud_status status;
    int made = -1, file = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return gpud_fail(error, GPUD_CLOSED, "no sender listens on %s", path);
        if (errno == EACCES)
            return explain_closed(path, error);
        return gpud_fail_errno(error, "cannot look at %s", path);
    }
    /* Through the opened file: a moment later its name may be another file's. */
    gpud_print(name.sun_path, "/proc/self/fd/%d", file);
    if (fstat(file, &st) < 0)
        status = gpud_fail_errno(error, "cannot look at %s", path);
    else if (!S_ISSOCK(st.st_mode))
        status = gpud_fail(error, GPUD_CLOSED, "%s is not a socket", path);
    else if (!any_owner && st.st_uid != geteuid())
        status = gpud_fail(error, GPUD_NO_ACCESS, "%s belongs to user %u, not %u", path, st.st_uid,
                           geteuid());
    else if ((made = new_socket(error)) < 0)
        status = GPUD_NO_MEMORY;
    else if (connect(made, (struct sockaddr *)&name, sizeof(name)) == 0)
        status = check_sender(any_owner ? &every_user : &own_user, made, path, peer, error);
    else if (errno == EAGAIN)
        status = gpud_fail(error, GPUD_AGAIN, "too many connections are waiting for %s", path);
    else if (errno == ECONNREFUSED)
        status = gpud_fail(error, GPUD_CLOSED, "no sender listens on %s", path);
    else if (errno == EACCES)
        status = explain_closed(path, error);
    else
        status = gpud_fail_errno(error, "cannot connect to %s", path);
    if (status == GPUD_OK)
        *fd = made;
    else if (made >= 0)
        close(made);
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

enum gpud_status gpud_socket_receive(int fd, struct gpud_message *message, struct gpud_error *error)
{
    uint8_t bytes[GPUD_MESSAGE_MAX + 1]; /* one more, to detect a longer message */
    int fds[KERNEL_FDS];                 /* room for all, so that none leaks */
    struct gpud_handle *handles[GPUD_MESSAGE_HANDLES];
    struct rlimit limit = {0};
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
    size_t count = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(&header); part; part = CMSG_NXTHDR(&header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds + count, CMSG_DATA(part), here * sizeof(int));
        count += here;
    }
    enum gpud_status status;
    if (got == 0 && count == 0)
        return gpud_fail(error, GPUD_CLOSED, "the peer closed the connection");
    if (header.msg_flags & MSG_TRUNC || (size_t)got > GPUD_MESSAGE_MAX) {
        status = gpud_fail(error, GPUD_PEER, "the peer sent more than a message holds");
    } else if (header.msg_flags & MSG_CTRUNC) {
        /* The control buffer holds as many descriptors as the kernel allows: if some are missing,
         * this process has reached its limit. */
        getrlimit(RLIMIT_NOFILE, &limit);
        status = gpud_fail(error, GPUD_NO_MEMORY,
                           "no descriptors are left for those that came with a message: this "
                           "process may have %llu; raise its limit (ulimit -n), or close some",
                           (unsigned long long)limit.rlim_cur);
    } else {
        status = gpud_message_decode(message, bytes, (size_t)got, error);
    }
    size_t wanted = status == GPUD_OK ? gpud_message_attachments(message, handles) : 0;
    if (status == GPUD_OK && count != wanted)
        status = gpud_fail(error, GPUD_PEER, "the peer sent %zu descriptors with a %s that has %zu",
                           count, gpud_message_name(message->type), wanted);
    for (size_t i = 0; i < count; i++) {
        if (status == GPUD_OK)
            handles[i]->fd = fds[i];
        else
            close(fds[i]);
    }
    return status;
}

/* === listen ================================================================================== */
/* How a path is claimed, listened on, and given up. */

/* With the lock that the caller has taken, which is the listener's from then on; on failure it is
 * dropped. */
static enum gpud_status listen_locked(struct gpud_socket_listener *listener, const char *path,
                                      int lock, const struct gpud_access_rule *access,
                                      struct gpud_error *error)
{
    struct gpud_socket_listener made = {.fd = -1, .lock = lock};
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct stat st;
    if (access)
        made.access = *access;
    memcpy(made.path, path, strlen(path) + 1);
    memcpy(name.sun_path, path, strlen(path) + 1);

    /* The lock is held, so any socket there is left over from a dead process. */
    enum gpud_status status = GPUD_OK;
    bool exists = lstat(path, &st) == 0;
    if (exists && !S_ISSOCK(st.st_mode))
        status =
            gpud_fail(error, GPUD_NO_ACCESS, "%s exists and is not a socket: move it away", path);
    else if (exists && unlink(path) < 0)
        status = gpud_fail_errno(error, "cannot remove the stale socket %s", path);
    if (status != GPUD_OK)
        goto fail;
    made.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made.fd < 0) {
        status = gpud_fail_errno(error, "cannot create a socket");
        goto fail;
    }
    gpud_fd_keep_from_children(made.fd);
    /* Before bind(), so that the file never has another mode, regardless of the umask. */
    if (fchmod(made.fd, 0600) < 0 || bind(made.fd, (struct sockaddr *)&name, sizeof(name)) < 0) {
        status = gpud_fail_errno(error, "cannot make the socket %s", path);
        goto fail;
    }
    if (made.access.kind != GPUD_ACCESS_USER)
        status = open_to_others(&made.access, path, error);
    if (status == GPUD_OK && listen(made.fd, 64) < 0)
        status = gpud_fail_errno(error, "cannot listen on %s", path);
    if (status != GPUD_OK) {
        unlink(path);
        goto fail;
    }
    *listener = made;
    return GPUD_OK;
fail:
    gpud_fd_close(&made.fd);
    gpud_lock_file_drop(made.path, &made.lock);
    return status;
}

enum gpud_status gpud_socket_listen(struct gpud_socket_listener *listener, const char *path,
                                    const struct gpud_access_rule *access, struct gpud_error *error)
{
    int lock;
    enum gpud_status status = gpud_lock_file_take(path, &lock, error);
    return status == GPUD_OK ? listen_locked(listener, path, lock, access, error) : status;
}

void gpud_socket_unlisten(struct gpud_socket_listener *listener)
{
    if (listener->fd < 0)
        return;
    unlink(listener->path);
    gpud_fd_close(&listener->fd);
    gpud_lock_file_drop(listener->path, &listener->lock);
}

/* === farewell ================================================================================ */
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

static void say_all(atomic_int *places, enum gpud_farewell what, const uint8_t *bye, size_t size)
{
    for (int i = 0; i < PLACES; i++) {
        int entry = atomic_load(&places[i]);
        if (entry == FREE || entry == BUSY || WHAT_OF(entry) != what ||
            !atomic_compare_exchange_strong(&places[i], &entry, BUSY))
            continue;
        if (what == GPUD_FAREWELL_UNLISTEN)
            shutdown(FD_OF(entry), SHUT_RDWR);
        else
            send(FD_OF(entry), bye, size, MSG_DONTWAIT | MSG_NOSIGNAL);
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

struct unix_listener {
    struct gpud_listener base;          /* first */
    struct gpud_socket_listener socket; /* while it stands by, what it is to listen on */
    atomic_int farewell;
    struct gpud_lock_wait wait; /* while it stands by; -1 else */
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
    struct unix_channel *made = calloc(1, sizeof(*made));
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
    enum gpud_status status = check_address(access, address->text, address->place, error);
    if (status != GPUD_OK)
        return status;
    struct unix_listener *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a socket");
    made->base.ops = &gpud_unix_channel_ops;
    made->base.fd = made->wait.events = made->wait.file = -1;
    if (access)
        made->socket.access = *access;
    gpud_print(made->socket.path, "%s", address->place);
    *listener = made;
    return GPUD_OK;
}

/* The socket listens: announces it. */
static void channel_begin(struct unix_listener *listener)
{
    listener->base.fd = listener->socket.fd;
    farewell_add(listener->base.fd, GPUD_FAREWELL_UNLISTEN, &listener->farewell);
    struct gpud_error unlisted; /* not fatal: only lists of channels use it */
    if (gpud_registry_add(listener->socket.path, &unlisted) != GPUD_OK)
        gpud_print(listener->base.note, "not in lists of channels: %s", unlisted.reason);
    /* Watchers saw the socket before it could be queried. */
    gpud_registry_touch(listener->socket.path);
}

static enum gpud_status channel_listen_on(const struct gpud_address *address,
                                          const struct gpud_access_rule *access,
                                          struct gpud_listener **listener, struct gpud_error *error)
{
    struct unix_listener *made = NULL;
    enum gpud_status status = create_listener(address, access, &made, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_socket_listen(&made->socket, made->socket.path, access, error);
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
    const char *path = listener->socket.path;
    enum gpud_status status = gpud_lock_wait_try(&listener->wait, path, &lock, error);
    if (status == GPUD_OK)
        status = listen_locked(&listener->socket, path, lock, &listener->socket.access, error);
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
        gpud_registry_touch(((struct unix_listener *)listener)->socket.path);
}

static void unlisten(struct gpud_listener *listener)
{
    struct unix_listener *gone = (struct unix_listener *)listener;
    gpud_lock_wait_end(&gone->wait);
    if (atomic_load(&listener->stands_by)) {
        free(gone);
        return;
    }
    gpud_registry_remove(gone->socket.path);
    if (!farewell_remove(&gone->farewell))
        return; /* the process ends */
    gpud_socket_unlisten(&gone->socket);
    free(gone);
}

static enum gpud_status accept_on(struct gpud_socket_listener *listener,
                                  struct gpud_channel **channel, struct gpud_peer *peer,
                                  struct gpud_error *error)
{
    int fd;
    enum gpud_status status = gpud_socket_accept(listener, &fd, peer, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_unix_channel_create(fd, peer, channel, error);
    if (status != GPUD_OK)
        gpud_fd_close(&fd);
    return status;
}

static enum gpud_status accept_one(struct gpud_listener *listener, struct gpud_channel **channel,
                                   struct gpud_peer *peer, struct gpud_error *error)
{
    return accept_on(&((struct unix_listener *)listener)->socket, channel, peer, error);
}

/* --- connecting ---------------------------------------------------------------------------- */

static enum gpud_status connect_to(const struct gpud_address *address,
                                   const struct gpud_access_rule *access,
                                   struct gpud_channel **channel, struct gpud_peer *peer,
                                   struct gpud_error *error)
{
    int fd;
    enum gpud_status status;
    if (access) {
        status = gpud_socket_connect(address->place, access, &fd, peer, error);
    } else {
        /* A stopped sender is not queried: the unread query would occupy a place in its queue. */
        peer->pid = gpud_lock_find(address->place, address->any_owner);
        if (gpud_process_is_stopped(peer->pid))
            return gpud_fail(error, GPUD_AGAIN, "the sender on %s is stopped", address->place);
        status = gpud_socket_reach(address->place, address->any_owner, &fd, peer, error);
    }
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

static enum gpud_status receive_query(struct gpud_channel *channel, struct gpud_message *message,
                                      struct gpud_error *error)
{
    enum gpud_status status = gpud_socket_receive(channel->fd, message, error);
    if (status != GPUD_OK || message->type == GPUD_MESSAGE_QUERY)
        return status;
    gpud_message_close(message);
    return gpud_fail(error, GPUD_UNSUPPORTED,
                     "this socket only answers queries: receive from the network address, with "
                     "its key");
}

enum gpud_status gpud_unix_accept_query(struct gpud_socket_listener *listener,
                                        struct gpud_channel **channel, struct gpud_peer *peer,
                                        struct gpud_error *error)
{
    static const struct gpud_channel_ops ops = {
        .send = channel_send_message,
        .receive = receive_query,
        .is_dead = channel_is_dead,
        .hang_up = channel_hang_up,
        .close = channel_close_channel,
    };
    enum gpud_status status = accept_on(listener, channel, peer, error);
    if (status == GPUD_OK)
        (*channel)->ops = &ops;
    return status;
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
