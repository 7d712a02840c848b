/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which sockets there are, what a name stands for, and why none may be found. */
#include "wire/unix/unix.h"

#include "base/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* === resolve ================================================================================= */

/* Instead of the '/' before a stream's name; no name contains it. */
#define STREAM_MARK '!'

/* How many bytes of a bad address the reason quotes. */
static int quoted(const char *address)
{
    return (int)gpud_text_whole(address, strnlen(address, 64));
}

bool gpud_socket_entry_address(const char *entry, char *text, size_t size)
{
    const char *mark = strchr(entry, STREAM_MARK);
    char name[GPUD_SOCKET_PATH_MAX];
    if (strlen(entry) >= sizeof(name))
        return false;
    gpud_print(name, "%s", entry);
    if (mark)
        name[mark - entry] = '\0';
    if (!gpud_is_name(name) || (mark && !gpud_is_name(mark + 1)))
        return false;
    gpud_print_n(text, size, "%s%s%s", name, mark ? "/" : "", mark ? mark + 1 : "");
    return true;
}

enum gpud_status gpud_socket_resolve(const char *address, char path[GPUD_SOCKET_PATH_MAX],
                                     struct gpud_error *error)
{
    char directory[GPUD_SOCKET_PATH_MAX], joined[2 * GPUD_SOCKET_PATH_MAX];
    if (!address || !address[0])
        return gpud_fail(error, GPUD_INVALID,
                         "no address: give a name (cam1) or unix:/absolute/path");
    if (strncmp(address, "unix:", 5) == 0) {
        const char *name = address + 5;
        if (name[0] != '/' || strlen(name) >= GPUD_SOCKET_PATH_MAX)
            return gpud_fail(error, GPUD_INVALID,
                             "\"%.*s\": unix: needs an absolute path of at most %zu bytes",
                             quoted(address), address, GPUD_SOCKET_PATH_MAX - 1);
        memcpy(path, name, strlen(name) + 1);
        return GPUD_OK;
    }
    const char *slash = strchr(address, '/');
    if (slash == address && address[1] && address[strlen(address) - 1] != '/')
        return gpud_fail(error, GPUD_INVALID,
                         "\"%.*s\" is not an address: a socket with this path is unix:%.*s",
                         quoted(address), address, quoted(address), address);
    if (address[strspn(address, GPUD_NAME_CHARACTERS "/")])
        return gpud_fail(error, GPUD_INVALID,
                         "\"%.*s\" is not an address: letters, digits, '.', '_', '-', one '/' "
                         "before the name of a stream, or unix:/absolute/path",
                         quoted(address), address);
    if (slash == address || (slash && (!slash[1] || strchr(slash + 1, '/'))))
        return gpud_fail(error, GPUD_INVALID,
                         "\"%.*s\" is not an address: that of a stream is NAME/STREAM, as in "
                         "cam1/subs",
                         quoted(address), address);
    if (address[0] == '.' || (slash && slash[1] == '.'))
        return gpud_fail(error, GPUD_INVALID, "%s \"%.*s\" begins with a dot",
                         address[0] == '.' ? "the address" : "the stream of", quoted(address),
                         address);
    enum gpud_status status = gpud_private_directory(directory, sizeof(directory), error);
    if (status != GPUD_OK)
        return status;
    int length = gpud_print_n(joined, sizeof(joined), "%s/%s", directory, address);
    if (length < 0 || (size_t)length >= GPUD_SOCKET_PATH_MAX)
        return gpud_fail(error, GPUD_INVALID, "the address \"%.*s\" is too long", quoted(address),
                         address);
    if (slash)
        joined[strlen(directory) + 1 + (size_t)(slash - address)] = STREAM_MARK;
    memcpy(path, joined, (size_t)length + 1);
    return GPUD_OK;
}

/* === registry ================================================================================ */

#define PREFIX ".unix"
#define NAME_SIZE (sizeof(PREFIX) + 2 * GPUD_SOCKET_PATH_MAX)

/* A process that is stopped while it holds the lock must not block the others. */
#define PATIENCE GPUD_SEC
#define PAUSE (5 * GPUD_MSEC)

/* --- links --------------------------------------------------------------------------------- */

/* One name for each path: '/' becomes "!", "!" becomes "=1", "=" becomes "=0". */
static void link_name(const char *path, char link[NAME_SIZE])
{
    char *at = stpcpy(link, PREFIX);
    for (; *path; path++) {
        if (*path == '!' || *path == '=') {
            *at++ = '=';
            *at++ = *path == '!' ? '1' : '0';
        } else {
            *at++ = *path == '/' ? '!' : *path;
        }
    }
    *at = '\0';
}

