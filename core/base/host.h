/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which machine this is, and which clock this process looks at. */
#ifndef GPUD_BASE_HOST_H
#define GPUD_BASE_HOST_H

#include <stdint.h>

/* The same for all processes of one running machine, containers included; another one after every
 * boot. All zero: the system does not say. */
void gpud_host_read_id(uint8_t id[16]);

/* Containers may have a CLOCK_MONOTONIC that is off the machine's own: two processes of a machine
 * have the same one if this number is the same. 0: the system knows no such containers. */
uint64_t gpud_host_time_namespace(void);

/* The file that the first is read from. Tests put another one here, and are on another machine. */
extern const char *gpud_host_id_file;

#endif
