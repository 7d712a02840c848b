/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* See common.h. */

#include "common.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXTENSION "cl_amd_bus_addressable_memory"

static void skip(const char *reason)
{
    printf("skipped: %s\n", reason);
    exit(77);
}

static void need_extension(const struct cl *cl)
{
    char list[8192];
    CHECK_CL(CL_SUCCESS,
             clGetDeviceInfo(cl->devices[0], CL_DEVICE_EXTENSIONS, sizeof list, list, NULL));
    CHECK(strstr(list, EXTENSION));
}

struct cl open_cl(unsigned seconds)
{
    struct cl cl = {.queue = NULL};
    alarm(seconds);
    if (clGetPlatformIDs(1, &cl.platform, NULL) != CL_SUCCESS)
        skip("no OpenCL platform; install an ICD, for instance pocl-opencl-icd");
    if (clGetDeviceIDs(cl.platform, CL_DEVICE_TYPE_ALL, 8, cl.devices, &cl.num_devices) !=
        CL_SUCCESS)
        skip("the first OpenCL platform has no device");
    if (!getenv("OPENCL_LAYERS"))
        skip("OPENCL_LAYERS does not name the layer; run me through meson test");
    need_extension(&cl);
    cl.wait_signal = (wait_signal_fn)clGetExtensionFunctionAddressForPlatform(
        cl.platform, "clEnqueueWaitSignalAMD");
    cl.write_signal = (write_signal_fn)clGetExtensionFunctionAddressForPlatform(
        cl.platform, "clEnqueueWriteSignalAMD");
    cl.make_resident = (make_resident_fn)clGetExtensionFunctionAddressForPlatform(
        cl.platform, "clEnqueueMakeBuffersResidentAMD");
    CHECK(cl.wait_signal && cl.write_signal && cl.make_resident);
    open_context(&cl);
    return cl;
}

void open_context(struct cl *cl)
{
    cl_int status;
    cl->context = clCreateContext(NULL, cl->num_devices, cl->devices, NULL, NULL, &status);
    CHECK_CL(CL_SUCCESS, status);
    cl->queue = new_queue(cl, 0, false);
}

void close_cl(struct cl *cl)
{
    CHECK_CL(CL_SUCCESS, clFinish(cl->queue));
    CHECK_CL(CL_SUCCESS, clReleaseCommandQueue(cl->queue));
    CHECK_CL(CL_SUCCESS, clReleaseContext(cl->context));
}

cl_command_queue new_queue(struct cl *cl, cl_uint device, bool out_of_order)
{
    cl_int status;
    cl_queue_properties properties[] = {
        CL_QUEUE_PROPERTIES,
        CL_QUEUE_PROFILING_ENABLE | (out_of_order ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0), 0};
    cl_command_queue queue =
        clCreateCommandQueueWithProperties(cl->context, cl->devices[device], properties, &status);
    CHECK_CL(CL_SUCCESS, status);
    return queue;
}

cl_mem new_bus(struct cl *cl, size_t size)
{
    cl_int status;
    cl_mem mem = clCreateBuffer(cl->context, BUS_ADDRESSABLE, size, NULL, &status);
    CHECK_CL(CL_SUCCESS, status);
    return mem;
}

cl_mem new_external(struct cl *cl, size_t size, const struct bus_address *address)
{
    cl_int status;
    struct bus_address copy = *address;
    cl_mem mem = clCreateBuffer(cl->context, EXTERNAL_PHYSICAL, size, &copy, &status);
    CHECK_CL(CL_SUCCESS, status);
    CHECK_CL(CL_SUCCESS, clEnqueueMigrateMemObjects(cl->queue, 1, &mem, 0, 0, NULL, NULL));
    CHECK_CL(CL_SUCCESS, clFinish(cl->queue)); /* other queues use it next */
    return mem;
}

struct bus_address resident(struct cl *cl, cl_mem bus)
{
    struct bus_address address = {1, 1};
    CHECK_CL(CL_SUCCESS, cl->make_resident(cl->queue, 1, &bus, CL_TRUE, &address, 0, NULL, NULL));
    return address;
}

cl_mem new_resident(struct cl *cl, size_t size, struct bus_address *address)
{
    cl_mem bus = new_bus(cl, size);
    *address = resident(cl, bus);
    cl_mem self = new_external(cl, PAGE, address);
    CHECK_CL(CL_SUCCESS, cl->write_signal(cl->queue, self, 0, 0, 0, NULL, NULL));
    CHECK_CL(CL_SUCCESS, clFinish(cl->queue));
    CHECK_CL(CL_SUCCESS, clReleaseMemObject(self));
    return bus;
}

cl_int event_status(cl_event event)
{
    cl_int status;
    CHECK_CL(CL_SUCCESS, clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status,
                                        &status, NULL));
    return status;
}

cl_command_type event_type(cl_event event)
{
    cl_command_type type;
    CHECK_CL(CL_SUCCESS, clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL));
    return type;
}

bool event_done_within(cl_event event, unsigned ms)
{
    double end = now_us() + ms * 1e3;
    while (event_status(event) > CL_COMPLETE) {
        if (now_us() > end)
            return false;
        sleep_ms(1);
    }
    return true;
}

bool event_stays_open(cl_event event, unsigned ms)
{
    sleep_ms(ms);
    return event_status(event) > CL_COMPLETE;
}

double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

void sleep_ms(unsigned ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

bool object_exists(const struct bus_address *address)
{
    char path[80];
    snprintf(path, sizeof path, "/dev/shm/gpudirect-dgma-%u-%05llx", (unsigned)geteuid(),
             (unsigned long long)(address->surface >> 32));
    return access(path, F_OK) == 0;
}

void wait_until_gone(const struct bus_address *address)
{
    for (int i = 0; i < 10000 && object_exists(address); i++)
        sleep_ms(1);
    CHECK(!object_exists(address));
}
