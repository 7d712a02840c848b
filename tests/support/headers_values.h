/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Every number of a driver.h by its name, as it was compiled with our declarations or the
 * vendor's. */
#ifndef GPUD_SUPPORT_HEADERS_VALUES_H
#define GPUD_SUPPORT_HEADERS_VALUES_H

#include <stddef.h>

struct value {
    const char *name;
    unsigned long long value;
};

extern const struct value own_values[], vendor_values[];
extern const size_t num_own_values, num_vendor_values;

#define CONSTANT(name)                    \
    {                                     \
#name, (unsigned long long)(name) \
    }
#define SIZE(type)                     \
    {                                  \
        "size of " #type, sizeof(type) \
    }
#define MEMBER(type, member)                                      \
    {#type "." #member, offsetof(type, member)},                  \
    {                                                             \
        "size of " #type "." #member, sizeof(((type *)0)->member) \
    }

#endif
