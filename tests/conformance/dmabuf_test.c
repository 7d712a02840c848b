/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* dmabuf@DEVICE: memory that has dma-bufs, and memory behind them, or the reason why there is none.
 */
#include "conformance.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096

static bool needed; /* there are dma-bufs here: none is an error */

static void read_zeros(struct side *side, struct gpud_memory *memory)
{
    unsigned char *data = map_whole(side, memory, GPUD_READ);
    for (uint64_t at = 0; at < memory->size; at++)
        CHECK(data[at] == 0, "byte %llu of new memory is %u", (unsigned long long)at, data[at]);
    unmap_whole(side, memory, data);
}

/* What one of them writes, the others see; a part begins where it is said to. */
static void check_dmabufs(struct side *side, struct gpud_memory *own)
{
    int fd = -1, part = -1;
    uint64_t offset = 1, part_offset = 1;
    struct gpud_memory *far, *half;
    write_pattern(side, own, 3);
    WORKS(gpud_memory_export_dmabuf(own, 0, own->size, &fd, &offset, &e));
    CHECK(offset == 0, "it begins at %llu", (unsigned long long)offset);
    CHECK(lseek(fd, 0, SEEK_END) >= 3 * PAGE, "the dma-buf has %lld bytes",
          (long long)lseek(fd, 0, SEEK_END));
    WORKS(gpud_memory_import_dmabuf(side->device, fd, 0, own->size, &far, &e));
    READ_PATTERN(side, far, 3);
    write_pattern(side, far, 4);
    READ_PATTERN(side, own, 4);

    WORKS(gpud_memory_export_dmabuf(own, PAGE, PAGE + 5, &part, &part_offset, &e));
    WORKS(gpud_memory_import_dmabuf(side->device, part, part_offset, PAGE + 5, &half, &e));
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
    EXPECT(GPUD_INVALID, gpud_memory_import_dmabuf(side->device, fd, 1, length, &refused, &e));
    EXPECT(GPUD_INVALID, gpud_memory_import_dmabuf(side->device, fd, UINT64_MAX, 2, &refused, &e));
    EXPECT(GPUD_INVALID, gpud_memory_export_dmabuf(far, 0, far->size, &part, &offset, &e));
    EXPECT(GPUD_UNSUPPORTED, gpud_memory_export(own, &handle, &e));
    CHECK(!refused, "a refusal leaves something behind");
    close(fd);
    close(part);
    gpud_memory_unref(&half);
    gpud_memory_unref(&far);
}

static void test_dmabuf(struct side *side)
{
    say("memory that is to have dma-bufs has them, or is refused with the reason");
    struct gpud_memory *own = NULL, *refused = NULL;
    int fd = -1, plain = memfd_create("no dma-buf", MFD_CLOEXEC);
    uint64_t offset;
    struct gpud_error error;
    bool host = strcmp(gpud_device_kind(side->device), "host") == 0;
    bool imports = side->device->ops->dmabuf && side->device->ops->dmabuf->import &&
                   !side->device->no_dmabuf[0];
    CHECK(plain >= 0 && ftruncate(plain, PAGE) == 0, "no memfd");
    EXPECT(host || imports ? GPUD_INVALID : GPUD_UNSUPPORTED,
           gpud_memory_import_dmabuf(side->device, plain, 0, PAGE, &refused, &e));
    close(plain);
    enum gpud_status status =
        gpud_memory_alloc_for(side->device, 3 * PAGE, GPUD_USAGE_DMABUF, &own, &error);
    CHECK(status == GPUD_OK || status == GPUD_UNSUPPORTED, "no dma-buf: %s", error.reason);
    if (status != GPUD_OK) {
        CHECK(!needed, "none: %s", error.reason);
        say("none: %s", error.reason);
        return;
    }
    read_zeros(side, own);
    EXPECT(GPUD_INVALID, gpud_memory_export_dmabuf(own, PAGE, 2 * PAGE + 1, &fd, &offset, &e));
    EXPECT(GPUD_INVALID, gpud_memory_export_dmabuf(own, UINT64_MAX, 2, &fd, &offset, &e));
    EXPECT(GPUD_INVALID, gpud_memory_export_dmabuf(own, 0, 0, &fd, &offset, &e));
    if (host)
        check_dmabufs(side, own);
    gpud_memory_unref(&own);
}

static void everything(const char *device)
{
    struct side side = side_open(device);
    test_dmabuf(&side);
    side_close(&side);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2 || argc == 3, "usage: %s DEVICE [needed]", argv[0]);
    needed = argc == 3;
    say_device(argv[1]);
    twice(everything, argv[1]);
    return 0;
}
