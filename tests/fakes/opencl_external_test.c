/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* fake-opencl-external: the layer follows the rules of cl_khr_external_memory, and enforces them on
 * its callers. */
#include "support/check.h"

#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE (1 << 20)

static cl_device_id device;
static cl_context context;
static cl_command_queue queue;
static clEnqueueAcquireExternalMemObjectsKHR_fn acquire;
static clEnqueueReleaseExternalMemObjectsKHR_fn release;

#define CL(call) CHECK_EQUAL(call, CL_SUCCESS)

static void open_device(void)
{
    cl_platform_id platform;
    cl_int code;
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS)
        SKIP("no OpenCL device");
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    CL(code);
    queue = clCreateCommandQueueWithProperties(context, device, NULL, &code);
    CL(code);
    void *found =
        clGetExtensionFunctionAddressForPlatform(platform, "clEnqueueAcquireExternalMemObjectsKHR");
    CHECK(found, "no function to acquire with");
    memcpy(&acquire, &found, sizeof(found));
    found =
        clGetExtensionFunctionAddressForPlatform(platform, "clEnqueueReleaseExternalMemObjectsKHR");
    CHECK(found, "no function to release with");
    memcpy(&release, &found, sizeof(found));
}

/* As the fake CUDA driver makes it. */
static int make_memory(int gpu, unsigned char **pages)
{
    char name[64];
    snprintf(name, sizeof(name), "fake-cuda-v:%d:%d:", gpu, SIZE);
    int fd = memfd_create(name, MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, SIZE) == 0, "memfd: %s", strerror(errno));
    *pages = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(*pages != MAP_FAILED, "mmap: %s", strerror(errno));
    return fd;
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static cl_int try_import(cl_mem_properties type, int fd, cl_mem_flags flags, size_t size,
                         void *host)
{
    const cl_mem_properties properties[] = {type, (cl_mem_properties)fd, 0};
    cl_int code = 1;
    cl_mem made = clCreateBufferWithProperties(context, properties, flags, size, host, &code);
    CHECK((made != NULL) == (code == CL_SUCCESS), "a buffer and %d", code);
    if (made)
        clReleaseMemObject(made);
    return code;
}

static void test_device(void)
{
    char extensions[4096];
    cl_uchar uuid[CL_UUID_SIZE_KHR];
    cl_uint type = 0;
    SAY("the device says what it has");
    CL(clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof(extensions), extensions, NULL));
    CHECK(strstr(extensions, "cl_khr_external_memory_opaque_fd") &&
              strstr(extensions, "cl_khr_device_uuid"),
          "%s", extensions);
    CL(clGetDeviceInfo(device, CL_DEVICE_UUID_KHR, sizeof(uuid), uuid, NULL));
    CHECK(memcmp(uuid, "fake gpu number\1", sizeof(uuid)) == 0, "another UUID");
    CL(clGetDeviceInfo(device, CL_DEVICE_EXTERNAL_MEMORY_IMPORT_HANDLE_TYPES_KHR, sizeof(type),
                       &type, NULL));
    CHECK_EQUAL(type, CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR);
}

