/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A program as written for two FirePro cards, after AMD's DirectGMA samples: it takes the platform
 * whose vendor is AMD, two devices of type GPU on it, checks extension, board and PCI place, and
 * moves frames from the one to the other. It gets no help: run under GPUDIRECT_DGMA_AS=firepro:2 it
 * has to get through. As `sample`, after AMD's simple one, it asks for nothing but the extension,
 * on the first device. Its declarations are its own copy of AMD's header, with int constants. */

#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <stdbool.h>
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
#define BYTES (WORDS * sizeof(cl_uint))
#define FRAMES 8
#define CARDS 2

static cl_platform_id platform;
static cl_device_id cards[CARDS];
static clEnqueueWaitSignalAMD_fn wait_signal;
static clEnqueueWriteSignalAMD_fn write_signal;
static clEnqueueMakeBuffersResidentAMD_fn make_resident;

#define REQUIRE(good)                                                          \
    do {                                                                       \
        if (!(good)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #good); \
            exit(1);                                                           \
        }                                                                      \
    } while (0)
#define OK(call)                                                                 \
    do {                                                                         \
        cl_int got_ = (call);                                                    \
        if (got_ != CL_SUCCESS) {                                                \
            fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, got_); \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

static const char *const source = "__kernel void produce(__global uint *out, uint seed) { "
                                  "out[get_global_id(0)] = seed + get_global_id(0); }\n";

static cl_program new_program(cl_context context)
{
    cl_int status;
    cl_program program =
        clCreateProgramWithSource(context, 1, (const char **)&source, NULL, &status);
    OK(status);
    return program;
}

static cl_context new_context(cl_uint count, const cl_device_id *devices)
{
    cl_int status;
    cl_context context = clCreateContext(NULL, count, devices, NULL, NULL, &status);
    OK(status);
    return context;
}

/* ---- discovery ---- */

static void look_at_platform(void)
{
    cl_platform_id ids[16];
    char text[128];
    cl_uint count = 0;
    if (clGetPlatformIDs(16, ids, &count) != CL_SUCCESS || count == 0) {
        printf("skipped: no OpenCL platform; install an ICD, for instance pocl-opencl-icd\n");
        exit(77);
    }
    for (cl_uint i = 0; i < count; i++) {
        OK(clGetPlatformInfo(ids[i], CL_PLATFORM_VENDOR, sizeof text, text, NULL));
        if (!platform && strcmp(text, "Advanced Micro Devices, Inc.") == 0)
            platform = ids[i];
    }
    REQUIRE(platform);
    OK(clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof text, text, NULL));
    REQUIRE(strcmp(text, "AMD Accelerated Parallel Processing") == 0);
    OK(clGetPlatformInfo(platform, CL_PLATFORM_VERSION, sizeof text, text, NULL));
    REQUIRE(strncmp(text, "OpenCL ", 7) == 0 && strstr(text, "AMD-APP"));
    REQUIRE(clGetPlatformInfo(platform, CL_PLATFORM_NAME, 5, text, NULL) == CL_INVALID_VALUE);
}

static void pick_cards(void)
{
    cl_uint count = 0, all = 0;
    cl_device_id list[16], first = NULL;
    OK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, 0, NULL, &count));
    if (count < CARDS) {
        fprintf(stderr, "at least %d GPUs are needed, there are %u\n", CARDS, count);
        exit(1);
    }
    REQUIRE(count == CARDS);
    OK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, CARDS, cards, NULL));
    OK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 16, list, &all));
    REQUIRE(all == CARDS && memcmp(list, cards, sizeof cards) == 0);
    OK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_DEFAULT, 1, &first, &all));
    REQUIRE(all == 1 && first == cards[0]);
    OK(clGetDeviceIDs(NULL, CL_DEVICE_TYPE_GPU, 1, &first, &all));
    REQUIRE(all == CARDS && first == cards[0]);
    REQUIRE(clGetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 16, list, &all) == CL_DEVICE_NOT_FOUND);
    REQUIRE(clGetDeviceIDs(platform, 0, 16, list, &all) == CL_INVALID_DEVICE_TYPE);
    REQUIRE(clGetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, 0, list, &all) == CL_INVALID_VALUE);
    REQUIRE(clGetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, 0, NULL, NULL) == CL_INVALID_VALUE);
    REQUIRE(cards[0] != cards[1]);
}

