/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* share@DEVICE: what every device promises about memory that is given to others, and about the lies
 * that others tell of theirs. */
#include "conformance.h"

#include "device/gpu/gpu.h"
#include "device/vulkan/vulkan.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

static void test_local_handles(struct side *side)
{
    SAY("a handle for this process is the memory itself, and dies with it");
    struct gpud_memory *memory = NEW_MEMORY(side->device, 1000);
    struct gpud_handle handle, wrong;
    gpud_memory_export_local(memory, &handle);
    struct gpud_memory *again = IMPORT_MEMORY(side->device, &handle, 1000, GPUD_USAGE_SHARE);
    CHECK(gpud_memory_get_native(again) == gpud_memory_get_native(memory), "it is another memory");
    gpud_memory_unref(&again);

    REFUSE_IMPORT(GPUD_PEER, side->device, &handle, 1001, GPUD_USAGE_SHARE);
    wrong = handle;
    wrong.size = 5000;
    REFUSE_IMPORT(GPUD_PEER, side->device, &wrong, 5000, GPUD_USAGE_SHARE);
    wrong = handle;
    wrong.word[0]++;
    REFUSE_IMPORT(GPUD_PEER, side->device, &wrong, 1000, GPUD_USAGE_SHARE);
    for (uint64_t id = 0; id < 100; id++) {
        wrong = handle;
        wrong.word[1] = id < 50 ? id : UINT64_MAX - id;
        if (wrong.word[1] != handle.word[1])
            REFUSE_IMPORT(GPUD_PEER, side->device, &wrong, 1000, GPUD_USAGE_SHARE);
    }
    gpud_memory_unref(&memory);
    REFUSE_IMPORT(GPUD_PEER, side->device, &handle, 1000, GPUD_USAGE_SHARE);
}

static void test_target(struct side *side, const char *device)
{
    struct gpud_error error;
    AUTO(gpud_memory_unref) struct gpud_memory *memory = NULL;
    enum gpud_status status =
        gpud_memory_alloc_for(side->device, 3 * PAGE + 5, GPUD_USAGE_TARGET, &memory, &error);
    if (status == GPUD_UNSUPPORTED) {
        CHECK(!side->device->info.direct_writes, "direct_writes is announced, but refused: %s",
              error.reason);
        SAY("no process can write its memory: %s", error.reason);
        return;
    }
    CHECK(status == GPUD_OK, "no memory for others to write: %s", error.reason);
    SAY("another process writes memory made for that");
    unsigned char *data = map_whole(side, memory, GPUD_READ);
    CHECK_ZEROS(data, memory->size);
    unmap_whole(side, memory, data);

    struct order order = {.task = WRITES, .size = memory->size, .seed = 42};
    order.memory = EXPORT_MEMORY(memory);
    ORDER_FINISH(order_start(device, &order));
    READ_PATTERN(side, memory, 42);

    SAY("what it gave away cannot be read, mapped or given on by others where the device forbids "
        "it");
    AUTO(side_close) struct side other = side_open(device);
    REFUSE_IMPORT(GPUD_PEER, other.device, &order.memory, memory->size + 1, GPUD_USAGE_TARGET);
    AUTO(gpud_memory_unref)
    struct gpud_memory *far =
        IMPORT_MEMORY(other.device, &order.memory, memory->size, GPUD_USAGE_TARGET);
    struct gpud_handle handle;
    GIVES(GPUD_INVALID, gpud_memory_export(far, &handle, &e));
    send_pattern(&other, far, 43);
    READ_PATTERN(side, memory, 43);
    if (side->device->caps & GPUD_CAP_BUS_ADDRESSABLE) {
        void *mapped;
        AUTO(gpud_memory_unref) struct gpud_memory *near = NEW_MEMORY(other.device, PAGE);
        struct gpud_copy copy = {.to = near, .from = far, .row_bytes = 1, .rows = 1};
        GIVES(GPUD_UNSUPPORTED, gpud_queue_copy(other.queue, &copy, &e));
        GIVES(GPUD_UNSUPPORTED,
              gpud_queue_map(other.queue, far, 0, 1, GPUD_READ, SOON, &mapped, &e));
    }
    close_handle(&order.memory);
}

