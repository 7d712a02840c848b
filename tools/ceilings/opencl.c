/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The benefit of an explicit early move with an OpenCL driver, without gpudirect. With and without
 * it in turn, a few frames each: the sender's device fills a buffer while the receiver's is busy
 * with work of its own; then the receiver's device copies the buffer. The copy is the first use,
 * which waits for the move if the driver has not begun it before; it is what is measured. Every
 * frame's bytes are checked on arrival. */
#include "ceilings/ceilings.h"

#include "clock.h"

#include <string.h>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#define SLOTS 4
#define ROUNDS 10
#define FRAMES_MAX 32 /* in a round */
#define PLATFORMS_MAX 16
#define DEVICES_MAX 32

struct rig {
    const struct raw_caller *caller;
    cl_context context;
    cl_device_id device[2]; /* the sender's, the receiver's */
    cl_command_queue fill;  /* the sender's */
    cl_command_queue move, use;
    cl_mem slot[SLOTS], target, scratch;
    size_t size;
    uint8_t number; /* of the latest frame */
};

static void opencl_check(const struct rig *rig, const char *what, cl_int code)
{
    if (code != CL_SUCCESS)
        raw_fail(rig->caller, GPUD_IO, "measuring what OpenCL reaches: %s gives %d", what, code);
}

/* Device `index` in the order of opencl:0, opencl:1…, and its platform. */
static cl_device_id opencl_find_device(const struct rig *rig, unsigned long index,
                                       cl_platform_id *platform)
{
    cl_platform_id platforms[PLATFORMS_MAX];
    cl_uint platform_count = 0;
    opencl_check(rig, "clGetPlatformIDs",
                 clGetPlatformIDs(PLATFORMS_MAX, platforms, &platform_count));
    for (cl_uint p = 0; p < MIN(platform_count, PLATFORMS_MAX); p++) {
        cl_device_id ids[DEVICES_MAX];
        cl_uint count = 0;
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, DEVICES_MAX, ids, &count) !=
            CL_SUCCESS)
            continue;
        count = MIN(count, DEVICES_MAX);
        if (index < count) {
            *platform = platforms[p];
            return ids[index];
        }
        index -= count;
    }
    raw_fail(rig->caller, GPUD_NO_DEVICE,
             "there is no such OpenCL device: gpudirect-info lists them");
}

static cl_command_queue make_queue(const struct rig *rig, int end)
{
    cl_int code;
    cl_command_queue queue = clCreateCommandQueue(rig->context, rig->device[end], 0, &code);
    opencl_check(rig, "clCreateCommandQueue", code);
    return queue;
}

static cl_mem make_buffer(const struct rig *rig)
{
    cl_int code;
    cl_mem buffer = clCreateBuffer(rig->context, CL_MEM_READ_WRITE, rig->size, NULL, &code);
    opencl_check(rig, "clCreateBuffer", code);
    return buffer;
}

static void open_rig(struct rig *rig, const struct raw_opencl_job *job)
{
    cl_platform_id platform[2];
    const char *names[] = {job->from, job->to};
    for (int i = 0; i < 2; i++)
        rig->device[i] = opencl_find_device(
            rig, g_ascii_strtoull(strchr(names[i], ':') + 1, NULL, 10), &platform[i]);
    if (platform[0] != platform[1])
        raw_fail(rig->caller, GPUD_UNSUPPORTED,
                 "%s and %s belong to different OpenCL drivers: no buffer moves from one "
                 "to the other",
                 job->from, job->to);
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                (cl_context_properties)platform[0], 0};
    cl_int code;
    rig->context = clCreateContext(properties, 2, rig->device, NULL, NULL, &code);
    opencl_check(rig, "clCreateContext", code);
    rig->size = job->size;
    rig->fill = make_queue(rig, 0);
    rig->move = make_queue(rig, 1);
    rig->use = make_queue(rig, 1);
    for (int i = 0; i < SLOTS; i++)
        rig->slot[i] = make_buffer(rig);
    rig->target = make_buffer(rig);
    rig->scratch = make_buffer(rig);
}

