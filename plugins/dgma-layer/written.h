/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Copies, and which bytes of them count. A device that does not work in the shared memory has the
 * buffer's bytes a second time, and so there are two versions to be merged. Only the writers know
 * what they wrote, so they say it:
 *
 *   writer                              shared memory                      owner that keeps a copy
 *   commands that write are followed
 *   (writes.c)
 *   WriteSignal: those bytes  ------->  surface
 *                which bytes  ------->  written map: a bit a byte
 *                value        ------->  marker  ----------------->  WaitSignal: takes the bits,
 *                                                                   copies those bytes (bring.c)
 *
 * To compare values would not do: a writer that writes what was there before has written too. */

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

/* 0, or an errno. `path`: of the object, whose slot this process owns. */
int dgma_written_create(struct dgma_object *object, const char *path);
/* Without one the owner works in place. */
void dgma_written_open(struct dgma_object *object, const char *path);
void dgma_written_unlink(const char *path);
void dgma_written_close(struct dgma_object *object);
/* These bytes of the object were written. */
void dgma_written_add(struct dgma_object *object, size_t at, const struct dgma_box *box);
/* Around the store of the marker. */
void dgma_written_begin_signal(struct dgma_object *object, uint32_t value);
void dgma_written_end_signal(struct dgma_object *object);
/* The marker has a value that no writer said it would write: that writer knows of no map. `seen`:
 * the owner's note of the value at the last time. */
bool dgma_written_is_foreign(const struct dgma_object *object, const _Atomic uint32_t *marker,
                             uint32_t *seen);
/* Is there nothing to be brought in? */
bool dgma_written_is_empty(const struct dgma_object *object, const _Atomic uint32_t *marker,
                           uint32_t seen);
/* Calls `give` for each range that was written, and forgets it; ends at the first error. */
cl_int dgma_written_take(struct dgma_object *object,
                         cl_int (*give)(void *user_data, size_t offset, size_t length),
                         void *user_data);

#endif
