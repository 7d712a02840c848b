/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/sized.h"

#include <string.h>

/* Far above any struct of ours: a larger size is uninitialised memory. */
#define SIZE_MAX_SANE 65536

enum gpud_status gpud_sized_read(void *to, size_t known, const void *from, size_t required,
                                 const char *name, struct gpud_error *error)
{
    size_t size;
    if (!from)
        return gpud_fail(error, GPUD_INVALID, "a struct %s is needed, and NULL was given", name);
    memcpy(&size, from, sizeof(size));
    if (size < required || size > SIZE_MAX_SANE)
        return gpud_fail(error, GPUD_INVALID,
                         "%s.size is not set: it is %zu, and %zu at least; use GPUD_PARAMS_INIT",
                         name, size, required);
    for (size_t i = known; i < size; i++)
        if (((const char *)from)[i])
            return gpud_fail(error, GPUD_UNSUPPORTED,
                             "the program sets a field of %s that this gpudirect %s does not know: "
                             "it needs a newer one",
                             name, gpud_version_string());
    memset(to, 0, known);
    memcpy(to, from, size < known ? size : known);
    memcpy(to, &known, sizeof(known));
    return GPUD_OK;
}

void gpud_sized_copy(void *to, size_t size, const void *from, size_t from_size)
{
    size_t both = size < from_size ? size : from_size;
    if (both < sizeof(size) || size > SIZE_MAX_SANE)
        return;
    memcpy(to, from, both);
    memset((char *)to + both, 0, size - both);
    memcpy(to, &size, sizeof(size));
}

void gpud_sized_entry(void *list, size_t max, size_t at, const void *from, size_t from_size)
{
    size_t size;
    if (at >= max)
        return;
    memcpy(&size, list, sizeof(size));
    gpud_sized_copy((char *)list + at * size, size, from, from_size);
}
