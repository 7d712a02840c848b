/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Merges copies. A device that does not work in the shared memory has a second version of the
 * buffer's bytes. Only the writers know what they wrote, so they record it:
 *
 *   writer                              shared memory                      owner that keeps a copy
 *   commands that write are followed
 *   (writes.c)
 *   WriteSignal: those bytes  ------->  surface
 *                which bytes  ------->  written map: a bit a byte
 *                value        ------->  marker  ----------------->  WaitSignal: takes the bits,
 *                                                                   copies those bytes (bring.c)
 *
 * Comparing values would miss a writer that writes the old value again. */

#ifndef DGMA_LAYER_WRITTEN_H
#define DGMA_LAYER_WRITTEN_H

#include <stdbool.h>

#include "object.h"

/* Rows of bytes, as a command writes them; one row: contiguous. */
struct dgma_box {
    size_t offset, width;
    size_t rows, row_pitch;
    size_t slices, slice_pitch;
};

/* Returns 0 or an errno. `path`: that of the object, whose slot this process owns. */
int dgma_written_create(struct dgma_object *object, const char *path);
/* If there is none, the owner works in place. */
void dgma_written_open(struct dgma_object *object, const char *path);
void dgma_written_unlink(const char *path);
void dgma_written_close(struct dgma_object *object);
/* These bytes of the object were written. */
void dgma_written_add(struct dgma_object *object, size_t at, const struct dgma_box *box);
/* Called before and after the store of the marker. */
void dgma_written_begin_signal(struct dgma_object *object, uint32_t value);
void dgma_written_end_signal(struct dgma_object *object);
/* Whether the marker has a value that no writer announced, so that its writer does not use the map.
 * `seen`: the owner's record of the value at the last check. */
bool dgma_written_is_foreign(const struct dgma_object *object, const _Atomic uint32_t *marker,
                             uint32_t *seen);
/* Whether there is nothing to update. */
bool dgma_written_is_empty(const struct dgma_object *object, const _Atomic uint32_t *marker,
                           uint32_t seen);
/* Calls `give` for each written range, and clears it; stops at the first error. */
cl_int dgma_written_take(struct dgma_object *object,
                         cl_int (*give)(void *user_data, size_t offset, size_t length),
                         void *user_data);

#endif
