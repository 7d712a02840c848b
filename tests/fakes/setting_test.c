/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* setting_test <name>: the fake's environment, one setting a run; the build file sets it. */

#include "test_common.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

static CUcontext context;

static void open_device(void)
{
    DO(init(0));
    DO(device_primary_ctx_retain(&context, 0));
    DO(ctx_push_current(context));
}

/* cuMemAlloc_v2:2=801,cuStreamCreate:3+ */
static void inject(void)
{
    CUdeviceptr address;
    CUstream stream;
    open_device();
    DO(mem_alloc(&address, 1));
    DRIVER(CUDA_ERROR_NOT_SUPPORTED, mem_alloc(&address, 1));
    DO(mem_alloc(&address, 1));
    DO(stream_create(&stream, 0));
    DO(stream_create(&stream, 0));
    DRIVER(CUDA_ERROR_OUT_OF_MEMORY, stream_create(&stream, 0));
    DRIVER(CUDA_ERROR_OUT_OF_MEMORY, stream_create(&stream, 0));
}

/* 4 devices, of which 2 and 0 are visible */
static void visible(void)
{
    int count;
    char name[32], id[32];
    open_device();
    DO(device_get_count(&count));
    CHECK_EQUAL(count, 2);
    DO(device_get_name(name, sizeof name, 0));
    CHECK(strcmp(name, "Fake GPU 2") == 0, "the first is %s", name);
    DO(device_get_pci_bus_id(id, sizeof id, 1));
    CHECK(strcmp(id, "FACE:01:00.0") == 0, "the second is at %s", id);
}

/* CUDA_VISIBLE_DEVICES empty */
static void none(void)
{
    int count;
    DRIVER(CUDA_ERROR_NO_DEVICE, init(0));
    DRIVER(CUDA_ERROR_NOT_INITIALIZED, device_get_count(&count));
}

static void no_read_only(void)
{
    unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    void *pages = mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    open_device();
    REFUSED(mem_host_register(pages, 4096, flags | CU_MEMHOSTREGISTER_READ_ONLY));
    REFUSED(mem_host_register(pages, 4096, flags));
}

