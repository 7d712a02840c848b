/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* memory@DEVICE: what every device promises about memory and about the queues that move it. */
#include "conformance.h"

#include "device/opencl/opencl.h"
#include "device/vulkan/vulkan.h"

#include <dlfcn.h>

/* What a fake GPU clears under a sanitizer is cleared by a busy CPU, a byte at a time. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LARGE (4 << 20)
#else
#define LARGE (64 << 20)
#endif

static struct gpud_memory *alloc(struct side *side, uint64_t size)
{
    return NEW_MEMORY(side->device, size);
}

static void test_alloc(struct side *side)
{
    static const uint64_t sizes[] = {1, 3, PAGE - 1, PAGE, PAGE + 1, 1920 * 1080 * 2 + 7, LARGE};
    SAY("memory of any size starts zeroed and keeps what is written to it");
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct gpud_memory *memory = alloc(side, sizes[i]);
        unsigned char *data = map_whole(side, memory, GPUD_READ | GPUD_WRITE);
        CHECK_ZEROS(data, sizes[i]);
        fill(data, sizes[i], (uint32_t)i);
        unmap_whole(side, memory, data);
        READ_PATTERN(side, memory, (uint32_t)i);
        CHECK(gpud_memory_get_native(memory), "memory without a native object");
        gpud_memory_unref(&memory);
        CHECK(!memory, "unref leaves the pointer");
    }

    SAY("impossible sizes are refused");
    static const struct {
        uint64_t size;
        enum gpud_status status;
    } impossible[] = {
        {0, GPUD_INVALID}, {UINT64_MAX, GPUD_INVALID}, {UINT64_C(1) << 40, GPUD_NO_MEMORY}};
    struct gpud_memory *memory = NULL;
    for (size_t i = 0; i < COUNT(impossible); i++)
        GIVES(impossible[i].status,
              gpud_memory_alloc(side->device, impossible[i].size, GPUD_MEMORY_PLAIN, &memory, &e));
    CHECK(!memory, "a refusal leaves something behind");
}

static void test_map_parts(struct side *side)
{
    SAY("parts of a memory map where they are");
    AUTO(gpud_memory_unref) struct gpud_memory *memory = alloc(side, 3 * PAGE);
    write_pattern(side, memory, 5);
    void *data;
    WORKS(gpud_queue_map(side->queue, memory, PAGE + 1, 77, GPUD_READ, SOON, &data, &e));
    CHECK_PART(data, PAGE + 1, 77, 5);
    WORKS(gpud_queue_unmap(side->queue, memory, data, &e));
    GIVES(GPUD_INVALID,
          gpud_queue_map(side->queue, memory, PAGE, 3 * PAGE, GPUD_READ, SOON, &data, &e));
    GIVES(GPUD_INVALID,
          gpud_queue_map(side->queue, memory, UINT64_MAX, 2, GPUD_READ, SOON, &data, &e));
}

/* --- copies ----------------------------------------------------------------------------------- */

/* A memory of either kind: the device's own, or host memory that it only looks at. */
static struct gpud_memory *make(struct side *side, bool host, uint64_t size)
{
    if (!host)
        return alloc(side, size);
    void *data = aligned_alloc(PAGE, (size + PAGE - 1) / PAGE * PAGE);
    CHECK(data, "out of memory");
    return WRAP_HOST(side->device, data, size, free, data);
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

/* A row of a table: what does not change is the memory. */
struct row {
    uint64_t row_bytes;
    uint32_t rows, to_stride, from_stride;
    uint64_t to_offset, from_offset;
};

static struct gpud_copy copy_of(const struct row *row, struct gpud_memory *to,
                                struct gpud_memory *from)
{
    return (struct gpud_copy){.to = to,
                              .from = from,
                              .row_bytes = row->row_bytes,
                              .rows = row->rows,
                              .to_stride = row->to_stride,
                              .from_stride = row->from_stride,
                              .to_offset = row->to_offset,
                              .from_offset = row->from_offset};
}

static void test_copies(struct side *side, bool to_host, bool from_host)
{
    static const struct row rows[] = {
        {1, 1, 0, 0, 0, 0},
        {20000, 1, 0, 0, 0, 0},
        {4097, 1, 0, 0, 13, 4095},
        {100, 50, 100, 100, 0, 0},
        {100, 50, 100, 100, 3, 107},
        {100, 50, 128, 128, 0, 0},
        {100, 50, 100, 160, 0, 0},
        {100, 50, 192, 100, 0, 0},
        {101, 33, 333, 103, 1, 2},
        {90, 7, 100, 120, 195, 1079},
        {400, 1, 3, 1, 0, 0},
        {99, 156, 128, 128, 61, 61}, /* ends with the memory: the last row is no whole stride */
    };
    SAY("copies, %s to %s: offsets, strides, nothing but the rows is touched",
        from_host ? "host" : "device", to_host ? "host" : "device");
    AUTO(gpud_memory_unref) struct gpud_memory *to = make(side, to_host, 20000);
    AUTO(gpud_memory_unref) struct gpud_memory *from = make(side, from_host, 20000);
    if (to_host && from_host && is_kind(side, "opencl")) {
        struct gpud_copy copy = {.to = to, .from = from, .row_bytes = 10, .rows = 1};
        GIVES(GPUD_UNSUPPORTED, gpud_queue_copy(side->queue, &copy, &e));
        return;
    }
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct gpud_copy copy = copy_of(&rows[i], to, from);
        check_copy(side, &copy);
    }
}

