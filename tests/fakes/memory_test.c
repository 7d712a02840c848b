/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Devices, contexts and memory of one process. */

#include "test_common.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#define MIB ((size_t)1 << 20)

static CUcontext context;
static int devices;

static void before_init(void)
{
    int count;
    CUdeviceptr address;
    CUcontext popped;
    DRIVER(CUDA_ERROR_NOT_INITIALIZED, device_get_count(&count));
    DRIVER(CUDA_ERROR_NOT_INITIALIZED, mem_alloc(&address, 1));
    DRIVER(CUDA_ERROR_NOT_INITIALIZED, ctx_pop_current(&popped));
    DRIVER(CUDA_ERROR_INVALID_VALUE, init(1));
    DO(init(0));
    DO(init(0));
}

static void test_devices(void)
{
    char name[64], id[2][32];
    CUuuid uuid[2];
    int version, value;
    size_t bytes;
    CUdevice device;
    DO(driver_get_version(&version));
    CHECK(version >= 12000, "version %d", version);
    DO(device_get_count(&devices));
    CHECK(devices >= 1, "%d devices", devices);
    for (int i = 0; i < devices && i < 2; i++) {
        DO(device_get(&device, i));
        DO(device_get_name(name, sizeof name, device));
        DO(device_get_uuid(&uuid[i], device));
        DO(device_get_pci_bus_id(id[i], sizeof id[i], device));
        DO(device_total_mem(&bytes, device));
        SAY("%s at %s, %zu MiB", name, id[i], bytes / MIB);
        OK(cuDeviceGetByPCIBusId(&device, id[i]));
        CHECK_EQUAL(device, i);
        DO(device_get_attribute(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                device));
        CHECK_EQUAL(value, 1);
        DO(device_get_attribute(
            &value, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device));
        CHECK_EQUAL(value, 1);
        DO(device_get_attribute(&value, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, device));
        CHECK_EQUAL(value, 1);
    }
    DRIVER(CUDA_ERROR_INVALID_DEVICE, device_get(&device, devices));
    REFUSED(device_get_name(NULL, 10, 0));
    DRIVER(CUDA_ERROR_INVALID_DEVICE, device_get_name(name, sizeof name, devices));
    REFUSED(device_get_pci_bus_id(id[0], 3, 0));
    DRIVER(CUDA_ERROR_INVALID_VALUE, device_get_attribute(&value, (CUdevice_attribute)9999, 0));
    DO(device_can_access_peer(&value, 0, 0));
    CHECK_EQUAL(value, 0);
    if (devices >= 2) {
        CHECK(memcmp(&uuid[0], &uuid[1], sizeof *uuid) != 0, "two devices with one uuid");
        CHECK(strcmp(id[0], id[1]) != 0, "two devices at %s", id[0]);
        DO(device_can_access_peer(&value, 0, 1));
        CHECK_EQUAL(value, 1);
        DO(device_get_p2p_attribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 1, 0));
        CHECK_EQUAL(value, 1);
        REFUSED(device_get_p2p_attribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 1, 1));
    }
}

static void test_addresses(void)
{
    void *function = NULL, *direct = NULL;
    CUdriverProcAddressQueryResult found;
    OK(cuGetProcAddress_v2("cuMemAlloc", &function, 12000, 0, &found));
    memcpy(&direct, &cuda.driver.mem_alloc, sizeof direct);
    CHECK(function && found == 0, "cuMemAlloc is not found");
    if (cuda.fake)
        CHECK(function == direct, "cuMemAlloc is not cuMemAlloc_v2");
    CUresult result = cuda.cuGetProcAddress_v2("cuNoSuchThing", &function, 12000, 0, &found);
    CHECK(!function && found == 1, "cuNoSuchThing is found, result %d", (int)result);
    cuda.cuGetProcAddress_v2("cuStreamWaitValue32", &function, 12000, 0, &found);
    CHECK(function, "cuStreamWaitValue32 is not found");
}