static void no_peers(void)
{
    int can, granted;
    CUcontext other;
    CUmemGenericAllocationHandle handle;
    struct mapping mapping;
    CUmemAllocationProp prop = prop_of(0, false);
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    open_device();
    DO(device_can_access_peer(&can, 0, 1));
    CHECK_EQUAL(can, 0);
    DO(device_get_p2p_attribute(&granted, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
    CHECK_EQUAL(granted, 0);
    DO(device_primary_ctx_retain(&other, 1));
    DRIVER(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, ctx_enable_peer_access(other, 0));
    DO(mem_create(&handle, 2 << 20, &prop, 0));
    map_handle(&mapping, handle, 2 << 20, 0);
    REFUSED(mem_set_access(mapping.address, mapping.size, &access, 1));
    unmap(&mapping);
}

/* An integrated GPU: one, without IPC handles, whose memory travels by descriptor. */
static void integrated(void)
{
    int count, value, fd;
    CUdeviceptr address;
    CUipcMemHandle ipc = {{0}};
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = prop_of(0, true);
    open_device();
    DO(device_get_count(&count));
    CHECK_EQUAL(count, 1);
    DO(device_get_attribute(&value, CU_DEVICE_ATTRIBUTE_INTEGRATED, 0));
    CHECK_EQUAL(value, 1);
    DO(mem_alloc(&address, 4096));
    DRIVER(CUDA_ERROR_NOT_SUPPORTED, ipc_get_mem_handle(&ipc, address));
    DRIVER(CUDA_ERROR_NOT_SUPPORTED,
           ipc_open_mem_handle(&address, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    DO(mem_create(&handle, 2 << 20, &prop, 0));
    DO(mem_export(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    close(fd);
    DO(mem_release(handle));
}

/* 16M */
static void memory(void)
{
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = prop_of(0, false);
    size_t available, total;
    open_device();
    DO(mem_get_info(&available, &total));
    CHECK(total == 16 << 20 && available == total, "%zu of %zu", available, total);
    DO(mem_alloc(&address, 12 << 20));
    DRIVER(CUDA_ERROR_OUT_OF_MEMORY, mem_alloc(&address, 6 << 20));
    DRIVER(CUDA_ERROR_OUT_OF_MEMORY, mem_create(&handle, 6 << 20, &prop, 0));
    DO(mem_create(&handle, 4 << 20, &prop, 0));
    DO(mem_get_info(&available, &total));
    CHECK_EQUAL(available, 0);
    DO(mem_release(handle));
    DO(mem_get_info(&available, &total));
    CHECK_EQUAL(available, 4 << 20);
}

/* 256M: an address that was given back is not given again */
static void arena(void)
{
    CUdeviceptr address, last = 0;
    open_device();
    for (int i = 0; i < 3; i++) {
        DO(mem_alloc(&address, 64 << 20));
        CHECK(address > last, "%#llx comes after %#llx", address, last);
        last = address;
        DO(mem_free(address));
    }
    DRIVER(CUDA_ERROR_OUT_OF_MEMORY, mem_alloc(&address, 64 << 20));
}

static long milliseconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - start->tv_sec) * 1000 + (now.tv_nsec - start->tv_nsec) / 1000000;
}

/* 20000 microseconds an operation: ten take two tenths of a second at least */
static void delay(void)
{
    struct timespec start;
    CUdeviceptr address;
    open_device();
    DO(mem_alloc(&address, 16));
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < 10; i++)
        DO(memset_d8_async(address, 1, 16, NULL));
    finish(NULL);
    long passed = milliseconds_since(&start);
    CHECK(passed >= 190, "%ld ms", passed);
}

/* 10 MB/s from one device to another: 4 MB take four tenths of a second */
static void peer_rate(void)
{
    const size_t size = 4000000;
    struct timespec start;
    CUdeviceptr here, here_too, there;
    CUcontext other;
    open_device();
    DO(mem_alloc(&here, size));
    DO(mem_alloc(&here_too, size));
    DO(device_primary_ctx_retain(&other, 1));
    DO(ctx_push_current(other));
    DO(mem_alloc(&there, size));
    DO(ctx_pop_current(&other));
    DO(ctx_enable_peer_access(other, 0));
    clock_gettime(CLOCK_MONOTONIC, &start);
    DO(memcpy_dtod_async(there, here, size, NULL));
    finish(NULL);
    long across = milliseconds_since(&start);
    CHECK(across >= 390, "%ld ms", across);
    clock_gettime(CLOCK_MONOTONIC, &start);
    DO(memcpy_dtod_async(here_too, here, size, NULL));
    finish(NULL);
    long inside = milliseconds_since(&start);
    CHECK(inside < across, "%ld ms inside a device, %ld from one to another", inside, across);
}

/* Each way to learn of a report, in a child; and a child that forks away from its GPU. */
static int status_of(const char *strict, bool wrong)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        setenv("GPUD_FAKE_CUDA_STRICT", strict, 1);
        open_device();
        if (wrong)
            cuda.driver.mem_free(0x1000);
        exit(0);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child, "no child");
    return status;
}

static void strict(void)
{
    int status = status_of("abort", true);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "abort: status %#x", status);
    status = status_of("exit", true);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 86, "exit: status %#x", status);
    status = status_of("exit", false);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "nothing wrong: status %#x", status);
    open_device();
    pid_t child = fork();
    if (child == 0) {
        int count;
        _exit(cuda.driver.device_get_count(&count) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0, "a child of fork() has a GPU");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } settings[] = {
        {"inject", inject},
        {"visible", visible},
        {"integrated", integrated},
        {"none", none},
        {"no-peers", no_peers},
        {"memory", memory},
        {"arena", arena},
        {"delay", delay},
        {"peer-rate", peer_rate},
        {"strict", strict},
        {"no-read-only", no_read_only},
    };
    open_driver();
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (argc == 2 && strcmp(argv[1], settings[i].name) == 0) {
            settings[i].run();
            return 0;
        }
    }
    FAIL("no setting is named");
}
