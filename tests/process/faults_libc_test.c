/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* System calls that fail: no memory, no descriptors, no threads. The linker wraps the functions
 * below for the library's objects (see meson.build). */
#include "faults.h"
#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* FUNCTION(name, result, parameters, arguments, the result on failure, errno). */
#define FUNCTIONS(FUNCTION)                                                                        \
    FUNCTION(calloc, void *, (size_t count, size_t size), (count, size), NULL, ENOMEM)             \
    FUNCTION(malloc, void *, (size_t size), (size), NULL, ENOMEM)                                  \
    FUNCTION(reallocarray, void *, (void *old, size_t count, size_t size), (old, count, size),     \
             NULL, ENOMEM)                                                                         \
    FUNCTION(mmap64, void *, (void *at, size_t size, int prot, int flags, int fd, off_t offset),   \
             (at, size, prot, flags, fd, offset), MAP_FAILED, ENOMEM)                              \
    FUNCTION(memfd_create, int, (const char *name, unsigned flags), (name, flags), -1, EMFILE)     \
    FUNCTION(ftruncate64, int, (int fd, off_t size), (fd, size), -1, ENOSPC)                       \
    FUNCTION(fstat64, int, (int fd, struct stat *status), (fd, status), -1, EIO)                   \
    FUNCTION(fstatfs64, int, (int fd, struct statfs64 *fs), (fd, fs), -1, EIO)                     \
    FUNCTION(fchmod, int, (int fd, mode_t mode), (fd, mode), -1, EPERM)                            \
    FUNCTION(mkdir, int, (const char *path, mode_t mode), (path, mode), -1, EACCES)                \
    FUNCTION(flock, int, (int fd, int operation), (fd, operation), -1, ENOLCK)                     \
    FUNCTION(eventfd, int, (unsigned count, int flags), (count, flags), -1, EMFILE)                \
    FUNCTION(socket, int, (int domain, int type, int protocol), (domain, type, protocol), -1,      \
             EMFILE)                                                                               \
    FUNCTION(bind, int, (int fd, const struct sockaddr *address, socklen_t size),                  \
             (fd, address, size), -1, EACCES)                                                      \
    FUNCTION(listen, int, (int fd, int backlog), (fd, backlog), -1, EADDRINUSE)                    \
    FUNCTION(connect, int, (int fd, const struct sockaddr *address, socklen_t size),               \
             (fd, address, size), -1, EAGAIN)                                                      \
    FUNCTION(accept4, int, (int fd, struct sockaddr *address, socklen_t *size, int flags),         \
             (fd, address, size, flags), -1, EMFILE)                                               \
    FUNCTION(getsockopt, int, (int fd, int level, int name, void *value, socklen_t *size),         \
             (fd, level, name, value, size), -1, ENOMEM)                                           \
    FUNCTION(sendmsg, ssize_t, (int fd, const struct msghdr *message, int flags),                  \
             (fd, message, flags), -1, ENOBUFS)                                                    \
    FUNCTION(recvmsg, ssize_t, (int fd, struct msghdr *message, int flags), (fd, message, flags),  \
             -1, ENOMEM)                                                                           \
    FUNCTION(poll, int, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout),   \
             -1, ENOMEM)                                                                           \
    FUNCTION(                                                                                      \
        ppoll, int,                                                                                \
        (struct pollfd * fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask), \
        (fds, count, timeout, mask), -1, ENOMEM)                                                   \
    FUNCTION(getrandom, ssize_t, (void *data, size_t size, unsigned flags), (data, size, flags),   \
             -1, EAGAIN)                                                                           \
    FUNCTION(                                                                                      \
        pthread_create, int,                                                                       \
        (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg),   \
        (thread, attributes, run, arg), EAGAIN, EAGAIN)

static const char *const functions[] = {
#define NAME(name, result, arguments, values, failure, error) #name,
    FUNCTIONS(NAME)
#undef NAME
        "open64",
    "fcntl64",
};

static atomic_uint failed;

static unsigned failures(void)
{
    return atomic_load(&failed);
}

/* Counts a call of this function; true: this call must fail. */
static bool fails(const char *function, atomic_uint *calls)
{
    const char *rule = getenv("GPUD_TEST_FAIL");
    size_t length = strlen(function);
    if (!rule || strncmp(rule, function, length) != 0 || rule[length] != ':' ||
        atomic_fetch_add(calls, 1) + 1 != strtoul(rule + length + 1, NULL, 10))
        return false;
    atomic_fetch_add(&failed, 1);
    return true;
}

#define WRAP(name, result, arguments, values, failure, error) \
    result __real_##name arguments;                           \
    result __wrap_##name arguments;                           \
    result __wrap_##name arguments                            \
    {                                                         \
        static atomic_uint calls;                             \
        if (!fails(#name, &calls))                            \
            return __real_##name values;                      \
        errno = error;                                        \
        return failure;                                       \
    }
FUNCTIONS(WRAP)
#undef WRAP

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
    static atomic_uint calls;
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    if (!fails("open64", &calls))
        return __real_open64(path, flags, mode);
    errno = EMFILE;
    return -1;
}

int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...)
{
    static atomic_uint calls;
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (!fails("fcntl64", &calls))
        return __real_fcntl64(fd, command, argument);
    errno = EMFILE;
    return -1;
}

int main(int argc, char **argv)
{
    static const struct faults faults = {
        .origin = "the system",
        .variable = "GPUD_TEST_FAIL",
        .function = functions,
        .count = sizeof(functions) / sizeof(functions[0]),
        .failures = failures,
    };
    return faults_main(&faults, argc, argv);
}
