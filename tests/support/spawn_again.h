/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A test starts its own program again, in a process of its own, to play the other side. */
#ifndef GPUD_TESTS_AGAIN_H
#define GPUD_TESTS_AGAIN_H

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As posix_spawn, and its result. Where the test runs in an emulator the kernel cannot start the
 * program: Meson tells the tests with which command it does (`exe_wrapper`). argv[0] is a name
 * only, and lost then. */
static inline int spawn_again(pid_t *pid, const posix_spawn_file_actions_t *actions,
                              char *const argv[], char *const environment[])
{
    const char *wrapper = getenv("MESON_EXE_WRAPPER");
    if (!wrapper || !*wrapper)
        return posix_spawn(pid, "/proc/self/exe", actions, NULL, argv, environment);
    char words[PATH_MAX], program[PATH_MAX] = "", *again[32], *rest = words;
    const size_t most = sizeof again / sizeof *again - 2;
    size_t count = 0;
    if (strlen(wrapper) >= sizeof words)
        return E2BIG;
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0)
        return errno;
    strcpy(words, wrapper);
    for (char *word; count < most && (word = strsep(&rest, " ")) != NULL;)
        again[count++] = word;
    again[count++] = program;
    for (size_t i = 1; argv[i] && count <= most; i++)
        again[count++] = argv[i];
    if (count > most)
        return E2BIG;
    again[count] = NULL;
    return posix_spawn(pid, again[0], actions, NULL, again, environment);
}

#endif