static void test_share(struct side *side, const char *device)
{
    struct gpud_error error;
    struct gpud_memory *memory;
    enum gpud_status status =
        gpud_memory_alloc_for(side->device, 3 * PAGE + 5, GPUD_USAGE_SHARE, &memory, &error);
    if (!(side->device->caps & GPUD_CAP_SHARE)) {
        CHECK(status == GPUD_UNSUPPORTED, "sharing is not announced, but not refused either");
        SAY("no process can map its memory: %s", error.reason);
        return;
    }
    CHECK(status == GPUD_OK, "no memory for others to map: %s", error.reason);
    SAY("another process reads memory made for that, and cannot write it");
    struct order order = {.task = READS, .size = memory->size, .seed = 17};
    write_pattern(side, memory, 17);
    order.memory = EXPORT_MEMORY(memory);
    ORDER_FINISH(order_start(device, &order));
    if (is_cpu_addressable(side))
        REFUSE_IMPORT(GPUD_NO_ACCESS, side->device, &order.memory, order.size, GPUD_USAGE_TARGET);
    gpud_memory_unref(&memory);
    /* The importer's pages outlive the owner. */
    AUTO(gpud_memory_unref)
    struct gpud_memory *far =
        IMPORT_MEMORY(side->device, &order.memory, order.size, GPUD_USAGE_SHARE);
    READ_PATTERN(side, far, 17);
    struct gpud_copy copy = {.to = far, .from = far, .row_bytes = 1, .rows = 1, .to_offset = 9};
    GIVES(GPUD_INVALID, gpud_queue_copy(side->queue, &copy, &e));
    close(order.memory.fd);
}

/* --- lies ------------------------------------------------------------------------------------- */

static void refuse(struct side *side, struct gpud_handle handle, uint64_t size)
{
    REFUSE_IMPORT(GPUD_PEER, side->device, &handle, size, GPUD_USAGE_TARGET);
}

static int make_file(uint64_t size, int seals)
{
    int fd = memfd_create("conformance", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0, "memfd: %s", strerror(errno));
    CHECK(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0, "seals: %s", strerror(errno));
    return fd;
}

/* Descriptors that are no memory: lies_test.c. */
static void test_lies_of_files(struct side *side)
{
    SAY("sizes that are not there, and files as handles of other types, are refused");
    const int small = make_file(4096, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    struct gpud_handle handle = {.type = GPUD_HANDLE_MEMFD, .fd = small, .size = 4095};
    refuse(side, handle, 4096);
    handle.size = 4096;
    REFUSE_IMPORT(GPUD_INVALID, side->device, &handle, 0, GPUD_USAGE_TARGET);
    for (handle.type = 0; handle.type < 10; handle.type++)
        if (handle.type != GPUD_HANDLE_MEMFD)
            refuse(side, handle, 4096);
    close(small);
}

static void test_lies_of_addresses(struct side *side)
{
    SAY("bus addresses that are zero, unaligned, unused or wrap around are refused");
    struct gpud_memory *memory = NEW_MEMORY_FOR(side->device, 4 * PAGE, GPUD_USAGE_TARGET);
    struct gpud_handle good = EXPORT_MEMORY(memory), bad;
    const uint64_t lies[][2] = {
        {0, good.word[1]},
        {good.word[0], 0},
        {0, 0},
        {good.word[0] + 1, good.word[1]},
        {good.word[0] + 64, good.word[1]},
        {good.word[0], good.word[1] + 2},
        {good.word[0], 1},
        {UINT64_MAX - PAGE + 1, good.word[1]},
        {UINT64_C(0x7fffdeadb000), UINT64_C(0x7fffdeadc000)},
    };
    for (size_t i = 0; i < COUNT(lies); i++) {
        bad = good;
        bad.word[0] = lies[i][0];
        bad.word[1] = lies[i][1];
        refuse(side, bad, 4 * PAGE);
    }
    bad = good;
    for (bad.type = 0; bad.type < 10; bad.type++)
        if (bad.type != GPUD_HANDLE_BUS_ADDRESS)
            refuse(side, bad, 4 * PAGE);
    REFUSE_IMPORT(GPUD_UNSUPPORTED, side->device, &good, 4 * PAGE, GPUD_USAGE_SHARE);
    gpud_memory_unref(&memory);
    SAY("so is an address whose owner has freed it");
    struct gpud_memory *far = NULL;
    /* The driver may let go of the memory a moment later. */
    PEER_UNTIL("memory that was freed is gone", 5000,
               (gpud_memory_unref(&far),
                gpud_memory_import(side->device, &good, 4 * PAGE, GPUD_USAGE_TARGET, &far, NULL) !=
                    GPUD_OK));
    refuse(side, good, 4 * PAGE);
}

/* Descriptors of a driver's own making, and its legacy handles. */
static void test_lies_of_allocations(struct side *side)
{
    SAY("descriptors that are no allocation, sizes that are not there, and made-up handles are "
        "refused");
    AUTO(gpud_memory_unref)
    struct gpud_memory *memory = NEW_MEMORY_FOR(side->device, 5 * PAGE, GPUD_USAGE_TARGET);
    struct gpud_handle good = EXPORT_MEMORY(memory), bad = good;
    const uint64_t sizes[] = {
        0,         PAGE, good.word[0] - 1, good.word[0] + 1, good.word[0] * 64, UINT64_C(1) << 60,
        UINT64_MAX};
    CHECK(good.fd >= 0, "what can be mapped by others has a descriptor");
    int ends[2], file = make_file(8 << 20, 0), zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
    CHECK(pipe2(ends, O_CLOEXEC) == 0 && zero >= 0, "pipe2: %s", strerror(errno));
    const int fds[] = {file, zero, ends[0], ends[1], -1, 1000000};
    for (size_t i = 0; i < COUNT(fds); i++) {
        bad.fd = fds[i];
        refuse(side, bad, 5 * PAGE);
        if (i < 4)
            close(fds[i]);
    }
    bad = good;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        bad.word[0] = sizes[i];
        refuse(side, bad, 5 * PAGE);
    }
    memset(bad.word, 0x5a, sizeof(bad.word));
    for (bad.type = 0; bad.type < 10; bad.type++) {
        struct gpud_memory *none = NULL;
        if (bad.type == good.type)
            continue;
        CHECK(gpud_memory_import(side->device, &bad, 5 * PAGE, GPUD_USAGE_TARGET, &none, NULL) !=
                  GPUD_OK,
              "a handle of type %u with random words is taken", bad.type);
        CHECK(!none, "a refusal leaves something behind");
    }
    close_handle(&good);
}

