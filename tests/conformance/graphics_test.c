/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* graphics@cuda: CUDA imports what Vulkan exports on the same GPU. The exporter is the test's own,
 * in the form that the fake driver knows; import@vulkan-cuda-device has a real one. */
#include "conformance.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE ((uint64_t)3 << 20)
#define BYTES (SIZE + 65536) /* of the allocation */

struct exporter {
    struct gpud_handle handle;
    unsigned char *data;
};

static struct exporter make(const struct side *side)
{
    struct exporter made = {.handle = {.type = GPUD_HANDLE_VULKAN_FD, .size = SIZE}};
    char name[64];
    snprintf(name, sizeof(name), "fake-vulkan-v:0:%llu:", (unsigned long long)BYTES);
    made.handle.fd = memfd_create(name, MFD_CLOEXEC);
    CHECK(made.handle.fd >= 0 && ftruncate(made.handle.fd, (off_t)BYTES) == 0, "memfd: %s",
          strerror(errno));
    made.data = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, made.handle.fd, 0);
    CHECK(made.data != MAP_FAILED, "mmap: %s", strerror(errno));
    made.handle.word[GPUD_VULKAN_SIZE] = SIZE;
    made.handle.word[GPUD_VULKAN_BYTES] = BYTES;
    made.handle.word[GPUD_VULKAN_DEDICATED] = 1;
    memcpy(&made.handle.word[GPUD_VULKAN_DEVICE_UUID], side->device->uuid, 16);
    return made;
}

static void end(struct exporter *exporter)
{
    munmap(exporter->data, BYTES);
    if (exporter->handle.fd >= 0)
        close(exporter->handle.fd);
}

static struct gpud_memory *import(struct side *side, const struct gpud_handle *handle,
                                  enum gpud_usage usage)
{
    struct gpud_memory *memory;
    WORKS(gpud_memory_import(side->device, handle, SIZE, usage, &memory, &e));
    CHECK(fcntl(handle->fd, F_GETFD) >= 0, "the caller's descriptor is closed");
    return memory;
}

static void paint(unsigned char *data, uint32_t seed)
{
    for (uint64_t i = 0; i < SIZE; i++)
        data[i] = pattern(i, seed);
}

static void test_both_ways(struct side *side)
{
    say("what Vulkan writes CUDA reads, and the other way round");
    struct exporter exporter = make(side);
    struct gpud_memory *seen = import(side, &exporter.handle, GPUD_USAGE_SHARE);
    struct gpud_memory *target = import(side, &exporter.handle, GPUD_USAGE_TARGET);
    close(exporter.handle.fd);
    exporter.handle.fd = -1;
    for (uint32_t seed = 1; seed < 9; seed += 2) {
        paint(exporter.data, seed);
        READ_PATTERN(side, seen, seed);
        write_pattern(side, target, seed + 1);
        for (uint64_t i = 0; i < SIZE; i++)
            CHECK(exporter.data[i] == pattern(i, seed + 1), "byte %llu", (unsigned long long)i);
    }
    gpud_memory_unref(&target);
    READ_PATTERN(side, seen, 8);
    gpud_memory_unref(&seen);
    end(&exporter);
}

static void refuse(struct side *side, struct gpud_handle lie)
{
    struct gpud_memory *none = NULL;
    EXPECT(GPUD_PEER, gpud_memory_import(side->device, &lie, SIZE, GPUD_USAGE_SHARE, &none, &e));
    CHECK(!none, "a refusal leaves something behind");
    CHECK(lie.fd < 0 || fcntl(lie.fd, F_GETFD) >= 0, "a refusal takes the descriptor");
}

static void test_lies(struct side *side)
{
    say("other GPUs, other sizes and other descriptors are refused");
    struct exporter exporter = make(side);
    const struct {
        unsigned word;
        uint64_t value;
    } lies[] = {
        {GPUD_VULKAN_SIZE, SIZE - 1},
        {GPUD_VULKAN_BYTES, SIZE - 1},
        {GPUD_VULKAN_BYTES, BYTES + 4096},
        {GPUD_VULKAN_BYTES, UINT64_MAX},
        {GPUD_VULKAN_DEVICE_UUID, ~exporter.handle.word[GPUD_VULKAN_DEVICE_UUID]},
        {GPUD_VULKAN_DEVICE_UUID + 1, exporter.handle.word[GPUD_VULKAN_DEVICE_UUID + 1] ^ 1},
    };
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        struct gpud_handle lie = exporter.handle;
        lie.word[lies[i].word] = lies[i].value;
        refuse(side, lie);
    }
    struct gpud_handle lie = exporter.handle;
    lie.fd = -1;
    refuse(side, lie);
    lie.fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    refuse(side, lie);
    close(lie.fd);
    lie.fd = memfd_create("none of Vulkan's", MFD_CLOEXEC);
    CHECK(lie.fd >= 0 && ftruncate(lie.fd, (off_t)BYTES) == 0, "memfd: %s", strerror(errno));
    refuse(side, lie);
    close(lie.fd);
    end(&exporter);
}

int main(int argc, char **argv)
{
    CHECK(argc > 1, "usage: %s DEVICE", argv[0]);
    say_device(argv[1]);
    struct side warm = side_open(argv[1]);
    side_close(&warm);
    struct baseline before = baseline_take();
    struct side side = side_open(argv[1]);
    test_both_ways(&side);
    test_lies(&side);
    side_close(&side);
    BASELINE_CHECK(before);
    return 0;
}
