/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* import@EXPORTER-IMPORTER: memory that one driver exports by descriptor and another driver of the
 * same GPU imports. The rules of acquire and release are watched by the fake driver; a real one
 * does without them now and then. graphics@cuda: CUDA imports what Vulkan exports on the same GPU.
 * The exporter is the test's own, in the form that the fake driver knows;
 * import@vulkan-cuda-device has a real one. */
#include "conformance.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#define SIZE ((uint64_t)3 << 20) /* the exporter rounds it up */

struct pair {
    struct side from, to;
};

/* What is exported, and what the importer sees of it. */
struct shared {
    struct gpud_memory *memory, *seen;
    struct gpud_handle handle;
};

static struct gpud_memory *import(struct side *side, enum gpud_usage usage,
                                  const struct gpud_handle *handle)
{
    struct gpud_memory *memory = IMPORT_MEMORY(side->device, handle, SIZE, usage);
    CHECK(is_open(handle->fd), "the caller's descriptor is closed");
    return memory;
}

static struct shared share(struct pair *pair, enum gpud_usage usage)
{
    struct shared shared = {.memory = NEW_MEMORY_FOR(pair->from.device, SIZE, usage)};
    shared.handle = EXPORT_MEMORY(shared.memory);
    CHECK(shared.handle.fd >= 0, "no descriptor");
    return shared;
}

static struct shared share_both(struct pair *pair, enum gpud_usage usage)
{
    struct shared shared = share(pair, usage);
    shared.seen = import(&pair->to, usage, &shared.handle);
    close(shared.handle.fd);
    shared.handle.fd = -1;
    return shared;
}

static void unshare_all(struct shared *shared)
{
    gpud_memory_unref(&shared->seen);
    gpud_memory_unref(&shared->memory);
    close_handle(&shared->handle);
}

static void test_link(struct pair *pair)
{
    SAY("the importer's driver writes the other's memory, and both say so");
    struct gpud_device_link out = GPUD_INFO_INIT(out), in = GPUD_INFO_INIT(in);
    gpud_device_get_link(pair->to.device, pair->from.device, &out);
    gpud_device_get_link(pair->from.device, pair->to.device, &in);
    CHECK(out.direct, "the importer cannot: %s", out.reason);
    if (!gpud_caps_import(pair->from.device->caps, pair->to.device->caps))
        CHECK(!in.direct && strstr(in.reason, "one GPU under two drivers' names"), "\"%s\"",
              in.reason);
}

static void test_reads(struct pair *pair)
{
    SAY("what the exporter wrote is read, again and again");
    AUTO(unshare_all) struct shared shared = share(pair, GPUD_USAGE_SHARE);
    write_pattern(&pair->from, shared.memory, 1);
    shared.seen = import(&pair->to, GPUD_USAGE_SHARE, &shared.handle);
    close(shared.handle.fd);
    shared.handle.fd = -1;
    for (uint32_t seed = 1; seed < 20; seed++) {
        READ_PATTERN(&pair->to, shared.seen, seed);
        write_pattern(&pair->from, shared.memory, seed + 1);
    }
    gpud_memory_unref(&shared.memory); /* the importer's own reference keeps the pages */
    READ_PATTERN(&pair->to, shared.seen, 20);
}

static void test_writes(struct pair *pair)
{
    SAY("what the importer writes, by copies and by mappings, is the exporter's");
    AUTO(unshare_all) struct shared shared = share_both(pair, GPUD_USAGE_TARGET);
    for (uint32_t seed = 1; seed < 20; seed += 2) {
        send_pattern(&pair->to, shared.seen, seed);
        READ_PATTERN(&pair->from, shared.memory, seed);
        write_pattern(&pair->to, shared.seen, seed + 1);
        READ_PATTERN(&pair->from, shared.memory, seed + 1);
    }
    gpud_memory_unref(&shared.seen);
    READ_PATTERN(&pair->from, shared.memory, 20);
}

static void enqueue(struct gpud_queue *queue, struct gpud_memory *to, struct gpud_memory *from)
{
    copy_whole(queue, to, from);
    WORKS(gpud_queue_flush(queue, &e));
}