/* What a Vulkan driver takes from the importer, and must not be asked with: see vulkan/share.c. */
static void test_lies_of_vulkan(struct side *side)
{
    SAY("sizes and types of memory that the driver does not have, and UUIDs of others are refused");
    const struct vulkan_facts *facts = &gpud_vulkan_device(side->device)->facts;
    AUTO(gpud_memory_unref)
    struct gpud_memory *memory = NEW_MEMORY_FOR(side->device, 5 * PAGE, GPUD_USAGE_TARGET);
    struct gpud_handle good = EXPORT_MEMORY(memory);
    const struct {
        unsigned word;
        uint64_t value;
    } lies[] = {
        {0, good.word[0] + PAGE},
        {1, 0},
        {1, good.word[1] - 1},
        {1, good.word[1] + PAGE},
        {1, good.word[1] * 64},
        {1, UINT64_MAX},
        {2, facts->memory.memoryTypeCount},
        {2, VK_MAX_MEMORY_TYPES},
        {2, UINT64_C(1) << 32 | good.word[2]},
        {3, ~good.word[3]},
        {4, good.word[4] ^ 1},
        {5, ~good.word[5]},
        {6, good.word[6] ^ 1},
    };
    for (size_t i = 0; i < COUNT(lies); i++) {
        struct gpud_handle bad = good;
        bad.word[lies[i].word] = lies[i].value;
        refuse(side, bad, 5 * PAGE);
    }
    /* A descriptor of a shorter allocation, where it is a file that has a size: others are known to
     * their driver alone. */
    AUTO(gpud_memory_unref)
    struct gpud_memory *longer = NEW_MEMORY_FOR(side->device, 64 * PAGE, GPUD_USAGE_TARGET);
    struct gpud_handle bad = EXPORT_MEMORY(longer);
    close(bad.fd);
    bad.fd = good.fd;
    if (lseek(good.fd, 0, SEEK_END) >= (off_t)good.word[1])
        refuse(side, bad, 64 * PAGE);
    else
        SAY("    the size of a descriptor is the driver's to know");
    struct stat file;
    CHECK(fstat(good.fd, &file) == 0, "fstat: %s", strerror(errno));
    if (S_ISREG(file.st_mode)) {
        /* A software driver's allocation is a memfd: a copy that its owner can still shorten. */
        char page[PAGE];
        bad = good;
        bad.fd = make_file((uint64_t)file.st_size, 0);
        for (off_t at = 0; at < file.st_size; at += PAGE) {
            ssize_t got = pread(good.fd, page, PAGE, at);
            CHECK(got > 0 && pwrite(bad.fd, page, (size_t)got, at) == got, "a copy: %s",
                  strerror(errno));
        }
        refuse(side, bad, 5 * PAGE);
        close(bad.fd);
        SAY("an import does not move the position that a file shares with other importers");
        lseek(good.fd, 100, SEEK_SET);
        AUTO(gpud_memory_unref)
        struct gpud_memory *again = IMPORT_MEMORY(side->device, &good, 5 * PAGE, GPUD_USAGE_TARGET);
        CHECK(lseek(good.fd, 0, SEEK_CUR) == 100, "an import moved it");
    }
    close(good.fd);
}

