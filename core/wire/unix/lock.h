/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The lock of an address: a file beside the socket, with a flock that the kernel releases when the
 * holder dies. */
#ifndef GPUD_WIRE_UNIX_LOCK_H
#define GPUD_WIRE_UNIX_LOCK_H

#include "base/error.h"
#include <sys/types.h>

#define GPUD_LOCK_HOLDER_MAX 96

/* Waits up to 2 s while another process holds it: a killed one does until its memory is freed, and
 * its children a little longer. EADDRINUSE after that, or at once if this process holds it. */
enum gpud_status gpud_lock_file_take(const char *path, int *fd, struct gpud_error *error);

/* Tries once, and does not wait. GPUD_AGAIN: another holder has it. */
enum gpud_status gpud_lock_file_try(const char *path, int *fd);

/* Removes the file and releases the lock. */
void gpud_lock_file_drop(const char *path, int *fd);

/* Describes the holder as named in the file: "process 1234 (gst-launch-1.0)". true: it is this
 * process. */
bool gpud_lock_holder(int fd, char text[GPUD_LOCK_HOLDER_MAX]);

/* A wait for a lock that another holder has. */
struct gpud_lock_wait {
    int events; /* to poll for POLLIN: the holder may have released the lock, or died */
    int file;
};

/* Call gpud_lock_wait_end() in any case. */
enum gpud_status gpud_lock_wait_begin(struct gpud_lock_wait *wait, struct gpud_error *error);
void gpud_lock_wait_end(struct gpud_lock_wait *wait);

/* GPUD_OK: *fd is the lock, as from gpud_lock_file_take(). GPUD_AGAIN: another holder has it; poll
 * wait->events. */
enum gpud_status gpud_lock_wait_try(struct gpud_lock_wait *wait, const char *path, int *fd,
                                    struct gpud_error *error);

/* The process that currently holds the lock of a path. 0: none does, or it is unknown (in another
 * container; another user's, unless any_owner and the file can be read). */
pid_t gpud_lock_find(const char *path, bool any_owner);

/* Whether any process holds the lock of a path, also one of another container. */
bool gpud_lock_is_held(const char *path);

#endif
