/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What keeps this host, or this process, from using any network card. */
#ifndef GPUD_DEVICE_RDMA_HOST_H
#define GPUD_DEVICE_RDMA_HOST_H

#include "base/error.h"

/* Whether something does. *why is the first thing to mend, with the command, or "". Reads what the
 * kernel shows, and opens no card. */
bool gpud_rdma_find_lack(char why[GPUD_REASON_MAX]);

/* Whether this process may open a node below /dev/infiniband; closes it again. */
bool gpud_rdma_can_open(const char *node, char why[GPUD_REASON_MAX]);

#endif
