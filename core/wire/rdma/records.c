/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* All records of a channel, and when their registrations are released.
 *
 * A card that writes to unregistered memory ends the connection, and with it the links of later
 * epochs. So memory that the other side may write stays registered after its record is destroyed,
 * until the other side is known to have moved to a later record: that one's page is attached here,
 * and the other side has written into its half of it. */
#include "wire/rdma/records.h"

#include "base/fd.h"
#include "wire/rdma/publish.h"

#include <stdlib.h>
#include <sys/mman.h>

void gpud_rdma_free_record(struct rdma_remote *remote)
{
    for (uint32_t i = 0; i < GPUD_RING_MEMORIES_MAX; i++)
        gpud_rdma_unregister(&remote->exposed[i]);
    for (uint32_t i = 0; i < remote->source_count; i++)
        gpud_rdma_unregister(&remote->sources[i].region);
    gpud_rdma_unregister(&remote->theirs);
    gpud_rdma_unregister(&remote->published);
    gpud_rdma_unregister(&remote->metas_region);
    if (remote->metas)
        munmap(remote->metas, remote->metas_size);
    if (remote->pages)
        munmap(remote->pages, sizeof(struct gpud_page) + rdma_own_size(remote));
    gpud_rdma_unref(&remote->rdma);
    gpud_fd_close(&remote->event);
    gpud_lock_destroy(&remote->lock);
    free(remote->sources);
    free(remote);
}

void gpud_rdma_catch_up(struct rdma_channel *channel)
{
    gpud_lock_take(&channel->records_lock);
    for (struct rdma_remote *one = channel->records; one; one = one->next)
        gpud_rdma_catch_up_record(one);
    gpud_lock_release(&channel->records_lock);
}

void gpud_rdma_wake_records(struct rdma_channel *channel)
{
    gpud_lock_take(&channel->records_lock);
    for (struct rdma_remote *one = channel->records; one; one = one->next)
        if (atomic_load(&one->asleep))
            gpud_event_raise(one->event);
    gpud_lock_release(&channel->records_lock);
}

/* Whether the other side has written into its half of the page. */
static bool is_in_use(const struct rdma_remote *remote)
{
    const struct gpud_page *page = remote->base.page;
    const struct gpud_page_identity *identity =
        remote->is_sender ? &page->receiver.identity : &page->sender.identity;
    return remote->was_attached && *(const volatile uint64_t *)&identity->magic != 0;
}

static uint64_t last_in_use(const struct rdma_remote *list)
{
    uint64_t last = 0;
    for (; list; list = list->next)
        if (list->number > last && is_in_use(list))
            last = list->number;
    return last;
}

void gpud_rdma_collect_records(struct rdma_channel *channel, bool all)
{
    struct rdma_remote *gone = NULL, **link = &channel->retired;
    gpud_lock_take(&channel->records_lock);
    uint64_t alive = last_in_use(channel->records), retired = last_in_use(channel->retired);
    uint64_t last = alive > retired ? alive : retired;
    while (*link) {
        struct rdma_remote *one = *link;
        if (!all && one->number >= last) {
            link = &one->next;
            continue;
        }
        *link = one->next;
        one->next = gone;
        gone = one;
    }
    gpud_lock_release(&channel->records_lock);
    while (gone) {
        struct rdma_remote *one = gone;
        gone = one->next;
        gpud_rdma_free_record(one);
    }
}
