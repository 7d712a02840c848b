/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* share@DEVICE: what every device promises about memory that is given to others, and about the lies
 * that others tell of theirs. */
#include "conformance.h"

#include "device/gpu/gpu.h"
#include "device/vulkan/vulkan.h"
#include "support/make.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOON gpud_deadline(10 * GPUD_SEC)
#define PAGE 4096

static struct gpud_memory *alloc(struct side *side, uint64_t size)
{
    struct gpud_memory *memory;
    WORKS(gpud_memory_alloc(side->device, size, GPUD_MEMORY_PLAIN, &memory, &e));
    return memory;
}

/* --- this process ----------------------------------------------------------------------------- */

static void test_local_handles(struct side *side)
{
    say("a handle for this process is the memory itself, and dies with it");
    struct gpud_memory *memory = alloc(side, 1000), *again = NULL;
    struct gpud_handle handle, wrong;
    gpud_memory_export_local(memory, &handle);
    WORKS(gpud_memory_import(side->device, &handle, 1000, GPUD_USAGE_SHARE, &again, &e));
    CHECK(gpud_memory_get_native(again) == gpud_memory_get_native(memory), "it is another memory");
    gpud_memory_unref(&again);

    EXPECT(GPUD_PEER,
           gpud_memory_import(side->device, &handle, 1001, GPUD_USAGE_SHARE, &again, &e));
    wrong = handle;
    wrong.size = 5000;
    EXPECT(GPUD_PEER, gpud_memory_import(side->device, &wrong, 5000, GPUD_USAGE_SHARE, &again, &e));
    wrong = handle;
    wrong.word[0]++;
    EXPECT(GPUD_PEER, gpud_memory_import(side->device, &wrong, 1000, GPUD_USAGE_SHARE, &again, &e));
    for (uint64_t id = 0; id < 100; id++) {
        wrong = handle;
        wrong.word[1] = id < 50 ? id : UINT64_MAX - id;
        if (wrong.word[1] != handle.word[1])
            EXPECT(GPUD_PEER,
                   gpud_memory_import(side->device, &wrong, 1000, GPUD_USAGE_SHARE, &again, &e));
    }
    gpud_memory_unref(&memory);
    EXPECT(GPUD_PEER,
           gpud_memory_import(side->device, &handle, 1000, GPUD_USAGE_SHARE, &again, &e));
    CHECK(!again, "a refusal leaves something behind");
}

/* --- other processes -------------------------------------------------------------------------- */

static void test_target(struct side *side, const char *device)
{
    struct gpud_error error;
    struct gpud_memory *memory;
    enum gpud_status status =
        gpud_memory_alloc_for(side->device, 3 * PAGE + 5, GPUD_USAGE_TARGET, &memory, &error);
    if (status == GPUD_UNSUPPORTED) {
        CHECK(!side->device->info.direct_writes, "direct_writes is announced, but refused: %s",
              error.reason);
        say("no process can write its memory: %s", error.reason);
        return;
    }
    CHECK(status == GPUD_OK, "no memory for others to write: %s", error.reason);
    say("another process writes memory made for that");
    unsigned char *data = map_whole(side, memory, GPUD_READ);
    for (uint64_t i = 0; i < memory->size; i++)
        CHECK(data[i] == 0, "byte %llu is %u before the first write", (unsigned long long)i,
              data[i]);
    unmap_whole(side, memory, data);

    struct order order = {.task = PEER_WRITES, .size = memory->size, .seed = 42};
    WORKS(gpud_memory_export(memory, &order.memory, &e));
    PEER_FINISH(peer_start(device, &order));
    READ_PATTERN(side, memory, 42);

    say("what it gave away cannot be read, mapped or given on by others where the device forbids "
        "it");
    struct gpud_memory *far;
    struct gpud_handle handle;
    struct side other = side_open(device);
    EXPECT(GPUD_PEER, gpud_memory_import(other.device, &order.memory, memory->size + 1,
                                         GPUD_USAGE_TARGET, &far, &e));
    WORKS(
        gpud_memory_import(other.device, &order.memory, memory->size, GPUD_USAGE_TARGET, &far, &e));
    EXPECT(GPUD_INVALID, gpud_memory_export(far, &handle, &e));
    send_pattern(&other, far, 43);
    READ_PATTERN(side, memory, 43);
    if (side->device->caps & GPUD_CAP_BUS_ADDRESSABLE) {
        void *mapped;
        struct gpud_memory *near = alloc(&other, PAGE);
        struct gpud_copy copy = {.to = near, .from = far, .row_bytes = 1, .rows = 1};
        EXPECT(GPUD_UNSUPPORTED, gpud_queue_copy(other.queue, &copy, &e));
        EXPECT(GPUD_UNSUPPORTED,
               gpud_queue_map(other.queue, far, 0, 1, GPUD_READ, SOON, &mapped, &e));
        gpud_memory_unref(&near);
    }
    gpud_memory_unref(&far);
    side_close(&other);
    if (order.memory.fd >= 0)
        close(order.memory.fd);
    gpud_memory_unref(&memory);
}