static const char *text_of(cl_device_id card, cl_device_info name)
{
    static char text[8192];
    size_t length = 0, again = 0;
    OK(clGetDeviceInfo(card, name, 0, NULL, &length));
    REQUIRE(length > 0 && length <= sizeof text);
    OK(clGetDeviceInfo(card, name, length, text, &again));
    REQUIRE(again == length && strlen(text) + 1 == length);
    return text;
}

static cl_uint number_of(cl_device_id card, cl_device_info name)
{
    cl_uint number;
    OK(clGetDeviceInfo(card, name, sizeof number, &number, NULL));
    return number;
}

static void look_at_card(cl_device_id card)
{
    cl_device_type type;
    cl_device_id parent = card;
    cl_platform_id of;
    OK(clGetDeviceInfo(card, CL_DEVICE_TYPE, sizeof type, &type, NULL));
    REQUIRE(type == CL_DEVICE_TYPE_GPU);
    REQUIRE(strcmp(text_of(card, CL_DEVICE_VENDOR), "Advanced Micro Devices, Inc.") == 0);
    REQUIRE(number_of(card, CL_DEVICE_VENDOR_ID) == 0x1002);
    REQUIRE(strcmp(text_of(card, CL_DEVICE_NAME), "Hawaii") == 0);
    REQUIRE(strstr(text_of(card, CL_DEVICE_BOARD_NAME_AMD), "FirePro"));
    const char *version = text_of(card, CL_DEVICE_VERSION);
    REQUIRE(strncmp(version, "OpenCL ", 7) == 0 && strstr(version, "AMD-APP"));
    REQUIRE(atof(text_of(card, CL_DRIVER_VERSION)) > 1000);
    const char *extensions = text_of(card, CL_DEVICE_EXTENSIONS);
    REQUIRE(strstr(extensions, "cl_amd_bus_addressable_memory"));
    REQUIRE(strstr(extensions, "cl_amd_device_attribute_query"));
    OK(clGetDeviceInfo(card, CL_DEVICE_PARENT_DEVICE, sizeof parent, &parent, NULL));
    REQUIRE(parent == NULL);
    OK(clGetDeviceInfo(card, CL_DEVICE_PLATFORM, sizeof of, &of, NULL));
    REQUIRE(of == platform);
    REQUIRE(number_of(card, CL_DEVICE_HOST_UNIFIED_MEMORY) == CL_FALSE);
    REQUIRE(number_of(card, CL_DEVICE_WAVEFRONT_WIDTH_AMD) == 64);
    REQUIRE(number_of(card, CL_DEVICE_MAX_COMPUTE_UNITS) > 0);
    size_t free_memory[2];
    OK(clGetDeviceInfo(card, CL_DEVICE_GLOBAL_FREE_MEMORY_AMD, sizeof free_memory, free_memory,
                       NULL));
    REQUIRE(free_memory[0] > 0 && free_memory[1] > 0);
}

