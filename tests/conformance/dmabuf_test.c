/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* dmabuf@DEVICE: memory that has dma-bufs, and memory behind them, or the reason why there is none.
 * exchange@DEVICE: its memory as dma-bufs that the host maps, and the host's dma-bufs as its
 * memory: both see what the other writes. Where a driver makes no dma-bufs, or does not take the
 * other's, the reason is the result, unless they are needed. */
#include "conformance.h"

#include <fcntl.h>
#include <sys/mman.h>

#define SIZE (3 << 20)
#define PART (1 << 20)

static bool needed; /* there are dma-bufs here: none is an error */

static struct gpud_memory *behind(struct side *side, int fd, uint64_t offset, uint64_t size)
{
    return GIVEN(struct gpud_memory *,
                 gpud_memory_import_dmabuf(side->device, fd, offset, size, &given, &e));
}

/* --- one device ------------------------------------------------------------------------------- */

/* What one of them writes, the others see; a part begins where it is said to. */
static void check_dmabufs(struct side *side, struct gpud_memory *own)
{
    int fd = -1, part = -1;
    uint64_t offset = 1, part_offset = 1;
    write_pattern(side, own, 3);
    WORKS(gpud_memory_export_dmabuf(own, 0, own->size, &fd, &offset, &e));
    CHECK(offset == 0, "it begins at %llu", (unsigned long long)offset);
    CHECK(lseek(fd, 0, SEEK_END) >= 3 * PAGE, "the dma-buf has %lld bytes",
          (long long)lseek(fd, 0, SEEK_END));
    AUTO(gpud_memory_unref) struct gpud_memory *far = behind(side, fd, 0, own->size);
    READ_PATTERN(side, far, 3);
    write_pattern(side, far, 4);
    READ_PATTERN(side, own, 4);

    WORKS(gpud_memory_export_dmabuf(own, PAGE, PAGE + 5, &part, &part_offset, &e));
    AUTO(gpud_memory_unref) struct gpud_memory *half = behind(side, part, part_offset, PAGE + 5);
    unsigned char *all = map_whole(side, own, GPUD_READ),
                  *some = map_whole(side, half, GPUD_READ | GPUD_WRITE);
    CHECK(memcmp(all + PAGE, some, PAGE + 5) == 0, "the part is another one");
    some[7] ^= 0xff;
    CHECK(all[PAGE + 7] == some[7], "what is written to the part is not in the whole");
    unmap_whole(side, half, some);
    unmap_whole(side, own, all);

    struct gpud_memory *refused = NULL;
    struct gpud_handle handle;
    uint64_t length = (uint64_t)lseek(fd, 0, SEEK_END);
    GIVES(GPUD_INVALID, gpud_memory_import_dmabuf(side->device, fd, 1, length, &refused, &e));
    GIVES(GPUD_INVALID, gpud_memory_import_dmabuf(side->device, fd, UINT64_MAX, 2, &refused, &e));
    GIVES(GPUD_INVALID, gpud_memory_export_dmabuf(far, 0, far->size, &part, &offset, &e));
    GIVES(GPUD_UNSUPPORTED, gpud_memory_export(own, &handle, &e));
    CHECK(!refused, "a refusal leaves something behind");
    close(fd);
    close(part);
}

static void test_dmabuf(struct side *side)
{
    SAY("memory that is to have dma-bufs has them, or is refused with the reason");
    struct gpud_memory *own = NULL, *refused = NULL;
    int fd = -1, plain = memfd_create("no dma-buf", MFD_CLOEXEC);
    uint64_t offset;
    struct gpud_error error;
    bool host = is_kind(side, "host");
    bool imports = side->device->ops->dmabuf && side->device->ops->dmabuf->import &&
                   !side->device->no_dmabuf[0];
    CHECK(plain >= 0 && ftruncate(plain, PAGE) == 0, "no memfd");
    GIVES(host || imports ? GPUD_INVALID : GPUD_UNSUPPORTED,
          gpud_memory_import_dmabuf(side->device, plain, 0, PAGE, &refused, &e));
    close(plain);
    enum gpud_status status =
        gpud_memory_alloc_for(side->device, 3 * PAGE, GPUD_USAGE_DMABUF, &own, &error);
    CHECK(status == GPUD_OK || status == GPUD_UNSUPPORTED, "no dma-buf: %s", error.reason);
    if (status != GPUD_OK) {
        CHECK(!needed, "none: %s", error.reason);
        SAY("none: %s", error.reason);
        return;
    }
    unsigned char *data = map_whole(side, own, GPUD_READ);
    CHECK_ZEROS(data, own->size);
    unmap_whole(side, own, data);
    GIVES(GPUD_INVALID, gpud_memory_export_dmabuf(own, PAGE, 2 * PAGE + 1, &fd, &offset, &e));
    GIVES(GPUD_INVALID, gpud_memory_export_dmabuf(own, UINT64_MAX, 2, &fd, &offset, &e));
    GIVES(GPUD_INVALID, gpud_memory_export_dmabuf(own, 0, 0, &fd, &offset, &e));
    if (host)
        check_dmabufs(side, own);
    gpud_memory_unref(&own);
}

