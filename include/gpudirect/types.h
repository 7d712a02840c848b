/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/** @file
 * Status codes, errors and the conventions that all headers of gpudirect share.
 *
 * - Objects are opaque. `_destroy(&x)`, `_close(&x)`, `_unref(&x)` and `_release(&x)` set the
 *   pointer to NULL; with NULL, or a pointer to NULL, they do nothing.
 * - `_params` structs go in. Their first field is `size` (set it with GPUD_PARAMS_INIT). A field
 *   that is zero means the default, which is stated beside the field. If size
 *   is not set, or a required struct is NULL, the call fails with GPUD_INVALID.
 * - `_info` structs, and the few others that come out and have a `size`, say in it how much room
 *   the caller has (set it with GPUD_INFO_INIT). Fields that the library does not know are set
 *   to 0. If size is not set, nothing is written. In an array the first entry's size is that of
 *   each. What a pointer in an `_info` leads to belongs to the library and lives as long as the
 *   object that was asked; its own `size` says how much of it the library knows.
 * - Outputs are written only when the function returns GPUD_OK.
 * - `struct gpud_error *error` may be NULL. It is written only when the function does not return
 *   GPUD_OK.
 * - Times are in nanoseconds, and their names end in `_ns`; "monotonic" means CLOCK_MONOTONIC.
 *   Timeouts are relative; 0 does not wait; negative ones are GPUD_INVALID: no wait is endless.
 *   Sizes, offsets and strides are in bytes.
 * - Strings that come out are UTF-8 and end with a NUL. An array of characters that is too short
 *   for a name holds its beginning.
 *   Strings that go in may be NULL unless they are required; where "" means the same, the field
 *   says so.
 * - A closed set of values is an enum. An open set is named by strings: devices, routes, capture
 *   methods, formats and groups.
 * - A newer library may return a status, or an enum's constant, that the program does not know.
 */
#ifndef GPUDIRECT_TYPES_H
#define GPUDIRECT_TYPES_H

#include <gpudirect/version.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
/** Opens declarations with C linkage. */
#define GPUD_BEGIN_DECLS extern "C" {
/** Closes GPUD_BEGIN_DECLS. */
#define GPUD_END_DECLS }
#else
/** Opens declarations with C linkage. */
#define GPUD_BEGIN_DECLS
/** Closes GPUD_BEGIN_DECLS. */
#define GPUD_END_DECLS
#endif

/** Marks what the library exports. */
#define GPUD_API __attribute__((visibility("default")))

/** Initialiser for a `_params` struct: `struct gpud_sender_params p = GPUD_PARAMS_INIT(p);` */
#define GPUD_PARAMS_INIT(var) \
    {                         \
        .size = sizeof(var)   \
    }

/** The same for an `_info` struct: `struct gpud_sender_info info = GPUD_INFO_INIT(info);` Where the
 * time counts, it is enough to set info.size. */
#define GPUD_INFO_INIT(var) GPUD_PARAMS_INIT(var)

/** A microsecond in ns. */
#define GPUD_USEC INT64_C(1000)
/** A millisecond in ns. */
#define GPUD_MSEC INT64_C(1000000)
/** A second in ns. */
#define GPUD_SEC INT64_C(1000000000)

/** "No time": a pts_ns, dts_ns or duration_ns that is not known. */
#define GPUD_TIME_NONE UINT64_MAX

GPUD_BEGIN_DECLS

/** What a function returns. */
enum gpud_status {
    GPUD_OK = 0,
    GPUD_AGAIN,       /**< interrupted by gpud_*_interrupt(): call again once it is cleared */
    GPUD_TIMEOUT,     /**< the deadline passed first */
    GPUD_CLOSED,      /**< the stream ended in order (EOS), or the object was closed */
    GPUD_INVALID,     /**< an argument, or a value in a params struct, is wrong */
    GPUD_UNSUPPORTED, /**< right, but this device, route or build cannot do it */
    GPUD_NO_DEVICE,   /**< no such device, driver or capture node */
    GPUD_NO_MEMORY,   /**< out of host or device memory, or of an aperture */
    GPUD_NO_ACCESS,   /**< forbidden by permissions, by another user's socket or by a container */
    GPUD_PEER,        /**< the peer vanished, or broke the protocol */
    GPUD_IO,          /**< the system or a driver failed: see native */
};

/** Bytes of a reason, with its NUL: a sentence, or one for each of several routes. */
#define GPUD_REASON_MAX 512

/** Why a function failed. */
struct gpud_error {
    enum gpud_status status; /**< what the function returned */
    long native;             /**< errno, cl_int, CUresult…: what the failing call gave; or 0 */
    const char *origin; /**< whose number that is, "errno", "opencl"…: a static string; or NULL */
    char reason[GPUD_REASON_MAX]; /**< one sentence that a user can act on */
};

/** The name of a status, as in "timeout".
 *
 * @param status  any value
 * @return a static string, never NULL
 */
GPUD_API const char *gpud_status_string(enum gpud_status status);

/** The version of the library that the program runs with. That of the headers is in version.h.
 *
 * @return a static string, as in "0.2.0"
 */
GPUD_API const char *gpud_version_string(void);

/** How much a line of the log matters. */
enum gpud_log_level {
    GPUD_LOG_ERROR = 1, /**< something the user asked for does not work */
    GPUD_LOG_WARNING,   /**< it works, but not as it should: a fall-back, a lost peer */
    GPUD_LOG_INFO,      /**< connections, routes, epochs; nothing that happens once a frame */
    GPUD_LOG_DEBUG,
};

/** Receives a line of the log. Called from any thread of the library, possibly with locks held: it
 * must not call the library. At most 100 lines a second are logged, besides errors, which are never
 * left out; the first line after such a second says how many were left out. */
typedef void (*gpud_log_fn)(void *user, enum gpud_log_level level, const char *area,
                            const char *text);

GPUD_END_DECLS

#endif
