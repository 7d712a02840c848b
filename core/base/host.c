/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/host.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *gpud_host_id_file = "/proc/sys/kernel/random/boot_id";

void gpud_host_read_id(uint8_t id[16])
{
    char text[64];
    int fd = open(gpud_host_id_file, O_RDONLY | O_CLOEXEC);
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
}

uint64_t gpud_host_time_namespace(void)
{
    struct stat name;
    return stat("/proc/self/ns/time", &name) == 0 ? (uint64_t)name.st_ino : 0;
}