static void test_copy_refusals(struct side *side)
{
    SAY("copies that leave a memory, overlap or write what is read-only are refused");
    AUTO(side_close) struct side other = side_open(side->device->info.name);
    AUTO(gpud_memory_unref)
    struct gpud_memory *to = alloc(side, 1000), *from = alloc(side, 1000),
                       *foreign = alloc(&other, 1000), *constant;
    static char text[1000];
    WORKS(gpud_memory_wrap_host(side->device, text, sizeof(text), true, NULL, NULL, &constant, &e));
    const struct {
        struct gpud_memory *to, *from;
        struct row row;
    } copies[] = {
        {to, from, {1001, 1, 0, 0, 0, 0}},       {to, from, {1, 1, 0, 0, 1000, 0}},
        {to, from, {1, 1, 0, 0, 0, UINT64_MAX}}, {to, from, {100, 11, 100, 100, 0, 0}},
        {to, from, {50, 11, 95, 96, 0, 0}},      {to, from, {100, 2, 99, 100, 0, 0}},
        {to, from, {UINT64_MAX, 1, 0, 0, 0, 2}}, {to, from, {1, UINT32_MAX, UINT32_MAX, 1, 0, 0}},
        {constant, from, {1, 1, 0, 0, 0, 0}},    {foreign, from, {1, 1, 0, 0, 0, 0}},
        {to, foreign, {1, 1, 0, 0, 0, 0}},
    };
    for (size_t i = 0; i < COUNT(copies); i++) {
        struct gpud_copy copy = copy_of(&copies[i].row, copies[i].to, copies[i].from);
        GIVES(GPUD_INVALID, gpud_queue_copy(side->queue, &copy, &e));
    }
    WORKS(gpud_queue_finish(side->queue, SOON, &e));
}

/* --- memory of others in this process --------------------------------------------------------- */

static void count_up(void *user)
{
    atomic_fetch_add((atomic_uint *)user, 1);
}

static void wait_until_destroyed(const atomic_uint *destroyed)
{
    PEER_UNTIL("destroy is called", 10000, atomic_load(destroyed));
    CHECK(atomic_load(destroyed) == 1, "destroy was called %u times", atomic_load(destroyed));
}

/* Host pages belong to the device as long as a copy that it has not made may still read or write
 * them, in pages that a driver can pin and in those that it cannot. */
static void test_free_behind_copy(struct side *side, bool upload, bool aligned)
{
    const uint64_t size = 3 * PAGE, start = aligned ? 0 : 64;
    unsigned char *data = aligned_alloc(PAGE, size + PAGE);
    AUTO(gpud_memory_unref) struct gpud_memory *memory = alloc(side, size);
    atomic_uint destroyed = 0;
    CHECK(data, "out of memory");
    fill(data + start, size, 8);
    write_pattern(side, memory, 9);
    struct gpud_memory *host = WRAP_HOST(side->device, data + start, size, count_up, &destroyed);
    struct hold *hold = hold_queue(side->queue);
    copy_whole(side->queue, upload ? memory : host, upload ? host : memory);
    WORKS(gpud_queue_flush(side->queue, &e));
    gpud_memory_unref(&host);
    usleep(20000);
    CHECK(atomic_load(&destroyed) == 0, "host pages are given back while a copy needs them");
    release_queue(hold, false);
    WORKS(gpud_queue_finish(side->queue, SOON, &e));
    wait_until_destroyed(&destroyed);
    READ_PATTERN(side, memory, upload ? 8 : 9);
    CHECK_PATTERN(data + start, size, upload ? 8 : 9);
    free(data);
}

