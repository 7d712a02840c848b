/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads the key from a file that only its owner can use, and decides where none is needed. */
#include "base/fd.h"
#include "wire/auth.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAKE "(umask 077; head -c 32 /dev/urandom | base64 > %s)"

static enum gpud_status refuse_kind(const char *path, struct gpud_error *error)
{
    return gpud_fail(error, GPUD_INVALID,
                     "%s is no regular file, which a key has to be in: " MAKE " makes one", path,
                     path);
}

static enum gpud_status refuse_open(const char *path, struct gpud_error *error)
{
    switch (errno) {
    case ENOENT:
    case ENOTDIR:
        return gpud_fail_native(error, GPUD_INVALID, "errno", errno,
                                "there is no key file %s: " MAKE
                                " makes one, to be copied to the other host",
                                path, path);
    case ENXIO: /* a socket */
    case ENODEV:
        return refuse_kind(path, error);
    case EACCES:
        return gpud_fail_native(error, GPUD_NO_ACCESS, "errno", errno,
                                "user %u, as whom this program runs, may not read the key file %s: "
                                "chown %u %s",
                                geteuid(), path, geteuid(), path);
    default:
        return gpud_fail_errno(error, "cannot open the key file %s", path);
    }
}

static enum gpud_status check_file(int fd, const char *path, struct gpud_error *error)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return gpud_fail_errno(error, "cannot look at the key file %s", path);
    if (!S_ISREG(st.st_mode))
        return refuse_kind(path, error);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "the key file %s belongs to user %u, neither to user %u, as whom this "
                         "program runs, nor to root: chown %u %s",
                         path, st.st_uid, geteuid(), geteuid(), path);
    if (st.st_mode & 077)
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "users other than its owner can use the key file %s (mode %04o): "
                         "chmod 600 %s",
                         path, st.st_mode & 07777, path);
    return GPUD_OK;
}

/* Reads up to the end of the file or of the buffer. */
static enum gpud_status read_bytes(int fd, uint8_t *bytes, size_t room, size_t *size)
{
    *size = 0;
    while (*size < room) {
        ssize_t got = read(fd, bytes + *size, room - *size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return GPUD_IO;
        if (got == 0)
            break;
        *size += (size_t)got;
    }
    return GPUD_OK;
}

static enum gpud_status take_key(int fd, const char *path, struct gpud_auth_key *key,
                                 struct gpud_error *error)
{
    uint8_t bytes[GPUD_AUTH_KEY_MAX + 2]; /* room for the newline, and to detect excess */
    size_t size;
    enum gpud_status status = GPUD_OK;
    if (read_bytes(fd, bytes, sizeof(bytes), &size) != GPUD_OK)
        status = gpud_fail_errno(error, "cannot read the key file %s", path);
    if (status == GPUD_OK && size > 0 && bytes[size - 1] == '\n')
        size--;
    if (status == GPUD_OK && size < GPUD_AUTH_KEY_MIN)
        status = gpud_fail(error, GPUD_INVALID,
                           "the key in %s has %zu bytes, and %d is the minimum: " MAKE
                           " makes a good one",
                           path, size, GPUD_AUTH_KEY_MIN, path);
    if (status == GPUD_OK && size > GPUD_AUTH_KEY_MAX)
        status = gpud_fail(error, GPUD_INVALID,
                           "%s has more than %d bytes, the maximum for a key: " MAKE " makes one",
                           path, GPUD_AUTH_KEY_MAX, path);
    if (status == GPUD_OK) {
        gpud_auth_wipe_key(key);
        memcpy(key->bytes, bytes, size);
        key->size = size;
    }
    explicit_bzero(bytes, sizeof(bytes));
    return status;
}

enum gpud_status gpud_auth_read_key(const char *path, struct gpud_auth_key *key,
                                    struct gpud_error *error)
{
    /* Without O_NONBLOCK, opening a FIFO would wait for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return refuse_open(path, error);
    enum gpud_status status = check_file(fd, path, error);
    if (status == GPUD_OK)
        status = take_key(fd, path, key, error);
    gpud_fd_close(&fd);
    return status;
}

void gpud_auth_wipe_key(struct gpud_auth_key *key)
{
    explicit_bzero(key, sizeof(*key));
}

/* --- without a key ---------------------------------------------------------------------------- */

/* Also writes the address to *text. */
static bool is_loopback(const struct sockaddr *address, char text[INET6_ADDRSTRLEN])
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    switch (address->sa_family) {
    case AF_INET:
        memcpy(&v4, address, sizeof(v4));
        inet_ntop(AF_INET, &v4.sin_addr, text, INET6_ADDRSTRLEN);
        return ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    case AF_INET6:
        memcpy(&v6, address, sizeof(v6));
        inet_ntop(AF_INET6, &v6.sin6_addr, text, INET6_ADDRSTRLEN);
        return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) && v6.sin6_addr.s6_addr[12] == IN_LOOPBACKNET);
    default:
        gpud_print_n(text, INET6_ADDRSTRLEN, "of family %u", address->sa_family);
        return false;
    }
}

enum gpud_status gpud_auth_may_listen(const struct sockaddr *address, bool has_key,
                                      bool unauthenticated_allowed, struct gpud_error *error)
{
    char text[INET6_ADDRSTRLEN];
    if (is_loopback(address, text) || has_key || unauthenticated_allowed)
        return GPUD_OK;
    return gpud_fail(error, GPUD_NO_ACCESS,
                     "without a key anyone who can reach the address %s could connect: set "
                     "psk-file=PATH at both ends, to copies of one file, which " MAKE
                     " makes, or allow-unauthenticated=true where everyone on the network is "
                     "trusted",
                     text, "PATH");
}
