/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whether streams wait for words in pinned pages is tried before it is believed: a runtime that
 * says so and does not do it gets a sentence, and no words. */
#include "device/device.h"
#include "support/check.h"

#include <stdlib.h>

static char said[1024];

static void keep(void *user, enum gpud_log_level level, const char *area, const char *message)
{
    if (level == GPUD_LOG_WARNING)
        snprintf(said, sizeof(said), "%s", message);
}

/* how: what the shim is told; wanted: what is said, NULL: it works. */
static void try_runtime(const char *how, const char *wanted)
{
    struct gpud_context_params params = GPUD_PARAMS_INIT(params);
    AUTO(gpud_context_destroy) struct gpud_context *context = NULL;
    AUTO(gpud_device_close) struct gpud_device *device = NULL;
    SAY("a runtime whose streams wait: %s", how);
    setenv("GPUD_HIP_SHIM_WAIT", how, 1);
    said[0] = '\0';
    params.log = keep;
    params.log_level = GPUD_LOG_WARNING;
    WORKS(gpud_context_create(&params, &context, &e));
    WORKS(gpud_device_open(context, "hip:0", &device, &e));
    bool signals = device->caps & GPUD_CAP_SIGNALS, paged = device->caps & GPUD_CAP_PAGE_SIGNALS;
    CHECK(signals == !wanted && paged == signals, "its words are %s, %s",
          signals ? "used" : "not used", said[0] ? said : "and nothing is said");
    CHECK(!wanted || strstr(said, wanted), "said is \"%s\"", said);
    CHECK(wanted || !said[0], "said is \"%s\"", said);
}

int main(void)
{
    try_runtime("well", NULL);
    try_runtime("refuse", "refuses to wait for a word in pinned memory");
    try_runtime("blind", "does not wait for a word");
    try_runtime("low", "until a word in pinned memory is great enough");
    try_runtime("stuck", "does not see what the CPU writes");
    try_runtime("silent", "is not seen by the CPU");
    try_runtime("well", NULL); /* what was left behind does no harm */
    return 0;
}
