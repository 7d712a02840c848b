/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Identifies this machine, and this process's clock. */
#ifndef GPUD_BASE_HOST_H
#define GPUD_BASE_HOST_H

#include "base/error.h"
#include <stdint.h>
#include <sys/types.h>

/* The same for all processes of a running machine, including containers; different after every
 * boot. All zero: the system does not tell. Fails only if this process has no descriptor left. */
enum gpud_status gpud_host_read_id(uint8_t id[16], struct gpud_error *error);

/* Containers may have a CLOCK_MONOTONIC with an offset: two processes of a machine share a clock if
 * this number is the same. 0: the system has no time namespaces. */
uint64_t gpud_host_time_namespace(void);

/* Whether the kernel may show this process someone else's user (or group) under this number: a user
 * namespace shows all ids that it does not map as 65534. False in the initial namespace, which maps
 * all. */
bool gpud_host_user_is_ambiguous(uid_t user);
bool gpud_host_group_is_ambiguous(gid_t group);

/* The file with the machine's id. Tests replace it to appear on another machine. */
extern const char *gpud_host_id_file;

#endif