static void test_overlap(struct pair *pair)
{
    SAY("mappings that overlap, and copies on another queue meanwhile");
    static _Alignas(4096) unsigned char out[SIZE]; /* as CUDA pins it */
    AUTO(unshare_all) struct shared shared = share_both(pair, GPUD_USAGE_TARGET);
    AUTO(gpud_memory_unref)
    struct gpud_memory *target = WRAP_HOST(pair->to.device, out, SIZE, NULL, NULL);
    AUTO(gpud_queue_unref) struct gpud_queue *other = NEW_QUEUE(pair->to.device);
    struct gpud_queue *queue = pair->to.queue;
    void *first, *second;
    write_pattern(&pair->from, shared.memory, 7);
    WORKS(gpud_queue_map(queue, shared.seen, 0, 4096, GPUD_READ, SOON, &first, &e));
    WORKS(gpud_queue_map(queue, shared.seen, 8192, 4096, GPUD_READ, SOON, &second, &e));
    CHECK_PATTERN(first, 4096, 7);
    WORKS(gpud_queue_unmap(queue, shared.seen, first, &e));
    enqueue(other, target, shared.seen);
    WORKS(gpud_queue_finish(other, SOON, &e));
    CHECK_PATTERN(out, SIZE, 7);
    CHECK_PART(second, 8192, 4096, 7);
    WORKS(gpud_queue_unmap(queue, shared.seen, second, &e));
    WORKS(gpud_queue_finish(queue, SOON, &e));
}

/* By a queue that a user event holds, which hangs on NVIDIA's driver (580): last, to be skipped
 * there. */
static void test_order(struct pair *pair)
{
    SAY("uses of one memory keep their order on two queues");
    static unsigned char in[SIZE], out[SIZE];
    AUTO(unshare_all) struct shared shared = share_both(pair, GPUD_USAGE_TARGET);
    AUTO(gpud_memory_unref)
    struct gpud_memory *source = WRAP_HOST(pair->to.device, in, SIZE, NULL, NULL);
    AUTO(gpud_memory_unref)
    struct gpud_memory *target = WRAP_HOST(pair->to.device, out, SIZE, NULL, NULL);
    AUTO(gpud_queue_unref) struct gpud_queue *other = NEW_QUEUE(pair->to.device);
    fill(in, SIZE, 8);
    struct hold *hold = hold_queue(pair->to.queue);
    enqueue(pair->to.queue, shared.seen, source);
    enqueue(other, target, shared.seen);
    GIVES(GPUD_TIMEOUT, gpud_queue_finish(other, gpud_deadline(20 * GPUD_MSEC), &e));
    release_queue(hold, false);
    WORKS(gpud_queue_finish(other, SOON, &e));
    CHECK_PATTERN(out, SIZE, 8);
    WORKS(gpud_queue_finish(pair->to.queue, SOON, &e));
    READ_PATTERN(&pair->from, shared.memory, 8);
}

static void refuse(struct side *side, struct gpud_handle lie)
{
    REFUSE_IMPORT(GPUD_PEER, side->device, &lie, SIZE, GPUD_USAGE_SHARE);
}

/* A good handle with no descriptor, and with those of other things. */
static void refuse_descriptors(struct side *side, const struct gpud_handle *good, uint64_t bytes)
{
    struct gpud_handle lie = *good;
    int fds[] = {-1, open("/dev/null", O_RDWR | O_CLOEXEC),
                 memfd_create("none-of-a-gpu", MFD_CLOEXEC)};
    CHECK(fds[2] >= 0 && ftruncate(fds[2], (off_t)bytes) == 0, "memfd: %s", strerror(errno));
    for (size_t i = 0; i < COUNT(fds); i++) {
        lie.fd = fds[i];
        refuse(side, lie);
    }
    close(fds[1]);
    close(fds[2]);
}

static void test_lies(struct pair *pair)
{
    SAY("what is no memory of the GPU is refused");
    AUTO(unshare_all) struct shared shared = share(pair, GPUD_USAGE_SHARE);
    const uint64_t sizes[] = {SIZE - 4096, shared.handle.word[0] * 2, UINT64_MAX};
    struct gpud_handle lie = shared.handle;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        lie.word[0] = sizes[i];
        refuse(&pair->to, lie);
    }
    refuse_descriptors(&pair->to, &shared.handle, shared.handle.word[0]);
    lie = shared.handle;
    lie.type = GPUD_HANDLE_MEMFD;
    refuse(&pair->to, lie);
}

/* Mapping takes drivers longer than importing: only some are. */
static void test_cycles(struct pair *pair)
{
    SAY("a thousand imports leave nothing behind");
    AUTO(unshare_all) struct shared shared = share(pair, GPUD_USAGE_SHARE);
    write_pattern(&pair->from, shared.memory, 5);
    struct leaks before = leaks_take();
    int64_t start = gpud_now();
    for (int i = 0; i < 1000; i++) {
        struct gpud_memory *seen = import(&pair->to, GPUD_USAGE_SHARE, &shared.handle);
        void *data;
        if (i % 50 == 0) {
            WORKS(gpud_queue_map(pair->to.queue, seen, 0, 4096, GPUD_READ, SOON, &data, &e));
            CHECK_PATTERN(data, 4096, 5);
            WORKS(gpud_queue_unmap(pair->to.queue, seen, data, &e));
        }
        gpud_memory_unref(&seen);
        CHECK(gpud_now() - start < 60 * GPUD_SEC, "%d imports took a minute", i + 1);
    }
    WORKS(gpud_queue_finish(pair->to.queue, SOON, &e));
    SAY("  %.3f ms each", (double)(gpud_now() - start) / 1e9);
    LEAKS_CHECK(before);
}

