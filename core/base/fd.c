/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Descriptors, and the directory that sockets lie in. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* === fd ====================================================================================== */

#define WAIT_SLICE (20 * GPUD_MSEC)

#ifndef F_SEAL_FUTURE_WRITE /* Linux 5.1; older C libraries do not name it */
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

bool gpud_file_fits(uint64_t size, uint64_t *limit)
{
    struct rlimit allowed;
    if (getrlimit(RLIMIT_FSIZE, &allowed) < 0)
        allowed.rlim_cur = RLIM_INFINITY;
    *limit = allowed.rlim_cur;
    return allowed.rlim_cur == RLIM_INFINITY || size <= allowed.rlim_cur;
}

/* Reports a failed mmap(). Names a limit on the address space, because the machine may have memory
 * to spare. */
static enum gpud_status not_mapped(const char *whose, uint64_t size, struct gpud_error *error)
{
    int code = errno;
    struct rlimit allowed;
    if (code == ENOMEM && getrlimit(RLIMIT_AS, &allowed) == 0 && allowed.rlim_cur != RLIM_INFINITY)
        return gpud_fail_native(error, GPUD_NO_MEMORY, "errno", code,
                                "cannot map %s of %llu bytes: process %d may have an address space "
                                "of %llu MiB: raise its limit (ulimit -v)",
                                whose, (unsigned long long)size, (int)getpid(),
                                (unsigned long long)allowed.rlim_cur >> 20);
    errno = code;
    return gpud_fail_errno(error, "cannot map %s of %llu bytes", whose, (unsigned long long)size);
}

enum gpud_status gpud_memfd_create(const char *name, uint64_t size, enum gpud_share share, int *fd,
                                   void **data, struct gpud_error *error)
{
    enum gpud_status status;
    int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    if (share == GPUD_SHARE_READ_ONLY)
        seals |= F_SEAL_FUTURE_WRITE; /* does not touch the mapping made below */
    if (share != GPUD_SHARE_LATER)
        seals |= F_SEAL_SEAL;

    uint64_t limit;
    if (!gpud_file_fits(size, &limit))
        return gpud_fail(error, GPUD_NO_MEMORY,
                         "shared memory of %llu bytes is a file, and this process's files may have "
                         "%llu: raise its limit (ulimit -f)",
                         (unsigned long long)size, (unsigned long long)limit);
    int new_fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (new_fd < 0)
        return gpud_fail_errno(error, "cannot create shared memory");
    if (ftruncate(new_fd, (off_t)size) < 0) {
        status = gpud_fail_errno(error, "cannot make shared memory of %llu bytes",
                                 (unsigned long long)size);
        goto fail;
    }
    void *new_data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, new_fd, 0);
    if (new_data == MAP_FAILED) {
        status = not_mapped("shared memory", size, error);
        goto fail;
    }
    if (fcntl(new_fd, F_ADD_SEALS, seals) < 0) {
        status = gpud_fail_errno(error, "cannot seal shared memory (Linux 5.1 or later is needed)");
        munmap(new_data, size);
        goto fail;
    }
    *fd = new_fd;
    *data = new_data;
    return GPUD_OK;
fail:
    close(new_fd);
    return status;
}

enum gpud_status gpud_memfd_close_writing(int fd, struct gpud_error *error)
{
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals >= 0 && seals & F_SEAL_FUTURE_WRITE)
        return GPUD_OK;
    if (seals < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0)
        return gpud_fail_errno(error, "cannot seal shared memory (Linux 5.1 or later is needed)");
    return GPUD_OK;
}

enum gpud_status gpud_memfd_check(int fd, uint64_t size, struct gpud_error *error)
{
    struct statfs fs;
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0)
        return gpud_fail(error, GPUD_PEER, "the peer sent a descriptor that is not a memfd");
    if (!(seals & F_SEAL_SHRINK))
        return gpud_fail(error, GPUD_PEER,
                         "the peer sent shared memory that is not sealed against shrinking");
    /* Huge pages come from a pool: when it is empty, accessing even a sealed memfd of the right
     * size kills with SIGBUS. */
    if (fstatfs(fd, &fs) < 0)
        return gpud_fail_errno(error, "cannot determine the type of the peer's shared memory");
    if (fs.f_type == HUGETLBFS_MAGIC)
        return gpud_fail(error, GPUD_PEER,
                         "the peer sent shared memory of huge pages (MFD_HUGETLB), which the "
                         "machine may run out of: ordinary pages alone are taken");
    if (fs.f_type != TMPFS_MAGIC)
        return gpud_fail(error, GPUD_PEER,
                         "the peer sent shared memory that is not of ordinary pages (file system "
                         "%lx): these alone are taken",
                         (unsigned long)fs.f_type);
    if (fstat(fd, &st) < 0)
        return gpud_fail_errno(error, "cannot measure the peer's shared memory");
    if (!S_ISREG(st.st_mode))
        return gpud_fail(error, GPUD_PEER, "the peer sent a descriptor that is not a memfd");
    if (size == 0 || st.st_size < 0 || (uint64_t)st.st_size < size)
        return gpud_fail(error, GPUD_PEER,
                         "the peer's shared memory has %lld bytes where %llu are needed",
                         (long long)st.st_size, (unsigned long long)size);
    return GPUD_OK;
}