/* Reads the path that a link leads to. false: it is not one of ours. */
static bool read_link(int directory, const char *link, char path[GPUD_SOCKET_PATH_MAX])
{
    char again[NAME_SIZE];
    ssize_t length = readlinkat(directory, link, path, GPUD_SOCKET_PATH_MAX);
    if (length <= 0 || (size_t)length >= GPUD_SOCKET_PATH_MAX || path[0] != '/')
        return false;
    path[length] = '\0';
    link_name(path, again);
    return strcmp(again, link) == 0;
}

/* The entry of a path in the directory, where its address is a bare name; else NULL. */
static const char *bare_name(const char *directory, const char *path)
{
    size_t length = strlen(directory);
    char text[GPUD_ADDRESS_MAX];
    if (strncmp(path, directory, length) != 0 || path[length] != '/' ||
        !gpud_socket_entry_address(path + length + 1, text, sizeof(text)))
        return NULL;
    return path + length + 1;
}

/* --- the directory ------------------------------------------------------------------------- */

/* Refuses a directory that other users can enter. */
static int open_directory(const char *path, struct gpud_error *error)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        gpud_fail_errno(error, "cannot open the directory %s", path);
    } else if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 0077)) {
        gpud_fail(error, GPUD_NO_ACCESS,
                  "%s is not a directory that you alone can enter: remove it, or chmod 700 it",
                  path);
        gpud_fd_close(&fd);
        errno = EACCES;
    }
    return fd;
}

static bool lock(int directory, int64_t patience)
{
    int64_t deadline = gpud_deadline(patience);
    while (flock(directory, LOCK_EX | LOCK_NB) < 0) {
        if (gpud_now() >= deadline)
            return false;
        gpud_nap(PAUSE);
    }
    return true;
}

enum gpud_status gpud_registry_add(const char *path, struct gpud_error *error)
{
    char name[GPUD_SOCKET_PATH_MAX], link[NAME_SIZE];
    enum gpud_status status = gpud_private_directory(name, sizeof(name), error);
    if (status != GPUD_OK || bare_name(name, path))
        return status;
    int directory = open_directory(name, error);
    if (directory < 0)
        return GPUD_NO_ACCESS;
    link_name(path, link);
    /* Without the lock, another process may remove the link again, which is harmless. */
    lock(directory, PATIENCE);
    unlinkat(directory, link, 0);
    if (symlinkat(path, directory, link) < 0)
        status = gpud_fail_errno(error, "cannot make a link to %s in %s", path, name);
    gpud_fd_close(&directory);
    return status;
}

void gpud_registry_touch(const char *path)
{
    char name[GPUD_SOCKET_PATH_MAX], link[NAME_SIZE];
    if (gpud_runtime_directory(name, sizeof(name), NULL) != GPUD_OK)
        return;
    const char *bare = bare_name(name, path);
    int directory = open_directory(name, NULL);
    if (directory < 0)
        return;
    link_name(path, link);
    utimensat(directory, bare ? bare : link, NULL, AT_SYMLINK_NOFOLLOW);
    gpud_fd_close(&directory);
}

static void remove_link(const char *path, bool only_if_dead)
{
    char name[GPUD_SOCKET_PATH_MAX], link[NAME_SIZE];
    int fd = -1;
    struct gpud_peer peer;
    if (gpud_runtime_directory(name, sizeof(name), NULL) != GPUD_OK || bare_name(name, path))
        return;
    int directory = open_directory(name, NULL);
    if (directory < 0)
        return;
    link_name(path, link);
    if (!only_if_dead ||
        (lock(directory, 0) && gpud_socket_reach(path, false, &fd, &peer, NULL) == GPUD_CLOSED))
        unlinkat(directory, link, 0);
    gpud_fd_close(&fd);
    gpud_fd_close(&directory);
}

void gpud_registry_remove(const char *path)
{
    remove_link(path, false);
}

void gpud_address_forget(const struct gpud_address *address)
{
    remove_link(address->place, true);
}

/* --- listing ------------------------------------------------------------------------------- */

/* Querying a dead entry takes some 20 µs. */
#define ENTRIES_MAX 16384

struct search {
    const char *directory;
    int fd;
    bool own; /* it is this user's runtime directory */
    struct gpud_address *found;
    size_t count, room, omitted;
};