static void test_contexts(void)
{
    CUdeviceptr address;
    CUcontext same, popped, other;
    const char *text;
    DRIVER(CUDA_ERROR_INVALID_CONTEXT, mem_alloc(&address, 1));
    DRIVER(CUDA_ERROR_INVALID_DEVICE, device_primary_ctx_retain(&context, devices));
    DO(device_primary_ctx_retain(&context, 0));
    DO(device_primary_ctx_retain(&same, 0));
    CHECK(same == context, "two primary contexts");
    DO(device_primary_ctx_release(0));
    DO(ctx_push_current(context));
    OK(cuCtxCreate_v2(&other, 0, 0));
    CHECK(other != context, "a new context is the old one");
    OK(cuCtxGetCurrent(&popped));
    CHECK(popped == other, "the new context is not current");
    DO(ctx_pop_current(&popped));
    OK(cuCtxDestroy_v2(other));
    REPORTED(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(other));
    OK(cuCtxGetCurrent(&popped));
    CHECK(popped == context, "the old context is not current again");
    if (cuda.fake) {
        DRIVER(CUDA_ERROR_INVALID_CONTEXT, ctx_push_current(other));
        REPORTED(CUDA_ERROR_INVALID_CONTEXT, driver.device_primary_ctx_release(devices - 1));
    }
    DO(get_error_name(CUDA_ERROR_INVALID_CONTEXT, &text));
    CHECK(strcmp(text, "CUDA_ERROR_INVALID_CONTEXT") == 0, "it is called %s", text);
    DO(get_error_string(CUDA_ERROR_NOT_READY, &text));
    DRIVER(CUDA_ERROR_INVALID_VALUE, get_error_name((CUresult)12345, &text));
}

static void test_alloc(void)
{
    CUdeviceptr address, small, base;
    size_t before, after, total, size;
    DO(mem_get_info(&before, &total));
    DRIVER(CUDA_ERROR_INVALID_VALUE, mem_alloc(&address, 0));
    DRIVER(CUDA_ERROR_OUT_OF_MEMORY, mem_alloc(&address, total + 1));
    address = alloc_filled(32 * MIB, 0x11);
    small = alloc_filled(1000, 0x22);
    DO(mem_get_info(&after, &total));
    CHECK(after + 32 * MIB <= before && after + 36 * MIB > before, "%zu bytes are gone",
          before - after);
    CHECK(address % 512 == 0 && small % 512 == 0, "not aligned to 512");
    CHECK(is_filled(address, 32 * MIB, 0x11) && is_filled(small, 1000, 0x22),
          "not what was filled");
    DO(mem_get_address_range(&base, &size, address + MIB + 1));
    CHECK(base == address && size == 32 * MIB, "another range");
    DO(mem_get_address_range(&base, &size, small + 999));
    CHECK(base == small && size == 1000, "%zu bytes", size);
    int page[1024];
    REFUSED(mem_get_address_range(&base, &size, (uintptr_t)page));
    REPORTED(CUDA_ERROR_INVALID_VALUE, driver.mem_free(address + 512));
    REPORTED(CUDA_ERROR_INVALID_VALUE, driver.memset_d8_async(small, 0, 1001, NULL));
    if (cuda.fake) {
        /* The CPU cannot reach it: not even the kernel can read it for us. */
        int null = open("/dev/null", O_WRONLY), zero = open("/dev/zero", O_RDONLY);
        CHECK(read(zero, (void *)(uintptr_t)address, 1) < 0 && errno == EFAULT,
              "memory of a device can be written by the CPU");
        close(null);
        close(zero);
    }
    DO(mem_free(address));
    DO(mem_free(small));
    DO(mem_free(0));
    REPORTED(CUDA_ERROR_INVALID_VALUE, driver.mem_free(address));
    REPORTED(CUDA_ERROR_INVALID_VALUE, driver.memset_d8_async(address, 0, 1, NULL));
    REFUSED(mem_get_address_range(&base, &size, address));
    DO(mem_get_info(&after, &total));
    if (cuda.fake)
        CHECK_EQUAL(after, before);
    size_t pitch;
    OK(cuMemAllocPitch_v2(&address, &pitch, 1000, 10, 16));
    CHECK(pitch >= 1000 && pitch % 256 == 0, "a pitch of %zu", pitch);
    DO(mem_free(address));
}

