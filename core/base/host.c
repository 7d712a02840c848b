/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

uint64_t gpud_host_time_namespace(void)
{
    struct stat name;
    return stat("/proc/self/ns/time", &name) == 0 ? (uint64_t)name.st_ino : 0;
}

/* The number that stands for ids without a mapping. */
static unsigned read_overflow_id(const char *path)
{
    unsigned id = 65534;
    FILE *file = fopen(path, "re");
    if (file) {
        if (fscanf(file, "%u", &id) != 1)
            id = 65534;
        fclose(file);
    }
    return id;
}

/* Without /proc nothing is known of a namespace, and it counts as the initial one. */
static bool maps_all(const char *path)
{
    unsigned long inside, outside, count, sum = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return true;
    while (fscanf(file, "%lu %lu %lu", &inside, &outside, &count) == 3)
        sum += count;
    fclose(file);
    return sum >= UINT32_MAX;
}

bool gpud_host_user_is_ambiguous(uid_t user)
{
    return user == read_overflow_id("/proc/sys/kernel/overflowuid") &&
           !maps_all("/proc/self/uid_map");
}

bool gpud_host_group_is_ambiguous(gid_t group)
{
    return group == read_overflow_id("/proc/sys/kernel/overflowgid") &&
           !maps_all("/proc/self/gid_map");
}
