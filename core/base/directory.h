/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The user's own directory, in which whatever has a bare name ("cam1") lies. */
#ifndef GPUD_BASE_DIRECTORY_H
#define GPUD_BASE_DIRECTORY_H

#include "base/error.h"
#include <stddef.h>

/* What a bare name consists of. */
#define GPUD_NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* Whether a text is a bare name: such characters, the first of which is no dot. */
bool gpud_is_name(const char *text);

/* $XDG_RUNTIME_DIR/gpudirect, or /tmp/gpudirect-UID. It need not exist. */
enum gpud_status gpud_runtime_directory(char *path, size_t size, struct gpud_error *error);

/* The same, made if need be. Nobody else can enter it, so nobody else can put anything there. */
enum gpud_status gpud_private_directory(char *path, size_t size, struct gpud_error *error);

#endif
