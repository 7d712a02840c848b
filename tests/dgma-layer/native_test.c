/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A device that has the extension itself: its driver gets every call as the program made it. */

#include <string.h>

#include "common.h"
#include "native.h"

int main(void)
{
    AUTO(close_cl) struct cl cl = open_cl(60);
    char list[8192];
    const char *name = "cl_amd_bus_addressable_memory";
    OK(clGetDeviceInfo(cl.devices[0], CL_DEVICE_EXTENSIONS, sizeof list, list, NULL));
    CHECK(strstr(list, name) && !strstr(strstr(list, name) + 1, name));

    cl_int status = 0;
    CHECK(!clCreateBuffer(cl.context, NATIVE_FLAGS, PAGE, NULL, &status));
    CHECK_CL(NATIVE_BUFFER, status);
    AUTO(drop_mem) cl_mem plain = new_plain(&cl, PAGE);
    struct bus_address address = {1, 1};
    CHECK_CL(NATIVE_WAIT, cl.wait_signal(cl.queue, plain, 11, 0, NULL, NULL));
    CHECK_CL(NATIVE_WRITE, cl.write_signal(cl.queue, plain, 12, 13, 0, NULL, NULL));
    CHECK_CL(NATIVE_RESIDENT,
             cl.make_resident(cl.queue, 1, &plain, CL_TRUE, &address, 0, NULL, NULL));
    CHECK(address.surface == 1);
    return 0;
}
