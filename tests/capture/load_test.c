/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A capture loads no driver but that of the device that it was given: an OpenCL driver brings a
 * compiler, 70 MB and a second of a slow CPU. */
#include "support/check.h"
#include <gpudirect/capture.h>

#include <string.h>

static const char *const drivers[] = {"/libcuda.so", "/libamdhip64.so", "/libpocl.so", "/libLLVM"};

static void expect_loaded(const char *device, const char *only)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    CHECK(maps, "/proc/self/maps cannot be read");
    while (fgets(line, sizeof(line), maps))
        for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++)
            CHECK(!strstr(line, drivers[i]) || strcmp(only, drivers[i]) == 0, "%s: loaded is %s",
                  device ? device : "no device", strstr(line, drivers[i]));
    fclose(maps);
}

/* The node is no card; its device is opened before it. */
static void try_on(struct gpud_context *context, const char *device)
{
    struct gpud_capture_params params = GPUD_PARAMS_INIT(params);
    struct gpud_capture *capture = NULL;
    params.address = "v4l2:///dev/null";
    params.device = device;
    EXPECT(GPUD_NO_DEVICE, "/dev/null", gpud_capture_create(context, &params, &capture, &e));
}

int main(void)
{
    struct gpud_context *context;
    WORKS(gpud_context_create(NULL, &context, &e));
    expect_loaded("nothing yet", "");
    try_on(context, NULL);
    expect_loaded(NULL, "");
    try_on(context, "host");
    expect_loaded("host", "");
    try_on(context, "auto");
    expect_loaded("auto, with a card that is on no bus", "");
    try_on(context, "cuda:0");
    expect_loaded("cuda:0", "/libcuda.so");
    gpud_context_destroy(&context);
    puts("ok");
    return 0;
}
