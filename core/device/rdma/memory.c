/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory that a card may access. */
#include "device/rdma/internal.h"

#include "base/base.h"
#include "device/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* === memory ================================================================================== */
/* Registrations: what a card may read and write. They end with the connection, because the card's
 * context belongs to rdma_cm and may go with the id. */

/* --- failures ------------------------------------------------------------------------------ */

static enum gpud_status rdma_fail_ended(struct gpud_error *error)
{
    return gpud_fail(error, GPUD_PEER, "the connection has ended: nothing is registered any more");
}

/* --- regions ------------------------------------------------------------------------------- */

/* IBV_ACCESS_RELAXED_ORDERING is never set: a frame's bytes must arrive before the word that
 * announces them. */
static int rdma_flags(unsigned access)
{
    int flags = 0;
    if (access & (GPUD_RDMA_LOCAL_WRITE | GPUD_RDMA_REMOTE_WRITE))
        flags |= IBV_ACCESS_LOCAL_WRITE;
    if (access & GPUD_RDMA_REMOTE_WRITE)
        flags |= IBV_ACCESS_REMOTE_WRITE;
    if (access & GPUD_RDMA_REMOTE_READ)
        flags |= IBV_ACCESS_REMOTE_READ;
    return flags;
}

/* Makes a region of a registration, and takes it over, also on failure. With domain_lock held. */
static enum gpud_status rdma_add_region(struct gpud_rdma *rdma, struct ibv_mr *mr, uint64_t address,
                                        uint64_t size, unsigned access,
                                        struct gpud_rdma_region **region, struct gpud_error *error)
{
    struct gpud_rdma_region *made = calloc(1, sizeof(*made));
    if (!made) {
        ibv_dereg_mr(mr);
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a registration");
    }
    made->rdma = gpud_rdma_ref(rdma);
    made->mr = mr;
    made->address = address;
    made->size = size;
    made->access = access;
    made->local_key = mr->lkey;
    made->remote_key = mr->rkey;
    gpud_lock_take(&rdma->lock);
    made->next = rdma->regions;
    made->link = &rdma->regions;
    if (made->next)
        made->next->link = &made->next;
    rdma->regions = made;
    gpud_lock_release(&rdma->lock);
    *region = made;
    return GPUD_OK;
}

enum gpud_status gpud_rdma_register(struct gpud_rdma *rdma, void *data, uint64_t size,
                                    unsigned access, struct gpud_rdma_region **region,
                                    struct gpud_error *error)
{
    struct gpud_rdma_region *made = NULL;
    enum gpud_status status;
    gpud_lock_take(&rdma->domain_lock);
    if (rdma->ended) {
        status = rdma_fail_ended(error);
    } else {
        struct ibv_mr *mr = ibv_reg_mr(rdma->domain, data, size, rdma_flags(access));
        status = mr ? rdma_add_region(rdma, mr, (uintptr_t)data, size, access, &made, error)
                    : gpud_rdma_fail_register(error, errno, rdma->card, size);
    }
    gpud_lock_release(&rdma->domain_lock);
    if (status == GPUD_OK) {
        made->host = data;
        *region = made;
    }
    return status;
}

void gpud_rdma_unregister(struct gpud_rdma_region **region)
{
    if (!region || !*region)
        return;
    struct gpud_rdma_region *gone = *region;
    struct gpud_rdma *rdma = gone->rdma;
    *region = NULL;
    gpud_lock_take(&rdma->domain_lock);
    gpud_lock_take(&rdma->lock);
    if (gone->link) {
        *gone->link = gone->next;
        if (gone->next)
            gone->next->link = gone->link;
    }
    gpud_lock_release(&rdma->lock);
    if (gone->mr)
        ibv_dereg_mr(gone->mr);
    gpud_lock_release(&rdma->domain_lock);
    gpud_memory_unref(&gone->memory);
    gpud_rdma_unref(&rdma);
    free(gone);
}

uint64_t gpud_rdma_region_address(const struct gpud_rdma_region *region)
{
    return region->address;
}

uint32_t gpud_rdma_region_key(const struct gpud_rdma_region *region)
{
    return region->remote_key;
}