static void test_share(struct side *side, const char *device)
{
    struct gpud_error error;
    struct gpud_memory *memory;
    enum gpud_status status =
        gpud_memory_alloc_for(side->device, 3 * PAGE + 5, GPUD_USAGE_SHARE, &memory, &error);
    if (!(side->device->caps & GPUD_CAP_SHARE)) {
        CHECK(status == GPUD_UNSUPPORTED, "sharing is not announced, but not refused either");
        say("no process can map its memory: %s", error.reason);
        return;
    }
    CHECK(status == GPUD_OK, "no memory for others to map: %s", error.reason);
    say("another process reads memory made for that, and cannot write it");
    struct order order = {.task = PEER_READS, .size = memory->size, .seed = 17};
    write_pattern(side, memory, 17);
    WORKS(gpud_memory_export(memory, &order.memory, &e));
    PEER_FINISH(peer_start(device, &order));
    struct gpud_memory *far;
    if (is_cpu_addressable(side))
        EXPECT(GPUD_NO_ACCESS, gpud_memory_import(side->device, &order.memory, memory->size,
                                                  GPUD_USAGE_TARGET, &far, &e));
    gpud_memory_unref(&memory);
    /* The importer's pages outlive the owner. */
    WORKS(gpud_memory_import(side->device, &order.memory, order.size, GPUD_USAGE_SHARE, &far, &e));
    READ_PATTERN(side, far, 17);
    struct gpud_copy copy = {.to = far, .from = far, .row_bytes = 1, .rows = 1, .to_offset = 9};
    EXPECT(GPUD_INVALID, gpud_queue_copy(side->queue, &copy, &e));
    gpud_memory_unref(&far);
    close(order.memory.fd);
}

/* --- lies ------------------------------------------------------------------------------------- */

static void refuse(struct side *side, enum gpud_status wanted, struct gpud_handle handle,
                   uint64_t size)
{
    struct gpud_memory *memory = NULL;
    EXPECT(wanted, gpud_memory_import(side->device, &handle, size, GPUD_USAGE_TARGET, &memory, &e));
    CHECK(!memory, "a refusal leaves something behind");
}

static int make_file(uint64_t size, int seals)
{
    int fd = memfd_create("conformance", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0, "memfd: %s", strerror(errno));
    CHECK(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0, "seals: %s", strerror(errno));
    return fd;
}

static void test_lies_of_files(struct side *side)
{
    say("descriptors that are unsealed, too short, or no memfd are refused");
    int unsealed = make_file(8192, 0), half = make_file(8192, F_SEAL_GROW),
        small = make_file(4096, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
        empty = make_file(0, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    int other = open("/dev/zero", O_RDWR | O_CLOEXEC), ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0 && other >= 0, "pipe2: %s", strerror(errno));
    int fds[] = {unsealed, half, small, empty, other, ends[0], ends[1], -1, 1000000};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        refuse(side, GPUD_PEER,
               (struct gpud_handle){.type = GPUD_HANDLE_MEMFD, .fd = fds[i], .size = 8192}, 8192);
    refuse(side, GPUD_PEER,
           (struct gpud_handle){.type = GPUD_HANDLE_MEMFD, .fd = small, .size = 4095}, 4096);
    refuse(side, GPUD_INVALID,
           (struct gpud_handle){.type = GPUD_HANDLE_MEMFD, .fd = small, .size = 4096}, 0);
    for (uint32_t type = 0; type < 10; type++)
        if (type != GPUD_HANDLE_MEMFD)
            refuse(side, GPUD_PEER, (struct gpud_handle){.type = type, .fd = small, .size = 4096},
                   4096);
    for (size_t i = 0; i < 7; i++)
        close(fds[i]);
}

static void test_lies_of_addresses(struct side *side)
{
    say("bus addresses that are zero, unaligned, unused or wrap around are refused");
    struct gpud_handle good, bad;
    struct gpud_memory *memory = NEW_MEMORY_FOR(side->device, 4 * PAGE, GPUD_USAGE_TARGET);
    WORKS(gpud_memory_export(memory, &good, &e));
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
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        bad = good;
        bad.word[0] = lies[i][0];
        bad.word[1] = lies[i][1];
        refuse(side, GPUD_PEER, bad, 4 * PAGE);
    }
    for (uint32_t type = 0; type < 10; type++) {
        bad = good;
        bad.type = type;
        if (type != GPUD_HANDLE_BUS_ADDRESS)
            refuse(side, GPUD_PEER, bad, 4 * PAGE);
    }
    struct gpud_memory *far = NULL;
    EXPECT(GPUD_UNSUPPORTED,
           gpud_memory_import(side->device, &good, 4 * PAGE, GPUD_USAGE_SHARE, &far, &e));
    gpud_memory_unref(&memory);
    say("so is an address whose owner has freed it");
    for (int64_t deadline = gpud_deadline(5 * GPUD_SEC);; usleep(1000)) {
        /* The driver may let go of the memory a moment later. */
        if (gpud_memory_import(side->device, &good, 4 * PAGE, GPUD_USAGE_TARGET, &far, NULL) !=
            GPUD_OK)
            break;
        gpud_memory_unref(&far);
        CHECK(gpud_now() < deadline, "memory that was freed is still there");
    }
    refuse(side, GPUD_PEER, good, 4 * PAGE);
}

