/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Every refusal of the extension, by its code, and what programs can ask. */

/* clGetExtensionFunctionAddress is deprecated, and what many programs for these cards call. */
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include "common.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>

static void bus_creation(struct cl *cl)
{
    cl_context context = cl->context;
    char data[PAGE], back[100] = {0};
    memset(data, 0x5a, sizeof data);
    const struct {
        cl_int status;
        cl_context context;
        cl_mem_flags flags;
        size_t size;
        void *pointer;
    } cases[] = {
        {CL_INVALID_VALUE, context, CL_MEM_USE_HOST_PTR, PAGE, data},
        {CL_INVALID_VALUE, context, CL_MEM_ALLOC_HOST_PTR, PAGE, NULL},
        {CL_INVALID_VALUE, context, EXTERNAL_PHYSICAL, PAGE, data},
        {CL_INVALID_HOST_PTR, context, 0, PAGE, data},
        {CL_INVALID_HOST_PTR, context, CL_MEM_COPY_HOST_PTR, PAGE, NULL},
        {CL_INVALID_BUFFER_SIZE, context, 0, 0, NULL},
        {CL_INVALID_CONTEXT, NULL, 0, PAGE, NULL},
        {CL_SUCCESS, context, CL_MEM_READ_ONLY, 1, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cl_int got = create(cases[i].context, BUS_ADDRESSABLE | cases[i].flags, cases[i].size,
                            cases[i].pointer);
        if (got != cases[i].status)
            FAIL("case %zu: %d, not %d", i, got, cases[i].status);
    }
    cl_int status;
    AUTO(drop_mem)
    cl_mem mem =
        clCreateBuffer(context, BUS_ADDRESSABLE | CL_MEM_COPY_HOST_PTR, 100, data, &status);
    OK(status);
    read_back(cl->queue, mem, sizeof back, back);
    CHECK(memcmp(back, data, sizeof back) == 0);
    CHECK(!clCreateBuffer(context, BUS_ADDRESSABLE, 0, NULL, NULL));
}

/* The memory behind a bus address is a file: one that is too large for this process is a failed
 * allocation, and no SIGXFSZ. */
static void file_limit(struct cl *cl)
{
    struct rlimit before, small;
    signal(SIGXFSZ, SIG_DFL); /* the OpenCL driver may have caught it */
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    small = before;
    small.rlim_cur = 4 * PAGE;
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    cl_int fits = create(cl->context, BUS_ADDRESSABLE, 3 * PAGE, NULL);
    cl_int exceeds = create(cl->context, BUS_ADDRESSABLE, 4 * PAGE, NULL);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    OK(fits);
    CHECK_CL(CL_MEM_OBJECT_ALLOCATION_FAILURE, exceeds);
}

static void external_creation(struct cl *cl, const struct bus_address *good)
{
    const cl_mem_flags bit_31 = (cl_mem_flags)1 << 31;
    cl_context context = cl->context;
    struct bus_address a = *good;
    OK(create(context, EXTERNAL_PHYSICAL, 2 * PAGE, &a));
    OK(create(context, bit_31, 2 * PAGE, &a));
    OK(create(context, EXTERNAL_PHYSICAL | CL_MEM_WRITE_ONLY, 2 * PAGE, &a));
    static const cl_mem_flags never[] = {CL_MEM_USE_HOST_PTR, CL_MEM_COPY_HOST_PTR,
                                         CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE,
                                         CL_MEM_READ_ONLY};
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        CHECK_CL(CL_INVALID_VALUE, create(context, bit_31 | never[i], PAGE, &a));
    CHECK_CL(CL_INVALID_HOST_PTR, create(context, EXTERNAL_PHYSICAL, PAGE, NULL));
    CHECK_CL(CL_INVALID_BUFFER_SIZE, create(context, EXTERNAL_PHYSICAL, 0, &a));
    CHECK_CL(CL_MEM_OBJECT_ALLOCATION_FAILURE, /* larger than the buffer there */
             create(context, EXTERNAL_PHYSICAL, 2 * PAGE + 1, &a));
    const struct {
        cl_int status;
        struct bus_address address;
    } bad[] = {
        {CL_INVALID_HOST_PTR, {0, a.marker}},
        {CL_INVALID_HOST_PTR, {a.surface, 0}},
        {CL_INVALID_HOST_PTR, {a.surface + 64, a.marker}},
        {CL_INVALID_HOST_PTR, {a.surface, a.marker + 4}},
        /* outside of the buffer, and without one */
        {CL_MEM_OBJECT_ALLOCATION_FAILURE, {a.surface + 2 * PAGE, a.marker}},
        {CL_MEM_OBJECT_ALLOCATION_FAILURE, {a.surface, a.marker + PAGE}},
        {CL_MEM_OBJECT_ALLOCATION_FAILURE, {0x7000, 0x8000}},
        {CL_MEM_OBJECT_ALLOCATION_FAILURE, {a.surface, 0x7000}},
        {CL_MEM_OBJECT_ALLOCATION_FAILURE, {~(cl_ulong)0 << 12, ~(cl_ulong)0 << 12}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct bus_address b = bad[i].address;
        CHECK_CL(bad[i].status, create(context, EXTERNAL_PHYSICAL, PAGE, &b));
    }
    struct bus_address second_page = {a.surface + PAGE, a.marker};
    OK(create(context, EXTERNAL_PHYSICAL, PAGE, &second_page));
}

static void use(struct cl *cl, cl_mem bus, cl_mem external)
{
    cl_int status = 1;
    cl_buffer_region region = {0, 64};
    cl_mem both[] = {bus, external};
    for (int i = 0; i < 2; i++) {
        CHECK(!clCreateSubBuffer(both[i], 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &status));
        CHECK_CL(CL_INVALID_VALUE, status);
    }
    CHECK(!clEnqueueMapBuffer(cl->queue, external, CL_TRUE, CL_MAP_WRITE, 0, 64, 0, NULL, NULL,
                              &status));
    CHECK_CL(CL_INVALID_OPERATION, status);
    void *mapped =
        clEnqueueMapBuffer(cl->queue, bus, CL_TRUE, CL_MAP_READ, 0, 64, 0, NULL, NULL, &status);
    CHECK(mapped);
    OK(clEnqueueUnmapMemObject(cl->queue, bus, mapped, 0, NULL, NULL));
    cl_image_format format = {CL_RGBA, CL_UNORM_INT8};
    cl_image_desc desc = {
        .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 16, .image_height = 16};
    CHECK(!clCreateImage(cl->context, BUS_ADDRESSABLE, &format, &desc, NULL, &status));
    CHECK_CL(CL_INVALID_VALUE, status);
    cl_image_desc of_buffer = {.image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER, .image_width = 16};
    of_buffer.mem_object = bus;
    CHECK(!clCreateImage(cl->context, 0, &format, &of_buffer, NULL, &status));
    CHECK_CL(CL_INVALID_IMAGE_DESCRIPTOR, status);
}

static void commands(struct cl *cl, cl_mem bus, cl_mem external)
{
    AUTO(close_cl) struct cl other = *cl;
    open_context(&other);
    AUTO(drop_mem) cl_mem plain = new_plain(cl, PAGE);
    AUTO(drop_event) cl_event user = new_user_event(cl);
    cl_event none = NULL;
    cl_command_queue q = cl->queue;

    CHECK_CL(CL_INVALID_COMMAND_QUEUE, cl->wait_signal(NULL, bus, 1, 0, NULL, NULL));
    CHECK_CL(CL_INVALID_MEM_OBJECT, cl->wait_signal(q, NULL, 1, 0, NULL, NULL));
    CHECK_CL(CL_INVALID_MEM_OBJECT, cl->wait_signal(q, external, 1, 0, NULL, NULL));
    CHECK_CL(CL_INVALID_MEM_OBJECT, cl->wait_signal(q, plain, 1, 0, NULL, NULL));
    CHECK_CL(CL_INVALID_CONTEXT, cl->wait_signal(other.queue, bus, 1, 0, NULL, NULL));
    CHECK_CL(CL_INVALID_EVENT_WAIT_LIST, cl->wait_signal(q, bus, 0, 1, NULL, NULL));
    CHECK_CL(CL_INVALID_EVENT_WAIT_LIST, cl->wait_signal(q, bus, 0, 0, &user, NULL));
    CHECK_CL(CL_INVALID_EVENT_WAIT_LIST, cl->wait_signal(q, bus, 0, 1, &none, NULL));

    CHECK_CL(CL_INVALID_COMMAND_QUEUE, cl->write_signal(NULL, external, 1, 0, 0, NULL, NULL));
    CHECK_CL(CL_INVALID_MEM_OBJECT, cl->write_signal(q, NULL, 1, 0, 0, NULL, NULL));
    CHECK_CL(CL_INVALID_MEM_OBJECT, cl->write_signal(q, bus, 1, 0, 0, NULL, NULL));
    CHECK_CL(CL_INVALID_MEM_OBJECT, cl->write_signal(q, plain, 1, 0, 0, NULL, NULL));
    CHECK_CL(CL_INVALID_CONTEXT, cl->write_signal(other.queue, external, 1, 0, 0, NULL, NULL));
    CHECK_CL(CL_INVALID_BUFFER_SIZE, cl->write_signal(q, external, 1, 3 * PAGE - 3, 0, NULL, NULL));
    CHECK_CL(CL_INVALID_BUFFER_SIZE, cl->write_signal(q, external, 1, PAGE, 0, NULL, NULL));
    CHECK_CL(CL_INVALID_BUFFER_SIZE, cl->write_signal(q, external, 1, ~(cl_ulong)3, 0, NULL, NULL));
    OK(cl->write_signal(q, external, 1, PAGE - 4, 0, NULL, NULL));
    CHECK_CL(CL_INVALID_EVENT_WAIT_LIST, cl->write_signal(q, external, 1, 0, 1, NULL, NULL));

    struct bus_address address[2] = {{7, 7}, {7, 7}};
    cl_mem both[2] = {bus, external};
    CHECK_CL(CL_INVALID_COMMAND_QUEUE, cl->make_resident(NULL, 1, &bus, 1, address, 0, NULL, NULL));
    CHECK_CL(CL_INVALID_MEM_OBJECT, cl->make_resident(q, 1, NULL, 1, address, 0, NULL, NULL));
    CHECK_CL(CL_INVALID_VALUE, cl->make_resident(q, 1, &bus, 1, NULL, 0, NULL, NULL));
    CHECK_CL(CL_INVALID_VALUE, cl->make_resident(q, 0, &bus, 1, address, 0, NULL, NULL));
    CHECK(address[0].surface == 7);
    CHECK_CL(CL_INVALID_MEM_OBJECT, cl->make_resident(q, 2, both, 1, address, 0, NULL, NULL));
    CHECK(address[0].surface == 0 && address[1].marker == 0);
    CHECK_CL(CL_INVALID_MEM_OBJECT, cl->make_resident(q, 1, &plain, 1, address, 0, NULL, NULL));
    CHECK_CL(CL_INVALID_CONTEXT,
             cl->make_resident(other.queue, 1, &bus, 1, address, 0, NULL, NULL));
    CHECK_CL(CL_INVALID_EVENT_WAIT_LIST, cl->make_resident(q, 1, &bus, 1, address, 1, NULL, NULL));

    clSetUserEventStatus(user, CL_COMPLETE);
}

static unsigned times(const char *list, const char *word)
{
    unsigned count = 0;
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += strlen(word))
        count++;
    return count;
}

static void questions(struct cl *cl, cl_mem bus, cl_mem external)
{
    const char *name = "cl_amd_bus_addressable_memory";
    char list[8192];
    size_t size = 0, again = 0;
    OK(clGetDeviceInfo(cl->devices[0], CL_DEVICE_EXTENSIONS, 0, NULL, &size));
    OK(clGetDeviceInfo(cl->devices[0], CL_DEVICE_EXTENSIONS, size, list, &again));
    CHECK(again == size && strlen(list) + 1 == size && times(list, name) == 1);
    CHECK_CL(CL_INVALID_VALUE,
             clGetDeviceInfo(cl->devices[0], CL_DEVICE_EXTENSIONS, size - 1, list, NULL));
    OK(clGetPlatformInfo(cl->platform, CL_PLATFORM_EXTENSIONS, sizeof list, list, NULL));
    CHECK(times(list, name) == 1);
    for (int platform = 0; platform < 2; platform++) {
        cl_name_version versions[128];
        unsigned found = 0;
        OK(platform ? clGetPlatformInfo(cl->platform, CL_PLATFORM_EXTENSIONS_WITH_VERSION,
                                        sizeof versions, versions, &size)
                    : clGetDeviceInfo(cl->devices[0], CL_DEVICE_EXTENSIONS_WITH_VERSION,
                                      sizeof versions, versions, &size));
        for (size_t i = 0; i < size / sizeof versions[0]; i++)
            found += strcmp(versions[i].name, name) == 0;
        CHECK(found == 1);
    }

    static const char *const functions[] = {"clEnqueueWaitSignalAMD", "clEnqueueWriteSignalAMD",
                                            "clEnqueueMakeBuffersResidentAMD"};
    for (size_t i = 0; i < 3; i++) {
        CHECK(clGetExtensionFunctionAddress(functions[i]));
        CHECK(clGetExtensionFunctionAddressForPlatform(NULL, functions[i]));
    }
    CHECK(!clGetExtensionFunctionAddressForPlatform(cl->platform, "clEnqueueNoSuchThingAMD"));

    cl_mem_flags flags;
    size_t mem_size;
    void *pointer = list;
    OK(clGetMemObjectInfo(external, CL_MEM_FLAGS, sizeof flags, &flags, NULL));
    CHECK(flags == EXTERNAL_PHYSICAL);
    OK(clGetMemObjectInfo(bus, CL_MEM_FLAGS, sizeof flags, &flags, NULL));
    CHECK(flags == BUS_ADDRESSABLE);
    OK(clGetMemObjectInfo(bus, CL_MEM_HOST_PTR, sizeof pointer, &pointer, NULL));
    CHECK(pointer == NULL);
    cl_mem odd = new_bus(cl, PAGE + 1);
    OK(clGetMemObjectInfo(odd, CL_MEM_SIZE, sizeof mem_size, &mem_size, NULL));
    CHECK(mem_size == 2 * PAGE);
    struct bus_address address = resident(cl, odd);
    CHECK(address.surface % PAGE == 0 && address.marker == address.surface + 2 * PAGE);
    clReleaseMemObject(odd);
}

int main(void)
{
    AUTO(close_cl) struct cl cl = open_cl(60);
    AUTO(close_pair) struct pair pair = open_pair(&cl, &cl, 2 * PAGE);
    bus_creation(&cl);
    file_limit(&cl);
    external_creation(&cl, &pair.address);
    use(&cl, pair.bus, pair.external);
    commands(&cl, pair.bus, pair.external);
    questions(&cl, pair.bus, pair.external);
    return 0;
}
