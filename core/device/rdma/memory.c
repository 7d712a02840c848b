/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Registrations: what a card may read and write. They end with the connection, because the card's
 * context belongs to rdma_cm and may go with the id. */
#include "device/rdma/internal.h"

#include "device/device.h"
#include "device/rdma/ability.h"

#include <errno.h>
#include <stdlib.h>

/* --- failures ------------------------------------------------------------------------------ */

enum gpud_status gpud_rdma_fail_ended(struct gpud_error *error)
{
    return gpud_fail(error, GPUD_PEER, "the connection has ended: nothing is registered any more");
}

/* --- regions ------------------------------------------------------------------------------- */

/* IBV_ACCESS_RELAXED_ORDERING is never set: a frame's bytes must arrive before the word that
 * announces them. */
int gpud_rdma_flags(unsigned access)
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

enum gpud_status gpud_rdma_add_region(struct gpud_rdma *rdma, struct ibv_mr *mr, uint64_t address,
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

static void leave_list(struct gpud_rdma_region *region)
{
    if (!region->link)
        return;
    *region->link = region->next;
    if (region->next)
        region->next->link = region->link;
    region->link = NULL;
}

enum gpud_status gpud_rdma_register(struct gpud_rdma *rdma, void *data, uint64_t size,
                                    unsigned access, struct gpud_rdma_region **region,
                                    struct gpud_error *error)
{
    struct gpud_rdma_region *made = NULL;
    enum gpud_status status;
    gpud_lock_take(&rdma->domain_lock);
    if (rdma->ended) {
        status = gpud_rdma_fail_ended(error);
    } else {
        struct ibv_mr *mr = ibv_reg_mr(rdma->domain, data, size, gpud_rdma_flags(access));
        status = mr ? gpud_rdma_add_region(rdma, mr, (uintptr_t)data, size, access, &made, error)
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
    leave_list(gone);
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