/* === device_memory =========================================================================== */
/* Registers a device's memory by the first of two ways that works: a dma-buf of its driver, or
 * peermem, where the card's driver asks the device's for the pages behind an address. Both are
 * tried for each memory, because one refusal says nothing about the next. */

/* The address of device memory that the peer uses, plus the offset in its dma-buf. It is aligned to
 * any page size, so that the card can use large pages, and hides the device's own address. */
#define DMABUF_ADDRESS (UINT64_C(1) << 32)

/* Size of the trial registration. */
#define TRIAL_SIZE (UINT64_C(1) << 16)

/* --- by dma-buf ---------------------------------------------------------------------------- */

/* With domain_lock held. */
static enum gpud_status register_dmabuf(struct gpud_rdma *rdma, struct gpud_memory *memory,
                                        unsigned access, struct gpud_rdma_region **region,
                                        struct gpud_error *error)
{
    int fd = -1;
    uint64_t offset = 0;
    /* Whether the card takes dma-bufs: it rejects either the descriptor or the call itself. */
    gpud_lock_take(&rdma->lock);
    int answer = rdma->dmabuf_errno;
    gpud_lock_release(&rdma->lock);
    if (answer == 0)
        answer = gpud_rdma_ask_dmabuf(rdma->domain);
    if (answer == EBADF || answer == EOPNOTSUPP || answer == EPROTONOSUPPORT) {
        gpud_lock_take(&rdma->lock);
        rdma->dmabuf_errno = answer;
        gpud_lock_release(&rdma->lock);
    }
    enum gpud_status status = gpud_rdma_explain_dmabuf(answer, rdma->card, error);
    if (status == GPUD_OK)
        status = gpud_memory_export_dmabuf(memory, 0, memory->size, &fd, &offset, error);
    if (status != GPUD_OK)
        return status;
    uint64_t address = DMABUF_ADDRESS + offset;
    struct ibv_mr *mr =
        ibv_reg_dmabuf_mr(rdma->domain, offset, memory->size, address, fd, rdma_flags(access));
    int number = errno;
    /* The registration keeps the dma-buf alive. */
    gpud_fd_close(&fd);
    if (mr)
        return rdma_add_region(rdma, mr, address, memory->size, access, region, error);
    errno = number;
    return gpud_fail_errno(error, "%s cannot register the dma-buf of %llu bytes of %s", rdma->card,
                           (unsigned long long)memory->size, memory->device->info.name);
}

/* --- by peermem ---------------------------------------------------------------------------- */

/* With domain_lock held. */
static enum gpud_status register_peermem(struct gpud_rdma *rdma, struct gpud_memory *memory,
                                         unsigned access, struct gpud_rdma_region **region,
                                         struct gpud_error *error)
{
    enum gpud_status status = gpud_rdma_check_peermem(memory->device->ops, error);
    if (status == GPUD_OK)
        status = gpud_memory_before_dma(memory, error);
    if (status != GPUD_OK)
        return status;
    /* Always writable: for read-only registrations, kernels before 6.2 pin any page at such an
     * address, if the card's driver does not ask the device's. */
    struct ibv_mr *mr = ibv_reg_mr(rdma->domain, memory->native, memory->size,
                                   rdma_flags(access | GPUD_RDMA_LOCAL_WRITE));
    if (mr)
        return rdma_add_region(rdma, mr, (uintptr_t)memory->native, memory->size, access, region,
                               error);
    return gpud_fail_errno(error, "%s cannot register %llu bytes of %s by their address",
                           rdma->card, (unsigned long long)memory->size, memory->device->info.name);
}

/* --- both ways ------------------------------------------------------------------------------ */

