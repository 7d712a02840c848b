/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The system's information about another process, for messages; and whether this one is ending. */
#ifndef GPUD_BASE_PROCESS_H
#define GPUD_BASE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Its name. false: no such process is visible, and *name is unchanged. */
bool gpud_process_name(pid_t pid, char *name, size_t size);

/* Whether it is stopped (SIGSTOP, a debugger) and does nothing until it is continued. */
bool gpud_process_is_stopped(pid_t pid);

/* Whether it has ended, or is ending: its descriptors are closed a moment before it is gone. Also
 * false if that is not visible. Its process id may have been reused. */
bool gpud_process_has_ended(pid_t pid);

/* A descriptor that is readable when the process at the other end of a Unix socket has ended, even
 * if a child of it, or a process id used again, outlives it. −1: the system has none, and if
 * *has_ended, because the process is gone. pid: as the socket's credentials say; 0: unknown. */
int gpud_process_watch(int socket, pid_t pid, bool *has_ended);

/* Whether exit() ends this process: threads that still run see their connections end. It is noted
 * before the first goodbye is said. */
bool gpud_process_is_ending(void);
void gpud_process_note_ending(void);

#endif