static void look_at_both(void)
{
    cl_device_topology_amd at[CARDS];
    for (int i = 0; i < CARDS; i++) {
        look_at_card(cards[i]);
        OK(clGetDeviceInfo(cards[i], CL_DEVICE_TOPOLOGY_AMD, sizeof at[i], &at[i], NULL));
        REQUIRE(at[i].raw.type == CL_DEVICE_TOPOLOGY_TYPE_PCIE_AMD);
        printf("card %d at %02x:%02x.%x\n", i, (cl_uchar)at[i].pcie.bus, at[i].pcie.device,
               at[i].pcie.function);
    }
    REQUIRE(memcmp(&at[0], &at[1], sizeof at[0]) != 0);

    /* Whole devices: references to them are without effect, and they are not divided. */
    cl_uint count = 0;
    cl_device_id out[4];
    cl_device_partition_property equally[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    for (int i = 0; i < 3; i++)
        for (int c = 0; c < CARDS; c++)
            OK(clReleaseDevice(cards[c]));
    OK(clRetainDevice(cards[0]));
    OK(clGetDeviceInfo(cards[0], CL_DEVICE_REFERENCE_COUNT, sizeof count, &count, NULL));
    REQUIRE(count == 1);
    REQUIRE(clCreateSubDevices(cards[0], equally, 4, out, &count) != CL_SUCCESS);
}

static void find_functions(void)
{
    wait_signal = (clEnqueueWaitSignalAMD_fn)clGetExtensionFunctionAddressForPlatform(
        platform, "clEnqueueWaitSignalAMD");
    write_signal = (clEnqueueWriteSignalAMD_fn)clGetExtensionFunctionAddressForPlatform(
        platform, "clEnqueueWriteSignalAMD");
    make_resident = (clEnqueueMakeBuffersResidentAMD_fn)clGetExtensionFunctionAddressForPlatform(
        platform, "clEnqueueMakeBuffersResidentAMD");
    REQUIRE(wait_signal && write_signal && make_resident);
}

/* ---- every call that takes a device or gives one back ---- */

static void check_devices_of(cl_context context, cl_uint expected)
{
    cl_device_id list[4] = {NULL};
    cl_uint count = 0;
    size_t size = 0;
    OK(clGetContextInfo(context, CL_CONTEXT_NUM_DEVICES, sizeof count, &count, NULL));
    OK(clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof list, list, &size));
    REQUIRE(count == expected && size == expected * sizeof list[0]);
    for (cl_uint i = 0; i < count; i++)
        REQUIRE(list[i] == cards[i]);
}

static cl_command_queue new_queue(cl_context context, cl_device_id card)
{
    cl_int status;
    cl_device_id of = NULL;
    cl_command_queue queue =
        clCreateCommandQueue(context, card, CL_QUEUE_PROFILING_ENABLE, &status);
    OK(status);
    OK(clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof of, &of, NULL));
    REQUIRE(of == card);
    return queue;
}

static void run(cl_context context, cl_program program, cl_uint seed)
{
    static cl_uint back[WORDS];
    cl_int status;
    size_t items = WORDS, group = 0;
    cl_kernel kernel = clCreateKernel(program, "produce", &status);
    OK(status);
    for (int c = 0; c < CARDS; c++) {
        OK(clGetKernelWorkGroupInfo(kernel, cards[c], CL_KERNEL_WORK_GROUP_SIZE, sizeof group,
                                    &group, NULL));
        REQUIRE(group > 0);
        cl_mem mem = clCreateBuffer(context, CL_MEM_READ_WRITE, BYTES, NULL, &status);
        cl_command_queue queue = new_queue(context, cards[c]);
        cl_uint value = seed + (cl_uint)c;
        OK(clSetKernelArg(kernel, 0, sizeof mem, &mem));
        OK(clSetKernelArg(kernel, 1, sizeof value, &value));
        OK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL));
        OK(clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, BYTES, back, 0, NULL, NULL));
        REQUIRE(back[0] == value && back[WORDS - 1] == value + WORDS - 1);
        OK(clReleaseCommandQueue(queue));
        OK(clReleaseMemObject(mem));
    }
    OK(clReleaseKernel(kernel));
}

static void check_build(cl_program program)
{
    for (int c = 0; c < CARDS; c++) {
        cl_build_status built = CL_BUILD_NONE;
        char log[4096];
        OK(clGetProgramBuildInfo(program, cards[c], CL_PROGRAM_BUILD_STATUS, sizeof built, &built,
                                 NULL));
        REQUIRE(built == CL_BUILD_SUCCESS);
        OK(clGetProgramBuildInfo(program, cards[c], CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL));
    }
}

