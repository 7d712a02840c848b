/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages as bytes and descriptors, for tests that bend them on their way. */
#ifndef GPUD_TESTS_ENCODE_H
#define GPUD_TESTS_ENCODE_H

#include "wire/wire.h"

#include <string.h>
#include <sys/socket.h>

/* The length. The descriptors are borrowed from the message; a handle that lacks its own brings
 * none. Of what the library would not send, the header alone. */
static inline size_t encode_message(struct gpud_message *message, uint8_t bytes[GPUD_MESSAGE_MAX],
                                    int fds[GPUD_MESSAGE_HANDLES], size_t *fd_count)
{
    struct gpud_handle *handles[GPUD_MESSAGE_HANDLES];
    size_t size, count = gpud_message_attachments(message, handles);
    if (gpud_message_encode(message, bytes, GPUD_MESSAGE_MAX, &size, NULL) != GPUD_OK) {
        const uint32_t header[4] = {GPUD_MESSAGE_MAGIC,
                                    GPUD_MESSAGE_VERSION | (uint32_t)message->type << 16,
                                    sizeof(header), message->position};
        memcpy(bytes, header, sizeof(header));
        size = sizeof(header);
    }
    *fd_count = 0;
    for (size_t i = 0; i < count; i++)
        if (handles[i]->fd >= 0)
            fds[(*fd_count)++] = handles[i]->fd;
    return size;
}

/* Sends bytes and descriptors as they are, and does not wait. false: they were not taken. */
static inline bool encode_send(int socket, const void *bytes, size_t size, const int *fds,
                               size_t fd_count)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(253 * sizeof(int))] = {0};
    struct iovec data = {.iov_base = (void *)bytes, .iov_len = size};
    struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1};
    if (fd_count) {
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, fd_count * sizeof(int));
    }
    return sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

/* A ring page as a handle. */
static inline struct gpud_handle encode_page(int fd)
{
    return (struct gpud_handle){.type = GPUD_HANDLE_MEMFD, .fd = fd, .size = 65536};
}

#endif