static void close_rig(struct rig *rig)
{
    for (int i = 0; i < SLOTS; i++)
        clReleaseMemObject(rig->slot[i]);
    clReleaseMemObject(rig->target);
    clReleaseMemObject(rig->scratch);
    clReleaseCommandQueue(rig->fill);
    clReleaseCommandQueue(rig->move);
    clReleaseCommandQueue(rig->use);
    clReleaseContext(rig->context);
}

static void opencl_fill(const struct rig *rig, cl_command_queue queue, cl_mem buffer, uint8_t value,
                        cl_event *event)
{
    opencl_check(rig, "clEnqueueFillBuffer",
                 clEnqueueFillBuffer(queue, buffer, &value, 1, 0, rig->size, 0, NULL, event));
    opencl_check(rig, "clFlush", clFlush(queue));
}

static void migrate(const struct rig *rig, cl_command_queue queue, cl_mem buffer,
                    cl_mem_migration_flags flags, cl_uint count, const cl_event *after,
                    cl_event *event)
{
    opencl_check(rig, "clEnqueueMigrateMemObjects",
                 clEnqueueMigrateMemObjects(queue, 1, &buffer, flags, count, after, event));
    opencl_check(rig, "clFlush", clFlush(queue));
}

static void check_arrived(const struct rig *rig)
{
    const size_t places[] = {0, rig->size / 2, rig->size - 1};
    for (int i = 0; i < 3; i++) {
        uint8_t byte;
        opencl_check(rig, "clEnqueueReadBuffer",
                     clEnqueueReadBuffer(rig->use, rig->target, CL_TRUE, places[i], 1, &byte, 0,
                                         NULL, NULL));
        if (byte != rig->number)
            raw_fail(rig->caller, GPUD_IO, "OpenCL moved a frame, and its bytes are others");
    }
}

/* Passes one frame; returns how long its first use took. */
static int64_t pass_frame(struct rig *rig, bool early)
{
    cl_event filled, moved = NULL;
    cl_mem slot = rig->slot[++rig->number % SLOTS];
    if (early)
        migrate(rig, rig->fill, slot, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, NULL);
    opencl_fill(rig, rig->fill, slot, rig->number, &filled);
    if (early)
        migrate(rig, rig->move, slot, 0, 1, &filled, &moved);
    opencl_fill(rig, rig->use, rig->scratch, 0,
                NULL); /* keeps the receiver's device busy meanwhile */
    opencl_check(rig, "clFinish", clFinish(rig->fill));
    opencl_check(rig, "clFinish", clFinish(rig->use));
    int64_t start = clock_now();
    opencl_check(rig, "clEnqueueCopyBuffer",
                 clEnqueueCopyBuffer(rig->use, slot, rig->target, 0, 0, rig->size, 1,
                                     early ? &moved : &filled, NULL));
    opencl_check(rig, "clFinish", clFinish(rig->use));
    int64_t took = clock_now() - start;
    clReleaseEvent(filled);
    if (moved)
        clReleaseEvent(moved);
    check_arrived(rig);
    return took;
}

void raw_opencl_measure(const struct raw_opencl_job *job, const struct raw_caller *caller,
                        struct raw_opencl_figures *figures)
{
    static int64_t taken[2][ROUNDS * FRAMES_MAX];
    struct rig rig = {.caller = caller};
    uint32_t frames = CLAMP(job->frames / ROUNDS, 1, FRAMES_MAX), count = 0;
    open_rig(&rig, job);
    for (int i = 0; i < 2 * SLOTS; i++) /* warms up the driver */
        pass_frame(&rig, i % 2);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (int early = 0; early < 2; early++)
            for (uint32_t i = 0; i < frames; i++)
                taken[early][count + i] = pass_frame(&rig, early);
        count += frames;
    }
    close_rig(&rig);
    figures->implicit = stats_latency_of(taken[0], count).p50;
    figures->early = stats_latency_of(taken[1], count).p50;
}