static void run_binaries(cl_context context, cl_program program)
{
    cl_device_id list[4] = {NULL};
    cl_uint count = 0;
    size_t sizes[CARDS] = {0};
    unsigned char *binaries[CARDS];
    cl_int statuses[CARDS] = {-1, -1}, status;
    OK(clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof count, &count, NULL));
    OK(clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof list, list, NULL));
    REQUIRE(count == CARDS && memcmp(list, cards, sizeof cards) == 0);
    OK(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, NULL));
    for (int c = 0; c < CARDS; c++) {
        REQUIRE(sizes[c] > 0);
        binaries[c] = malloc(sizes[c]);
        REQUIRE(binaries[c]);
    }
    OK(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binaries, binaries, NULL));
    cl_program again = clCreateProgramWithBinary(
        context, CARDS, cards, sizes, (const unsigned char **)binaries, statuses, &status);
    OK(status);
    REQUIRE(statuses[0] == CL_SUCCESS && statuses[1] == CL_SUCCESS);
    OK(clBuildProgram(again, CARDS, cards, "", NULL, NULL));
    check_build(again);
    run(context, again, 500);
    OK(clReleaseProgram(again));
    for (int c = 0; c < CARDS; c++)
        free(binaries[c]);
}

static void programs(cl_context context)
{
    cl_int status;
    cl_program program = new_program(context);
    OK(clBuildProgram(program, CARDS, cards, "", NULL, NULL));
    check_build(program);
    run(context, program, 100);
    run_binaries(context, program);
    OK(clReleaseProgram(program));

    program = new_program(context);
    OK(clCompileProgram(program, CARDS, cards, "", 0, NULL, NULL, NULL, NULL));
    cl_program linked = clLinkProgram(context, CARDS, cards, "", 1, &program, NULL, NULL, &status);
    OK(status);
    check_build(linked);
    run(context, linked, 900);
    OK(clReleaseProgram(linked));
    OK(clReleaseProgram(program));
}