static void test_refusal(struct pair *pair)
{
    SAY("it imports nothing, and says so");
    AUTO(unshare_all) struct shared shared = share(pair, GPUD_USAGE_SHARE);
    REFUSE_IMPORT(GPUD_UNSUPPORTED, pair->to.device, &shared.handle, SIZE, GPUD_USAGE_SHARE);
}

/* --- a Vulkan of the test's own --------------------------------------------------------------- */

#define BYTES (SIZE + 65536) /* of the allocation */

static void test_graphics(const char *device)
{
    AUTO(side_close) struct side side = side_open(device);
    struct gpud_handle handle = {.type = GPUD_HANDLE_VULKAN_FD, .size = SIZE};
    char name[64];
    snprintf(name, sizeof(name), "fake-vulkan-v:0:%llu:", (unsigned long long)BYTES);
    handle.fd = memfd_create(name, MFD_CLOEXEC);
    CHECK(handle.fd >= 0 && ftruncate(handle.fd, (off_t)BYTES) == 0, "memfd: %s", strerror(errno));
    unsigned char *data = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, handle.fd, 0);
    CHECK(data != MAP_FAILED, "mmap: %s", strerror(errno));
    handle.word[GPUD_VULKAN_SIZE] = SIZE;
    handle.word[GPUD_VULKAN_BYTES] = BYTES;
    handle.word[GPUD_VULKAN_DEDICATED] = 1;
    memcpy(&handle.word[GPUD_VULKAN_DEVICE_UUID], side.device->uuid, 16);

    SAY("other GPUs, other sizes and other descriptors are refused");
    const struct {
        unsigned word;
        uint64_t value;
    } lies[] = {
        {GPUD_VULKAN_SIZE, SIZE - 1},
        {GPUD_VULKAN_BYTES, SIZE - 1},
        {GPUD_VULKAN_BYTES, BYTES + 4096},
        {GPUD_VULKAN_BYTES, UINT64_MAX},
        {GPUD_VULKAN_DEVICE_UUID, ~handle.word[GPUD_VULKAN_DEVICE_UUID]},
        {GPUD_VULKAN_DEVICE_UUID + 1, handle.word[GPUD_VULKAN_DEVICE_UUID + 1] ^ 1},
    };
    for (size_t i = 0; i < COUNT(lies); i++) {
        struct gpud_handle lie = handle;
        lie.word[lies[i].word] = lies[i].value;
        refuse(&side, lie);
    }
    refuse_descriptors(&side, &handle, BYTES);

    SAY("what Vulkan writes CUDA reads, and the other way round");
    AUTO(gpud_memory_unref) struct gpud_memory *seen = import(&side, GPUD_USAGE_SHARE, &handle);
    struct gpud_memory *target = import(&side, GPUD_USAGE_TARGET, &handle);
    close(handle.fd);
    for (uint32_t seed = 1; seed < 9; seed += 2) {
        fill(data, SIZE, seed);
        READ_PATTERN(&side, seen, seed);
        write_pattern(&side, target, seed + 1);
        CHECK_PATTERN(data, SIZE, seed + 1);
    }
    gpud_memory_unref(&target);
    READ_PATTERN(&side, seen, 8);
    munmap(data, BYTES);
}

int main(int argc, char **argv)
{
    static void (*const tests[])(struct pair *) = {
        test_link, test_reads, test_writes, test_overlap, test_lies, test_cycles, test_order};
    conformance_begin(argc, argv);
    CHECK(argc > 2, "usage: %s EXPORTER IMPORTER [WHICH], or DEVICE graphics", argv[0]);
    bool graphics = strcmp(argv[2], "graphics") == 0;
    if (!graphics)
        say_device(argv[2]);
    struct leaks before = leaks_take();
    if (graphics) {
        test_graphics(argv[1]);
        LEAKS_CHECK(before);
        return 0;
    }
    struct pair pair = {side_open(argv[1]), side_open(argv[2])};
    if (!gpud_caps_import(pair.to.device->caps, pair.from.device->caps))
        test_refusal(&pair);
    else
        for (size_t i = 0; i < COUNT(tests); i++)
            if (argc < 4 || atoi(argv[3]) == (int)i)
                tests[i](&pair);
    side_close(&pair.to);
    side_close(&pair.from);
    LEAKS_CHECK(before);
    return 0;
}
