/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* driver DEVICE CASE: drivers that do less than they should.
 *
 * late: one takes too long to give memory its bus address. The test stands between the core and
 * that driver (the linker's --wrap) and holds its answer back.
 *
 * stuck: one does not clear new memory. It is an error with the cause, the same from every device;
 * further tries leave it no more memory, and when it goes on there is memory again. The test holds
 * the queue that the device clears its memory by. */
#include "conformance.h"

#include "device/cuda/driver.h"
#include "device/gpu/gpu.h"
#include "device/opencl/opencl.h"

#include <CL/cl.h>

#define SIZE 65536

/* --- late --- */

typedef cl_int(CL_API_CALL *make_resident_fn)(cl_command_queue queue, cl_uint count,
                                              cl_mem *memories, cl_bool blocking, void *addresses,
                                              cl_uint events, const cl_event *after,
                                              cl_event *event);
static make_resident_fn make_resident;
static bool holding;
static cl_event gate, answer; /* of the call that is held */

static cl_int CL_API_CALL make_resident_late(cl_command_queue queue, cl_uint count,
                                             cl_mem *memories, cl_bool blocking, void *addresses,
                                             cl_uint events, const cl_event *after, cl_event *event)
{
    if (!holding)
        return make_resident(queue, count, memories, blocking, addresses, events, after, event);
    cl_context context;
    cl_int code;
    CHECK(!gate && events == 0 && !blocking, "another call than the one that is known");
    clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof(cl_context), &context, NULL);
    gate = clCreateUserEvent(context, &code);
    CHECK(gate, "no user event: %d", code);
    code = make_resident(queue, count, memories, blocking, addresses, 1, &gate, event);
    if (code == CL_SUCCESS) {
        answer = *event;
        clRetainEvent(answer);
    }
    return code;
}

__typeof__(clGetExtensionFunctionAddressForPlatform)
    __real_clGetExtensionFunctionAddressForPlatform,
    __wrap_clGetExtensionFunctionAddressForPlatform;
void *__wrap_clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char *name)
{
    void *found = __real_clGetExtensionFunctionAddressForPlatform(platform, name);
    if (!found || strcmp(name, "clEnqueueMakeBuffersResidentAMD") != 0)
        return found;
    make_resident = (make_resident_fn)found;
    return (void *)make_resident_late;
}

static void test_late(struct side *side)
{
    struct gpud_memory *memory = NULL;
    CHECK(make_resident, "%s has no bus addresses", side->device->info.name);

    SAY("a driver that does not answer in time: an error, and no memory");
    holding = true;
    EXPECT(GPUD_IO, "failed to make memory resident within",
           gpud_memory_alloc_for(side->device, SIZE, GPUD_USAGE_TARGET, &memory, &e));
    CHECK(!memory && gate, "memory without an answer");

    SAY("it answers after all: the next one comes at once");
    holding = false;
    /* It writes to the first address, though that is no longer read. Overwritten memory and leaks
     * are left to the sanitizers. */
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE) == CL_SUCCESS, "the gate does not open");
    CHECK(clWaitForEvents(1, &answer) == CL_SUCCESS, "the driver does not answer");
    clReleaseEvent(answer);
    clReleaseEvent(gate);
    memory = NEW_MEMORY_FOR(side->device, SIZE, GPUD_USAGE_TARGET);
    gpud_memory_unref(&memory);
}

/* --- stuck --- */

#define TRIES 20

static bool is_cuda(const struct gpud_device *device)
{
    return strcmp(gpud_device_kind(device), "cuda") == 0;
}

/* As a hold of any queue, whose word a driver would be told to forget while its own queue, of which
 * the core's list knows nothing, still waits for it. */
struct held {
    struct gpud_memory *words;
    struct gpud_signal *signal;
    struct hold *hold; /* OpenCL */
};

/* The device's own queue. */
static struct held hold_service(struct gpud_device *device)
{
    struct gpud_queue service = {.device = device};
    struct held held = {NULL};
    if (!is_cuda(device)) {
        service.backend = gpud_opencl_device(device)->service;
        held.hold = hold_queue(&service);
        return held;
    }
    service.native = gpud_gpu(device)->service;
    void *page = aligned_alloc(4096, 4096);
    CHECK(page, "out of memory");
    held.words = WRAP_HOST(device, page, 4096, free, page);
    WORKS(gpud_signal_create(held.words, 0, &held.signal, &e));
    WORKS(gpud_signal_wait_queue(held.signal, 1, &service, &e));
    return held;
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
    EXPECT(GPUD_IO, "and gives no memory until it goes on",
           gpud_memory_alloc_for(device, SIZE, GPUD_USAGE_LOCAL, &memory, &e));
    CHECK(!memory, "memory that is not cleared");
}

static void test_stuck(struct side *side)
{
    struct gpud_memory *memory = NEW_MEMORY_FOR(side->device, SIZE, GPUD_USAGE_LOCAL);
    gpud_memory_unref(&memory);
    wait_for_worker(side->context);
    size_t before = used_memory(side->device);

    SAY("an error that names the cause");
    struct held service = hold_service(side->device);
    refuse(side->device);

    SAY("further tries cost no memory");
    size_t taken = used_memory(side->device);
    for (int i = 0; i < TRIES; i++)
        refuse(side->device);
    CHECK(used_memory(side->device) == taken, "%d tries took %zu bytes", TRIES,
          used_memory(side->device) - taken);

    SAY("the driver goes on: there is memory again, and nothing is missing");
    release_queue(service.hold, false);
    if (service.signal)
        WORKS(gpud_signal_poison(service.signal, 1, &e));
    PEER_UNTIL("there is memory when the driver goes on", 30000,
               gpud_memory_alloc_for(side->device, SIZE, GPUD_USAGE_LOCAL, &memory, NULL) ==
                   GPUD_OK);
    gpud_memory_unref(&memory);
    PEER_UNTIL("no bytes stay with the driver", 30000, used_memory(side->device) == before);
    gpud_signal_destroy(&service.signal);
    gpud_memory_unref(&service.words);
}

int main(int argc, char **argv)
{
    conformance_begin(argc, argv);
    CHECK(argc == 3, "usage: %s DEVICE late|stuck", argv[0]);
    alarm(100);
    AUTO(side_close) struct side side = side_open(argv[1]);
    if (strcmp(argv[2], "late") == 0)
        test_late(&side);
    else
        test_stuck(&side);
    return 0;
}