/* Descriptors of a driver's own making, and its legacy handles. */
static void test_lies_of_allocations(struct side *side)
{
    say("descriptors that are no allocation, sizes that are not there, and made-up handles are "
        "refused");
    struct gpud_handle good, bad;
    struct gpud_memory *memory = NEW_MEMORY_FOR(side->device, 5 * PAGE, GPUD_USAGE_TARGET);
    WORKS(gpud_memory_export(memory, &good, &e));
    int ends[2], file = make_file(8 << 20, 0), zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
    CHECK(pipe2(ends, O_CLOEXEC) == 0 && zero >= 0, "pipe2: %s", strerror(errno));
    int fds[] = {file, zero, ends[0], ends[1], -1, 1000000};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        bad = good;
        bad.fd = fds[i];
        refuse(side, GPUD_PEER, bad, 5 * PAGE);
    }
    const uint64_t sizes[] = {
        0,         PAGE, good.word[0] - 1, good.word[0] + 1, good.word[0] * 64, UINT64_C(1) << 60,
        UINT64_MAX};
    CHECK(good.fd >= 0, "what can be mapped by others has a descriptor");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        bad = good;
        bad.word[0] = sizes[i];
        refuse(side, GPUD_PEER, bad, 5 * PAGE);
    }
    for (uint32_t type = 0; type < 10; type++) {
        bad = good;
        bad.type = type;
        memset(bad.word, 0x5a, sizeof(bad.word));
        struct gpud_memory *none = NULL;
        if (type == good.type)
            continue;
        CHECK(gpud_memory_import(side->device, &bad, 5 * PAGE, GPUD_USAGE_TARGET, &none, NULL) !=
                  GPUD_OK,
              "a handle of type %u with random words is taken", type);
        CHECK(!none, "a refusal leaves something behind");
    }
    for (size_t i = 0; i < 4; i++)
        close(fds[i]);
    if (good.fd >= 0)
        close(good.fd);
    gpud_memory_unref(&memory);
}

/* A software driver's allocation is a memfd: a copy of it that its owner can still shorten. */
static void refuse_unsealed(struct side *side, struct gpud_handle good)
{
    struct stat file;
    char page[PAGE];
    CHECK(fstat(good.fd, &file) == 0, "fstat: %s", strerror(errno));
    if (!S_ISREG(file.st_mode))
        return;
    struct gpud_handle bad = good;
    bad.fd = make_file((uint64_t)file.st_size, 0);
    for (off_t at = 0; at < file.st_size; at += PAGE) {
        ssize_t got = pread(good.fd, page, PAGE, at);
        CHECK(got > 0 && pwrite(bad.fd, page, (size_t)got, at) == got, "a copy: %s",
              strerror(errno));
    }
    refuse(side, GPUD_PEER, bad, 5 * PAGE);
    close(bad.fd);
}

