/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The lock of an address: a file beside the socket, with a flock that the kernel takes back from
 * whoever dies. */
#ifndef GPUD_WIRE_UNIX_LOCK_H
#define GPUD_WIRE_UNIX_LOCK_H

#include "base/error.h"
#include <sys/types.h>

#define GPUD_LOCK_HOLDER_MAX 96

/* Waits up to 2 s while another process has it: one that was killed has it until its memory is
 * freed, and a child that it left for a little longer. EADDRINUSE after that, or at once if this
 * process has it. */
enum gpud_status gpud_lock_take(const char *path, int *fd, struct gpud_error *error);

/* Removes the file, and gives the lock back. */
void gpud_lock_drop(const char *path, int *fd);

/* Who holds the lock, as far as its file tells: "process 1234 (gst-launch-1.0)". true: it is this
 * process. */
bool gpud_lock_holder(int fd, char text[GPUD_LOCK_HOLDER_MAX]);

/* The process that has the lock of this path now, without a try to take it from it; 0: nobody, or
 * somebody whom nothing is known of: of another user, or in another container. */
pid_t gpud_lock_find(const char *path);

#endif
