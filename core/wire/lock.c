/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/lock.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/text.h"
#include "wire/socket.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATIENCE (2 * GPUD_SEC)
#define PAUSE (5 * GPUD_MSEC)

/* --- who has it ---------------------------------------------------------------------------- */

/* Process ids mean something in one PID namespace: two containers may share the file, and each have
 * a process 1. 0: unknown. */
static uint64_t pid_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* The holder's process id and the namespace that it counts in. It is for people alone: where it
 * cannot be written, the lock is taken all the same. */
static void sign(int fd, const struct stat *file)
{
    char text[64];
    uint64_t limit;
    gpud_print(text, "%ld %llu\n", (long)getpid(), (unsigned long long)pid_namespace());
    size_t size = strlen(text);
    /* A second name may be that of somebody's data. */
    if (!S_ISREG(file->st_mode) || file->st_nlink != 1 || !gpud_file_fits(size, &limit))
        return;
    if (pwrite(fd, text, size, 0) == (ssize_t)size && ftruncate(fd, (off_t)size) < 0)
        return; /* what stands behind the line is not read */
}

/* The number at *text, which moves on behind it; 0 where there is none. */
static uint64_t read_number(const char **text)
{
    char *end;
    if (!isdigit((unsigned char)**text))
        return 0;
    errno = 0;
    unsigned long long number = strtoull(*text, &end, 10);
    *text = end;
    return errno == 0 ? number : 0;
}

/* The process's name, for a person who looks for it. */
static bool read_name(pid_t pid, char *name, size_t size)
{
    char path[40];
    gpud_print(path, "/proc/%ld/comm", (long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, name, size - 1);
    close(fd);
    if (got <= 0)
        return false;
    name[got] = '\0';
    name[strcspn(name, "\n")] = '\0';
    gpud_text_clean(name, strlen(name)); /* a process chooses its name */
    return true;
}

bool gpud_lock_holder(int fd, char text[GPUD_LOCK_HOLDER_MAX])
{
    char content[64], name[32];
    const char *at = content;
    ssize_t got = pread(fd, content, sizeof(content) - 1, 0);
    content[got > 0 ? got : 0] = '\0';
    uint64_t number = read_number(&at);
    at += *at == ' ';
    uint64_t namespace = read_number(&at), own = pid_namespace();
    pid_t pid = number <= INT_MAX ? (pid_t)number : 0;

    if (pid == 0 || *at != '\n') {
        gpud_print_n(text, GPUD_LOCK_HOLDER_MAX, "a process that does not say which");
    } else if (namespace != own) {
        gpud_print_n(text, GPUD_LOCK_HOLDER_MAX, "process %ld of another container", (long)pid);
    } else if (pid == getpid()) {
        gpud_print_n(text, GPUD_LOCK_HOLDER_MAX, "this process itself");
        return true;
    } else if (read_name(pid, name, sizeof(name))) {
        gpud_print_n(text, GPUD_LOCK_HOLDER_MAX, "process %ld (%s)", (long)pid, name);
    } else {
        bool gone = kill(pid, 0) < 0 && errno == ESRCH;
        gpud_print_n(text, GPUD_LOCK_HOLDER_MAX, "%sprocess %ld%s", gone ? "a child of " : "",
                     (long)pid, gone ? ", which is gone" : "");
    }
    return false;
}

/* --- taking it ----------------------------------------------------------------------------- */

static void path_of(const char *path, char *name, size_t size)
{
    gpud_print_n(name, size, "%s.lock", path);
}

/* One try. GPUD_AGAIN: somebody has it, who stands in `holder`, or just gave it back; *own: it is
 * this process. */
static enum gpud_status try_lock(const char *name, int *lock, char *holder, bool *own,
                                 struct gpud_error *error)
{
    enum gpud_status status = GPUD_AGAIN;
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return gpud_fail_errno(error, "cannot open the lock file %s", name);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        /* The file goes when its holder does: the one that was opened may not be the one that is
         * there now. */
        struct stat opened, there;
        if (fstat(fd, &opened) == 0 && stat(name, &there) == 0 && opened.st_ino == there.st_ino &&
            opened.st_dev == there.st_dev) {
            sign(fd, &opened);
            *lock = fd;
            return GPUD_OK;
        }
    } else if (errno == EWOULDBLOCK) {
        *own = gpud_lock_holder(fd, holder);
    } else {
        status = gpud_fail_errno(error, "cannot lock %s", name);
    }
    close(fd);
    return status;
}

enum gpud_status gpud_lock_take(const char *path, int *fd, struct gpud_error *error)
{
    char name[GPUD_SOCKET_PATH_MAX + 8], holder[GPUD_LOCK_HOLDER_MAX] = "others come and go";
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
                "another sender has the address %s: %s; choose another address, or stop it", path,
                holder);
        struct timespec pause = gpud_timespec(PAUSE);
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    }
}

void gpud_lock_drop(const char *path, int *fd)
{
    char name[GPUD_SOCKET_PATH_MAX + 8];
    path_of(path, name, sizeof(name));
    unlink(name);
    gpud_fd_close(fd);
}
