/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the tests of the fake share. */

#include "test_common.h"

#include <dlfcn.h>
#include <time.h>

struct calls cuda;

static void *library;

static void find(void *function, const char *name)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
}

void open_driver(void)
{
    test_alarm(120);
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        FAIL("%s; LD_LIBRARY_PATH names the folder", dlerror());
#define FIND_MEMBER(member, symbol, arguments) \
    find(&cuda.driver.member, #symbol);        \
    CHECK(cuda.driver.member, "no %s in libcuda.so.1", #symbol);
#define FIND(symbol, arguments) find(&cuda.symbol, #symbol);
    CUDA_DRIVER_FUNCTIONS(FIND_MEMBER)
    FAKE_FUNCTIONS(FIND)
    cuda.fake = cuda.fakeCudaReports != NULL;
    SAY("%s", cuda.fake ? "the fake" : "the real driver");
}

unsigned reports(void)
{
    unsigned count = 0;
    if (cuda.fake)
        OK(fakeCudaReports(&count));
    return count;
}

void finish(CUstream stream)
{
    for (int i = 0; i < 60000; i++) {
        CUresult result = cuda.driver.stream_query(stream);
        if (result == CUDA_SUCCESS)
            return;
        CHECK(result == CUDA_ERROR_NOT_READY, "the stream broke: %d", (int)result);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    FAIL("a stream does not come to its end");
}

CUdeviceptr alloc_filled(size_t size, unsigned char value)
{
    CUdeviceptr address;
    DO(mem_alloc(&address, size));
    OK(cuMemsetD8_v2(address, value, size));
    OK(cuCtxSynchronize()); /* which a memset is not */
    return address;
}

bool is_filled(CUdeviceptr address, size_t size, unsigned char value)
{
    unsigned char *bytes = malloc(size);
    CHECK(bytes, "no memory");
    OK(cuMemcpyDtoH_v2(bytes, address, size));
    size_t i = 0;
    while (i < size && bytes[i] == value)
        i++;
    if (i < size)
        SAY("byte %zu of %zu is %#x, not %#x", i, size, bytes[i], value);
    free(bytes);
    return i == size;
}

CUmemAllocationProp prop_of(CUdevice device, bool shareable)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes =
            shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : (CUmemAllocationHandleType)0,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
    };
}

void map_handle(struct mapping *mapping, CUmemGenericAllocationHandle handle, size_t size,
                CUdevice device)
{
    const CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    mapping->handle = handle;
    mapping->size = size;
    DO(mem_address_reserve(&mapping->address, size, 0, 0, 0));
    DO(mem_map(mapping->address, size, 0, handle, 0));
    DO(mem_set_access(mapping->address, size, &access, 1));
}

void unmap(struct mapping *mapping)
{
    DO(mem_unmap(mapping->address, mapping->size));
    DO(mem_address_free(mapping->address, mapping->size));
    DO(mem_release(mapping->handle));
}
