/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The lock of an address. */
#include "wire/unix/unix.h"

#include "base/base.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>
#include <limits.h>

/* === lock ==================================================================================== */

#define PATIENCE (2 * GPUD_SEC)
#define PAUSE (5 * GPUD_MSEC)

/* The kernel reports that a file is closed just before it releases the file's lock. */
#define RELEASE_PATIENCE (20 * GPUD_MSEC)
#define RELEASE_PAUSE (GPUD_MSEC / 2)

/* --- the holder ---------------------------------------------------------------------------- */

/* Reads the number at *text and advances *text past it; 0 without one. */
static uint64_t lock_read_number(const char **text)
{
    char *end;
    if (!isdigit((unsigned char)**text))
        return 0;
    errno = 0;
    unsigned long long number = strtoull(*text, &end, 10);
    *text = end;
    return errno == 0 ? number : 0;
}

/* Reads the process id and its PID namespace from the file. 0: none. */
static pid_t read_signature(int fd, uint64_t *namespace)
{
    char content[64];
    const char *at = content;
    ssize_t got = pread(fd, content, sizeof(content) - 1, 0);
    content[got > 0 ? got : 0] = '\0';
    uint64_t number = lock_read_number(&at);
    at += *at == ' ';
    *namespace = lock_read_number(&at);
    return *at == '\n' && number <= INT_MAX ? (pid_t)number : 0;
}

bool gpud_lock_holder(int fd, char text[GPUD_LOCK_HOLDER_MAX])
{
    char name[32];
    uint64_t namespace;
    pid_t pid = read_signature(fd, &namespace);

    if (pid == 0) {
        gpud_print_n(text, GPUD_LOCK_HOLDER_MAX, "a process that does not say which");
    } else if (namespace != gpud_host_namespace("pid")) {
        gpud_print_n(text, GPUD_LOCK_HOLDER_MAX, "process %ld of another container", (long)pid);
    } else if (pid == getpid()) {
        gpud_print_n(text, GPUD_LOCK_HOLDER_MAX, "this process itself");
        return true;
    } else if (gpud_process_name(pid, name, sizeof(name))) {
        gpud_print_n(text, GPUD_LOCK_HOLDER_MAX, "process %ld (%s)", (long)pid, name);
    } else {
        bool gone = kill(pid, 0) < 0 && errno == ESRCH;
        gpud_print_n(text, GPUD_LOCK_HOLDER_MAX, "%sprocess %ld%s", gone ? "a child of " : "",
                     (long)pid, gone ? ", which is gone" : "");
    }
    return false;
}

/* --- taking the lock ----------------------------------------------------------------------- */

static void path_of(const char *path, char *name, size_t size)
{
    gpud_print_n(name, size, "%s.lock", path);
}

/* Refuses what another user has put there: that user could hold the lock for ever, or remove it
 * from under its holder. */
static enum gpud_status lock_open_file(const char *name, int *fd, struct gpud_error *error)
{
    char other[GPUD_USER_MAX];
    struct stat st;
    enum gpud_status status = GPUD_OK;
    int file = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    int failed = errno;
    bool exists = file < 0 ? lstat(name, &st) == 0 : fstat(file, &st) == 0;
    errno = failed;
    if (exists && !S_ISREG(st.st_mode)) {
        status = gpud_fail(error, GPUD_NO_ACCESS, "%s is not a lock file: move it away", name);
    } else if (exists && st.st_uid != geteuid() && st.st_uid != 0) {
        status = gpud_fail(error, GPUD_NO_ACCESS,
                           "the lock file %s belongs to %s: only senders of one user can have the "
                           "same address, or stand by for each other; stop that user's, or use a "
                           "folder that others cannot write",
                           name, gpud_user_name(st.st_uid, other));
    } else if (file < 0 && failed == ENOENT) {
        int folder = (int)(strrchr(name, '/') - name);
        status = gpud_fail_errno(error,
                                 "there is no folder %.*s for the socket: make it (mkdir -p %.*s), "
                                 "or choose another path",
                                 folder, name, folder, name);
    } else if (file < 0) {
        status = gpud_fail_errno(error, "cannot open the lock file %s", name);
    }
    if (status != GPUD_OK) {
        gpud_fd_close(&file);
        return status;
    }
    gpud_fd_keep_from_children(file);
    *fd = file;
    return GPUD_OK;
}

/* A holder removes the file when it releases the lock, so a file that was opened before may be
 * stale. */
static bool lock_is_current(int fd, const char *name)
{
    struct stat opened, current;
    return fstat(fd, &opened) == 0 && lstat(name, &current) == 0 &&
           opened.st_ino == current.st_ino && opened.st_dev == current.st_dev;
}

/* The lock is taken: signs its file, and locks it by another system call, too. That lock excludes
 * no other sender; it can be looked for without being taken, and so without a standby that finds
 * the lock taken at that very moment. */
static void show_holder(int fd)
{
    char text[64];
    struct stat st;
    uint64_t limit;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    gpud_print(text, "%ld %llu\n", (long)getpid(), (unsigned long long)gpud_host_namespace("pid"));
    size_t size = strlen(text);
    /* Process and namespace only serve messages, so a failure does not matter. With a second name,
     * the file may be other data. */
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
        gpud_file_fits(size, &limit) && pwrite(fd, text, size, 0) == (ssize_t)size) {
        int cut = ftruncate(fd, (off_t)size);
        (void)cut; /* only the first line is read */
    }
    fcntl(fd, F_OFD_SETLK, &whole);
}

static bool has_holder(int fd)
{
    struct flock found = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_GETLK, &found) == 0 && found.l_type != F_UNLCK;
}

/* Tries once. GPUD_AGAIN: another holder has it, described in `holder`, or has just released it;
 * *own: the holder is this process. */
