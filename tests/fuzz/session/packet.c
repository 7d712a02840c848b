/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "middle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int packet_receive(struct packet *packet, int fd)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(253 * sizeof(int))];
    struct iovec data = {.iov_base = packet->bytes, .iov_len = sizeof(packet->bytes)};
    struct msghdr header = {.msg_iov = &data,
                            .msg_iovlen = 1,
                            .msg_control = control,
                            .msg_controllen = sizeof(control)};
    packet->fd_count = packet->own_count = 0;
    ssize_t got = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got <= 0)
        return got < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
    packet->size = (size_t)got;
    struct cmsghdr *part = CMSG_FIRSTHDR(&header);
    if (part && part->cmsg_type == SCM_RIGHTS) {
        packet->own_count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        if (packet->own_count > PACKET_FDS)
            abort(); /* an honest end never sends so many */
        memcpy(packet->own, CMSG_DATA(part), packet->own_count * sizeof(int));
    }
    packet->fd_count = packet->own_count;
    memcpy(packet->fds, packet->own, sizeof(packet->fds));
    return 1;
}

/* A peer that does not read loses it. */
void packet_send(const struct packet *packet, int fd)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(PACKET_FDS * sizeof(int))];
    struct iovec data = {.iov_base = (void *)packet->bytes, .iov_len = packet->size};
    struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1};
    if (fd < 0)
        return;
    if (packet->fd_count) {
        memset(control, 0, sizeof(control));
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(packet->fd_count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(packet->fd_count * sizeof(int));
        memcpy(CMSG_DATA(rights), packet->fds, packet->fd_count * sizeof(int));
    }
    (void)!sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void packet_take(struct packet *packet, int fd)
{
    if (packet->own_count == PACKET_FDS)
        abort();
    packet->own[packet->own_count++] = fd;
}

struct packet *packet_copy(const struct packet *packet)
{
    struct packet *copy = malloc(sizeof(*copy));
    if (!copy)
        abort();
    *copy = *packet;
    copy->own_count = 0;
    for (size_t i = 0; i < copy->fd_count; i++) {
        copy->fds[i] = fcntl(packet->fds[i], F_DUPFD_CLOEXEC, 3);
        if (copy->fds[i] < 0)
            abort();
        packet_take(copy, copy->fds[i]);
    }
    return copy;
}

void packet_free(struct packet *packet)
{
    if (!packet)
        return;
    for (size_t i = 0; i < packet->own_count; i++)
        close(packet->own[i]);
    free(packet);
}
