/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* memory@DEVICE: what every device promises about memory and about the queues that move it. */
#include "conformance.h"

#include "device/opencl/opencl.h"
#include "device/vulkan/vulkan.h"
#include "support/make.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SOON gpud_deadline(10 * GPUD_SEC)
#define PAGE 4096
/* What a fake GPU clears under a sanitizer is cleared by a busy CPU, a byte at a time. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LARGE (4 << 20)
#else
#define LARGE (64 << 20)
#endif

static struct gpud_memory *alloc(struct side *side, uint64_t size)
{
    struct gpud_memory *memory = NEW_MEMORY(side->device, size);
    return memory;
}

/* --- allocation ------------------------------------------------------------------------------- */

static void test_alloc(struct side *side)
{
    static const uint64_t sizes[] = {1, 3, PAGE - 1, PAGE, PAGE + 1, 1920 * 1080 * 2 + 7, LARGE};
    say("memory of any size starts zeroed and keeps what is written to it");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct gpud_memory *memory = alloc(side, sizes[i]);
        unsigned char *data = map_whole(side, memory, GPUD_READ | GPUD_WRITE);
        for (uint64_t at = 0; at < sizes[i]; at++)
            CHECK(data[at] == 0, "byte %llu of %llu new ones is %u", (unsigned long long)at,
                  (unsigned long long)sizes[i], data[at]);
        fill(data, sizes[i], (uint32_t)i);
        unmap_whole(side, memory, data);
        READ_PATTERN(side, memory, (uint32_t)i);
        CHECK(gpud_memory_get_native(memory), "memory without a native object");
        gpud_memory_unref(&memory);
        CHECK(!memory, "unref leaves the pointer");
    }

    say("impossible sizes are refused");
    struct gpud_memory *memory = NULL;
    EXPECT(GPUD_INVALID, gpud_memory_alloc(side->device, 0, GPUD_MEMORY_PLAIN, &memory, &e));
    EXPECT(GPUD_INVALID,
           gpud_memory_alloc(side->device, UINT64_MAX, GPUD_MEMORY_PLAIN, &memory, &e));
    EXPECT(GPUD_NO_MEMORY,
           gpud_memory_alloc(side->device, UINT64_C(1) << 40, GPUD_MEMORY_PLAIN, &memory, &e));
    CHECK(!memory, "a refusal leaves something behind");
    gpud_memory_unref(&memory);
}

static void test_map_parts(struct side *side)
{
    say("parts of a memory map where they are");
    AUTO(gpud_memory_unref) struct gpud_memory *memory = alloc(side, 3 * PAGE);
    write_pattern(side, memory, 5);
    void *data;
    WORKS(gpud_queue_map(side->queue, memory, PAGE + 1, 77, GPUD_READ, SOON, &data, &e));
    for (unsigned i = 0; i < 77; i++)
        CHECK(((unsigned char *)data)[i] == pattern(PAGE + 1 + i, 5),
              "byte %u of the part is wrong", i);
    WORKS(gpud_queue_unmap(side->queue, memory, data, &e));
    EXPECT(GPUD_INVALID,
           gpud_queue_map(side->queue, memory, PAGE, 3 * PAGE, GPUD_READ, SOON, &data, &e));
    EXPECT(GPUD_INVALID,
           gpud_queue_map(side->queue, memory, UINT64_MAX, 2, GPUD_READ, SOON, &data, &e));
}

/* --- copies ----------------------------------------------------------------------------------- */

/* A memory of either kind: the device's own, or host memory that it only looks at. */
static struct gpud_memory *make(struct side *side, bool host, uint64_t size)
{
    if (!host)
        return alloc(side, size);
    void *data = aligned_alloc(PAGE, (size + PAGE - 1) / PAGE * PAGE);
    struct gpud_memory *memory;
    CHECK(data, "out of memory");
    WORKS(gpud_memory_wrap_host(side->device, data, size, false, free, data, &memory, &e));
    return memory;
}

