/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_TARGET_FILE_H
#define GPUD_TARGET_FILE_H

#include "target/state.h"

#define GPUD_TARGET_FILE_SUFFIX ".target"
#define GPUD_TARGET_FILE_MAX 8192 /* bytes */

/* Whether the opened file is still the one with that name. */
bool gpud_target_file_is_there(int fd, const char *path);

/* Creates, writes and locks the file of a name. *fd holds the lock, which shows others that the
 * owner lives. */
enum gpud_status gpud_target_file_create(const struct gpud_target_ring *ring, char path[256],
                                         int *fd, struct gpud_error *error);
/* Removes it. */
void gpud_target_file_remove(const char *path, int *fd);

#endif
