/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_TARGET_FILE_H
#define GPUD_TARGET_FILE_H

#include "target/state.h"

#define GPUD_TARGET_FILE_SUFFIX ".target"
#define GPUD_TARGET_FILE_MAX 8192 /* bytes of it */

/* Whether the file that was opened is still the one with that name. */
bool gpud_target_file_is_there(int fd, const char *path);

/* The file of a name, written and locked. *fd holds the lock, by which others see that its owner
 * lives. */
enum gpud_status gpud_target_file_create(const struct gpud_target_ring *ring, char path[256],
                                         int *fd, struct gpud_error *error);
/* Removes it. */
void gpud_target_file_remove(const char *path, int *fd);

#endif