static void check_copy(struct side *side, const struct gpud_copy *copy)
{
    write_pattern(side, copy->from, 1);
    write_pattern(side, copy->to, 2);
    WORKS(gpud_queue_copy(side->queue, copy, &e));
    WORKS(gpud_queue_finish(side->queue, SOON, &e));

    unsigned char *wanted = malloc(copy->to->size);
    CHECK(wanted, "out of memory");
    fill(wanted, copy->to->size, 2);
    for (uint64_t row = 0; row < copy->rows; row++)
        for (uint64_t i = 0; i < copy->row_bytes; i++)
            wanted[copy->to_offset + row * copy->to_stride + i] =
                pattern(copy->from_offset + row * copy->from_stride + i, 1);
    unsigned char *data = map_whole(side, copy->to, GPUD_READ);
    for (uint64_t i = 0; i < copy->to->size; i++)
        CHECK(data[i] == wanted[i],
              "byte %llu is %u, not %u, after a copy of %u rows of %llu bytes, %llu+%u to %llu+%u",
              (unsigned long long)i, data[i], wanted[i], copy->rows,
              (unsigned long long)copy->row_bytes, (unsigned long long)copy->from_offset,
              copy->from_stride, (unsigned long long)copy->to_offset, copy->to_stride);
    unmap_whole(side, copy->to, data);
    free(wanted);
}

static void test_copies(struct side *side, bool to_host, bool from_host)
{
    static const struct gpud_copy copies[] = {
        {.row_bytes = 1, .rows = 1},
        {.row_bytes = 20000, .rows = 1},
        {.row_bytes = 4097, .rows = 1, .to_offset = 13, .from_offset = 4095},
        {.row_bytes = 100, .rows = 50, .to_stride = 100, .from_stride = 100},
        {.row_bytes = 100,
         .rows = 50,
         .to_stride = 100,
         .from_stride = 100,
         .to_offset = 3,
         .from_offset = 107},
        {.row_bytes = 100, .rows = 50, .to_stride = 128, .from_stride = 128},
        {.row_bytes = 100, .rows = 50, .to_stride = 100, .from_stride = 160},
        {.row_bytes = 100, .rows = 50, .to_stride = 192, .from_stride = 100},
        {.row_bytes = 101,
         .rows = 33,
         .to_stride = 333,
         .from_stride = 103,
         .to_offset = 1,
         .from_offset = 2},
        {.row_bytes = 90,
         .rows = 7,
         .to_stride = 100,
         .from_stride = 120,
         .to_offset = 195,
         .from_offset = 1079},
        {.row_bytes = 400, .rows = 1, .to_stride = 3, .from_stride = 1},
        /* Ends exactly with the memory: the last row is not a whole stride. */
        {.row_bytes = 99,
         .rows = 156,
         .to_stride = 128,
         .from_stride = 128,
         .to_offset = 61,
         .from_offset = 61},
    };
    say("copies, %s to %s: offsets, strides, nothing but the rows is touched",
        from_host ? "host" : "device", to_host ? "host" : "device");
    struct gpud_memory *to = make(side, to_host, 20000), *from = make(side, from_host, 20000);
    if (to_host && from_host && is_opencl(side)) {
        struct gpud_copy copy = {.to = to, .from = from, .row_bytes = 10, .rows = 1};
        EXPECT(GPUD_UNSUPPORTED, gpud_queue_copy(side->queue, &copy, &e));
    } else {
        for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++) {
            struct gpud_copy copy = copies[i];
            copy.to = to;
            copy.from = from;
            check_copy(side, &copy);
        }
    }
    gpud_memory_unref(&to);
    gpud_memory_unref(&from);
}

static void test_copy_refusals(struct side *side)
{
    say("copies that leave a memory, overlap or write what is read-only are refused");
    struct side other = side_open(side->device->info.name);
    struct gpud_memory *to = alloc(side, 1000), *from = alloc(side, 1000),
                       *foreign = alloc(&other, 1000);
    struct gpud_memory *constant;
    static char text[1000];
    WORKS(gpud_memory_wrap_host(side->device, text, sizeof(text), true, NULL, NULL, &constant, &e));
    struct gpud_copy copies[] = {
        {.to = to, .from = from, .row_bytes = 1001, .rows = 1},
        {.to = to, .from = from, .row_bytes = 1, .rows = 1, .to_offset = 1000},
        {.to = to, .from = from, .row_bytes = 1, .rows = 1, .from_offset = UINT64_MAX},
        {.to = to,
         .from = from,
         .row_bytes = 100,
         .rows = 11,
         .to_stride = 100,
         .from_stride = 100},
        {.to = to, .from = from, .row_bytes = 50, .rows = 11, .to_stride = 95, .from_stride = 96},
        {.to = to, .from = from, .row_bytes = 100, .rows = 2, .to_stride = 99, .from_stride = 100},
        {.to = to, .from = from, .row_bytes = UINT64_MAX, .rows = 1, .from_offset = 2},
        {.to = to,
         .from = from,
         .row_bytes = 1,
         .rows = UINT32_MAX,
         .to_stride = UINT32_MAX,
         .from_stride = 1},
        {.to = constant, .from = from, .row_bytes = 1, .rows = 1},
        {.to = foreign, .from = from, .row_bytes = 1, .rows = 1},
        {.to = to, .from = foreign, .row_bytes = 1, .rows = 1},
    };
    for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++)
        EXPECT(GPUD_INVALID, gpud_queue_copy(side->queue, &copies[i], &e));
    WORKS(gpud_queue_finish(side->queue, SOON, &e));
    gpud_memory_unref(&to);
    gpud_memory_unref(&from);
    gpud_memory_unref(&foreign);
    gpud_memory_unref(&constant);
    side_close(&other);
}

