/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The user's own directory for files with a bare name ("cam1"). */
#ifndef GPUD_BASE_DIRECTORY_H
#define GPUD_BASE_DIRECTORY_H

#include "base/error.h"
#include <stddef.h>

/* The characters of a bare name. */
#define GPUD_NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* Whether a text is a bare name: such characters, not beginning with a dot. */
bool gpud_is_name(const char *text);

/* $XDG_RUNTIME_DIR/gpudirect. If that is not set, /run/user/UID/gpudirect where the system has made
 * that folder for this user alone, else /tmp/gpudirect-UID, whose name any user can take first. It
 * need not exist. */
enum gpud_status gpud_runtime_directory(char *path, size_t size, struct gpud_error *error);

/* "/run/user"; tests have another one. */
extern const char *gpud_runtime_base;

/* The same, created if needed. No other user can enter it, or put files there. */
enum gpud_status gpud_private_directory(char *path, size_t size, struct gpud_error *error);

#endif
