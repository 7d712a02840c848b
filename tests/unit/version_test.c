/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The headers' version is the library's, which is the build's: GPUD_VERSION comes from there. */
#include "support/check.h"
#include <gpudirect/gpudirect.h>

_Static_assert(GPUD_CHECK_VERSION(GPUD_VERSION_MAJOR, GPUD_VERSION_MINOR, GPUD_VERSION_MICRO),
               "not even its own version");
_Static_assert(!GPUD_CHECK_VERSION(GPUD_VERSION_MAJOR, GPUD_VERSION_MINOR, GPUD_VERSION_MICRO + 1),
               "newer than itself");
_Static_assert(!GPUD_CHECK_VERSION(GPUD_VERSION_MAJOR, GPUD_VERSION_MINOR + 1, 0),
               "newer than itself");
_Static_assert(!GPUD_CHECK_VERSION(GPUD_VERSION_MAJOR + 1, 0, 0), "newer than itself");
_Static_assert(GPUD_CHECK_VERSION(GPUD_VERSION_MAJOR - 1, 999, 999), "a major version is more");
_Static_assert(GPUD_CHECK_VERSION(GPUD_VERSION_MAJOR, GPUD_VERSION_MINOR - 1, 999),
               "a minor version is more");

int main(void)
{
    char headers[32];
    snprintf(headers, sizeof(headers), "%d.%d.%d", GPUD_VERSION_MAJOR, GPUD_VERSION_MINOR,
             GPUD_VERSION_MICRO);
    CHECK_TEXT(headers, GPUD_VERSION);
    CHECK_TEXT(headers, gpud_version_string());
    return 0;
}
