/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the system says of another process, for a person who looks for it; and whether this one is
 * ending. */
#ifndef GPUD_BASE_PROCESS_H
#define GPUD_BASE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The name that it goes by. false: there is no such process to be seen, and *name stays. */
bool gpud_process_name(pid_t pid, char *name, size_t size);

/* Whether somebody stopped it (SIGSTOP, a debugger): it does nothing until it is let go on. */
bool gpud_process_is_stopped(pid_t pid);

/* Whether it has ended, or is ending: what it had open is closed a moment before it is gone. false
 * also where that cannot be seen. Its number may be another process's by now. */
bool gpud_process_has_ended(pid_t pid);

/* Whether exit() ends this process: threads that still run see their connections end. It is noted
 * before the first goodbye is said. */
bool gpud_process_is_ending(void);
void gpud_process_note_ending(void);

#endif