enum gpud_status gpud_rdma_register_memory(struct gpud_rdma *rdma, struct gpud_memory *memory,
                                           unsigned access, struct gpud_rdma_region **region,
                                           enum gpud_rdma_way *way, struct gpud_error *error)
{
    struct gpud_error by_dmabuf = {0}, by_peermem = {0};
    struct gpud_rdma_region *made;
    enum gpud_rdma_way found = GPUD_RDMA_HOST;
    enum gpud_status status = GPUD_OK;
    if (memory->host) {
        status = gpud_rdma_register(rdma, memory->host, memory->size, access, &made, error);
    } else {
        gpud_lock_take(&rdma->domain_lock);
        if (rdma->ended)
            status = rdma_fail_ended(error);
        else if (register_dmabuf(rdma, memory, access, &made, &by_dmabuf) == GPUD_OK)
            found = GPUD_RDMA_DMABUF;
        else if (register_peermem(rdma, memory, access, &made, &by_peermem) == GPUD_OK)
            found = GPUD_RDMA_PEERMEM;
        else
            status = gpud_fail(error, GPUD_UNSUPPORTED,
                               "memory of %s cannot be registered: dma-buf: %s; "
                               "peermem: %s",
                               memory->device->info.name, by_dmabuf.reason, by_peermem.reason);
        gpud_lock_release(&rdma->domain_lock);
    }
    if (status != GPUD_OK)
        return status;
    made->memory = gpud_memory_ref(memory);
    *region = made;
    *way = found;
    return GPUD_OK;
}

/* --- what a device allows ------------------------------------------------------------------- */

typedef enum gpud_status register_fn(struct gpud_rdma *rdma, struct gpud_memory *memory,
                                     unsigned access, struct gpud_rdma_region **region,
                                     struct gpud_error *error);

/* Really registers memory of the device, the only reliable test. */
static void try(struct gpud_rdma *rdma, struct gpud_device *device, register_fn *way,
                char why[GPUD_REASON_MAX])
{
    struct gpud_memory *memory = NULL;
    struct gpud_rdma_region *region = NULL;
    struct gpud_error error = {0};
    enum gpud_status status =
        gpud_memory_alloc_for(device, TRIAL_SIZE, GPUD_USAGE_LOCAL, &memory, &error);
    if (status == GPUD_OK) {
        gpud_lock_take(&rdma->domain_lock);
        status = rdma->ended ? rdma_fail_ended(&error)
                             : way(rdma, memory, GPUD_RDMA_REMOTE_WRITE, &region, &error);
        gpud_lock_release(&rdma->domain_lock);
    }
    gpud_rdma_unregister(&region);
    gpud_memory_unref(&memory);
    gpud_print_n(why, GPUD_REASON_MAX, "%s", status == GPUD_OK ? "" : error.reason);
}

static bool has(struct gpud_rdma *rdma, struct gpud_device *device, bool dmabuf,
                char why[GPUD_REASON_MAX])
{
    if (device->caps & GPUD_CAP_CPU_ADDRESSABLE) {
        gpud_print_n(why, GPUD_REASON_MAX, "its memory is the host's");
        return false;
    }
    gpud_lock_take(&rdma->ways_lock);
    struct rdma_ways *ways = rdma->ways;
    while (ways && strcmp(ways->device, device->info.name) != 0)
        ways = ways->next;
    if (!ways && (ways = calloc(1, sizeof(*ways)))) {
        gpud_print(ways->device, "%s", device->info.name);
        ways->next = rdma->ways;
        rdma->ways = ways;
    }
    if (!ways) {
        gpud_print_n(why, GPUD_REASON_MAX, "out of memory");
    } else {
        bool *known = dmabuf ? &ways->dmabuf_known : &ways->peermem_known;
        char *reason = dmabuf ? ways->no_dmabuf : ways->no_peermem;
        if (!*known)
            try(rdma, device, dmabuf ? register_dmabuf : register_peermem, reason);
        *known = true;
        gpud_print_n(why, GPUD_REASON_MAX, "%s", reason);
    }
    gpud_lock_release(&rdma->ways_lock);
    return !why[0];
}

bool gpud_rdma_has_dmabuf(struct gpud_rdma *rdma, struct gpud_device *device,
                          char why[GPUD_REASON_MAX])
{
    return has(rdma, device, true, why);
}

bool gpud_rdma_has_peermem(struct gpud_rdma *rdma, struct gpud_device *device,
                           char why[GPUD_REASON_MAX])
{
    return has(rdma, device, false, why);
}
