/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a folder has: descriptors and threads of this process, files that are left. */
#ifndef GPUD_TESTS_COUNT_H
#define GPUD_TESTS_COUNT_H

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

static inline unsigned count_entries(const char *path)
{
    unsigned count = 0;
    DIR *folder = opendir(path);
    if (!folder && errno != ENOENT)
        abort();
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return count;
}

static inline unsigned count_fds(void)
{
    return count_entries("/proc/self/fd");
}

#endif