/* --- memory of others in this process --------------------------------------------------------- */

static void count_up(void *user)
{
    atomic_fetch_add((atomic_uint *)user, 1);
}

static void wait_until_destroyed(const atomic_uint *destroyed)
{
    for (int64_t deadline = SOON; atomic_load(destroyed) == 0; usleep(1000))
        CHECK(gpud_now() < deadline, "destroy was not called");
    CHECK(atomic_load(destroyed) == 1, "destroy was called %u times", atomic_load(destroyed));
}

/* Host pages belong to the device as long as a copy that it has not made may still read or write
 * them, in pages that a driver can pin and in those that it cannot. */
static void test_free_behind_copy(struct side *side, bool upload, bool aligned)
{
    const uint64_t size = 3 * PAGE, start = aligned ? 0 : 64;
    unsigned char *data = aligned_alloc(PAGE, size + PAGE);
    struct gpud_memory *memory = alloc(side, size), *host;
    atomic_uint destroyed = 0;
    CHECK(data, "out of memory");
    fill(data + start, size, 8);
    write_pattern(side, memory, 9);
    WORKS(gpud_memory_wrap_host(side->device, data + start, size, false, count_up, &destroyed,
                                &host, &e));
    struct gpud_copy copy = {
        .to = upload ? memory : host, .from = upload ? host : memory, .row_bytes = size, .rows = 1};
    struct conformance_hold *hold = conformance_hold_queue(side->queue);
    WORKS(gpud_queue_copy(side->queue, &copy, &e));
    WORKS(gpud_queue_flush(side->queue, &e));
    gpud_memory_unref(&host);
    usleep(20000);
    CHECK(atomic_load(&destroyed) == 0, "host pages are given back while a copy needs them");
    conformance_release_queue(hold, false);
    WORKS(gpud_queue_finish(side->queue, SOON, &e));
    wait_until_destroyed(&destroyed);
    READ_PATTERN(side, memory, upload ? 8 : 9);
    CHECK_PATTERN(data + start, size, upload ? 8 : 9);
    free(data);
    gpud_memory_unref(&memory);
}

static void test_wrap_host_pointer(struct side *side)
{
    static unsigned char data[5000];
    struct gpud_memory *memory;
    atomic_uint destroyed = 0;
    WORKS(gpud_memory_wrap(side->device, data, sizeof(data), count_up, &destroyed, &memory, &e));
    CHECK(gpud_memory_get_native(memory) == data, "wrapped memory has another address");
    send_pattern(side, memory, 9);
    CHECK_PATTERN(data, sizeof(data), 9);
    gpud_memory_ref(memory);
    struct gpud_memory *second = memory;
    gpud_memory_unref(&second);
    CHECK(destroyed == 0, "destroyed while it is in use");
    gpud_memory_unref(&memory);
    CHECK(destroyed == 1, "destroy was called %u times", destroyed);
}

