/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What keeps this host, or this process, from using any network card. */
#ifndef GPUD_DEVICE_RDMA_HOST_H
#define GPUD_DEVICE_RDMA_HOST_H

#include "base/error.h"

/* Whether something does: *why is the first thing that has to be done, with the command; else "".
 * Looks at what the kernel shows, and opens no card. */
bool gpud_rdma_find_lack(char why[GPUD_REASON_MAX]);

/* Whether this process may open a node below /dev/infiniband, which is closed again. */
bool gpud_rdma_can_open(const char *node, char why[GPUD_REASON_MAX]);

#endif
