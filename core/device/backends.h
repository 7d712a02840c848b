/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Every backend, in the order of "auto" and of listings: if two know one card, the first names it.
 *
 * A vendor is a folder here with its gpud_NAME_ops, its line in this table, and its line in
 * core/meson.build. */
#ifndef GPUD_DEVICE_BACKENDS_H
#define GPUD_DEVICE_BACKENDS_H

#include "device/ops.h"

/* clang-format off */

/* BACKEND(name, whether this build has it: 0 or 1) */
#define GPUD_BACKENDS(BACKEND)          \
    BACKEND(host, GPUD_WITH_HOST)       \
    BACKEND(cuda, GPUD_WITH_CUDA)       \
    BACKEND(hip, GPUD_WITH_HIP)         \
    BACKEND(opencl, GPUD_WITH_OPENCL)   \
    BACKEND(vulkan, GPUD_WITH_VULKAN)   \
    GPUD_TEST_BACKENDS(BACKEND)

/* Rows of a test's own, given on the compiler's command line. */
#ifndef GPUD_TEST_BACKENDS
#define GPUD_TEST_BACKENDS(BACKEND)
#endif
/* clang-format on */

#define GPUD_DECLARE_BACKEND(name, built) extern const struct gpud_device_ops gpud_##name##_ops;
GPUD_BACKENDS(GPUD_DECLARE_BACKEND)
#undef GPUD_DECLARE_BACKEND

struct gpud_backend {
    const char *name;
    const struct gpud_device_ops *ops; /* NULL: this build was configured without it */
};

/* Ends with a name that is NULL. */
extern const struct gpud_backend gpud_backends[];

#endif
