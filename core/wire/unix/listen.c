/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Listening: the socket, its lock, and access to it. */
#include "wire/unix/unix.h"

#include "base/base.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* === access ================================================================================== */
/* Whether the other end of a socket is admitted, by the credentials that the kernel recorded when
 * it connected or began to listen. */

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

/* Uses a descriptor: in a folder that others can write, the name may be another file's by now. */
static enum gpud_status access_open_file(const struct gpud_access_rule *access, int file,
                                         const char *path, struct gpud_error *error)
{
    struct stat st;
    char self[32];
    mode_t mode = access->kind == GPUD_ACCESS_ALL ? 0666 : 0660;
    if (fstat(file, &st) < 0)
        return gpud_fail_errno(error, "cannot examine the socket %s", path);
    if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "another process replaced %s: use a folder that only you can write", path);
    if (access->kind == GPUD_ACCESS_GROUP &&
        fchownat(file, "", (uid_t)-1, access->group, AT_EMPTY_PATH) < 0)
        return gpud_fail_errno(error,
                               "cannot give the socket %s to the group %s: is this user in it?",
                               path, access->group_name);
    gpud_print(self, "/proc/self/fd/%d", file);
    if (chmod(self, mode) < 0)
        return gpud_fail_errno(error, "cannot open the socket %s to others", path);
    return GPUD_OK;
}

/* Gives the users that the rule admits access to the file of a socket that this process has just
 * made and does not listen on yet. */
static enum gpud_status access_open_socket(const struct gpud_access_rule *access, const char *path,
                                           struct gpud_error *error)
{
    if (access->kind == GPUD_ACCESS_USER)
        return GPUD_OK;
    int file = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0)
        return gpud_fail_errno(error, "cannot examine the socket %s", path);
    enum gpud_status status = access_open_file(access, file, path, error);
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

enum gpud_status gpud_access_check_address(const struct gpud_access_rule *access,
                                           const char *address, const char *path,
                                           struct gpud_error *error)
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

/* --- reasons of refusals ------------------------------------------------------------------- */

enum gpud_status gpud_access_refuse_receiver(const struct gpud_access_rule *access,
                                             const struct gpud_peer *peer, struct gpud_error *error)
{
    char own[GPUD_USER_MAX], other[GPUD_USER_MAX];
    bool group = access->kind == GPUD_ACCESS_GROUP;
    return gpud_fail(error, GPUD_NO_ACCESS,
                     "%s may not receive from %s, whose sender lets in its own user%s%s: set "
                     "access=group:NAME or access=all on the sender if it may",
                     gpud_user_name(peer->uid, other), gpud_user_name(geteuid(), own),
                     group ? " and the group " : " alone", access->group_name);
}

enum gpud_status gpud_access_refuse_sender(const struct gpud_access_rule *access, const char *path,
                                           const struct gpud_peer *peer, struct gpud_error *error)
{
    char own[GPUD_USER_MAX], other[GPUD_USER_MAX];
    bool group = access->kind == GPUD_ACCESS_GROUP;
    return gpud_fail(error, GPUD_NO_ACCESS,
                     "the sender at %s belongs to %s%s%s, and this is %s: set access=group:NAME or "
                     "access=all here too, if its pictures may be shown",
                     path, gpud_user_name(peer->uid, other),
                     group ? ", who is not in the group " : "", access->group_name,
                     gpud_user_name(geteuid(), own));
}

enum gpud_status gpud_access_explain_closed(const char *path, struct gpud_error *error)
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

/* === lock ==================================================================================== */
/* The lock of an address: a file beside the socket, with a flock that the kernel releases when the
 * holder dies. */

#define PATIENCE (2 * GPUD_SEC)
#define PAUSE (5 * GPUD_MSEC)

/* The kernel reports that a file is closed just before it releases the file's lock. */
#define RELEASE_PATIENCE (20 * GPUD_MSEC)
#define RELEASE_PAUSE (GPUD_MSEC / 2)

/* --- the holder ---------------------------------------------------------------------------- */

/* A process id is unique only in its PID namespace: two containers that share the file may each
 * have a process 1. 0: unknown. */
static uint64_t pid_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* Writes the holder's process id and PID namespace. They only serve messages, so a failure does not
 * matter. */
static void sign(int fd, const struct stat *file)
{
    char text[64];
    uint64_t limit;
    gpud_print(text, "%ld %llu\n", (long)getpid(), (unsigned long long)pid_namespace());
    size_t size = strlen(text);
    /* With a second name, the file may be other data. */
    if (!S_ISREG(file->st_mode) || file->st_nlink != 1 || !gpud_file_fits(size, &limit))
        return;
    if (pwrite(fd, text, size, 0) == (ssize_t)size && ftruncate(fd, (off_t)size) < 0)
        return; /* only the first line is read */
}