/* What a Vulkan driver takes from the importer, and must not be asked with: see vulkan/share.c. */
static void test_lies_of_vulkan(struct side *side)
{
    say("sizes and types of memory that the driver does not have, and UUIDs of others are refused");
    const struct vulkan_facts *facts = &gpud_vulkan_device(side->device)->facts;
    struct gpud_memory *memory;
    struct gpud_handle good;
    WORKS(gpud_memory_alloc_for(side->device, 5 * PAGE, GPUD_USAGE_TARGET, &memory, &e));
    WORKS(gpud_memory_export(memory, &good, &e));
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
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        struct gpud_handle bad = good;
        bad.word[lies[i].word] = lies[i].value;
        refuse(side, GPUD_PEER, bad, 5 * PAGE);
    }
    /* A descriptor of a shorter allocation, where it is a file that has a size: others are known to
     * their driver alone. */
    struct gpud_memory *longer;
    struct gpud_handle bad;
    WORKS(gpud_memory_alloc_for(side->device, 64 * PAGE, GPUD_USAGE_TARGET, &longer, &e));
    WORKS(gpud_memory_export(longer, &bad, &e));
    close(bad.fd);
    bad.fd = good.fd;
    if (lseek(good.fd, 0, SEEK_END) >= (off_t)good.word[1])
        refuse(side, GPUD_PEER, bad, 64 * PAGE);
    else
        say("    the size of a descriptor is the driver's to know");
    gpud_memory_unref(&longer);
    refuse_unsealed(side, good);
    say("an import does not move the position that a file shares with other importers");
    struct gpud_memory *again;
    struct stat file;
    CHECK(fstat(good.fd, &file) == 0, "fstat: %s", strerror(errno));
    if (S_ISREG(file.st_mode)) {
        lseek(good.fd, 100, SEEK_SET);
        WORKS(gpud_memory_import(side->device, &good, 5 * PAGE, GPUD_USAGE_TARGET, &again, &e));
        CHECK(lseek(good.fd, 0, SEEK_CUR) == 100, "an import moved it");
        gpud_memory_unref(&again);
    }
    close(good.fd);
    gpud_memory_unref(&memory);
}

/* Memory that the application has from the driver's plain allocator travels by the legacy handle:
 * the allocation's, and where in it the memory begins. */
static void test_legacy(struct side *side, const char *device)
{
    say("another process reads, and writes, memory of the driver's plain allocator");
    struct gpud_gpu *gpu = gpud_gpu(side->device);
    uint64_t address;
    struct gpud_memory *memory[2], *near = NULL;
    gpu->driver->enter(gpu);
    CHECK(gpu->driver->mem_alloc(&address, 1 << 20) == 0, "%s", gpu->driver->allocator);
    gpu->driver->leave(gpu);
    for (int i = 0; i < 2; i++) {
        struct order order = {.task = i ? PEER_WRITES : PEER_READS, .size = 3 * PAGE, .seed = 21};
        void *place = (void *)(uintptr_t)(address + (1 + 5 * (unsigned)i) * PAGE);
        WORKS(gpud_memory_wrap_for(side->device, place, 3 * PAGE,
                                   i ? GPUD_USAGE_TARGET : GPUD_USAGE_SHARE, NULL, NULL, &memory[i],
                                   &e));
        write_pattern(side, memory[i], i ? 1 : 21);
        WORKS(gpud_memory_export(memory[i], &order.memory, &e));
        CHECK(order.memory.type == gpu->driver->ipc_type && order.memory.fd < 0,
              "a handle of type %u", order.memory.type);
        PEER_FINISH(peer_start(device, &order));
        READ_PATTERN(side, memory[i], 21);

        struct gpud_handle bad = order.memory;
        bad.word[0] = (1 << 20) - 3 * PAGE + 1; /* beyond the allocation's end */
        EXPECT(GPUD_UNSUPPORTED, gpud_memory_import(side->device, &order.memory, 3 * PAGE,
                                                    GPUD_USAGE_SHARE, &near, &e));
        EXPECT(GPUD_UNSUPPORTED, gpud_memory_import(side->device, &bad, 3 * PAGE, GPUD_USAGE_SHARE,
                                                    &near, &e)); /* the same process cannot */
        CHECK(!near, "a refusal leaves something behind");
        gpud_memory_unref(&memory[i]);
    }
    for (int64_t deadline = SOON; !gpud_worker_is_idle(&side->context->later); usleep(1000))
        CHECK(gpud_now() < deadline, "memory is not given back");
    gpu->driver->enter(gpu);
    gpu->driver->mem_free(address);
    gpu->driver->leave(gpu);
}

/* --- all of it -------------------------------------------------------------------------------- */

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
    peer_main(argc, argv);
    CHECK(argc == 2, "usage: %s DEVICE", argv[0]);
    say_device(argv[1]);
    twice(everything, argv[1]);
    return 0;
}
