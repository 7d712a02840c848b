/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The version of these headers, and what a program may rely on in the library that it runs with. */
#ifndef GPUDIRECT_VERSION_H
#define GPUDIRECT_VERSION_H

#define GPUD_VERSION_MAJOR 0
#define GPUD_VERSION_MINOR 1
#define GPUD_VERSION_MICRO 0

/* Whether these headers are of this version or a newer one, for the preprocessor:
 * `#if GPUD_CHECK_VERSION(0, 2, 0)`. The library that a program runs with may be another one:
 * gpud_version_string() tells. */
#define GPUD_CHECK_VERSION(major, minor, micro) \
    (GPUD_VERSION_MAJOR > (major) ||            \
     (GPUD_VERSION_MAJOR == (major) &&          \
      (GPUD_VERSION_MINOR > (minor) ||          \
       (GPUD_VERSION_MINOR == (minor) && GPUD_VERSION_MICRO >= (micro)))))

/* clang-format off */
/* The library's file is libgpudirect.so.N. A program goes on working, without being built again,
 * with every library of the same N, older or newer.
 *
 *   raises N
 *     - a function is removed, or its arguments or its meaning change
 *     - a field of a struct moves, changes its type or its meaning, or gets another default
 *     - a struct that has no `size` changes at all (gpud_error, gpud_layout, gpud_plane,
 *       gpud_media and what it is made of)
 *     - the number of a constant changes, or a GPUD_…_MAX that is the length of an array
 *
 *   does not
 *     - a new function. A program that calls it does not start with an older library: the dynamic
 *       linker names the function.
 *     - a new field at the end of a struct that has a `size`. Programs of the release before go on
 *       giving the smaller size:
 *         _params  are read as if the new fields were 0, the default. An older library takes a
 *                  newer program's struct if the fields that it does not know are 0, and refuses
 *                  it with a sentence if they are not.
 *         _info    are filled as far as the caller's size goes. An older library sets the fields
 *                  that it does not know to 0.
 *     - a new field at the end of a struct that a callback is given
 *     - a new constant in an enum, or a new bit: a program must expect some that it does not know
 *       in what it is given
 *
 * While the major version is 0, a new minor version may raise N. What two processes say to each
 * other has a version of its own: who cannot speak with the other is refused with a sentence. */
/* clang-format on */

#endif
