/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/process.h"

#include "base/error.h"
#include "base/text.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* The beginning of a file of the process's in /proc, as a string; false: nothing is there. */
static bool read_file(pid_t pid, const char *file, char *text, size_t size)
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
    if (pid <= 0 || !read_file(pid, "comm", text, sizeof(text)))
        return false;
    text[strcspn(text, "\n")] = '\0';
    gpud_text_clean(text, strlen(text)); /* a process chooses its name */
    gpud_print_n(name, size, "%s", text);
    return true;
}

bool gpud_process_is_stopped(pid_t pid)
{
    char text[256];
    if (pid <= 0 || !read_file(pid, "stat", text, sizeof(text)))
        return false;
    const char *behind = strrchr(text, ')'); /* the name before it may hold anything */
    return behind && behind[1] == ' ' && (behind[2] == 'T' || behind[2] == 't');
}