/* Wraps it, writes it, reads it; *destroyed counts. */
static struct gpud_memory *wrap(struct side *side, void *native, uint64_t size,
                                atomic_uint *destroyed)
{
    struct gpud_memory *memory;
    WORKS(gpud_memory_wrap(side->device, native, size, count_up, destroyed, &memory, &e));
    CHECK(gpud_memory_get_native(memory) == native, "wrapped memory is another one");
    send_pattern(side, memory, 9);
    READ_PATTERN(side, memory, 9);
    return memory;
}

static void refuse_wrap(struct side *side, enum gpud_status wanted, void *native, uint64_t size,
                        enum gpud_usage usage)
{
    struct gpud_memory *refused = NULL;
    atomic_uint destroyed = 0;
    GIVES(wanted, gpud_memory_wrap_for(side->device, native, size, usage, count_up, &destroyed,
                                       &refused, &e));
    CHECK(destroyed == 0 && !refused, "a refused wrap was taken over all the same");
}

static void test_wrap_host_pointer(struct side *side)
{
    static unsigned char data[5000];
    atomic_uint destroyed = 0;
    struct gpud_memory *memory = wrap(side, data, sizeof(data), &destroyed);
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
    atomic_uint destroyed = 0;
    cl_int code;
    cl_context context = gpud_opencl_device(side->device)->context;
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, 5000, NULL, &code);
    CHECK(code == CL_SUCCESS, "clCreateBuffer gives %d", code);
    struct gpud_memory *memory = wrap(side, buffer, 5000, &destroyed);
    clReleaseMemObject(buffer); /* the library has its own reference */
    send_pattern(side, memory, 10);
    READ_PATTERN(side, memory, 10);

    AUTO(side_close) struct side other = side_open(side->device->info.name);
    refuse_wrap(&other, GPUD_INVALID, buffer, 5000, GPUD_USAGE_LOCAL);
    refuse_wrap(side, GPUD_INVALID, buffer, 5001, GPUD_USAGE_LOCAL);
    refuse_wrap(side, GPUD_INVALID, NULL, 5000, GPUD_USAGE_LOCAL);
    CHECK(destroyed == 0, "destroyed while it is in use");
    gpud_memory_unref(&memory);
    wait_until_destroyed(&destroyed);
}

/* The application's own VkBuffer: of the library's VkDevice, which is all that can be told of it.
 */
static void test_wrap_vulkan(struct side *side)
{
    const struct vulkan_device *vulkan = gpud_vulkan_device(side->device);
    struct vulkan_block block;
    atomic_uint destroyed = 0;
    CHECK(gpud_vulkan_block_make(vulkan, 5000, false, &block) == VK_SUCCESS, "no VkBuffer");
    CHECK(gpud_device_get_native(side->device) == vulkan->device, "another VkDevice");
    struct gpud_memory *memory = wrap(side, block.buffer, 5000, &destroyed);
    refuse_wrap(side, GPUD_INVALID, NULL, 5000, GPUD_USAGE_LOCAL);
    refuse_wrap(side, GPUD_UNSUPPORTED, block.buffer, 5000, GPUD_USAGE_SHARE);
    CHECK(destroyed == 0, "destroyed while it is in use");
    gpud_memory_unref(&memory);
    wait_until_destroyed(&destroyed);
    gpud_vulkan_block_free(vulkan, &block);
}

