/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A program as written for two FirePro cards, after AMD's simple DirectGMA sample: the passive side
 * offers a buffer, the active side's kernel writes into it over the bus and signals. It knows
 * nothing of any layer; its declarations are its own copy of AMD's header, with int constants and
 * typedefs as there. */

#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CL_MEM_BUS_ADDRESSABLE_AMD (1 << 30)
#define CL_MEM_EXTERNAL_PHYSICAL_AMD (1 << 31)

typedef struct _cl_bus_address_amd {
    cl_long surface_bus_address;
    cl_long marker_bus_address;
} cl_bus_address_amd;

typedef cl_int(CL_API_CALL *clEnqueueWaitSignalAMD_fn)(cl_command_queue, cl_mem, cl_uint, cl_uint,
                                                       const cl_event *, cl_event *);
typedef cl_int(CL_API_CALL *clEnqueueWriteSignalAMD_fn)(cl_command_queue, cl_mem, cl_uint, cl_ulong,
                                                        cl_uint, const cl_event *, cl_event *);
typedef cl_int(CL_API_CALL *clEnqueueMakeBuffersResidentAMD_fn)(cl_command_queue, cl_uint, cl_mem *,
                                                                cl_bool, cl_bus_address_amd *,
                                                                cl_uint, const cl_event *,
                                                                cl_event *);

#define WORDS 4096
#define TRANSFERS 8

static void require(int good, const char *what, cl_int status)
{
    if (good)
        return;
    fprintf(stderr, "%s failed (%d)\n", what, status);
    exit(1);
}

static const char *source = "__kernel void produce(__global uint *out, uint seed) { "
                            "out[get_global_id(0)] = seed + get_global_id(0); }\n";

int main(void)
{
    cl_platform_id platform;
    cl_device_id device;
    cl_int status;
    char extensions[8192];
    alarm(60);
    if (clGetPlatformIDs(1, &platform, NULL) ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL)) {
        printf("skipped: no OpenCL device; install an ICD, for instance pocl-opencl-icd\n");
        return 77;
    }
    clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof extensions, extensions, NULL);
    require(strstr(extensions, "cl_amd_bus_addressable_memory") != NULL, "looking for DirectGMA",
            0);

    clEnqueueWaitSignalAMD_fn wait_signal =
        (clEnqueueWaitSignalAMD_fn)clGetExtensionFunctionAddressForPlatform(
            platform, "clEnqueueWaitSignalAMD");
    clEnqueueWriteSignalAMD_fn write_signal =
        (clEnqueueWriteSignalAMD_fn)clGetExtensionFunctionAddressForPlatform(
            platform, "clEnqueueWriteSignalAMD");
    clEnqueueMakeBuffersResidentAMD_fn make_resident =
        (clEnqueueMakeBuffersResidentAMD_fn)clGetExtensionFunctionAddressForPlatform(
            platform, "clEnqueueMakeBuffersResidentAMD");
    require(wait_signal && write_signal && make_resident, "looking up the functions", 0);

    cl_context passive = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    cl_context active = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    cl_command_queue passive_queue =
        clCreateCommandQueueWithProperties(passive, device, NULL, &status);
    cl_command_queue active_queue =
        clCreateCommandQueueWithProperties(active, device, NULL, &status);
    require(passive_queue && active_queue, "creating queues", status);

    cl_mem offered =
        clCreateBuffer(passive, CL_MEM_BUS_ADDRESSABLE_AMD, WORDS * sizeof(cl_uint), NULL, &status);
    require(offered != NULL, "creating the bus addressable buffer", status);
    cl_bus_address_amd address = {0};
    status = make_resident(passive_queue, 1, &offered, CL_TRUE, &address, 0, NULL, NULL);
    require(status == CL_SUCCESS && address.surface_bus_address, "making it resident", status);

    cl_ulong marker_offset = (cl_ulong)address.marker_bus_address & 0xfff;
    address.marker_bus_address &= ~0xfffll;
    cl_mem remote = clCreateBuffer(active, CL_MEM_EXTERNAL_PHYSICAL_AMD, WORDS * sizeof(cl_uint),
                                   &address, &status);
    require(remote != NULL, "creating the external buffer", status);
    status = clEnqueueMigrateMemObjects(active_queue, 1, &remote, 0, 0, NULL, NULL);
    require(status == CL_SUCCESS, "migrating the external buffer", status);
    status = write_signal(active_queue, remote, 0, marker_offset, 0, NULL, NULL);
    require(status == CL_SUCCESS && clFinish(active_queue) == CL_SUCCESS, "initialising the marker",
            status);

    cl_program program = clCreateProgramWithSource(active, 1, &source, NULL, &status);
    require(clBuildProgram(program, 1, &device, "", NULL, NULL) == CL_SUCCESS,
            "building the kernel", status);
    cl_kernel kernel = clCreateKernel(program, "produce", &status);
    clSetKernelArg(kernel, 0, sizeof remote, &remote);

    static cl_uint received[WORDS];
    for (cl_uint n = 1; n <= TRANSFERS; n++) {
        cl_uint seed = n * 1000;
        size_t items = WORDS;
        wait_signal(passive_queue, offered, n, 0, NULL, NULL);
        clEnqueueReadBuffer(passive_queue, offered, CL_FALSE, 0, sizeof received, received, 0, NULL,
                            NULL);
        clFlush(passive_queue);
        clSetKernelArg(kernel, 1, sizeof seed, &seed);
        status = clEnqueueNDRangeKernel(active_queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL);
        require(status == CL_SUCCESS, "launching the kernel", status);
        status = write_signal(active_queue, remote, n, marker_offset, 0, NULL, NULL);
        require(status == CL_SUCCESS, "writing the signal", status);
        require(clFinish(passive_queue) == CL_SUCCESS, "waiting for the frame", status);
        for (cl_uint i = 0; i < WORDS; i++)
            require(received[i] == seed + i, "comparing what arrived", (cl_int)received[i]);
    }
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseMemObject(remote);
    clReleaseMemObject(offered);
    clReleaseCommandQueue(active_queue);
    clReleaseCommandQueue(passive_queue);
    clReleaseContext(active);
    clReleaseContext(passive);
    printf("%d transfers of %zu bytes arrived\n", TRANSFERS, sizeof received);
    return 0;
}
