/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/rdma/hint.h"

#include "device/rdma/host.h"

void gpud_rdma_hint(const char *place, char *hint, size_t size)
{
    char why[GPUD_REASON_MAX];
    gpud_rdma_find_lack(why);
    gpud_print_n(hint, size, "%s", why);
}
