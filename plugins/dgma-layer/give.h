/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef DGMA_LAYER_GIVE_H
#define DGMA_LAYER_GIVE_H

#include <CL/cl.h>
#include <stddef.h>

/* Returns a value in the way of OpenCL's clGet…Info functions. */
cl_int dgma_give(const void *answer, size_t answer_size, size_t size, void *value,
                 size_t *size_ret);

#endif
