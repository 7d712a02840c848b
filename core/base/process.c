/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* This process and this host: how they are told from others. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* === process ================================================================================= */

#ifndef SO_PEERPIDFD /* Linux 6.5; older C libraries do not name it */
#define SO_PEERPIDFD 77
#endif

/* Reads the beginning of the process's file in /proc as a string; false: it is missing or empty. */
static bool process_read_file(pid_t pid, const char *file, char *text, size_t size)
{
    char path[48];
    gpud_print(path, "/proc/%ld/%s", (long)pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, text, size - 1);
    close(fd);
    if (got <= 0)
        return false;
    text[got] = '\0';
    return true;
}

bool gpud_process_name(pid_t pid, char *name, size_t size)
{
    char text[64];
    if (pid <= 0 || !process_read_file(pid, "comm", text, sizeof(text)))
        return false;
    text[strcspn(text, "\n")] = '\0';
    gpud_text_clean(text, strlen(text)); /* a process chooses its name */
    gpud_print_n(name, size, "%s", text);
    return true;
}

/* Its state, and the kernel's flags (proc(5), stat); 0: it is not visible. */
static char read_state(pid_t pid, unsigned *flags)
{
    char text[256], state = 0;
    if (pid <= 0 || !process_read_file(pid, "stat", text, sizeof(text)))
        return 0;
    const char *behind = strrchr(text, ')'); /* the name before it may contain anything */
    if (!behind || sscanf(behind, ") %c %*d %*d %*d %*d %*d %u", &state, flags) != 2)
        return 0;
    return state;
}

bool gpud_process_is_stopped(pid_t pid)
{
    unsigned flags;
    char state = read_state(pid, &flags);
    return state == 'T' || state == 't';
}

#define PF_EXITING 0x4 /* of the kernel's flags */

bool gpud_process_has_ended(pid_t pid)
{
    unsigned flags;
    if (pid <= 0)
        return false;
    char state = read_state(pid, &flags);
    if (state)
        return state == 'Z' || state == 'X' || flags & PF_EXITING;
    return kill(pid, 0) < 0 && errno == ESRCH; /* it may exist but be hidden */
}

int gpud_process_watch(int socket, pid_t pid, bool *has_ended)
{
    int fd = -1;
    socklen_t size = sizeof(fd);
    *has_ended = false;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0)
        return fd;
    if (errno == EINVAL) {
        *has_ended = true;
    } else if (errno == ENOPROTOOPT && pid > 0) {
        fd = (int)syscall(SYS_pidfd_open, pid, 0);
        *has_ended = fd < 0 && errno == ESRCH;
    }
    return fd;
}

static atomic_bool ending;

bool gpud_process_is_ending(void)
{
    return atomic_load(&ending);
}

void gpud_process_note_ending(void)
{
    atomic_store(&ending, true);
}

/* === host ==================================================================================== */

const char *gpud_host_id_file = "/proc/sys/kernel/random/boot_id";

enum gpud_status gpud_host_read_id(uint8_t id[16], struct gpud_error *error)
{
    char text[64];
    int fd = open(gpud_host_id_file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        return gpud_fail_errno(error, "cannot read the machine's id (%s)", gpud_host_id_file);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    memset(id, 0, 16);
    unsigned digits = 0;
    for (ssize_t i = 0; i < got && digits < 32; i++) {
        char c = text[i];
        int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (value < 0)
            continue;
        id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | value);
        digits++;
    }
    return GPUD_OK;
}

uint64_t gpud_host_namespace(const char *kind)
{
    char path[32];
    struct stat name;
    gpud_print(path, "/proc/self/ns/%s", kind);
    return stat(path, &name) == 0 ? (uint64_t)name.st_ino : 0;
}

/* The kernel's overflow id stands for all ids that the namespace does not map. Without /proc
 * nothing is known of a namespace, and it counts as the initial one. */
static bool is_ambiguous(unsigned id, const char *overflow, const char *map)
{
    unsigned unmapped = 65534;
    unsigned long inside, outside, count, sum = 0;
    FILE *file = fopen(overflow, "re");
    if (file && fscanf(file, "%u", &unmapped) != 1)
        unmapped = 65534;
    if (file)
        fclose(file);
    file = id == unmapped ? fopen(map, "re") : NULL;
    if (!file)
        return false;
    while (fscanf(file, "%lu %lu %lu", &inside, &outside, &count) == 3)
        sum += count;
    fclose(file);
    return sum < UINT32_MAX;
}

bool gpud_host_user_is_ambiguous(uid_t user)
{
    return is_ambiguous(user, "/proc/sys/kernel/overflowuid", "/proc/self/uid_map");
}

bool gpud_host_group_is_ambiguous(gid_t group)
{
    return is_ambiguous(group, "/proc/sys/kernel/overflowgid", "/proc/self/gid_map");
}
