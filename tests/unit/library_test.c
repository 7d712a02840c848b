/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Libraries that are opened on first need: calls go to them, and one that is missing or too old is
 * named with its package. */
#include "base/base.h"
#include "support/check.h"

/* Comes with every glibc, and this program does not link it. */
#define LIBRARY "libresolv.so.2"
unsigned ns_get16(const unsigned char *bytes);
int ns_samename(const char *one, const char *other);

#ifdef GPUD_STUB_JUMP
#define RESOLV(F) F(ns_get16) F(ns_samename)
GPUD_STUBS(resolv, RESOLV, LIBRARY, "libc6")
#define MISSING(F) F(gpud_no_such_function)
GPUD_STUBS(missing, MISSING, LIBRARY, "libc6")
#define NOWHERE(F) F(gpud_no_such_library)
GPUD_STUBS(nowhere, NOWHERE, "libgpudirect-nowhere.so.7", "gpudirect-nowhere")
#endif

int main(void)
{
    /* The core's own are linked here. */
    struct gpud_error e;
    CHECK(gpud_library_need(&gpud_library_hwloc, &e) == GPUD_OK, "what is linked is open");
    CHECK(gpud_library_is_loaded(&gpud_library_hwloc), "what is linked is loaded");
#ifndef GPUD_STUB_JUMP
    SKIP("no stubs for this processor: libraries are linked");
#else
    CHECK(!gpud_stub_ns_get16, "there is a pointer before its library is open");
    for (int i = 0; i < 2; i++)
        CHECK(gpud_library_need(&gpud_library_resolv, &e) == GPUD_OK, "%s", e.reason);
    CHECK(gpud_library_is_loaded(&gpud_library_resolv), LIBRARY " is open and not loaded");
    CHECK_EQUAL(ns_get16((const unsigned char *)"\1\2"), 258);
    CHECK_EQUAL(ns_samename("A.example", "a.example."), 1);

    CHECK(gpud_library_need(&gpud_library_missing, &e) == GPUD_UNSUPPORTED &&
              strstr(e.reason, LIBRARY " has no gpud_no_such_function: install a newer one "),
          "a function that is missing: %s", e.reason);
    CHECK(gpud_library_need(&gpud_library_nowhere, &e) == GPUD_UNSUPPORTED &&
              strstr(e.reason, "libgpudirect-nowhere.so.7 cannot be loaded (") &&
              strstr(e.reason, "install it (Debian: apt install gpudirect-nowhere)"),
          "a library that is missing: %s", e.reason);
    CHECK(!gpud_library_is_loaded(&gpud_library_nowhere), "a missing library is loaded");
#endif
    return 0;
}
