/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where there is no AMD GPU the sentence says what is missing: the runtime, or what the runtime
 * found no GPU by. Debian's own runtime is loaded where it is installed. */
#include "support/check.h"
#include <gpudirect/gpudirect.h>

#include <dlfcn.h>
#include <unistd.h>

static bool is_installed(void)
{
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
    for (int i = 0; i < 3; i++)
        if (dlopen(names[i], RTLD_NOW | RTLD_LOCAL))
            return true;
    return false;
}

int main(void)
{
    struct gpud_context *context;
    struct gpud_device *device = NULL;
    struct gpud_error error;
    WORKS(gpud_context_create(NULL, &context, &e));
    enum gpud_status status = gpud_device_open(context, "hip:0", &device, &error);
    if (status == GPUD_OK) {
        gpud_device_close(&device);
        gpud_context_destroy(&context);
        SKIP("there is an AMD GPU here");
    }
    bool installed = is_installed();
    SAY("a runtime is %s: %s", installed ? "installed" : "not installed", error.reason);
    CHECK(status == GPUD_NO_DEVICE && !device, "%s", gpud_status_string(status));
    const char *wanted = !installed                             ? "no HIP runtime"
                         : access("/dev/kfd", F_OK) != 0        ? "there is no /dev/kfd"
                         : access("/dev/kfd", R_OK | W_OK) != 0 ? "is not open to this user"
                                                                : "rocminfo";
    CHECK(strstr(error.reason, wanted), "the sentence does not say \"%s\"", wanted);
    CHECK(!installed || strstr(error.reason, "hipError"), "the runtime's own word is missing");
    gpud_context_destroy(&context);
    return 0;
}
