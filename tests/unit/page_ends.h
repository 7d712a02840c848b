/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Both ends of a ring page in one process. */
#ifndef GPUD_UNIT_PAGE_ENDS_H
#define GPUD_UNIT_PAGE_ENDS_H

#include "support/check.h"
#include "wire/wire.h"

#include <sys/mman.h>

#define ENTRIES 4

/* What the receiving thread is about while an entry is given back. */
static const atomic_bool is_idle = true, is_busy = false;

struct ends {
    struct gpud_page *page;
    struct gpud_page_tx sender;
    struct gpud_page_rx receiver;
    uint64_t sequence;
};

/* A fresh page whose counters stand at `start`, as after that many frames. */
static inline void make(struct ends *ends, uint32_t entries, uint32_t start)
{
    memset(ends, 0, sizeof(*ends));
    ends->page = mmap(NULL, sizeof(struct gpud_page), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(ends->page != MAP_FAILED, "no memory for a page");
    gpud_page_rx_init(&ends->receiver, ends->page, NULL, entries);
    WORKS(gpud_page_tx_init(&ends->sender, ends->page, NULL, entries, entries, &e));
    ends->sender.head = ends->sender.returned = ends->receiver.returned = start;
    atomic_store(&ends->page->sender.head, start);
    atomic_store(&ends->page->sender.announced, start);
    atomic_store(&ends->page->receiver.claimed, start);
    atomic_store(&ends->page->receiver.returned, start);
}

static inline void unmake(struct ends *ends)
{
    munmap(ends->page, sizeof(struct gpud_page));
}

static inline uint32_t publish(struct ends *ends)
{
    uint32_t entry;
    CHECK(gpud_page_take(&ends->sender, &entry), "no credit is left");
    struct gpud_descriptor *descriptor = &ends->page->sender.descriptor[entry];
    memset(descriptor, 0, sizeof(*descriptor));
    descriptor->sequence = ++ends->sequence;
    descriptor->slot = entry;
    descriptor->meta_size = 3;
    memcpy(descriptor->meta, "abc", 3);
    gpud_page_publish(&ends->sender, entry);
    return entry;
}

static inline int claim(struct ends *ends, uint32_t *entry, struct gpud_descriptor *descriptor)
{
    struct gpud_error error = {.reason = ""};
    int got = gpud_page_claim(&ends->receiver, gpud_page_head(&ends->receiver), entry, descriptor,
                              &error);
    CHECK(got >= 0, "a violation where there is none: %s", error.reason);
    return got;
}

/* I6: every entry is in one state; what is neither free, nor taken, is out. */
static inline void check_sum(const struct ends *ends, uint32_t taken)
{
    uint32_t out = 0;
    for (uint32_t i = 0; i < ends->sender.entries; i++)
        out += ends->sender.out[i];
    CHECK_EQUAL(out + ends->sender.free_count + taken, ends->sender.entries);
}

#endif
