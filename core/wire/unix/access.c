/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/unix/access.h"

#include "base/fd.h"
#include "base/host.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

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
static enum gpud_status open_file(const struct gpud_access_rule *access, int file, const char *path,
                                  struct gpud_error *error)
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

enum gpud_status gpud_access_open_socket(const struct gpud_access_rule *access, const char *path,
                                         struct gpud_error *error)
{
    if (access->kind == GPUD_ACCESS_USER)
        return GPUD_OK;
    int file = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0)
        return gpud_fail_errno(error, "cannot examine the socket %s", path);
    enum gpud_status status = open_file(access, file, path, error);
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
