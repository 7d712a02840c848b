/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ring page: the input drives both sides, and overwrites words in between. Whatever the shared
 * words contain, each side's own state stays consistent: no entry is free twice, held twice, or
 * leaves its array. */
#include "fuzz.h"
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

static void check_sender(const struct gpud_page_tx *view, uint32_t taken)
{
    uint8_t seen[GPUD_PAGE_ENTRIES] = {0};
    uint32_t out = 0;
    for (uint32_t i = 0; i < view->free_count; i++)
        if (view->free[i] >= view->entries || seen[view->free[i]]++ || view->out[view->free[i]])
            abort();
    for (uint32_t i = 0; i < view->entries; i++)
        out += view->out[i];
    if (out + view->free_count + taken != view->entries)
        abort();
}

static void check_receiver(const struct gpud_page_rx *view)
{
    uint32_t held = 0;
    for (uint32_t i = 0; i < GPUD_PAGE_ENTRIES; i++)
        held += view->held[i];
    if (held != view->held_count || held > view->entries)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gpud_page page;
    struct fuzz_input input = {data, size};
    struct gpud_page_tx sender;
    struct gpud_page_rx receiver;
    struct gpud_descriptor descriptor;
    struct gpud_error error;
    uint32_t entries = fuzz_number(&input, 1) % GPUD_PAGE_ENTRIES + 1, entry, taken = 0;
    uint64_t sequence = 0;
    memset(&page, 0, sizeof(page));
    gpud_page_rx_init(&receiver, &page, NULL, entries);
    if (gpud_page_tx_init(&sender, &page, NULL, entries, entries, &error) != GPUD_OK)
        abort();
    while (input.size) {
        int got = 0;
        switch (fuzz_number(&input, 1) % 9) {
        case 1:
            gpud_page_announce(&sender, 1);
            /* fall through */
        case 0:
            if (!gpud_page_take(&sender, &entry))
                break;
            memset(&page.sender.descriptor[entry], 0, offsetof(struct gpud_descriptor, meta));
            page.sender.descriptor[entry].sequence = ++sequence;
            gpud_page_publish(&sender, entry);
            break;
        case 2:
            got =
                gpud_page_claim(&receiver, gpud_page_head(&receiver), &entry, &descriptor, &error);
            if (got > 0 && (entry >= entries || descriptor.meta_size > GPUD_FRAME_META_MAX))
                abort();
            break;
        case 3:
            entry = fuzz_number(&input, 1) % entries;
            if (receiver.held[entry]) {
                atomic_bool idle = fuzz_number(&input, 1) & 1;
                gpud_page_give_back(&receiver, entry, &idle);
            }
            break;
        case 4:
            got = gpud_page_reap(&sender, &entry);
            break;
        case 5:
            got = gpud_page_revoke(&sender, &entry);
            break;
        case 6: { /* a word of the head of the page */
            _Atomic uint32_t *words[] = {&page.sender.head,       &page.receiver.claimed,
                                         &page.receiver.returned, &page.sender.messages,
                                         &page.sender.announced,  &page.sender.asleep,
                                         &page.sender.wanted,     &page.receiver.asleep};
            uint32_t which = fuzz_number(&input, 1);
            uint32_t by = fuzz_number(&input, which & 0x80 ? 4 : 1);
            atomic_fetch_add(words[which % (sizeof(words) / sizeof(words[0]))],
                             which & 0x40 ? 0 - by : by);
            break;
        }
        case 7:
            atomic_store(&page.sender.published[fuzz_number(&input, 1) % GPUD_PAGE_ENTRIES],
                         fuzz_number(&input, 1));
            atomic_store(&page.receiver.given_back[fuzz_number(&input, 1) % GPUD_PAGE_ENTRIES],
                         fuzz_number(&input, 1));
            break;
        case 8: {
            struct gpud_descriptor *bent =
                &page.sender.descriptor[fuzz_number(&input, 1) % GPUD_PAGE_ENTRIES];
            bent->meta_size = fuzz_number(&input, 2);
            bent->sequence = fuzz_number(&input, 2);
            bent->flags = fuzz_number(&input, 2);
            break;
        }
        }
        check_sender(&sender, taken);
        check_receiver(&receiver);
        gpud_page_is_announced(&receiver);
        if (got > 0 && entry >= entries)
            abort();
        if (got < 0)
            return 0; /* that link is over */
    }
    return 0;
}