static void test_refusals(void)
{
    const cl_uint type = CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR;
    unsigned char *pages, *others;
    int fd = make_memory(0, &pages), other = make_memory(1, &others);
    SAY("what is refused stays the caller's");
    CHECK_EQUAL(try_import(type, fd, CL_MEM_READ_WRITE, SIZE / 2, NULL), CL_INVALID_VALUE);
    CHECK_EQUAL(try_import(type, fd, CL_MEM_READ_WRITE, SIZE * 2, NULL), CL_INVALID_VALUE);
    CHECK_EQUAL(try_import(type, fd, CL_MEM_READ_WRITE, 0, NULL), CL_INVALID_BUFFER_SIZE);
    CHECK_EQUAL(try_import(type, fd, CL_MEM_ALLOC_HOST_PTR, SIZE, NULL), CL_INVALID_VALUE);
    CHECK_EQUAL(try_import(type, fd, CL_MEM_USE_HOST_PTR, SIZE, pages), CL_INVALID_VALUE);
    CHECK_EQUAL(try_import(type, other, CL_MEM_READ_WRITE, SIZE, NULL), CL_INVALID_VALUE);
    CHECK_EQUAL(try_import(type, STDIN_FILENO, CL_MEM_READ_WRITE, SIZE, NULL), CL_INVALID_VALUE);
    CHECK_EQUAL(try_import(type, -1, CL_MEM_READ_WRITE, SIZE, NULL), CL_INVALID_VALUE);
    CHECK_EQUAL(try_import(CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR, fd, 0, SIZE, NULL),
                CL_INVALID_PROPERTY);
    CHECK(is_open(fd) && is_open(other), "a refusal takes the descriptor");
    munmap(others, SIZE);
    munmap(pages, SIZE);
    close(other);
    close(fd);
}

static void test_rules(void)
{
    unsigned char *pages, data[16] = {0};
    int fd = make_memory(0, &pages);
    const cl_mem_properties properties[] = {CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR,
                                            (cl_mem_properties)fd,
                                            0x2051, /* CL_MEM_DEVICE_HANDLE_LIST_KHR */
                                            (cl_mem_properties)device,
                                            0,
                                            0};
    cl_int code;
    SAY("a command needs an acquire before it, and none after the release");
    cl_mem memory =
        clCreateBufferWithProperties(context, properties, CL_MEM_READ_WRITE, SIZE, NULL, &code);
    CL(code);
    CHECK(!is_open(fd), "an import leaves the descriptor open");
    cl_mem plain = clCreateBuffer(context, CL_MEM_READ_WRITE, SIZE, NULL, &code);
    CL(code);
    memset(pages, 7, SIZE);
    CHECK_EQUAL(clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, 16, data, 0, NULL, NULL),
                CL_INVALID_OPERATION);
    CHECK_EQUAL(clEnqueueCopyBuffer(queue, plain, memory, 0, 0, 16, 0, NULL, NULL),
                CL_INVALID_OPERATION);
    clEnqueueMapBuffer(queue, memory, CL_TRUE, CL_MAP_READ, 0, 16, 0, NULL, NULL, &code);
    CHECK_EQUAL(code, CL_INVALID_OPERATION);
    CHECK_EQUAL(release(queue, 1, &memory, 0, NULL, NULL), CL_INVALID_OPERATION);
    CHECK_EQUAL(acquire(queue, 1, &plain, 0, NULL, NULL), CL_INVALID_MEM_OBJECT);
    CHECK_EQUAL(acquire(queue, 0, NULL, 0, NULL, NULL), CL_INVALID_VALUE);

    CL(acquire(queue, 1, &memory, 0, NULL, NULL));
    CL(clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, 16, data, 0, NULL, NULL));
    CHECK_EQUAL(data[15], 7);
    void *mapped =
        clEnqueueMapBuffer(queue, memory, CL_TRUE, CL_MAP_WRITE, 0, 16, 0, NULL, NULL, &code);
    CL(code);
    CHECK_EQUAL(release(queue, 1, &memory, 0, NULL, NULL), CL_INVALID_OPERATION);
    memset(mapped, 9, 16);
    CL(clEnqueueUnmapMemObject(queue, memory, mapped, 0, NULL, NULL));
    CL(release(queue, 1, &memory, 0, NULL, NULL));
    CL(clFinish(queue));
    CHECK_EQUAL(pages[15], 9);
    CHECK_EQUAL(clEnqueueFillBuffer(queue, memory, data, 1, 0, 16, 0, NULL, NULL),
                CL_INVALID_OPERATION);
    clReleaseMemObject(plain);
    clReleaseMemObject(memory);
    munmap(pages, SIZE);
}

int main(void)
{
    open_device();
    test_device();
    test_refusals();
    test_rules();
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return 0;
}
