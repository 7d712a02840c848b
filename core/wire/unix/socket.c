/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/unix/socket.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

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
static enum gpud_status reach(int file, const char *path, bool any_owner, int *fd,
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
    enum gpud_status status = reach(file, path, any_owner, fd, peer, error);
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
