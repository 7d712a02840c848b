/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "give.h"

#include <string.h>

cl_int dgma_give(const void *answer, size_t answer_size, size_t size, void *value, size_t *size_ret)
{
    if (value && size < answer_size)
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, answer, answer_size);
    if (size_ret)
        *size_ret = answer_size;
    return CL_SUCCESS;
}