static void everything(const char *device)
{
    AUTO(side_close) struct side side = side_open(device);
    test_dmabuf(&side);
}

/* --- a device and the host ----------------------------------------------------------------------
 */

/* NULL: it does not take the other's. */
static struct gpud_memory *import(struct side *side, int fd)
{
    struct gpud_memory *memory = NULL;
    struct gpud_error why = {.reason = ""};
    enum gpud_status status = gpud_memory_import_dmabuf(side->device, fd, 0, SIZE, &memory, &why);
    CHECK(status == GPUD_OK || (status == GPUD_UNSUPPORTED && !needed), "status %d: %s",
          (int)status, why.reason);
    CHECK(is_open(fd), "the caller's descriptor is closed");
    if (!memory)
        SAY("  %s", why.reason);
    return memory;
}

/* What each side writes, the other one reads. */
static void exchange(struct side *owner, struct gpud_memory *memory, struct side *other)
{
    uint64_t offset = 1;
    int fd = -1;
    WORKS(gpud_memory_export_dmabuf(memory, 0, SIZE, &fd, &offset, &e));
    CHECK(fd >= 0 && offset == 0, "descriptor %d, offset %llu", fd, (unsigned long long)offset);
    AUTO(gpud_memory_unref) struct gpud_memory *seen = import(other, fd), *part = NULL;
    if (seen)
        part = behind(other, fd, PART, PART);
    close(fd);
    for (uint32_t seed = 1; seen && seed < 9; seed += 2) {
        write_pattern(owner, memory, seed);
        unsigned char *data = map_whole(other, part, GPUD_READ);
        CHECK_PART(data, PART, PART, seed);
        unmap_whole(other, part, data);
        READ_PATTERN(other, seen, seed);
        write_pattern(other, seen, seed + 1);
        READ_PATTERN(owner, memory, seed + 1);
    }
    gpud_memory_unref(&part);
    gpud_memory_unref(&memory);
    if (seen)
        READ_PATTERN(other, seen, 8); /* which keeps the pages */
}

/* A ring that another process lends is handed on to this process's other drivers. */
static void test_again(struct side *device, struct side *host)
{
    AUTO(side_close) struct side peer = side_open(device->device->info.name);
    AUTO(gpud_memory_unref)
    struct gpud_memory *memory = NEW_MEMORY_FOR(peer.device, SIZE, GPUD_USAGE_SHARE);
    struct gpud_handle handle = EXPORT_MEMORY(memory);
    AUTO(gpud_memory_unref)
    struct gpud_memory *seen = IMPORT_MEMORY(device->device, &handle, SIZE, GPUD_USAGE_SHARE);
    struct gpud_error why;
    uint64_t offset;
    int fd;
    close(handle.fd);
    write_pattern(&peer, memory, 3);
    if (gpud_memory_export_dmabuf(seen, 0, SIZE, &fd, &offset, &why) == GPUD_OK) {
        AUTO(gpud_memory_unref) struct gpud_memory *read = import(host, fd);
        close(fd);
        if (read)
            READ_PATTERN(host, read, 3);
    } else {
        SAY("  %s", why.reason);
    }
}

static void test_lies(struct side *device)
{
    int fds[] = {open("/dev/null", O_RDWR | O_CLOEXEC), memfd_create("small", MFD_CLOEXEC)};
    CHECK(fds[1] >= 0 && ftruncate(fds[1], SIZE - 4096) == 0, "no memfd");
    for (int i = 0; i < 2; i++) {
        struct gpud_memory *none = NULL;
        GIVES(GPUD_INVALID, gpud_memory_import_dmabuf(device->device, fds[i], 0, SIZE, &none, &e));
        CHECK(!none, "a refusal leaves something behind");
        close(fds[i]);
    }
}

static void exchange_both_ways(const char *name)
{
    struct gpud_error why;
    AUTO(side_close) struct side device = side_open(name);
    AUTO(side_close) struct side host = side_open("host");
    struct gpud_memory *memory = NULL;
    if (gpud_device_check_dmabuf(device.device, &why) != GPUD_OK ||
        gpud_memory_alloc_for(device.device, SIZE, GPUD_USAGE_DMABUF, &memory, &why) != GPUD_OK)
        SKIP("%s", why.reason);
    SAY("out: memory that is made for it");
    exchange(&device, memory, &host);
    SAY("out: memory that another process lends");
    test_again(&device, &host);
    SAY("in: the host's");
    if (gpud_memory_alloc(host.device, SIZE, GPUD_MEMORY_DMABUF, &memory, &why) == GPUD_OK) {
        exchange(&host, memory, &device);
    } else {
        CHECK(!needed, "%s", why.reason);
        SAY("  %s", why.reason);
    }
    SAY("in: a descriptor that is not a dma-buf is refused");
    test_lies(&device);
}

int main(int argc, char **argv)
{
    conformance_begin(argc, argv);
    bool exchanges = argc > 2 && strcmp(argv[2], "exchange") == 0;
    needed = argc > 2 && strcmp(argv[argc - 1], "needed") == 0;
    if (!exchanges) {
        twice(everything, argv[1]);
        return 0;
    }
    struct leaks before = leaks_take();
    exchange_both_ways(argv[1]);
    LEAKS_CHECK(before);
    return 0;
}
