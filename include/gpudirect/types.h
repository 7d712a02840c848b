/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* Status codes, errors and the conventions that every gpudirect header shares.
 *
 * Conventions
 *   - Objects are opaque. `_destroy(&x)`, `_close(&x)`, `_unref(&x)` and `_release(&x)` set the
 *     pointer to NULL; giving them NULL or a pointer to NULL does nothing.
 *   - `_params` structs go in. Their first field is `size` (set it with GPUD_PARAMS_INIT); a zero
 *     field means the default, which is stated beside the field.
 *   - `_info` structs, and the few others that come out and have a `size`, say in it how much the
 *     caller has room for (set it with GPUD_INFO_INIT). What the caller has beyond what the library
 *     knows is set to 0. Where size was not set, nothing is written. In a list the first entry's
 *     size is that of each.
 *   - Outputs are written only when the function returns GPUD_OK.
 *   - `struct gpud_error *error` may be NULL. It is written only when the function does not return
 *     GPUD_OK.
 *   - Timeouts are relative, in nanoseconds; 0 polls; negative ones are GPUD_INVALID: no wait is
 *     endless.
 *   - Times are nanoseconds; "monotonic" means CLOCK_MONOTONIC. Sizes, offsets and strides are
 *     bytes.
 *   - Strings that come out are UTF-8 and end with a NUL; arrays of characters that are too short
 *     for a name hold its beginning. */
/* clang-format on */
#ifndef GPUDIRECT_TYPES_H
#define GPUDIRECT_TYPES_H

#include <gpudirect/version.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define GPUD_BEGIN_DECLS extern "C" {
#define GPUD_END_DECLS }
#else
#define GPUD_BEGIN_DECLS
#define GPUD_END_DECLS
#endif

#define GPUD_API __attribute__((visibility("default")))

/* Initialiser for a `_params` struct: `struct gpud_sender_params p = GPUD_PARAMS_INIT(p);` */
#define GPUD_PARAMS_INIT(var) \
    {                         \
        .size = sizeof(var)   \
    }

/* The same for an `_info` struct: `struct gpud_sender_info info = GPUD_INFO_INIT(info);` Where the
 * time counts, it is enough to set info.size. */
#define GPUD_INFO_INIT(var) GPUD_PARAMS_INIT(var)

#define GPUD_USEC INT64_C(1000)
#define GPUD_MSEC INT64_C(1000000)
#define GPUD_SEC INT64_C(1000000000)

/* "No time": a pts_ns, dts_ns or duration_ns that is not known. */
#define GPUD_TIME_NONE UINT64_MAX

GPUD_BEGIN_DECLS

enum gpud_status {
    GPUD_OK = 0,
    GPUD_AGAIN,       /* interrupted by gpud_*_interrupt(): call again once it is cleared */
    GPUD_TIMEOUT,     /* the deadline passed first */
    GPUD_CLOSED,      /* the stream ended in order (EOS), or the object was closed */
    GPUD_INVALID,     /* an argument, or a value in a params struct, is wrong */
    GPUD_UNSUPPORTED, /* right, but this device, route or build cannot do it */
    GPUD_NO_DEVICE,   /* no such device, driver or capture node */
    GPUD_NO_MEMORY,   /* out of host or device memory, or of an aperture */
    GPUD_NO_ACCESS,   /* permissions, another user's socket, a container's wall */
    GPUD_PEER,        /* the peer vanished, or broke the protocol */
    GPUD_IO,          /* the system or a driver failed: see native */
};

/* Room for a sentence, or for what speaks against several routes, and the end of the string. */
#define GPUD_REASON_MAX 512

struct gpud_error {
    enum gpud_status status;
    long native;        /* errno, cl_int, CUresult…: what the failing call gave; or 0 */
    const char *origin; /* whose number that is, "errno", "opencl"…: a static string; or NULL */
    char reason[GPUD_REASON_MAX]; /* one sentence that a user can act on */
};

/* The name of a status, as in "timeout". Never NULL. */
GPUD_API const char *gpud_status_string(enum gpud_status status);

/* The version of the library that runs, as in "0.1.0"; that of the headers is in version.h. */
GPUD_API const char *gpud_version_string(void);

enum gpud_log_level {
    GPUD_LOG_ERROR = 1, /* something the user asked for does not work */
    GPUD_LOG_WARNING,   /* it works, but not as it should: a fall-back, a lost peer */
    GPUD_LOG_INFO,      /* connections, routes, epochs; nothing that happens once a frame */
    GPUD_LOG_DEBUG,
};

/* Called from any thread of the library, possibly with locks held: must not call back into it. What
 * others do can make no flood of lines: beyond 100 in one second of the clock they are left out,
 * and the first line after that second says how many. Errors always come. */
typedef void (*gpud_log_fn)(void *user, enum gpud_log_level level, const char *area,
                            const char *text);

GPUD_END_DECLS

#endif
