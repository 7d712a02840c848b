/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* exchange@DEVICE: its memory as dma-bufs that the host maps, and the host's dma-bufs as its
 * memory: both see what the other writes. Where a driver makes no dma-bufs, or does not take the
 * other's, the reason is the result, unless they are needed. */
#include "conformance.h"
#include "support/make.h"

#include <fcntl.h>
#include <gpudirect/device.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE (3 << 20)
#define PART (1 << 20)

static bool needed;

/* NULL: it does not take the other's. */
static struct gpud_memory *import(struct side *side, int fd)
{
    struct gpud_memory *memory = NULL;
    struct gpud_error why = {.reason = ""};
    enum gpud_status status = gpud_memory_import_dmabuf(side->device, fd, 0, SIZE, &memory, &why);
    CHECK(status == GPUD_OK || (status == GPUD_UNSUPPORTED && !needed), "status %d: %s",
          (int)status, why.reason);
    CHECK(fcntl(fd, F_GETFD) >= 0, "the caller's descriptor is closed");
    if (!memory)
        say("  %s", why.reason);
    return memory;
}

static int export(struct gpud_memory *memory)
{
    uint64_t offset = 1;
    int fd = -1;
    WORKS(gpud_memory_export_dmabuf(memory, 0, SIZE, &fd, &offset, &e));
    CHECK(fd >= 0 && offset == 0, "descriptor %d, offset %llu", fd, (unsigned long long)offset);
    return fd;
}

/* The second MiB. */
static void check_part(struct side *side, struct gpud_memory *part, uint32_t seed)
{
    unsigned char *data = map_whole(side, part, GPUD_READ);
    for (uint64_t i = 0; i < PART; i++)
        CHECK(data[i] == pattern(PART + i, seed), "byte %llu", (unsigned long long)i);
    unmap_whole(side, part, data);
}

/* What each side writes, the other one reads. */
static void exchange(struct side *owner, struct gpud_memory *memory, struct side *other)
{
    int fd = export(memory);
    struct gpud_memory *seen = import(other, fd);
    struct gpud_memory *part = NULL;
    if (seen)
        WORKS(gpud_memory_import_dmabuf(other->device, fd, PART, PART, &part, &e));
    close(fd);
    for (uint32_t seed = 1; seen && seed < 9; seed += 2) {
        write_pattern(owner, memory, seed);
        check_part(other, part, seed);
        READ_PATTERN(other, seen, seed);
        write_pattern(other, seen, seed + 1);
        READ_PATTERN(owner, memory, seed + 1);
    }
    gpud_memory_unref(&part);
    gpud_memory_unref(&memory);
    if (seen)
        READ_PATTERN(other, seen, 8); /* which keeps the pages */
    gpud_memory_unref(&seen);
}

static void test_out(struct side *device, struct side *host, enum gpud_usage usage)
{
    exchange(device, NEW_MEMORY_FOR(device->device, SIZE, usage), host);
}

static void test_in(struct side *device, struct side *host)
{
    struct gpud_error why;
    struct gpud_memory *memory;
    if (gpud_memory_alloc(host->device, SIZE, GPUD_MEMORY_DMABUF, &memory, &why) != GPUD_OK) {
        CHECK(!needed, "%s", why.reason);
        say("  %s", why.reason);
        return;
    }
    exchange(host, memory, device);
}

/* A ring that another process lends is handed on to this process's other drivers. */
static void test_again(struct side *device, struct side *host)
{
    struct side peer = side_open(device->device->info.name);
    struct gpud_memory *memory = NEW_MEMORY_FOR(peer.device, SIZE, GPUD_USAGE_SHARE), *seen;
    struct gpud_handle handle;
    struct gpud_error why;
    uint64_t offset;
    int fd;
    WORKS(gpud_memory_export(memory, &handle, &e));
    WORKS(gpud_memory_import(device->device, &handle, SIZE, GPUD_USAGE_SHARE, &seen, &e));
    close(handle.fd);
    write_pattern(&peer, memory, 3);
    if (gpud_memory_export_dmabuf(seen, 0, SIZE, &fd, &offset, &why) == GPUD_OK) {
        struct gpud_memory *read = import(host, fd);
        close(fd);
        if (read)
            READ_PATTERN(host, read, 3);
        gpud_memory_unref(&read);
    } else {
        say("  %s", why.reason);
    }
    gpud_memory_unref(&seen);
    gpud_memory_unref(&memory);
    side_close(&peer);
}

static void test_lies(struct side *device)
{
    struct gpud_memory *none = NULL;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), small = memfd_create("small", MFD_CLOEXEC);
    CHECK(small >= 0 && ftruncate(small, SIZE - 4096) == 0, "no memfd");
    for (int i = 0; i < 2; i++) {
        int fd = i ? small : null;
        struct gpud_error why = {.reason = ""};
        enum gpud_status status =
            gpud_memory_import_dmabuf(device->device, fd, 0, SIZE, &none, &why);
        CHECK(status == GPUD_INVALID, "status %d", (int)status);
        CHECK(!none && why.reason[0], "no reason");
        close(fd);
    }
}

int main(int argc, char **argv)
{
    struct gpud_error why;
    CHECK(argc > 1, "usage: %s DEVICE [needed]", argv[0]);
    needed = argc > 2;
    say_device(argv[1]);
    struct baseline before = baseline_take();
    struct side device = side_open(argv[1]), host = side_open("host");
    if (gpud_device_check_dmabuf(device.device, &why) != GPUD_OK)
        skip("%s", why.reason);
    struct gpud_memory *tried = NULL;
    if (gpud_memory_alloc_for(device.device, SIZE, GPUD_USAGE_DMABUF, &tried, &why) != GPUD_OK)
        skip("%s", why.reason);
    gpud_memory_unref(&tried);
    say("out: memory that is made for it");
    test_out(&device, &host, GPUD_USAGE_DMABUF);
    say("out: memory that another process lends");
    test_again(&device, &host);
    say("in: the host's");
    test_in(&device, &host);
    say("in: what is none is refused");
    test_lies(&device);
    side_close(&host);
    side_close(&device);
    BASELINE_CHECK(before);
    return 0;
}