static void test_wrap_buffer(struct side *side)
{
    struct gpud_memory *memory, *refused = NULL;
    atomic_uint destroyed = 0;
    cl_int code;
    cl_context context = gpud_opencl_device(side->device)->context;
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, 5000, NULL, &code);
    CHECK(code == CL_SUCCESS, "clCreateBuffer gives %d", code);
    WORKS(gpud_memory_wrap(side->device, buffer, 5000, count_up, &destroyed, &memory, &e));
    CHECK(gpud_memory_get_native(memory) == buffer, "wrapped memory is another cl_mem");
    clReleaseMemObject(buffer); /* the library has its own reference */
    send_pattern(side, memory, 9);
    READ_PATTERN(side, memory, 9);

    struct side other = side_open(side->device->info.name);
    EXPECT(GPUD_INVALID,
           gpud_memory_wrap(other.device, buffer, 5000, count_up, &destroyed, &refused, &e));
    EXPECT(GPUD_INVALID,
           gpud_memory_wrap(side->device, buffer, 5001, count_up, &destroyed, &refused, &e));
    EXPECT(GPUD_INVALID,
           gpud_memory_wrap(side->device, NULL, 5000, count_up, &destroyed, &refused, &e));
    CHECK(destroyed == 0 && !refused, "a refused wrap was taken over all the same");
    side_close(&other);
    gpud_memory_unref(&memory);
    wait_until_destroyed(&destroyed);
}

/* The application's own VkBuffer: of the library's VkDevice, which is all that can be told of it.
 */
static void test_wrap_vulkan(struct side *side)
{
    const struct vulkan_device *vulkan = gpud_vulkan_device(side->device);
    struct vulkan_block block;
    struct gpud_memory *memory, *refused = NULL;
    atomic_uint destroyed = 0;
    CHECK(gpud_vulkan_block_make(vulkan, 5000, false, &block) == VK_SUCCESS, "no VkBuffer");
    CHECK(gpud_device_get_native(side->device) == vulkan->device, "another VkDevice");
    WORKS(gpud_memory_wrap(side->device, block.buffer, 5000, count_up, &destroyed, &memory, &e));
    CHECK(gpud_memory_get_native(memory) == block.buffer, "wrapped memory is another VkBuffer");
    send_pattern(side, memory, 9);
    READ_PATTERN(side, memory, 9);
    EXPECT(GPUD_INVALID,
           gpud_memory_wrap(side->device, NULL, 5000, count_up, &destroyed, &refused, &e));
    EXPECT(GPUD_UNSUPPORTED,
           gpud_memory_wrap_for(side->device, block.buffer, 5000, GPUD_USAGE_SHARE, count_up,
                                &destroyed, &refused, &e));
    CHECK(destroyed == 0 && !refused, "a refused wrap was taken over all the same");
    gpud_memory_unref(&memory);
    wait_until_destroyed(&destroyed);
    gpud_vulkan_block_free(vulkan, &block);
}

/* Memory of a driver whose own objects are addresses: some of ours stands for the application's. */
static void test_wrap_address(struct side *side)
{
    struct gpud_memory *own = alloc(side, 5000), *memory, *refused = NULL;
    static unsigned char plain[5000];
    atomic_uint destroyed = 0;
    char *address = gpud_memory_get_native(own);
    WORKS(gpud_memory_wrap(side->device, address + 16, 4000, count_up, &destroyed, &memory, &e));
    CHECK(gpud_memory_get_native(memory) == address + 16, "wrapped memory has another address");
    send_pattern(side, memory, 9);
    READ_PATTERN(side, memory, 9);
    struct gpud_pointer_info info = GPUD_INFO_INIT(info);
    gpud_pointer_get_info(address + 16, &info);
    CHECK(strcmp(info.device, side->device->info.name) == 0 && info.base == address,
          "the pointer is said to be of %s at %p", info.device, info.base);
    gpud_pointer_get_info(plain, &info);
    CHECK(info.kind == GPUD_POINTER_HOST, "a plain pointer is of kind %d", info.kind);
    EXPECT(GPUD_INVALID, gpud_memory_wrap(side->device, plain, sizeof(plain), count_up, &destroyed,
                                          &refused, &e));
    EXPECT(GPUD_INVALID, gpud_memory_wrap(side->device, address, UINT64_C(1) << 32, count_up,
                                          &destroyed, &refused, &e));
    CHECK(destroyed == 0 && !refused, "a refused wrap was taken over all the same");
    gpud_memory_unref(&memory);
    wait_until_destroyed(&destroyed);
    gpud_memory_unref(&own);

    int fd = -1;
    uint64_t offset;
    struct gpud_error error;
    own = alloc(side, 5000);
    enum gpud_status status = gpud_memory_export_dmabuf(own, 0, own->size, &fd, &offset, &error);
    CHECK(status == GPUD_OK || status == GPUD_UNSUPPORTED, "no dma-buf: %s", error.reason);
    say(status == GPUD_OK ? "it has a dma-buf" : "no dma-buf: %s", error.reason);
    if (fd >= 0)
        close(fd);
    gpud_memory_unref(&own);
}