static void test_vmm(void)
{
    size_t granularity;
    struct mapping one;
    CUdeviceptr second, reserved;
    CUmemGenericAllocationHandle handle, again;
    CUmemAllocationProp prop = prop_of(0, false), got, bad = prop_of(devices, false);
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READ};
    DO(mem_get_allocation_granularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK_EQUAL(granularity, 2 * MIB);
    DRIVER(CUDA_ERROR_INVALID_VALUE, mem_create(&handle, granularity + 1, &prop, 0));
    DRIVER(CUDA_ERROR_INVALID_VALUE, mem_create(&handle, 0, &prop, 0));
    REFUSED(mem_create(&handle, granularity, &bad, 0));
    DRIVER(CUDA_ERROR_OUT_OF_MEMORY, mem_create(&handle, (size_t)1 << 45, &prop, 0));
    REFUSED(mem_address_reserve(&reserved, granularity - 1, 0, 0, 0));
    REFUSED(mem_address_reserve(&reserved, granularity, 3, 0, 0));

    size_t size = 2 * granularity;
    DO(mem_create(&handle, size, &prop, 0));
    int fd = -1;
    REFUSED(mem_export(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    map_handle(&one, handle, size, 0);
    OK(cuMemsetD8_v2(one.address, 0x33, size));
    DRIVER(CUDA_ERROR_INVALID_VALUE, mem_map(one.address, size, 0, handle, 0));

    /* The same memory a second time: no access before it is given, and then only what is given. */
    DO(mem_address_reserve(&second, 2 * size, 0, 0, 0));
    DRIVER(CUDA_ERROR_NOT_SUPPORTED, mem_map(second, granularity, 0, handle, 0));
    REFUSED(mem_map(second, granularity / 2, 0, handle, 0));
    REFUSED(mem_map(second + 4096, size, 0, handle, 0));
    REFUSED(mem_map(second, size, granularity, handle, 0));
    REFUSED(mem_map(second, 2 * size, 0, handle, 0));
    REFUSED(mem_set_access(second, size, &access, 1));
    DO(mem_map(second, size, 0, handle, 0));
    if (cuda.fake)
        DRIVER(CUDA_ERROR_INVALID_VALUE, memcpy_async(one.address, second, 16, NULL));
    DO(mem_set_access(second, size, &access, 1));
    CHECK(is_filled(second, size, 0x33), "two mappings of one memory differ");
    if (cuda.fake)
        DRIVER(CUDA_ERROR_INVALID_VALUE, memset_d8_async(second, 0, 16, NULL));
    REFUSED(mem_address_free(second, 2 * size));
    REFUSED(mem_unmap(second, granularity));
    DO(mem_unmap(second, size));
    REPORTED(CUDA_ERROR_INVALID_VALUE, driver.mem_unmap(second, size));
    REPORTED(CUDA_ERROR_INVALID_VALUE, driver.memcpy_async(one.address, second, 16, NULL));
    REFUSED(mem_address_free(second, size));
    DO(mem_address_free(second, 2 * size));

    /* The handle: from the address, and as long as one holds it. */
    DO(mem_retain_allocation_handle(&again, (void *)(uintptr_t)(one.address + 5)));
    DO(mem_get_allocation_properties(&got, again));
    CHECK(got.location.id == 0 && got.type == prop.type, "other properties");
    DO(mem_release(again));
    REFUSED(mem_free(one.address));
    unmap(&one);
    REPORTED(CUDA_ERROR_INVALID_VALUE, driver.mem_release(handle));
    REFUSED(mem_retain_allocation_handle(&again, (void *)(uintptr_t)one.address));
}

static void test_host(void)
{
    unsigned char *pages = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                                -1, 0),
                  *pinned;
    unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    CUdeviceptr address, memory = alloc_filled(4096, 0x44);
    REFUSED(mem_host_get_device_pointer(&address, pages, 0));
    DRIVER(CUDA_ERROR_INVALID_VALUE, mem_host_register(pages, 0, flags));
    DO(mem_host_register(pages, 2 * 4096, flags));
    DRIVER(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, mem_host_register(pages, 2 * 4096, flags));
    DRIVER(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, mem_host_register(pages + 4096, 4096, flags));
    DO(mem_host_get_device_pointer(&address, pages + 4096, 0));
    if (cuda.fake)
        CHECK(address != (uintptr_t)pages + 4096, "a pinned page has one address for both");
    OK(cuMemcpy(address, memory, 4096));
    CHECK(pages[4096] == 0x44 && pages[4095] == 0 && pages[8191] == 0x44 && pages[8192] == 0,
          "another page was written");
    memset(pages, 0x55, 4096);
    OK(cuMemcpyHtoD_v2(memory, pages, 4096));
    CHECK(is_filled(memory, 4096, 0x55), "a pinned page did not arrive");
    if (cuda.fake)
        DRIVER(CUDA_ERROR_INVALID_VALUE, stream_wait_value(NULL, (uintptr_t)pages, 0, 0));
    DO(mem_host_unregister(pages));
    REPORTED(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, driver.mem_host_unregister(pages));
    REPORTED(CUDA_ERROR_INVALID_VALUE, driver.memset_d8_async(address, 0, 16, NULL));
    CHECK(mprotect(pages, 4096, PROT_READ) == 0, "mprotect: %s", strerror(errno));
    REFUSED(mem_host_register(pages, 2 * 4096, flags));
    DO(mem_host_register(pages, 2 * 4096, flags | CU_MEMHOSTREGISTER_READ_ONLY));
    OK(cuMemcpyHtoD_v2(memory, pages, 4096));
    CHECK(is_filled(memory, 4096, 0x55), "a page pinned for reading did not arrive");
    if (cuda.fake) {
        DO(mem_host_get_device_pointer(&address, pages, 0));
        REFUSED(memset_d8_async(address, 0, 16, NULL));
    }
    DO(mem_host_unregister(pages));
    munmap(pages, 4 * 4096);
    REFUSED(mem_host_register(pages, 4096, flags));

    DO(mem_host_alloc((void **)&pinned, 5000, CU_MEMHOSTALLOC_PORTABLE));
    OK(cuMemcpyDtoH_v2(pinned, memory, 4096));
    CHECK(pinned[4095] == 0x55, "allocated pinned memory did not arrive");
    DO(mem_host_get_device_pointer(&address, pinned, 0));
    REFUSED(mem_host_unregister(pinned));
    DO(mem_free_host(pinned));
    REPORTED(CUDA_ERROR_INVALID_VALUE, driver.mem_free_host(pinned));
    DO(mem_free(memory));
}

static unsigned type_of(CUdeviceptr address)
{
    unsigned type = 0;
    DO(pointer_get_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
    return type;
}

static CUcontext context_of(CUdeviceptr address)
{
    CUcontext owner = (CUcontext)1;
    DO(pointer_get_attribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, address));
    return owner;
}

static void test_pointers(void)
{
    int ordinal = -1, one = 1, plain = 0;
    unsigned managed = 0, sync = 0;
    size_t size;
    CUdeviceptr start, pool, shared, memory = alloc_filled(4 * MIB, 1);
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = prop_of(0, false);
    void *pinned;
    struct mapping mapping;
    CHECK_EQUAL(type_of(memory + 5), CU_MEMORYTYPE_DEVICE);
    CHECK(context_of(memory) == context, "memory of another context");
    DO(pointer_get_attribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory));
    CHECK_EQUAL(ordinal, 0);
    DO(pointer_get_attribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, memory + MIB));
    DO(pointer_get_attribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, memory + MIB));
    CHECK(start == memory && size == 4 * MIB, "another range, %zu bytes", size);
    DO(pointer_set_attribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
    DO(pointer_get_attribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
    CHECK_EQUAL(sync, 1);
    DRIVER(CUDA_ERROR_INVALID_VALUE,
           pointer_get_attribute(&sync, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)&plain));
    DO(mem_host_alloc(&pinned, 4096, 0));
    CHECK_EQUAL(type_of((uintptr_t)pinned), CU_MEMORYTYPE_HOST);
    DO(mem_free_host(pinned));

    DO(mem_create(&handle, 2 * MIB, &prop, 0));
    map_handle(&mapping, handle, 2 * MIB, 0);
    CHECK_EQUAL(type_of(mapping.address), CU_MEMORYTYPE_DEVICE);
    CHECK(context_of(mapping.address) == NULL, "memory of cuMemMap has a context");
    DRIVER(CUDA_ERROR_NOT_SUPPORTED,
           pointer_set_attribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, mapping.address));
    unmap(&mapping);

    OK(cuMemAllocAsync(&pool, MIB, NULL));
    OK(cuStreamSynchronize(NULL));
    CHECK_EQUAL(type_of(pool), CU_MEMORYTYPE_DEVICE);
    CHECK(context_of(pool) == NULL, "memory of a pool has a context");
    CUipcMemHandle ipc;
    DRIVER(CUDA_ERROR_INVALID_VALUE, ipc_get_mem_handle(&ipc, pool));
    OK(cuMemFreeAsync(pool, NULL));
    OK(cuStreamSynchronize(NULL));

    OK(cuMemAllocManaged(&shared, MIB, 1));
    DO(pointer_get_attribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, shared));
    CHECK_EQUAL(managed, 1);
    *(volatile char *)(uintptr_t)shared = 7;
    REFUSED(stream_write_value(NULL, shared, 1, 0));
    DO(mem_free(shared));
    DO(mem_free(memory));
}

int main(void)
{
    open_driver();
    before_init();
    test_devices();
    test_addresses();
    test_contexts();
    test_alloc();
    test_vmm();
    test_host();
    test_pointers();
    unsigned so_far = reports();
    DO(device_primary_ctx_release(0));
    CHECK_EQUAL(reports(), so_far);
    SAY("passed, %u reports as wanted", so_far);
    return 0;
}
