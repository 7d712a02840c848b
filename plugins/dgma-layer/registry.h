/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Bus addresses and the shared memory behind them. */

#ifndef DGMA_LAYER_REGISTRY_H
#define DGMA_LAYER_REGISTRY_H

#include <stdbool.h>

#include "object.h"

/* A surface of `surface` bytes (a multiple of a page) with a new address; `keeps_copy`: with a map
 * of written bytes (written.h). NULL: logged why. */
struct dgma_object *dgma_object_create(size_t surface, bool keeps_copy);
/* The object that contains `address`, of any process, and the offset. NULL: logged why. */
struct dgma_object *dgma_object_find(cl_ulong address, size_t *offset);
void dgma_object_unref(struct dgma_object *object); /* NULL is fine */
/* Prevents new imports; existing mappings stay. */
void dgma_object_unpublish(struct dgma_object *object);
/* Removes all files of this process from /dev/shm. */
void dgma_registry_finish(void);

#endif