/* Reads the number at *text and advances *text past it; 0 if there is none. */
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
    } else if (namespace != pid_namespace()) {
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

static void nap(int64_t time)
{
    struct timespec pause = gpud_timespec(time);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

/* Refuses what another user has put there: that user could hold the lock for ever, or remove it
 * from under its holder. */
static enum gpud_status check_file(const struct stat *file, const char *name,
                                   struct gpud_error *error)
{
    char other[GPUD_USER_MAX];
    if (!S_ISREG(file->st_mode))
        return gpud_fail(error, GPUD_NO_ACCESS, "%s is not a lock file: move it away", name);
    if (file->st_uid != geteuid() && file->st_uid != 0)
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "the lock file %s belongs to %s: only senders of one user can have the "
                         "same address, or stand by for each other; stop that user's, or use a "
                         "folder that others cannot write",
                         name, gpud_user_name(file->st_uid, other));
    return GPUD_OK;
}

static enum gpud_status lock_open_file(const char *name, int *fd, struct gpud_error *error)
{
    struct stat st;
    int file = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    int failed = errno;
    bool exists = file < 0 ? lstat(name, &st) == 0 : fstat(file, &st) == 0;
    enum gpud_status status = exists ? check_file(&st, name, error) : GPUD_OK;
    errno = failed;
    if (status == GPUD_OK && file < 0 && failed == ENOENT) {
        int folder = (int)(strrchr(name, '/') - name);
        status = gpud_fail_errno(error,
                                 "there is no folder %.*s for the socket: make it (mkdir -p %.*s), "
                                 "or choose another path",
                                 folder, name, folder, name);
    }
    if (status == GPUD_OK && file < 0)
        status = gpud_fail_errno(error, "cannot open the lock file %s", name);
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
    struct stat st;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fstat(fd, &st) == 0)
        sign(fd, &st);
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
        nap(PAUSE);
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

/* Reads all events; false: there were none. */
static bool lock_drain(int events)
{
    _Alignas(struct inotify_event) char bytes[1024];
    bool any = false;
    while (read(events, bytes, sizeof(bytes)) > 0)
        any = true;
    return any;
}

enum gpud_status gpud_lock_wait_try(struct gpud_lock_wait *wait, const char *path, int *fd,
                                    struct gpud_error *error)
{
    char name[GPUD_SOCKET_PATH_MAX + 8];
    path_of(path, name, sizeof(name));
    int64_t deadline = gpud_deadline(RELEASE_PATIENCE);
    bool may_be_free = lock_drain(wait->events);
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
            nap(RELEASE_PAUSE);
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
    if (pid && (namespace != pid_namespace() || !has_holder(fd)))
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

/* === listen ================================================================================== */
/* How a path is claimed, listened on, and given up. */

/* Call with the lock held: any socket there is then left over from a dead process. */
static enum gpud_status clear_stale(const char *path, struct gpud_error *error)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return GPUD_OK;
    if (!S_ISSOCK(st.st_mode))
        return gpud_fail(error, GPUD_NO_ACCESS, "%s exists and is not a socket: move it away",
                         path);
    if (unlink(path) < 0)
        return gpud_fail_errno(error, "cannot remove the stale socket %s", path);
    return GPUD_OK;
}

enum gpud_status gpud_socket_listen(struct gpud_socket_listener *listener, const char *path,
                                    const struct gpud_access_rule *access, struct gpud_error *error)
{
    int lock;
    enum gpud_status status = gpud_lock_file_take(path, &lock, error);
    return status == GPUD_OK ? gpud_socket_listen_locked(listener, path, lock, access, error)
                             : status;
}

enum gpud_status gpud_socket_listen_locked(struct gpud_socket_listener *listener, const char *path,
                                           int lock, const struct gpud_access_rule *access,
                                           struct gpud_error *error)
{
    struct gpud_socket_listener made = {.fd = -1, .lock = lock};
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (access)
        made.access = *access;
    memcpy(made.path, path, strlen(path) + 1);
    memcpy(name.sun_path, path, strlen(path) + 1);

    enum gpud_status status = clear_stale(path, error);
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
    status = access_open_socket(&made.access, path, error);
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

void gpud_socket_unlisten(struct gpud_socket_listener *listener)
{
    if (listener->fd < 0)
        return;
    unlink(listener->path);
    gpud_fd_close(&listener->fd);
    gpud_lock_file_drop(listener->path, &listener->lock);
}