enum gpud_status gpud_memfd_map(int fd, uint64_t size, bool writable, void **data,
                                struct gpud_error *error)
{
    enum gpud_status status = gpud_memfd_check(fd, size, error);
    if (status != GPUD_OK)
        return status;
    void *mapped = mmap(NULL, size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        return not_mapped("the peer's shared memory", size, error);
    *data = mapped;
    return GPUD_OK;
}

bool gpud_memory_unmap_pages(void *data, uint64_t size)
{
    return !data || munmap(data, size) == 0;
}

void gpud_event_raise(int fd)
{
    uint64_t one = 1;
    ssize_t written = fd >= 0 ? write(fd, &one, sizeof(one)) : 0;
    (void)written; /* the count does not matter */
}

void gpud_event_drain(int fd)
{
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof(count));
    (void)got; /* the count does not matter */
}

bool gpud_fd_watch(int epoll, int fd)
{
    struct epoll_event readable = {.events = EPOLLIN};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &readable) == 0;
}

bool gpud_fd_type(int fd, mode_t *type)
{
    struct statx file;
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &file) != 0)
        return false;
    *type = file.stx_mode & S_IFMT;
    return true;
}

bool gpud_fd_is_dmabuf(int fd)
{
    struct statfs fs;
    mode_t type;
    return gpud_fd_type(fd, &type) && type == 0 && fstatfs(fd, &fs) == 0 &&
           fs.f_type == DMA_BUF_MAGIC;
}

/* --- children ------------------------------------------------------------------------------ */

/* Descriptors that children do not keep, a bit for each; higher numbers they do keep. */
#define KEPT_FROM 65536

static _Atomic uint64_t kept_from[KEPT_FROM / 64];
static pthread_once_t kept_from_once = PTHREAD_ONCE_INIT;

/* In a child of fork(), of whose threads this is the only one: without locks or memory. The number
 * stays in use, because the child has a copy of what closes it. */
static void drop_in_child(void)
{
    int nothing = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    for (size_t i = 0; i < KEPT_FROM / 64; i++) {
        for (uint64_t left = atomic_load(&kept_from[i]); left; left &= left - 1) {
            int fd = (int)(i * 64) + __builtin_ctzll(left);
            if (nothing < 0 || dup3(nothing, fd, O_CLOEXEC) < 0)
                close(fd);
        }
        atomic_store(&kept_from[i], 0);
    }
    if (nothing >= 0)
        close(nothing);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, drop_in_child);
}

void gpud_fd_keep_from_children(int fd)
{
    pthread_once(&kept_from_once, watch_forks);
    if (fd >= 0 && fd < KEPT_FROM)
        atomic_fetch_or(&kept_from[fd / 64], UINT64_C(1) << fd % 64);
}

void gpud_fd_let_children_keep(int fd)
{
    if (fd >= 0 && fd < KEPT_FROM)
        atomic_fetch_and(&kept_from[fd / 64], ~(UINT64_C(1) << fd % 64));
}

void gpud_fd_close(int *fd)
{
    gpud_fd_let_children_keep(*fd);
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

enum gpud_status gpud_fd_wait(int fd, int64_t deadline, const atomic_bool *interrupted)
{
    return gpud_fd_wait_both(fd, -1, deadline, interrupted);
}

enum gpud_status gpud_fd_wait_both(int fd, int other, int64_t deadline,
                                   const atomic_bool *interrupted)
{
    struct pollfd wait[] = {{.fd = fd, .events = POLLIN}, {.fd = other, .events = POLLIN}};
    for (;;) {
        if (interrupted && atomic_load(interrupted))
            return GPUD_AGAIN;
        int64_t left = deadline - gpud_now();
        struct timespec slice = gpud_timespec(left < WAIT_SLICE ? left : WAIT_SLICE);
        if (ppoll(wait, 2, &slice, NULL) > 0)
            return GPUD_OK;
        if (left <= 0)
            return GPUD_TIMEOUT;
    }
}

/* === directory =============================================================================== */

bool gpud_is_name(const char *text)
{
    return text[0] && text[0] != '.' && text[strspn(text, GPUD_NAME_CHARACTERS)] == '\0';
}

const char *gpud_runtime_base = "/run/user";

/* Whether only this user can enter it. */
static bool is_private(const struct stat *st)
{
    return S_ISDIR(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & 0077);
}

/* The variable that gives the directory; NULL: none is set. */
static const char *directory_variable(void)
{
    static const char *const given[] = {"GPUDIRECT_DIR", "NVIDIA_DRA_LOCAL_IPC_DIR"};
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        const char *value = getenv(given[i]);
        if (value && value[0])
            return given[i];
    }
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    return runtime && runtime[0] == '/' ? "XDG_RUNTIME_DIR" : NULL;
}