static bool begins(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Bare names come first. */
static int registry_compare(const void *a, const void *b)
{
    const struct gpud_address *x = a, *y = b;
    bool x_is_path = begins(x->text, "unix:"), y_is_path = begins(y->text, "unix:");
    if (x_is_path != y_is_path)
        return x_is_path ? 1 : -1;
    int order = strcmp(x->text, y->text);
    return order ? order : (x->receiver > y->receiver) - (x->receiver < y->receiver);
}

/* A channel that is sent here lists its receivers itself. */
static void remove_received_here(struct search *search)
{
    const struct gpud_address *sent = NULL;
    size_t kept = 0;
    for (size_t i = 0; i < search->count; i++) {
        const struct gpud_address *found = &search->found[i];
        if (found->receiver && sent && strcmp(sent->text, found->text) == 0)
            continue;
        search->found[kept++] = *found;
        if (!found->receiver)
            sent = &search->found[kept - 1];
    }
    search->count = kept;
}

void gpud_registry_entry(const char *prefix, const char *channel,
                         char entry[GPUD_REGISTRY_ENTRY_MAX])
{
    gpud_print_n(entry, GPUD_REGISTRY_ENTRY_MAX, "%s%s", prefix, channel);
    for (char *c = entry; *c; c++)
        if (*c == '/')
            *c = '!';
}

/* Whether the text is the scheme of a kind between hosts. */
static bool is_scheme(const char *text, size_t length)
{
    static const char *const schemes[] = {"rdma", "tcp"};
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
        if (strlen(schemes[i]) == length && strncmp(text, schemes[i], length) == 0)
            return true;
    return false;
}

/* ".rdma!…" is the entry of such an address. */
static bool is_network(const char *entry)
{
    return entry[0] == '.' && is_scheme(entry + 1, strcspn(entry + 1, "!"));
}

/* "rdma!10.0.0.1:7174!cam3" as an address. */
static bool read_network(const char *entry, size_t length, char text[GPUD_ADDRESS_MAX])
{
    size_t scheme = strcspn(entry, "!");
    if (strspn(entry, GPUD_NAME_CHARACTERS "!:[]%") < length || !is_scheme(entry, scheme) ||
        scheme >= length)
        return false;
    gpud_print_n(text, GPUD_ADDRESS_MAX, "%.*s://%.*s", (int)scheme, entry,
                 (int)(length - scheme - 1), entry + scheme + 1);
    for (char *c = text + scheme + strlen("://"); *c; c++)
        if (*c == '!')
            *c = '/';
    return true;
}

/* Reads the note of a process that receives a channel; removes the note of a dead process. */
static bool read_received(const struct search *search, const char *entry,
                          struct gpud_address *found)
{
    const char *channel = entry + strlen(GPUD_REGISTRY_RECEIVED), *process = strrchr(entry, '!');
    size_t length = strlen(entry) - strlen(".lock");
    char name[64];
    if (!search->own || process < channel ||
        !read_network(channel, (size_t)(process - channel), found->text))
        return false;
    gpud_print_n(found->place, sizeof(found->place), "%s/%.*s", search->directory, (int)length,
                 entry);
    found->receiver = gpud_lock_find(found->place, false);
    if (found->receiver > 0 && gpud_process_name(found->receiver, name, sizeof(name)))
        return true;
    /* The kernel unlocks a note when its process dies, also one of another container, whose process
     * id means nothing here. */
    int fd = openat(search->fd, entry, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlinkat(search->fd, entry, 0);
    gpud_fd_close(&fd);
    return false;
}

/* Whether an entry of the directory is an address. */
static bool read_entry(const struct search *search, const char *entry, struct gpud_address *found)
{
    struct stat st, end;
    char lock[NAME_MAX + sizeof(".lock")];
    if (fstatat(search->fd, entry, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        (search->own && st.st_uid != geteuid()))
        return false;
    *found = (struct gpud_address){.ops = &gpud_unix_channel_ops, .any_owner = !search->own};
    if (begins(entry, GPUD_REGISTRY_RECEIVED))
        return S_ISREG(st.st_mode) && read_received(search, entry, found);
    if (S_ISLNK(st.st_mode)) {
        if (!read_link(search->fd, entry, found->place))
            return false;
        /* In another user's folder a link must lead to a socket of the link's owner: this process
         * may be root. */
        if (!search->own &&
            (lstat(found->place, &end) < 0 || !S_ISSOCK(end.st_mode) || end.st_uid != st.st_uid))
            return false;
        gpud_print(found->text, "unix:%s", found->place);
        return true;
    }
    if (!S_ISSOCK(st.st_mode) ||
        !(is_network(entry) ? read_network(entry + 1, strlen(entry + 1), found->text)
                            : gpud_socket_entry_address(entry, found->text, GPUD_ADDRESS_MAX)))
        return false;
    /* Tells our sockets from those of other programs in an arbitrary folder. */
    gpud_print(lock, "%s.lock", entry);
    if (!search->own && faccessat(search->fd, lock, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    int length =
        gpud_print_n(found->place, GPUD_SOCKET_PATH_MAX, "%s/%s", search->directory, entry);
    if (length < 0 || (size_t)length >= GPUD_SOCKET_PATH_MAX)
        return false;
    if (!search->own && entry[0] != '.')
        gpud_print(found->text, "unix:%s", found->place);
    return true;
}

static bool may_be_address(const char *entry)
{
    char text[GPUD_ADDRESS_MAX];
    size_t length = strlen(entry);
    bool lock = length > 5 && strcmp(entry + length - 5, ".lock") == 0;
    return lock ? begins(entry, GPUD_REGISTRY_RECEIVED)
                : gpud_socket_entry_address(entry, text, sizeof(text)) || begins(entry, PREFIX) ||
                      is_network(entry);
}

static enum gpud_status search_entries(struct search *search, DIR *entries,
                                       struct gpud_error *error)
{
    for (struct dirent *entry; (entry = readdir(entries));) {
        if (!may_be_address(entry->d_name))
            continue;
        if (search->count == ENTRIES_MAX) {
            search->omitted++;
            continue;
        }
        if (search->count == search->room) {
            size_t room = search->room ? 4 * search->room : 64;
            void *more = reallocarray(search->found, room, sizeof(*search->found));
            if (!more)
                return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of channels");
            search->found = more;
            search->room = room;
        }
        search->count += read_entry(search, entry->d_name, &search->found[search->count]);
    }
    if (search->count > 0)
        qsort(search->found, search->count, sizeof(*search->found), registry_compare);
    remove_received_here(search);
    return GPUD_OK;
}

enum gpud_status gpud_address_list(const char *folder, struct gpud_address **found, size_t *count,
                                   size_t *omitted, char directory[GPUD_ADDRESS_MAX],
                                   struct gpud_error *error)
{
    struct search search = {.directory = directory, .fd = -1};
    enum gpud_status status = gpud_runtime_directory(directory, GPUD_SOCKET_PATH_MAX, error);
    if (status != GPUD_OK)
        return status;
    search.own = !folder || strcmp(folder, directory) == 0;
    if (search.own) {
        search.fd = open_directory(directory, error);
        if (search.fd < 0 && errno != ENOENT) /* else no sender has run here yet */
            return GPUD_NO_ACCESS;
    } else {
        gpud_print_n(directory, GPUD_ADDRESS_MAX, "%s", folder);
        search.fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (search.fd < 0)
            return gpud_fail_errno(error, "cannot look for channels in %s", folder);
    }
    if (search.fd >= 0) {
        DIR *entries = fdopendir(search.fd);
        if (!entries) {
            gpud_fd_close(&search.fd);
            return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a directory");
        }
        status = search_entries(&search, entries, error);
        closedir(entries);
    }
    if (status != GPUD_OK) {
        free(search.found);
        return status;
    }
    *found = search.found;
    *count = search.count;
    *omitted = search.omitted;
    return GPUD_OK;
}

/* === received ================================================================================ */

void gpud_received_note(struct gpud_received *received, const char *place)
{
    static atomic_uint number; /* one process may receive a channel several times */
    char directory[GPUD_SOCKET_PATH_MAX], entry[GPUD_REGISTRY_ENTRY_MAX], prefix[32];
    received->lock = -1;
    if (gpud_private_directory(directory, sizeof(directory), NULL) != GPUD_OK)
        return;
    const char *channel = strstr(place, "://"); /* of any scheme */
    gpud_print(prefix, GPUD_REGISTRY_RECEIVED "%.*s!", (int)(channel - place), place);
    gpud_registry_entry(prefix, channel + strlen("://"), entry);
    int length = gpud_print_n(received->path, sizeof(received->path), "%s/%s!%ld.%u", directory,
                              entry, (long)getpid(), atomic_fetch_add(&number, 1));
    if (length > 0 && (size_t)length < sizeof(received->path))
        gpud_lock_file_take(received->path, &received->lock, NULL);
}

void gpud_received_remove(struct gpud_received *received)
{
    if (received->lock >= 0)
        gpud_lock_file_drop(received->path, &received->lock);
}

/* === hint ==================================================================================== */
/* What a waiting receiver cannot tell from a failed connect(): its sender has another runtime
 * directory (a login shell, a service, sudo), where the same name is another socket; the
 * socket belongs to another user; its sender is dead; the folder is missing. */

static bool is_socket(const char *path, uid_t *owner)
{
    struct stat st;
    if (lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return false;
    *owner = st.st_uid;
    return true;
}

/* Where a process of that user would look for the name, with XDG_RUNTIME_DIR and without. */
static bool find_of_user(const char *path, const char *name, unsigned long user,
                         char found[GPUD_SOCKET_PATH_MAX])
{
    for (int with = 0; with < 2; with++) {
        int length =
            snprintf(found, GPUD_SOCKET_PATH_MAX,
                     with ? "/run/user/%lu/gpudirect/%s" : "/tmp/gpudirect-%lu/%s", user, name);
        uid_t owner;
        if (length > 0 && (size_t)length < GPUD_SOCKET_PATH_MAX && strcmp(found, path) != 0 &&
            is_socket(found, &owner))
            return true;
    }
    return false;
}

/* Only root can search the directories of all users. */
static bool find_of_any_user(const char *name, char found[GPUD_SOCKET_PATH_MAX])
{
    static const char *const patterns[] = {"/run/user/*/gpudirect/%s", "/tmp/gpudirect-*/%s"};
    bool is_found = false;
    for (size_t i = 0; i < 2 && !is_found; i++) {
        char pattern[GPUD_SOCKET_PATH_MAX + 32];
        glob_t paths;
        uid_t owner;
        gpud_print(pattern, patterns[i], name);
        if (glob(pattern, 0, NULL, &paths) != 0)
            continue;
        is_found = strlen(paths.gl_pathv[0]) < GPUD_SOCKET_PATH_MAX &&
                   is_socket(paths.gl_pathv[0], &owner);
        if (is_found)
            gpud_print_n(found, GPUD_SOCKET_PATH_MAX, "%s", paths.gl_pathv[0]);
        globfree(&paths);
    }
    return is_found;
}

/* A process with another runtime directory has another socket of the same name. Only a bare name
 * can mean several sockets; a path is unambiguous. */
static bool find_elsewhere(const char *path, char found[GPUD_SOCKET_PATH_MAX])
{
    char directory[GPUD_SOCKET_PATH_MAX];
    if (gpud_runtime_directory(directory, sizeof(directory), NULL) != GPUD_OK)
        return false;
    size_t length = strlen(directory);
    if (strncmp(path, directory, length) != 0 || path[length] != '/')
        return false;
    const char *name = path + length + 1, *before_sudo = getenv("SUDO_UID");
    return find_of_user(path, name, geteuid(), found) ||
           (before_sudo && find_of_user(path, name, strtoul(before_sudo, NULL, 10), found)) ||
           (geteuid() == 0 && find_of_any_user(name, found));
}

void gpud_socket_hint(const char *path, char *hint, size_t size)
{
    char elsewhere[GPUD_SOCKET_PATH_MAX], folder[GPUD_SOCKET_PATH_MAX];
    char own[GPUD_USER_MAX], other[GPUD_USER_MAX];
    uid_t owner;
    hint[0] = '\0';
    if (is_socket(path, &owner)) {
        if (owner != geteuid() && owner != 0)
            gpud_print_n(hint, size, "the socket there belongs to %s, and this is %s",
                         gpud_user_name(owner, other), gpud_user_name(geteuid(), own));
        else
            gpud_print_n(hint, size, "its sender died and left the socket: start it again");
        return;
    }
    if (find_elsewhere(path, elsewhere)) {
        gpud_print_n(hint, size,
                     "there is %s, of a process with another runtime directory (a login shell, a "
                     "service, sudo?): set XDG_RUNTIME_DIR or GPUDIRECT_DIR alike for both, or use "
                     "address=unix:%s",
                     elsewhere, elsewhere);
        return;
    }
    gpud_print(folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    if (!folder[0] || access(folder, X_OK) == 0)
        return; /* it exists and can be entered */
    if (errno == ENOENT)
        gpud_print_n(hint, size,
                     "there is no folder %s here: make it (mkdir), or, where the sender runs in "
                     "another container, share its folder with this one",
                     folder);
    else
        gpud_print_n(hint, size, "%s cannot enter the folder %s: %s",
                     gpud_user_name(geteuid(), own), folder, strerror(errno));
}
