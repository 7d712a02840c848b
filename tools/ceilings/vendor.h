/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What driver.c calls of a vendor's driver: the calls that all drivers share, which the core
 * declares, and hooks for what differs. cuda.c and hip.c have one each. */
#ifndef GPUD_TOOLS_CEILINGS_VENDOR_H
#define GPUD_TOOLS_CEILINGS_VENDOR_H

#include "device/gpu/calls.h"

#include <stdbool.h>

#define RAW_CALL(member, arguments) int(*member) arguments;

/* Complete once it is open, and constant from then on. */
struct raw_driver {
    const char *vendor; /* "CUDA" */
    const char *prefix; /* of its devices' names: "cuda" in cuda:0 */
    bool opened;

    GPUD_GPU_CALLS(RAW_CALL)

    bool (*open)(char *reason, size_t size); /* fills in the calls */
    const char *(*error_name)(int result);   /* NULL: unknown */

    /* As raw_has_words(), raw_enter() and so on; 0, or the driver's own error. */
    bool (*has_words)(unsigned gpu);
    int (*enter)(unsigned gpu);
    void (*leave)(void);
    int (*enable_peer)(unsigned peer);
    int (*copy)(uint64_t to, uint64_t from, size_t size, void *stream);
    int (*copy_rows)(uint64_t to, size_t to_pitch, uint64_t from, size_t from_pitch, size_t width,
                     size_t rows, void *stream);
    int (*wait_value)(void *stream, uint64_t word, uint32_t value);
};
#undef RAW_CALL

#endif