/* --- what others wrote ------------------------------------------------------------------------ */

static unsigned count_flushes(void)
{
    unsigned count = 0;
    unsigned (*ask)(unsigned *) = NULL;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (library)
        *(void **)&ask = dlsym(library, "fakeCudaFlushes");
    CHECK(ask && ask(&count) == 0, "the fake driver counts no flushes");
    dlclose(library);
    return count;
}

/* Says whether the driver was asked, where a fake one counts. */
static void check_flush(struct gpud_memory *memory, const char *unordered, bool on_device)
{
    unsigned before = unordered ? count_flushes() : 0;
    if (on_device && unordered && strcmp(unordered, "2") == 0)
        EXPECT(GPUD_UNSUPPORTED, gpud_memory_flush_remote(memory, &e));
    else
        WORKS(gpud_memory_flush_remote(memory, &e));
    unsigned wanted = unordered && on_device && strcmp(unordered, "1") == 0;
    if (unordered)
        CHECK(count_flushes() - before == wanted, "%u flushes where %u are right",
              count_flushes() - before, wanted);
}

static void test_flush_remote(struct side *side)
{
    say("what others wrote over the bus is flushed, by those whom it concerns");
    const char *unordered = getenv("GPUD_FAKE_CUDA_UNORDERED");
    struct gpud_memory *own = alloc(side, PAGE), *host = make(side, true, PAGE), *far;
    check_flush(own, unordered, true);
    check_flush(host, unordered, is_cpu_addressable(side));
    gpud_memory_unref(&own);
    gpud_memory_unref(&host);
    if (!side->device->info.direct_writes)
        return;
    struct gpud_handle handle;
    struct side other = side_open(side->device->info.name);
    WORKS(gpud_memory_alloc_for(side->device, PAGE, GPUD_USAGE_TARGET, &own, &e));
    WORKS(gpud_memory_export(own, &handle, &e));
    WORKS(gpud_memory_import(other.device, &handle, PAGE, GPUD_USAGE_TARGET, &far, &e));
    check_flush(own, unordered, true);
    EXPECT(GPUD_INVALID, gpud_memory_flush_remote(far, &e));
    gpud_memory_unref(&far);
    gpud_memory_unref(&own);
    if (handle.fd >= 0)
        close(handle.fd);
    side_close(&other);
}

/* --- all of it -------------------------------------------------------------------------------- */

/* Two thirds of what the device has: there is room for the next when the last has been freed, which
 * the worker does behind the queues' work. */
static void test_room_that_is_given_up(const char *device, const char *size)
{
    struct side side = side_open(device);
    say("memory that was given up makes room for more");
    for (int i = 0; i < 50; i++) {
        struct gpud_memory *memory = NEW_MEMORY(side.device, strtoull(size, NULL, 0));
        gpud_memory_unref(&memory);
    }
    side_close(&side);
}

static void everything(const char *device)
{
    AUTO(side_close) struct side side = side_open(device);
    test_alloc(&side);
    test_map_parts(&side);
    for (int kinds = 0; kinds < 4; kinds++)
        test_copies(&side, kinds & 1, kinds & 2);
    test_copy_refusals(&side);
    test_flush_remote(&side);
    say("memory of another allocator is used in place, and released once");
    if (is_cpu_addressable(&side))
        test_wrap_host_pointer(&side);
    else if (is_opencl(&side))
        test_wrap_buffer(&side);
    else if (strcmp(gpud_device_kind(side.device), "vulkan") == 0)
        test_wrap_vulkan(&side);
    else
        test_wrap_address(&side);
    if (!is_synchronous(&side)) {
        say("host pages are given back when the copy that uses them has been made");
        test_free_behind_copy(&side, true, true);
        test_free_behind_copy(&side, false, true);
        test_free_behind_copy(&side, true, false);
    }
}

int main(int argc, char **argv)
{
    peer_main(argc, argv);
    CHECK(argc == 2 || argc == 3, "usage: %s DEVICE [BYTES]", argv[0]);
    say_device(argv[1]);
    if (argc == 3) {
        test_room_that_is_given_up(argv[1], argv[2]);
        return 0;
    }
    twice(everything, argv[1]);
    return 0;
}
