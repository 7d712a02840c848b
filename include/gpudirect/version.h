/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/** @file
 * The version of these headers, and what a program may rely on in the library that it runs with.
 */
#ifndef GPUDIRECT_VERSION_H
#define GPUDIRECT_VERSION_H

/** Of these headers: see core/NEWS.md for what the numbers promise. */
#define GPUD_VERSION_MAJOR 0
/** Of these headers. */
#define GPUD_VERSION_MINOR 2
/** Of these headers. */
#define GPUD_VERSION_MICRO 0

/** Whether these headers are of this version or a newer one, for the preprocessor: `#if
 * GPUD_CHECK_VERSION(0, 2, 0)`. The library that a program runs with may be another one:
 * gpud_version_string() tells. */
#define GPUD_CHECK_VERSION(major, minor, micro) \
    (GPUD_VERSION_MAJOR > (major) ||            \
     (GPUD_VERSION_MAJOR == (major) &&          \
      (GPUD_VERSION_MINOR > (minor) ||          \
       (GPUD_VERSION_MINOR == (minor) && GPUD_VERSION_MICRO >= (micro)))))

/* clang-format off */
/** @page compatibility Compatibility
 * The library's file is libgpudirect.so.N. A program keeps working, without being rebuilt,
 * with every library of the same N, older or newer. Since when, and what holds between two
 * processes, is written in core/NEWS.md.
 *
 * What raises N:
 * - A function is removed, or its arguments or its meaning change.
 * - A field of a struct moves, changes its type or its meaning, or gets another default.
 * - A struct that does not begin with `size` changes at all: gpud_error; gpud_layout with
 *   gpud_plane; gpud_media with gpud_picture, gpud_audio, gpud_data, gpud_tensors, gpud_tensor,
 *   gpud_fraction, gpud_colorimetry and gpud_hdr_metadata; gpud_capture_control,
 *   gpud_capture_rate, gpud_link_stats and gpud_region_key.
 * - The number of a constant changes, or a GPUD_…_MAX that is the length of an array.
 *
 * What does not:
 * - A new function. A program that calls it does not start with an older library: the dynamic
 *   linker names the function and the version that has it.
 * - A new field at the end of a struct that begins with `size`. Programs of an older release go on
 *   giving the smaller size. `_params` are read as if the new fields were 0, the default; an older
 *   library takes a newer program's struct if the fields that it does not know are 0, and returns
 *   GPUD_UNSUPPORTED otherwise. `_info` are filled as far as the caller's size goes; an older
 *   library sets the fields that it does not know to 0. What a pointer in an `_info` leads to has
 *   its own `size`, which says how much of it the library knows.
 * - A new field at the end of a struct that only a callback is given: gpud_peer_info,
 *   gpud_format_event, gpud_user_event, gpud_switch_event.
 * - A new constant in an enum, or a new bit: a program must expect some that it does not know in
 *   what it is given.
 */
/* clang-format on */

#endif
