/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The lock of an address: a file beside the socket, with a flock that the kernel takes back from
 * whoever dies. */
#ifndef GPUD_WIRE_UNIX_LOCK_H
#define GPUD_WIRE_UNIX_LOCK_H

#include "base/error.h"
#include <sys/types.h>

#define GPUD_LOCK_HOLDER_MAX 96

/* Waits up to 2 s while another process holds it: one that was killed does until its memory is
 * freed, and a child of it for a little longer. EADDRINUSE after that, or at once if this process
 * holds it. */
enum gpud_status gpud_lock_file_take(const char *path, int *fd, struct gpud_error *error);

/* Removes the file and releases the lock. */
void gpud_lock_file_drop(const char *path, int *fd);

/* Who holds the lock, by what the file says: "process 1234 (gst-launch-1.0)". true: this process
 * does. */
bool gpud_lock_holder(int fd, char text[GPUD_LOCK_HOLDER_MAX]);

/* The process that holds the lock of a path now, without taking it. 0: nobody does, or somebody of
 * whom nothing is known (another container; another user, unless any_owner and the file can be
 * read). */
pid_t gpud_lock_find(const char *path, bool any_owner);

#endif
