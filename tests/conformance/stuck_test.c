/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* stuck DEVICE: a driver that does not clear new memory. It is an error with the cause, the same
 * from every device; further tries leave it no more memory, and when it goes on there is memory
 * again. The test holds the queue that the device clears its memory by. */
#include "conformance.h"
#include "hold.h"

#include "device/cuda/driver.h"
#include "device/gpu/gpu.h"
#include "device/opencl/opencl.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 65536
#define TRIES 20

static bool is_cuda(const struct gpud_device *device)
{
    return strcmp(gpud_device_kind(device), "cuda") == 0;
}

/* The device's own queue, as one that can be held. */
static struct gpud_queue service_of(struct gpud_device *device)
{
    if (is_cuda(device))
        return (struct gpud_queue){.device = device, .native = gpud_gpu(device)->service};
    return (struct gpud_queue){.device = device, .backend = gpud_opencl_device(device)->service};
}

/* As a hold of hold.h, whose word a driver would be told to forget while its own queue, of which
 * the core's list knows nothing, still waits for it. */
struct held {
    struct gpud_memory *words;
    struct gpud_signal *signal;
    struct conformance_hold *hold; /* OpenCL */
};

static void hold_service(struct gpud_device *device, struct held *held)
{
    struct gpud_queue service = service_of(device);
    *held = (struct held){NULL};
    if (!is_cuda(device)) {
        held->hold = conformance_hold_queue(&service);
        return;
    }
    void *page = aligned_alloc(4096, 4096);
    CHECK(page, "out of memory");
    WORKS(gpud_memory_wrap_host(device, page, 4096, false, free, page, &held->words, &e));
    WORKS(gpud_signal_create(held->words, 0, &held->signal, &e));
    WORKS(gpud_signal_wait_queue(held->signal, 1, &service, &e));
}

static void release_service(struct held *held)
{
    conformance_release_queue(held->hold, false);
    if (held->signal)
        WORKS(gpud_signal_poison(held->signal, 1, &e));
}

/* 0 where the driver does not say. */
static size_t used_memory(const struct gpud_device *device)
{
    size_t free = 0, total = 0;
    if (!is_cuda(device))
        return 0;
    struct gpud_gpu *gpu = gpud_gpu(device);
    gpu->driver->enter(gpu);
    CHECK(gpud_cu.mem_get_info(&free, &total) == CUDA_SUCCESS, "no cuMemGetInfo");
    gpu->driver->leave(gpu);
    return total - free;
}

static void refuse(struct gpud_device *device)
{
    struct gpud_memory *memory = NULL;
    struct gpud_error error = {.reason = ""};
    enum gpud_status status =
        gpud_memory_alloc_for(device, SIZE, GPUD_USAGE_LOCAL, &memory, &error);
    CHECK(status == GPUD_IO && strstr(error.reason, "and gives no memory until it goes on"),
          "%s: %s", gpud_status_string(status), error.reason);
    CHECK(!memory, "memory that is not cleared");
}

int main(int argc, char **argv)
{
    struct gpud_memory *memory = NULL;
    CHECK(argc == 2, "usage: stuck <device>");
    alarm(100);
    say_device(argv[1]);
    struct side side = side_open(argv[1]);
    WORKS(gpud_memory_alloc_for(side.device, SIZE, GPUD_USAGE_LOCAL, &memory, &e));
    gpud_memory_unref(&memory);
    int64_t limit = gpud_deadline(30 * GPUD_SEC);
    while (!gpud_worker_is_idle(&side.device->context->later))
        CHECK(gpud_now() < limit, "memory is not given back");
    size_t before = used_memory(side.device);

    say("an error that names the cause");
    struct held service;
    hold_service(side.device, &service);
    refuse(side.device);

    say("further tries cost no memory");
    size_t taken = used_memory(side.device);
    for (int i = 0; i < TRIES; i++)
        refuse(side.device);
    CHECK(used_memory(side.device) == taken, "%d tries took %zu bytes", TRIES,
          used_memory(side.device) - taken);

    say("the driver goes on: there is memory again, and nothing is missing");
    release_service(&service);
    limit = gpud_deadline(30 * GPUD_SEC);
    while (gpud_memory_alloc_for(side.device, SIZE, GPUD_USAGE_LOCAL, &memory, NULL) != GPUD_OK)
        CHECK(gpud_now() < limit, "no memory though the driver goes on");
    gpud_memory_unref(&memory);
    while (used_memory(side.device) != before)
        CHECK(gpud_now() < limit, "%zu bytes stay with the driver",
              used_memory(side.device) - before);
    gpud_signal_destroy(&service.signal);
    gpud_memory_unref(&service.words);
    side_close(&side);
    return 0;
}
