/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/unix/received.h"

#include "base/directory.h"
#include "wire/unix/lock.h"
#include "wire/unix/registry.h"

#include <stdatomic.h>
#include <unistd.h>

void gpud_received_note(struct gpud_received *received, const char *place)
{
    static atomic_uint number; /* one process may receive a channel several times */
    char directory[GPUD_SOCKET_PATH_MAX], entry[GPUD_REGISTRY_ENTRY_MAX];
    received->lock = -1;
    if (gpud_private_directory(directory, sizeof(directory), NULL) != GPUD_OK)
        return;
    gpud_registry_received_entry(place, entry);
    int length = gpud_print_n(received->path, sizeof(received->path), "%s/%s!%ld.%u", directory,
                              entry, (long)getpid(), atomic_fetch_add(&number, 1));
    if (length > 0 && (size_t)length < sizeof(received->path))
        gpud_lock_file_take(received->path, &received->lock, NULL);
}

void gpud_received_remove(struct gpud_received *received)
{
    if (received->lock >= 0)
        gpud_lock_file_drop(received->path, &received->lock);
}