static void contexts(void)
{
    cl_context_properties on_amd[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
    cl_int status;
    cl_context both = clCreateContext(on_amd, CARDS, cards, NULL, NULL, &status);
    OK(status);
    check_devices_of(both, CARDS);
    programs(both);
    OK(clReleaseContext(both));
    both = clCreateContextFromType(on_amd, CL_DEVICE_TYPE_GPU, NULL, NULL, &status);
    OK(status);
    check_devices_of(both, CARDS);
    OK(clReleaseContext(both));
    cl_context one = clCreateContextFromType(on_amd, CL_DEVICE_TYPE_DEFAULT, NULL, NULL, &status);
    OK(status);
    check_devices_of(one, 1);
    OK(clReleaseContext(one));
    REQUIRE(!clCreateContextFromType(on_amd, CL_DEVICE_TYPE_CPU, NULL, NULL, &status));
    REQUIRE(status == CL_DEVICE_NOT_FOUND);
    REQUIRE(!clCreateContextFromType(on_amd, 0, NULL, NULL, &status));
    REQUIRE(status == CL_INVALID_DEVICE_TYPE);
}

/* ---- DirectGMA ---- */

/* Each frame is made in the writer's memory and copied; every other one is written by the kernel
 * over the bus. The reader waits before the writer begins. */
/* kernel_alone: the kernel writes each frame over the bus, and its argument is set once; else every
 * other frame is copied. */
static void transfer(cl_context reader, cl_device_id reads, cl_context writer, cl_device_id writes,
                     bool kernel_alone)
{
    static cl_uint received[WORDS];
    cl_int status;
    cl_ulong offset;
    cl_command_queue reading = new_queue(reader, reads), writing = new_queue(writer, writes);
    cl_mem offered = clCreateBuffer(reader, CL_MEM_BUS_ADDRESSABLE_AMD, BYTES, NULL, &status);
    OK(status);
    cl_bus_address_amd address = {0};
    OK(make_resident(reading, 1, &offered, CL_TRUE, &address, 0, NULL, NULL));
    offset = (cl_ulong)address.marker_bus_address & 0xfff;
    address.marker_bus_address &= ~0xfffll;
    cl_mem remote = clCreateBuffer(writer, CL_MEM_EXTERNAL_PHYSICAL_AMD, BYTES, &address, &status);
    OK(status);
    OK(clEnqueueMigrateMemObjects(writing, 1, &remote, 0, 0, NULL, NULL));
    OK(write_signal(writing, remote, 0, offset, 0, NULL, NULL));
    OK(clFinish(writing));
    cl_mem own = clCreateBuffer(writer, CL_MEM_READ_WRITE, BYTES, NULL, &status);
    cl_program program = new_program(writer);
    OK(clBuildProgram(program, 1, &writes, "", NULL, NULL));
    cl_kernel kernel = clCreateKernel(program, "produce", &status);
    OK(status);
    for (cl_uint n = 1; n <= FRAMES; n++) {
        cl_uint seed = n * 1000;
        size_t items = WORDS;
        cl_event arrived, written;
        cl_command_queue of = NULL;
        OK(wait_signal(reading, offered, n, 0, NULL, &arrived));
        OK(clEnqueueReadBuffer(reading, offered, CL_FALSE, 0, BYTES, received, 0, NULL, NULL));
        OK(clFlush(reading));
        bool copied = n % 2 && !kernel_alone;
        if (!kernel_alone || n == 1)
            OK(clSetKernelArg(kernel, 0, sizeof own, copied ? &own : &remote));
        OK(clSetKernelArg(kernel, 1, sizeof seed, &seed));
        OK(clEnqueueNDRangeKernel(writing, kernel, 1, NULL, &items, NULL, 0, NULL, NULL));
        if (copied)
            OK(clEnqueueCopyBuffer(writing, own, remote, 0, 0, BYTES, 0, NULL, NULL));
        OK(write_signal(writing, remote, n, offset, 0, NULL, &written));
        OK(clWaitForEvents(1, &arrived));
        OK(clFinish(reading));
        OK(clGetEventInfo(written, CL_EVENT_COMMAND_QUEUE, sizeof of, &of, NULL));
        REQUIRE(of == writing);
        for (cl_uint i = 0; i < WORDS; i++)
            REQUIRE(received[i] == seed + i);
        OK(clReleaseEvent(arrived));
        OK(clReleaseEvent(written));
    }
    OK(clFinish(writing));
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseMemObject(own);
    clReleaseMemObject(remote);
    clReleaseMemObject(offered);
    clReleaseCommandQueue(reading);
    clReleaseCommandQueue(writing);
}

static void transfers(void)
{
    cl_context both = new_context(CARDS, cards),
               each[CARDS] = {new_context(1, &cards[0]), new_context(1, &cards[1])};
    transfer(both, cards[0], both, cards[1], false);
    transfer(both, cards[1], both, cards[0], false);
    transfer(each[0], cards[0], each[1], cards[1], false);
    transfer(each[1], cards[1], each[0], cards[0], false);
    transfer(both, cards[0], each[1], cards[1], false);
    OK(clReleaseContext(both));
    for (int c = 0; c < CARDS; c++)
        OK(clReleaseContext(each[c]));
}

static void sample(void)
{
    static char extensions[8192];
    cl_device_id device;
    if (clGetPlatformIDs(1, &platform, NULL) ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL)) {
        printf("skipped: no OpenCL device; install an ICD, for instance pocl-opencl-icd\n");
        exit(77);
    }
    OK(clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof extensions, extensions, NULL));
    REQUIRE(strstr(extensions, "cl_amd_bus_addressable_memory"));
    find_functions();
    cl_context passive = new_context(1, &device), active = new_context(1, &device);
    transfer(passive, device, active, device, true);
    OK(clReleaseContext(active));
    OK(clReleaseContext(passive));
}

int main(int argc, char **argv)
{
    alarm(120);
    if (argc > 1 && strcmp(argv[1], "sample") == 0) {
        sample();
        return 0;
    }
    look_at_platform();
    pick_cards();
    look_at_both();
    find_functions();
    contexts();
    transfers();
    printf("two cards found, frames moved both ways\n");
    return 0;
}