/* The user's directory is the given folder, or lies in it where several users share the folder. No
 * other user may be able to put another directory in its place: the sticky bit prevents that. */
static enum gpud_status find_in_given(const char *variable, char *path, size_t size, int *length,
                                      struct gpud_error *error)
{
    const char *given = getenv(variable);
    struct stat st;
    if (given[0] != '/')
        return gpud_fail(error, GPUD_INVALID, "%s=%s is not an absolute path", variable, given);
    *length = gpud_print_n(path, size, "%s", given);
    if (lstat(given, &st) < 0)
        return errno == ENOENT ? GPUD_OK /* the user's own, to be made */
                               : gpud_fail_errno(error, "cannot examine %s=%s", variable, given);
    if (is_private(&st))
        return GPUD_OK;
    if (!S_ISDIR(st.st_mode))
        return gpud_fail(error, GPUD_NO_ACCESS, "%s=%s is not a directory", variable, given);
    /* In a user namespace the machine's root may have no other number. */
    if (st.st_uid != geteuid() && st.st_uid != 0 && !gpud_host_user_is_ambiguous(st.st_uid))
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "%s=%s belongs to user %u, who could put other sockets there: it has to "
                         "be yours (chmod 700) or root's",
                         variable, given, st.st_uid);
    if (st.st_mode & 0022 && !(st.st_mode & S_ISVTX))
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "%s=%s has mode %o, so that other users could put other sockets there: "
                         "chmod 700 if it is for you alone, 1777 if several users share it",
                         variable, given, st.st_mode & 07777);
    *length = gpud_print_n(path, size, "%s/gpudirect-%u", given, geteuid());
    return GPUD_OK;
}

enum gpud_status gpud_runtime_directory(char *path, size_t size, struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    const char *variable = directory_variable();
    char usual[64];
    struct stat st;
    int length = 0;
    gpud_print(usual, "%s/%u", gpud_runtime_base, geteuid());
    if (variable && strcmp(variable, "XDG_RUNTIME_DIR") != 0)
        status = find_in_given(variable, path, size, &length, error);
    else if (variable)
        length = gpud_print_n(path, size, "%s/gpudirect", getenv(variable));
    else if (lstat(usual, &st) == 0 && is_private(&st))
        length = gpud_print_n(path, size, "%s/gpudirect", usual);
    else
        length = gpud_print_n(path, size, "/tmp/gpudirect-%u", geteuid());
    if (status == GPUD_OK && (length < 0 || (size_t)length >= size))
        status = gpud_fail(error, GPUD_INVALID, "%s is too long for a socket: use unix:/short/path",
                           variable);
    return status;
}

enum gpud_status gpud_private_directory(char *path, size_t size, struct gpud_error *error)
{
    enum gpud_status status = gpud_runtime_directory(path, size, error);
    if (status != GPUD_OK)
        return status;
    if (mkdir(path, 0700) < 0 && errno != EEXIST) {
        const char *variable = directory_variable();
        if (!variable)
            return gpud_fail_errno(error, "cannot make the directory %s for sockets", path);
        return gpud_fail_errno(error,
                               "cannot make the directory %s for sockets (set %s, now %s, to a "
                               "folder that is there and yours, or unset it, or use "
                               "address=unix:/path)",
                               path, variable, getenv(variable));
    }
    struct stat st;
    if (lstat(path, &st) < 0)
        return gpud_fail_errno(error, "cannot examine the directory %s", path);
    if (st.st_uid != geteuid())
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "%s belongs to user %u, who may have taken the name first: set "
                         "GPUDIRECT_DIR to a folder that you alone can enter, or let root "
                         "remove it",
                         path, st.st_uid);
    if (!is_private(&st))
        return gpud_fail(
            error, GPUD_NO_ACCESS,
            "%s is not a directory that you alone can enter: remove it, or chmod 700 it", path);
    return GPUD_OK;
}
