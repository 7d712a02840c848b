/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Linked with the objects of gpudirect-info: it then sees the network cards of a made-up host, the
 * files of which lie below $GPUDIRECT_HOST. */
#include "base/base.h"

#include <stdlib.h>

__attribute__((constructor)) static void use_host(void)
{
    const char *folder = getenv("GPUDIRECT_HOST");
    if (folder)
        gpud_sysfs_root = folder;
}
