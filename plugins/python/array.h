/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where an array of numbers lies in a frame. */
#ifndef GPUDIRECT_PYTHON_ARRAY_H
#define GPUDIRECT_PYTHON_ARRAY_H

#include <gpudirect/media.h>

#define ARRAY_DIMENSIONS_MAX 3
#define ARRAY_NAME_MAX 8

/* The codes are DLPack's. */
enum array_kind {
    ARRAY_INT = 0,
    ARRAY_UINT = 1,
    ARRAY_FLOAT = 2,
};

struct array {
    enum array_kind kind;
    unsigned bytes;  /* of an element */
    bool big_endian; /* the elements are, and have more than one byte */
    int dimensions;
    int64_t shape[ARRAY_DIMENSIONS_MAX];
    int64_t strides[ARRAY_DIMENSIONS_MAX]; /* in bytes */
    uint64_t offset;                       /* of the first element in the frame */
    uint64_t length;                       /* bytes of all elements */
};

/* So many bytes of a frame, from its first one on. */
void array_raw(struct array *array, uint64_t size);

/* A frame as one array; size: its bytes in use. Planes that are alike become its first dimension.
 * False with a sentence in error if it needs several arrays, or its pixels do not lie in one. */
bool array_of_frame(struct array *array, const struct gpud_media *media,
                    const struct gpud_layout *layout, uint64_t size, struct gpud_error *error);

/* A plane, and its name: "Y", "UV"; the plane's number where the format is not known, whose rows
 * are arrays of bytes. */
bool array_of_plane(struct array *array, char name[ARRAY_NAME_MAX],
                    const struct gpud_layout *layout, uint32_t plane, struct gpud_error *error);

/* Whether the elements lie one behind the other. */
bool array_is_contiguous(const struct array *array);

bool array_has_shape(const struct array *array, int dimensions, const int64_t *shape);

/* Copies elements of the same shape and type, whose strides are in bytes, into the array of the
 * frame that begins at `to`. */
void array_copy(const struct array *array, char *to, const char *from, const int64_t *strides);

#endif