static enum gpud_status try_lock(const char *name, int *lock, char *holder, bool *own,
                                 struct gpud_error *error)
{
    int fd;
    enum gpud_status status = lock_open_file(name, &fd, error);
    if (status != GPUD_OK)
        return status;
    status = GPUD_AGAIN;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        if (lock_is_current(fd, name)) {
            show_holder(fd);
            *lock = fd;
            return GPUD_OK;
        }
    } else if (errno == EWOULDBLOCK) {
        *own = gpud_lock_holder(fd, holder);
    } else {
        status = gpud_fail_errno(error, "cannot lock %s", name);
    }
    gpud_fd_close(&fd);
    return status;
}

enum gpud_status gpud_lock_file_take(const char *path, int *fd, struct gpud_error *error)
{
    char name[GPUD_SOCKET_PATH_MAX + 8], holder[GPUD_LOCK_HOLDER_MAX] = "its holder keeps changing";
    int64_t deadline = gpud_deadline(PATIENCE);
    bool own = false;
    path_of(path, name, sizeof(name));
    for (;;) {
        enum gpud_status status = try_lock(name, fd, holder, &own, error);
        if (status != GPUD_AGAIN)
            return status;
        if (own || gpud_now() >= deadline)
            return gpud_fail_native(
                error, GPUD_IO, "errno", EADDRINUSE,
                "another sender has the address %s: %s; choose another address, or stop it, or "
                "let this one wait for it (standby)",
                path, holder);
        gpud_nap(PAUSE);
    }
}

enum gpud_status gpud_lock_file_try(const char *path, int *fd)
{
    char name[GPUD_SOCKET_PATH_MAX + 8], holder[GPUD_LOCK_HOLDER_MAX];
    bool own;
    path_of(path, name, sizeof(name));
    return try_lock(name, fd, holder, &own, NULL);
}

/* --- waiting for the lock ------------------------------------------------------------------ */

enum gpud_status gpud_lock_wait_begin(struct gpud_lock_wait *wait, struct gpud_error *error)
{
    wait->file = -1;
    wait->events = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (wait->events < 0)
        return gpud_fail_errno(error, "cannot watch the address's lock file (raise "
                                      "fs.inotify.max_user_instances)");
    return GPUD_OK;
}

void gpud_lock_wait_end(struct gpud_lock_wait *wait)
{
    gpud_fd_close(&wait->file);
    gpud_fd_close(&wait->events);
}

/* Opens the current file and watches it: its holder, however it ends, closes a descriptor that can
 * write. Queries open it for reading only, and those that wait keep theirs open, so that they do
 * not wake each other in turn. */
static enum gpud_status watch_file(struct gpud_lock_wait *wait, const char *name,
                                   struct gpud_error *error)
{
    char opened[32];
    enum gpud_status status = lock_open_file(name, &wait->file, error);
    if (status != GPUD_OK)
        return status;
    gpud_print(opened, "/proc/self/fd/%d", wait->file); /* this file, should the name change */
    if (inotify_add_watch(wait->events, opened, IN_CLOSE_WRITE) >= 0)
        return GPUD_OK;
    status = gpud_fail_errno(error, "cannot watch the lock file %s", name);
    gpud_fd_close(&wait->file);
    return status;
}

enum gpud_status gpud_lock_wait_try(struct gpud_lock_wait *wait, const char *path, int *fd,
                                    struct gpud_error *error)
{
    _Alignas(struct inotify_event) char events[1024];
    char name[GPUD_SOCKET_PATH_MAX + 8];
    path_of(path, name, sizeof(name));
    int64_t deadline = gpud_deadline(RELEASE_PATIENCE);
    bool may_be_free = false;
    while (read(wait->events, events, sizeof(events)) > 0)
        may_be_free = true;
    for (;;) {
        if (wait->file < 0) {
            enum gpud_status status = watch_file(wait, name, error);
            if (status != GPUD_OK)
                return status;
            may_be_free = true; /* its event may have been before */
        }
        bool locked = flock(wait->file, LOCK_EX | LOCK_NB) == 0;
        if (!locked && errno != EWOULDBLOCK)
            return gpud_fail_errno(error, "cannot lock %s", name);
        if (locked && lock_is_current(wait->file, name)) {
            show_holder(wait->file);
            *fd = wait->file;
            wait->file = -1;
            return GPUD_OK;
        }
        if (locked)
            gpud_fd_close(&wait->file); /* another holder has come and gone; raises an event */
        if ((!locked && !may_be_free) || gpud_now() >= deadline)
            return GPUD_AGAIN;
        if (!locked)
            gpud_nap(RELEASE_PAUSE);
    }
}

pid_t gpud_lock_find(const char *path, bool any_owner)
{
    char name[GPUD_SOCKET_PATH_MAX + 8];
    struct stat st;
    uint64_t namespace;
    path_of(path, name, sizeof(name));
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return 0;
    pid_t pid = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (any_owner || st.st_uid == geteuid())
                    ? read_signature(fd, &namespace)
                    : 0;
    /* A dead holder has released it, and its process id may have been reused. */
    if (pid && (namespace != gpud_host_namespace("pid") || !has_holder(fd)))
        pid = 0;
    close(fd);
    return pid;
}

bool gpud_lock_is_held(const char *path)
{
    char name[GPUD_SOCKET_PATH_MAX + 8];
    path_of(path, name, sizeof(name));
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool held = fd >= 0 && has_holder(fd);
    gpud_fd_close(&fd);
    return held;
}

void gpud_lock_file_drop(const char *path, int *fd)
{
    char name[GPUD_SOCKET_PATH_MAX + 8];
    path_of(path, name, sizeof(name));
    unlink(name);
    gpud_fd_close(fd);
}