/* Memory of a driver whose own objects are addresses: some of ours stands for the application's. */
static void test_wrap_address(struct side *side)
{
    struct gpud_memory *own = alloc(side, 5000);
    static unsigned char plain[5000];
    atomic_uint destroyed = 0;
    char *address = gpud_memory_get_native(own);
    struct gpud_memory *memory = wrap(side, address + 16, 4000, &destroyed);
    struct gpud_pointer_info info = GPUD_INFO_INIT(info);
    gpud_pointer_get_info(address + 16, &info);
    CHECK(strcmp(info.device, side->device->info.name) == 0 && info.base == address,
          "the pointer is said to be of %s at %p", info.device, info.base);
    gpud_pointer_get_info(plain, &info);
    CHECK(info.kind == GPUD_POINTER_HOST, "a plain pointer is of kind %d", info.kind);
    refuse_wrap(side, GPUD_INVALID, plain, sizeof(plain), GPUD_USAGE_LOCAL);
    refuse_wrap(side, GPUD_INVALID, address, UINT64_C(1) << 32, GPUD_USAGE_LOCAL);
    CHECK(destroyed == 0, "destroyed while it is in use");
    gpud_memory_unref(&memory);
    wait_until_destroyed(&destroyed);
    gpud_memory_unref(&own);

    int fd = -1;
    uint64_t offset;
    struct gpud_error error;
    own = alloc(side, 5000);
    enum gpud_status status = gpud_memory_export_dmabuf(own, 0, own->size, &fd, &offset, &error);
    CHECK(status == GPUD_OK || status == GPUD_UNSUPPORTED, "no dma-buf: %s", error.reason);
    SAY(status == GPUD_OK ? "it has a dma-buf" : "no dma-buf: %s", error.reason);
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
        GIVES(GPUD_UNSUPPORTED, gpud_memory_flush_remote(memory, &e));
    else
        WORKS(gpud_memory_flush_remote(memory, &e));
    unsigned wanted = unordered && on_device && strcmp(unordered, "1") == 0;
    if (unordered)
        CHECK(count_flushes() - before == wanted, "%u flushes where %u are right",
              count_flushes() - before, wanted);
}

static void test_flush_remote(struct side *side)
{
    SAY("what others wrote over the bus is flushed, by those whom it concerns");
    const char *unordered = getenv("GPUD_FAKE_CUDA_UNORDERED");
    AUTO(gpud_memory_unref) struct gpud_memory *own = alloc(side, PAGE);
    AUTO(gpud_memory_unref) struct gpud_memory *host = make(side, true, PAGE);
    check_flush(own, unordered, true);
    check_flush(host, unordered, is_cpu_addressable(side));
    if (!side->device->info.direct_writes)
        return;
    AUTO(side_close) struct side other = side_open(side->device->info.name);
    AUTO(gpud_memory_unref)
    struct gpud_memory *target = NEW_MEMORY_FOR(side->device, PAGE, GPUD_USAGE_TARGET);
    struct gpud_handle handle = EXPORT_MEMORY(target);
    AUTO(gpud_memory_unref)
    struct gpud_memory *far = IMPORT_MEMORY(other.device, &handle, PAGE, GPUD_USAGE_TARGET);
    close_handle(&handle);
    check_flush(target, unordered, true);
    GIVES(GPUD_INVALID, gpud_memory_flush_remote(far, &e));
}

/* Two thirds of what the device has: there is room for the next when the last has been freed, which
 * the worker does behind the queues' work. */
static void test_room_that_is_given_up(const char *device, const char *size)
{
    AUTO(side_close) struct side side = side_open(device);
    SAY("memory that was given up makes room for more");
    for (int i = 0; i < 50; i++) {
        struct gpud_memory *memory = alloc(&side, strtoull(size, NULL, 0));
        gpud_memory_unref(&memory);
    }
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
    SAY("memory of another allocator is used in place, and released once");
    if (is_cpu_addressable(&side))
        test_wrap_host_pointer(&side);
    else if (is_kind(&side, "opencl"))
        test_wrap_buffer(&side);
    else if (strcmp(gpud_device_kind(side.device), "vulkan") == 0)
        test_wrap_vulkan(&side);
    else
        test_wrap_address(&side);
    if (!is_synchronous(&side)) {
        SAY("host pages are given back when the copy that uses them has been made");
        test_free_behind_copy(&side, true, true);
        test_free_behind_copy(&side, false, true);
        test_free_behind_copy(&side, true, false);
    }
}

int main(int argc, char **argv)
{
    conformance_begin(argc, argv);
    if (argc == 3)
        test_room_that_is_given_up(argv[1], argv[2]);
    else
        twice(everything, argv[1]);
    return 0;
}
