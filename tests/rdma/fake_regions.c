/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the card may read and write. */
#include "fake_card.h"

#include "support/check.h"

#include <errno.h>
#include <sys/mman.h>

#define PAGE UINT64_C(4096)

struct region {
    struct ibv_mr mr;
    struct region *next;
    char *bytes; /* as the CPU sees them */
    void *mapped;
    uint64_t address, size, mapped_size;
    int access;
};

static struct region *regions;
static uint32_t last_key;

char *fake_find(uint64_t address, uint64_t size, uint32_t key, bool remote, int access)
{
    for (struct region *region = regions; region; region = region->next) {
        if ((remote ? region->mr.rkey : region->mr.lkey) != key ||
            (region->access & access) != access)
            continue;
        uint64_t offset = address - region->address;
        if (address >= region->address && offset <= region->size && size <= region->size - offset)
            return region->bytes + offset;
    }
    return NULL;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *asked)
{
    struct ibv_pd *pd = calloc(1, sizeof(*pd));
    fake_card.domains++;
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    for (struct region *region = regions; region; region = region->next)
        CHECK(region->mr.pd != pd, "the domain is in use");
    free(pd);
    fake_card.domains--;
    return 0;
}

static struct ibv_mr *add_region(struct ibv_pd *pd, char *bytes, uint64_t address, uint64_t size,
                                 int access)
{
    struct region *region = calloc(1, sizeof(*region));
    CHECK(region, "out of memory");
    CHECK(!(access & IBV_ACCESS_REMOTE_WRITE) || access & IBV_ACCESS_LOCAL_WRITE,
          "to be written by others means to be written");
    *region = (struct region){.next = regions,
                              .bytes = bytes,
                              .address = address,
                              .size = size,
                              .access = access,
                              .mr = {.pd = pd, .lkey = ++last_key, .rkey = last_key * 256}};
    regions = region;
    fake_card.regions++;
    return &region->mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *data, size_t size, uint64_t address,
                                unsigned int access)
{
    if (fake_card.register_errno) {
        errno = fake_card.register_errno;
        return NULL;
    }
    return add_region(pd, data, address, size, (int)access);
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *data, size_t size, int access)
{
    return ibv_reg_mr_iova2(pd, data, size, (uintptr_t)data, (unsigned)access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t size, uint64_t address,
                                 int fd, int access)
{
    if (fake_card.dmabuf_errno != EBADF || fd < 0) {
        errno = fake_card.dmabuf_errno;
        return NULL;
    }
    fake_card.dmabufs++;
    fake_card.last_offset = offset;
    fake_card.last_address = address;
    CHECK((offset ^ address) % PAGE == 0, "the offset and the address differ within a page");
    if (fake_card.register_errno) {
        errno = fake_card.register_errno;
        return NULL;
    }
    uint64_t end = (offset + size + PAGE - 1) / PAGE * PAGE;
    void *mapped = mmap(NULL, end, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(mapped != MAP_FAILED, "no dma-buf of that size: %m");
    struct ibv_mr *mr = add_region(pd, (char *)mapped + offset, address, size, access);
    ((struct region *)mr)->mapped = mapped;
    ((struct region *)mr)->mapped_size = end;
    return mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    struct region *gone = (struct region *)mr, **link = &regions;
    while (*link && *link != gone)
        link = &(*link)->next;
    CHECK(*link, "no such registration");
    *link = gone->next;
    if (gone->mapped)
        munmap(gone->mapped, gone->mapped_size);
    free(gone);
    fake_card.regions--;
    return 0;
}