/* Memory that the application has from the driver's plain allocator travels by the legacy handle:
 * the allocation's, and where in it the memory begins. */
static void test_legacy(struct side *side, const char *device)
{
    SAY("another process reads, and writes, memory of the driver's plain allocator");
    struct gpud_gpu *gpu = gpud_gpu(side->device);
    uint64_t address;
    gpu->driver->enter(gpu);
    CHECK(gpu->driver->mem_alloc(&address, 1 << 20) == 0, "%s", gpu->driver->allocator);
    gpu->driver->leave(gpu);
    for (int i = 0; i < 2; i++) {
        struct order order = {.task = i ? WRITES : READS, .size = 3 * PAGE, .seed = 21};
        void *place = (void *)(uintptr_t)(address + (1 + 5 * (unsigned)i) * PAGE);
        enum gpud_usage usage = i ? GPUD_USAGE_TARGET : GPUD_USAGE_SHARE;
        AUTO(gpud_memory_unref) struct gpud_memory *memory = NULL;
        WORKS(gpud_memory_wrap_for(side->device, place, 3 * PAGE, usage, NULL, NULL, &memory, &e));
        write_pattern(side, memory, i ? 1 : 21);
        if (getenv("GPUD_FAKE_CUDA_INTEGRATED")) {
            EXPECT(GPUD_UNSUPPORTED, "no legacy handles",
                   gpud_memory_export(memory, &order.memory, &e));
            continue;
        }
        order.memory = EXPORT_MEMORY(memory);
        CHECK(order.memory.type == gpu->driver->ipc_type && order.memory.fd < 0,
              "a handle of type %u", order.memory.type);
        ORDER_FINISH(order_start(device, &order));
        READ_PATTERN(side, memory, 21);

        struct gpud_handle bad = order.memory;
        bad.word[0] = (1 << 20) - 3 * PAGE + 1; /* beyond the allocation's end */
        /* The same process cannot. */
        REFUSE_IMPORT(GPUD_UNSUPPORTED, side->device, &order.memory, 3 * PAGE, GPUD_USAGE_SHARE);
        REFUSE_IMPORT(GPUD_UNSUPPORTED, side->device, &bad, 3 * PAGE, GPUD_USAGE_SHARE);
    }
    wait_for_worker(side->context);
    gpu->driver->enter(gpu);
    gpu->driver->mem_free(address);
    gpu->driver->leave(gpu);
}

static void everything(const char *device)
{
    AUTO(side_close) struct side side = side_open(device);
    test_local_handles(&side);
    test_target(&side, device);
    test_share(&side, device);
    if (is_cpu_addressable(&side))
        test_lies_of_files(&side);
    else if (side.device->caps & GPUD_CAP_BUS_ADDRESSABLE)
        test_lies_of_addresses(&side);
    else if (side.device->caps & GPUD_CAP_SHARE)
        test_lies_of_allocations(&side);
    if (side.device->ops->memory == &gpud_vulkan_memory_ops && side.device->caps & GPUD_CAP_SHARE)
        test_lies_of_vulkan(&side);
    if (side.device->ops->memory == &gpud_gpu_memory_ops)
        test_legacy(&side, device);
}

int main(int argc, char **argv)
{
    conformance_begin(argc, argv);
    twice(everything, argv[1]);
    return 0;
}
